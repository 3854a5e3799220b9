"""Rows of Parquet files in batches of limited size: a file of a few bytes may hold gigabytes of repeated values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from driftline.sources._batches import SourceError, check_width

__all__ = ["BATCH_ROWS", "parquet_tables"]

BATCH_ROWS = 1 << 16
LARGEST = 1 << 30  # bytes of a batch in memory
_USUAL = 1 << 28  # bytes that a batch of a wide table should have
_DICTIONARIES = frozenset({"RLE_DICTIONARY", "PLAIN_DICTIONARY"})
_PREFIXES = "DELTA_BYTE_ARRAY"  # values given by what they share with the one before
_NUMBER = 8  # bytes


def parquet_tables(source: Any, name: str, skip: int) -> Iterator[pa.Table]:
    """Yield the rows of a file after the first ``skip``, in batches that fit in memory.

    Raises:
        SourceError: A batch would take more than 1 GB, or the file has fewer rows than are to be skipped.
    """
    # read only as needed: pre_buffer would end with the whole file in memory, and without a buffer_size whole row
    # groups would be read at once
    options: dict[str, Any] = {"pre_buffer": False, "buffer_size": 1 << 20, "page_checksum_verification": True}
    plain = pq.ParquetFile(source, **options)
    check_width(len(plain.schema_arrow), name)
    packed = _packed(plain)
    file = pq.ParquetFile(source, metadata=plain.metadata, read_dictionary=packed, **options) if packed else plain
    groups = [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]
    first = 0
    while first < len(groups) and groups[first] <= skip:
        skip -= groups[first]
        first += 1
    if skip and first == len(groups):
        raise SourceError(f"{name} is not the file that was being read: it has {skip} rows too few")
    rows = _batch_rows(plain, name)
    for batch in file.iter_batches(rows, row_groups=list(range(first, len(groups)))):
        if skip < batch.num_rows:
            yield _unpacked(batch.slice(skip), packed, plain.schema_arrow, name)
        skip = max(0, skip - batch.num_rows)


def _packed(file: Any) -> list[str]:
    """Return the columns of text or bytes in which few values may stand for many: they are unpacked once counted."""
    texts = {field.name for field in file.schema_arrow if _is_text(field.type)}
    found = set()
    for group, column in _chunks(file):
        # no value is longer than all of the chunk
        most = min(group.num_rows, BATCH_ROWS) * column.total_uncompressed_size
        if column.path_in_schema in texts and most > _USUAL and _DICTIONARIES & set(column.encodings):
            found.add(column.path_in_schema)
    return sorted(found)


def _batch_rows(file: Any, name: str) -> int:
    """Return the number of rows to read at once, given what the metadata say about their size."""
    width = sum(_fixed_size(file.schema.column(i)) for i in range(len(file.schema)))
    if width > LARGEST:
        raise SourceError(f"{name}: a row would take more than {_size(LARGEST)}: is the file damaged?")
    rows = min(BATCH_ROWS, max(64, _USUAL // max(width, 1)))
    for group, column in _chunks(file):
        values, count = column.num_values, max(1, group.num_rows)
        # lists: a batch holds so many rows that their values fit, unless a few bits stand for all of them in one row
        if values * _NUMBER > LARGEST and (column.total_uncompressed_size * 8 < values or values // count > LARGEST):
            raise SourceError(
                f"{name}: column {column.path_in_schema!r} has {values:,} values in {group.num_rows:,} rows, which "
                f"would take more than {_size(LARGEST)}: leave it out of the file, or write smaller row groups"
            )
        rows = min(rows, max(1, _USUAL * count // max(1, values * _NUMBER)))
        if _PREFIXES in column.encodings:
            rows = min(rows, 256)  # what a value shares with others is only known once it is unpacked
    return rows


def _chunks(file: Any) -> Iterator[tuple[Any, Any]]:
    for i in range(file.metadata.num_row_groups):
        group = file.metadata.row_group(i)
        for j in range(group.num_columns):
            yield group, group.column(j)


def _fixed_size(column: Any) -> int:
    """Return the bytes that a value of a column takes, apart from those of text."""
    return max(_NUMBER, column.length if column.physical_type == "FIXED_LEN_BYTE_ARRAY" else 0)


def _unpacked(batch: pa.RecordBatch, packed: list[str], schema: pa.Schema, name: str) -> pa.Table:
    """Put values in place of dictionaries, if that does not take too much memory."""
    table = pa.Table.from_batches([batch])
    size = table.nbytes
    for column in packed:
        array, kind = batch.column(batch.schema.get_field_index(column)), schema.field(column).type
        if not pa.types.is_dictionary(array.type):
            continue
        lengths = pc.binary_length(array.dictionary).cast(pa.int64())
        size += pc.sum(lengths.take(array.indices)).as_py() or 0
        if size > LARGEST:
            longest = pc.max(lengths).as_py()
            raise SourceError(
                f"{name}: {batch.num_rows:,} rows would take more than {_size(LARGEST)} in memory, since values of "
                f"column {column!r} have up to {longest:,} bytes: leave that column out of the file, or shorten them"
            )
        if not pa.types.is_dictionary(kind):
            values = array.dictionary_decode() if len(array.dictionary) else pa.nulls(len(array), kind)
            table = table.set_column(table.column_names.index(column), schema.field(column), values.cast(kind))
    return table


def _is_text(kind: pa.DataType) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
    )


def _size(count: int) -> str:
    return f"{count >> 30} GB"
