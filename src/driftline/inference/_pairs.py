"""Pairs of columns whose relation changed, by counts of rows in coarse cells of both; and what columns explain."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from driftline._inputs import Floats

__all__ = ["PairTables", "account", "dependence_moved", "pair_parts", "rank_correlations"]

_ROUNDS = 60  # of fitting margins in turn, at most
_CLOSE = 1e-7
_MONOTONE = 0.8  # share of a pair's level for a change of its rank correlation; the rest for any change

Flags = npt.NDArray[np.bool_]


class PairTables(NamedTuple):
    """Counts of rows in the coarse cells of pairs of columns, then and now.

    Attributes:
        then, now: counts, (pairs, I, J); rows and columns of a table that are empty in both are left out of account.
        ordered: whether the groups of both columns have an order, (pairs,).
        rows: effective rows of both.
    """

    then: Floats
    now: Floats
    ordered: Flags
    rows: tuple[float, float]

    def take(self, which: Flags | npt.NDArray[np.int64]) -> PairTables:
        """Return some of the pairs."""
        return self._replace(then=self.then[which], now=self.now[which], ordered=self.ordered[which])


def dependence_moved(pairs: PairTables, least: float = 1.0) -> Floats:
    """Return for each pair the chance of tables that differ this much if both columns depend on each other as before.

    The columns' own distributions may have changed. Two tests share the level: an equal monotone relation, where both
    have an order, and no interaction of both columns and the window at all, with expected counts by fitting all
    margins in turn. Neither statistic exceeds that of any change of the table, so pairs whose table does not even
    show that at the level ``least`` have the chance 1 and cost nothing.
    """
    from scipy.special import chdtri

    a, b = _scaled_tables(pairs)
    out = np.ones(len(a))
    changed = _total(a, b)
    at = np.flatnonzero(changed > (chdtri(1.0, least) if least < 1.0 else -1.0))
    if len(at):
        out[at] = _interactions(np.stack([a[at], b[at]], 1), pairs.ordered[at])
    return out


def _scaled_tables(pairs: PairTables) -> tuple[Floats, Floats]:
    found = []
    for counts, rows in zip((pairs.then, pairs.now), pairs.rows, strict=True):
        total = counts.sum((1, 2), keepdims=True)
        found.append(counts * np.minimum(1.0, rows / np.maximum(total, 1e-300)))
    return found[0], found[1]


def _total(a: Floats, b: Floats) -> Floats:
    """Return the G statistic of any change of the tables, (pairs,)."""
    both = a + b
    n, m = a.sum((1, 2), keepdims=True), b.sum((1, 2), keepdims=True)
    out = np.zeros(len(a))
    for counts, rows in ((a, n), (b, m)):
        expected = np.maximum(both * rows / np.maximum(n + m, 1e-300), 1e-300)
        out += 2.0 * (counts * np.log(np.where(counts > 0.0, counts / expected, 1.0))).sum((1, 2))
    return out


def _interactions(tables: Floats, ordered: Flags) -> Floats:
    """Return the chances of tables (pairs, 2, I, J) if columns and window do not interact."""
    from scipy.special import chdtrc, ndtr

    expected = _no_interaction(tables)
    thin = expected < 1.0
    seen = np.where(thin, 0.0, tables)
    ratio = np.where(seen > 0.0, seen / np.maximum(expected, 1e-300), 1.0)
    # terms of cells with a row or less are left out: their law is not chi-square's
    g = 2.0 * (seen * np.log(ratio) - np.where(thin, 0.0, tables - expected)).sum((1, 2, 3))
    dof = _degrees(tables.sum(1) > 0.0, ~np.any(thin, axis=1))
    any_change = np.where(dof > 0, chdtrc(np.maximum(dof, 1), np.maximum(g, 0.0)), 1.0)
    z = np.array([_monotone(t, e) if o else np.nan for t, e, o in zip(tables, expected, ordered, strict=True)])
    monotone = np.where(np.isfinite(z), 2.0 * ndtr(-np.abs(z)), 1.0)
    alone = np.minimum(monotone / _MONOTONE, any_change / (1.0 - _MONOTONE))
    return np.minimum(1.0, np.where(np.isfinite(z), alone, any_change))


def _monotone(table: Floats, expected: Floats) -> float:
    """Return the score of a change of the rank correlation of one table (2, I, J), in standard errors; nan without.

    The product of both columns' ranks, in the current window, is a further term of the model without interaction: its
    score, and its information beside that of all margins.
    """
    both = table.sum(0)
    x, y = _ranks(both.sum(1)[None])[0], _ranks(both.sum(0)[None])[0]
    _, rows, columns = table.shape
    product = np.zeros_like(table)
    product[1] = np.outer(x, y)
    at = np.indices(table.shape).reshape(3, -1)
    nuisance = [
        at[0] * rows + at[1],
        2 * rows + at[0] * columns + at[2],
        2 * (rows + columns) + at[1] * columns + at[2],
    ]
    design = np.zeros((table.size, 2 * (rows + columns) + rows * columns))
    for place in nuisance:
        design[np.arange(table.size), place] = 1.0
    weight, f = np.sqrt(expected.ravel()), product.ravel()
    fitted, *_ = np.linalg.lstsq(design * weight[:, None], f * weight, rcond=1e-10)
    left = (f - design @ fitted) * weight
    information = float(left @ left)
    return float(f @ (table - expected).ravel()) / information**0.5 if information > 1e-6 * table[1].sum() else np.nan


def _no_interaction(tables: Floats) -> Floats:
    """Return expected counts (pairs, 2, I, J) with all two-way margins of the tables, and no interaction of three."""
    fit = np.ones_like(tables)
    for _ in range(_ROUNDS):
        before = fit
        for axis in (1, 2, 3):
            margin, wanted = fit.sum(axis, keepdims=True), tables.sum(axis, keepdims=True)
            fit = fit * np.where(margin > 0.0, wanted / np.maximum(margin, 1e-300), 0.0)
        if np.abs(fit - before).max(initial=0.0) < _CLOSE * max(1.0, float(tables.max(initial=0.0))):
            break
    return fit


def _degrees(live: Flags, used: Flags) -> npt.NDArray[np.int64]:
    """Return the degrees of freedom of the interaction: cells used, less what the margins of live cells take."""
    rows, columns = live.any(2).sum(1), live.any(1).sum(1)
    return np.asarray(np.maximum(used.sum((1, 2)) - rows - columns + 1, 0))


def rank_correlations(tables: Floats) -> Floats:
    """Return the correlations of ranks of tables (pairs, I, J); ranks are those of the groups."""
    share = tables / np.maximum(tables.sum((1, 2), keepdims=True), 1e-300)
    x, y = _ranks(share.sum(2)), _ranks(share.sum(1))
    return np.asarray((share * x[:, :, None] * y[:, None, :]).sum((1, 2)))


def _ranks(counts: Floats) -> Floats:
    """Return mid-ranks of ordered cells with counts (pairs, k), of mean 0 and variance 1; 0 where there is one cell."""
    share = counts / np.maximum(counts.sum(1, keepdims=True), 1e-300)
    rank = np.cumsum(share, 1) - 0.5 * share
    rank = rank - (share * rank).sum(1, keepdims=True)
    spread = np.sqrt((share * rank**2).sum(1, keepdims=True))
    return np.where(spread > 1e-9, rank / np.maximum(spread, 1e-300), 0.0)


def pair_parts(pairs: PairTables) -> tuple[Floats, Floats]:
    r"""Return for each pair how much of KL(now‖then) of its table is in the columns, and how much in their dependence.

    With p* the original's table raked to the current margins, :math:`KL(q‖p) = KL(p^*‖p) + KL(q‖p^*)`. Plug-in values:
    for dependence, half the degrees of freedom over the rows are noise.
    """
    a, b = pairs.then + 0.5, pairs.now + 0.5
    p, q = a / a.sum((1, 2), keepdims=True), b / b.sum((1, 2), keepdims=True)
    raked = p
    for _ in range(_ROUNDS):
        before = raked
        for axis in (1, 2):
            raked = raked * q.sum(axis, keepdims=True) / raked.sum(axis, keepdims=True)
        if np.abs(raked - before).max(initial=0.0) < _CLOSE:
            break
    columns = (raked * np.log(raked / p)).sum((1, 2))
    return columns, (q * np.log(q / raked)).sum((1, 2))


def account(
    columns: Floats, at: npt.NDArray[np.int64], pairs: PairTables, first: Flags, without: int | None = None
) -> float:
    r"""Return how much of KL(now‖then) the columns and a tree of pairs explain, in nats.

    If both distributions had the dependences of a tree only, KL would be
    :math:`\sum_i KL_i + \sum_{ij} (KL_{ij} - KL_i - KL_j)` over its edges: two columns that tell the same count once.
    The tree takes the pairs that come ``first``, then those that depend on each other most, and no circle. Pairs are
    not summed beyond that: three columns have three pairs, and only two of them can be told apart.

    Arguments:
        columns: KL of each column, noise subtracted, (c,).
        at: columns of each pair, (pairs, 2).
        first: pairs to take before others, (pairs,).
        without: column that is left out.
    """
    kept = np.ones(len(columns), dtype=bool)
    if without is not None:
        kept[without] = False
    total = float(columns[kept].sum())
    used = np.flatnonzero(kept[at].all(1)) if len(at) else np.zeros(0, dtype=np.int64)
    if not len(used):
        return total
    a, b = _scaled_tables(pairs.take(used))
    strength = _mutual(a + b)
    root = list(range(len(columns)))
    for k in np.lexsort((-strength, ~first[used])):
        i, j = (_root(root, int(c)) for c in at[used[k]])
        if i != j:
            root[i] = j
            total += _beyond_columns(a[k], b[k])
    return total


def _root(root: list[int], i: int) -> int:
    while root[i] != i:
        root[i] = i = root[root[i]]
    return i


def _mutual(counts: Floats) -> Floats:
    """Return the mutual information of tables (pairs, I, J), in nats."""
    share = counts / np.maximum(counts.sum((1, 2), keepdims=True), 1e-300)
    alone = share.sum(2, keepdims=True) * share.sum(1, keepdims=True)
    return np.asarray((share * np.log(np.where(share > 0.0, share / np.maximum(alone, 1e-300), 1.0))).sum((1, 2)))


def _beyond_columns(a: Floats, b: Floats) -> float:
    """Return KL of a table less that of both of its columns, each less its noise."""
    return _divergence(a, b) - _divergence(a.sum(0), b.sum(0)) - _divergence(a.sum(1), b.sum(1))


def _divergence(a: Floats, b: Floats) -> float:
    live = a + b > 0.0
    k = int(live.sum())
    p, q = a[live] + 0.5, b[live] + 0.5
    n, m = float(p.sum()), float(q.sum())
    return float((q / m) @ np.log(q * n / (p * m))) - 0.5 * (k - 1) * (1.0 / n + 1.0 / m)
