"""Kinds of columns: decided on the first window, then frozen. Text, clocks and counters are left out."""

from __future__ import annotations

import re
from collections.abc import Mapping
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
    example,
    family_of,
    pa,
    pc,
    quoted,
    read_booleans,
    read_labels,
    read_numbers,
    read_times,
)
from driftline.tables._choices import ColumnChoices, LeftOut
from driftline.tables._columns import BooleanColumn, Column, DatetimeColumn
from driftline.tables._counters import CounterColumn
from driftline.tables._numeric import NumericColumn
from driftline.tables._rows import Rows

__all__ = ["COUNTER", "EMPTY", "freeze", "unreadable"]

EMPTY = ("no value in the first window", "no finite number in the first window")  # reasons to leave a column out

_MANY = 100  # more distinct values make a column text, if few rows share one
_PER_ROW = 0.2  # or more distinct values than this, for each row
_SENTENCE = 50  # characters beyond which values are sentences
_FEW_ROWS = 20  # with fewer rows, any number of distinct values may be chance
_CLOCK = 10  # least number of rises of a clock or counter
_LONG = 5  # or least number of rows that each of its values lasts
_ZEROS = r"^[+-]?0\d"
_DRESSED = r"^\s*[^\w\s]?\s*[-+(]?\s*[^\w\s]?\s*\d[\d.,'\s]*\)?\s*[^\w\s]?\s*$"  # $12.30, 1,234, 3,14 €, 12 %
_INDEX = r"__index_level_\d+__"  # name under which pandas writes an index without one
COUNTER = "a clock or counter: it never falls in the first window"
_ADVICE = {  # the same for a column that was named, in an error
    "categorical": ", name it in {option} to watch its frequent values, or turn it into numbers with an embedding "
    "model first",
    "datetime": ", or say which parts to watch with {option}, such as hour",
    "numeric": ", or name it in {option}",
    "embed": ", or turn it into columns of numbers or categories first",
}
_DATES = r"^\d{1,2}[./-]\d{1,2}[./-]\d{4}( .*)?$"  # day first or month first: the text alone does not say


def unreadable(name: str, holds: str, bad: Unreadable) -> TableError:
    """Return the error about the first unreadable cell: notes do not quote single rows."""
    return TableError(
        "column {column!r}: value {value} in row {row} of {where} is not {holds}",
        column=name,
        value=quoted(bad.value),
        row=bad.row,
        where="the window",
        holds=holds,
    )


def freeze(rows: Rows, name: str, choices: ColumnChoices, room: int | None = None) -> Column | LeftOut:
    """Freeze a column on the first window, or return the reason not to watch it.

    Arguments:
        rows: the first window.
        name: name of the column.
        choices: choices of the user.
        room: number of encoded columns that a category may have beyond the usual ones; None if that is not known yet.
    """
    reason = choices.leaves_out(name)
    if reason:
        return LeftOut(reason, asked=True)
    if re.fullmatch(_INDEX, name) and name not in choices.named:
        return LeftOut("the index of a pandas frame", "numeric")
    found = _frozen(rows, name, choices, room)
    if not isinstance(found, LeftOut) or found.asked or name not in choices.named:
        return found
    if found.why in EMPTY:
        raise TableError(
            f"column {name!r} is named, but has {found.why}: do not name it, or begin with rows that have a value"
        )
    raise TableError(
        "column {column!r} is named, but holds {why}: do not name it{advice}",
        column=name,
        why=found.why,
        advice=Message(_ADVICE[found.option], option=Option(found.option)) if found.option else "",
    )


