"""Models: what the API answers with. Numbers that are not known are null, as in Records."""

from __future__ import annotations

import math
from typing import Any

from pydantic import BaseModel, Field

from driftline.server._points import Gathered, Point, Span, gathered
from driftline.server._streams import Course, Stream

__all__ = [
    "OriginalModel",
    "PointModel",
    "Problem",
    "RecordPage",
    "StreamDetail",
    "StreamModel",
    "detail_of",
    "model_of",
]

Number = float | None


class Problem(BaseModel):
    """What was wrong with a request."""

    detail: Any = Field(description="what was wrong, in words or as a list of fields")


class LastModel(BaseModel):
    """The last measured window of a span."""

    window: int
    start: Number = Field(description="seconds since 1970; null unless windows are cut by time")
    end: Number
    rows: int
    drift: Number
    low: Number = Field(description="null if the interval was withheld")
    high: Number = Field(description="null if the interval was withheld, or is open above")
    open_above: bool = Field(description="whether the drift is at least `low`, and may be more")
    floor: Number = Field(description="the drift is at least this, whatever the model")
    step: Number
    signal: str
    doubts: int
    effective_rows: Number
    seconds: Number


class OriginalModel(BaseModel):
    """An original of a stream."""

    original: str
    measure: str = Field(description="divergence that is drift here")
    outcome: str = Field(description="waiting, blind, normal, unsure, warning or alarm, as of now")
    sentence: str = Field(description="the outcome in words, as of now")
    windows: int
    rows: int
    rows_left_out: int
    windows_skipped: int
    windows_unmeasured: int = Field(description="last windows in a row that had rows of which nothing was measured")
    last: LastModel | None = Field(description="null if nothing was measured in the span")


class StreamModel(BaseModel):
    """A stream: a tracker file."""

    key: str
    name: str
    outcome: str = Field(description="worst outcome of its originals, or broken")
    problem: str | None = Field(description="why the tracker file cannot be read; null if it can")
    version: int = Field(description="changes with every window")
    committed: Number = Field(description="time of the last commit, seconds since 1970")
    source: str
    tolerance: Number
    originals: list[OriginalModel]


class PointModel(BaseModel):
    """Neighbouring windows as one point; see `points`."""

    first: int
    last: int
    drift: Number = Field(description="mean of their drifts; null if none was measured")
    least: Number
    most: Number
    low: Number = Field(description="lowest end of their intervals; null if one was withheld")
    high: Number = Field(description="highest end; null if one was withheld or is open above")
    open_above: bool
    signal: str = Field(description="worst signal")


class StreamDetail(StreamModel):
    """A stream with its course."""

    points: dict[str, list[PointModel]] = Field(description="by original")


class RecordPage(BaseModel):
    """Some Records of a stream, oldest first."""

    records: list[dict[str, Any]] = Field(description="as in `driftline.monitor.RECORD_SCHEMA`")
    total: int = Field(description="Records of the stream in the span, of the original if one is named")
    next: int | None = Field(description="`offset` of the next page; null on the last one")


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _last(points: list[Point]) -> LastModel | None:
    found = next((point for point in reversed(points) if point.measured), None)
    if found is None:
        return None
    return LastModel(
        window=found.window,
        start=found.start,
        end=found.end,
        rows=found.rows,
        drift=_finite(found.value),
        low=_finite(found.low),
        high=_finite(found.high),
        open_above=math.isinf(found.high),
        floor=_finite(found.floor),
        step=_finite(found.step),
        signal=str(found.signal),
        doubts=found.doubts,
        effective_rows=_finite(found.effective),
        seconds=_finite(found.seconds),
    )


def _original(course: Course, span: Span) -> OriginalModel:
    return OriginalModel(
        original=course.original,
        measure=course.kind,
        outcome=str(course.verdict.outcome),
        sentence=course.verdict.sentence,
        windows=len(course.points),
        rows=course.rows,
        rows_left_out=course.late_rows,
        windows_skipped=course.skipped,
        windows_unmeasured=course.unmeasured,
        last=_last(list(span.of(course.points))),
    )


def model_of(stream: Stream, span: Span) -> StreamModel:
    """Return a stream as the API shows it."""
    return StreamModel(**_fields(stream, span))


def _fields(stream: Stream, span: Span) -> dict[str, Any]:
    return {
        "key": stream.key,
        "name": stream.name,
        "outcome": stream.outcome,
        "problem": stream.problem,
        "version": stream.version,
        "committed": _finite(stream.committed),
        "source": stream.source,
        "tolerance": None if stream.settings is None else stream.settings.tolerance,
        "originals": [_original(course, span) for course in stream.courses],
    }


def detail_of(stream: Stream, span: Span, most: int) -> StreamDetail:
    """Return a stream with its course in at most so many points."""
    points = {c.original: [_point(g) for g in gathered(span.of(c.points), most)] for c in stream.courses}
    return StreamDetail(**_fields(stream, span), points=points)


def _point(found: Gathered) -> PointModel:
    return PointModel(
        first=found.first,
        last=found.last,
        drift=_finite(found.value),
        least=_finite(found.least),
        most=_finite(found.most),
        low=_finite(found.low),
        high=_finite(found.high),
        open_above=math.isinf(found.high),
        signal=str(found.signal),
    )
