"""Boosting of symmetric trees by the logistic loss, cross-fitted: no row is scored by trees that have seen it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from driftline._inputs import Floats
from driftline.fitting._bins import Bins, Integers, fit_bins
from driftline.fitting._trees import BOUND, Trees, no_trees

__all__ = ["Crossed", "fit_crossed", "helps", "row_losses"]

_FOLDS = 4  # folds of a division of the rows: a row is scored by a booster that has seen three quarters of the others
_REPEATS = 2  # divisions: the mean of two boosters is nearer to that of all, which scores new rows
_BLOCKS = 20  # blocks of neighbouring rows in a fold: neighbours may depend, and must not stand on both sides
_ROUNDS = 150
_PATIENCE = 10  # rounds without a better held-out loss before boosting ends
_GAIN = 0.1  # nats in all rows, at least, by which it must be better: values that one window lacks gain a bit for ever
_RATE = 0.3
_RIDGE = 0.3  # prior on leaves, as curvature: that of about one row
_LEAF_ROWS = 20  # fewest rows of a leaf
_LEAF_BOUND = 4.0  # largest log-odds of a leaf before the rate
_SHARED_DEPTH, _OWN_DEPTH = 5, 9  # levels of trees whose nodes share a question, and of those whose nodes do not
_WIDTH = 6  # most nodes of a level that are split, where each has its own question
_NEVER = np.iinfo(np.int32).max  # bin beyond all others: a question that no row answers by yes
_NODES = 1 + 2 * (1 + 2 + 4 + _WIDTH * (_OWN_DEPTH - 3))  # most nodes of a tree of either kind


class Crossed(NamedTuple):
    """Trees for new rows, the mean of all boosters, and log-odds of the rows they were fitted on, (n,) and (m,).

    Those are means of the boosters that have not seen the row. ``rounds`` is the number of trees of a booster.
    """

    trees: Trees
    num: Floats
    den: Floats
    rounds: int


class _Problem(NamedTuple):
    """Rows of both windows in bins (N, k), their label (1 in the numerator), weight and offset, (N,) each.

    ``rows`` are the rows to learn from, ``counts`` (s,) their numbers in each bin.
    """

    bins: Bins
    codes: npt.NDArray[np.int32]
    label: Floats
    weight: Floats
    offset: Floats
    rows: Integers
    counts: Integers

    def part(self, rows: Integers) -> _Problem:
        """Return the problem of learning from some rows."""
        return self._replace(rows=rows, counts=np.bincount(self.codes[rows].ravel(), minlength=len(self.bins.edge)))


class _Tree(NamedTuple):
    """Nodes of a tree (k,): the bin asked about, the left child (a leaf is its own), gain, value; and the levels."""

    asked: Integers
    child: Integers
    gain: Floats
    value: Floats
    depth: int


def fit_crossed(
    z_num: Floats,
    z_den: Floats,
    *,
    offset_num: Floats | None = None,
    offset_den: Floats | None = None,
    weight_num: Floats | None = None,
    weight_den: Floats | None = None,
    seed: int = 0,
) -> Crossed:
    """Boost trees towards log num/den minus the offsets, on rows (n, D) and (m, D).

    Weights (n,) and (m,) say how much each row counts within its window; both windows count alike.
    All boosters have the same number of rounds, which minimises the loss on rows that they have not seen.

    >>> rng = np.random.default_rng(0)
    >>> num, den = rng.normal(0.0, 1.0, (2000, 2)), rng.normal(1.0, 1.0, (2000, 2))
    >>> crossed = fit_crossed(num, den)  # the truth is log r = 1 - x - y
    >>> bool(abs(crossed.trees(num).mean() - 1.0) < 0.2), bool(abs(crossed.den.mean() + 1.0) < 0.2)
    (True, True)
    """
    problem = _problem(z_num, z_den, offset_num, offset_den)
    if weight_num is not None or weight_den is not None:
        pairs = (weight_num, len(z_num)), (weight_den, len(z_den))
        rates = np.concatenate([np.ones(n) if weight is None else weight / weight.mean() for weight, n in pairs])
        problem = problem._replace(weight=problem.weight * rates)
    rows, boosters = len(problem.label), _REPEATS * _FOLDS
    folds = np.stack([_folds((len(z_num), len(z_den)), seed + k) for k in range(_REPEATS)])
    unseen = folds + _FOLDS * np.arange(_REPEATS)[:, None]  # boosters that do not see the row, one of each division
    parts = [problem.part(np.flatnonzero((unseen != k).all(0))) for k in range(boosters)]
    grown: list[list[_Tree]] = [[] for _ in parts]
    scores, own, rounds = np.zeros((boosters, rows)), np.zeros(rows), 0
    best = [_loss(problem, own)]  # after each round
    for done in range(1, (_ROUNDS if len(problem.bins.edge) else 0) + 1):
        for k, part in enumerate(parts):
            grown[k].append(_grow(part, scores[k], shared=done % 2 == 1))
            scores[k] += _values(grown[k][-1], problem)
        held_out = np.take_along_axis(scores, unseen, 0).mean(0)
        loss = _loss(problem, held_out)
        if loss < best[-1]:
            own, rounds = held_out, done
        best.append(min(loss, best[-1]))
        if done >= _PATIENCE and best[-1 - _PATIENCE] - best[-1] < _GAIN / rows:
            break
    own = np.clip(own, -BOUND, BOUND)
    trees = _frozen([tree for some in grown for tree in some[:rounds]], problem, boosters)
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
    codes = bins.codes(z)
    counts = np.bincount(codes.ravel(), minlength=len(bins.edge))
    return _Problem(bins, codes, label, weight, np.concatenate(offset), np.arange(n + m), counts)


def _folds(sizes: tuple[int, int], seed: int) -> Integers:
    """Assign blocks of neighbouring rows of both windows to folds of equal size at random, (n + m,)."""
    rng, out = np.random.default_rng(seed), []
    for rows in sizes:
        blocks = min(_FOLDS * _BLOCKS, rows)
        out.append((rng.permutation(blocks) % _FOLDS)[np.arange(rows) * blocks // rows])
    return np.concatenate(out)


def _loss(problem: _Problem, score: Floats) -> float:
    """Return the mean logistic loss of log-odds (N,), offsets not included."""
    signed = (1.0 - 2.0 * problem.label) * (score + problem.offset)
    return float((problem.weight * np.logaddexp(0.0, signed)).mean())


def _values(tree: _Tree, problem: _Problem) -> Floats:
    """Return the values of all rows, (N,)."""
    rows, columns = problem.codes.shape
    node, row = np.zeros(rows, dtype=np.int64), np.arange(0, rows * columns, columns)
    place, bound = (
        problem.bins.column[tree.asked],
        np.where(tree.child == np.arange(len(tree.child)), _NEVER, tree.asked),
    )
    for _ in range(tree.depth):
        answer = np.take(problem.codes, row + place[node]) > bound[node]
        node = tree.child[node] + answer
    return np.asarray(tree.value[node])


class _Slopes(NamedTuple):
    """Bins of all rows (N, k), and first and second derivatives of the loss by their log-odds, (N,)."""

    codes: npt.NDArray[np.int32]
    slope: Floats
    curve: Floats

    def sums(self, rows: Integers, node: Integers, nodes: int, bins: int, counts: Integers | None = None) -> Floats:
        """Return the sums of slopes, of curvatures and of rows in each bin of each node, (3, nodes, bins).

        ``counts`` are those of rows, if they are known.
        """
        codes = self.codes[rows]
        at = (codes + (bins * node)[:, None]).ravel()
        columns, size, out = codes.shape[1], nodes * bins, np.empty((3, nodes * bins))
        for part, values in zip(out, (self.slope, self.curve), strict=False):
            part[:] = np.bincount(at, np.repeat(values[rows], columns), size)
        out[2] = np.bincount(at, minlength=size) if counts is None else counts
        return out.reshape(3, nodes, bins)


class _Level(NamedTuple):
    """Nodes of a level (l,), the rows in them (n,), the place of each row's node among them, and their sums."""

    nodes: Integers
    rows: Integers
    place: Integers
    sums: Floats


