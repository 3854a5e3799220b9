"""Columns: which of them moved, by how much, and what they looked like then and now."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from driftline._wording import between, counted, named, number, precise
from driftline.monitor import Moved, Record, beside, beyond
from driftline.report._histograms import changed, histogram
from driftline.report._histories import History
from driftline.report._scales import Scale
from driftline.report._svg import Markup, esc, key, px, tag

__all__ = ["columns"]

_ABOUT = (
    "Columns whose own distribution moved, by counts in cells that were fixed on the original: KL(current‖original) of "
    "each alone in the last measured window, with its interval. Those that move together tell the same; they do not "
    "add up to the drift of all."
)
_PAIRS = 8  # most pairs that are listed
_BAR = 400.0  # width in which bars are drawn; the page stretches it
_KEPT = (
    "For these pictures the run keeps the original's shares of rows in each bin, names and shares of frequent "
    "categories, share of missing values, mean and standard deviation, but none of its rows. The outer bins, a little "
    "apart, are open: they hold everything beyond."
)


def columns(history: History, now: Mapping[str, Any], ident: str) -> Markup:
    """Show which columns moved, and how."""
    last = history.last
    if last is None:
        return ""
    title = tag("h2", "Which columns moved")
    if not last.columns and not last.pairs:
        return tag("section", title, tag("p", esc(_none(history, last))), class_="card")
    return tag(
        "section",
        title,
        tag("p", esc(_ABOUT), class_="soft") if last.columns else "",
        _bars(history) if last.columns else "",
        _pairs(last),
        *(tag("p", esc(f"{text[0].upper()}{text[1:]}."), class_="caption") for text in _rest(history, last)),
        _then_and_now(history, now, ident) if last.columns else "",
        class_="card",
    )


def _none(history: History, last: Record) -> str:
    """Say why no column is named."""
    if history.original.ledger is None:
        return "This run keeps no counts of its original (no summaries), so it cannot say which columns moved."
    if last.unexplained is not None:
        return (
            "No column moved by itself, and no two relate otherwise: the drift is in how more columns go together, or "
            "spread thinly over many."
        )
    return "No column moved in the last measured window, as far as its own test can tell, and no two relate otherwise."


def _rest(history: History, last: Record) -> list[str]:
    shown, pairs = history.settings.top, len(last.pairs)
    more = len(last.columns) - shown
    hidden = (
        [f"{counted(more, 'more column')} moved: {', '.join(m.column for m in last.columns[shown:])}"]
        if more > 0
        else []
    )
    hidden += [f"{counted(pairs - shown, 'more pair')} relate otherwise"] if pairs > shown else []
    return [*hidden, *filter(None, [beyond(last), beside(last)])]


def _pairs(last: Record) -> Markup:
    """List pairs of columns that relate otherwise, as a table."""
    if not last.pairs:
        return ""
    about = (
        "Pairs of columns whose relation to each other changed, whatever each did alone, in nats that are in their "
        "dependence; those of several pairs do not add up."
    )
    head = '<th scope="col">pair</th><th scope="col">how</th><th scope="col" class="n">nats</th>'
    rows = []
    for pair in last.pairs[:_PAIRS]:
        names = " with ".join(tag("bdi", esc(column)) for column in pair.columns)
        nats = tag("td", esc(number(pair.dependence)), class_="n")
        rows.append(tag("tr", tag("th", names, scope="row"), tag("td", esc(pair.cause)), nats))
    table = tag("table", tag("thead", tag("tr", head)), tag("tbody", *rows), class_="bars")
    return tag("p", esc(about), class_="soft second") + table


def _bars(history: History) -> Markup:
    """Draw bars with error bars and their numbers, as a table."""
    last = history.last
    assert last is not None
    parts = last.columns[: history.settings.top]
    ends = [v for p in parts for v in (p.drift.value, p.drift.low, p.drift.high)]
    finite = [v for v in ends if math.isfinite(v)]
    low, high = min([0.0, *finite]), max([0.0, *finite])
    scale = Scale(low, high if high > low else low + 1.0, 0.0, _BAR)
    rows = []
    for part in parts:
        span = between(part.drift)
        nats = esc(precise(part.drift)) + (f'<br><small class="soft">{esc(span)}</small>' if span else "")
        what = tag("small", esc(part.cause), class_="soft")
        name = tag("th", tag("bdi", esc(part.column)), " ", what, _bar(part, scale), scope="row")
        rows.append(tag("tr", name, tag("td", nats, class_="n")))
    head = '<th scope="col">column, and what of it moved most</th><th scope="col" class="n">nats</th>'
    return tag("table", tag("thead", tag("tr", head)), tag("tbody", *rows), class_="bars")


def _bar(part: Moved, scale: Scale) -> Markup:
    e, zero = part.drift, scale(0.0)
    a, b = sorted((zero, scale(e.value) if math.isfinite(e.value) else zero))
    shapes = [tag("rect", x=a, y=2.0, width=max(b - a, 0.5), height=10.0, class_="bar")]
    shapes.append(tag("path", d=f"M{px(zero)} 0V14", class_="zero"))
    if math.isfinite(e.low) and math.isfinite(e.high):
        left, right = px(scale(e.low)), px(scale(e.high))
        shapes.append(tag("path", d=f"M{left} 7H{right}M{left} 3.5V10.5M{right} 3.5V10.5", class_="whisker"))
    elif math.isfinite(e.low):  # open above: an arrow to the end
        left, right, head = px(scale(e.low)), px(_BAR), px(_BAR - 5.0)
        shapes.append(
            tag("path", d=f"M{left} 7H{right}M{left} 3.5V10.5M{head} 3.5L{right} 7L{head} 10.5", class_="whisker")
        )
    return tag("svg", *shapes, viewBox=f"0 0 {px(_BAR)} 14", preserveAspectRatio="none", aria_hidden="true")


def _then_and_now(history: History, now: Mapping[str, Any], ident: str) -> Markup:
    last, then = history.last, history.original.then
    assert last is not None
    title = tag("h3", "Then and now", class_="second")
    figures = []
    for k, part in enumerate(last.columns[: history.settings.top]):
        before, after = then.get(part.column) or {}, now.get(part.column) or {}
        drawn = histogram(part.column, before, after, f"{ident}-h{k}")
        if drawn:
            words = tag("p", esc(changed(before, after)), class_="caption")
            figures.append(tag("figure", tag("h3", tag("bdi", esc(named(part.column, 60)))), words, drawn))
    if not figures:
        kept = "no histograms of these columns" if then and now else "no histograms, since it keeps no summaries"
        return title + tag("p", esc(f"This run has {kept}."), class_="soft")
    keys = [key(_swatch("then"), "then: the original"), key(_swatch("now"), "now: the last measured window")]
    legend = tag("ul", *keys, class_="legend")
    pictures = tag("div", *figures, class_="histograms")
    return "".join([title, legend, pictures, tag("p", esc(_KEPT), class_="caption second")])


def _swatch(kind: str) -> Markup:
    fill = tag("rect", x=1, y=3, width=24, height=9, class_=kind)
    return fill + tag("path", d="M1 12V3H25V12", class_=f"outline {kind}")
