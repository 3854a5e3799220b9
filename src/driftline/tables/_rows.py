"""Rows on their way from a source to an encoder, together with what the source knows about them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from driftline.tables._cells import pa

__all__ = ["Rows"]


@dataclass(frozen=True)
class Rows:
    """Rows of a table, and what is known about them.

    Attributes:
        table: the rows, a ``pyarrow.Table``.
        untyped: whether text may stand for other types too, as in a CSV file, so that kinds have to be guessed.
        sparse: whether an absent column means missing values, as in JSON lines.

    >>> rows = Rows(pa.table({"x": ["1", "2", "3"]}), untyped=True)
    >>> rows.part(1, 1)
    Rows(table=pyarrow.Table
    x: string
    ----
    x: [["2"]], untyped=True, sparse=False)
    """

    table: pa.Table
    untyped: bool = False
    sparse: bool = False

    def part(self, start: int, rows: int | None = None) -> Rows:
        """Return ``rows`` of the rows from ``start`` on; all of them if None."""
        return self.holding(self.table.slice(start, rows))

    def holding(self, table: pa.Table) -> Rows:
        """Return the rows of another table, about which the same is known."""
        return replace(self, table=table)

    def absent(self, names: Iterable[str]) -> list[str]:
        """Return the names that no column has."""
        present = set(self.table.column_names)
        return [name for name in names if name not in present]

    def completed(self, names: Iterable[str]) -> Rows:
        """Add absent columns as missing values, if that is what their absence means."""
        absent = self.absent(names) if self.sparse else []
        if not absent:
            return self
        table = self.table
        nothing = pa.chunked_array([pa.nulls(table.num_rows)])
        columns = [*table.columns, *[nothing] * len(absent)]
        return self.holding(pa.table(columns, names=[*table.column_names, *absent]))
