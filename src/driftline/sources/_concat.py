"""Pieces of batches as one table: with the same columns or, if the schema allows, with nulls for absent columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from driftline.sources._batches import Batch, SourceError
from driftline.tables import Rows

__all__ = ["concat"]

_MANY = 16  # pieces beyond which copying them into one is worthwhile
_EXACT = 2.0**53  # whole numbers up to here are exact as floats


def concat(
    pieces: Sequence[Batch], *, strict: bool, ignored: Callable[[str], bool] = lambda name: False
) -> tuple[Rows, str]:
    """Concatenate the rows of all pieces, in order; also return a note if columns had to be adapted.

    A column that some pieces lack is an error if ``strict``, and null with a note otherwise. In sparse pieces (JSON
    lines) it is null without a note; there, columns without any value are left out, and numbers that are all whole
    become integers, so that the table depends on its own rows only, not on those they were read with. Columns that are
    ignored may differ in any way: they become null if they do.

    >>> pieces = [Batch(Rows(pa.table({"x": [1]})), "a", 0), Batch(Rows(pa.table({"x": [2.5]})), "b", 0)]
    >>> concat(pieces, strict=True)[0].table.to_pydict()
    {'x': [1.0, 2.5]}
    """
    note = ""
    tables = [piece.table for piece in pieces]
    if any(table.schema != tables[0].schema for table in tables[1:]):
        pieces = _emptied(pieces, ignored)
        if not all(piece.rows.sparse for piece in pieces):
            note = _compare(pieces, strict)
        tables, retyped = _alike(pieces, strict)
        note = "; ".join(filter(None, (note, retyped)))
    try:
        table = pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException as error:
        raise SourceError(f"rows{_between(pieces)} do not fit into one table: {error}") from None
    if len(tables) > _MANY:
        table = table.combine_chunks()
    known = pieces[0].rows
    return known.holding(_canonical(table) if known.sparse else table), note


def _emptied(pieces: Sequence[Batch], ignored: Callable[[str], bool]) -> list[Batch]:
    """Make ignored columns null, in all pieces, so that they cannot differ."""
    names = [n for n in dict.fromkeys(n for piece in pieces for n in piece.table.column_names) if ignored(n)]
    return [replace(piece, rows=piece.rows.holding(_nulled(piece.table, names))) for piece in pieces]


def _nulled(table: pa.Table, names: Sequence[str]) -> pa.Table:
    if not names:
        return table
    kept = [name for name in table.column_names if name not in set(names)]
    nothing = pa.chunked_array([pa.nulls(table.num_rows)])
    return pa.table([*(table.column(name) for name in kept), *[nothing] * len(names)], names=[*kept, *names])


def _compare(pieces: Sequence[Batch], strict: bool) -> str:
    """Say which columns some pieces lack; an error if ``strict``."""
    every = dict.fromkeys(name for piece in pieces for name in piece.table.column_names)
    present = [set(piece.table.column_names) for piece in pieces]
    lacking = [(name, p) for name in every for p, has in zip(pieces, present, strict=True) if name not in has]
    if not lacking:
        return ""
    name, piece = lacking[0]
    other = next(p for p in pieces if name in p.table.column_names)
    if strict:
        raise SourceError(f"column {name!r} is in {_called(other)}, but not in {_called(piece)}")
    names = ", ".join(dict.fromkeys(repr(name) for name, _ in lacking))
    return f"not in all rows: column {names}"


def _alike(pieces: Sequence[Batch], strict: bool) -> tuple[list[pa.Table], str]:
    """Make types compatible: values in place of dictionaries and, if lenient, text in place of types that differ."""
    tables = [piece.table for piece in pieces]
    retyped = []
    for name in dict.fromkeys(name for table in tables for name in table.column_names):
        types = [_type(table, name) for table in tables]
        if len(set(types)) == 1 or _unite(types):
            continue
        tables = [
            _cast(t, name, k.value_type) if pa.types.is_dictionary(k) else t for t, k in zip(tables, types, strict=True)
        ]
        types = [k.value_type if pa.types.is_dictionary(k) else k for k in types]
        if _unite(types):
            continue
        i = next(i for i in range(1, len(types) + 1) if not _unite(types[: i + 1]))
        if strict or pieces[0].rows.sparse:
            j = next(j for j in range(i) if not _unite([types[j], types[i]]))
            raise SourceError(
                f"column {name!r} holds {types[j]} in {_called(pieces[j])}, but {types[i]} in {_called(pieces[i])}"
            )
        tables = [_cast(t, name, pa.string()) if name in t.column_names else t for t in tables]
        retyped.append(repr(name))
    return tables, f"not of one type: column {', '.join(retyped)}" if retyped else ""


def _type(table: pa.Table, name: str) -> pa.DataType:
    at = table.schema.get_field_index(name)  # -1 if there is none
    return table.schema.field(at).type if at >= 0 else pa.null()


def _unite(types: Sequence[pa.DataType]) -> bool:
    try:
        pa.unify_schemas([pa.schema([("x", kind)]) for kind in types], promote_options="permissive")
    except pa.ArrowException:
        return False
    return True


def _cast(table: pa.Table, name: str, kind: pa.DataType) -> pa.Table:
    i = table.column_names.index(name)
    try:
        return table.set_column(i, name, table.column(i).cast(kind))
    except pa.ArrowException as error:
        raise SourceError(f"column {name!r}: {error}") from None


def _canonical(table: pa.Table) -> pa.Table:
    """Remove what only comes from other rows that were read together with these."""
    for name in list(table.column_names):
        column = table.column(name)
        if column.null_count == len(column):
            table = table.drop_columns([name])
        elif pa.types.is_floating(column.type):
            values = pc.drop_null(column).to_numpy()
            if np.all((np.abs(values) < _EXACT) & (values == np.floor(values))):
                table = _cast(table, name, pa.int64())
    return table


def _called(piece: Batch) -> str:
    return f"rows from {piece.row + 1} on" if piece.file is None else repr(piece.file)


def _between(pieces: Sequence[Batch]) -> str:
    files = list(dict.fromkeys(piece.file for piece in pieces if piece.file is not None))
    return f" of {files[0]!r} to {files[-1]!r}" if files else ""
