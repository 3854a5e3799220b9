"""Cells of one column, fixed on the rows of an original; none of their edges is a row's value.

A column of numbers has about a dozen bins between rounded edges; values that many rows share (heaps) have cells of
their own. A column of categories has a cell for each frequent value and one for all others; both have one for missing
values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from driftline.fitting import heaped_edges
from driftline.inference import CellKind
from driftline.tables._cells import Floats, TableError
from driftline.tables._columns import Coded, Column
from driftline.tables._numeric import NumericColumn
from driftline.tables._summaries import rounded

__all__ = ["GROUPS", "ColumnCells", "cells_of"]

GROUPS = 4
"""Coarse groups of a column in pairs."""
_SHARES = np.array([0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98])  # finer in the tails
_LEAST = 20  # rows of a cell
_HEAP = 0.03  # share of rows with one value that gets a cell of its own
_BIAS = 0.5  # standard errors that the choice of frequent values may shift the count of all others by
_ENCODED, _MANY = 0.01, 20  # share of rows that gives a value an encoded column, if there are fewer than so many
_ENDS = (0.02, 0.5, 0.98)  # shares below the lower end, the middle, the upper end
_BEYOND = (3.0, 6.0, 12.0, 24.0, 48.0)  # distances from the middle to an end, as far again: values far beyond all
_COARSE = 0.05  # least share of rows of a group
_MOST_CELLS, _MOST_EDGES = 256, 127

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ColumnCells:
    """Cells of one column, or of one part of a date; the last cell is that of missing values.

    Attributes:
        column: name of the column or the part.
        edges: edges between the cells of numbers, as encoded; empty for categories.
        heaps: those of these cells that are one value that many rows share.
        atoms: these values, rounded to 6 digits.
        cells: the cell of each code of a category; empty for numbers.
        names: the values that cells of categories are named by; those after them hold other values.
        groups: the coarse group of each cell.
        counts: the original's rows in each cell.
    """

    column: str
    edges: tuple[float, ...]
    heaps: tuple[int, ...]
    atoms: tuple[float, ...]
    cells: tuple[int, ...]
    names: tuple[str, ...]
    groups: tuple[int, ...]
    counts: tuple[int, ...]

    @property
    def kinds(self) -> list[int]:
        """Kind of each cell."""
        *rest, _ = range(len(self.counts))
        if not self.cells:
            found = [CellKind.HEAP if k in self.heaps else CellKind.ORDERED for k in rest]
        else:
            others = len(rest) - len(self.names)
            found = [CellKind.PLAIN] * len(self.names) + [CellKind.ALONE if others == 1 else CellKind.PLAIN] * others
        return [int(kind) for kind in (*found, CellKind.ALONE)]

    @property
    def ordered(self) -> bool:
        """Whether the coarse groups have an order: those of numbers, and any two."""
        return len(set(self.groups)) == 2 or (not self.cells and self.groups.count(self.groups[-1]) > 1)

    def places(self, coded: Coded) -> Integers:
        """Return the cell of each row, (n,)."""
        if self.cells:
            at = np.asarray(self.cells, dtype=np.int64)[coded.values.astype(np.int64)]
        else:
            values, above = np.ascontiguousarray(coded.values), np.zeros(len(coded.values), dtype=np.int8)
            for edge in self.edges:  # faster than a search for so few
                above += values > edge
            at = above.astype(np.int64)
        at[coded.missing] = len(self.counts) - 1
        return at

    def check(self) -> None:
        """Raise :class:`~driftline.tables.TableError` unless all parts fit together."""
        k = len(self.counts)
        whole = (self.heaps, self.cells, self.groups, self.counts)
        good = isinstance(self.column, str) and all(type(v) is int and v >= 0 for part in whole for v in part)
        good &= all(isinstance(edge, float) and math.isfinite(edge) for edge in (*self.edges, *self.atoms))
        good &= len(self.atoms) == len(self.heaps)
        good &= all(isinstance(name, str) for name in self.names) and len(self.groups) == k
        good &= all(group < GROUPS for group in self.groups) and 2 <= k <= _MOST_CELLS
        good &= max((*self.cells, *self.heaps), default=0) < k - 1 and len(self.names) < k
        good &= bool(self.cells) or len(self.edges) == k - 2 < _MOST_EDGES
        if not good:
            raise TableError(f"the cells of column {self.column!r} are damaged")


def cells_of(column: Column, coded: Coded) -> ColumnCells:
    present = coded.values[~coded.missing]
    missing = int(coded.missing.sum())
    if coded.labels:
        return _nominal(coded, present.astype(np.int64), missing)
    edges, heaps = np.zeros(0), np.zeros(1, bool)
    if len(present):
        edges, heaps = _with_ends(column, present, *heaped_edges(present, _SHARES, _LEAST, _HEAP))
    counts = np.bincount(np.searchsorted(edges, present), minlength=len(edges) + 1).tolist()
    groups = _ordered_groups(counts, missing)
    heaped = [k for k in np.flatnonzero(heaps).tolist() if counts[k] >= _LEAST]  # of fewer rows no value is kept
    return ColumnCells(
        column=coded.group,
        edges=tuple(edges.tolist()),
        heaps=tuple(heaped),
        atoms=tuple(_atom(column, present, edges, k) for k in heaped),
        cells=(),
        names=(),
        groups=groups,
        counts=(*counts, missing),
    )


def _with_ends(
    column: Column, present: Floats, edges: Floats, heaps: npt.NDArray[np.bool_]
) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Add a cell at each end for values far beyond all others, such as -999, or beside a heap, such as a new code.

    Otherwise they would count as their neighbours. The ends are made of quantiles, and rounded: none is a row's value.
    """
    places, top = np.searchsorted(edges, present), len(heaps) - 1
    low, middle, high = np.quantile(present, _ENDS)
    lower = _end(column, present, places == 0, float(low), float(middle)) if heaps[0] or len(edges) else None
    upper = _end(column, present, places == top, float(high), float(middle)) if heaps[top] or len(edges) else None
    if lower is not None and lower < edges.min(initial=np.inf):
        edges, heaps = np.append(lower, edges), np.append(False, heaps)
    if upper is not None and upper > edges.max(initial=-np.inf):
        edges, heaps = np.append(edges, upper), np.append(heaps, False)
    return edges, heaps


