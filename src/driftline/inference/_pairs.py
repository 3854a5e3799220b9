"""Pairs of columns whose relation changed, by counts of rows in coarse cells of both."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from driftline._inputs import Floats

__all__ = ["PairTables", "dependence_moved", "pair_parts"]

_ROUNDS = 60  # of fitting margins in turn, at most
_CLOSE = 1e-7


class PairTables(NamedTuple):
    """Counts of rows in the coarse cells of pairs of columns, then and now.

    Attributes:
        then, now: counts, (pairs, I, J); rows and columns of a table that are empty in both are left out of account.
        rows: effective rows of both.
    """

    then: Floats
    now: Floats
    rows: tuple[float, float]


def dependence_moved(pairs: PairTables) -> Floats:
    """Return for each pair the chance of tables that differ this much if both columns depend on each other as before.

    The columns' own distributions may have changed. Two tests, the lesser chance times two: no interaction of both
    columns and the window (G, the expected counts by fitting all margins in turn), and an equal rank correlation.
    """
    from scipy.special import chdtrc, ndtr

    a, b = _scaled_tables(pairs)
    tables = np.stack([a, b], 1)
    expected = _no_interaction(tables)
    thin = expected < 1.0
    seen = np.where(thin, 0.0, tables)
    ratio = np.where(seen > 0.0, seen / np.maximum(expected, 1e-300), 1.0)
    # terms of cells with a row or less are left out: their law is not chi-square's
    g = 2.0 * (seen * np.log(ratio) - np.where(thin, 0.0, tables - expected)).sum((1, 2, 3))
    both = tables.sum(1)
    dof = _degrees(both > 0.0, ~np.any(thin, axis=1))
    interaction = np.where(dof > 0, chdtrc(np.maximum(dof, 1), np.maximum(g, 0.0)), 1.0)
    (r, vr), (s, vs) = _rank_correlation(a), _rank_correlation(b)
    with np.errstate(invalid="ignore", divide="ignore"):
        z = np.abs(np.arctanh(np.clip(s, -0.999, 0.999)) - np.arctanh(np.clip(r, -0.999, 0.999))) / np.sqrt(vr + vs)
    monotone = np.where(np.isfinite(z), 2.0 * ndtr(-z), 1.0)
    return np.minimum(1.0, 2.0 * np.minimum(interaction, monotone))


def _scaled_tables(pairs: PairTables) -> tuple[Floats, Floats]:
    found = []
    for counts, rows in zip((pairs.then, pairs.now), pairs.rows, strict=True):
        total = counts.sum((1, 2), keepdims=True)
        found.append(counts * np.minimum(1.0, rows / np.maximum(total, 1e-300)))
    return found[0], found[1]


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


def _degrees(live: npt.NDArray[np.bool_], used: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Return the degrees of freedom of the interaction: cells used, less what the margins of live cells take."""
    rows, columns = live.any(2).sum(1), live.any(1).sum(1)
    return np.asarray(np.maximum(used.sum((1, 2)) - rows - columns + 1, 0))


def _rank_correlation(tables: Floats) -> tuple[Floats, Floats]:
    """Return the rank correlations of tables (pairs, I, J), and the variances of their Fisher transforms."""
    total = np.maximum(tables.sum((1, 2)), 1e-300)
    share = tables / total[:, None, None]
    x, y = _ranks(share.sum(2)), _ranks(share.sum(1))
    xy = x[:, :, None] * y[:, None, :]
    r = (share * xy).sum((1, 2))
    influence = xy - 0.5 * r[:, None, None] * (x[:, :, None] ** 2 + y[:, None, :] ** 2)
    variance = (share * influence**2).sum((1, 2)) / total
    return r, variance / np.maximum(1.0 - r**2, 1e-3) ** 2


def _ranks(share: Floats) -> Floats:
    """Return mid-ranks of ordered cells with shares (pairs, k), of mean 0 and variance 1; 0 where there is one cell."""
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
