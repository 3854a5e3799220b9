"""Ledger: the cells of all columns, fixed on the rows of an original, and the counts of these rows; no row is kept.

Pairs of columns are counted in at most four coarse groups of each.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from driftline.fitting import chunks
from driftline.tables._cells import Floats, TableError
from driftline.tables._column_cells import GROUPS, ColumnCells, cells_of
from driftline.tables._columns import Coded
from driftline.tables._encoder import TableEncoder

__all__ = ["Ledger", "Tally", "count", "fits", "open_ledger", "recount"]

_LARGE = 0.1  # share of a heap that ranks would tear apart
_PAIRED = 60  # columns among which all pairs are counted
_CHUNK = 1 << 16  # rows multiplied at a time: single precision counts them exactly

Integers = npt.NDArray[np.int64]


class Tally(NamedTuple):
    """Counts of rows in the cells of all columns, padded with 0, (c, k), and in the groups of pairs, (pairs, 4, 4)."""

    columns: Floats
    pairs: Floats


@dataclass(frozen=True)
class Ledger:
    """Cells of all columns, pairs of columns, and the counts of an original's rows in both.

    Attributes:
        worth: number of independent rows that the original's rows are worth; 0 if nobody knows.
        columns: cells of each column.
        pairs: places of the columns of each pair.
        tables: counts of the pairs' groups, 16 for each.
    """

    worth: float
    columns: tuple[ColumnCells, ...]
    pairs: tuple[tuple[int, int], ...]
    tables: tuple[int, ...]

    @property
    def tally(self) -> Tally:
        """Counts of the original."""
        tables = np.asarray(self.tables, dtype=np.float64).reshape(-1, GROUPS, GROUPS)
        return Tally(_padded([column.counts for column in self.columns]), tables)

    @property
    def kinds(self) -> npt.NDArray[np.int8]:
        """Kinds of all cells, (c, k)."""
        return _padded([column.kinds for column in self.columns]).astype(np.int8)

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary that can be written as JSON."""
        return {
            "worth": self.worth,
            "columns": [{k: v if k == "column" else list(v) for k, v in vars(c).items()} for c in self.columns],
            "pairs": [list(pair) for pair in self.pairs],
            "tables": list(self.tables),
        }

    @classmethod
    def from_dict(cls, data: Any) -> Ledger:
        """Restore a ledger; anything else raises :class:`~driftline.tables.TableError`."""
        try:
            columns = tuple(_column(part) for part in data["columns"])
            pairs = tuple((i, j) for i, j in data["pairs"])
            made = cls(data["worth"], columns, pairs, tuple(data["tables"]))
        except (KeyError, TypeError, ValueError, AttributeError):
            raise TableError("the counts of an original are damaged") from None
        numbers = [*(place for pair in pairs for place in pair), *made.tables]
        good = set(data) == {"worth", "columns", "pairs", "tables"} and isinstance(made.worth, int | float)
        good &= 0.0 <= made.worth < math.inf and all(type(v) is int and 0 <= v < 1 << 53 for v in numbers)
        good &= len(made.tables) == GROUPS**2 * len(pairs) and all(i < j < len(columns) for i, j in pairs)
        if not good:
            raise TableError("the counts of an original are damaged")
        return made


def fits(ledger: Ledger, encoder: TableEncoder) -> bool:
    """Say whether the cells of a ledger are those of an encoder's columns."""
    coded = [found for _, found in encoder.coded(np.zeros((0, len(encoder.names))))]
    names = [column.column for column in ledger.columns] == [found.group for found in coded]
    return names and all(len(c.cells) == len(f.labels) for c, f in zip(ledger.columns, coded, strict=True))


def _column(data: Mapping[str, Any]) -> ColumnCells:
    if set(data) != {f.name for f in fields(ColumnCells)}:
        raise TableError("the counts of a column are damaged")
    parts: dict[str, Any] = {k: v if k == "column" else tuple(v) for k, v in data.items()}
    made = ColumnCells(**parts)
    made.check()
    return made


def _padded(rows: Sequence[Sequence[int]]) -> Floats:
    out = np.zeros((len(rows), max(map(len, rows), default=0)))
    for row, values in zip(out, rows, strict=True):
        row[: len(values)] = values
    return out


def open_ledger(encoder: TableEncoder, values: Floats, worth: float) -> Ledger:
    """Fix the cells of all columns on an original's encoded rows (n, D), and count them.

    Arguments:
        worth: number of independent rows that these are worth; 0 if nobody knows.
    """
    columns = tuple(cells_of(column, found) for column, found in encoder.coded(values))
    told = [i for i, column in enumerate(columns) if len(set(column.groups)) > 1]
    bare = Ledger(float(worth), columns, tuple((i, j) for i in told for j in told if i < j), ())
    if len(told) > _PAIRED:
        bare = Ledger(bare.worth, columns, _leading(bare, encoder, values, told), ())
    tally = count(bare, encoder, values)
    return Ledger(bare.worth, columns, bare.pairs, tuple(tally.pairs.astype(np.int64).ravel().tolist()))


