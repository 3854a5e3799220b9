"""Batches, windows and cursors: the parts of a stream, and the places to continue reading from."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Protocol, Self

import pyarrow as pa

from driftline._errors import DriftlineError
from driftline.tables import Rows

__all__ = [
    "HEAD",
    "Batch",
    "Cursor",
    "Source",
    "SourceError",
    "Window",
    "begins_as",
    "checked_table",
    "fingerprint",
    "numbered",
]

HEAD = 4096  # bytes of a file that its fingerprint is made from


class SourceError(DriftlineError):
    """Data that cannot be read; the message says what to fix."""


@dataclass(frozen=True)
class Batch:
    """Rows of one file or stream.

    Attributes:
        rows: the rows, and what is known about them.
        file: name of the file as the source lists it; None for streams.
        row: number of rows of that file (or of the stream) before these.
        head: fingerprint of the file's first bytes.
    """

    rows: Rows
    file: str | None
    row: int
    head: str = ""

    @property
    def table(self) -> pa.Table:
        """Table of the rows."""
        return self.rows.table

    def part(self, start: int, rows: int | None = None) -> Batch:
        """Return ``rows`` of its rows from ``start`` on; all of them if None."""
        return replace(self, rows=self.rows.part(start, rows), row=self.row + start)

    def place(self, row: int) -> str:
        """Name one of its rows for a message, counted from 1: ``row 17 of 'part-2.csv'``."""
        where = "" if self.file is None else f" of {self.file!r}"
        return f"row {self.row + row + 1}{where}"


@dataclass(frozen=True)
class Cursor:
    """Cursor of the first unread row, from which reading continues after a window.

    Attributes:
        file: name of its file as the source lists it; None for streams.
        row: number of rows of that file (or of the stream) before it.
        total: number of rows of the whole stream before it.
        head: fingerprint of the first bytes of that file, checked when reading resumes.
        newest: latest time (ns since 1970, UTC) before it; only with windows by time.
        next_window: index in time of the next window; only with windows by time.

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
        """Return a dictionary that can be written as JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Restore a cursor from its dictionary; anything else raises :class:`SourceError`."""
        if not isinstance(data, Mapping) or set(data) != {f.name for f in fields(cls)}:
            raise SourceError(f"not a cursor: {data!r}")
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
                raise SourceError(f"not a cursor: {name}={value!r}")
        return cls(**data)


@dataclass(frozen=True)
class Window:
    """Rows that are judged together.

    Attributes:
        rows: the rows, and what is known about them.
        first_row: number of rows of the stream before its first.
        cursor: cursor of the first unread row after it.
        start, end: start and end in ISO 8601, UTC, with windows by time; the end is the start of the next window.
        late_rows: number of rows left out since the previous window because they came after their own was closed.
        note: remark for people, such as that it stands for several windows without rows; usually empty.
    """

    rows: Rows
    first_row: int
    cursor: Cursor
    start: str | None = None
    end: str | None = None
    late_rows: int = 0
    note: str = ""

    @property
    def table(self) -> pa.Table:
        """Table of the rows."""
        return self.rows.table


class Source(Protocol):
    """Stream of rows; :func:`~driftline.sources.open_source` makes one from anything readable.

    Attributes:
        name: name for messages.
        rows: total number of rows, if known in advance.
    """

    name: str

    @property
    def rows(self) -> int | None:
        """Total number of rows; None if unknown."""

    def batches(self, cursor: Cursor | None = None) -> Iterator[Batch]:
        """Yield all rows from the cursor on, in order."""

    def resumes(self, cursor: Cursor) -> bool:
        """Say whether the rows after this cursor come again; otherwise all rows that come are new."""


def numbered(parts: Iterable[Rows], cursor: Cursor | None, replay: bool, name: str) -> Iterator[Batch]:
    """Turn rows into batches of a stream; they continue at the cursor or, replayed, are skipped up to it."""
    total = 0 if cursor is None else cursor.total
    row = 0 if replay else total
    for part in parts:
        many = part.table.num_rows
        skip = min(max(total - row, 0), many)
        row += skip
        if skip < many:
            yield Batch(part.part(skip), None, row)
        row += many - skip
    if row < total:
        raise SourceError(f"{name} is not the stream that was read before: it has {row} rows, but {total} were read")


def fingerprint(start: bytes) -> str:
    """Return ``"nbytes:sha256"`` of a file's first ``HEAD`` bytes; it stays valid while the file only grows.

    >>> begins_as(b"x,y\\n1,2\\n", fingerprint(b"x,y\\n"))
    True
    """
    return f"{len(start)}:{hashlib.sha256(start).hexdigest()}"


def begins_as(start: bytes, head: str) -> bool:
    """Say whether a file's first ``HEAD`` bytes begin with those that a fingerprint was made from."""
    length, _, digest = head.partition(":")
    if not length.isdecimal() or int(length) > HEAD:
        return False
    start = start[: int(length)]
    return len(start) == int(length) and hashlib.sha256(start).hexdigest() == digest


def checked_table(table: pa.Table, name: str) -> pa.Table:
    """Return a table whose memory is valid and whose columns have different names; anything else is an error."""
    try:
        names = table.column_names
        table.validate(full=True)  # altered bytes can leave offsets that point beyond the data, or invalid text
    except (pa.ArrowException, ValueError, OSError) as error:
        raise SourceError(f"{name} is damaged: {error}") from None
    seen: set[str] = set()
    for column in names:
        if column in seen:
            raise SourceError(f"{name} has more than one column {column!r}: rename one of them")
        seen.add(column)
    return table.replace_schema_metadata(None)
