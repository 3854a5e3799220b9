"""Columns of a table, frozen on the first window: how each becomes numbers, and what is kept of it.

A column is a frozen value of one kind. It parses cells once; from what it parsed, it fills a given block of an array
and makes a summary for people. It is written to JSON and never changes again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np
import numpy.typing as npt

from driftline.tables._cells import FAMILIES, Floats, Read, TableError, Times, Unreadable, read_booleans, read_times
from driftline.tables._evidence import Evidence
from driftline.tables._summaries import category_summary, numeric_summary

__all__ = ["PARTS", "BooleanColumn", "Coded", "Column", "DatetimeColumn", "Parsed", "is_finite", "is_text"]


class Parsed(Protocol):
    """Cells of a column as values of its kind, and the unreadable ones."""

    @property
    def bad(self) -> Unreadable | None:
        """Unreadable cells; None if there are none."""

    @property
    def absent(self) -> int:
        """Number of cells without a value."""


class Coded(NamedTuple):
    """Rows of a column, or of a part of a date, read off their encoding.

    Attributes:
        group: name of the column or the part.
        values: encoded numbers, or codes, (n,).
        missing: rows without a value, (n,).
        labels: what the codes stand for; empty for numbers.
        others: number of codes, the last ones, that stand for all values without a label of their own.
    """

    group: str
    values: Floats
    missing: npt.NDArray[np.bool_]
    labels: tuple[str, ...] = ()
    others: int = 0


@dataclass(frozen=True)
class Column:
    """Base of all kinds of columns.

    Attributes:
        name: name of the column in the table.
        families: families of Arrow types that later windows may use for it, see :mod:`~driftline.tables._cells`.
        missing: share of the first window's rows without a value, to 4 decimals.
    """

    kind: ClassVar[str] = ""
    holds: ClassVar[str] = ""  # a readable cell, in words
    reads: ClassVar[tuple[str, ...]] = ()  # families that can be read at all

    name: str
    families: tuple[str, ...]
    missing: float = field(default=0.0, kw_only=True)

    def labels(self) -> list[tuple[str, str]]:
        """Return the group and name of each encoded column."""
        raise NotImplementedError

    def parse(self, cells: Any, family: str) -> Parsed:
        """Read cells as values of the column's kind, once for :meth:`encode` and :meth:`summary`."""
        raise NotImplementedError

    def evidence(self, parsed: Any) -> Evidence | None:
        """Return evidence of drift that the encoding does not show; most kinds have none."""
        return None

    def encode(self, parsed: Any, out: Floats) -> tuple[str, ...]:
        """Write the encoding to ``out`` (n, width), which holds zeros; return notes for people."""
        raise NotImplementedError

    def coded(self, block: Floats) -> list[Coded]:
        """Read rows off their encoding (n, width), by group."""
        raise NotImplementedError

    def unlisted(self, parsed: Any) -> tuple[str, int] | None:
        """Return the most frequent value that has no label of its own, and its rows; None if these are few."""
        return None

    def summary(self, parsed: Any) -> dict[str, dict[str, Any]]:
        """Return summaries by group."""
        raise NotImplementedError

    def kept(self) -> str:
        """Describe in words what is kept of the first window."""
        raise NotImplementedError

    def check(self) -> None:
        """Raise :class:`~driftline.tables.TableError` unless all parts are valid."""
        if not is_text(self.name):
            raise TableError(f"{self.name!r} is not a column name")
        families = self.families
        if not isinstance(families, tuple) or not families or not all(f in FAMILIES for f in families):
            raise TableError(f"column {self.name!r}: {self.families!r} are not families of types")
        if not is_finite(self.missing) or not 0.0 <= self.missing <= 1.0:
            raise TableError(f"column {self.name!r}: missing={self.missing!r} is not a share")

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary that can be written as JSON."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {"kind": self.kind, **{k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Restore a column from its dictionary, and check it."""
        names = [f.name for f in fields(cls)]
        if set(data) != {"kind", *names}:
            raise TableError(f"a {cls.kind} column has the parts {', '.join(names)}, not {', '.join(map(repr, data))}")
        made = cls(**{n: _tupled(data[n]) for n in names})
        made.check()
        return made


