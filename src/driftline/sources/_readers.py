"""Readers of single files (CSV, JSON lines, Parquet, Arrow IPC), in batches, from any row on."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, cast

import pyarrow as pa
import pyarrow.parquet as pq

from driftline._errors import Message, Option
from driftline.sources._batches import HEAD, Mark, SourceError, begins_as, checked_table, fingerprint
from driftline.sources._json import JsonParser
from driftline.sources._parquet import BATCH_ROWS, parquet_tables
from driftline.sources._text import CsvParser, TextReader
from driftline.tables import Rows

__all__ = [
    "BATCH_ROWS",
    "FORMATS",
    "ColumnarFile",
    "TextFile",
    "count_rows",
    "format_of",
    "ipc_stream",
    "known_format",
    "text_reader",
    "unknown_format",
]

BLOCK = 1 << 22  # bytes of text parsed at once
FORMATS = ("csv", "tsv", "jsonl", "parquet", "arrow")
_SUFFIXES = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}
_ALIASES = {suffix[1:]: name for suffix, name in _SUFFIXES.items()}
_END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"
# pyarrow raises these on altered bytes, besides its own
_DAMAGE = (pa.ArrowException, OSError, ValueError, TypeError, KeyError, OverflowError, MemoryError)


def known_format(name: str) -> str:
    """Return the name of a format, given that name or a usual suffix.

    >>> known_format("ndjson")
    'jsonl'
    """
    found = _ALIASES.get(name.lower().lstrip("."))
    if found is None:
        known = ", ".join(FORMATS)
        raise SourceError("{option} is unknown: choose from {known}", option=Option("format", name), known=known)
    return found


def unknown_format(file: str) -> SourceError:
    """Return the error about a file whose format is not known."""
    return SourceError(
        "{file!r}: its name does not show its format; {advice}",
        file=file,
        advice=Message("say {format}, for example", format=Option("format", "csv")),
    )


def format_of(name: str) -> str | None:
    """Return the format that a file's name shows; None if it shows none.

    >>> format_of("part-1.csv.gz"), format_of("notes.txt")
    ('csv', None)
    """
    stem, suffix = os.path.splitext(name.lower())
    packed = suffix == ".gz"
    found = _SUFFIXES.get(os.path.splitext(stem)[1] if packed else suffix)
    return None if packed and found in ("parquet", "arrow") else found


def text_reader(name: str, format: str, skip: int = 0, nulls: Sequence[str] = ()) -> TextReader:
    """Return a reader of CSV, TSV or JSON lines."""
    if format == "jsonl":
        return TextReader(name, JsonParser(name), skip)
    return TextReader(name, CsvParser(name, b"\t" if format == "tsv" else b",", nulls), skip)


class TextFile:
    """A text file, plain or gzipped: opened, read to its present end, and from there on if it has grown.

    Attributes:
        start: first bytes of the file.
        head: fingerprint of the file.
        packed: whether the file is gzipped.
    """

    def __init__(self, path: Path, name: str, format: str, skip: int, nulls: Sequence[str] = ()) -> None:
        self._path = path
        self._name = name
        self._reader = text_reader(name, format, skip, nulls)
        self._offset = 0
        self._open()
        self.packed = self.start[:2] == b"\x1f\x8b"

    def _open(self) -> None:
        self._file: BinaryIO = self._path.open("rb")
        self.start = self._file.read(HEAD)
        self.head = fingerprint(self.start)

    def close(self) -> None:
        """Close the file; :meth:`read` opens it again."""
        self._file.close()

    @property
    def mark(self) -> Mark | None:
        """Place in the file of the rows yielded last, from which they can be read again; None if it is gzipped."""
        return None if self.packed else self._reader.mark

    @property
    def remarks(self) -> list[str]:
        """What a person should know about the file, as far as it has been read."""
        return self._reader.remarks

    def go_on(self, mark: Mark, row: int) -> None:
        """Read on from a mark in place of the start, up to a row there; an error if other bytes are before it."""
        self._file.seek(0)
        while (block := self._file.read(BLOCK)) and not self._reader.begin(block):
            pass
        length = int(mark.before.partition(":")[0] or 0)
        self._file.seek(max(0, mark.byte - length))
        before = self._file.read(length).replace(b"\r", b"\n")
        if len(before) != length or not begins_as(before, mark.before) or row < mark.row:
            raise SourceError(
                f"{self._name} is not the file that was being read: the bytes before byte {mark.byte:,} (line "
                f"{mark.line:,}) are not those that were there; a file may only grow at its end"
            )
        self._reader.go_on(mark, before, row - mark.row)
        self._offset = mark.byte

    def read(self) -> Iterator[Rows]:
        """Yield rows that are whole by now and were not read before."""
        size = os.stat(self._path).st_size
        if size == self._offset:
            self.close()
            return
        if self._file.closed:  # it may have been replaced since
            before = self.head
            self._open()
            if size < self._offset or not begins_as(self.start, before):
                raise SourceError(f"{self._name} has shrunk or was replaced while it was read: it may only grow")
        try:
            if self.packed:
                yield from self._unpack(self._file)
                self._offset = size
                return
            self._file.seek(self._offset)
            while block := self._file.read(BLOCK):
                self._offset += len(block)
                yield from self._reader.feed(block)
        finally:
            self.close()

    def finish(self) -> Iterator[Rows]:
        """Yield the rest: a last line without a line end."""
        yield from self._reader.feed(b"", final=True)

    def _unpack(self, raw: BinaryIO) -> Iterator[Rows]:
        raw.seek(0)
        with gzip.open(raw) as file:
            while True:
                try:
                    block = file.read(BLOCK)
                except (OSError, EOFError, zlib.error) as error:
                    raise SourceError(f"{self._name} is damaged: {error}") from None
                if not block:
                    return
                yield from self._reader.feed(block)


class ColumnarFile:
    """A Parquet or Arrow IPC file, opened and read by row groups or record batches; only once, as it does not grow.

    After an error ``read`` may be called again and continues with the first row not yet yielded.

    Arguments:
        path: path of the file.
        name: name of the file in messages.
        format: ``"parquet"`` or ``"arrow"``.
        skip: number of rows to skip.
        marked: whether an Arrow stream must have its end mark, since without it more may follow.

    Attributes:
        start: first bytes of the file.
        head: fingerprint of the file.
        mark: None: places in the file are found by its own metadata.
    """

    mark = None

    def __init__(self, path: Path, name: str, format: str, skip: int, *, marked: bool = False) -> None:
        self._path = path
        self._name = name
        self._format = format
        self._marked = marked
        self._done = skip
        self._complete = False
        self._open()

    def _open(self) -> None:
        try:
            self._file = pa.OSFile(str(self._path))
        except OSError as error:  # in the words of the system, not of Arrow
            raise (OSError(error.errno, os.strerror(error.errno)) if error.errno else error) from None
        self.start: bytes = self._file.read(HEAD)
        self.head = fingerprint(self.start)

    def close(self) -> None:
        """Close the file; :meth:`read` opens it again."""
        self._file.close()

    def read(self) -> Iterator[Rows]:
        """Yield the rows not yet read; none if all were read."""
        if self._complete:
            return
        if self._file.closed:  # it may have been replaced since
            self._open()
        try:
            yield from self._checked(self._tables())
        finally:
            self.close()

    def _checked(self, tables: Iterator[pa.Table]) -> Iterator[Rows]:
        while True:
            try:
                table = next(tables, None)
            except SourceError:
                raise
            except _DAMAGE as error:
                raise SourceError(f"{self._name} cannot be read as {self._format}: {_said(error)}") from None
            if table is None:
                self._complete = True
                return
            table = checked_table(table, self._name)
            self._done += table.num_rows
            yield Rows(table)

    def finish(self) -> Iterator[Rows]:
        """Yield nothing: the file was complete."""
        yield from ()

    def _tables(self) -> Iterator[pa.Table]:
        return parquet_tables(self._file, self._name, self._done) if self._format == "parquet" else self._ipc()

    def _ipc(self) -> Iterator[pa.Table]:
        skip, file, whole = self._done, self._file, self.start[:6] == b"ARROW1"
        if self.start[:4] == b"FEA1":
            raise SourceError(f"{self._name} is a Feather file of version 1: rewrite it with a newer library")
        if self._marked and not whole:
            file.seek(max(0, file.size() - len(_END_OF_STREAM)))
            if file.read(len(_END_OF_STREAM)) != _END_OF_STREAM:
                raise SourceError(f"{self._name} is an Arrow stream without its end mark")
        file.seek(0)
        for batch in _record_batches(pa.ipc.open_file(file)) if whole else pa.ipc.open_stream(file):
            for offset in range(skip, batch.num_rows, BATCH_ROWS):
                yield pa.Table.from_batches([batch.slice(offset, BATCH_ROWS)])
            skip = max(0, skip - batch.num_rows)
        if skip:
            raise self._too_short(skip)

    def _too_short(self, rows: int) -> SourceError:
        return SourceError(f"{self._name} is not the file that was being read: it has {rows} rows too few")


def _record_batches(file: Any) -> Iterator[Any]:
    for i in range(file.num_record_batches):
        yield file.get_batch(i)


def ipc_stream(stream: BinaryIO, name: str) -> Iterator[Rows]:
    """Yield the rows of an Arrow IPC stream that comes through a pipe."""
    try:
        batches = pa.ipc.open_stream(stream)
        while True:
            try:
                batch = batches.read_next_batch()
            except StopIteration:
                return
            yield Rows(checked_table(pa.Table.from_batches([batch]), name))
    except SourceError:
        raise
    except _DAMAGE as error:
        raise SourceError(f"{name} cannot be read as an Arrow stream: {_said(error)}") from None


def count_rows(path: Path, format: str) -> int | None:
    """Return the number of rows of a file, if its metadata show it (Parquet); None otherwise."""
    if format != "parquet":
        return None
    try:
        return cast(int, pq.read_metadata(path).num_rows)
    except _DAMAGE:
        return None


def _said(error: BaseException) -> str:
    return str(error).strip().split("\n")[0] or type(error).__name__
