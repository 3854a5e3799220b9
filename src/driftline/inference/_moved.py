r"""Which columns moved, by counts of rows in cells: a test of each, and what its own drift is.

Nothing here knows a model. A column's cells were fixed on the original; what is compared are the counts of its rows
and of the current window's. Rows that repeat or depend on each other count for what they are worth: counts are scaled
down to the effective rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from driftline._inputs import Floats
from driftline.inference._estimates import Estimate, opened
from driftline.inference._intervals import interval

__all__ = ["CellKind", "Cells", "Finding", "MoveTest", "holm", "marginal", "most_moved", "moved"]

_EXPECTED = 5.0  # rows of a cell that chi-square's law asks for; cells with fewer are merged
_RARE = 20.0  # rows: with fewer expected, a rise of a cell can be seen and a fall hardly
_RISE = 0.9  # share of the level that a rise of such a cell gets

Flags = npt.NDArray[np.bool_]


class CellKind(IntEnum):
    """Kind of a cell."""

    ABSENT = 0  # the column has fewer cells than others
    PLAIN = 1  # without an order
    ORDERED = 2  # a bin of numbers, from left to right
    HEAP = 3  # in the same order, but one value that many rows share
    ALONE = 4  # tested by itself, since drift often stands in it alone: missing, other values


class MoveTest(IntEnum):
    """Test that speaks for a move, by its place in the weights."""

    PLACE = 0  # location of the ordered cells
    SPREAD = 1
    PLACE_BESIDE = 2  # the same beside heaps
    SPREAD_BESIDE = 3
    ALL = 4  # all cells at once
    CELL = 5  # each cell by itself
    ALONE = 6  # each cell that is tested by itself whatever the others do


_TOLD = np.array([0, 2, 1, 3, 4, 5, 6])  # the tests in the order in which people would rather hear of them
_CLEAR = 0.6  # of the loudest test's logarithm: a test that says it as well
_WEIGHTS = np.array([4.0, 2.0, 3.0, 2.0, 1.5, 1.0, 5.0])  # of the tests in a column's level; only those that apply


class Cells(NamedTuple):
    """Counts of columns' rows in their cells, then and now; columns with fewer cells than others are padded with 0.

    Attributes:
        then, now: counts, (c, k).
        kinds: what each cell is, see :class:`CellKind`, (c, k).
        rows_then, rows_now: effective rows of both, (c,); no more than the counts' sums are used.
    """

    then: Floats
    now: Floats
    kinds: npt.NDArray[np.int8]
    rows_then: Floats
    rows_now: Floats

    def scaled(self) -> tuple[Floats, Floats]:
        """Return the counts in effective rows."""
        pairs = ((self.then, self.rows_then), (self.now, self.rows_now))
        a, b = (counts * np.minimum(1.0, rows / np.maximum(counts.sum(1), 1e-300))[:, None] for counts, rows in pairs)
        return a, b


class Finding(NamedTuple):
    """Chance of each column's counts if it has not moved, (c,), and the test that says it best, (c,).

    That is the first, as people would put it, of those that speak nearly as loud as the loudest.
    """

    chance: Floats
    test: npt.NDArray[np.int64]


def moved(cells: Cells) -> Finding:
    """Return the chance of counts that differ this much in columns that have not moved.

    Several tests share a column's level: location and spread of the ordered cells by their mid-ranks, with heaps and
    beside them, all cells at once (G, Williams' correction), each cell by itself (exact), and those that are tested
    alone. Two cells are one test.

    >>> then, now = np.array([[500.0, 500.0]]), np.array([[510.0, 490.0]])
    >>> kinds, rows = np.full((1, 2), CellKind.ORDERED, dtype=np.int8), np.array([1000.0])
    >>> same = Cells(then, now, kinds, rows, rows)
    >>> bool(moved(same).chance > 0.5), bool(moved(same._replace(now=np.array([[650.0, 350.0]]))).chance < 1e-6)
    (True, True)
    """
    a, b = cells.scaled()
    live = (a + b > 0.0) & (cells.kinds != CellKind.ABSENT)
    n, m = a.sum(1), b.sum(1)
    known = (live.sum(1) > 1) & (n > 0.0) & (m > 0.0)
    chances = np.full((len(a), len(_WEIGHTS)), np.nan)
    if known.any():
        chances[known] = _tests(a[known], b[known], cells.kinds[known], live[known])
    weight = np.where(np.isnan(chances), 0.0, _WEIGHTS)
    weight /= np.maximum(weight.sum(1, keepdims=True), 1e-300)
    with np.errstate(divide="ignore", invalid="ignore"):
        each = np.where(weight > 0.0, chances / weight, np.inf)
    loud = -np.log(np.clip(each, 1e-300, 1.0))
    clear = loud >= _CLEAR * loud.max(1, keepdims=True)
    return Finding(np.minimum(1.0, each.min(1)), _TOLD[clear[:, _TOLD].argmax(1)])


def _tests(a: Floats, b: Floats, kinds: npt.NDArray[np.int8], live: Flags) -> Floats:
    """Return the chances of all tests, (c, tests); nan for those that do not apply."""
    out = np.full((len(a), len(_WEIGHTS)), np.nan)
    ordered = ((kinds == CellKind.ORDERED) | (kinds == CellKind.HEAP)) & live
    beside = ordered & (kinds == CellKind.ORDERED)
    alone = (kinds == CellKind.ALONE) & live
    each = np.where(live, _each(a, b), 1.0)
    several = live.sum(1) > 2
    among = np.where(alone, 1.0, each).min(1) * (live & ~alone).sum(1)
    out[:, MoveTest.CELL] = np.where(several, among, each.min(1))
    out[several, MoveTest.ALL] = _all_cells(a[several], b[several])
    out[:, [MoveTest.PLACE, MoveTest.SPREAD]] = _place_and_spread(a, b, ordered)
    heaped = (beside.sum(1) > 1) & (ordered.sum(1) > beside.sum(1))
    out[heaped, MoveTest.PLACE_BESIDE : MoveTest.SPREAD_BESIDE + 1] = _place_and_spread(a, b, beside)[heaped]
    own = alone.any(1)
    out[own, MoveTest.ALONE] = np.where(alone, each, 1.0)[own].min(1) * alone[own].sum(1)
    out[np.ix_(~several, [t for t in MoveTest if t != MoveTest.CELL])] = np.nan
    return out


def _all_cells(a: Floats, b: Floats) -> Floats:
    """Return the chance of the G statistic, by chi-square's law with Williams' correction; cells of few rows merged."""
    from scipy.special import chdtrc

    a, b = _merged(a, b)
    n, m, both = a.sum(1), b.sum(1), a + b
    total, k = n + m, (both > 0.0).sum(1)
    rows = both * (n / total)[:, None], both * (m / total)[:, None]
    statistic = 2.0 * (_log_terms(a, rows[0]) + _log_terms(b, rows[1]))
    inverse = np.where(both > 0.0, 1.0 / np.maximum(both, 1e-300), 0.0).sum(1)
    free = np.maximum(k - 1, 1)
    williams = 1.0 + (total * (1.0 / n + 1.0 / m) - 1.0) * (total * inverse - 1.0) / (6.0 * total * free)
    return np.where(k > 1, chdtrc(free, np.maximum(statistic / williams, 0.0)), 1.0)


def _log_terms(counts: Floats, expected: Floats) -> Floats:
    ratio = np.where(counts > 0.0, counts / np.maximum(expected, 1e-300), 1.0)
    return np.asarray((counts * np.log(ratio)).sum(1))


def _merged(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Merge the cells in which fewer than five rows are expected of either window; if all these are few, one more."""
    both = a + b
    share = np.minimum(a.sum(1), b.sum(1)) / both.sum(1)
    order = np.argsort(both, axis=1, kind="stable")
    a, b = np.take_along_axis(a, order, 1), np.take_along_axis(b, order, 1)
    expected = (a + b) * share[:, None]
    few = np.maximum((expected < _EXPECTED).sum(1), (np.cumsum(expected, 1) < _EXPECTED).sum(1) + 1)
    few = np.minimum(np.where((expected[:, :1] < _EXPECTED).any(1), few, 1), a.shape[1])
    first = np.arange(a.shape[1]) < few[:, None]
    out = []
    for counts in (a, b):
        merged = np.where(first, 0.0, counts)
        merged[:, 0] += np.where(first, counts, 0.0).sum(1)
        out.append(merged)
    return out[0], out[1]


def _each(a: Floats, b: Floats) -> Floats:
    """Return the chance of each cell's counts, (c, k), by the binomial law of the share that is now (mid-p).

    The incomplete beta function serves for counts that are not whole. Both sides share the level evenly, except where
    few rows are expected: there a rise gets most of it. The binomial law takes the rows outside the cell as given to
    the last one, which is too cautious for a cell with much of all rows: where enough are expected on both sides, the
    likelihood ratio of the cell against all others serves instead.
    """
    from scipy.special import betainc

    both, share = a + b, (b.sum(1) / (a.sum(1) + b.sum(1)))[:, None]
    one, other = np.maximum(a, 1e-12), np.maximum(b, 1e-12)
    more = 0.5 * (betainc(other, a + 1.0, share) + betainc(b + 1.0, one, share))
    less = 0.5 * (betainc(one, b + 1.0, 1.0 - share) + betainc(a + 1.0, other, 1.0 - share))
    rise = np.where(both * share < _RARE, _RISE, 0.5)
    exact = np.minimum(1.0, np.minimum(more / rise, less / (1.0 - rise)))
    outside = both.sum(1, keepdims=True) - both
    many = np.minimum(both, outside) * np.minimum(share, 1.0 - share) >= _RARE
    return np.where(both > 0.0, np.where(many, _against_others(a, b), exact), 1.0)


def _against_others(a: Floats, b: Floats) -> Floats:
    """Return the chance of each cell's counts against all others', (c, k), by the G statistic of the two by two."""
    from scipy.special import chdtrc

    n, m = a.sum(1, keepdims=True), b.sum(1, keepdims=True)
    inside, total = a + b, n + m
    outside, statistic = total - inside, np.zeros_like(a)
    for counts, rows in ((a, n), (b, m)):
        for part, of in ((counts, inside), (rows - counts, outside)):
            odds = np.where(part > 0.0, part * total / np.maximum(rows * of, 1e-300), 1.0)
            statistic += 2.0 * part * np.log(np.maximum(odds, 1e-300))
    inverse = 1.0 / np.maximum(inside, 1e-300) + 1.0 / np.maximum(outside, 1e-300)
    williams = 1.0 + (total * (1.0 / n + 1.0 / m) - 1.0) * (total * inverse - 1.0) / (6.0 * total)
    return np.asarray(chdtrc(1.0, np.maximum(statistic / williams, 0.0)))


def _place_and_spread(a: Floats, b: Floats, used: Flags) -> Floats:
    """Return the chances of a shift of location and of spread of the used cells, (c, 2); nan where there are few.

    Location by mid-ranks (Wilcoxon), spread by their squares (Mood), made orthogonal to location so that heaps do no
    harm.
    """
    from scipy.special import ndtr

    a, b = np.where(used, a, 0.0), np.where(used, b, 0.0)
    n, m, both = a.sum(1), b.sum(1), a + b
    enough = ((both > 0.0).sum(1) > 1) & (n >= _EXPECTED) & (m >= _EXPECTED)
    share = both / np.maximum(n + m, 1e-300)[:, None]
    rank = np.cumsum(share, 1) - 0.5 * share
    rank -= (share * rank).sum(1, keepdims=True)
    square = rank**2 - (share * rank**2).sum(1, keepdims=True)
    lean = (share * rank * square).sum(1) / np.maximum((share * rank**2).sum(1), 1e-300)
    square -= lean[:, None] * rank
    worth = 1.0 / np.maximum(n, 1e-300) + 1.0 / np.maximum(m, 1e-300)
    out = np.full((len(a), 2), np.nan)
    for at, score in enumerate((rank, square)):
        spread = (share * score**2).sum(1)
        told = enough & (spread > 1e-9)
        moved_by = (b * score).sum(1) / np.maximum(m, 1e-300) - (a * score).sum(1) / np.maximum(n, 1e-300)
        z = np.abs(moved_by) / np.sqrt(np.maximum(spread * worth, 1e-300))
        out[told, at] = 2.0 * ndtr(-z[told])
    return out


def marginal(cells: Cells, at: int, level: float) -> Estimate:
    r"""Return KL(now‖then) of one column's cells, with its interval.

    The plug-in value :math:`v = \sum Q \log Q/P` of counts is too large by its noise, about
    :math:`\frac12(k-1)(1/n + 1/m)`; half a row is added to each cell, so that an empty cell is not worth infinity.
    Where rows now stand in a cell that the original did not have, the value is a lower bound.

    >>> then, now = np.array([[500.0, 500.0]]), np.array([[400.0, 600.0]])
    >>> rows = np.array([1000.0])
    >>> print(marginal(Cells(then, now, np.ones((1, 2), dtype=np.int8), rows, rows), 0, 0.95))
    0.0191 ± 0.0088 (95% interval 0.006399 to 0.04128)
    """
    scaled = cells.scaled()
    a, b = scaled[0][at], scaled[1][at]
    live = a + b > 0.0
    k = int(live.sum())
    if k < 2 or min(a.sum(), b.sum()) <= 0.0:
        return Estimate(0.0, math.nan, -math.inf, math.inf, level)
    new = (cells.then[at] == 0.0) & (_each(a[None], b[None])[0] < 0.5 - 0.5 * level)
    a, b = a[live] + 0.5, b[live] + 0.5
    n, m = float(a.sum()), float(b.sum())
    p, q = a / n, b / m
    odds = q / p
    value = float(q @ np.log(odds))
    spread = float(q @ np.log(odds) ** 2 - value**2) / m + max(float(q @ odds) - 1.0, 0.0) / n
    noise = 0.5 * (k - 1) * (1.0 / n + 1.0 / m)
    found = interval(value, spread, noise, 0.5 * (k - 1) * (1.0 / n + 1.0 / m) ** 2, n / (n + m), level)
    return opened(found) if new.any() else found


def most_moved(cells: Cells, at: int) -> int:
    """Return a column's cell whose share changed most, by its own test; the larger change decides between equals.

    >>> then, now, rows = np.array([[10.0, 50.0, 40.0]]), np.array([[30.0, 40.0, 30.0]]), np.array([100.0])
    >>> most_moved(Cells(then, now, np.ones((1, 3), dtype=np.int8), rows, rows), 0)
    0
    """
    a, b = (counts[at : at + 1] for counts in cells.scaled())
    change = np.abs(b / max(b.sum(), 1e-300) - a / max(a.sum(), 1e-300))
    return int(np.lexsort((-change[0], _each(a, b)[0]))[0])


def holm(chances: Sequence[float] | Floats, level: float) -> Flags:
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
