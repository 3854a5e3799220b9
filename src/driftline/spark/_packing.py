"""Rows of a key as one value: Spark hands a Python worker rows of a state one by one, packed they come at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from driftline.spark._columns import inner, named, outer
from driftline.spark._output import ddl

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["PACKED", "packed", "unpacked"]

PACKED = "_driftline_rows"
Batches = Iterator[pa.RecordBatch]


def packed(df: DataFrame, keys: Sequence[str], columns: Sequence[str]) -> DataFrame:
    """Return the keys of a table, each with its rows as the bytes of an Arrow stream, once or several times.

    Columns of the key have their inner names.
    """
    own, values = tuple(map(inner, keys)), tuple(map(inner, columns))
    chosen = named(df, (*keys, *columns))
    return chosen.mapInArrow(_packing(own, values), ddl(chosen, own, {PACKED: "binary"}))


def unpacked(parts: Iterable[bytes]) -> pa.Table:
    """Return the rows that :func:`packed` has put into these bytes."""
    tables = []
    for part in parts:
        with pa.ipc.open_stream(pa.py_buffer(bytes(part))) as reader:
            tables.append(reader.read_all())
    return tables[0] if len(tables) == 1 else pa.concat_tables(tables)


def _packing(keys: tuple[str, ...], columns: tuple[str, ...]) -> Callable[[Batches], Batches]:
    def pack(batches: Batches) -> Batches:
        for batch in batches:
            if batch.num_rows:
                yield _pack(batch, keys, columns)

    return pack


def _pack(batch: pa.RecordBatch, keys: tuple[str, ...], columns: tuple[str, ...]) -> pa.RecordBatch:
    groups = _groups(batch, keys)
    order = np.argsort(groups, kind="stable")
    rows = batch.take(pa.array(order))
    starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
    values, parts = rows.select(list(columns)).rename_columns(list(map(outer, columns))), []
    for start, stop in zip(starts, [*starts[1:], len(order)], strict=True):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, values.schema) as writer:
            writer.write_batch(values.slice(start, stop - start))
        parts.append(sink.getvalue().to_pybytes())
    named = rows.select(list(keys)).take(pa.array(starts))
    return pa.RecordBatch.from_arrays([*named.columns, pa.array(parts, pa.binary())], names=[*keys, PACKED])


def _groups(batch: pa.RecordBatch, keys: tuple[str, ...]) -> Any:
    """Return a number for each row, the same for rows of one key."""
    groups = np.zeros(batch.num_rows, np.int64)
    for name in keys:
        coded = pc.dictionary_encode(batch.column(name), null_encoding="encode")
        groups = groups * (len(coded.dictionary) + 1) + coded.indices.to_numpy(zero_copy_only=False)
        groups = np.unique(groups, return_inverse=True)[1].reshape(-1)  # so that many keys do not overflow
    return groups