def _end(column: Column, present: Floats, here: npt.NDArray[np.bool_], end: float, middle: float) -> float | None:
    """Return the edge beyond the rows that are ``here``, in an outer cell; None if there is none."""
    values, others = np.unique(present[here]), present[~here]
    if len(values) == 1 and len(others):  # a heap: half as far as the next value on the other side
        nearest = others[np.abs(others - values[0]).argmin()]
        away = 0.5 * float(values[0] - nearest)
        if np.count_nonzero(others == nearest) < _LEAST:  # exactly half as far would give away a value of few rows
            away = math.copysign(2.0 ** (math.frexp(away)[1] - 1), away)
        edge = float(values[0]) + away
    elif isinstance(column, NumericColumn) and end != middle:
        far = column.raw(end) - column.raw(middle)
        tries = (rounded(column.encoded(column.raw(end) + by * far), 3) for by in _BEYOND)
        found = (edge for edge in tries if not (present > edge if far > 0.0 else present < edge).any())
        edge = next(found, math.nan)  # no row of the original is there: a cell of a few would tell of these
    else:
        return None
    return None if not math.isfinite(edge) or (present == edge).any() else edge


def _atom(column: Column, present: Floats, edges: Floats, cell: int) -> float:
    """Return the value that most rows of a cell share, in the column's own units."""
    values, counts = np.unique(present[np.searchsorted(edges, present) == cell], return_counts=True)
    found = float(values[counts.argmax()])
    return rounded(column.raw(found)) if isinstance(column, NumericColumn) else found


