"""Pages: what browsers ask for. The same content comes as a page, and as the fragment that replaces it."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse

from driftline._wording import clean
from driftline.monitor import TrackerError
from driftline.report import Markup, esc, fragment, render, tag
from driftline.server import _views as views
from driftline.server._assets import assets
from driftline.server._board import Board
from driftline.server._guard import local_target
from driftline.server._metrics import CONTENT_TYPE, exposition
from driftline.server._points import Span, SpanError, span_of
from driftline.server._streams import Stream, within

__all__ = ["board", "pages"]

pages = APIRouter(include_in_schema=False)
_DIGITS = 6  # of the most windows that a form may ask for
_FOR_A_YEAR = "public, max-age=31536000, immutable"


def board(request: Request) -> Board:
    """Return the board that requests share."""
    found: Board = request.app.state.board
    return found


TheBoard = Annotated[Board, Depends(board)]


def selected(since: str = "", until: str = "", last: str = "") -> Span:
    """Return the span that a form asks for; empty fields are no limit, what cannot be read is said."""
    asked = last.strip()
    number = int(asked) or None if asked.isascii() and asked.isdigit() and len(asked) <= _DIGITS else None
    wrong = [] if number or not asked else [f"last is not a number of windows: write 1 to {10**_DIGITS - 1:,}"]
    try:
        found = span_of(since.strip(), until.strip(), number)
    except SpanError as error:
        wrong.append(str(error))
        found = span_of(None, None, number)
    return replace(found, problem=f"{'; '.join(wrong)}. Until then all is shown.") if wrong else found


TheSpan = Annotated[Span, Depends(selected)]


def _fresh(content: str, version: str) -> HTMLResponse:
    return HTMLResponse(content, headers={"X-Driftline-Version": version})


@pages.get("/")
def overview(found: TheBoard, span: TheSpan) -> Response:
    """Answer with the overview."""
    version = found.hub.version
    content = views.overview(found, span)
    return _fresh(views.page(_title(found), found, span, "/fragment", content), version)


@pages.get("/fragment")
def overview_again(found: TheBoard, span: TheSpan) -> Response:
    """Answer with what replaces the overview."""
    version = found.hub.version
    return _fresh(views.overview(found, span), version)


def _title(found: Board) -> str:
    bad = sum(stream.outcome in ("alarm", "broken") for stream in found.streams.found.values())
    return f"({bad}) driftline" if bad else "driftline"


def _content(found: Board, stream: Stream, span: Span) -> Markup:
    """Return a stream's page: its name, its originals, and the report."""
    return views.heading(stream, span) + views.side_by_side(found, stream, span) + _report(found, stream, span)


def _report(found: Board, stream: Stream, span: Span) -> Markup:
    if stream.problem is not None:
        return _problem(stream.problem, stream.awaited)
    key = (stream.key, stream.version, span.given)
    try:
        return found.fragments.get(key, lambda: fragment(within(found.runs.of(stream), span)))
    except (TrackerError, OSError) as error:  # broken since the last look
        return _problem(clean(str(error)).replace(stream.path, stream.name))


def _problem(text: str, awaited: bool = False) -> Markup:
    said, state = "This tracker file cannot be read, so that nothing is known of its stream.", "alarm"
    if awaited:
        said, state = "No window has been written yet.", "waiting"
    return tag("main", tag("div", tag("h1", esc(said)), tag("p", esc(text)), class_=f"verdict state {state}"))


@pages.get("/streams/{key}")
def stream(key: str, found: TheBoard, span: TheSpan) -> Response:
    """Answer with a stream's page."""
    known, version = found.streams.found.get(key), found.hub.version
    if known is None:
        return HTMLResponse(views.not_found("There is no such stream."), 404)
    trail = tag("span", tag("bdi", esc(known.name)), class_="here")
    title, path = f"{known.name}: {known.outcome}", f"/streams/{key}"
    text = views.page(title, found, span, f"{path}/fragment", _content(found, known, span), trail, path)
    return _fresh(text, version)


@pages.get("/streams/{key}/fragment")
def stream_again(key: str, found: TheBoard, span: TheSpan) -> Response:
    """Answer with what replaces a stream's page."""
    known, version = found.streams.found.get(key), found.hub.version
    if known is None:
        return PlainTextResponse("there is no such stream\n", 404)
    return _fresh(_content(found, known, span), version)


@pages.get("/streams/{key}/snapshot")
def snapshot(key: str, found: TheBoard, span: TheSpan) -> Response:
    """Answer with the report as a file; a browser saves it and does not show it here."""
    known = found.streams.found.get(key)
    if known is None or known.problem is not None:
        return PlainTextResponse("there is no such stream, or it cannot be read\n", 404)
    try:
        run = within(found.runs.of(known), span)
    except (TrackerError, OSError):
        return PlainTextResponse("the tracker file cannot be read\n", 404)
    last = max((record.window for record in run.records), default=0)
    name = f"{key.rpartition('-')[0] or key}-window-{last}.html"
    headers = {
        "Content-Disposition": f'attachment; filename="{name}"',
        "Content-Security-Policy": "sandbox; default-src 'none'",
    }
    return HTMLResponse(render(run), headers=headers)


@pages.get("/events")
async def events(found: TheBoard) -> Response:
    """Answer with server-sent events for as long as the browser listens."""
    if found.hub.full:
        return PlainTextResponse("too many pages are open\n", 503, {"Retry-After": "30"})
    return StreamingResponse(found.hub.events(), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


@pages.get("/assets/{name}")
def asset(name: str) -> Response:
    """Answer with a style or a script."""
    known = assets().get(name)
    if known is None:
        return PlainTextResponse("there is no such file\n", 404)
    return Response(known.content, headers={"Content-Type": known.kind, "Cache-Control": _FOR_A_YEAR})


@pages.get("/metrics")
def metrics(found: TheBoard) -> Response:
    """Answer with all metrics, for Prometheus."""
    return Response(exposition(found.registry), headers={"Content-Type": CONTENT_TYPE})


@pages.get("/login")
def login(found: TheBoard, next: Annotated[str, Query(max_length=500)] = "/", wrong: str = "") -> Response:
    """Answer with the form that asks for the token."""
    return HTMLResponse(views.login(local_target(next), bool(wrong)))
