"""Moves: which columns moved from an original, and which pairs relate otherwise, by counts; and what they explain.

Three tests of a column share its level: the window against the original; the last windows pooled against the original,
for weak shifts; and the window against the original and the windows before it together, for abrupt ones. The last two
only count where the window itself disagrees with the original, so that a column that has come back is not named.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from driftline.inference import (
    Cells,
    Estimate,
    Finding,
    PairTables,
    account,
    dependence_moved,
    holm,
    marginal,
    moved,
    pair_parts,
    rank_correlations,
)
from driftline.tables import Ledger, Tally

__all__ = ["Moves", "Pool", "Seen", "moves"]

_PAIRS = 0.4  # share of the level for pairs
_TESTS = (0.4, 0.3, 0.3)  # shares of a column's level: the window, the last windows, the window against all before
_AGREES = 0.05  # chance of the window alone below which it agrees that the column moved
_DECAY = 0.9  # weight of the window before
_BROKE = 1e-3  # chance, for all columns together, of a window unlike those before it: the pool begins anew
_ROWS = 50.0  # effective rows of both, at least

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Pool:
    """Counts of the last windows, older ones for less, of each column since its last abrupt change.

    Attributes:
        counts: weighted counts of the cells, by column.
        rows: weighted rows of each column.
        squares: sums of squared weights, in effective rows: what the pool is worth is rows² / squares.
    """

    counts: tuple[tuple[float, ...], ...] = ()
    rows: tuple[float, ...] = ()
    squares: tuple[float, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary that can be written as JSON."""
        return {"counts": [list(c) for c in self.counts], "rows": list(self.rows), "squares": list(self.squares)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], ledger: Ledger | None) -> Pool:
        """Restore a pool that belongs to a ledger, and check it."""
        made = cls(tuple(map(tuple, data["counts"])), tuple(data["rows"]), tuple(data["squares"]))
        numbers = [*(v for counts in made.counts for v in counts), *made.rows, *made.squares]
        if not all(isinstance(v, int | float) and 0.0 <= v < math.inf for v in numbers):
            raise ValueError("a pool of windows does not hold numbers")
        sizes = [] if ledger is None else [len(column.counts) for column in ledger.columns]
        if made.rows and (
            [len(c) for c in made.counts] != sizes or not len(made.rows) == len(made.squares) == len(sizes)
        ):
            raise ValueError("a pool of windows does not fit its original")
        return made


class Seen(NamedTuple):
    """A window in the cells of an original: its counts, its rows, and what these are worth; 0 if nobody knows."""

    tally: Tally
    rows: int
    worth: float


class Moves(NamedTuple):
    """What moved.

    Attributes:
        cells: counts then and now, of columns that only the pool shows from the pool.
        found: chance and loudest test of each column.
        named: columns that moved, by place, the largest drift first.
        drifts: KL(now‖then) of each of these.
        pooled: columns whose drift is that of the last windows.
        pairs: pairs that relate otherwise, by place among the ledger's, the largest first.
        dependence: what is in their dependence, nats.
        pair_chances: chances of their tables.
        correlations: rank correlations of these, then and now; nan where there is no order.
        pool: the last windows, this one included.
        tested: whether rows were enough to test anything.
        explained: nats that the columns and a tree of their pairs explain.
        tables: counts of pairs then and now.
        own: KL(now‖then) of each column in the window alone, less its noise; and the shares of its rows without a value
            and in cells that no row of the original was in, (c, 3).
    """

    cells: Cells
    found: Finding
    named: list[int]
    drifts: list[Estimate]
    pooled: frozenset[int]
    pairs: list[int]
    dependence: list[float]
    pair_chances: list[float]
    correlations: list[tuple[float, float]]
    pool: Pool
    tested: bool
    explained: float
    tables: PairTables
    own: Floats

    def confirmed(self, tables: Floats, level: float) -> Moves:
        """Return what moved, with those pairs alone that relate otherwise in other tables of the window, (k, 4, 4)."""
        again = self.tables.take(np.asarray(self.pairs, dtype=np.int64))._replace(now=tables)
        each = _PAIRS * level / max(len(self.tables.then), 1)
        chances = dependence_moved(again, each)
        at = np.flatnonzero(chances <= each)
        here = again.take(at)
        dependence = _dependence(here)
        order = np.argsort(-dependence, kind="stable")
        now = self.tables.now.copy()
        now[self.pairs] = tables
        return self._replace(
            pairs=[self.pairs[k] for k in at[order]],
            dependence=dependence[order].tolist(),
            pair_chances=[self.pair_chances[k] for k in at[order]],
            correlations=_correlations(here.take(order)),
            tables=self.tables._replace(now=now),
        )

    def without(self, ledger: Ledger, column: int) -> float:
        """Return how much the other columns and their pairs explain, in nats."""
        return _explained(self.cells, self.tables, ledger, self.pairs, column)


