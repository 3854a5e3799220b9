"""Metrics in the words of Prometheus: what the last window of every stream and original says.

A number that is not known or was withheld is NaN, and an interval that is open above ends at +Inf: comparisons with NaN
are false, so rules must ask for what is missing (``driftline_up``, ``driftline_undecided``), as those in deploy/ do.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from driftline import __version__
from driftline._wording import clean
from driftline.monitor import Status
from driftline.report import Outcome
from driftline.server._points import SIGNALS, Point
from driftline.server._streams import Course, Stream, Streams

__all__ = ["CONTENT_TYPE", "exposition", "registry_of"]

CONTENT_TYPE = CONTENT_TYPE_LATEST
_LABELS = ("stream", "original")
_UNDECIDED = (Outcome.WAITING, Outcome.BLIND)

Value = Callable[[Stream, Course, Point], float]


def _limit(name: str) -> Value:
    return lambda stream, course, point: math.nan if course.last is None else float(getattr(course.last, name))


def _signal(stream: Stream, course: Course, point: Point) -> float:
    """Return 0, 1 or 2; nan if nothing was decided (of the last windows), so that it is never taken for normal."""
    if course.verdict.outcome in _UNDECIDED and point.signal == SIGNALS[0]:
        return math.nan
    return float(SIGNALS.index(course.points[-1].signal))


def _unsure(stream: Stream, course: Course, point: Point) -> float:
    """Return 1 for what is in doubt and no alarm: a warning may be, too."""
    outcome, doubted = course.verdict.outcome, course.verdict.trust != "good"
    return float(outcome == Outcome.UNSURE or (outcome == Outcome.WARNING and doubted))


_GAUGES: dict[str, tuple[str, Value]] = {
    "drift": ("Divergence of the last measured window from the original.", lambda s, c, p: p.value),
    "drift_low": ("Lower end of its interval; NaN if it was withheld.", lambda s, c, p: p.low),
    "drift_high": ("Upper end; +Inf if it is open above, NaN if it was withheld.", lambda s, c, p: p.high),
    "drift_floor": ("The drift is at least this, whatever the model; NaN without one.", lambda s, c, p: p.floor),
    "step": ("KL(current||window before) of the last measured window.", lambda s, c, p: p.step),
    "signal": ("Signal that stands: 0 normal, 1 warning, 2 alarm; NaN if nothing was decided.", _signal),
    "undecided": (
        "1 if nothing was measured or decided, or the last windows were not, so that no alarm means nothing.",
        lambda s, c, p: float(c.verdict.outcome in _UNDECIDED),
    ),
    "unsure": (
        "1 if there is no alarm, but the estimate is in doubt or too rough to rule drift out; 0 if undecided.",
        _unsure,
    ),
    "windows_unmeasured": (
        "Windows in a row, up to the last, that had rows of which nothing was measured.",
        lambda s, c, p: float(c.unmeasured),
    ),
    "doubts": ("Number of doubts about the drift of the last measured window.", lambda s, c, p: float(p.doubts)),
    "tolerance": (
        "Drift that is tolerated.",
        lambda s, c, p: math.nan if s.settings is None else s.settings.tolerance,
    ),
    "warning_limit": ("Drift beyond which there is a warning.", _limit("warning_limit")),
    "alarm_limit": ("Drift beyond which there is an alarm.", _limit("alarm_limit")),
    "effective_rows": ("Effective rows that the weights back to the original leave.", lambda s, c, p: p.effective),
    "step_seconds": ("Time that the last measured window took.", lambda s, c, p: p.seconds),
    "last_window_rows": ("Rows in the last measured window.", lambda s, c, p: float(p.rows)),
}
_COUNTERS: dict[str, tuple[str, Callable[[Course], int]]] = {
    "windows": ("Windows, including the original's and skipped ones.", lambda c: len(c.points)),
    "windows_skipped": ("Windows in which nothing was measured.", lambda c: c.skipped),
    "rows": ("Rows of all windows.", lambda c: c.rows),
    "rows_left_out": ("Rows left out because they came after their window was closed.", lambda c: c.late_rows),
    "rows_skipped": ("Rows in windows in which nothing was measured.", lambda c: c.skipped_rows),
}
_NAN = math.nan
_NOTHING = Point(-1, Status.SKIPPED, None, None, 0, 0, _NAN, _NAN, _NAN, _NAN, _NAN, SIGNALS[0], _NAN, _NAN, 0)


class _Reader(Collector):
    """Collector that turns streams into metrics whenever it is asked."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams

    def collect(self) -> Iterable[Metric]:
        """Yield all metrics as of now."""
        found = list(self._streams.found.values())
        pairs = [(s, c, _last(c), (clean(s.name), clean(c.original))) for s in found for c in s.courses]
        yield GaugeMetricFamily("driftline_streams", "Streams that are shown.", len(found))
        info = GaugeMetricFamily("driftline_server_info", "Version of the server.", labels=["version"])
        info.add_metric([__version__], 1)
        yield info
        yield from _of_streams(found)
        for name, (help_text, value) in _GAUGES.items():
            gauge = GaugeMetricFamily(f"driftline_{name}", help_text, labels=_LABELS)
            for stream, course, point, labels in pairs:
                gauge.add_metric(labels, value(stream, course, point))
            yield gauge
        for name, (help_text, count) in _COUNTERS.items():
            counter = CounterMetricFamily(f"driftline_{name}", help_text, labels=_LABELS)
            for _, course, _, labels in pairs:
                counter.add_metric(labels, count(course))
            yield counter
        yield from _ages([(stream, course, labels) for stream, course, _, labels in pairs])


def _last(course: Course) -> Point:
    """Return the last measured point; all that nothing is known of is nan."""
    return next((point for point in reversed(course.points) if point.measured), _NOTHING)


def _of_streams(found: list[Stream]) -> Iterator[Metric]:
    up = GaugeMetricFamily("driftline_up", "1 if the tracker file can be read, 0 if it is broken.", labels=["stream"])
    for stream in found:
        up.add_metric([clean(stream.name)], float(stream.problem is None))
    yield up
    kind = GaugeMetricFamily("driftline_info", "Divergence that is drift here.", labels=[*_LABELS, "measure"])
    for stream in found:
        for course in stream.courses:
            kind.add_metric([clean(stream.name), clean(course.original), course.kind], 1)
    yield kind


def _ages(pairs: list[tuple[Stream, Course, tuple[str, str]]]) -> Iterator[Metric]:
    now = time.time()
    age = GaugeMetricFamily(
        "driftline_last_window_age_seconds", "Time since the last commit to the tracker file.", labels=_LABELS
    )
    end = GaugeMetricFamily(
        "driftline_last_window_end_timestamp_seconds",
        "End of the last window by the time in the data; NaN unless windows are cut by time.",
        labels=_LABELS,
    )
    for stream, course, labels in pairs:
        age.add_metric(labels, max(now - stream.committed, 0.0))
        ends = course.points[-1].end if course.points else None
        end.add_metric(labels, math.nan if ends is None else ends)
    yield from (age, end)


def registry_of(streams: Streams) -> CollectorRegistry:
    """Return a registry of its own that holds nothing but these streams."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Reader(streams))
    return registry


def exposition(registry: CollectorRegistry) -> bytes:
    """Return all metrics as text."""
    return generate_latest(registry)
