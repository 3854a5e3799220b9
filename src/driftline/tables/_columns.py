"""Columns of a table, frozen on the first window: how each becomes numbers, and what is kept of it.

A column is a frozen value of one kind. It encodes cells into a given block of an array, summarises them for people and
is written to JSON; it never changes again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np

from driftline.tables._cells import FAMILIES, Floats, TableError, Times, Unreadable, read_booleans, read_times
from driftline.tables._summaries import category_summary, numeric_summary

__all__ = ["PARTS", "BooleanColumn", "Column", "DatetimeColumn", "Reading", "is_finite", "is_text"]


@dataclass(frozen=True)
class Reading:
    """Findings while encoding a column: unreadable cells, and notes for people."""

    bad: Unreadable | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Column:
    """Base of all kinds of columns.

    Attributes:
        name: name of the column in the table.
        families: families of Arrow types that later windows may use for it, see :mod:`~driftline.tables._cells`.
    """

    kind: ClassVar[str] = ""
    holds: ClassVar[str] = ""  # a readable cell, in words
    reads: ClassVar[tuple[str, ...]] = ()  # families that can be read at all

    name: str
    families: tuple[str, ...]

    def labels(self) -> list[tuple[str, str]]:
        """Return the group and name of each encoded column."""
        raise NotImplementedError

    def encode(self, column: Any, family: str, out: Floats) -> Reading:
        """Write the column's encoding to ``out`` (n, width), which holds zeros."""
        raise NotImplementedError

    def summary(self, column: Any, family: str) -> dict[str, dict[str, Any]]:
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

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary that can be written as JSON."""
        parts = {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}
        return {"kind": self.kind, **parts}

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

    def encode(self, column: Any, family: str, out: Floats) -> Reading:
        """Write 0 or 1, and the indicator."""
        values, _, bad = read_booleans(column, family)
        missing = np.isnan(values)
        out[:, 0], out[:, 1] = np.where(missing, 0.0, values), missing
        return Reading(bad)

    def summary(self, column: Any, family: str) -> dict[str, dict[str, Any]]:
        """Return the shares of true and false."""
        values = read_booleans(column, family).values
        true, missing = int((values == 1.0).sum()), int(np.isnan(values).sum())
        counts = [true, len(values) - missing - true]
        return {self.name: category_summary(self.kind, ["true", "false"], counts, missing, len(values))}

    def kept(self) -> str:
        """Say that nothing is kept."""
        return "nothing but its name"


_CYCLES = {"hour": 24, "weekday": 7, "day": 31, "month": 12}
PARTS = tuple(_CYCLES)


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

    def encode(self, column: Any, family: str, out: Floats) -> Reading:
        """Write sines and cosines, 0 where missing, and the indicator."""
        times = read_times(column, family)
        for j, part in enumerate(self.parts):
            angle = 2.0 * math.pi / _CYCLES[part] * _part(times, part)
            out[:, 2 * j], out[:, 2 * j + 1] = np.sin(angle), np.cos(angle)
        out[times.missing] = 0.0
        out[:, -1] = times.missing
        return Reading(times.bad)

    def summary(self, column: Any, family: str) -> dict[str, dict[str, Any]]:
        """Return a histogram of each part."""
        times, found = read_times(column, family), {}
        for part in self.parts:
            first = 0 if part in ("hour", "weekday") else 1
            values = np.where(times.missing, np.nan, _part(times, part) + first)
            edges = [first + k - 0.5 for k in range(_CYCLES[part] + 1)]
            found[f"{self.name} {part}"] = numeric_summary(values, edges)
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
