r"""Floors: lower bounds of KL(current‖original) that rest on counts or on held-out rows, not on the model being right.

Merging values into cells never raises a divergence, so the divergence of cell shares is a lower bound of the true one;
what is left is to allow for the noise of the counts. The bounds are asymptotic (normal), not certified.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from driftline._inputs import Floats
from driftline.inference._dependence import long_run_variance

__all__ = ["NO_GAIN", "Gain", "cell_floors", "held_out_gain", "inflation"]

_LEAST = 50.0  # effective rows below which a normal bound is not worth its name
_ROOM = 1.0  # row added to each cell for the variance: a cell that happens to be empty is not known to be


class Gain(NamedTuple):
    """What held-out rows say in favour of a drift, in nats, with its standard error; nan if unknown."""

    value: float
    std_error: float

    def floor(self, level: float) -> float:
        """Return the bound that the truth falls below with chance (1 - level) / 2, never below 0; nan if unknown."""
        if not math.isfinite(self.value + self.std_error):
            return math.nan
        return max(self.value - NormalDist().inv_cdf(0.5 + 0.5 * level) * self.std_error, 0.0)


NO_GAIN = Gain(math.nan, math.nan)


def held_out_gain(u_num: Floats, u_den: Floats, lag_num: int = 0, lag_den: int = 0) -> Gain:
    r"""Return :math:`E_{den} u - \log E_{num} e^u` over rows that u = log den/num has not been learned from.

    It is below KL(den‖num) for any u (Donsker and Varadhan). So u may be clipped, above to a third of the logarithm of
    the rows: no single row then decides about the mean of :math:`e^u`. One row more is added where u is largest: that
    no row of the numerator lies there does not mean that none can.

    Arguments:
        u_num, u_den: values for rows of the two windows, (n,) and (m,).
        lag_num, lag_den: reach of the dependence between these rows.
    """
    rows = min(len(u_num), len(u_den))
    if rows < _LEAST:
        return NO_GAIN
    most, middle = math.log(rows) / 3.0, 0.5 * (float(u_num.mean()) + float(u_den.mean()))
    u_num, u_den = (np.clip(u - middle, -1.5 * most, most) for u in (u_num, u_den))
    odds, n = np.exp(u_num), len(u_num)
    unseen = math.exp(float(u_den.max())) / n
    mean = float(odds.mean()) + unseen
    spread_num = long_run_variance(odds, lag_num) / (n * mean) ** 2 + (unseen / mean) ** 2
    spread_den = long_run_variance(u_den, lag_den) / len(u_den) ** 2
    value = float(u_den.mean()) - math.log(mean)
    return Gain(value, math.sqrt(spread_num + spread_den))


def cell_floors(original: Floats, current: Floats, n: float, m: float, level: float, of: int | None = None) -> Floats:
    r"""Return lower bounds of KL(current‖original), one for each partition, each allowing for the number of them.

    With shares P of the original's n effective rows and Q of m rows, in k cells, and :math:`L = \log Q/P`, it is
    :math:`v - b - z\sqrt{\operatorname{Var}_Q[L]/m + (\sum Q^2/P - 1)/n + \frac12(k-1)(1/m+1/n)^2}`, where
    :math:`v = \sum QL` and :math:`b = \frac12(k-1)/m + \frac12\sum(Q/P)(1-P)/n` is the bias of v. All of them together
    are above the truth with chance (1 - level) / 2 (Bonferroni).

    Arguments:
        original, current: counts, (partitions, cells), 0 where a partition has fewer cells. Cells without rows of the
            original must have been merged with others.
        n, m: effective rows of both: the counts' sums, less if rows depend on each other or repeat.
        of: number of all partitions, if these are not all.

    >>> cell_floors(np.array([[500.0, 500.0]]), np.array([[900.0, 100.0]]), 1000, 1000, 0.95).round(2)
    array([0.3])
    """
    if len(original) == 0 or min(n, m) < _LEAST:
        return np.zeros(0)
    live = original > 0.0
    k = live.sum(1)
    p = original / original.sum(1, keepdims=True)
    q = current / current.sum(1, keepdims=True)
    roomy = np.where(live, m * q + _ROOM, 0.0)
    roomy /= roomy.sum(1, keepdims=True)
    safe = np.where(live, p, 1.0)
    odds = q / safe
    value = (q * np.log(np.where(q > 0.0, odds, 1.0))).sum(1)
    log_odds = np.log(np.where(live, roomy / safe, 1.0))
    mean = (roomy * log_odds).sum(1, keepdims=True)
    spread = (roomy * np.square(log_odds - mean)).sum(1) / m + np.maximum((q * odds).sum(1) - 1.0, 0.0) / n
    spread += 0.5 * (k - 1) * (1.0 / m + 1.0 / n) ** 2
    bias = 0.5 * (k - 1) / m + 0.5 * (odds * (1.0 - p)).sum(1) / n
    z = NormalDist().inv_cdf(1.0 - (0.5 - 0.5 * level) / (of or len(original)))
    return np.asarray(value - bias - z * np.sqrt(spread))


def inflation(series: Floats, lag: int) -> float:
    """Return how many rows are worth one independent row: the largest over columns (n, k) and their squares, 1 if none.

    >>> inflation(np.zeros((100, 2)), 3)
    1.0
    """
    if lag == 0:
        return 1.0
    worst = 1.0
    for column in np.concatenate([series, np.square(series)], 1).T:
        power = float(np.square(column - column.mean()).sum())
        if power > 1e-9 * len(column):
            worst = max(worst, long_run_variance(np.asarray(column, dtype=np.float64), lag) / power)
    return worst
