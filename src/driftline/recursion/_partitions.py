"""Partitions fixed while the original is at hand, and the counts of its held-out rows: what a floor rests on.

Cells of single columns, coarse cells of pairs of columns, and cells of the first step's contrast. Where they lie is
learned from one part of the original (and of the first window), the counts are of the other. Edges are rounded, and a
cell holds many rows: nothing of this is a row.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
import numpy.typing as npt

from driftline._inputs import Floats
from driftline.fitting import Integers, chunks, column_edges
from driftline.inference import cell_floors
from driftline.recursion._contrast import Contrast, Learned, change, covariance, split
from driftline.recursion._evidence import coarse

__all__ = ["Partitions", "Tally", "count", "fix", "floor_of", "merged_cells"]

Counts = npt.NDArray[np.int32]

# finer in the tails: a column that leaves its range is then seen to have left it by more than a tenth
_SHARES = np.array([0.01, 0.05, 0.15, 0.32, 0.5, 0.68, 0.85, 0.95, 0.99])
_COLUMN = 2 * len(_SHARES) + 1  # cells of a column at most; the last one ends at inf
_GROUPS = 4  # cells of each column of a pair
_PAIRS = 256  # pairs of columns, all of 23: each partition makes the others' bounds a little lower
_CELLS = 32  # cells of the contrast, and one more in its tail
_TAIL = 0.995
_ROWS = 4096  # rows that suffice to place edges
_CHUNK = 8192  # rows counted at a time
_FEW = 20  # rows, of those learned from, below which a cell is merged with others
_LEAST = 5  # the same for the held-out rows


class Tally(NamedTuple):
    """Counts of rows, or for each cell the one that it is merged with.

    Shapes: ``contrast`` (1, 33), ``columns`` (c, 19), ``pairs`` (k, 16); cells that a partition has not are 0.
    """

    contrast: Annotated[Counts, "1 33"]
    columns: Annotated[Counts, "CELLS 19"]
    pairs: Annotated[Counts, "PAIRS 16"]


class Partitions(NamedTuple):
    """Partitions, and the counts of original and current window on them.

    Attributes:
        live: columns that have cells, (c,).
        edges: their upper edges, (c, 19), inf from the last one on.
        groups: places of the edges between the coarse cells of pairs, (c, 3).
        pairs: pairs of places among live columns, (k, 2).
        contrast: contrast of the first step, in standard deviations.
        levels: edges between its cells, (32,).
        merged: the cell that each cell is merged with.
        original, current: counts of both.
        rows: effective rows that were counted, of original and current; 0 if they depend on each other too far.
    """

    live: Annotated[Integers, "CELLS <D"]
    edges: Annotated[Floats, "CELLS 19"]
    groups: Annotated[Integers, "CELLS 3 <19"]
    pairs: Annotated[Integers, "PAIRS 2 <CELLS"]
    contrast: Contrast
    levels: Annotated[Floats, "32"]
    merged: Tally
    original: Tally
    current: Tally
    rows: Annotated[Floats, "2"]

    def check(self) -> None:
        """Refuse cells that are merged with cells which are not there."""
        for cells in self.merged:
            if cells.size and not 0 <= cells.min() <= cells.max() < cells.shape[1]:
                raise ValueError("cells are merged with others that are not there")


def fix(learned: Learned, num: Floats, den: Floats, *, contrasted: bool = True) -> Partitions:
    """Fix partitions on a part of the original's rows (n, D), with the counts of the others.

    Arguments:
        learned: contrast of the original and the first window, learned from the same part of both.
        den: rows of the first window, (m, D).
        contrasted: whether the contrast has cells; otherwise it has one.
    """
    (known, held), (seen, _) = split(num), split(den)
    sample = known[:: max(1, len(known) // _ROWS)]
    found = [column_edges(column, _SHARES) for column in np.ascontiguousarray(sample.T)]
    live = np.array([j for j, edges in enumerate(found) if len(edges)], dtype=np.int64)
    edges = np.full((len(live), _COLUMN), np.inf)
    for row, j in zip(edges, live, strict=True):
        row[: len(found[j])] = found[j]
    contrast, values = learned.contrast, learned.contrast(sample)
    contrast = contrast._replace(coef=contrast.coef / max(float(values.std()), 1e-12))
    none = Tally(*(np.zeros((0, 0), dtype=np.int32),) * 3)
    bare = Partitions(
        live=live,
        edges=edges,
        groups=_groups(edges, sample[:, live]),
        pairs=_pairs(contrast, live, known, seen),
        contrast=contrast,
        levels=_levels(contrast(sample) if contrasted else np.zeros(0)),
        merged=none,
        original=none,
        current=none,
        rows=np.zeros(2),
    )
    here, there = count(bare, known), count(bare, held)
    merged = Tally(*(merged_cells(a, b) for a, b in zip(here, there, strict=True)))
    return bare._replace(merged=merged, original=there, current=there)


def count(partitions: Partitions, x: Floats) -> Tally:
    """Count raw rows (n, D) in the cells.

    Rows above each edge are kept as bits, 64 in a word: counting those above two edges takes a fraction of the time
    that codes of cells would.
    """
    live, c = partitions.live, len(partitions.live)
    known, size = np.isfinite(partitions.edges).sum(1), min(_CHUNK, len(x))
    turned, above = np.empty((c, size)), np.zeros((c, _COLUMN, 8 * -(-size // 64)), dtype=np.uint8)
    single, pairs = np.zeros((c, _COLUMN), dtype=np.int64), np.zeros((len(partitions.pairs), 3, 3), dtype=np.int64)
    contrast = np.zeros((1, _CELLS + 1), dtype=np.int64)
    one, other = partitions.pairs[:, 0], partitions.pairs[:, 1]
    for at in chunks(len(x), _CHUNK):
        rows = x[at] if c == x.shape[1] else x[at][:, live]
        n = len(rows)
        np.copyto(turned[:, :n], rows.T)
        above[:, :, n // 8 :] = 0
        for j, column in enumerate(turned[:, :n]):
            edges = partitions.edges[j, : known[j], None]
            above[j, : known[j], : -(-n // 8)] = np.packbits(column > edges, axis=1)
        words = above.view(np.uint64)
        single += _ones(words)
        words = words[np.arange(c)[:, None], partitions.groups]
        pairs += _ones(words[one][:, :, None] & words[other][:, None])
        found = np.searchsorted(partitions.levels, partitions.contrast(x[at]))
        contrast += np.bincount(found, minlength=_CELLS + 1)
    edge = np.take_along_axis(single, partitions.groups, 1)
    counts = contrast, _cells(single, len(x)), _joint(edge[one], edge[other], pairs, len(x))
    return Tally(*(found.astype(np.int32) for found in counts))


def _cells(above: Integers, rows: int) -> Integers:
    """Return counts in cells from counts above their edges, (c, k): the last edge is inf."""
    return np.asarray(-np.diff(above, axis=1, prepend=rows))


def _joint(one: Integers, other: Integers, both: Integers, rows: int) -> Integers:
    """Return counts in the cells of pairs, (k, 16), from counts above edges of the one, of the other, and of both."""
    corner = np.zeros((len(both), _GROUPS + 1, _GROUPS + 1), dtype=np.int64)
    corner[:, 0, 0] = rows
    corner[:, 1:-1, 0], corner[:, 0, 1:-1], corner[:, 1:-1, 1:-1] = one, other, both
    return np.asarray(np.diff(np.diff(corner, axis=1), axis=2).reshape(len(both), _GROUPS**2))


def _ones(words: npt.NDArray[np.uint64]) -> Integers:
    """Count the bits that are set along the last axis; NumPy before 2.0 cannot, and is given a table."""
    if hasattr(np, "bitwise_count"):
        found = np.einsum("...k->...", np.bitwise_count(words), dtype=np.uint16)  # wide enough for the rows of a chunk
        return np.asarray(found, dtype=np.int64)
    table = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).sum(1)
    return np.asarray(table[np.ascontiguousarray(words).view(np.uint8)].sum(-1, dtype=np.int64))


def floor_of(partitions: Partitions, current: Tally, rows: float, level: float) -> float:
    """Return the best bound of all partitions for counts of ``rows`` effective rows; nan if there is none.

    Together they are above the truth with chance (1 - level) / 2.
    """
    parts = []
    for then, now, at in zip(partitions.original, current, partitions.merged, strict=True):
        counts = _pooled(then, at), _pooled(now, at)
        useful = (counts[0] > 0.0).sum(1) > 1
        parts.append((counts[0][useful], counts[1][useful]))
    of = sum(len(then) for then, _ in parts)
    if of == 0 or min(float(partitions.rows[0]), rows) < 1.0:
        return float("nan")
    floors = [cell_floors(then, now, float(partitions.rows[0]), rows, level, of) for then, now in parts]
    found = np.concatenate(floors)
    return max(float(found.max()), 0.0) if len(found) else float("nan")


def _levels(values: Floats) -> Floats:
    """Return the edges between the cells of the contrast, (32,), with the last one in its tail."""
    cells = min(_CELLS, len(values) // (2 * _FEW))
    out = np.full(_CELLS, np.inf)
    if cells > 1:
        out[:cells] = coarse(np.quantile(values, [*(np.arange(1, cells) / cells), _TAIL]))
    return out


def _groups(edges: Floats, x: Floats) -> Integers:
    """Return places of the edges (c, 19) nearest to the quarters of rows (n, c), (c, 3); the last if they are few."""
    out = np.full((len(edges), _GROUPS - 1), _COLUMN - 1, dtype=np.int64)
    for j, row in enumerate(edges):
        below = np.searchsorted(np.sort(x[:, j]), row[np.isfinite(row)]) / len(x)
        nearest = sorted({int(np.abs(below - share).argmin()) for share in np.arange(1, _GROUPS) / _GROUPS})
        out[j, : len(nearest)] = nearest
    return out


def _pairs(contrast: Contrast, live: Integers, num: Floats, den: Floats) -> Integers:
    """Choose pairs of columns: those that depend on each other most, and those whose dependence changes most."""
    a, b = contrast.marks(num), contrast.marks(den)
    moves, holds = np.triu(change(a, b), 1), np.triu(_correlation(a), 1)
    c = len(contrast.columns)
    places = np.flatnonzero(np.triu(np.ones((c, c)), 1))
    if len(places) > _PAIRS:
        first = places[np.argsort(-moves.ravel()[places], kind="stable")][: _PAIRS // 2]
        rest = np.setdiff1d(places, first)
        places = np.concatenate([first, rest[np.argsort(-holds.ravel()[rest], kind="stable")][: _PAIRS // 2]])
    pairs = np.stack(np.unravel_index(places, (c, c)), 1)
    position = np.full(int(max(contrast.columns.max(), live.max(initial=0))) + 1, -1, dtype=np.int64)
    position[live] = np.arange(len(live))
    pairs = position[contrast.columns[pairs]].reshape(-1, 2)
    return np.asarray(pairs[(pairs >= 0).all(1)])


def _correlation(y: npt.NDArray[np.float32]) -> Floats:
    """Return the sizes of correlations of columns, (c, c)."""
    spread = covariance(y)
    size = np.sqrt(np.maximum(spread.diagonal(), 1e-12))
    return np.asarray(np.abs(spread) / np.outer(size, size))


def merged_cells(known: Counts, held: Counts) -> Counts:
    """Return for each cell, (parts, cells), the one that it is merged with: those with few rows become one.

    If that one still has few, it is merged with the smallest of the others.
    """
    out = np.tile(np.arange(known.shape[1], dtype=np.int32), (len(known), 1))
    for row, a, b in zip(out, known, held, strict=True):
        few = (a < _FEW) | (b < _LEAST)
        others = np.flatnonzero(~few)
        if few.any():
            row[few] = np.flatnonzero(few)[0]
            if (a[few].sum() < _FEW or b[few].sum() < _LEAST) and len(others):
                row[few] = others[a[others].argmin()]
    return out


def _pooled(counts: Counts, at: Counts) -> Floats:
    """Add up the counts of merged cells, (parts, cells)."""
    parts, width = counts.shape
    place = (width * np.arange(parts)[:, None] + at).ravel()
    pooled = np.bincount(place, counts.ravel(), minlength=width * parts)
    return np.asarray(pooled.reshape(parts, width), dtype=np.float64)
