"""Times in ns since 1970: lengths of time, and windows that follow the calendar."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
from numpy.typing import NDArray

__all__ = ["MISSING", "Every", "iso", "span"]

MISSING = np.iinfo(np.int64).min  # numpy's mark of a missing time (NaT)
_SECOND = 10**9
_UNITS = {"s": _SECOND, "min": 60 * _SECOND, "h": 3600 * _SECOND, "d": 86400 * _SECOND, "w": 7 * 86400 * _SECOND}
_MONDAY = -3 * 86400 * _SECOND  # the Monday before 1970 began, on a Thursday
_LONGEST = 2**62  # ns, about 146 years


def span(length: str) -> int:
    """Return a length of time in ns.

    >>> span("2min")
    120000000000
    """
    match = re.fullmatch(r"([0-9]+)(s|min|h|d|w)", length)
    if match is None:
        raise ValueError(f"{length!r} is not a length of time: a number and s, min, h, d or w")
    value = int(match[1]) * _UNITS[match[2]]
    if value > _LONGEST:
        raise ValueError(f"{length!r} is longer than {_LONGEST // _UNITS['d'] // 365} years")
    return value


def iso(ns: int) -> str:
    """Format a time in ns since 1970 as ISO 8601, to the second, in UTC."""
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=ns // _SECOND)
    return moment.isoformat().replace("+00:00", "Z")


@dataclass(frozen=True)
class Every:
    """Windows of one length (15s, 30min, 6h, 1d, 1w, 1mo) that start with the calendar's days, Mondays or months.

    Multiples of a unit, such as 6h or 2w, are counted from 1970 (weeks from the Monday before). All in UTC.

    >>> import numpy as np
    >>> month = Every("1mo")
    >>> month.index(np.array([0, 40 * 86400 * 10**9])).tolist(), iso(month.start(1))
    ([0, 1], '1970-02-01T00:00:00Z')
    """

    length: str

    def __post_init__(self) -> None:
        match = re.fullmatch(r"([1-9][0-9]*)(s|min|h|d|w|mo)", self.length)
        if match is None:
            raise ValueError(f"{self.length!r} is not a length of time: a number and s, min, h, d, w or mo")
        if self._months:
            if self._months > 1200:
                raise ValueError(f"{self.length!r} is longer than 100 years")
        else:
            span(self.length)

    @property
    def _months(self) -> int:
        return int(self.length[:-2]) if self.length.endswith("mo") else 0

    @property
    def _origin(self) -> int:
        return _MONDAY if self.length.endswith("w") else 0

    def index(self, times: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the index of the window that holds each time (ns since 1970)."""
        if self._months:
            months = times.astype("datetime64[ns]").astype("datetime64[M]").astype(np.int64)
            return np.asarray(months // self._months, np.int64)
        length = span(self.length)
        # the origin is subtracted as whole windows and a remainder, so that nothing overflows near the ends of time
        whole, rest = np.divmod(times, length)
        shift, over = divmod(-self._origin, length)
        return np.asarray(whole + shift + (rest >= length - over if over else 0), np.int64)

    def start(self, index: int) -> int:
        """Return the start of a window, in ns since 1970."""
        if not self._months:
            return index * span(self.length) + self._origin
        year, month = divmod(index * self._months, 12)
        moment = datetime(1970 + year, month + 1, 1, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)
        return moment.days * _UNITS["d"]
