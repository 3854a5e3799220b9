"""Kinds of columns: decided on the first window, then frozen. Text is refused, clocks and counters are left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np

from driftline._errors import Message, Option, Value
from driftline.tables._categories import CategoricalColumn
from driftline.tables._cells import (
    Floats,
    TableError,
    Unreadable,
    column_of,
    counted,
    family_of,
    pc,
    quoted,
    read_booleans,
    read_labels,
    read_numbers,
    read_times,
)
from driftline.tables._columns import PARTS, BooleanColumn, Column, DatetimeColumn
from driftline.tables._numeric import NumericColumn
from driftline.tables._rows import Rows

__all__ = ["EMPTY", "ColumnChoices", "freeze", "unreadable"]

EMPTY = ("no value in the first window", "no finite number in the first window")  # reasons to leave a column out

_MANY = 100  # more distinct values make a column text
_FEW_ROWS = 20  # with fewer rows, any number of distinct values may be chance
_CLOCK = 10  # least number of rises of a clock or counter
_LONG = 5  # or least number of rows that each of its values lasts
_SHOWN = 5  # most names in a message
_ZEROS = r"^[+-]?0\d"
_DATES = r"^\d{1,2}[./-]\d{1,2}[./-]\d{4}( .*)?$"  # day first or month first: the text alone does not say


@dataclass(frozen=True)
class ColumnChoices:
    """User's choices about columns; see :meth:`~driftline.tables.TableEncoder.fit`."""

    columns: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    numeric: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    datetime: tuple[str, ...] = ()
    time_column: str | None = None
    lenient: bool = False

    def leaves_out(self, name: str) -> str:
        """Return the reason not to watch a column, whatever it holds; empty if it may be watched."""
        if name in self.drop:
            return "dropped"
        if self.columns and name not in self.columns:
            return "not among the columns to watch"
        return ""

    def check(self, names: Sequence[str]) -> None:
        """Raise :class:`~driftline.tables.TableError` if columns of these names cannot meet the choices."""
        times = () if self.time_column is None else (self.time_column,)
        for what in ("columns", "drop", "numeric", "categorical", "time_column"):
            for name in times if what == "time_column" else getattr(self, what):
                if name not in names:
                    near = get_close_matches(str(name), names, 1)
                    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
                    has = f": it has {', '.join(map(repr, names[:_SHOWN]))}{more}"
                    hint = f", did you mean {near[0]!r}?" if near else has
                    raise TableError(
                        "{option}: no column {column!r}{hint}", option=Option(what), column=name, hint=hint
                    )
        unknown = [part for part in self.datetime if part not in PARTS]
        if unknown:
            raise TableError(
                "{option}: {value!r} is unknown, choose from {known}",
                option=Option("datetime"),
                value=unknown[0],
                known=", ".join(PARTS),
            )
        both = sorted(set(self.numeric) & set(self.categorical))
        if both:
            raise TableError(f"column {both[0]!r} cannot be both numeric and categorical")
        dropped = sorted(set(self.columns) & set(self.drop))
        if dropped:
            raise TableError(f"column {dropped[0]!r} is both watched and dropped")
        for name in self.numeric + self.categorical:
            if self.leaves_out(name):
                raise TableError(f"column {name!r} is given a kind but is {self.leaves_out(name)}")


def unreadable(name: str, holds: str, bad: Unreadable) -> str:
    """Describe the first unreadable cell, for an error only: notes do not quote single rows."""
    return f"column {name!r}: value {quoted(bad.value)} in row {bad.row} of the window is not {holds}"


def freeze(rows: Rows, name: str, choices: ColumnChoices) -> Column | str | Message:
    """Freeze a column on the first window, or return the reason not to watch it."""
    reason = choices.leaves_out(name)
    if reason:
        return reason
    found = _frozen(rows, name, choices)
    if found in EMPTY and name in choices.columns + choices.numeric + choices.categorical:
        raise TableError(
            f"column {name!r} is named, but has {found}: do not name it, or begin with rows that have a value"
        )
    return found


def _frozen(rows: Rows, name: str, choices: ColumnChoices) -> Column | str | Message:
    column = column_of(rows.table, name)
    family = family_of(column, name)
    if family == "null":
        return EMPTY[0]
    kind = _kind(rows, column, name, family, choices)
    families = _families(kind, family, rows.untyped)
    if name == choices.time_column and name not in choices.numeric + choices.categorical:
        if kind == "datetime" and choices.datetime:
            return DatetimeColumn(name, families, choices.datetime)
        return "the time of the rows"
    if kind == "date in another form":
        return _unread_dates(column, name, choices)
    if kind == "datetime":
        return _datetime(name, families, choices)
    if kind == "boolean":
        return BooleanColumn(name, families)
    if kind == "categorical":
        return _categorical(column, name, family, families, choices)
    return _numeric(column, name, family, families, choices)


