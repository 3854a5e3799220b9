"""Sections: the parts of the page about one original, each a function from its history to markup."""

from __future__ import annotations

import math
from collections.abc import Callable

from driftline._wording import (
    between,
    counted,
    is_bound,
    joined,
    measure,
    named,
    number,
    percent,
    precise,
    qualifier,
    shift,
    shown,
    unit,
)
from driftline.monitor import Status
from driftline.report._actions import Worth, worth
from driftline.report._budget import budget, said
from driftline.report._charts import (
    NARROW,
    WIDE,
    divergence_chart,
    gathered,
    scale_note,
    step_chart,
    step_note,
    weights_chart,
)
from driftline.report._histories import History
from driftline.report._plots import Size
from driftline.report._remedies import Action
from driftline.report._svg import Markup, esc, key, tag
from driftline.report._trust import Trust
from driftline.report._verdicts import Outcome, Verdict, level

__all__ = ["act", "course", "opening", "rate", "symbol", "weights"]

Drawing = Callable[[History, Size, str], Markup]

_WEIGHTS = (
    "Weights (original / current) make current rows count as the original's would, for retraining with "
    "sample_weight. The further the data has moved, the fewer rows carry them: the effective sample size says how "
    "many equally weighted rows of the original they are worth."
)
_WORTH = {
    Worth.GOOD: "enough to retrain with, if the model is to be good on the original's population.",
    Worth.POOR: "too few to retrain with, as a handful of rows would decide. Retrain without weights, or with rows "
    "that resemble the original.",
    Worth.UNKNOWN: "not known for the last window.",
}
_TRUST = {Trust.GOOD: "Yes", Trust.BOUND: "As a lower bound", Trust.CARE: "With care", Trust.POOR: "No"}
_SYMBOLS = {
    Outcome.ALARM: '<path d="M7 0.8 13.6 12.8H0.4Z"/>',
    Outcome.WARNING: '<path d="M7 0.4 13.6 7 7 13.6 0.4 7Z"/>',
    Outcome.NORMAL: '<circle cx="7" cy="7" r="6"/>',
}


def symbol(outcome: Outcome) -> Markup:
    """Draw a shape for each outcome, so that colour is not needed."""
    ring = '<path d="M7 0.6a6.4 6.4 0 1 1 0 12.8a6.4 6.4 0 1 1 0-12.8m0 2.6a3.8 3.8 0 1 0 0 7.6a3.8 3.8 0 1 0 0-7.6"/>'
    return tag("svg", _SYMBOLS.get(outcome, ring), viewBox="0 0 14 14", aria_hidden="true")


def opening(history: History, found: Verdict, steps: list[Action], ident: str) -> Markup:
    """Show the verdict and, at a glance, the numbers behind it."""
    badge = tag("span", symbol(found.outcome), esc(found.label), class_="badge")
    follow = ""
    if steps:
        link = tag("a", esc(f"{steps[0].title} ↓"), href=f"#{ident}-act")
        first = "What to do first: " if len(steps) > 1 else "What to do: "
        follow = tag("p", first, link, class_="next")
    block = tag("div", badge, _headline(found), follow, class_=f"verdict state {found.outcome}")
    return block + _tiles(history, found)


def _headline(found: Verdict) -> Markup:
    """Show the sentence, its beginning in bold."""
    first, colon, rest = found.sentence.partition(": ")
    return tag("h1", tag("strong", esc(first + colon)), esc(rest)) if colon else tag("h1", esc(first))


def _tiles(history: History, found: Verdict) -> Markup:
    last = history.last
    if last is None or last.drift is None:
        return ""
    drift, kind, size = last.drift, history.kind, last.effective_sample_size
    span, moved = between(drift), shift(shown(drift).value, kind)
    interval = f"{level(drift)} interval {span}" if span else "no interval"
    least = qualifier(drift)
    tiles = [(f"{least}{precise(drift)}{unit(kind)}", f"{measure(kind)}, {interval}")]
    if math.isfinite(moved):
        digits = 0 if moved >= 100 else 2
        tiles.append((f"{number(moved, digits)} SD", "shift of one normal column that would be as far"))
    if last.columns:
        top = last.columns[0]
        tiles.append((named(top.column, 22), f"moved most by itself: {qualifier(top.drift)}{precise(top.drift)} nats"))
    if math.isfinite(size) and last.rows:
        tiles.append((percent(size / last.rows), f"of the rows are effective with the weights ({number(size, 0)})"))
    trust = _TRUST[found.trust]
    tiles.append((trust, f"can the {tiles[0][0]} be trusted?"))
    boxes = (tag("div", tag("b", esc(big)), tag("small", esc(small)), class_="tile") for big, small in tiles)
    return tag("div", *boxes, class_="tiles")


def _both(draw: Drawing, history: History, ident: str, noted: bool = False) -> Markup:
    """Draw a chart for wide pages and one for narrow ones; the style shows one, a note says what it leaves out."""
    sizes = (("wide", WIDE), ("narrow", NARROW))
    parts = []
    for name, size in sizes:
        note = gathered(history, size) if noted else ""
        caption = tag("p", esc(note), class_="caption") if note else ""
        parts.append(tag("div", draw(history, size, f"{ident}-{name}"), caption, class_=name))
    return tag("figure", *parts)


