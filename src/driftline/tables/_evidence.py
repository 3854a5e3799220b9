"""Evidence of drift beside the encoded columns: shares of rows that cannot be what they were at first.

Shares are those of any events that exclude each other: a value in a bin, a label that no row had at first. However the
rest of the rows may look, two windows cannot be closer to each other than these shares are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

__all__ = ["Evidence", "closer"]

_ERRORS, _SLACK = 4.0, 10.0  # of the chi-squared statistic without drift, before any of it counts


class Evidence(NamedTuple):
    """Shares of a column's rows that have moved.

    Attributes:
        column: name of the column.
        event: what has moved, in words.
        then, now: shares at first and now, which add up to 1, moved towards each other by what may be chance.
        chance: chance of shares that differ this much in a column that has not moved.
    """

    column: str
    event: str
    then: tuple[float, ...]
    now: tuple[float, ...]
    chance: float


def closer(
    then: Sequence[float], rows_then: float, now: Sequence[float], rows_now: float
) -> tuple[tuple[float, ...], tuple[float, ...], float] | None:
    """Move two sets of shares towards each other by what may be chance; None if that may be all of their difference.

    The third part is the p-value of the chi-squared test that finds them different.

    >>> [np.round(shares, 2).tolist() for shares in closer([0.2, 0.8], 1000, [0.8, 0.2], 1000)[:2]]
    [[0.2, 0.8], [0.8, 0.2]]
    >>> [np.round(shares, 2).tolist() for shares in closer([0.2, 0.8], 1000, [0.3, 0.7], 1000)[:2]]
    [[0.22, 0.78], [0.28, 0.72]]
    >>> closer([0.2, 0.8], 1000, [0.22, 0.78], 1000) is None
    True
    """
    before, after = (np.maximum(np.asarray(shares, float), 0.0) for shares in (then, now))
    before, after = (shares / max(shares.sum(), 1e-300) for shares in (before, after))
    total = rows_then + rows_now
    middle = (rows_then * before + rows_now * after) / total
    held = middle > 0.0
    statistic = rows_then * rows_now / total * float(((after - before)[held] ** 2 / middle[held]).sum())
    free = max(1, int(held.sum()) - 1)
    chance = free + _ERRORS * math.sqrt(2.0 * free) + _SLACK
    if statistic <= chance:
        return None
    from scipy.special import chdtrc

    left = math.sqrt(1.0 - chance / statistic)
    then, now = (tuple((middle + left * (shares - middle)).tolist()) for shares in (before, after))
    return then, now, float(chdtrc(free, statistic))
