"""Boosting of symmetric trees by the logistic loss, cross-fitted: no row is scored by trees that have seen it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from driftline._inputs import Floats
from driftline.fitting._bins import Bins, Integers, fit_bins
from driftline.fitting._trees import BOUND, Trees, mean_of

__all__ = ["Crossed", "fit_crossed", "helps", "row_losses"]

_FOLDS = 4
_BLOCKS = 20  # blocks of neighbouring rows in a fold: neighbours may depend, and must not stand on both sides
_DEPTH = 5
_ROUNDS = 300
_PATIENCE = 12  # rounds without a better held-out loss before boosting ends
_RATE = 0.3
_RIDGE = 1.0  # prior on leaves, as curvature: that of about four rows
_LEAF_ROWS = 20  # fewest rows of a leaf
_LEAF_BOUND = 4.0  # largest log-odds of a leaf before the rate


class Crossed(NamedTuple):
    """Trees for new rows, the mean of one booster for each fold; and for the rows they were fitted on, ``num`` (n,) and
    ``den`` (m,), the log-odds by the booster that has not seen the row. ``rounds`` is the number of trees of a booster.
    """

    trees: Trees
    num: Floats
    den: Floats
    rounds: int


class _Problem(NamedTuple):
    """Rows of both windows in bins (N, k), their label (1 in the numerator), weight and offset, (N,) each."""

    bins: Bins
    codes: Integers
    label: Floats
    weight: Floats
    offset: Floats

    def part(self, rows: Integers) -> _Problem:
        """Return the problem of some rows."""
        return _Problem(self.bins, self.codes[rows], self.label[rows], self.weight[rows], self.offset[rows])


class _Tree(NamedTuple):
    """Questions by their bins (at most d), the gain of each, and the values of the leaves."""

    asked: list[int]
    gain: list[float]
    value: Floats


def fit_crossed(
    z_num: Floats,
    z_den: Floats,
    *,
    offset_num: Floats | None = None,
    offset_den: Floats | None = None,
    folds: int = _FOLDS,
    seed: int = 0,
) -> Crossed:
    """Boost trees towards log num/den minus the offsets, on rows (n, D) and (m, D).

    All boosters have the same number of rounds, which minimises the loss on rows that they have not seen.

    >>> rng = np.random.default_rng(0)
    >>> num, den = rng.normal(0.0, 1.0, (2000, 2)), rng.normal(1.0, 1.0, (2000, 2))
    >>> crossed = fit_crossed(num, den)  # the truth is log r = 1 - x - y
    >>> bool(abs(crossed.trees(num).mean() - 1.0) < 0.2), bool(abs(crossed.den.mean() + 1.0) < 0.2)
    (True, True)
    """
    problem = _problem(z_num, z_den, offset_num, offset_den)
    fold = np.concatenate([_folds(len(z), folds, seed + side) for side, z in enumerate((z_num, z_den))])
    seen = [np.flatnonzero(fold != k) for k in range(folds)]
    parts = [problem.part(rows) for rows in seen]
    columns = np.ascontiguousarray(problem.codes.T, dtype=np.int32)  # one after the other, as trees ask for them
    grown: list[list[_Tree]] = [[] for _ in range(folds)]
    scores = np.zeros((folds, len(fold)))
    own, best, rounds = np.zeros(len(fold)), _loss(problem, np.zeros(len(fold))), 0
    for done in range(1, (_ROUNDS if len(problem.bins.edge) else 0) + 1):
        for k in range(folds):
            tree = _grow(parts[k], scores[k][seen[k]])
            scores[k] += tree.value[_leaves(tree.asked, problem.bins, columns)]
            grown[k].append(tree)
        held_out = scores[fold, np.arange(len(fold))]
        loss = _loss(problem, held_out)
        if loss < best:
            own, best, rounds = held_out, loss, done
        elif done - rounds >= _PATIENCE:
            break
    own = np.clip(own, -BOUND, BOUND)
    trees = mean_of([_frozen(some[:rounds], problem.bins, len(fold)) for some in grown])
    return Crossed(trees, own[: len(z_num)], own[len(z_num) :], rounds)


def row_losses(log_num: Floats, log_den: Floats) -> Floats:
    """Return the logistic losses of rows by their log-ratios (n,) and (m,), weighted so that both windows count alike.

    Their mean is half of :func:`~driftline.fitting.logistic`; (n + m,).
    """
    n, m = len(log_num), len(log_den)
    losses = np.logaddexp(0.0, -log_num) * ((n + m) / (2.0 * n)), np.logaddexp(0.0, log_den) * ((n + m) / (2.0 * m))
    return np.concatenate(losses)


def helps(without: Floats, within: Floats, z: float = 4.0) -> bool:
    """Say whether held-out losses of rows (n,) are smaller ``within`` a model than ``without`` a feature of it.

    The mean of the paired differences must exceed z of its standard errors.

    >>> losses = np.random.default_rng(0).normal(1.0, 0.1, 1000)
    >>> helps(losses, losses - np.linspace(0.0, 0.02, 1000)), helps(losses, losses + np.linspace(-0.02, 0.02, 1000))
    (True, False)
    """
    gained = without - within
    return bool(gained.mean() > z * gained.std() / np.sqrt(len(gained)))


def _problem(z_num: Floats, z_den: Floats, offset_num: Floats | None, offset_den: Floats | None) -> _Problem:
    n, m = len(z_num), len(z_den)
    z = np.concatenate([z_num, z_den])
    bins = fit_bins(z)
    label = np.repeat([1.0, 0.0], [n, m])
    weight = np.repeat([0.5 * (n + m) / n, 0.5 * (n + m) / m], [n, m])
    offset = [np.zeros(n) if offset_num is None else offset_num, np.zeros(m) if offset_den is None else offset_den]
    return _Problem(bins, bins.codes(z), label, weight, np.concatenate(offset))


def _folds(rows: int, folds: int, seed: int) -> Integers:
    """Assign blocks of neighbouring rows to folds of equal size at random, (rows,)."""
    blocks = min(folds * _BLOCKS, rows)
    order = np.random.default_rng(seed).permutation(blocks) % folds
    return np.asarray(order[np.arange(rows) * blocks // rows])


def _loss(problem: _Problem, score: Floats) -> float:
    """Return the mean logistic loss of log-odds (N,), offsets not included."""
    signed = (1.0 - 2.0 * problem.label) * (score + problem.offset)
    return float((problem.weight * np.logaddexp(0.0, signed)).mean())


def _leaves(asked: list[int], bins: Bins, columns: npt.NDArray[np.int32]) -> Integers:
    """Return the leaf of each row, given as columns of bins (k, N); (N,)."""
    leaf = np.zeros(columns.shape[1], dtype=np.int64)
    for at in asked:
        leaf <<= 1
        leaf += columns[bins.column[at]] > at
    return leaf


def _grow(problem: _Problem, score: Floats) -> _Tree:
    """Grow a tree level by level, each with the question that gains most over all nodes."""
    bins, codes, label, weight, offset = problem
    chance = 1.0 / (1.0 + np.exp(-(score + offset)))
    slope, curve = weight * (label - chance), weight * chance * (1.0 - chance)
    node = np.zeros(len(codes), dtype=np.int64)
    sums = _sums(codes, node, slope, curve, 1, len(bins.edge))
    value, asked, gains = np.zeros(1), list[int](), list[float]()
    for depth in range(_DEPTH):
        left = _running(sums, bins)
        total = left[:, :, -1:]  # up to the last bin of the last column: everything
        gain = _gain(left, total - left)
        gain[np.isinf(bins.edge)] = 0.0
        at = int(gain.argmax())
        if gain[at] <= 0.0:
            break
        asked.append(at)
        gains.append(float(gain[at]))
        children = np.stack([left[:, :, at], total[:, :, 0] - left[:, :, at]], 2).reshape(3, -1)
        value = _values(children, np.repeat(value, 2))
        right = codes[:, bins.column[at]] > at
        if depth + 1 < _DEPTH:
            sums = _split(sums, codes, node, right, slope, curve)
            node = 2 * node + right
    return _Tree(asked, gains, _RATE * value)


def _sums(codes: Integers, node: Integers, slope: Floats, curve: Floats, nodes: int, bins: int) -> Floats:
    """Return the sums of slopes, of curvatures and of rows in each bin of each node, (3, nodes, bins)."""
    at = (codes + (bins * node)[:, None]).ravel()
    columns, size = codes.shape[1], nodes * bins
    parts = (np.repeat(slope, columns), np.repeat(curve, columns), None)
    return np.array([np.bincount(at, part, size) for part in parts], dtype=np.float64).reshape(3, nodes, bins)


def _split(
    sums: Floats, codes: Integers, node: Integers, right: npt.NDArray[np.bool_], slope: Floats, curve: Floats
) -> Floats:
    """Return the sums after each node has been split in two; only the smaller side is counted."""
    nodes, bins = sums.shape[1:]
    few = np.flatnonzero(right if 2 * np.count_nonzero(right) <= len(right) else ~right)
    counted = _sums(codes[few], node[few], slope[few], curve[few], nodes, bins)
    pair = (sums - counted, counted) if len(few) and right[few[0]] else (counted, sums - counted)
    return np.stack(pair, 2).reshape(3, 2 * nodes, bins)


def _running(sums: Floats, bins: Bins) -> Floats:
    """Return the sums over a column's bins up to each bin, (3, nodes, bins)."""
    total = np.cumsum(sums, 2)
    before = np.concatenate([np.zeros((*sums.shape[:2], 1)), total], 2)[:, :, bins.start]
    return np.asarray(total - before[:, :, bins.column])


