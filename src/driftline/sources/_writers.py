"""Writers of tables into one file, piece by piece, in the formats that can be read; all or nothing."""

from __future__ import annotations

import gzip
import json
import math
import os
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self, cast

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from driftline.files import replacing
from driftline.sources._batches import SourceError
from driftline.sources._readers import format_of, known_format, unknown_format

__all__ = ["Writer", "open_writer"]


def open_writer(path: str | os.PathLike[str], format: str | None = None) -> Writer:
    """Open a writer for use in ``with``: the file appears if that ends without an error, and is untouched otherwise.

    Arguments:
        path: path of the file.
        format: csv, tsv, jsonl, parquet or arrow; if None, taken from the suffix. ``.csv.gz`` and the like are
            compressed.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with open_writer(f"{folder}/out.csv") as writer:
    ...         writer.write(pa.table({"x": [1, 2], "y": ["a", None]}))
    ...     text = Path(folder, "out.csv").read_text()
    >>> text.splitlines()
    ['"x","y"', '1,"a"', '2,']
    """
    name = os.fspath(path)
    found = format_of(name) if format is None else known_format(format)
    if found is None:
        raise unknown_format(name)
    if name.endswith(".gz") and found in ("parquet", "arrow"):
        raise SourceError(f"{name!r}: {found} files are not gzipped")
    return Writer(Path(path), found)


class _Sink(Protocol):
    def write(self, table: pa.Table) -> None: ...

    def close(self) -> None: ...


class Writer:
    """Writer of tables with the same columns, through a temporary file beside the target; see :func:`open_writer`."""

    def __init__(self, path: Path, format: str) -> None:
        self._target = path.resolve()  # a link stays a link, to the new file
        self._name = str(path)
        self._format = format
        self._stack = ExitStack()
        self._file: Any = None
        self._sink: _Sink | None = None
        self._schema: pa.Schema | None = None

    def __enter__(self) -> Self:
        try:
            # hidden until it is complete, so that nothing that watches the directory takes it for data
            self._file = self._stack.enter_context(replacing(self._target))
        except OSError as error:
            raise SourceError(f"{self._name!r} cannot be written: {error.strerror or error}") from None
        return self

    def write(self, table: pa.Table) -> None:
        """Append rows; the first table sets the columns and their types."""
        if self._file is None:
            raise SourceError(f"{self._name!r} is not open: write within 'with open_writer(...)'")
        if len(set(table.column_names)) < table.num_columns:
            raise SourceError(f"{self._name!r}: two columns have the same name")
        try:
            if self._schema is None or self._sink is None:
                self._schema = table.schema
                self._sink = self._opened(table.schema)
            self._sink.write(self._fitted(table, self._schema))
        except (pa.ArrowException, TypeError) as error:
            raise SourceError(f"{self._name!r} cannot be written: {error}") from None
        except OSError as error:
            raise SourceError(f"{self._name!r} cannot be written: {error.strerror or error}") from None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            with self._stack:
                if error is not None:
                    with suppress(OSError, ValueError, pa.ArrowException):
                        if self._sink is not None:
                            self._sink.close()
                    raise error  # removes the half-written file
                if self._sink is None:
                    raise SourceError(f"there were no rows to write to {self._name!r}")
                self._sink.close()
        except (OSError, pa.ArrowException) as failure:
            if error is None:
                raise SourceError(f"{self._name!r} cannot be written: {failure}") from None
            raise
        finally:
            self._file = None

    def _opened(self, schema: pa.Schema) -> _Sink:
        if self._format == "parquet":
            return _Parquet(self._file, schema)
        if self._format == "arrow":
            return cast(_Sink, pa.ipc.new_file(self._file, schema))
        file = gzip.GzipFile(fileobj=self._file, mode="wb") if self._target.name.endswith(".gz") else self._file
        return _Json(file) if self._format == "jsonl" else _Csv(file, "\t" if self._format == "tsv" else ",")

    def _fitted(self, table: pa.Table, schema: pa.Schema) -> pa.Table:
        if set(table.column_names) != set(schema.names):
            odd = sorted(set(table.column_names) ^ set(schema.names))[0]
            raise SourceError(f"{self._name!r}: column {odd!r} is not in all rows")
        table = table.select(schema.names)
        if self._format == "jsonl" or table.schema == schema:
            return table
        for field in schema:
            try:
                table.column(field.name).cast(field.type)
            except pa.ArrowException:
                was, kind = field.type, table.schema.field(field.name).type
                raise SourceError(
                    f"{self._name!r}: column {field.name!r} was {was} at first, but is now {kind}"
                ) from None
        return table.cast(schema)


class _Parquet:
    def __init__(self, file: Any, schema: pa.Schema) -> None:
        self._writer = pq.ParquetWriter(file, schema)

    def write(self, table: pa.Table) -> None:
        self._writer.write_table(table)

    def close(self) -> None:
        self._writer.close()


class _Csv:
    def __init__(self, file: Any, delimiter: str) -> None:
        self._file = file
        self._delimiter = delimiter
        self._header = True

    def write(self, table: pa.Table) -> None:
        options = pa_csv.WriteOptions(include_header=self._header, delimiter=self._delimiter)
        pa_csv.write_csv(_plain(table), self._file, options)
        self._header = False

    def close(self) -> None:
        if isinstance(self._file, gzip.GzipFile):
            self._file.close()


class _Json:
    def __init__(self, file: Any) -> None:
        self._file = file

    def write(self, table: pa.Table) -> None:
        columns = {name: table.column(name) for name in table.column_names}
        values = [_jsonable(column).to_pylist() for column in columns.values()]
        for row in zip(*values, strict=True):
            line = {name: _finite(value) for name, value in zip(columns, row, strict=True)}
            self._file.write(json.dumps(line, ensure_ascii=False, allow_nan=False).encode() + b"\n")

    def close(self) -> None:
        if isinstance(self._file, gzip.GzipFile):
            self._file.close()


def _plain(table: pa.Table) -> pa.Table:
    """Replace dictionaries by their values."""
    for i, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            table = table.set_column(i, field.name, table.column(i).cast(field.type.value_type))
    return table


def _jsonable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _jsonable(column.cast(kind.value_type))
    if pa.types.is_temporal(kind):
        return column.cast(pa.string())
    return column.cast(pa.float64()) if pa.types.is_decimal(kind) else column


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
