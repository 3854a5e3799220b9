"""Columns: all of them, those that moved first, each with its history; and the pairs that relate otherwise."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from driftline._wording import between, counted, named, number, percent, precise, qualifier
from driftline.monitor import Record, beside, beyond
from driftline.report._course_charts import chance_said, course_chart
from driftline.report._courses import Course, PairCourse, courses, pair_courses
from driftline.report._histograms import changed, histogram
from driftline.report._histories import History, window_name
from driftline.report._scales import Scale
from driftline.report._svg import Markup, esc, key, px, tag
from driftline.report._timelines import Timeline, timeline

__all__ = ["columns"]

_ABOUT = (
    "By counts in cells that were fixed on the original: KL(current‖original) of each column alone in the last "
    "measured window, with its interval. Those that move together tell the same; they do not add up to the drift of "
    "all. Open a column for its history."
)
_BAR = 400.0  # width in which bars are drawn; the page stretches it
_KEPT = (
    "For histograms the run keeps the original's shares of rows in each bin, names and shares of frequent categories, "
    "share of missing values, mean and standard deviation, but none of its rows. The outer bins, a little apart, are "
    "open: they hold everything beyond."
)
_UNNOTED = "This run notes a column only in windows in which its test speaks."


def columns(history: History, now: Mapping[str, Any], ident: str) -> Markup:
    """Show all columns, those that moved first, and the pairs that relate otherwise."""
    last, found = history.last, courses(history)
    if last is None:
        return ""
    title = tag("h2", "Which columns moved")
    moved, quiet = [c for c in found if c.now is not None], [c for c in found if c.now is None]
    axis = timeline(history.records, history.settings)
    scale = _scale(moved)
    top, after = history.settings.top, len(moved)
    rows = [_row(c, history, now, axis, scale, f"{ident}-c{k}", opened=k < top) for k, c in enumerate(moved)]
    silent = [_row(c, history, now, axis, scale, f"{ident}-c{after + k}") for k, c in enumerate(quiet)]
    said = tag("p", esc(_ABOUT), class_="soft") if moved else tag("p", esc(_none(history, last)))
    rest = [tag("p", esc(f"{text[0].upper()}{text[1:]}."), class_="caption") for text in _rest(last)]
    group = tag("div", *rows, class_="columns moved") if rows else ""
    more = _folded(silent, bool(rows), all(c.seen[c.last] is None for c in quiet)) if silent else ""
    return tag(
        "section",
        title,
        said,
        _legend() if found else "",
        tag("div", group, more, class_="all-columns"),
        *rest,
        _pairs(history),
        tag("p", esc(" ".join(_notes(history, found, now))), class_="caption second") if found else "",
        class_="card",
    )


def _notes(history: History, found: Sequence[Course], now: Mapping[str, Any]) -> list[str]:
    """Say what the histories rest on, and what they lack."""
    noted = any(seen is not None for course in found for seen in course.seen)
    kept = _KEPT if history.original.then and now else "This run has no histograms, since it keeps no summaries."
    return [kept] if noted else [_UNNOTED, kept]


def _none(history: History, last: Record) -> str:
    """Say why no column is named."""
    if history.original.ledger is None and not last.marginals:
        return "This run keeps no counts of its original (no summaries), so it cannot say which columns moved."
    if history.original.ledger is not None and not last.marginals and not last.pairs:
        why = next((note for note in last.notes if note.startswith("columns were not tested")), "")
        untested = "Columns were not tested in the last measured window, so it is not known which of them moved"
        return f"{untested}{why.removeprefix('columns were not tested')}."
    if last.pairs:
        return "No column moved by itself, as far as its own test can tell."
    if last.unexplained is not None:
        return (
            "No column moved by itself, and no two relate otherwise: the drift is in how more columns go together, or "
            "spread thinly over many."
        )
    return "No column moved in the last measured window, as far as its own test can tell, and no two relate otherwise."


def _rest(last: Record) -> list[str]:
    return [text for text in (beyond(last), beside(last)) if text] if last.columns or last.pairs else []


def _folded(rows: Sequence[Markup], more: bool, unknown: bool) -> Markup:
    many = counted(len(rows), "more column" if more else "column")
    what = "of which the last measured window says nothing" if unknown else "whose own test is silent now"
    summary = tag("summary", esc(f"{many}, {what}"))
    return tag("details", summary, tag("div", *rows, class_="columns"), class_="quiet")


def _legend() -> Markup:
    dot = '<path d="M0 7H26" class="line"/><path d="M13 7h0" class="spoke"/>'
    keys = [
        key(dot, "own divergence over time; a dot where its test speaks, with its interval"),
        key(_swatch("then"), "then: the original"),
        key(_swatch("now"), "now: the last measured window"),
    ]
    return tag("ul", *keys, class_="legend")


def _scale(moved: Sequence[Course]) -> Scale:
    """Return the scale of all bars."""
    drifts = [c.now.drift for c in moved if c.now is not None]
    finite = [v for d in drifts for v in (d.value, d.low, d.high) if math.isfinite(v)]
    low, high = min([0.0, *finite]), max([0.0, *finite])
    return Scale(low, high if high > low else low + 1.0, 0.0, _BAR)


def _row(
    course: Course,
    history: History,
    now: Mapping[str, Any],
    axis: Timeline,
    scale: Scale,
    ident: str,
    *,
    opened: bool = False,
) -> Markup:
    """Write one column: a line with its numbers, and its history, which opens on demand."""
    moved, since = course.now, course.since
    name = tag("bdi", esc(course.column))
    cause = "" if moved is None else " " + tag("small", esc(moved.cause))
    if moved is None:
        known = math.isfinite(course.drift)
        nats = tag("b", esc(number(max(course.drift, 0.0)) if known else "–"))
    else:
        span = between(moved.drift)
        nats = tag("b", esc(f"{qualifier(moved.drift)}{precise(moved.drift)}")) + (
            " " + tag("small", esc(span)) if span else ""
        )
    summary = tag(
        "summary",
        tag("span", name, cause, class_="who"),
        _bar(course, scale) if moved is not None else tag("span", class_="bar-room"),
        tag("span", nats, class_="nats"),
        tag("span", tag("small", esc(_test(course, history))), class_="when"),
    )
    chart = course_chart(course, history.records, axis, f"{ident}-l")
    then, after = history.original.then.get(course.column) or {}, now.get(course.column) or {}
    drawn = histogram(course.column, then, after, f"{ident}-h")
    figures = [tag("figure", figure) for figure in (chart, drawn) if figure]
    inside = tag("div", *figures, class_="histograms") if figures else ""
    facts = tag("p", esc(_facts(course, history, then, after)), class_="caption")
    sort = {"data_drift": f"{course.drift:.4g}" if math.isfinite(course.drift) else None}
    sort["data_chance"] = f"{course.chance:.3g}" if math.isfinite(course.chance) else None
    sort["data_since"] = None if since is None else str(since)
    return tag(
        "details",
        summary,
        tag("div", facts, inside, class_="inside"),
        class_="column",
        open="" if opened else None,
        **sort,
    )


def _test(course: Course, history: History) -> str:
    """Say what its test says: since when it speaks, or the chance it sees."""
    if course.since is not None:
        return f"since {_when(history, course.since)}"
    chance = chance_said(course.chance)
    if not chance and any(seen is not None for seen in course.seen):
        return "not tested now"
    return f"chance {chance.removeprefix('of ')}" if chance else ""


def _when(history: History, place: int) -> str:
    return window_name(history.records[place], history.settings)


def _facts(course: Course, history: History, then: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Say in sentences what happened to a column."""
    parts, told = [changed(then, after)], course.windows
    chance = chance_said(course.chance)
    if course.now is not None:
        parts.append(f"Counts as different as these have a chance {chance} in a column that has not moved.")
    elif chance:
        parts.append(f"Its test is silent in the last measured window (chance {chance.removeprefix('of ')}).")
    if told:
        many = f"Its test speaks in {len(told):,} of {counted(len(history.measured), 'measured window')}"
        ended = "" if course.now is not None else f", last in {_when(history, told[-1])}"
        parts.append(f"{many}, first in {_when(history, told[0])}{ended}.")
    seen = course.seen[course.last]
    if seen is not None and seen.new > 0.0:
        parts.append(f"{percent(seen.new)} of the rows now are in cells that no row of the original was in.")
    if parts[0] and then.get("kind") == "numeric":  # else it may begin with a value, which stays as it is
        parts[0] = f"{parts[0][0].upper()}{parts[0][1:]}"
    return " ".join(filter(None, parts))


