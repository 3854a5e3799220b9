"""Pipes as a source: standard input, or a named pipe."""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

from driftline.sources._batches import Batch, Cursor, SourceError, numbered
from driftline.sources._readers import ipc_stream, text_reader
from driftline.tables import Rows

__all__ = ["Pipe"]

_NO_PARQUET = "Parquet cannot be read from a pipe, because it is read from its end; give a file"


class Pipe:
    """Standard input or a named pipe, whose bytes come only once: CSV, JSON lines, or an Arrow IPC stream."""

    rows = None

    def __init__(
        self,
        stream: BinaryIO,
        name: str,
        format: str | None = None,
        replay: bool = False,
        nulls: Sequence[str] = (),
    ) -> None:
        if format == "parquet":
            raise SourceError(f"{name}: {_NO_PARQUET}")
        self.name = name
        self._stream = stream
        self._format = format
        self._replay = replay
        self._nulls = nulls

    def resumes(self, cursor: Cursor) -> bool:
        """Say whether the rows after this cursor come again; otherwise all rows that come are new."""
        return self._replay

    def batches(self, cursor: Cursor | None = None) -> Iterator[Batch]:
        """Yield all rows from the cursor on, in order, as they come."""
        try:
            start = self._stream.read(8)
            format = self._format or _guessed(start, self.name)
            parts = self._arrow(start) if format == "arrow" else self._text(start, format)
            yield from numbered(parts, cursor, self._replay, self.name)
        except OSError as error:
            raise SourceError(f"{self.name} cannot be read: {error.strerror or error}") from None

    def _arrow(self, start: bytes) -> Iterator[Rows]:
        if start[:6] == b"ARROW1":
            raise SourceError(f"{self.name}: an Arrow file cannot be read from a pipe; write an Arrow stream")
        return ipc_stream(io.BufferedReader(_Joined(start, self._stream)), self.name)

    def _text(self, start: bytes, format: str) -> Iterator[Rows]:
        reader = text_reader(self.name, format, nulls=self._nulls)
        block = start
        while block:
            yield from reader.feed(block)
            # read only the bytes that are there now, so that rows are seen as soon as they come
            block = self._stream.read1(1 << 20)  # type: ignore[attr-defined]
        yield from reader.feed(b"", final=True)


class _Joined(io.RawIOBase):
    """Bytes already read, followed by the rest of their stream."""

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


def _guessed(start: bytes, name: str) -> str:
    if start[:2] == b"\x1f\x8b":
        raise SourceError(f"{name} is compressed: pipe it through gunzip -c")
    if start[:4] == b"PAR1":
        raise SourceError(f"{name}: {_NO_PARQUET}")
    if start[:6] == b"ARROW1" or start[:4] == b"\xff\xff\xff\xff":
        return "arrow"
    text = start.replace(b"\0", b"")  # those of UTF-16
    for mark in (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        text = text.removeprefix(mark)
    return "jsonl" if text.lstrip()[:1] in (b"{", b"[") else "csv"
