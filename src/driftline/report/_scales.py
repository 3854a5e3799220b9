"""Scales: from numbers and times to pixels, ticks a person would choose, and long series in few points."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from driftline._wording import MONTHS, number

__all__ = ["Scale", "Tick", "buckets", "scale_for", "short", "steps", "time_ticks", "value_ticks", "window_ticks"]

_FAR = 40.0  # ratio of the largest to the typical value above which a linear scale would hide the rest
_HOURS = (1, 2, 3, 6, 12)
_DAYS = (1, 2, 7, 14)
_MONTHS_APART = (1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1200)
_SECONDS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800)
Tick = tuple[float, str]


@dataclass(frozen=True)
class Scale:
    """Numbers from ``low`` to ``high`` laid out between two pixels; with ``bend``, logarithmic beyond that size."""

    low: float
    high: float
    first: float
    last: float
    bend: float = math.inf

    def _bent(self, value: float) -> float:
        return value if math.isinf(self.bend) else math.asinh(value / self.bend)

    def __call__(self, value: float) -> float:
        """Return the pixel of a number."""
        low, high = self._bent(self.low), self._bent(self.high)
        return self.first + (self.last - self.first) * (self._bent(value) - low) / (high - low)


def scale_for(values: Sequence[float], typical: float, first: float, last: float) -> Scale:
    """Return a scale that holds 0 and all values; bent if some lie far beyond the typical size.

    >>> scale_for([0.1, 0.4], 0.1, 100.0, 0.0).bend, scale_for([0.1, 1e6], 0.1, 100.0, 0.0).bend
    (inf, 0.1)
    """
    finite = [v for v in values if math.isfinite(v)]
    low, high = min([0.0, *finite]), max([0.0, *finite])
    if high <= low:
        high = low + 1.0
    bend = typical if typical > 0.0 and high > _FAR * typical else math.inf
    high += 0.06 * (high - low) if math.isinf(bend) else 0.6 * high
    if low < 0.0:
        low -= 0.03 * (high - low) if math.isinf(bend) else 0.2 * -low
    return Scale(low, high, first, last, bend)


def steps(low: float, high: float, most: int) -> list[float]:
    """Return multiples of 1, 2 or 5 times a power of ten that cut the range into at most ``most`` steps.

    >>> steps(0.0, 0.93, 5)
    [0.0, 0.2, 0.4, 0.6, 0.8]
    """
    rough = (high - low) / max(most, 1)
    if not rough > 0.0 or not math.isfinite(rough):
        return [low]
    power = math.floor(math.log10(rough))
    step = next(m for m in (1.0, 2.0, 5.0, 10.0) if m * 10.0**power >= rough * (1.0 - 1e-9)) * 10.0**power
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(k * step, 12 - power) if abs(power) < 12 else k * step for k in range(first, last + 1)]


def value_ticks(scale: Scale, most: int) -> list[Tick]:
    """Return the ticks of a vertical axis."""
    if math.isinf(scale.bend):
        places = steps(scale.low, scale.high, most)
        return [(v, short(v)) for v in places]
    first, last = math.floor(math.log10(scale.bend)), math.floor(math.log10(scale.high))
    every = max(1, math.ceil((last - first + 1) / max(most - 1, 1)))
    decades = [10.0**k for k in range(first, last + 1, every)]
    near = 0.07 * abs(scale.last - scale.first)  # pixels from 0 within which two labels would overlap
    return [(0.0, "0"), *((v, short(v)) for v in decades if abs(scale(v) - scale(0.0)) > near)]


def short(value: float) -> str:
    """Format a number for an axis.

    >>> short(0.05), short(250000.0), short(3e6)
    ('0.05', '250k', '3M')
    """
    size = abs(value)
    for least, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if size >= least:
            divisor = 1e3 if letter == "k" else least
            return f"{number(value / divisor)}{letter}"
    return "0" if value == 0 else f"{value:.6g}".replace("-", "−")


def window_ticks(low: float, high: float, most: int) -> list[Tick]:
    """Return ticks at whole windows."""
    return [(v, f"{v:,.0f}") for v in steps(math.ceil(low), math.floor(high), most) if v == round(v)]


def time_ticks(low: float, high: float, most: int) -> list[Tick]:
    """Return ticks at round UTC times, in seconds since 1970; the first label and each in a new year or day names it.

    >>> [label for _, label in time_ticks(0.0, 86400.0 * 365, 4)]
    ['Jan 1970', 'Apr', 'Jul', 'Oct', 'Jan 1971']
    """
    rough = max((high - low) / max(most, 1), 1e-9)
    if rough > 14 * 86400:
        months = next((m for m in _MONTHS_APART if m * 30.5 * 86400 >= rough), _MONTHS_APART[-1])
        return _month_ticks(low, high, months)
    days = next((d for d in _DAYS if d * 86400 >= rough), _DAYS[-1])
    below = [s for s in (*_SECONDS, *(3600 * h for h in _HOURS)) if s >= rough]
    step = below[0] if below else days * 86400
    # weeks begin on a Monday, and 1 January 1970 was a Thursday
    shift = 4 * 86400 if step % (7 * 86400) == 0 else 0
    first = math.ceil((low - shift) / step)
    places = [shift + k * step for k in range(first, math.floor((high - shift) / step) + 1)]
    return [(float(p), _label(p, places[i - 1] if i else None, step)) for i, p in enumerate(places)]


def _label(place: float, before: float | None, step: float) -> str:
    at = _utc(place)
    then = None if before is None else _utc(before)
    date = f"{at.day} {MONTHS[at.month - 1]}"
    if step >= 86400:
        return date if then is not None and then.year == at.year else f"{date} {at.year}"
    clock = f"{at.hour:02}:{at.minute:02}" + (f":{at.second:02}" if step < 60 else "")
    return clock if then is not None and then.date() == at.date() else f"{date} {clock}"


def _month_ticks(low: float, high: float, months: int) -> list[Tick]:
    start = _utc(low)
    k = (start.year * 12 + start.month - 1) // months * months
    ticks: list[Tick] = []
    while True:
        year, month = divmod(k, 12)
        if year > 9999:
            return ticks
        place = datetime(max(year, 1), month + 1, 1, tzinfo=UTC).timestamp()
        if place > high:
            return ticks
        if place >= low:
            name = MONTHS[month]
            fresh = not ticks or _utc(ticks[-1][0]).year != year
            ticks.append((place, str(year) if months >= 12 else f"{name} {year}" if fresh else name))
        k += months


def _utc(seconds: float) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)


def buckets(length: int, most: int) -> list[range]:
    """Gather neighbours into at most ``most`` groups of nearly equal size.

    >>> buckets(5, 2)
    [range(0, 3), range(3, 5)]
    """
    size = max(1, math.ceil(length / most))
    return [range(k, min(k + size, length)) for k in range(0, length, size)]
