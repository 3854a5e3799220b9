"""Formulas in text: spreadsheets run cells that begin like one, so a CSV file for people may neutralise them."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["neutralised"]

_BEGINS = r"^[=+\-@\t\r]"
_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"  # what a CSV file holds of numbers is text, too


def neutralised(table: pa.Table) -> pa.Table:
    """Put an apostrophe before text that begins with ``= + - @``, a tab or a carriage return, in cells and in names.

    Plain numbers stay as they are.

    >>> neutralised(pa.table({"=a": ["=1+1", "-5", "-x", None]})).to_pydict()
    {"'=a": ["'=1+1", '-5', "'-x", None]}
    """
    columns = [_safe(column) if _is_text(column.type) else column for column in table.columns]
    names = pc.if_else(*_marked(pa.array(table.column_names, pa.string()))).to_pylist()
    return pa.table(columns, names=names)


def _safe(column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    text = column.cast(pa.large_string() if pa.types.is_large_string(kind) else pa.string())
    return pc.if_else(*_marked(text))


def _marked(text: pa.Array | pa.ChunkedArray) -> tuple[pa.Array, pa.Array, pa.Array]:
    """Return which cells are formulas, all cells with an apostrophe before them, and all as they are."""
    formulas = pc.and_(pc.match_substring_regex(text, _BEGINS), pc.invert(pc.match_substring_regex(text, _NUMBER)))
    mark, nothing = pa.scalar("'", text.type), pa.scalar("", text.type)
    return formulas, pc.binary_join_element_wise(mark, text, nothing), text


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))