def _gain(left: Floats, right: Floats) -> Floats:
    """Return the reduction of the loss by a question after each bin, over all nodes that it splits well; (bins,)."""
    whole = left + right
    gain = sum(side[0] ** 2 / (side[1] + _RIDGE) for side in (left, right)) - whole[0] ** 2 / (whole[1] + _RIDGE)
    enough = (left[2] >= _LEAF_ROWS) & (right[2] >= _LEAF_ROWS)
    return np.asarray(np.where(enough, 0.5 * gain, 0.0).sum(0))


def _values(sums: Floats, parent: Floats) -> Floats:
    """Return the values of leaves by their sums (3, leaves), that of the parent where there are few rows."""
    value = np.clip(sums[0] / (sums[1] + _RIDGE), -_LEAF_BOUND, _LEAF_BOUND)
    return np.asarray(np.where(sums[2] >= _LEAF_ROWS, value, parent))


def _frozen(trees: list[_Tree], bins: Bins, rows: int) -> Trees:
    """Return trees as arrays, with questions that no row answers by yes where fewer were needed."""
    feature = np.zeros((len(trees), _DEPTH), dtype=np.int64)
    threshold, gain = np.full(feature.shape, np.inf), np.zeros(feature.shape)
    value = np.zeros((len(trees), 2**_DEPTH))
    for i, tree in enumerate(trees):
        depth = len(tree.asked)
        feature[i, :depth] = bins.live[bins.column[tree.asked]]
        threshold[i, :depth] = bins.edge[tree.asked]
        gain[i, :depth] = np.array(tree.gain) / rows
        value[i, :: 2 ** (_DEPTH - depth)] = tree.value
    return Trees(feature, threshold, value, gain)
