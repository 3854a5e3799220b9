"""API: streams, points and Records as JSON, described by OpenAPI; and whether the server lives and is ready."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, HTTPException, Query
from pydantic import BaseModel, WithJsonSchema
from starlette.responses import JSONResponse, Response

from driftline.monitor import TrackerError
from driftline.server._models import Problem, RecordPage, StreamDetail, StreamModel, detail_of, model_of
from driftline.server._pages import TheBoard
from driftline.server._points import Span, SpanError, span_of
from driftline.server._streams import Stream, within

__all__ = ["api"]

_PLAIN: dict[str, Any] = {"text/plain": {"schema": {"type": "string"}}}
_GUARDED: dict[int | str, dict[str, Any]] = {
    400: {"description": "the address is too long", "content": _PLAIN},
    421: {"description": "the server does not go by that name", "content": _PLAIN},
    431: {"description": "the headers are too long", "content": _PLAIN},
}
_REFUSED: dict[int | str, dict[str, Any]] = {
    **_GUARDED,
    401: {"model": Problem, "description": "the token is missing or wrong"},
    422: {"model": Problem, "description": "a parameter cannot be what it is"},
}
_LOST: dict[int | str, dict[str, Any]] = {
    404: {"model": Problem, "description": "there is no such stream"},
    409: {"model": Problem, "description": "the tracker file is broken"},
}
# what may be left out is not null, though its default is None
_TIME = WithJsonSchema({"type": "string", "maxLength": 40, "anyOf": [{"format": "date"}, {"format": "date-time"}]})
_COUNT = WithJsonSchema({"type": "integer", "minimum": 1, "maximum": 1_000_000})
_NAME = WithJsonSchema({"type": "string", "maxLength": 200})

api = APIRouter()
Since = Annotated[str | None, Query(max_length=40, description="only windows that end after this time"), _TIME]
Until = Annotated[str | None, Query(max_length=40, description="only windows that begin before it"), _TIME]
Last = Annotated[int | None, Query(ge=1, le=1_000_000, description="only the newest windows, so many"), _COUNT]


def span(since: Since = None, until: Until = None, last: Last = None) -> Span:
    """Return the span that is asked for."""
    try:
        for text in (since, until):
            if text == "":
                raise SpanError("a time is empty: leave it out")
        return span_of(since, until, last)
    except SpanError as error:
        raise HTTPException(422, str(error)) from None


TheSpan = Annotated[Span, Depends(span)]


class Lives(BaseModel):
    """That the server lives, or is ready."""

    status: Literal["ok", "reading"]


@api.get("/healthz", tags=["health"], responses=_GUARDED)
def healthz() -> Lives:
    """Say that the server lives."""
    return Lives(status="ok")


@api.get("/readyz", tags=["health"], response_model=Lives, responses={**_GUARDED, 503: {"model": Lives}})
def readyz(found: TheBoard) -> Response:
    """Say whether all tracker files have been read once."""
    ready = found.streams.ready
    return JSONResponse({"status": "ok" if ready else "reading"}, 200 if ready else 503)


@api.get("/api/streams", tags=["streams"], responses=_REFUSED)
def streams(found: TheBoard, span: TheSpan) -> list[StreamModel]:
    """List all streams with the last window of each original."""
    return [model_of(stream, span) for stream in found.streams.found.values()]


@api.get("/api/streams/{key}", tags=["streams"], responses={**_REFUSED, 404: _LOST[404]})
def stream(
    key: str,
    found: TheBoard,
    span: TheSpan,
    points: Annotated[int, Query(ge=1, le=2000, description="the most points of each original")] = 200,
) -> StreamDetail:
    """Show a stream with its course, neighbouring windows gathered into points."""
    return detail_of(_known(found.streams.found.get(key)), span, points)


@api.get("/api/streams/{key}/records", tags=["streams"], responses={**_REFUSED, **_LOST})
def records(
    key: str,
    found: TheBoard,
    span: TheSpan,
    original: Annotated[str | None, Query(max_length=200, description="only those of this original"), _NAME] = None,
    offset: Annotated[int, Query(ge=0, le=10_000_000, description="Records to leave out")] = 0,
    limit: Annotated[int, Query(ge=1, le=500, description="most Records in the answer")] = 100,
) -> RecordPage:
    """Show the Records of a stream as they are in its tracker file."""
    known = _known(found.streams.found.get(key))
    try:
        if known.problem is not None:
            raise TrackerError(known.problem)
        run = within(found.runs.of(known), span)
    except (TrackerError, OSError):
        raise HTTPException(409, "the tracker file cannot be read") from None
    wanted = [record for record in run.records if original in (None, record.original)]
    some = wanted[offset : offset + limit]
    more = offset + limit if offset + limit < len(wanted) else None
    return RecordPage(records=[record.to_dict() for record in some], total=len(wanted), next=more)


def _known(stream: Stream | None) -> Stream:
    if stream is None:
        raise HTTPException(404, "there is no such stream")
    return stream