def _nominal(coded: Coded, codes: Integers, missing: int) -> ColumnCells:
    """Return the cells of categories: which values have one of their own is decided where that is no matter of luck."""
    counts = np.bincount(codes, minlength=len(coded.labels)).tolist()
    known = len(coded.labels) - coded.others
    named = _told(counts[:known], sum(counts[known:])) if coded.others else list(range(known))
    lumped = len(named) < known or coded.others == 1
    cells, cell = [len(named)] * len(coded.labels), {code: k for k, code in enumerate(named)}
    for code in range(len(coded.labels)):
        cells[code] = cell.get(code, len(named) if lumped else len(named) + code - known)
    others = 0 if not coded.others else 1 if lumped else coded.others
    total = np.bincount(np.asarray(cells)[codes], minlength=len(named) + others).tolist()
    return ColumnCells(
        column=coded.group,
        edges=(),
        heaps=(),
        atoms=(),
        cells=tuple(cells),
        names=tuple(coded.labels[code] for code in named),
        groups=_plain_groups([*total, missing]),
        counts=(*total, missing),
    )


def _told(counts: Sequence[int], other: int) -> list[int]:
    """Return the codes of values that get a cell of their own.

    Values are frequent because their counts are high, some of them by luck: in the next window they have fewer rows,
    and all others together more. With f values for each row of count near the cut T, that moves f T rows. The cut is
    the lowest at which this is little beside the noise of the others' count, such as a gap.
    """
    order = sorted(range(len(counts)), key=lambda code: (-counts[code], code))
    order = [code for code in order if counts[code] >= _LEAST]
    rest = float(other) + sum(counts) - sum(counts[code] for code in order)
    usual = _ENCODED * (rest + sum(counts[code] for code in order))
    chosen = len(counts) >= _MANY or min(counts, default=0) < usual
    cut = float(max(_LEAST, min(counts, default=0) if chosen else usual))
    while order and rest > 0.0:
        reach = 2.0 * math.sqrt(cut)
        above = sum(counts[code] <= cut + reach for code in order)
        around = sum(cut - reach <= rows <= cut + reach for rows in counts)
        if not above or max(above, 0.5 * around) / reach * cut <= _BIAS * math.sqrt(2.0 * rest):
            break
        cut = float(counts[order[-1]])
        rest += counts[order.pop()]
    return order


def _ordered_groups(counts: Sequence[int], missing: int) -> tuple[int, ...]:
    """Return the coarse group of each cell of numbers: quarters, or thirds where many values are missing."""
    total = sum(counts)
    own = missing >= _COARSE * (total + missing)
    most = GROUPS - 1 if own else GROUPS
    below, groups = 0.0, []
    for rows in counts:
        groups.append(min(most - 1, int(most * (below + 0.5 * rows) / max(total, 1))))
        below += rows
    groups = _renumbered(_joined(groups, counts, _COARSE * (total + missing)))
    middle = groups[int(np.searchsorted(np.cumsum(counts), 0.5 * total))] if total else 0
    return (*groups, max(groups) + 1 if own and total else middle)


def _joined(groups: list[int], counts: Sequence[int], least: float) -> list[int]:
    """Merge groups of few rows with a neighbour."""
    while len(set(groups)) > 1:
        rows = {g: sum(c for h, c in zip(groups, counts, strict=True) if h == g) for g in sorted(set(groups))}
        small = min(rows, key=lambda g: rows[g])
        if rows[small] >= least:
            break
        names = list(rows)
        at = names.index(small)
        near = [names[k] for k in (at - 1, at + 1) if 0 <= k < len(names)]
        into = min(near, key=lambda g: rows[g])
        groups = [into if g == small else g for g in groups]
    return groups


def _renumbered(groups: list[int]) -> list[int]:
    place = {group: k for k, group in enumerate(sorted(set(groups)))}
    return [place[group] for group in groups]


def _plain_groups(counts: Sequence[int]) -> tuple[int, ...]:
    """Return the coarse group of each cell without an order: the three largest, and all others."""
    total = max(sum(counts), 1)
    order = sorted(range(len(counts)), key=lambda k: (-counts[k], k))
    own = [k for k in order if counts[k] >= _COARSE * total][: GROUPS - 1]
    left = total - sum(counts[k] for k in own)
    if not own:
        return (0,) * len(counts)
    last = len(own) if left >= _COARSE * total else len(own) - 1
    return tuple(own.index(k) if k in own else last for k in range(len(counts)))