def _tupled(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def is_text(value: Any) -> bool:
    """Say whether a value is text that can be encoded: JSON may hold half a surrogate pair."""
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_finite(value: Any) -> bool:
    """Say whether a value is a finite float; an int cannot come from JSON that was written here."""
    return isinstance(value, float) and math.isfinite(value)


@dataclass(frozen=True)
class BooleanColumn(Column):
    """Booleans: true as 1, false as 0, and an indicator of missing cells."""

    kind: ClassVar[str] = "boolean"
    holds: ClassVar[str] = "true or false"
    reads: ClassVar[tuple[str, ...]] = ("boolean", "text", "number", "null")

    def labels(self) -> list[tuple[str, str]]:
        """Name the value and the indicator."""
        return [(self.name, self.name), (self.name, f"{self.name} missing")]

    def parse(self, cells: Any, family: str) -> Read:
        """Read cells as 0 and 1."""
        return read_booleans(cells, family)

    def encode(self, parsed: Read, out: Floats) -> tuple[str, ...]:
        """Write 0 or 1, and the indicator."""
        missing = np.isnan(parsed.values)
        out[:, 0], out[:, 1] = np.where(missing, 0.0, parsed.values), missing
        return ()

    def coded(self, block: Floats) -> list[Coded]:
        """Read false and true as 0 and 1."""
        return [Coded(self.name, block[:, 0], block[:, 1] > 0.0, ("false", "true"))]

    def summary(self, parsed: Read) -> dict[str, dict[str, Any]]:
        """Return the shares of true and false."""
        values = parsed.values
        true, missing = int((values == 1.0).sum()), int(np.isnan(values).sum())
        counts = [true, len(values) - missing - true]
        return {self.name: category_summary(self.kind, ["true", "false"], counts, missing, len(values))}

    def kept(self) -> str:
        """Say that nothing is kept."""
        return "nothing but its name"


_CYCLES = {"hour": 24, "weekday": 7, "day": 31, "month": 12}
PARTS = tuple(_CYCLES)


def _first(part: str) -> int:
    """Return the number that people give to the first hour, weekday, day or month."""
    return 0 if part in ("hour", "weekday") else 1


def _part(times: Times, part: str) -> Floats:
    """Return one part, counted from 0: hour 0-23, weekday 0 (Monday) to 6, day 0-30, month 0-11."""
    if part == "hour":
        found = times.seconds // 3600
    elif part == "weekday":
        found = (times.days + 3) % 7  # 1970 began on a Thursday
    else:
        months = times.days.astype("datetime64[D]").astype("datetime64[M]")
        if part == "day":
            found = times.days - months.astype("datetime64[D]").astype(np.int64)
        else:
            found = months.astype(np.int64) % 12
    return np.asarray(found, dtype=np.float64)


class _Parts(NamedTuple):
    """Parts of times, (n,) each, counted from 0."""

    values: list[Floats]
    missing: npt.NDArray[np.bool_]
    bad: Unreadable | None

    @property
    def absent(self) -> int:
        """Number of cells without a value."""
        return int(np.count_nonzero(self.missing))


@dataclass(frozen=True)
class DatetimeColumn(Column):
    """Parts of times (UTC), each as sine and cosine of its cycle, so that 23:00 is close to midnight."""

    kind: ClassVar[str] = "datetime"
    holds: ClassVar[str] = "a date or time such as 2024-05-31T12:00:00"
    reads: ClassVar[tuple[str, ...]] = ("time", "text", "null")

    parts: tuple[str, ...]

    def labels(self) -> list[tuple[str, str]]:
        """Name two columns for each part; each part is a group, and the indicator belongs to the first."""
        named = [f"{self.name} {part}" for part in self.parts]
        return [(g, f"{g} {f}") for g in named for f in ("sin", "cos")] + [(named[0], f"{self.name} missing")]

    def parse(self, cells: Any, family: str) -> _Parts:
        """Read cells as the watched parts of their times."""
        times = read_times(cells, family)
        return _Parts([_part(times, part) for part in self.parts], times.missing, times.bad)

    def encode(self, parsed: _Parts, out: Floats) -> tuple[str, ...]:
        """Write sines and cosines, 0 where missing, and the indicator."""
        for j, (part, values) in enumerate(zip(self.parts, parsed.values, strict=True)):
            angle = 2.0 * math.pi / _CYCLES[part] * values
            out[:, 2 * j], out[:, 2 * j + 1] = np.sin(angle), np.cos(angle)
        out[parsed.missing] = 0.0
        out[:, -1] = parsed.missing
        return ()

    def coded(self, block: Floats) -> list[Coded]:
        """Read each part off its angle."""
        found, missing = [], block[:, -1] > 0.0
        for j, part in enumerate(self.parts):
            cycle, first = _CYCLES[part], _first(part)
            turn = np.arctan2(block[:, 2 * j], block[:, 2 * j + 1]) / (2.0 * math.pi)
            labels = tuple(str(first + k) for k in range(cycle))
            found.append(Coded(f"{self.name} {part}", np.round(turn * cycle) % cycle, missing, labels))
        return found

    def summary(self, parsed: _Parts) -> dict[str, dict[str, Any]]:
        """Return a histogram of each part."""
        found = {}
        for part, values in zip(self.parts, parsed.values, strict=True):
            first = _first(part)
            edges = [first + k - 0.5 for k in range(_CYCLES[part] + 1)]
            found[f"{self.name} {part}"] = numeric_summary(np.where(parsed.missing, np.nan, values + first), edges)
        return found

    def kept(self) -> str:
        """Say that nothing is kept, and which parts are watched."""
        return f"nothing; watched: {', '.join(self.parts)} (UTC)"

    def check(self) -> None:
        """Check that the parts are known and differ."""
        super().check()
        parts = self.parts
        if not isinstance(parts, tuple) or not parts or not all(isinstance(p, str) and p in PARTS for p in parts):
            raise TableError(f"column {self.name!r}: {parts!r} are not parts of a date: choose from {', '.join(PARTS)}")
        if len(set(parts)) < len(parts):
            raise TableError(f"column {self.name!r}: parts of the date are named twice")
