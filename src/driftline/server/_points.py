"""Points: what a dashboard keeps of a Record, the span of time that is asked for, fewer points where pixels are few.

A Record has kilobytes, a point has a dozen numbers: of thousands of windows only the points stay in memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from driftline._wording import moment
from driftline.alarms import Signal
from driftline.monitor import Record, Status

__all__ = ["SIGNALS", "Gathered", "Point", "Span", "SpanError", "gathered", "overlaps", "point_of", "span_of"]

SIGNALS = (Signal.NORMAL, Signal.WARNING, Signal.ALARM)  # from good to bad
_LONGEST = 40  # characters of a time


class Point(NamedTuple):
    """A window as seen from one original; numbers that are not known are nan, an open upper end is inf.

    Attributes:
        window: index of the window.
        status: whether it was measured.
        start, end: times between which it lies, in seconds since 1970; None unless windows are cut by time.
        rows, late_rows: rows in it, and rows left out before it.
        value, low, high, floor: the drift, its interval, and its floor.
        step: divergence from the window before.
        signal: signal that stands after it.
        effective: effective rows of the weights.
        seconds: time taken.
        doubts: number of doubts about the drift.
    """

    window: int
    status: Status
    start: float | None
    end: float | None
    rows: int
    late_rows: int
    value: float
    low: float
    high: float
    floor: float
    step: float
    signal: Signal
    effective: float
    seconds: float
    doubts: int

    @property
    def measured(self) -> bool:
        """Whether there is a drift."""
        return self.status == Status.MEASURED and math.isfinite(self.value)


def point_of(record: Record) -> Point:
    """Return what is kept of a Record."""
    drift, nan = record.drift if record.status == Status.MEASURED else None, math.nan
    return Point(
        window=record.window,
        status=record.status,
        start=_seconds(record.start),
        end=_seconds(record.end),
        rows=record.rows,
        late_rows=record.late_rows,
        value=nan if drift is None else drift.value,
        low=nan if drift is None else drift.low,
        high=nan if drift is None else drift.high,
        floor=nan if drift is None else drift.floor,
        step=nan if record.step is None else record.step.value,
        signal=record.signal,
        effective=record.effective_sample_size,
        seconds=record.seconds,
        doubts=len(record.doubts),
    )


def _seconds(text: str | None) -> float | None:
    at = moment(text)
    return None if at is None else at.timestamp()


class SpanError(ValueError):
    """A time or a number of windows that cannot be one."""


@dataclass(frozen=True)
class Span:
    """Windows that are asked for: by time, the last so many, or both.

    Attributes:
        since, until: times in seconds since 1970; a window that overlaps with what lies between them counts.
        last: the most windows of each original, the newest; None for all.
        given: what was asked for, as it was written.
        problem: what of it could not be read, in words.
    """

    since: float | None = None
    until: float | None = None
    last: int | None = None
    given: tuple[tuple[str, str], ...] = ()
    problem: str = ""

    @property
    def timed(self) -> bool:
        """Whether times are limited."""
        return self.since is not None or self.until is not None

    def of(self, points: Sequence[Point]) -> Sequence[Point]:
        """Return the points within the span; windows without a time are not limited by one."""
        found = points
        if self.timed:
            found = [p for p in points if self.holds(p.start, p.end)]
        return found if self.last is None else found[-self.last :]

    def holds(self, start: float | None, end: float | None) -> bool:
        """Say whether a window between these times counts."""
        first, last = start if start is not None else end, end if end is not None else start
        early = self.since is not None and last is not None and last <= self.since
        late = self.until is not None and first is not None and first >= self.until
        return not early and not late


def overlaps(span: Span, record: Record) -> bool:
    """Say whether the window of a Record counts."""
    return span.holds(_seconds(record.start), _seconds(record.end))


def span_of(since: str | None, until: str | None, last: int | None = None) -> Span:
    """Read a span; a date without a time of day means all of that day, empty text means no limit.

    >>> span_of("1970-01-02", "1970-01-02").until
    172800.0
    """
    given = [("since", since), ("until", until), ("last", None if last is None else str(last))]
    return Span(
        _limit("since", since or None),
        _limit("until", until or None),
        last,
        tuple((name, text) for name, text in given if text),
    )


def _limit(name: str, text: str | None) -> float | None:
    if text is None:
        return None
    try:
        if len(text) > _LONGEST:
            raise ValueError
        at = datetime.fromisoformat(text)
        at = at.replace(tzinfo=UTC) if at.tzinfo is None else at
        whole_day = name == "until" and len(text) == len("2025-01-31")
        return (at + timedelta(days=1) if whole_day else at).timestamp()
    except (ValueError, OverflowError):
        raise SpanError(f"{name} is not a time: write 2025-01-31, or 2025-01-31T15:00Z") from None


class Gathered(NamedTuple):
    """Neighbouring windows as one point of a chart.

    Attributes:
        first, last: indexes of the first and the last window.
        value: mean of their drifts; nan if none was measured.
        least, most: smallest and largest drift among them.
        low, high: from the lowest end of their intervals to the highest; nan if one of them has none.
        signal: worst signal.
    """

    first: int
    last: int
    value: float
    least: float
    most: float
    low: float
    high: float
    signal: Signal


def gathered(points: Sequence[Point], most: int) -> list[Gathered]:
    """Gather neighbours into at most so many points of nearly equal size; an alarm among quiet windows stays one.

    >>> gathered([], 10)
    []
    """
    if not points:
        return []
    size = math.ceil(len(points) / most)
    return [_one(points[k : k + size]) for k in range(0, len(points), size)]


def _one(points: Sequence[Point]) -> Gathered:
    drifts = [p for p in points if p.measured]
    values = [p.value for p in drifts] or [math.nan]
    known = bool(drifts) and not any(math.isnan(p.low) or math.isnan(p.high) for p in drifts)
    return Gathered(
        points[0].window,
        points[-1].window,
        sum(values) / len(values),
        min(values),
        max(values),
        min(p.low for p in drifts) if known else math.nan,
        max(p.high for p in drifts) if known else math.nan,
        max((p.signal for p in points), key=SIGNALS.index),
    )