def _kind(rows: Rows, column: Any, name: str, family: str, choices: ColumnChoices) -> str:
    for kind, named in (("numeric", choices.numeric), ("categorical", choices.categorical)):
        if name in named:
            if family == "time":
                raise TableError(
                    "column {column!r} holds {type} values and cannot be {kind}: watch its parts with {datetime}, "
                    "such as {part}, or leave it out ({drop})",
                    column=name,
                    type=str(column.type),
                    kind=kind,
                    datetime=Option("datetime"),
                    part=Value("datetime", "hour"),
                    drop=Option("drop"),
                )
            return kind
    declared = str(rows.table.schema.field(name).type).startswith("dictionary")
    if declared and family in ("text", "number"):
        return "categorical"
    if family == "text":
        return _guessed(column) if rows.untyped else "categorical"
    return {"number": "numeric", "boolean": "boolean", "time": "datetime"}[family]


def _guessed(column: Any) -> str:
    """Guess the kind of text that may stand for other types, as in CSV files."""
    if read_booleans(column, "text").bad is None:
        return "boolean"
    if read_numbers(column, "text").bad is None:
        zeros = pc.any(pc.match_substring_regex(pc.utf8_trim_whitespace(column), _ZEROS)).as_py()
        return "categorical" if zeros else "numeric"  # 00123 is a code, not a number
    if read_times(column, "text").bad is None:
        return "datetime"
    dates = pc.all(pc.match_substring_regex(pc.utf8_trim_whitespace(column), _DATES)).as_py()
    return "date in another form" if dates else "categorical"


def _families(kind: str, family: str, untyped: bool) -> tuple[str, ...]:
    """Return the type families allowed in later windows: the first window's own, and the usual one of its kind."""
    own = {"numeric": "number", "boolean": "boolean", "datetime": "time"}.get(kind, family)
    also = ("number", "boolean") if untyped and kind == "categorical" else ()
    return tuple(dict.fromkeys((family, own, *also)))


def _unread_dates(column: Any, name: str, choices: ColumnChoices) -> str:
    form = "dates in a form that is not ISO 8601 (2024-12-31)"
    if choices.datetime or name in choices.columns:
        value = column.drop_null()[0].as_py()
        raise TableError(
            "column {column!r} holds {form}, such as {value}: write them like that, leave it out ({drop}), or name it "
            "in {categorical}",
            column=name,
            form=form,
            value=quoted(value),
            drop=Option("drop"),
            categorical=Option("categorical"),
        )
    return form


def _datetime(name: str, families: tuple[str, ...], choices: ColumnChoices) -> Column | Message:
    if choices.datetime:
        return DatetimeColumn(name, families, choices.datetime)
    if name in choices.columns:
        raise TableError(
            "column {column!r} holds dates or times: say which parts to watch, such as {datetime}",
            column=name,
            datetime=Option("datetime", ("hour",)),
        )
    return Message("dates or times, of which no parts were asked for ({datetime})", datetime=Option("datetime"))


def _categorical(
    column: Any, name: str, family: str, families: tuple[str, ...], choices: ColumnChoices
) -> Column | str:
    counts = counted(read_labels(column, family))
    rows, distinct = sum(counts.values()), len(counts)
    if not rows:
        return EMPTY[0]
    if name not in choices.categorical and (distinct > _MANY or (rows >= _FEW_ROWS and distinct > 0.5 * rows)):
        hint, read = "", read_numbers(column, family)
        if read.bad is not None and len(read.bad.at) < 0.5 * rows:
            hint = f"; most are numbers, but {quoted(read.bad.value)} in row {read.bad.row} is not"
        raise TableError(
            "column {column!r} holds text: {distinct} different values in {rows} rows{hint}. Leave it out ({drop}), "
            "turn it into numbers with an embedding model first, or name it in {categorical} to watch its frequent "
            "values",
            column=name,
            distinct=distinct,
            rows=rows,
            hint=hint,
            drop=Option("drop"),
            categorical=Option("categorical"),
        )
    return CategoricalColumn.fit(name, families, counts, len(column))


def _numeric(column: Any, name: str, family: str, families: tuple[str, ...], choices: ColumnChoices) -> Column | str:
    values, _, bad = read_numbers(column, family)
    present = values[~np.isnan(values)]
    if bad is not None and not (choices.lenient and len(present)):
        raise TableError(unreadable(name, NumericColumn.holds, bad))
    if not len(present):
        return EMPTY[1]
    made = NumericColumn.fit(name, families, values)
    if name not in choices.numeric + choices.columns and _only_rises(present):
        return "a clock or counter: it never falls in the first window (name it in numeric to watch it)"
    return made


def _only_rises(values: Floats) -> bool:
    """Say whether values only rise, and not by chance: many rises, or few values for many rows each, as with dates."""
    before, after = values[:-1], values[1:]
    if (after < before).any():
        return False
    rises = np.flatnonzero(before < after)
    runs = np.diff(np.concatenate([[-1], rises, [len(values) - 1]]))
    return bool(len(rises) >= _CLOCK or (len(runs) > 2 and runs.min() >= _LONG))
