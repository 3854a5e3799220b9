"""Evidence of drift beside the encoded columns: an event whose share of rows cannot be what it was at first.

An event is whatever rows may have: a value below an edge, a label that no row had at first. However the rest of the
rows may look, two windows cannot be closer to each other than these two shares are.
"""

from __future__ import annotations

import math
from typing import NamedTuple

__all__ = ["Evidence", "ends"]

_ERRORS = 4.0  # standard errors that a share may be off: several events are tried, window after window


class Evidence(NamedTuple):
    """An event of a column: the end of its share of rows then, and of its share now, that lie closest to each other.

    Attributes:
        column: name of the column.
        event: the event in words, with both shares.
        then, now: shares of rows at first and now, each moved by its error towards the other.
    """

    column: str
    event: str
    then: float
    now: float


def ends(then: float, rows_then: int, now: float, rows_now: int) -> tuple[float, float] | None:
    """Return two shares moved towards each other by their errors; None if they meet.

    >>> [round(share, 2) for share in ends(0.2, 1000, 0.8, 1000)]
    [0.25, 0.75]
    >>> ends(0.2, 1000, 0.22, 1000) is None
    True
    """
    sign = 1.0 if now > then else -1.0
    closer = then + sign * _error(then, rows_then), now - sign * _error(now, rows_now)
    return closer if sign * (closer[1] - closer[0]) > 0.0 else None


def _error(share: float, rows: int) -> float:
    """Return the error of a share; that of an event seen in no row, or in all, is what such a count leaves open."""
    return _ERRORS * math.sqrt(share * (1.0 - share) / rows) + 2.0 * _ERRORS / rows