class _Choice(NamedTuple):
    """Nodes to split, as places in their level (c,), their questions as bins, gains, and sums of both sides (3, c)."""

    place: Integers
    asked: Integers
    gain: Floats
    left: Floats
    right: Floats


def _grow(problem: _Problem, score: Floats, *, shared: bool) -> _Tree:
    """Grow a tree level by level; all nodes of a level ask the ``shared`` question that gains most, or their own.

    Trees with shared questions vary little and find what holds in the whole table, the others what holds in a corner.
    """
    bins, rows = problem.bins, problem.rows
    chance = 1.0 / (1.0 + np.exp(-(score + problem.offset)))
    slope = problem.weight * (problem.label - chance)
    slopes = _Slopes(problem.codes, slope, problem.weight * chance * (1.0 - chance))
    tree = _Tree(np.zeros(_NODES, dtype=np.int64), np.arange(_NODES), np.zeros(_NODES), np.zeros(_NODES), 0)
    root = np.zeros(1, dtype=np.int64), rows, np.zeros(len(rows), dtype=np.int64)
    level, size = _Level(*root, slopes.sums(*root[1:], 1, len(bins.edge), problem.counts)), 1
    last = _SHARED_DEPTH if shared else _OWN_DEPTH
    for depth in range(1, last + 1):
        choice = _choose(level.sums, bins, shared)
        if len(choice.place) == 0:
            break
        parents, children = level.nodes[choice.place], size + np.arange(2 * len(choice.place))
        tree.asked[parents], tree.gain[parents], tree.child[parents] = choice.asked, choice.gain, children[::2]
        tree.value[children] = _leaf_values(np.stack([choice.left, choice.right], 2).reshape(3, -1))
        tree, size = tree._replace(depth=depth), size + len(children)
        if depth < last:
            level = _next(level, choice, children, slopes, bins)
    return _Tree(tree.asked[:size], tree.child[:size], tree.gain[:size], tree.value[:size], tree.depth)