def count(ledger: Ledger, encoder: TableEncoder, values: Floats) -> Tally:
    """Count encoded rows (n, D) in the cells of all columns and the groups of pairs."""
    found, columns, n = [], ledger.columns, len(values)
    paired = np.unique(np.asarray(ledger.pairs, dtype=np.int64).reshape(-1))
    at = {int(i): k for k, i in enumerate(paired)}
    groups = np.zeros((n, len(paired)), dtype=np.int8)
    for i, (cells, (_, coded)) in enumerate(zip(columns, encoder.coded(values), strict=True)):
        places = cells.places(coded)
        found.append(np.bincount(places, minlength=len(cells.counts)).tolist())
        if i in at:
            groups[:, at[i]] = np.asarray(cells.groups, dtype=np.int8)[places]
    together = _together(groups)
    one, other = (np.array([at[pair[side]] for pair in ledger.pairs], dtype=np.int64) for side in (0, 1))
    return Tally(_padded(found), together[one, :, other, :].reshape(-1, GROUPS, GROUPS))


def recount(
    ledger: Ledger, encoder: TableEncoder, values: Floats, pairs: Sequence[int], columns: Sequence[int]
) -> Floats:
    """Count rows (n, D) in the groups of some pairs anew, (k, 4, 4), with some columns of numbers grouped by rank.

    A column that moved as a whole has other values in each group, and would seem to relate otherwise to all others. By
    rank, each group has the share of rows that it had in the original. Columns with large heaps stay as they are; rows
    with a missing value are left out where missing values have no group of their own.
    """
    coded = [found for _, found in encoder.coded(values)]
    used = {i for pair in pairs for i in ledger.pairs[pair]}
    groups = {i: _ranked(ledger.columns[i], coded[i], by_rank=i in columns) for i in used}
    out = np.zeros((len(pairs), GROUPS, GROUPS))
    for k, pair in enumerate(pairs):
        one, other = (groups[i] for i in ledger.pairs[pair])
        there = (one >= 0) & (other >= 0)
        np.add.at(out[k], (one[there], other[there]), 1.0)
    return out


def _ranked(cells: ColumnCells, coded: Coded, *, by_rank: bool) -> Integers:
    """Return the group of each row, (n,), of numbers by their rank if asked; -1 for missing values without a group."""
    at = np.asarray(cells.groups, dtype=np.int64)[cells.places(coded)]
    own = cells.groups.count(cells.groups[-1]) == 1
    heaped = max((cells.counts[k] for k in cells.heaps), default=0) > _LARGE * sum(cells.counts)
    if by_rank and not cells.cells and not heaped and not coded.missing.all():
        rows = np.bincount(cells.groups[:-1], cells.counts[:-1], minlength=GROUPS)
        ends = np.cumsum(rows) / max(rows.sum(), 1.0)
        here = np.flatnonzero(~coded.missing)
        order = np.argsort(coded.values[here], kind="stable")
        rank = np.empty(len(here))
        rank[order] = (np.arange(len(here)) + 0.5) / len(here)
        at[here] = np.minimum(np.searchsorted(ends, rank), GROUPS - 1)
    at[coded.missing & (not own)] = -1
    return at


def _together(groups: npt.NDArray[np.int8]) -> Floats:
    """Return how many rows are in each group of one column and each of another, (c, 4, c, 4)."""
    n, c = groups.shape
    total = np.zeros((c * GROUPS, c * GROUPS))
    for at in chunks(n, _CHUNK):
        is_in = (groups[at, :, None] == np.arange(GROUPS, dtype=np.int8)).astype(np.float32)
        flat = is_in.reshape(len(is_in), c * GROUPS)
        total += flat.T @ flat
    return total.reshape(c, GROUPS, c, GROUPS)


def _leading(ledger: Ledger, encoder: TableEncoder, values: Floats, told: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Choose the pairs among the columns that depend on others most."""
    some = values[:: max(1, len(values) // 4096)]
    coded = list(encoder.coded(some))
    groups = [np.asarray(ledger.columns[i].groups, float)[ledger.columns[i].places(coded[i][1])] for i in told]
    spread = np.nan_to_num(np.abs(np.corrcoef(np.array(groups))))
    np.fill_diagonal(spread, 0.0)
    kept = sorted(np.argsort(-spread.max(0), kind="stable")[:_PAIRED].tolist())
    return tuple((told[i], told[j]) for i in kept for j in kept if i < j)