def moves(ledger: Ledger, seen: Seen, pool: Pool, level: float, confidence: float) -> Moves:
    """Compare a window with an original, by counts.

    Arguments:
        ledger: cells and counts of the original.
        pool: the windows before.
        level: chance that anything is named though nothing moved.
        confidence: confidence level of intervals.
    """
    then, kinds = ledger.tally, ledger.kinds
    c = len(ledger.columns)
    cells = Cells(then.columns, seen.tally.columns, kinds, np.full(c, ledger.worth), np.full(c, seen.worth))
    tables = PairTables(then.pairs, seen.tally.pairs, _ordered(ledger), (ledger.worth, seen.worth))
    if min(ledger.worth, seen.worth) < _ROWS:
        nothing = Finding(np.ones(c), np.zeros(c, dtype=np.int64))
        return Moves(
            cells, nothing, [], [], frozenset(), [], [], [], [], pool, False, math.nan, tables, np.zeros((c, 3))
        )
    columns, pairs = (1.0 - _PAIRS, _PAIRS) if len(ledger.pairs) else (1.0, 0.0)
    found, last, after = _columns(cells, seen, pool)
    named = np.flatnonzero(holm(found.chance, columns * level)).tolist()
    pooled = frozenset(k for k in named if last is not None and last[1][k])
    shown = cells if last is None else _mixed(cells, last[0], pooled)
    drifts = {k: marginal(shown, k, confidence) for k in named}
    named.sort(key=lambda k: (-drifts[k].value, k))
    chances = dependence_moved(tables, pairs * level) if pairs else np.zeros(0)
    others = np.flatnonzero(holm(chances, pairs * level)) if pairs else np.zeros(0, dtype=np.int64)
    dependence = _dependence(tables.take(others))
    order = np.argsort(-dependence, kind="stable")
    others, dependence = others[order], dependence[order]
    return Moves(
        cells=shown,
        found=found,
        named=named,
        drifts=[drifts[k] for k in named],
        pooled=pooled,
        pairs=others.tolist(),
        dependence=dependence.tolist(),
        pair_chances=chances[others].tolist() if len(others) else [],
        correlations=_correlations(tables.take(others)),
        pool=after,
        tested=True,
        explained=_explained(shown, tables, ledger, others.tolist()),
        tables=tables,
        own=_own(cells),
    )


def _own(cells: Cells) -> Floats:
    rows = np.maximum(cells.now.sum(1), 1.0)
    places = np.arange(len(rows))
    last = (cells.kinds > 0).sum(1) - 1  # the cell of missing values
    missing = cells.now[places, last]
    there = cells.now.copy()
    there[places, last] = 0.0
    new = np.where(cells.then == 0.0, there, 0.0).sum(1)
    return np.column_stack([_values(cells), missing / rows, new / rows])


def _ordered(ledger: Ledger) -> npt.NDArray[np.bool_]:
    ordered = [column.ordered for column in ledger.columns]
    return np.array([ordered[i] and ordered[j] for i, j in ledger.pairs], dtype=bool)


def _columns(cells: Cells, seen: Seen, pool: Pool) -> tuple[Finding, tuple[Cells, npt.NDArray[np.bool_]] | None, Pool]:
    """Return the chances of columns by all three tests; the pool's cells and where they speak; and the next pool."""
    alone = moved(cells)
    if not pool.rows:
        return alone, None, _next(pool, seen, cells.now, cells.kinds, None)
    before, worth = _valued(pool, cells.now.shape[1])
    broke = holm(moved(Cells(before, cells.now, cells.kinds, worth, cells.rows_now)).chance, _BROKE)
    after = _next(pool, seen, cells.now, cells.kinds, broke)
    later, rows = _valued(after, cells.now.shape[1])
    both = cells._replace(now=later, rows_now=rows)
    known = cells._replace(then=cells.scaled()[0] + before, rows_then=cells.rows_then + worth)
    agrees = alone.chance < _AGREES
    findings = [alone, *(_only(moved(each), agrees) for each in (both, known))]
    chances = np.array([f.chance / share for f, share in zip(findings, _TESTS, strict=True)])
    best = chances.argmin(0)
    tests = np.array([f.test for f in findings])[best, np.arange(len(best))]
    # where the window alone shows it, its own drift is told
    weak = (best == 1) & (alone.chance > 1e-3)
    return Finding(np.minimum(1.0, chances.min(0)), tests), (both, weak), after


