"""Sources: files, directories, patterns, standard input and frames, each as batches of rows in one order."""

from __future__ import annotations

import io
import math
import os
import stat
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, BinaryIO, Self, cast

import pyarrow as pa

from driftline.sources._batches import Batch, Position, Source, SourceError
from driftline.sources._files import Files
from driftline.sources._frames import as_table, is_frame
from driftline.sources._readers import BATCH_ROWS, ipc_stream, known_format, text_reader

__all__ = ["Batch", "Frames", "Pipe", "Position", "Source", "SourceError", "open_source"]


def open_source(
    source: Any, *, follow: bool = False, poll: float = 1.0, format: str | None = None, replay: bool = False
) -> Source:
    """Make a source of what is to be watched.

    Arguments:
        source: path of a file or a directory, a pattern such as ``"logs/*.csv"``, ``"-"`` for standard input, a frame
            (pandas, polars, pyarrow), or an iterable of frames.
        follow: when all is read, wait for rows at the end of the last file, and for files after it.
        poll: seconds between two looks.
        format: csv, tsv, jsonl, parquet or arrow, where a suffix does not tell it.
        replay: standard input or frames begin again with rows that were read before an interruption; without it, what
            they give is new. Files always go on where they were left.

    >>> source = open_source(pa.table({"x": [1, 2, 3]}))
    >>> source.rows, [batch.table.num_rows for batch in source.batches()]
    (3, [3])
    """
    if not isinstance(poll, int | float) or not (0.0 < poll < math.inf):
        raise SourceError(f"poll={poll!r} must be a number of seconds above 0")
    format = None if format is None else known_format(format)
    if isinstance(source, str | os.PathLike):
        where = os.fspath(source)
        if not isinstance(where, str) or "\0" in where or not where:
            raise SourceError(f"{where!r} is no path")
        if where == "-":
            return Pipe(sys.stdin.buffer, "standard input", format, replay)
        if _is_pipe(where):
            return Pipe(_opened(where), where, format, replay)
        return Files(where, follow=follow, poll=float(poll), format=format)
    if all(hasattr(source, part) for part in ("batches", "resumes", "name")):
        return cast(Source, source)
    if is_frame(source):
        return Frames([source], "a frame", replay, rows=as_table(source).num_rows)
    if isinstance(source, Mapping | bytes) or hasattr(source, "__array__") or not isinstance(source, Iterable):
        as_table(source, "the source")  # says what is wrong with it
    return Frames(source, "frames", replay)


class Frames:
    """Frames, one after the other, as a stream of rows."""

    def __init__(self, frames: Iterable[Any], name: str, replay: bool = False, rows: int | None = None) -> None:
        self.name = name
        self.rows = rows
        self._frames = frames
        self._replay = replay
        self._unread: deque[pa.Table] = deque()

    def after(self, tables: list[pa.Table]) -> Self:
        """The same with these rows before it, unless everything comes again."""
        if not self._replay:
            self._unread.extendleft(reversed(tables))
        return self

    def unread(self) -> list[pa.Table]:
        """Rows taken from the frames, but not handed on yet."""
        return list(self._unread)

    def resumes(self, position: Position) -> bool:
        """Whether the rows after this position come again; otherwise those that come are new."""
        return self._replay

    def batches(self, position: Position | None = None) -> Iterator[Batch]:
        """All rows from the position on, in order."""
        return _numbered(self._tables(), position, self._replay, self.name)

    def _tables(self) -> Iterator[pa.Table]:
        yield from self._parts()
        for i, frame in enumerate(self._frames):
            self._unread.append(as_table(frame, self.name if self.rows is not None else f"frame {i}"))
            yield from self._parts()

    def _parts(self) -> Iterator[pa.Table]:
        while self._unread:
            table = self._unread.popleft()
            if table.num_rows > BATCH_ROWS:
                self._unread.appendleft(table.slice(BATCH_ROWS))
            yield table.slice(0, BATCH_ROWS)


class Pipe:
    """Bytes that come once: standard input, a named pipe. CSV, JSON lines, or an Arrow IPC stream."""

    rows = None

    def __init__(self, stream: BinaryIO, name: str, format: str | None = None, replay: bool = False) -> None:
        if format == "parquet":
            raise SourceError(f"{name}: Parquet cannot be read from a pipe, it is read from its end; give a file")
        self.name = name
        self._stream = stream
        self._format = format
        self._replay = replay

    def resumes(self, position: Position) -> bool:
        """Whether the rows after this position come again; otherwise those that come are new."""
        return self._replay

    def batches(self, position: Position | None = None) -> Iterator[Batch]:
        """All rows from the position on, in order, as they come."""
        try:
            start = self._stream.read(8)
            format = self._format or _guessed(start, self.name)
            tables = self._arrow(start) if format == "arrow" else self._text(start, format)
            yield from _numbered(tables, position, self._replay, self.name, format in ("csv", "tsv"), format == "jsonl")
        except OSError as error:
            raise SourceError(f"{self.name} cannot be read: {error.strerror or error}") from None

    def _arrow(self, start: bytes) -> Iterator[pa.Table]:
        if start[:6] == b"ARROW1":
            raise SourceError(f"{self.name}: an Arrow file cannot be read from a pipe; write an Arrow stream")
        return ipc_stream(io.BufferedReader(_Joined(start, self._stream)), self.name)

    def _text(self, start: bytes, format: str) -> Iterator[pa.Table]:
        reader = text_reader(self.name, format)
        block = start
        while block:
            yield from reader.feed(block)
            # what is there now, so that rows are seen when they come
            block = self._stream.read1(1 << 20)  # type: ignore[attr-defined]
        yield from reader.feed(b"", final=True)


class _Joined(io.RawIOBase):
    """Bytes already read, then the rest of the stream they are from."""

    def __init__(self, start: bytes, stream: BinaryIO) -> None:
        self._start = start
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._start[: len(buffer)] or self._stream.read(len(buffer))
        self._start = self._start[len(buffer) :]
        buffer[: len(data)] = data
        return len(data)


def _numbered(
    tables: Iterable[pa.Table],
    position: Position | None,
    replay: bool,
    name: str,
    untyped: bool = False,
    sparse: bool = False,
) -> Iterator[Batch]:
    """Tables as batches of a stream: they go on at the position or, replayed, are left out up to it."""
    total = 0 if position is None else position.total
    row = 0 if replay else total
    for table in tables:
        skip = min(max(total - row, 0), table.num_rows)
        row += skip
        if skip < table.num_rows:
            yield Batch(table.slice(skip), None, row, "", untyped, sparse)
        row += table.num_rows - skip
    if row < total:
        raise SourceError(f"{name} is not what was being read: it has {row} rows, but {total} were read before")


def _guessed(start: bytes, name: str) -> str:
    if start[:2] == b"\x1f\x8b":
        raise SourceError(f"{name} is compressed: pipe it through gunzip -c")
    if start[:4] == b"PAR1":
        raise SourceError(f"{name}: Parquet cannot be read from a pipe, it is read from its end; give a file")
    if start[:6] == b"ARROW1" or start[:4] == b"\xff\xff\xff\xff":
        return "arrow"
    return "jsonl" if start.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"[") else "csv"


def _is_pipe(where: str) -> bool:
    try:
        mode = os.stat(where).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)


def _opened(where: str) -> BinaryIO:
    try:
        return open(where, "rb")
    except OSError as error:
        raise SourceError(f"{where!r} cannot be read: {error.strerror or error}") from None
