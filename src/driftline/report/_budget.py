"""Budget: how fast the drift grows, by a straight line with its error, and when it will reach the tolerance.

Estimates of neighbouring windows share their noise: all of them that of the original, and some of that on the way. No
residual shows what all share. It grows with the drift as their standard errors do, so it tilts the line by as much as
these rise, and this is added. For the rest, and for what is no straight line in the drift itself, the slope's error is
widened by the correlation that the residuals show.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from driftline._wording import day, moment, number, unit
from driftline.monitor import Record
from driftline.report._histories import History, doubts, is_abrupt, window_name
from driftline.report._timelines import timeline

__all__ = ["Budget", "Line", "budget", "fitted", "said"]

_LEAST = 10  # windows for a line
_MOST = 30  # windows that a line looks back: older ones say little about the rate now
_STICKY = 0.8  # correlation of neighbouring residuals beyond which they are no noise around a line
_AHEAD = 1.0  # spans of the line, at most, that it is drawn beyond its end
MONTH = 30.436875 * 86400.0  # seconds
Floats = npt.NDArray[np.float64]


class Line(NamedTuple):
    """A straight line through estimates: its height at the last of them and its slope, each with an interval."""

    height: float
    height_low: float
    height_high: float
    slope: float
    slope_low: float
    slope_high: float


@dataclass(frozen=True)
class Budget:
    """Rate of the drift, and when it reaches the tolerance.

    Attributes:
        per: ``month`` if windows have times, else ``window``.
        line: the line, in nats and nats per ``per``; None if it cannot be told.
        windows: number of estimates it goes through.
        first: the first of these windows; None without a line.
        why: why there is no line, or why it does not say when; empty if it does.
        reached: places on the time axis at which the tolerance is reached: earliest, expected, latest (infinite if
            nobody can say); None if that is not foreseeable.
        by_time: whether these places are seconds since 1970 (UTC), not windows.
    """

    per: str
    line: Line | None
    windows: int
    first: Record | None
    why: str
    reached: tuple[float, float, float] | None
    by_time: bool


def fitted(places: Sequence[float], values: Sequence[float], errors: Sequence[float], level: float) -> Line | None:
    """Fit a line by least squares, with an error that counts residuals that go together as fewer.

    The correlation r of neighbouring residuals, corrected for its bias after a line was fitted, leaves n (1 - r) /
    (1 + r) independent ones. None if so few are left that they say nothing. ``errors`` are the standard errors of the
    values, of which a part is shared.

    >>> line = fitted([0.0, 1.0, 2.0, 3.0, 4.0], [0.1, 0.2, 0.3, 0.4, 0.5], [0.01] * 5, 0.95)
    >>> round(line.slope, 6), round(line.height, 6)
    (0.1, 0.5)
    """
    from scipy.special import stdtrit  # not at the top: most pages are drawn without it

    t, y = np.asarray(places, dtype=np.float64), np.asarray(values, dtype=np.float64)
    n, centre = len(t), float(np.mean(t))
    x = t - centre
    spread = float(x @ x)
    if n < 3 or not spread > 0.0:
        return None
    slope = float(x @ y) / spread
    rest = y - y.mean() - slope * x
    worth = _worth(rest)
    if worth <= 3.0:
        return None
    free = worth - 2.0
    error2 = float(rest @ rest) / max(n - 2, 1) * n / worth
    by, share = float(stdtrit(free, 0.5 + 0.5 * level)), np.asarray(errors, dtype=np.float64)
    tilt, lift = float(x @ share) / spread, float(share[-1])
    end = float(t[-1]) - centre
    height = float(y.mean()) + slope * end
    beside = by * math.sqrt(error2 / spread + tilt**2)
    above = by * math.sqrt(error2 * (1.0 / n + end**2 / spread) + lift**2)
    return Line(height, height - above, height + above, slope, slope - beside, slope + beside)


def _worth(rest: Floats) -> float:
    """Return the number of independent residuals that those of a line are worth."""
    n, total = len(rest), float(rest @ rest)
    if total <= 1e-24 * n:
        return float(n)
    r = float(rest[1:] @ rest[:-1]) / total
    r = max(0.0, r + (2.0 + 4.0 * r) / n)  # a fitted line takes that much of it away
    return n * (1.0 - r) / (1.0 + r) if r < _STICKY else 0.0


def budget(history: History) -> Budget:
    """Fit the latest windows since the last abrupt change, and say when the drift reaches the tolerance."""
    axis = timeline(history.records, history.settings) if history.records else None
    by_time = axis is not None and axis.by_time
    per = "month" if by_time else "window"

    def none(why: str) -> Budget:
        return Budget(per, None, 0, None, why, None, by_time)

    last = history.last
    if axis is None or last is None or last.drift is None:
        return none("nothing has been measured yet")
    why = _doubted(last)
    if why:
        return none(f"the last estimate {why}")
    places = dict(zip((r.window for r in history.records), axis.places, strict=True))
    used = _stretch(history)
    if len(used) < _LEAST:
        after = " since the last abrupt change" if any(is_abrupt(r) for r in history.measured) else ""
        return none(f"a line needs {_LEAST} estimates without doubts, and there are {len(used)}{after}")
    scale = MONTH if by_time else 1.0
    at = [places[r.window] / scale for r in used]
    drifts = [r.drift for r in used if r.drift is not None]
    line = fitted(at, [d.value for d in drifts], [d.std_error for d in drifts], last.drift.level)
    if line is None:
        return none("the estimates lie around no straight line, or are too few to tell")
    reached, why = _reached(line, at, history.settings.tolerance)
    if reached is not None:
        reached = (reached[0] * scale, reached[1] * scale, reached[2] * scale)
    return Budget(per, line, len(used), used[0], why, reached, by_time)


def _doubted(record: Record) -> str:
    """Say why an estimate is no ground for a line; empty if it is one."""
    drift = record.drift
    if drift is None or not math.isfinite(drift.value + drift.std_error):
        return "has no error bar"
    if not math.isfinite(drift.high):
        return "is a lower bound"
    found = doubts(record)
    return f"is in doubt ({found[0].code})" if found else ""


def _stretch(history: History) -> list[Record]:
    """Return the latest estimates without doubts, since the last abrupt change: from that window on."""
    found: list[Record] = []
    for record in reversed(history.measured[-_MOST:]):
        if not _doubted(record):
            found.append(record)
        if is_abrupt(record):
            break
    return found[::-1]


def _reached(line: Line, at: Sequence[float], tolerance: float) -> tuple[tuple[float, float, float] | None, str]:
    """Return earliest, expected and latest time at which the line crosses the tolerance, or why nobody can say."""
    end, span = at[-1], at[-1] - at[0]
    if line.height >= tolerance:
        return None, "the drift is beyond the tolerance already"
    if line.slope_low <= 0.0:
        return None, "the rate cannot be told from none"
    early = max(tolerance - line.height_high, 0.0) / line.slope_high
    expected = (tolerance - line.height) / line.slope
    late = (tolerance - line.height_low) / line.slope_low
    if early > _AHEAD * span:
        return None, "at this rate it lies further ahead than the line looks back"
    return (end + early, end + expected, end + late if late <= 4.0 * _AHEAD * span else math.inf), ""


def said(found: Budget, history: History) -> list[str]:
    """Say the rate, and when the tolerance is reached, in sentences."""
    tolerance = f"the tolerance of {number(history.settings.tolerance)}{unit(history.kind)}"
    line, last, beyond = found.line, history.last, history.settings.tolerance
    if line is None or found.first is None:
        if last is not None and not _doubted(last) and last.drift is not None and last.drift.low > beyond:
            return [f"The drift is beyond {tolerance} already; its rate is not foreseeable: {found.why}."]
        return [f"Not foreseeable, neither the rate of the drift nor when it reaches {tolerance}: {found.why}."]
    level = 0.95 if last is None or last.drift is None else last.drift.level
    name = unit(history.kind).strip()
    rate = (
        f"The drift changes by {_signed(line.slope)} {name} a {found.per}".replace("  ", " ")
        + f" ({100 * level:.4g}\xa0% interval {_signed(line.slope_low)} to {_signed(line.slope_high)}), by a straight "
        f"line through the {found.windows} undoubted estimates since {window_name(found.first, history.settings)}."
    )
    if found.reached is None:
        if line.height >= beyond:
            return [rate, f"It is beyond {tolerance} already."]
        return [rate, f"When it reaches {tolerance} is not foreseeable: {found.why}."]
    early, expected, late = (_place(v, found.by_time) for v in found.reached)
    until = f"between {early} and {late}" if math.isfinite(found.reached[2]) else f"from {early} on"
    return [rate, f"At this rate it reaches {tolerance} about {expected} ({until})."]


def _signed(value: float) -> str:
    return f"{'+' if value > 0 else ''}{number(value)}"


def _place(value: float, by_time: bool) -> str:
    """Name a place on the axis: a day, or a window."""
    if not math.isfinite(value):
        return "never"
    if not by_time:
        return f"window {math.ceil(value):,}"
    from datetime import UTC, datetime

    try:
        at = moment(datetime.fromtimestamp(value, UTC).isoformat())
    except (OverflowError, ValueError, OSError):
        return "a far day"
    return "a far day" if at is None else day(at)