def _legend(history: History) -> Markup:
    last, settings = history.last, history.settings
    interval = "" if last is None or last.drift is None else level(last.drift)
    band = '<path d="M0 3H26V11H0Z" class="band"/><path d="M1 7H25" class="line"/>'
    keys = [
        key(band, f"divergence, {interval} interval"),
        key('<path d="M0 7H26" class="tolerance"/>', f"tolerance, {number(settings.tolerance)}{unit(history.kind)}"),
        key('<path d="M0 7H26" class="limit"/>', "alarm limit"),
        key('<path d="M0 7H26" class="warning-limit"/>', "warning limit"),
        key('<path d="M8.4 11.6H17.6L13 2Z" class="alarm"/>', "alarm"),
        key('<rect x="9.8" y="3.8" width="6.4" height="6.4" class="warning"/>', "warning"),
        key('<circle cx="13" cy="7" r="4" class="began"/>', "the original"),
    ]
    if any(r.status == Status.SKIPPED for r in history.records):
        keys.append(key('<path d="M2 0H24V14H2Z" class="skipped"/>', "nothing measured (no rows, or too few)"))
    if any(is_bound(record.drift) for record in history.measured if record.drift is not None):
        arrow = '<path d="M0 1H26V11H0Z" class="open"/><path d="M13 13V2M9 6L13 2L17 6" class="open-end"/>'
        keys.insert(1, key(arrow, "lower bound: open above, there may be more drift"))
    return tag("ul", *keys, class_="legend")


def course(history: History, ident: str) -> Markup:
    """Show the divergence over time, and the steps it is made of."""
    if not history.records:
        return ""
    title, chart = tag("h2", "How far the data has moved"), _both(divergence_chart, history, f"{ident}-d", noted=True)
    if not history.measured:
        text = "There is no divergence to draw yet; windows without enough rows are grey."
        return tag("section", title, tag("p", esc(text)), chart, class_="card")
    rows = counted(history.original.rows, "row")
    where = f"The original has {rows} in window {history.original.window:,}"
    about = f"{measure(history.kind)} of each window. {where}; 0 means no drift."
    strip = (
        "The strip on the axis shows when alarms (full height) and warnings (half) stood. Point at a chart for numbers."
    )
    notes = " ".join(filter(None, [_others(history), scale_note(history), strip]))
    steps = (
        "How far each window lies from the one before: KL(current‖previous). A peak is an abrupt change; a triangle "
        "marks one that the alarm named. "
        f"{step_note(history)}"
    )
    return tag(
        "section",
        title,
        tag("p", esc(about), class_="soft"),
        _legend(history),
        chart,
        tag("p", esc(notes), class_="caption"),
        tag("h3", "Step by step", class_="second"),
        tag("p", esc(steps), class_="soft"),
        _both(step_chart, history, f"{ident}-s"),
        class_="card",
    )


def _others(history: History) -> str:
    """Describe the last window in further measures."""
    last = history.last
    others = [] if last is None else list(last.divergences.items())[1:]
    words = [
        f"{measure(kind)} {qualifier(e)}{precise(e)}{unit(kind)}" + (f" ({between(e)})" if between(e) else "")
        for kind, e in others
    ]
    doubts = [f"Of {measure(kind)} this is in doubt: {doubt}." for kind, e in others for doubt in e.doubts]
    return " ".join([f"In other measures the last window has {joined(words)}.", *doubts]) if words else ""


def weights(history: History, ident: str) -> Markup:
    """Show what the weights back to the original are worth."""
    last = history.last
    if last is None or not any(math.isfinite(r.effective_sample_size) for r in history.measured):
        return ""
    size, rows = last.effective_sample_size, last.rows
    known = math.isfinite(size) and rows > 0
    now = f"Now {number(size, 0)} of {counted(rows, 'row')} ({percent(size / rows)}): " if known else "This is "
    return tag(
        "section",
        tag("h2", "What the weights are worth"),
        tag("p", esc(_WEIGHTS), class_="soft"),
        tag("p", esc(now + _WORTH[worth(last)])),
        _both(weights_chart, history, f"{ident}-e"),
        class_="card",
    )


def rate(history: History) -> Markup:
    """Say how fast the drift grows, and when it will reach the tolerance."""
    if history.single or history.last is None:
        return ""
    sentences = said(budget(history), history)
    return tag(
        "section", tag("h2", "Budget"), *(tag("p", esc(sentence)) for sentence in sentences), class_="card budget"
    )


def act(steps: list[Action], ident: str) -> Markup:
    """List the steps to take."""
    items = []
    for step in steps:
        command = tag("pre", tag("code", esc(step.command))) if step.command else ""
        items.append(tag("li", tag("strong", esc(f"{step.title}.")), " ", esc(step.text), command))
    return tag("section", tag("h2", "What to do"), tag("ol", *items, class_="steps"), class_="card", id=f"{ident}-act")
