"""Boosted trees as a frozen feature: a bounded log-odds of rows, kept as plain arrays of rounded thresholds."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from driftline._inputs import Floats

__all__ = ["BOUND", "Trees", "mean_of"]

BOUND = 8.0  # largest log-odds: beyond it a window of some thousand rows has nothing to say
_CHUNK = 8192  # rows at a time, so that their columns and leaves stay in the cache
_SHOWN = 5  # most thresholds listed for a column


class Trees(NamedTuple):
    r"""Sum of symmetric trees, clipped to ±8: all nodes of a level ask the same question.

    A row's answers to the d questions :math:`z_j > c` of a tree, read as binary digits (the first question is the
    highest), number its leaf. A question that was not needed has the threshold inf.

    Shapes, for t trees: feature, threshold and gain (t, d), value (t, 2**d). ``gain`` is the reduction of the loss by a
    question, in nats a row; it only serves :meth:`describe`.

    >>> step = Trees(np.array([[1]]), np.array([[0.5]]), np.array([[-1.0, 2.0]]), np.array([[0.1]]))
    >>> step(np.array([[9.0, 0.0], [0.0, 1.0]])).tolist()
    [[-1.0], [2.0]]
    >>> step.describe(["age", "amount"])
    ['amount: 100 % of the gain, split at 0.5']
    """

    feature: npt.NDArray[np.int64]
    threshold: Floats
    value: Floats
    gain: Floats

    @property
    def size(self) -> int:
        """Number of columns of the feature."""
        return 1

    def __call__(self, z: Floats) -> Floats:
        """Return the log-odds log num/den of rows (n, D), (n, 1)."""
        out = np.zeros((len(z), 1))
        for start in range(0, len(z), _CHUNK):
            self._add(np.ascontiguousarray(z[start : start + _CHUNK].T), out[start : start + _CHUNK, 0])
        return np.clip(out, -BOUND, BOUND, out=out)

    def _add(self, columns: Floats, out: Floats) -> None:
        """Add all trees of rows, given as columns (D, n), to ``out`` (n,)."""
        leaf, answer = np.empty(len(out), dtype=np.int64), np.empty(len(out), dtype=np.bool_)
        for feature, threshold, value in zip(self.feature, self.threshold, self.value, strict=True):
            leaf[:] = 0
            for j, cut in zip(feature, threshold, strict=True):
                leaf <<= 1
                leaf += np.greater(columns[j], cut, out=answer)
            out += value[leaf]

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


def mean_of(several: Sequence[Trees]) -> Trees:
    """Return trees whose log-odds are the mean of several, apart from their bound."""
    feature, threshold, value, gain = (np.concatenate(parts) for parts in zip(*several, strict=True))
    return Trees(feature, threshold, value / len(several), gain / len(several))
