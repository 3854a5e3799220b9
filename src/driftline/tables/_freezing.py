"""The first window: which of its columns are watched, and how many encoded columns each may have."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from driftline._errors import Message, Option
from driftline.tables._categories import CategoricalColumn
from driftline.tables._cells import TableError, column_of, family_of, filled, guarded
from driftline.tables._choices import ColumnChoices, LeftOut
from driftline.tables._columns import Column, DatetimeColumn
from driftline.tables._counters import CounterColumn
from driftline.tables._evidence import Evidence
from driftline.tables._kinds import COUNTER, freeze
from driftline.tables._rows import Rows

__all__ = ["fall_of", "frozen", "values_held"]

_SHOWN = 5  # most names in a message
_ROWS_PER_COLUMN = 20  # rows for each encoded column, before categories get more columns than the usual ones


def frozen(
    rows: Rows, names: list[str], choices: ColumnChoices
) -> tuple[tuple[Column, ...], tuple[CounterColumn, ...], dict[str, LeftOut]]:
    """Return the columns to watch, those that may be counters, and for every column not watched the reason."""
    found = {name: guarded(name, partial(freeze, rows, name, choices)) for name in names}
    _tell_apart(rows, found, choices)
    counters = tuple(column for column in found.values() if isinstance(column, CounterColumn))
    found |= {counter.name: LeftOut(COUNTER, "numeric") for counter in counters}
    kept = tuple(column for column in found.values() if isinstance(column, Column))
    skipped = {name: left for name, left in found.items() if isinstance(left, LeftOut)}
    if not kept:
        shown = (Message("{column!r}: {why}", column=n, why=left.why) for n, left in list(skipped.items())[:_SHOWN])
        reasons = Message.join("; ", shown) if skipped else "the table has none"
        raise TableError(
            "no column can be watched: {reasons}. Name one in {numeric} or {categorical}, or ask for parts of dates "
            "with {datetime}",
            reasons=reasons,
            numeric=Option("numeric"),
            categorical=Option("categorical"),
            datetime=Option("datetime"),
        )
    if choices.datetime and not any(isinstance(c, DatetimeColumn) for c in kept):
        given = Option("datetime", choices.datetime)
        raise TableError("{option}: no watched column holds dates or times", option=given)
    return kept, counters, skipped


def _tell_apart(rows: Rows, found: dict[str, Column | LeftOut], choices: ColumnChoices) -> None:
    """Give categories that lump many rows together more encoded columns, as far as there are rows for them."""
    width = sum(len(column.labels()) for column in found.values() if isinstance(column, Column))
    room = max(0, rows.table.num_rows // _ROWS_PER_COLUMN - width)
    lumped = [column for column in found.values() if isinstance(column, CategoricalColumn) and column.lumped]
    lumped.sort(key=lambda column: column.other)
    while lumped:  # the largest take what the others have left
        column = lumped.pop(0)
        share = room // (1 + len(lumped))
        again = guarded(column.name, partial(freeze, rows, column.name, choices, share))
        found[column.name] = again
        if isinstance(again, Column):
            room -= len(again.labels()) - len(column.labels())


def fall_of(rows: Rows, counter: CounterColumn) -> tuple[list[str], Evidence | None]:
    """Look whether a column that was taken for a counter falls: return remarks, and evidence that it has moved."""
    cells = column_of(rows.table, counter.name)
    family = family_of(cells)
    if family not in counter.reads:
        held = rows.table.schema.field(counter.name).type
        return [f"{counter.name}: taken for a clock or counter and left out, now holds {held} values"], None
    fall = counter.fall(counter.parse(cells, family).values)
    return ([], None) if fall is None else ([fall.remark], fall.evidence)


def values_held(rows: Rows, names: Iterable[str]) -> dict[str, int]:
    """Return the number of rows that hold a value, by column; columns that Arrow does not open are left out."""
    found = {}
    for name in names:
        try:
            found[name] = guarded(name, lambda name=name: filled(column_of(rows.table, name)))
        except TableError:
            continue
    return found
