"""TableEncoder: turns tables of mixed columns into arrays; fitted on the first window, then frozen, saved as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain
from types import MappingProxyType
from typing import Any, NamedTuple, Self

import numpy as np

from driftline._errors import Option
from driftline.tables._categories import CategoricalColumn
from driftline.tables._cells import (
    NOTED_ERRORS,
    NOTED_ROWS,
    Floats,
    TableError,
    Unreadable,
    column_names,
    column_of,
    counted,
    example,
    family_of,
    guarded,
    pa,
    percent,
    read_labels,
)
from driftline.tables._choices import ColumnChoices, left_out
from driftline.tables._columns import BooleanColumn, Coded, Column, DatetimeColumn, is_text
from driftline.tables._counters import CounterColumn
from driftline.tables._evidence import Evidence, closer
from driftline.tables._freezing import fall_of, frozen, values_held
from driftline.tables._kinds import COUNTER, EMPTY, unreadable
from driftline.tables._numeric import NumericColumn
from driftline.tables._rows import Rows

__all__ = ["Encoded", "TableEncoder", "TableError"]

_FORMAT, _VERSION = "driftline-table", 3
_KINDS: dict[str, type[Column]] = {
    kind.kind: kind for kind in (NumericColumn, CategoricalColumn, BooleanColumn, DatetimeColumn)
}
_SHOWN = 5  # most names in a message
_MOST_NOTES = 20  # most columns with a note of their own that they were empty at first
_TWICE = 1.8  # share of missing values, against the first window's, that is noted: twice, but for its noise


class Encoded(NamedTuple):
    """Rows as finite numbers (n, D), and what there is to say about them.

    Attributes:
        values: the rows.
        notes: notes for people.
        summaries: histograms of the columns, if asked for.
        doubts: columns whose drift the numbers do not hold, in words.
        evidence: drift that the numbers do not show, and that is certain.
        unlisted: by column, the most frequent value that the encoding does not name, in words, and its rows.
        compared: those of the notes that compare with the first window, and so with no other original.
    """

    values: Floats
    notes: tuple[str, ...]
    summaries: dict[str, dict[str, Any]]
    doubts: tuple[str, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    unlisted: Mapping[str, tuple[str, int]] = MappingProxyType({})
    compared: tuple[str, ...] = ()


@dataclass(frozen=True)
class TableEncoder:
    """Frozen rule that turns tables into arrays; made by :meth:`fit`, never changed.

    Numbers are robustly standardised and softly limited, categories are one-hot encoded, and indicators mark missing
    values; the encoded columns stay the same whatever later windows hold. :meth:`describe` lists what is kept of the
    first window: quantiles, frequent values, no rows.

    Attributes:
        columns: watched columns, as frozen.
        skipped: columns that are not watched, each with the reason.
        schema: ``"strict"``: a later window with other columns, other types or unreadable values is an error;
            ``"lenient"``: such values count as missing, new columns are left out, and both are noted.
        chosen: whether the columns were named, so that others do not matter.
        untyped: whether text in tables may stand for other types too, as in CSV files.
        counters: columns that were left out as clocks or counters, to be looked at in case they fall.
        rows: number of rows in the first window.
        held: number of these that held a value, by column that was left out though nobody asked for it.
        notes: what there was to say about the first window; neither stored nor compared.

    >>> table = pa.table({"age": [20.0, 30.0, None, 40.0] * 10, "colour": ["red", "blue", "red", "red"] * 10})
    >>> encoder = TableEncoder.fit(table)
    >>> encoder.names
    ['age', 'age missing', 'colour=blue', 'colour=other', 'colour missing']
    >>> encoder.transform(table).values[:3].round(2).tolist()
    [[-0.67, 0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0, 0.0]]
    >>> encoder.transform(pa.table({"age": [25] * 40, "colour": ["red", "teal"] * 20})).notes
    ("colour: 20 rows hold values that were rare or not there at first (0 % then, 50 % now), such as 'teal'",)
    >>> TableEncoder.from_dict(encoder.to_dict()) == encoder
    True
    """

    columns: tuple[Column, ...]
    skipped: Mapping[str, str]
    schema: str = "strict"
    chosen: bool = False
    untyped: bool = False
    counters: tuple[CounterColumn, ...] = ()
    rows: int = 0
    held: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = field(default=(), compare=False)

    @classmethod
    def fit(
        cls,
        rows: Rows | pa.Table,
        *,
        columns: Sequence[str] = (),
        drop: Sequence[str] = (),
        numeric: Sequence[str] = (),
        categorical: Sequence[str] = (),
        datetime: Sequence[str] = (),
        time_column: str | None = None,
        schema: str = "strict",
    ) -> Self:
        """Decide on the kind of each column and freeze what its encoding needs.

        Arguments:
            rows: the first window; a plain ``pyarrow.Table`` has columns of the types it says.
            columns: columns to watch; all if empty.
            drop: columns to leave out; they need not be there, in this window or in later ones.
            numeric, categorical: columns whose kind is given, not guessed.
            datetime: parts of dates and times to watch: hour, weekday, day, month.
            time_column: column with the times of the rows, left out unless ``datetime`` asks for parts.
            schema: treatment of later windows that differ, see above.
        """
        rows = rows if isinstance(rows, Rows) else Rows(rows)
        names = column_names(rows.table)
        if schema not in ("strict", "lenient"):
            raise TableError("{option} is unknown: choose 'strict' or 'lenient'", option=Option("schema", schema))
        choices = ColumnChoices(
            columns=tuple(columns),
            drop=tuple(drop),
            numeric=tuple(numeric),
            categorical=tuple(categorical),
            datetime=tuple(dict.fromkeys(datetime)),
            time_column=time_column,
            lenient=schema == "lenient",
        )
        choices.check(names)
        if rows.table.num_rows == 0:
            raise TableError("the first window has no rows: the kinds of its columns cannot be determined")
        kept, counters, skipped = frozen(rows, names, choices)
        reasons = {name: str(left.why) for name, left in skipped.items()}
        notes = (*left_out(skipped), *choices.unseen(names))
        # wherever they come up later
        reasons |= {name: "dropped, not in the first window" for name in choices.drop if name not in reasons}
        chosen = bool(choices.columns)
        held = values_held(rows, [name for name, left in skipped.items() if not left.asked and left.why != COUNTER])
        return cls(kept, reasons, schema, chosen, rows.untyped, counters, rows.table.num_rows, held, notes)

    @property
    def names(self) -> list[str]:
        """Names of the encoded columns, all different."""
        return list(self._names)

    @cached_property
    def _names(self) -> tuple[str, ...]:
        found: dict[str, None] = {}
        for _, name in chain.from_iterable(self._labels):
            again, unique = 2, name
            while unique in found:
                unique, again = f"{name} ({again})", again + 1
            found[unique] = None
        return tuple(found)

    @property
    def groups(self) -> dict[str, list[int]]:
        """Indices of the encoded columns of each raw column; each part of a date is a group of its own."""
        found: dict[str, list[int]] = {}
        for at, (group, _) in enumerate(chain.from_iterable(self._labels)):
            found.setdefault(group, []).append(at)
        return found

    @cached_property
    def _labels(self) -> tuple[list[tuple[str, str]], ...]:
        """Group and name of each encoded column, by column."""
        return tuple(column.labels() for column in self.columns)

    def transform(self, rows: Rows | pa.Table, *, summaries: bool = False) -> Encoded:
        """Encode the rows of a window as numbers.

        Arguments:
            rows: the rows, in columns of any order; text in a plain ``pyarrow.Table`` is read as in the first window.
            summaries: whether to return histograms of the columns too, in the bins of the first window; see
                :mod:`driftline.tables._summaries`.
        """
        rows = rows if isinstance(rows, Rows) else Rows(rows, self.untyped)
        column_names(rows.table)  # a name that occurs twice is an error
        rows = rows.completed([*(column.name for column in self.columns), *self.held])
        present = set(rows.table.column_names)
        compared, certain = self._left_out(rows)
        notes = self._check_columns(rows) + compared
        out = np.zeros((rows.table.num_rows, sum(map(len, self._labels))))
        found: dict[str, dict[str, Any]] = {}
        evidence: list[Evidence | None] = [*certain]
        unlisted: dict[str, tuple[str, int]] = {}
        at = 0
        for column, labels in zip(self.columns, self._labels, strict=True):
            block = out[:, at : (at := at + len(labels))]
            encode = partial(self._encode, rows, column, block, summaries, column.name in present)
            remarks, changes, summary, moved, fresh = guarded(column.name, encode)
            notes += [*remarks, *changes]
            compared += changes
            found |= summary
            evidence.append(moved)
            if fresh is not None:
                unlisted[column.name] = fresh
        doubts: list[str] = []
        for counter in (c for c in self.counters if c.name in present):
            remarks, moved = guarded(counter.name, partial(fall_of, rows, counter))
            doubts += remarks
            evidence.append(moved)
        known = tuple(e for e in evidence if e is not None)
        return Encoded(out, tuple(notes), found, tuple(doubts), known, unlisted, tuple(compared))

    def _encode(
        self, rows: Rows, column: Column, out: Floats, summaries: bool, present: bool
    ) -> tuple[list[str], list[str], dict[str, Any], Evidence | None, tuple[str, int] | None]:
        """Parse a column once, and fill its block of the array.

        Return notes, those that compare with the first window, summaries if asked for, and what is new.
        """
        cells, family, notes = self._cells(rows, column, present)
        parsed = column.parse(cells, family)
        if parsed.bad is not None:
            notes.append(self._tolerated(column, parsed.bad, read_labels(cells, family)))
        changes: list[str] = []
        # categories note what was rare at first, other kinds which values they cannot hold
        (changes if isinstance(column, CategoricalColumn) else notes).extend(column.encode(parsed, out))
        if present:
            changes += self._missing_more(column, parsed.absent, len(out))
        summary = column.summary(parsed) if summaries else {}
        return notes, changes, summary, column.evidence(parsed), column.unlisted(parsed)

    def _missing_more(self, column: Column, absent: int, rows: int) -> list[str]:
        """Note that values are missing twice as often as at first, and not by chance."""
        now, then = absent / max(1, rows), column.missing
        error = math.sqrt(then * (1.0 - then) / max(1, self.rows) + now * (1.0 - now) / max(1, rows))
        if absent < NOTED_ROWS or now < _TWICE * then or now - then <= NOTED_ERRORS * error:
            return []
        return [f"{column.name}: {percent(now)} of the values are missing, at first {percent(then)}"]

    def _tolerated(self, column: Column, bad: Unreadable, labels: Any) -> str:
        if self.schema == "strict":
            raise unreadable(column.name, column.holds, bad)
        what = "value is" if len(bad.at) == 1 else "values are"
        shown = example(counted(labels.take(pa.array(bad.at))))
        return f"{column.name}: {len(bad.at)} {what} not {column.holds}{shown}; counted as missing"

    def _left_out(self, rows: Rows) -> tuple[list[str], list[Evidence]]:
        """Look at columns that are not watched: whether they hold values as often as at first is certain."""
        notes, evidence = [], []
        # where an absent column means missing values, one that is new had no value at first
        late = dict.fromkeys(self._new(rows), 0) if rows.sparse else {}
        held = {name: n for name, n in self.held.items() if name in rows.table.column_names} | late
        for name, count in values_held(rows, held).items():
            why = self.skipped.get(name, EMPTY[0])
            if count and why in EMPTY:
                have = "row has" if count == 1 else "rows have"
                notes.append(f"{name}: had {why} and is not watched; {count} {have} one now")
            then, now = held[name] / max(1, self.rows), count / max(1, rows.table.num_rows)
            moved = closer([then, 1.0 - then], self.rows, [now, 1.0 - now], rows.table.num_rows)
            if moved is not None:
                evidence.append(Evidence(name, f"{percent(now)} filled, {percent(then)} at first", *moved))
        if len(notes) > _MOST_NOTES:  # keys of JSON lines may be names of things, and new ones come without end
            left = len(notes) - _SHOWN
            notes = [*notes[:_SHOWN], f"{left} further columns had no value in the first window and are not watched"]
        return notes, evidence

    def _new(self, rows: Rows) -> list[str]:
        """Return the columns that were not in the first window; none if the columns to watch were named."""
        known = {*self.skipped, *(column.name for column in self.columns)}
        return [] if self.chosen else [name for name in rows.table.column_names if name not in known]

    def _check_columns(self, rows: Rows) -> list[str]:
        """Note new columns; in a strict schema, new or missing columns are an error, unless absence means null."""
        if self.schema == "strict":
            missing = rows.absent(column.name for column in self.columns)
            if missing:
                raise TableError(
                    "column {column!r} is missing{others}: {schema} counts its values as missing; a run that names it "
                    "in {drop} does without it",
                    column=missing[0],
                    others=_and_others(missing),
                    schema=Option("schema", "lenient"),
                    drop=Option("drop"),
                )
        new = [] if rows.sparse else self._new(rows)
        if not new:
            return []
        if self.schema == "strict":
            raise TableError(
                "column {column!r} is new{others}: it was not in the first window; {schema} leaves such columns out, "
                "or name those to watch with {columns}",
                column=new[0],
                others=_and_others(new),
                schema=Option("schema", "lenient"),
                columns=Option("columns"),
            )
        return [f"new, left out: {', '.join(map(repr, new[:_SHOWN]))}{_and_others(new[_SHOWN - 1 :])}"]

    def _cells(self, rows: Rows, column: Column, present: bool) -> tuple[Any, str, list[str]]:
        """Return a column's cells, the family to read them as, and notes on what has changed."""
        table = rows.table
        name, nothing = column.name, pa.chunked_array([pa.nulls(table.num_rows)])
        if not present:
            return nothing, "null", [f"{name}: the column is missing, all rows counted as missing values"]
        cells = column_of(table, name)
        family = family_of(cells)
        if family == "null" or family in column.families or (rows.untyped and family == "text"):
            return cells, family, []
        changed = f"now holds {table.schema.field(name).type} values, at first {' or '.join(column.families)}"
        if self.schema == "strict":
            raise TableError(
                "column {column!r} {changed}: convert it, or choose {schema}",
                column=name,
                changed=changed,
                schema=Option("schema", "lenient"),
            )
        if family not in column.reads:
            return nothing, "null", [f"{name}: {changed}; all rows counted as missing values"]
        return cells, family, [f"{name}: {changed}"]

    def coded(self, values: Floats) -> Iterator[tuple[Column, Coded]]:
        """Read encoded rows (n, D) off their encoding: each watched column, and each part of a date."""
        at = 0
        for column, labels in zip(self.columns, self._labels, strict=True):
            for found in column.coded(values[:, at : at + len(labels)]):
                yield column, found
            at += len(labels)

    def describe(self) -> list[dict[str, str]]:
        """List each column, its kind and what is kept of it, for people; for columns not watched, the reason."""
        watched = [{"column": c.name, "kind": c.kind, "kept": c.kept()} for c in self.columns]
        return watched + [{"column": n, "kind": "not watched", "kept": why} for n, why in self.skipped.items()]

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary that can be written as JSON."""
        return {
            "format": _FORMAT,
            "version": _VERSION,
            "schema": self.schema,
            "chosen": self.chosen,
            "untyped": self.untyped,
            "columns": [column.to_dict() for column in self.columns],
            "counters": [column.to_dict() for column in self.counters],
            "skipped": dict(self.skipped),
            "rows": self.rows,
            "held": dict(self.held),
        }

    @classmethod
    def from_dict(cls, data: Any) -> Self:
        """Restore an encoder from its dictionary; anything else raises :class:`~driftline.tables.TableError`."""
        known = ("format", "version", "schema", "chosen", "untyped", "columns", "counters", "skipped", "rows", "held")
        if not isinstance(data, Mapping) or set(data) != set(known) or data["format"] != _FORMAT:
            raise TableError("not a driftline table encoder")
        if data["version"] != _VERSION:
            raise TableError(f"a table encoder of version {data['version']!r}: this driftline reads version {_VERSION}")
        columns, counters, skipped, rows = (data[part] for part in ("columns", "counters", "skipped", "rows"))
        if not _are_columns(columns) or not columns or not _are_columns(counters):
            raise TableError("the encoder's columns are not a list of columns")
        if type(rows) is not int or not 0 <= rows < 1 << 63:
            raise TableError(f"the encoder's rows={rows!r} are not a number of rows")
        if not isinstance(skipped, Mapping) or not all(is_text(x) for pair in skipped.items() for x in pair):
            raise TableError("the encoder's skipped columns are not names with reasons")
        held = data["held"]
        if not isinstance(held, Mapping) or not all(
            n in skipped and type(c) is int and c >= 0 for n, c in held.items()
        ):
            raise TableError("the encoder's numbers of values are not those of columns that it leaves out")
        if data["schema"] not in ("strict", "lenient"):
            raise TableError(f"schema={data['schema']!r} is unknown")
        if not all(isinstance(data[flag], bool) for flag in ("chosen", "untyped")):
            raise TableError("the encoder's flags are not true or false")
        made = tuple(_columns(columns))
        names = [column.name for column in made]
        if len(set(names)) < len(names) or set(names) & set(skipped):
            raise TableError("the encoder holds a column twice")
        left = tuple(CounterColumn.from_dict(part) for part in counters)
        if any(skipped.get(column.name) != COUNTER for column in left):
            raise TableError("the encoder's counters are not those that it leaves out")
        return cls(made, dict(skipped), data["schema"], data["chosen"], data["untyped"], left, rows, dict(held))


def _are_columns(parts: Any) -> bool:
    return isinstance(parts, list) and all(isinstance(part, Mapping) for part in parts)


def _columns(parts: list[Mapping[str, Any]]) -> Iterator[Column]:
    for part in parts:
        kind = part.get("kind")
        if not isinstance(kind, str) or kind not in _KINDS:
            raise TableError(f"{kind!r} is not a kind of column: choose from {', '.join(_KINDS)}")
        yield _KINDS[kind].from_dict(part)


def _and_others(names: list[str]) -> str:
    return f" (and {len(names) - 1} more)" if len(names) > 1 else ""
