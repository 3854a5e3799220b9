r"""Which columns moved, by counts of rows in cells: a test of each, and what its own drift is.

Nothing here knows a model. A column's cells were fixed on the original; what is compared are the counts of its rows
and of the current window's. Rows that repeat or depend on each other count for what they are worth: counts are scaled
down to the effective rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from driftline._inputs import Floats
from driftline.inference._estimates import Estimate, opened
from driftline.inference._intervals import interval

__all__ = ["Cells", "holm", "marginal", "most_moved", "moved"]

_EXPECTED = 5.0  # rows of a cell that chi-square's law asks for; cells with fewer are merged


class Cells(NamedTuple):
    """Counts of a column's rows in its cells, then and now.

    Attributes:
        then, now: counts, (k,); the first ``ordered`` cells have an order, such as bins of numbers, the others do not.
        ordered: number of cells with an order.
        alone: cells that are tested by themselves, since drift often stands in them alone: missing, other values.
        rows: effective rows of both; no more than the counts' sums.
    """

    then: Floats
    now: Floats
    ordered: int
    alone: tuple[int, ...]
    rows: tuple[float, float]


def moved(cells: Cells) -> float:
    """Return the chance of counts that differ this much in a column that has not moved.

    The least of several tests, times their number: all cells at once (G, Williams' correction), each cell by itself
    (exact), location and spread of the ordered cells together (Lepage), and each cell that is tested ``alone``.

    >>> same = Cells(np.array([500.0, 500.0]), np.array([510.0, 490.0]), 2, (), (1000.0, 1000.0))
    >>> moved(same) > 0.5, moved(same._replace(now=np.array([650.0, 350.0]))) < 1e-9
    (True, True)
    """
    a, b = _scaled(cells)
    live = a + b > 0.0
    if live.sum() < 2 or min(a.sum(), b.sum()) <= 0.0:
        return 1.0
    each = _each(a, b)
    chances = [_all_cells(a[live], b[live]), float(each[live].min()) * int(live.sum())]
    chances += [float(each[j]) for j in cells.alone if live[j]]
    place = _lepage(a[: cells.ordered], b[: cells.ordered])
    if place is not None:
        chances.append(place)
    return min(1.0, min(chances) * len(chances))


def _scaled(cells: Cells) -> tuple[Floats, Floats]:
    """Return the counts in effective rows."""
    found = []
    for counts, rows in zip((cells.then, cells.now), cells.rows, strict=True):
        total = float(counts.sum())
        found.append(counts * (min(1.0, rows / total) if total > 0.0 else 0.0))
    return found[0], found[1]


def _all_cells(a: Floats, b: Floats) -> float:
    """Return the chance of the G statistic, by chi-square's law with Williams' correction; cells of few rows merged."""
    from scipy.special import chdtrc

    a, b = _merged(a, b)
    k, n, m = len(a), a.sum(), b.sum()
    if k < 2:
        return 1.0
    both = a + b
    total = n + m
    statistic = 2.0 * (_log_terms(a, both * n / total) + _log_terms(b, both * m / total))
    williams = 1.0 + (total * (1.0 / n + 1.0 / m) - 1.0) * (total * (1.0 / both).sum() - 1.0) / (6.0 * total * (k - 1))
    return float(chdtrc(k - 1, max(statistic / williams, 0.0)))


def _log_terms(counts: Floats, expected: Floats) -> float:
    return float((counts * np.log(np.where(counts > 0.0, counts / expected, 1.0))).sum())


def _merged(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Merge the cells in which fewer than five rows are expected of either window."""
    both = a + b
    share = min(a.sum(), b.sum()) / both.sum()
    order = np.argsort(both, kind="stable")
    few = int((both * share < _EXPECTED).sum())
    if few == 0:
        return a, b
    # if the few together are still too few, the smallest of the others joins them
    while few < len(order) and both[order[:few]].sum() * share < _EXPECTED:
        few += 1
    return tuple(np.append(x[order[few:]], x[order[:few]].sum()) for x in (a, b))  # type: ignore[return-value]


def _each(a: Floats, b: Floats) -> Floats:
    """Return the chance of each cell's counts, (k,), by the binomial law of the share that is now, both sides.

    The incomplete beta function serves for counts that are not whole.
    """
    from scipy.special import betainc

    both, share = a + b, b.sum() / (a.sum() + b.sum())
    more = betainc(np.maximum(b, 1e-12), a + 1.0, share)
    less = 1.0 - betainc(b + 1.0, np.maximum(a, 1e-12), share)
    more, less = np.where(b > 0.0, more, 1.0), np.where(a > 0.0, less, 1.0)
    return np.where(both > 0.0, np.minimum(1.0, 2.0 * np.minimum(more, less)), 1.0)


def _lepage(a: Floats, b: Floats) -> float | None:
    """Return the chance of a shift of location or spread of ordered cells, by their mid-ranks; None without an order.

    Reference: Lepage, *A combination of Wilcoxon's and Ansari-Bradley's statistics*, Biometrika 1971; spread by Mood's
    squares, made orthogonal to location so that heaps do no harm.
    """
    from scipy.special import chdtrc

    both = a + b
    if len(a) < 2 or (both > 0.0).sum() < 2 or min(a.sum(), b.sum()) < _EXPECTED:
        return None
    share = both / both.sum()
    rank = np.cumsum(share) - 0.5 * share
    rank = rank - share @ rank
    square = rank**2 - share @ rank**2
    square = square - rank * ((share * rank) @ square) / max(float((share * rank) @ rank), 1e-300)
    worth = 1.0 / a.sum() + 1.0 / b.sum()
    statistic, dof = 0.0, 0
    for score in (rank, square):
        spread = float(share @ score**2)
        if spread > 1e-9:
            difference = float(b @ score / b.sum() - a @ score / a.sum())
            statistic, dof = statistic + difference**2 / (spread * worth), dof + 1
    return float(chdtrc(dof, statistic)) if dof else None


def marginal(cells: Cells, level: float) -> Estimate:
    r"""Return KL(now‖then) of a column's cells, with its interval.

    The plug-in value :math:`v = \sum Q \log Q/P` of counts is too large by its noise, about
    :math:`\frac12(k-1)(1/n + 1/m)`; half a row is added to each cell, so that an empty cell is not worth infinity.
    Where rows now stand in a cell that the original did not have, the value is a lower bound.

    >>> then, now = np.array([500.0, 500.0]), np.array([400.0, 600.0])
    >>> print(marginal(Cells(then, now, 2, (), (1000.0, 1000.0)), 0.95))
    0.0191 ± 0.0088 (95% interval 0.006399 to 0.04128)
    """
    a, b = _scaled(cells)
    live = a + b > 0.0
    k = int(live.sum())
    if k < 2 or min(a.sum(), b.sum()) <= 0.0:
        return Estimate(0.0, math.nan, -math.inf, math.inf, level)
    a, b = a[live] + 0.5, b[live] + 0.5
    n, m = float(a.sum()), float(b.sum())
    p, q = a / n, b / m
    odds = q / p
    value = float(q @ np.log(odds))
    spread = float(q @ np.log(odds) ** 2 - value**2) / m + max(float(q @ odds) - 1.0, 0.0) / n
    noise = 0.5 * (k - 1) * (1.0 / n + 1.0 / m)
    found = interval(value, spread, noise, 0.5 * (k - 1) * (1.0 / n + 1.0 / m) ** 2, n / (n + m), level)
    new = (cells.then == 0.0) & (_each(*_scaled(cells)) < 0.5 - 0.5 * level)
    return opened(found) if new.any() else found


def most_moved(cells: Cells) -> int:
    """Return the cell whose share changed most, by its own test; the larger change of share decides between equals.

    >>> most_moved(Cells(np.array([10.0, 50.0, 40.0]), np.array([30.0, 40.0, 30.0]), 0, (), (100.0, 100.0)))
    0
    """
    a, b = _scaled(cells)
    change = np.abs(b / max(b.sum(), 1e-300) - a / max(a.sum(), 1e-300))
    return int(np.lexsort((-change, _each(a, b)))[0])


def holm(chances: Sequence[float] | Floats, level: float) -> npt.NDArray[np.bool_]:
    """Return which of several tests speak, so that any false one does with chance ``level`` at most (Holm 1979).

    >>> holm([0.01, 0.04, 0.03], 0.05).tolist()
    [True, False, False]
    """
    p = np.asarray(chances, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    allowed = level / np.arange(len(p), 0, -1)
    refused = np.flatnonzero(p[order] > allowed)
    out = np.zeros(len(p), dtype=bool)
    out[order[: refused[0] if len(refused) else len(p)]] = True
    return out
