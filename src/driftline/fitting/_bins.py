"""Bins of columns, between rounded edges: what boosted trees may ask about."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from driftline._inputs import Floats

__all__ = ["Bins", "column_edges", "fit_bins", "heaped_edges"]

_BINS = 64  # bins of a column: finer ones follow single rows

Integers = npt.NDArray[np.int64]


class Bins(NamedTuple):
    """Bins of all columns that have more than one, numbered through: bin b of a column holds values up to edge b.

    Shapes, for k columns and s bins: ``live`` (k,) the columns, ``start`` (k,) their first bins, ``column`` (s,) the
    place of each bin's column among them, ``edge`` (s,) the upper edge, inf for the last bin of a column.
    """

    live: Integers
    start: Integers
    column: Integers
    edge: Floats

    def codes(self, z: Floats) -> npt.NDArray[np.int32]:
        """Return the bins of rows (n, D), (n, k)."""
        ends = np.append(self.start, len(self.edge))[1:]
        out = np.empty((len(z), len(self.live)), dtype=np.int32)
        for at, (j, first, end) in enumerate(zip(self.live, self.start, ends, strict=True)):
            out[:, at] = np.searchsorted(self.edge[first : end - 1], z[:, j]) + first
        return out


def fit_bins(z: Floats) -> Bins:
    """Cut the columns of rows (n, D) into bins of about as many rows each."""
    edges = [_edges(column) for column in z.T]
    live = np.array([j for j, found in enumerate(edges) if len(found)], dtype=np.int64)
    sizes = np.array([len(edges[j]) + 1 for j in live], dtype=np.int64)
    edge = np.concatenate([[*edges[j], np.inf] for j in live]) if len(live) else np.zeros(0)
    return Bins(live, np.cumsum(sizes) - sizes, np.repeat(np.arange(len(live)), sizes), edge)


def _edges(x: Floats) -> Floats:
    """Return edges between the bins of a column (n,).

    Heaps, values that fill a bin alone, get bins of their own. Elsewhere an edge lies near a quantile, rounded to
    about an eighth of a bin's width.
    """
    values, counts = np.unique(x, return_counts=True)
    if len(values) <= _BINS:
        return _between(values[:-1], values[1:], values)
    width = len(x) / _BINS
    heap = counts >= width
    at = np.flatnonzero(heap)
    beside = np.unique(np.concatenate([at - 1, at]))
    beside = beside[(beside >= 0) & (beside < len(values) - 1)]
    rank, middle = np.cumsum(counts), width * np.arange(1, _BINS)
    low, high = np.searchsorted(rank, middle - 0.25 * width), np.searchsorted(rank, middle + 0.25 * width)
    heaps = np.concatenate([[0], np.cumsum(heap)])
    free = (low < high) & (heaps[high + 1] == heaps[low])
    lows, highs = np.concatenate([beside, low[free]]), np.concatenate([beside + 1, high[free]])
    return _between(values[lows], values[highs], values)


def column_edges(x: Floats, shares: Floats) -> Floats:
    """Return edges, no more than two for each of these shares of the rows of a column (n,), with shares below them.

    A column with few values gets an edge between any two of them, and a heap at a share a cell of its own. Edges are
    rounded to about a quarter of the distance that they may move by, and no value of the column is an edge.

    >>> column_edges(np.array([0.0, 0.0, 1.0, 1.0, 1.0]), np.array([0.25, 0.5, 0.75]))
    array([0.5])
    """
    values, counts = np.unique(x, return_counts=True)
    if len(values) <= len(shares) + 1:
        return _between(values[:-1], values[1:], values)
    gaps = np.diff(np.concatenate([[0.0], shares, [1.0]]))
    slack = 0.25 * np.minimum(gaps[:-1], gaps[1:])
    rank, n = np.cumsum(counts), len(x)
    low, high = np.searchsorted(rank, n * (shares - slack)), np.searchsorted(rank, n * (shares + slack))
    heaps = np.concatenate([[0], np.cumsum(counts >= n * slack.min())])
    free = (low < high) & (heaps[high + 1] == heaps[low])
    at = np.searchsorted(rank, n * shares[~free])
    beside = np.unique(np.concatenate([at - 1, at]))
    beside = beside[(beside >= 0) & (beside < len(values) - 1)]
    lows, highs = np.concatenate([beside, low[free]]), np.concatenate([beside + 1, high[free]])
    return _between(values[lows], values[highs], values)


def heaped_edges(x: Floats, shares: Floats, least: int, heap: float) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Return edges of cells of a column (n,), and for each cell whether it is a heap: one value that many rows share.

    Arguments:
        shares: shares below the edges, of the rows beside heaps; fewer are used where cells would have few rows.
        least: rows of a cell, at least; smaller ones are merged with a neighbour.
        heap: share of rows with one value that makes it a heap.

    Edges are rounded, and no value of the column is an edge.

    >>> edges, heaps = heaped_edges(np.array([0.0] * 60 + [1.0] * 40), np.array([0.5]), 20, 0.05)
    >>> edges.tolist(), heaps.tolist()
    ([0.5], [True, True])
    """
    values, counts = np.unique(x, return_counts=True)
    if len(values) < 2:
        return np.zeros(0), np.ones(1, dtype=bool)
    many = counts >= max(least, heap * len(x))
    at = np.flatnonzero(many)
    beside = np.unique(np.concatenate([at - 1, at]))
    beside = beside[(beside >= 0) & (beside < len(values) - 1)]
    rest, heaps = np.cumsum(np.where(many, 0, counts)), np.concatenate([[0], np.cumsum(many)])
    wanted = _affordable(shares, int(rest[-1]), least)
    gaps = np.diff(np.concatenate([[0.0], wanted, [1.0]]))
    slack = 0.25 * np.minimum(gaps[:-1], gaps[1:])
    low, high = (np.searchsorted(rest, rest[-1] * (wanted + side * slack)) for side in (-1.0, 1.0))
    wide = (low < high) & (heaps[high + 1] == heaps[low])
    plain = np.minimum(np.searchsorted(rest, rest[-1] * wanted[~wide]), len(values) - 2)
    lows, highs = np.concatenate([beside, low[wide], plain]), np.concatenate([beside + 1, high[wide], plain + 1])
    edges = _thinned(_between(values[lows], values[highs], values), values, counts, least)
    inside = np.bincount(np.searchsorted(edges, values), np.where(many, counts, 0), minlength=len(edges) + 1)
    cells = np.bincount(np.searchsorted(edges, values), counts, minlength=len(edges) + 1)
    return edges, inside >= 0.9 * cells