def _bar(course: Course, scale: Scale) -> Markup:
    assert course.now is not None
    e, zero = course.now.drift, scale(0.0)
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
    return tag(
        "svg", *shapes, viewBox=f"0 0 {px(_BAR)} 14", preserveAspectRatio="none", aria_hidden="true", class_="own"
    )


def _pairs(history: History) -> Markup:
    """List pairs of columns that relate otherwise now, and fold those that did in earlier windows."""
    found, last = pair_courses(history), history.last
    if not found or last is None:
        return ""
    place = max(i for i, r in enumerate(history.records) if r is last)
    standing = [p for p in found if p.found[place] is not None]
    past = [p for p in found if p.found[place] is None]
    about = (
        "Pairs of columns whose relation to each other changed, whatever each did alone, in nats that are in their "
        "dependence; those of several pairs do not add up."
    )
    title = tag("h3", "Pairs that relate otherwise", class_="second") + tag("p", esc(about), class_="soft")
    table = _pair_table(standing, history) if standing else tag("p", "None in the last measured window.")
    if not past:
        return title + table
    summary = tag("summary", esc(f"{counted(len(past), 'pair')} that did in earlier windows, and no longer"))
    return title + table + tag("details", summary, _pair_table(past, history), class_="quiet")


def _pair_table(pairs: Sequence[PairCourse], history: History) -> Markup:
    head = (
        '<th scope="col">pair</th><th scope="col">how</th><th scope="col">windows</th>'
        '<th scope="col" class="n">nats</th>'
    )
    rows = []
    for course in pairs:
        told = course.windows
        pair = course.found[told[-1]]
        assert pair is not None
        names = " with ".join(tag("bdi", esc(named(column, 60))) for column in course.columns)
        first, last = (_when(history, told[k]) for k in (0, -1))
        when = f"{len(told):,}, from {first} to {last}" if len(told) > 1 else last
        nats = tag("td", esc(number(pair.dependence)), class_="n")
        rows.append(tag("tr", tag("th", names, scope="row"), tag("td", esc(pair.cause)), tag("td", esc(when)), nats))
    return tag("table", tag("thead", tag("tr", head)), tag("tbody", *rows), class_="pairs")


def _swatch(kind: str) -> Markup:
    fill = tag("rect", x=1, y=3, width=24, height=9, class_=kind)
    return fill + tag("path", d="M1 12V3H25V12", class_=f"outline {kind}")
