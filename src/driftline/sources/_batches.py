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
    "LeftOut",
    "Mark",
    "Source",
    "SourceError",
    "Window",
    "begins_as",
    "check_width",
    "checked_table",
    "fingerprint",
    "numbered",
]

HEAD = 4096  # bytes of a file that its fingerprint is made from
WIDEST = 100_000  # columns


class SourceError(DriftlineError):
    """Data that cannot be read; the message says what to fix."""


@dataclass(frozen=True)
class LeftOut:
    """Numbers of rows that belong to no window.

    Attributes:
        late: rows that came after their window was closed.
        untimed: rows without a readable time.
        wild: rows whose time is far ahead, which the rows after them contradict.

    >>> LeftOut(2, 1) + LeftOut(1), LeftOut(untimed=2).described()
    (LeftOut(late=3, untimed=1, wild=0), '2 rows without a readable time left out')
    """

    late: int = 0
    untimed: int = 0
    wild: int = 0

    def __bool__(self) -> bool:
        return self.total > 0

    def __add__(self, other: LeftOut) -> LeftOut:
        return LeftOut(self.late + other.late, self.untimed + other.untimed, self.wild + other.wild)

    @property
    def total(self) -> int:
        """Number of all of them."""
        return self.late + self.untimed + self.wild

    def without(self, other: LeftOut) -> LeftOut:
        """Return these without those of another count; never below 0."""
        return LeftOut(
            max(0, self.late - other.late), max(0, self.untimed - other.untimed), max(0, self.wild - other.wild)
        )

    def described(self, place: str = "") -> str:
        """Describe those that are not late, which a Record counts; ``place`` names the first wild one."""
        said = []
        if self.untimed:
            said.append(f"{self.untimed} row{'' if self.untimed == 1 else 's'} without a readable time left out")
        if self.wild:
            rows, them = ("1 row", "it") if self.wild == 1 else (f"{self.wild} rows", "them")
            first = f" ({'' if self.wild == 1 else 'the first is '}{place})" if place else ""
            said.append(f"{rows} far ahead of the times around {them} left out{first}")
        return "; ".join(said)


@dataclass(frozen=True)
class Mark:
    """Place in a text file from which to read on without reading what is before it.

    Attributes:
        byte: number of bytes before it; a record begins there.
        row: number of rows before it.
        line: number of its line, from 1.
        before: fingerprint of the bytes just before it, checked when reading resumes.
    """

    byte: int
    row: int
    line: int
    before: str


@dataclass(frozen=True)
class Batch:
    """Rows of one file or stream.

    Attributes:
        rows: the rows, and what is known about them.
        file: name of the file as the source lists it; None for streams.
        row: number of rows of that file (or of the stream) before these.
        head: fingerprint of the file's first bytes.
        mark: place in the file, at or before these rows, from which they can be read again; None if it cannot seek.
    """

    rows: Rows
    file: str | None
    row: int
    head: str = ""
    mark: Mark | None = None

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
        newest: latest time (ns since 1970, UTC) before it, as coarse as windows are; only with windows by time.
        next_window: index in time of the next window; only with windows by time.
        mark: place in a text file, at or before it, where reading resumes; None: the file is read from its start.
        noted: rows left out after it that Records account for already; only with windows by time.
        in_order: whether rows came in order of time; if not, they were sorted, and are sorted again.

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
    mark: Mark | None = None
    noted: LeftOut = LeftOut()
    in_order: bool = True

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary that can be written as JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Restore a cursor from its dictionary; anything else raises :class:`SourceError`."""
        plain = _checked(cls, data, "a cursor")
        if plain["mark"] is not None:
            plain["mark"] = Mark(**_checked(Mark, plain["mark"], "a cursor: its mark is"))
            if not plain["mark"].before.partition(":")[0].isdecimal():
                raise SourceError(f"not a cursor: its mark has {plain['mark'].before!r}")
        plain["noted"] = LeftOut(**_checked(LeftOut, plain["noted"], "a cursor: its rows left out are"))
        return cls(**plain)


_KINDS: Mapping[str, tuple[type, ...]] = {
    "int": (int,),
    "str": (str,),
    "bool": (bool,),
    "str | None": (str, type(None)),
    "int | None": (int, type(None)),
    "Mark | None": (Mapping, type(None)),
    "LeftOut": (Mapping,),
}


def _checked(kind: type, data: Any, what: str) -> dict[str, Any]:
    """Return the fields of a dataclass as they were written, each of its type; numbers of rows are not negative."""
    wanted = {field.name: str(field.type) for field in fields(kind)}
    if not isinstance(data, Mapping) or set(data) != set(wanted):
        raise SourceError(f"not {what}: {data!r}")
    for name, type_ in wanted.items():
        value = data[name]
        negative = type_ == "int" and isinstance(value, int) and value < 0
        if not isinstance(value, _KINDS[type_]) or (isinstance(value, bool) and type_ != "bool") or negative:
            raise SourceError(f"not {what}: {name}={value!r}")
    return dict(data)


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
        left_out: all rows left out since the previous window, the late ones among them.
    """

    rows: Rows
    first_row: int
    cursor: Cursor
    start: str | None = None
    end: str | None = None
    late_rows: int = 0
    note: str = ""
    left_out: LeftOut = LeftOut()

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


def check_width(columns: int, name: str) -> None:
    """Raise if there are no columns, or so many that this cannot be meant."""
    if columns == 0:
        raise SourceError(f"{name} has rows without columns: there is nothing to watch")
    if columns > WIDEST:
        raise SourceError(f"{name} has {columns:,} columns, more than {WIDEST:,}: are rows and columns interchanged?")


def checked_table(table: pa.Table, name: str) -> pa.Table:
    """Return a table whose memory is valid and whose columns have different names; anything else is an error."""
    try:
        names = table.column_names
        table.validate(full=True)  # altered bytes can leave offsets that point beyond the data, or invalid text
    except (pa.ArrowException, ValueError, OSError) as error:
        raise SourceError(f"{name} is damaged: {error}") from None
    check_width(len(names), name)
    seen: set[str] = set()
    for column in names:
        if column in seen:
            raise SourceError(f"{name} has more than one column {column!r}: rename one of them")
        seen.add(column)
    return table.replace_schema_metadata(None)
