"""Boosted trees as a frozen feature: a bounded log-odds of rows, kept as plain arrays of rounded thresholds."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Annotated, NamedTuple

import numpy as np
import numpy.typing as npt

from driftline._inputs import Floats

Integers = npt.NDArray[np.int64]

_DEEPEST = 64  # levels of a tree; those of ours have 9 at most

__all__ = ["BOUND", "Trees", "no_trees"]

BOUND = 8.0  # largest log-odds: beyond it a window of some thousand rows has nothing to say
_CACHE = 65_536  # answers, and places in trees, that stay in the cache while they are used again
_PATTERNS = 12  # questions, at most, whose answers are looked up: rows with the same answers have the same value
_SHOWN = 5  # most thresholds listed for a column


class Trees(NamedTuple):
    r"""Sum of binary trees, clipped to ±8.

    A node asks :math:`z_j > c`; yes leads to the right child, which is next to the left one. A leaf is its own left
    child, with the threshold inf, and has a value.

    Shapes, for k nodes: feature, threshold, child, value and gain (k,); start (t,), the roots. ``gain`` is the
    reduction of the loss by a question, in nats a row; it only serves :meth:`describe`.

    >>> inf, zero = np.inf, np.zeros(3)
    >>> step = Trees(
    ...     np.array([1, 0, 0]),
    ...     np.array([0.5, inf, inf]),
    ...     np.array([1, 1, 2]),
    ...     np.array([0.0, -1.0, 2.0]),
    ...     np.array([0.1, 0.0, 0.0]),
    ...     np.array([0]),
    ... )
    >>> step(np.array([[9.0, 0.0], [0.0, 1.0]])).tolist()
    [[-1.0], [2.0]]
    >>> step.describe(["age", "amount"])
    ['amount: 100 % of the gain, split at 0.5']
    """

    feature: Annotated[Integers, "k <D"]
    threshold: Annotated[Floats, "k"]
    child: Annotated[Integers, "k <k"]
    value: Annotated[Floats, "k"]
    gain: Annotated[Floats, "k"]
    start: Annotated[Integers, "t <k"]

    def check(self) -> None:
        """Refuse questions that do not lead to two later nodes, and paths that are longer than those of our trees."""
        nodes = np.arange(len(self.child))
        asks = self.child != nodes
        if not ((self.child > nodes) & (self.child + 1 < len(nodes)))[asks].all():
            raise ValueError("trees do not end")
        level = np.unique(self.start)
        for _ in range(_DEEPEST):
            left = self.child[level[asks[level]]]
            level = np.unique(np.concatenate([left, left + 1]))
        if len(level):
            raise ValueError(f"trees have more than {_DEEPEST} levels")

    @property
    def size(self) -> int:
        """Number of columns of the feature."""
        return 1

    def __call__(self, z: Floats) -> Floats:
        """Return the log-odds log num/den of rows (n, D), (n, 1)."""
        asked, question = np.unique(np.stack([self.feature, self.threshold]), axis=1, return_inverse=True)
        feature, threshold = asked[0].astype(np.int64), asked[1][:, None]
        depths = self._depths()
        out, rows = np.zeros((len(z), 1)), max(64, _CACHE // max(len(feature), 1))
        for at in range(0, len(z), rows):
            answers, same = _patterns(z[at : at + rows].T[feature] > threshold)
            for depth in np.unique(depths):
                out[at : at + rows, 0] += self._descend(self.start[depths == depth], depth, answers, question)[same]
        return np.clip(out, -BOUND, BOUND, out=out)

    def _depths(self) -> Integers:
        """Return the number of levels of each tree, (t,)."""
        tree = np.searchsorted(self.start, np.arange(len(self.child)), side="right") - 1
        depth = np.zeros(len(self.child), dtype=np.int64)
        for parent in np.flatnonzero(self.child != np.arange(len(self.child))):  # parents stand before their children
            depth[self.child[parent] : self.child[parent] + 2] = depth[parent] + 1
        out = np.zeros(len(self.start), dtype=np.int64)
        np.maximum.at(out, tree, depth)
        return out

    def _descend(self, roots: Integers, depth: int, answers: npt.NDArray[np.bool_], question: Integers) -> Floats:
        """Return the sum over trees of the values of rows, by their answers (questions, n) to all questions; (n,)."""
        flat, row = answers.ravel(), np.arange(answers.shape[1])
        first = question * answers.shape[1]
        node = np.repeat(roots[:, None], answers.shape[1], axis=1)
        for _ in range(depth):
            asked = np.take(first, node, mode="clip")  # clip: no node is out of bounds, and numpy need not look
            asked += row
            node = np.take(self.child, node, mode="clip")
            node += np.take(flat, asked, mode="clip")
        return np.asarray(np.take(self.value, node, mode="clip").sum(0))

    def shares(self, columns: int) -> Floats:
        """Return the share of each column in the gain, (D, 1)."""
        gain = np.bincount(self.feature, weights=self.gain, minlength=columns)
        return np.asarray(gain[:, None] / max(float(gain.sum()), 1e-300))

    def describe(self, names: Sequence[str]) -> list[str]:
        """List the columns asked about, the largest share of the gain first, with their most important thresholds."""
        asked = np.isfinite(self.threshold)
        nodes = sorted(zip(self.feature[asked], self.threshold[asked], self.gain[asked], strict=True))
        total, lines = max(sum(gain for *_, gain in nodes), 1e-300), []
        for j, same in groupby(nodes, key=lambda node: node[0]):
            cuts = {cut: sum(g for *_, g in part) for cut, part in groupby(same, key=lambda node: node[1])}
            first = sorted(sorted(cuts, key=lambda cut: -cuts[cut])[:_SHOWN])
            more = ", …" if len(cuts) > _SHOWN else ""
            listed = ", ".join(f"{cut:.4g}" for cut in first)
            share = sum(cuts.values()) / total
            lines.append((share, f"{names[j]}: {100.0 * share:.0f} % of the gain, split at {listed}{more}"))
        return [line for _, line in sorted(lines, key=lambda item: -item[0])]


def _patterns(answers: npt.NDArray[np.bool_]) -> tuple[npt.NDArray[np.bool_], slice | Integers]:
    """Return different answers of rows to few questions (q, n), and which of them each row has; else all as they are.

    >>> different, same = _patterns(np.array([[True, False, True], [False, False, False]]))
    >>> different[:, same].tolist()
    [[True, False, True], [False, False, False]]
    """
    if len(answers) > _PATTERNS:
        return answers, slice(None)
    _, first, same = np.unique(2 ** np.arange(len(answers)) @ answers, return_index=True, return_inverse=True)
    return answers[:, first], same


def no_trees() -> Trees:
    """Return the log-odds 0."""
    whole, real = np.zeros(0, dtype=np.int64), np.zeros(0)
    return Trees(whole, real, whole, real, real, whole)
