"""Views: the overview, a stream and the login as HTML, without inline style, handler or script."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from urllib.parse import urlencode

from driftline._wording import between, counted, day, joined, measure, named, precise, qualifier, unit
from driftline.alarms import Signal
from driftline.monitor import brought
from driftline.report import Markup, Outcome, esc, symbol, tag
from driftline.server._assets import links
from driftline.server._board import Board
from driftline.server._points import Point, Span
from driftline.server._sparklines import highest, sparkline
from driftline.server._streams import WORSE, Course, Stream

__all__ = ["address", "ago", "draw", "heading", "login", "not_found", "overview", "page", "side_by_side"]

_WORDS = {
    "broken": "Broken",
    Outcome.ALARM: "Alarm",
    Outcome.WARNING: "Warning",
    Outcome.BLIND: "Undecided",
    Outcome.UNSURE: "No alarm, but unsure",
    Outcome.WAITING: "Waiting",
    Outcome.NORMAL: "No alarm",
}
_MANY = {  # how many streams are what
    "broken": "broken",
    Outcome.ALARM: "in alarm",
    Outcome.WARNING: "with a warning",
    Outcome.BLIND: "undecided",
    Outcome.UNSURE: "unsure",
    Outcome.WAITING: "waiting",
    Outcome.NORMAL: "without alarm",
}
_LAST = (20, 100, 500)  # windows that the selector offers


def address(path: str, span: Span) -> str:
    """Return an address on this server with the span in it."""
    return f"{path}?{urlencode(span.given)}" if span.given else path


def ago(seconds: float) -> str:
    """Say how long ago something was.

    >>> ago(4.0), ago(300.0), ago(90000.0)
    ('4 s ago', '5 min ago', '25 h ago')
    """
    if not math.isfinite(seconds):
        return "never"
    for size, word in ((172800.0, "d"), (7200.0, "h"), (120.0, "min")):
        if seconds >= size:
            each = {"d": 86400.0, "h": 3600.0, "min": 60.0}[word]
            return f"{seconds / each:.0f} {word} ago"
    return f"{max(seconds, 0.0):.0f} s ago"


def page(title: str, board: Board, span: Span, live: str, content: Markup, trail: Markup = "", path: str = "/") -> str:
    """Return a whole page around content that is replaced as the files change."""
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<link rel="icon" href="data:,"><title>{esc(title)}</title>{links()}'
    )
    brand = tag("a", "driftline", href=address("/", span), class_="brand")
    state = tag("span", "as of now", id="link", role="status")
    bar = tag(
        "header", tag("nav", brand, trail, aria_label="Where you are"), _selector(span, path), state, class_="bar"
    )
    body = tag(
        "div", content, id="live", data_fragment=address(live, span), data_version=board.hub.version, class_="wrap"
    )
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head>\n<body class="board">{bar}{body}</body></html>\n'


def _selector(span: Span, path: str) -> Markup:
    """Return the one selector of time; it works without a script, and pages pass on what it was set to."""
    given = dict(span.given)
    fields = []
    for name in ("since", "until"):
        value = given.get(name, "")
        text = esc(value[:16].removesuffix("T") if value else "")
        box = f'<input type="text" id="{name}" name="{name}" value="{text}" placeholder="2025-01-31" maxlength="40">'
        fields.append(tag("label", name, " ", box))
    options = [("", "all windows"), *((str(n), f"last {n}") for n in _LAST)]
    if given.get("last", "") not in dict(options):
        options.append((given["last"], f"last {given['last']}"))
    chosen = (
        f'<option value="{esc(value)}"{" selected" if value == given.get("last", "") else ""}>{esc(text)}</option>'
        for value, text in options
    )
    fields.append(tag("label", "show ", f'<select id="last" name="last">{"".join(chosen)}</select>'))
    reset = tag("a", "reset", href=path) if span.given else ""
    return tag("form", *fields, '<button type="submit">apply</button>', reset, action=path, method="get", class_="span")


def overview(board: Board, span: Span) -> Markup:
    """Show all streams, the worst first."""
    found = sorted(board.streams.found.values(), key=lambda s: (-WORSE.index(s.outcome), s.name))
    many = Counter(stream.outcome for stream in found)
    said = [f"{many[outcome]} {_MANY[outcome]}" for outcome in reversed(WORSE) if many[outcome]]
    text = f"{counted(len(found), 'stream')}: {joined(said)}" if found else "No tracker file is there yet"
    if not board.streams.ready:
        text += " (still reading)"
    find = ""
    if len(found) > 6:
        find = tag("label", "find ", '<input type="search" id="find" autocomplete="off">', class_="find")
    notes = [span.problem, _no_times(found, span)]
    if board.streams.left_out:
        notes.append(f"{counted(board.streams.left_out, 'further file')} not shown: there are too many.")
    remarks = "".join(tag("p", esc(note), class_="soft") for note in notes if note)
    cards = "".join(_card(board, stream, span) for stream in found)
    title = tag("div", tag("h1", esc(text)), find, class_="over")
    return tag("main", title, remarks, tag("ul", cards, class_="streams"))


def draw(board: Board, keys: Sequence[str]) -> None:
    """Draw the sparklines of some streams, so that the next overview finds them."""
    for key in keys:
        if (stream := board.streams.found.get(key)) is not None:
            _card(board, stream, Span())


def _no_times(found: Sequence[Stream], span: Span) -> str:
    """Say of which streams the selector shows everything, since their windows have no time."""
    without = [s.name for s in found if any(p.start is None for c in s.courses for p in c.points[-1:])]
    if not span.timed or not without:
        return ""
    names = joined([*without[:3], *([counted(len(without) - 3, "other")] if len(without) > 3 else [])])
    return f"Windows of {names} have no time, so that dates do not choose among them: all are shown."


def _card(board: Board, stream: Stream, span: Span) -> Markup:
    link = tag("a", tag("bdi", esc(stream.name)), href=address(f"/streams/{stream.key}", span))
    badge = _badge(stream.outcome, stream.courses[0].verdict.label if len(stream.courses) == 1 else None)
    head = tag("div", tag("h2", link), badge, class_="head")
    if stream.problem is not None:
        inside = tag("p", esc(stream.problem), class_="soft" if stream.awaited else "problem")
    elif not stream.courses:
        inside = tag("p", "no original yet", class_="soft")
    else:
        inside = "".join(course(board, stream, each, span) for each in stream.courses)
    foot = tag("p", *_foot(stream), class_="foot")
    return tag("li", head, inside, foot, class_=f"stream state {_state(stream.outcome)}", data_name=stream.name)


def _state(outcome: str) -> str:
    """Return the class by which the style colours an outcome; what is broken is as red as an alarm."""
    return "alarm" if outcome == "broken" else outcome


def _badge(outcome: str, label: str | None = None) -> Markup:
    mark = symbol(Outcome.ALARM if outcome == "broken" else Outcome(outcome))
    return tag("span", mark, esc(label or _WORDS[outcome]), class_=f"badge state {_state(outcome)}")


def _foot(stream: Stream) -> list[Markup]:
    parts = []
    if stream.courses:
        first = stream.courses[0]
        parts.append(tag("span", esc(f"{counted(len(first.points), 'window')}, {counted(first.rows, 'row')}")))
    if stream.source:
        parts.append(tag("span", tag("bdi", esc(stream.source)), class_="source"))
    if math.isfinite(stream.committed):
        words = ago(time.time() - stream.committed)
        when = datetime.fromtimestamp(stream.committed, UTC).isoformat(timespec="seconds")
        at = tag("time", esc(words), datetime=when, data_at=f"{stream.committed:.0f}", class_="age")
        parts.append(tag("span", "written ", at))
    return parts


def course(board: Board, stream: Stream, found: Course, span: Span, top: float | None = None) -> Markup:
    """Show one original: what it reads now, or at the end of the span, and the way there."""
    points = span.of(found.points)
    tolerance = 0.0 if stream.settings is None else stream.settings.tolerance
    key = (stream.key, stream.version, found.original, span.given, None if top is None else f"{top:.6g}")
    drawn = board.sparklines.get(key, lambda: sparkline(points, tolerance, top))
    name = "" if len(stream.courses) == 1 else tag("h3", "from ", tag("bdi", esc(found.original)))
    return tag("div", name, _reading(found, points, span), drawn, _window(points), class_="course")


def _reading(found: Course, points: Sequence[Point], span: Span) -> Markup:
    """Say the drift with its interval; of the past, where only points are kept, the number and the signal."""
    last = found.last
    if span.until is not None and points and points[-1] != found.points[-1]:
        at = next((p for p in reversed(points) if p.measured), None)
        return tag("p", "–" if at is None else esc(_past(at, found.kind)), class_="reading")
    if last is None or last.drift is None:
        return tag("p", "nothing measured yet", class_="reading soft")
    drift, interval = last.drift, between(last.drift)
    big = tag("b", esc(f"{qualifier(drift)}{precise(drift)}{unit(found.kind)}"))
    small = tag("small", esc(f"{interval}" if interval else "no interval"))
    alarm = "" if found.verdict.outcome in (Outcome.NORMAL, Outcome.ALARM) else tag("small", esc(found.verdict.label))
    about = f"{measure(found.kind)}; {found.verdict.trust_sentence}"
    why = "" if found.verdict.outcome not in (Outcome.WARNING, Outcome.ALARM) else _why(found) or brought(last)
    return tag("p", big, small, alarm, class_="reading", title=about) + (tag("p", esc(why)) if why else "")


def _why(found: Course) -> str:
    """Say what of the columns moved that brought the signal, or moved most."""
    return "; ".join(f"{named(each.column)}: {each.cause}" for each in found.verdict.carriers)


def _past(point: Point, kind: str) -> str:
    doubt = ", in doubt" if point.doubts else ""
    signal = f", {point.signal}" if point.signal != Signal.NORMAL else ""
    return f"{max(point.value, 0.0):.4g}{unit(kind)}{signal}{doubt} (window {point.window:,})"


def _window(points: Sequence[Point]) -> Markup:
    if not points:
        return tag("p", "no window in this span", class_="soft")
    last = points[-1]
    at = "" if last.start is None else f", from {day(datetime.fromtimestamp(last.start, UTC))}"
    state = "" if last.status != "skipped" else ", skipped"
    return tag("p", esc(f"last: window {last.window:,}{at}{state}"), class_="soft last")


def heading(stream: Stream, span: Span) -> Markup:
    """Show the name of a stream, its state, and where a copy of the report can be had."""
    copy = tag("a", "save as a file", href=address(f"/streams/{stream.key}/snapshot", span), class_="save", download="")
    parts = [tag("h1", tag("bdi", esc(stream.name))), _badge(stream.outcome), *_foot(stream)]
    parts += [copy] if stream.problem is None else []
    said = "".join(tag("p", esc(note), class_="soft") for note in (span.problem, _no_times([stream], span)) if note)
    return tag("section", tag("div", *parts, class_="about"), said, aria_label="Stream", class_="top")


def side_by_side(board: Board, stream: Stream, span: Span) -> Markup:
    """Show all originals of a stream on one scale; nothing if there is only one."""
    if len(stream.courses) < 2:
        return ""
    tolerance = 0.0 if stream.settings is None else stream.settings.tolerance
    top = max(highest(span.of(each.points), tolerance) for each in stream.courses)
    cards = (
        tag("li", _badge(each.verdict.outcome, each.verdict.label), course(board, stream, each, span, top))
        for each in stream.courses
    )
    title = tag("h2", "Originals side by side")
    about = tag("p", "On one scale; the dashed line is the tolerance.", class_="soft")
    return tag("section", title, about, tag("ul", *cards, class_="sides"), class_="card")


def login(target: str, wrong: bool) -> str:
    """Return the page that asks for the token."""
    said = tag("p", "That is not the token.", class_="problem", role="alert") if wrong else ""
    field = '<input type="password" name="token" id="token" required autocomplete="current-password" autofocus>'
    hidden = f'<input type="hidden" name="next" value="{esc(target)}">'
    form = tag(
        "form",
        tag("label", "Token ", field),
        hidden,
        '<button type="submit">look</button>',
        action="/login",
        method="post",
    )
    about = tag("p", "The token is what driftline serve was started with.", class_="soft")
    return _bare("driftline: token", tag("main", tag("h1", "driftline"), said, form, about, class_="wrap login"))


def not_found(text: str) -> str:
    """Return a page that says what is not there."""
    back = tag("p", tag("a", "all streams", href="/"))
    return _bare("driftline: not found", tag("main", tag("h1", esc(text)), back, class_="wrap login"))


def _bare(title: str, body: Markup) -> str:
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<link rel="icon" href="data:,"><title>{esc(title)}</title>{links()}'
    )
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head>\n<body class="board">{body}</body></html>\n'