def _affordable(shares: Floats, rows: int, least: int) -> Floats:
    """Return those shares between which cells have rows enough, from the middle outwards; or fewer, evenly."""
    while len(shares):
        gaps = np.diff(np.concatenate([[0.0], shares, [1.0]])) * rows
        if gaps.min() >= least:
            return shares
        shares = shares[1:-1] if min(gaps[0], gaps[-1]) < least else shares[1::2]
    return shares


def _thinned(edges: Floats, values: Floats, counts: npt.NDArray[np.int64], least: int) -> Floats:
    """Leave out edges until every cell has so many rows."""
    rows = np.bincount(np.searchsorted(edges, values), counts, minlength=len(edges) + 1)
    while len(edges) and rows.min() < least:
        k = int(rows.argmin())
        left = k > 0 and (k == len(edges) or rows[k - 1] <= rows[k + 1])
        at = k - 1 if left else k
        rows[at] += rows[at + 1]
        edges, rows = np.delete(edges, at), np.delete(rows, at + 1)
    return edges


def _between(low: Floats, high: Floats, values: Floats) -> Floats:
    """Return a number with few digits near the middle of each interval, which is not among the sorted values."""
    step = np.exp2(np.floor(np.log2(high - low)) - 2.0)
    edge = np.round(0.5 * (low + high) / step) * step
    for _ in range(8):  # a heap of round numbers may hold the edge: move on by ever finer steps, an eighth at most
        taken = values[np.minimum(np.searchsorted(values, edge), len(values) - 1)] == edge
        if not taken.any():
            break
        step = 0.5 * step
        edge = np.where(taken, edge + 0.5 * step, edge)
    return np.unique(edge)