def _only(found: Finding, where: npt.NDArray[np.bool_]) -> Finding:
    return found._replace(chance=np.where(where, found.chance, 1.0))


def _valued(pool: Pool, width: int) -> tuple[Floats, Floats]:
    """Return the counts of a pool in effective rows, (c, k), and these rows, (c,): more than its weighted rows."""
    rows = np.array(pool.rows)
    worth = rows**2 / np.maximum(np.array(pool.squares), 1e-300)
    return _padded(pool, width) * (worth / np.maximum(rows, 1e-300))[:, None], worth


def _padded(pool: Pool, width: int) -> Floats:
    out = np.zeros((len(pool.counts), width))
    for row, counts in zip(out, pool.counts, strict=True):
        row[: len(counts)] = counts
    return out


def _next(
    pool: Pool, seen: Seen, now: Floats, kinds: npt.NDArray[np.int8], broke: npt.NDArray[np.bool_] | None
) -> Pool:
    """Add a window to a pool; where a column broke with those before, it begins anew."""
    keep = np.zeros(len(now)) if broke is None else np.where(broke, 0.0, _DECAY)
    size = np.full(len(now), seen.rows**2 / max(seen.worth, 1e-300))
    if broke is None:
        counts, rows, squares = now, np.full(len(now), float(seen.rows)), size
        lengths = (kinds > 0).sum(1).tolist()
    else:
        counts = keep[:, None] * _padded(pool, now.shape[1]) + now
        rows, squares = keep * np.array(pool.rows) + seen.rows, keep**2 * np.array(pool.squares) + size
        lengths = [len(c) for c in pool.counts]
    told = tuple(tuple(row[:k].tolist()) for row, k in zip(counts, lengths, strict=True))
    return Pool(told, tuple(rows.tolist()), tuple(squares.tolist()))


def _mixed(cells: Cells, pooled: Cells, which: frozenset[int]) -> Cells:
    at = list(which)
    now, rows = cells.now.copy(), cells.rows_now.copy()
    now[at], rows[at] = pooled.now[at], pooled.rows_now[at]
    return cells._replace(now=now, rows_now=rows)


def _dependence(tables: PairTables) -> Floats:
    """Return what is in the dependence of pairs, less its noise: half the degrees of freedom over the rows."""
    if not len(tables.then):
        return np.zeros(0)
    a, b = tables.then, tables.now
    n, m = (np.minimum(rows, counts.sum((1, 2))) for rows, counts in zip(tables.rows, (a, b), strict=True))
    a, b = (x * (rows / np.maximum(x.sum((1, 2)), 1e-300))[:, None, None] for x, rows in ((a, n), (b, m)))
    live = a + b > 0.0
    free = (live.any(2).sum(1) - 1) * (live.any(1).sum(1) - 1)
    dependence = pair_parts(tables._replace(then=a, now=b))[1]
    return np.asarray(np.maximum(dependence - 0.5 * free * (1.0 / n + 1.0 / m), 0.0))


def _correlations(tables: PairTables) -> list[tuple[float, float]]:
    then, now = (np.where(tables.ordered, rank_correlations(x), np.nan) for x in (tables.then, tables.now))
    return list(zip(then.tolist(), now.tolist(), strict=True))


def _explained(cells: Cells, tables: PairTables, ledger: Ledger, first: list[int], without: int | None = None) -> float:
    """Return how much of the drift the columns and a tree of their pairs explain, in nats."""
    values = _values(cells)
    at = np.asarray(ledger.pairs, dtype=np.int64).reshape(-1, 2)
    before = np.zeros(len(at), dtype=bool)
    before[first] = True
    return account(values, at, tables, before, without)


def _values(cells: Cells) -> Floats:
    """Return KL(now‖then) of each column, less its noise."""
    a, b = cells.scaled()
    live = a + b > 0.0
    a, b = np.where(live, a + 0.5, 0.0), np.where(live, b + 0.5, 0.0)
    n, m = a.sum(1, keepdims=True), b.sum(1, keepdims=True)
    ratio = np.where(live, (b / m) / np.where(live, a / n, 1.0), 1.0)
    noise = 0.5 * np.maximum(live.sum(1) - 1, 0) * (1.0 / n[:, 0] + 1.0 / m[:, 0])
    return np.asarray((b / m * np.log(ratio)).sum(1) - noise)