def _choose(sums: Floats, bins: Bins, shared: bool) -> _Choice:
    """Choose questions by the sums of a level's nodes."""
    left = _running(sums, bins)
    total = left[:, :, -1]  # up to the last bin of the last column: everything
    gain, nodes = _gain(left, total[:, :, None] - left), np.arange(len(total[0]))
    asked = np.full(len(nodes), gain.sum(0).argmax()) if shared else gain.argmax(1)
    gained = gain[nodes, asked]
    place = np.flatnonzero(gained > 0.0)
    if not shared and len(place) > _WIDTH:
        place = np.sort(place[np.argsort(-gained[place], kind="stable")[:_WIDTH]])
    asked, below = asked[place], left[:, place, asked[place]]
    return _Choice(place, asked, gained[place], below, total[:, place] - below)


def _next(level: _Level, choice: _Choice, children: Integers, slopes: _Slopes, bins: Bins) -> _Level:
    """Return the next level, the children of the nodes chosen; of their rows only the smaller side is counted."""
    at = np.full(len(level.nodes), -1)
    at[choice.place] = np.arange(len(choice.place))
    place = at[level.place]
    kept = np.flatnonzero(place >= 0)
    rows, place = level.rows[kept], place[kept]
    asked = choice.asked[place]
    right = slopes.codes[rows, bins.column[asked]] > asked
    fewer = 2 * np.count_nonzero(right) <= len(right)
    few = np.flatnonzero(right if fewer else ~right)
    whole = level.sums[:, choice.place]
    part = slopes.sums(rows[few], place[few], *whole.shape[1:])
    sums = np.stack((whole - part, part) if fewer else (part, whole - part), 2).reshape(3, len(children), -1)
    return _Level(children, rows, 2 * place + right, sums)


def _running(sums: Floats, bins: Bins) -> Floats:
    """Return the sums over a column's bins up to each bin, (3, nodes, bins)."""
    total = np.cumsum(sums, 2)
    before = np.zeros((*sums.shape[:2], len(bins.start)))
    before[:, :, 1:] = total.take(bins.start[1:] - 1, 2)
    total -= before.repeat(np.diff(bins.start, append=len(bins.column)), 2)
    return np.asarray(total)


def _gain(left: Floats, right: Floats) -> Floats:
    """Return the reduction of the loss by a question after each bin, 0 where a side has few rows; (nodes, bins)."""
    whole = left + right
    gain = left[0] ** 2 / (left[1] + _RIDGE) + right[0] ** 2 / (right[1] + _RIDGE) - whole[0] ** 2 / (whole[1] + _RIDGE)
    enough = (left[2] >= _LEAF_ROWS) & (right[2] >= _LEAF_ROWS)  # never after the last bin, where right is empty
    return np.asarray(np.where(enough, 0.5 * gain, 0.0))


def _leaf_values(sums: Floats) -> Floats:
    """Return the values of leaves by their sums (3, leaves)."""
    return np.asarray(_RATE * np.clip(sums[0] / (sums[1] + _RIDGE), -_LEAF_BOUND, _LEAF_BOUND))


def _frozen(trees: list[_Tree], problem: _Problem, boosters: int) -> Trees:
    """Return the mean of boosters as arrays of all nodes."""
    if not trees:
        return no_trees()
    bins = problem.bins
    sizes = np.array([len(tree.asked) for tree in trees])
    start = np.cumsum(sizes) - sizes
    asked, gain, value = (np.concatenate([tree[at] for tree in trees]) for at in (0, 2, 3))
    child = np.concatenate([tree.child + first for tree, first in zip(trees, start, strict=True)])
    inner = child != np.arange(len(child))
    feature = np.where(inner, bins.live[bins.column[asked]], 0)
    threshold = np.where(inner, bins.edge[asked], np.inf)
    return Trees(feature, threshold, child, np.where(inner, 0.0, value / boosters), gain / len(problem.label), start)
