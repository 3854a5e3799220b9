"""Batches, windows and cursors: the parts of a stream, and the places to read on from."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Protocol, Self

import pyarrow as pa

__all__ = [
    "Batch",
    "Cursor",
    "Source",
    "SourceError",
    "Window",
    "checked_table",
    "fingerprint",
    "is_same_file",
    "numbered",
]

_HEAD = 4096


class SourceError(ValueError):
    """Data that cannot be read, in words for whoever has to mend it."""


@dataclass(frozen=True)
class Batch:
    """Some rows of one file or stream.

    Attributes:
        file: name as the source lists it; None for streams.
        row: rows of that file (or of the stream) before these.
        head: fingerprint of the file's first bytes.
        untyped: all columns are text whose kinds are still to be decided (CSV).
        sparse: a value may be missing by its column not being there (JSON lines).
    """

    table: pa.Table
    file: str | None
    row: int
    head: str = ""
    untyped: bool = False
    sparse: bool = False

    def part(self, start: int, rows: int | None = None) -> Batch:
        """Some of its rows."""
        return replace(self, table=self.table.slice(start, rows), row=self.row + start)

    def place(self, row: int) -> str:
        """One of its rows in words for a message, counted from 1: ``row 17 of 'part-2.csv'``."""
        where = "" if self.file is None else f" of {self.file!r}"
        return f"row {self.row + row + 1}{where}"


@dataclass(frozen=True)
class Cursor:
    """Cursor of the first unread row: where to read on after a window.

    Attributes:
        file: the file it is in, as the source lists it; None for streams.
        row: rows of that file (or of the stream) before it.
        total: rows of the whole stream before it.
        head: fingerprint of the first bytes of that file, checked on resuming.
        newest: latest time (ns since 1970, UTC) before it; windows by time only.
        next_window: index in time of the next window to come; windows by time only.

    >>> cursor = Cursor("part-2.csv", row=120, total=5120, head="")
    >>> Cursor.from_dict(cursor.to_dict()) == cursor
    True
    """

    file: str | None
    row: int
    total: int
    head: str
    newest: int | None = None
    next_window: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Back from JSON; :class:`SourceError` if it is not a cursor."""
        if not isinstance(data, Mapping) or set(data) != {f.name for f in fields(cls)}:
            raise SourceError(f"not a cursor of a source: {data!r}")
        kinds: dict[str, tuple[type, ...]] = {
            "file": (str, type(None)),
            "row": (int,),
            "total": (int,),
            "head": (str,),
            "newest": (int, type(None)),
            "next_window": (int, type(None)),
        }
        for name, kind in kinds.items():
            value = data[name]
            negative = name in ("row", "total") and isinstance(value, int) and value < 0
            if not isinstance(value, kind) or isinstance(value, bool) or negative:
                raise SourceError(f"not a cursor of a source: {name}={value!r}")
        return cls(**data)


@dataclass(frozen=True)
class Window:
    """Rows that are looked at together.

    Attributes:
        first_row: rows of the stream before its first.
        start, end: ISO 8601 in UTC, with windows by time; the end is the beginning of the next one.
        late_rows: rows that came after their window had been closed, and were left out; since the window before.
        cursor: where to go on after it.
        note: what a person should know about it, such as that it stands for windows without rows; mostly empty.
        untyped, sparse: as in :class:`Batch`.
    """

    table: pa.Table
    first_row: int
    cursor: Cursor
    start: str | None = None
    end: str | None = None
    late_rows: int = 0
    note: str = ""
    untyped: bool = False
    sparse: bool = False


class Source(Protocol):
    """Where rows come from: :func:`~driftline.sources.open_source` makes one of anything readable.

    Attributes:
        name: in words.
        rows: how many there are in all, where that is known beforehand.
    """

    name: str

    @property
    def rows(self) -> int | None:
        """How many rows there are in all; None if that is not known."""

    def batches(self, cursor: Cursor | None = None) -> Iterator[Batch]:
        """All rows from the cursor on, in order."""

    def resumes(self, cursor: Cursor) -> bool:
        """Whether the rows after this cursor come again; otherwise those that come are new."""


def numbered(
    tables: Iterable[pa.Table],
    cursor: Cursor | None,
    replay: bool,
    name: str,
    untyped: bool = False,
    sparse: bool = False,
) -> Iterator[Batch]:
    """Tables as batches of a stream: they go on at the cursor or, replayed, are left out up to it."""
    total = 0 if cursor is None else cursor.total
    row = 0 if replay else total
    for table in tables:
        skip = min(max(total - row, 0), table.num_rows)
        row += skip
        if skip < table.num_rows:
            yield Batch(table.slice(skip), None, row, "", untyped, sparse)
        row += table.num_rows - skip
    if row < total:
        raise SourceError(f"{name} is not what was being read: it has {row} rows, but {total} were read before")


def fingerprint(path: str | os.PathLike[str]) -> str:
    """``"nbytes:sha256"`` of a file's first bytes, at most 4096: the same as long as the file only grows."""
    with open(path, "rb") as file:
        head = file.read(_HEAD)
    return f"{len(head)}:{hashlib.sha256(head).hexdigest()}"


def is_same_file(path: str | os.PathLike[str], head: str) -> bool:
    """Whether a file begins with the bytes that a fingerprint was made of."""
    length, _, digest = head.partition(":")
    if not length.isdecimal() or int(length) > _HEAD:
        return False
    with open(path, "rb") as file:
        start = file.read(int(length))
    return len(start) == int(length) and hashlib.sha256(start).hexdigest() == digest


def checked_table(table: pa.Table, name: str) -> pa.Table:
    """A table whose contents may be trusted in memory and whose columns have different names, or an error."""
    try:
        names = table.column_names
        table.validate(full=True)  # altered bytes can make offsets that point beyond the data, or text that is none
    except (pa.ArrowException, ValueError, OSError) as error:
        raise SourceError(f"{name} is damaged: {error}") from None
    seen: set[str] = set()
    for column in names:
        if column in seen:
            raise SourceError(f"{name} has more than one column {column!r}: rename one of them")
        seen.add(column)
    return table.replace_schema_metadata(None)