def _frozen(rows: Rows, name: str, choices: ColumnChoices, room: int | None) -> Column | LeftOut:
    try:
        column = column_of(rows.table, name)
    except TableError as error:  # a wrapper that Arrow does not open, such as intervals of pandas
        return LeftOut(str(error.message.fields.get("what", error)), "embed")
    family = family_of(column)
    if family == "null":
        return LeftOut(EMPTY[0])
    if family == "other":
        # JSON lines pass arrays and objects on as bytes, frames what Arrow cannot hold
        what = "bytes, nested values or values of several types" if pa.types.is_binary(column.type) else column.type
        return LeftOut(f"{what}, which cannot be watched", "embed")
    kind = _kind(rows, column, name, family, choices)
    families = _families(kind, family, rows.untyped)
    missing = round(column.null_count / len(column), 4)
    if name == choices.time_column and name not in choices.numeric + choices.categorical:
        if kind == "datetime" and choices.datetime:
            return DatetimeColumn(name, families, choices.datetime, missing=missing)
        return LeftOut("the time of the rows", asked=True)
    if kind == "date in another form":
        return LeftOut("dates in a form that is not ISO 8601 (2024-12-31)", "categorical")
    if kind == "datetime":
        if choices.datetime:
            return DatetimeColumn(name, families, choices.datetime, missing=missing)
        return LeftOut("dates or times, of which no parts were asked for", "datetime")
    if kind == "boolean":
        return BooleanColumn(name, families, missing=missing)
    if kind == "categorical":
        return _categorical(column, name, family, families, choices, room)
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


def _categorical(
    column: Any, name: str, family: str, families: tuple[str, ...], choices: ColumnChoices, room: int | None
) -> Column | LeftOut:
    labels = read_labels(column, family)
    counts = counted(labels)
    rows, distinct = sum(counts.values()), len(counts)
    if not rows:
        return LeftOut(EMPTY[0])
    made = CategoricalColumn.fit(name, families, labels, counts, room or 0)
    if name in choices.categorical or rows < _FEW_ROWS:
        return made
    many = f"{distinct} different values in {rows} rows"
    if distinct > 0.5 * rows or distinct > max(_MANY, _PER_ROW * rows) or (distinct > _MANY and _long(counts)):
        hint, read = "", read_numbers(column, family)
        if read.bad is not None and len(read.bad.at) < 0.5 * rows:
            wrong = example(counted(labels.take(pa.array(read.bad.at))))
            hint = f", numbers but for {len(read.bad.at)} rows{wrong} (null_values may say what stands for missing)"
        elif _are_dressed(labels):
            hint = ", most of them numbers with signs or separators such as $ or , (write plain numbers to watch them)"
        return LeftOut(f"text or identifiers, {many}{hint}", "categorical")
    if room is not None and made.lumped and not made.watchable:
        return LeftOut(f"categories of which none is frequent, {many}", "categorical")
    return made


def _long(counts: Mapping[str, int]) -> bool:
    """Say whether values are sentences rather than names."""
    return sum(map(len, counts)) > _SENTENCE * len(counts)


def _numeric(
    column: Any, name: str, family: str, families: tuple[str, ...], choices: ColumnChoices
) -> Column | LeftOut:
    values, _, bad, _ = read_numbers(column, family)
    present = values[~np.isnan(values)]
    if bad is not None and not (choices.lenient and len(present)):
        raise unreadable(name, NumericColumn.holds, bad)
    if not len(present):
        return LeftOut(EMPTY[1])
    made = NumericColumn.fit(name, families, values)
    if name not in choices.named and _only_rises(present):
        return CounterColumn.of(made, values)
    return made


def _only_rises(values: Floats) -> bool:
    """Say whether values only rise, and not by chance: many rises, or few values for many rows each, as with dates."""
    before, after = values[:-1], values[1:]
    if (after < before).any():
        return False
    rises = np.flatnonzero(before < after)
    runs = np.diff(np.concatenate([[-1], rises, [len(values) - 1]]))
    return bool(len(rises) >= _CLOCK or (len(runs) > 2 and runs.min() >= _LONG))


def _are_dressed(labels: Any) -> bool:
    """Say whether most values look like numbers with a currency, a percent sign or separators."""
    alike = pc.match_substring_regex(labels.drop_null(), _DRESSED)
    return len(alike) > 0 and (pc.sum(alike).as_py() or 0) > 0.5 * len(alike)
