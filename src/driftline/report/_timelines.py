"""Timelines: where on the horizontal axis each window lies, and which of them follow each other without a gap."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from driftline._wording import moment
from driftline.monitor import Record, Settings
from driftline.report._scales import Tick, buckets, time_ticks, window_ticks

__all__ = ["Timeline", "cadence", "envelope", "thinned", "timeline"]

_UNITS = {"s": "second", "min": "minute", "h": "hour", "d": "day", "w": "week", "mo": "month"}


@dataclass(frozen=True)
class Timeline:
    """Horizontal axis of a chart.

    Attributes:
        by_time: whether places are seconds since 1970 (UTC), not numbers of windows.
        places: middle of each window.
        spans: start and end of each window.
        label: label of the axis.
    """

    by_time: bool
    places: tuple[float, ...]
    spans: tuple[tuple[float, float], ...]
    label: str

    @property
    def low(self) -> float:
        """Start of the axis."""
        return min(a for a, _ in self.spans)

    @property
    def high(self) -> float:
        """End of the axis."""
        return max(b for _, b in self.spans)

    def ticks(self, most: int) -> list[Tick]:
        """Return about ``most`` ticks with their labels."""
        if self.by_time:
            return time_ticks(self.low, self.high, most)
        return window_ticks(self.low, self.high, most)


def cadence(settings: Settings) -> str:
    """Describe the length of a window: ``5,000 rows``, ``a week``, ``15 minutes``."""
    found = re.fullmatch(r"([0-9]+)([a-z]+)", settings.every or "")
    if found is None:
        return f"{settings.window:,} rows"
    number, word = int(found[1]), _UNITS[found[2]]
    return f"{'an' if word == 'hour' else 'a'} {word}" if number == 1 else f"{number:,} {word}s"


def timeline(records: Sequence[Record], settings: Settings) -> Timeline:
    """Place windows by time if every one has its times, by number otherwise; at least one window is needed.

    An original that is a table of its own has no time: it stands before the first window.
    """
    spans = [span for record in records if (span := _span(record)) is not None]
    if spans and len(spans) == len(records) - 1 and _span(records[0]) is None:
        first, second = spans[0]
        spans.insert(0, (2.0 * first - second, first))
    if len(spans) == len(records) and max(b for _, b in spans) > min(a for a, _ in spans):
        places = tuple(0.5 * (a + b) for a, b in spans)
        return Timeline(True, places, tuple(spans), f"time in UTC, windows of {cadence(settings)}")
    places = tuple(float(record.window) for record in records)
    return Timeline(False, places, tuple((p - 0.5, p + 0.5) for p in places), f"window, {cadence(settings)} each")


def _span(record: Record) -> tuple[float, float] | None:
    """Return the times between which a window lies, in seconds since 1970; None if they are not known."""
    start, end = moment(record.start), moment(record.end)
    return None if start is None or end is None or end < start else (start.timestamp(), end.timestamp())


def segments(records: Sequence[Record], values: Sequence[float]) -> list[list[int]]:
    """Return consecutive windows with a value, as lists of indices; a window without a value ends a list."""
    found: list[list[int]] = []
    for i, value in enumerate(values):
        if not math.isfinite(value):
            continue
        follows = found and found[-1][-1] == i - 1 and records[i].window == records[i - 1].window + 1
        if follows:
            found[-1].append(i)
        else:
            found.append([i])
    return found


def thinned(positions: list[int], values: Sequence[float], most: int) -> list[int]:
    """Keep the first, smallest, largest and last of each group of neighbours, so that a line looks the same.

    >>> thinned(list(range(100)), [0.0] * 50 + [9.0] + [0.0] * 49, 4)
    [0, 24, 25, 49, 50, 51, 74, 75, 99]
    """
    if len(positions) <= most:
        return positions
    kept: set[int] = set()
    for group in buckets(len(positions), most):
        part = [positions[k] for k in group]
        kept |= {part[0], part[-1], min(part, key=lambda i: values[i]), max(part, key=lambda i: values[i])}
    return sorted(kept)


def envelope(
    positions: list[int], low: Sequence[float], high: Sequence[float], most: int
) -> list[tuple[int, int, float, float]]:
    """Return the first and last index of each group of neighbours, with their smallest low and largest high."""
    found = []
    for group in buckets(len(positions), most):
        part = [positions[k] for k in group]
        found.append((part[0], part[-1], min(low[i] for i in part), max(high[i] for i in part)))
    return found
