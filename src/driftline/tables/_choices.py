"""Choices of the user about columns, and reasons to leave one out, told in one note."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property

from driftline._errors import Message, Option
from driftline.tables._cells import TableError
from driftline.tables._columns import PARTS

__all__ = ["ColumnChoices", "LeftOut", "left_out"]

_SHOWN, _LISTED = 5, 100  # most names in a message, and in the list of those left out
_WAYS = {  # how to watch columns that were left out, by option, for a note; in Python, options lose their dashes
    "categorical": "the frequent values of text (--categorical, or embed it as numbers first)",
    "datetime": "parts of dates (--datetime hour,weekday)",
    "numeric": "counters (--numeric)",
    "embed": "nested values (make columns of numbers or categories of them first)",
}


@dataclass(frozen=True)
class LeftOut:
    """Reason not to watch a column.

    Attributes:
        why: the reason in words.
        option: option that would have it watched, or that asked for leaving it out; empty if there is none.
        asked: whether it was asked for, so that nobody need be told.
    """

    why: str | Message
    option: str = ""
    asked: bool = False


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

    @cached_property
    def named(self) -> frozenset[str]:
        """Columns that the user named to be watched."""
        return frozenset(self.columns + self.numeric + self.categorical)

    @cached_property
    def _sets(self) -> tuple[frozenset[str], frozenset[str]]:
        return frozenset(self.columns), frozenset(self.drop)

    def leaves_out(self, name: str) -> str:
        """Return the reason not to watch a column, whatever it holds; empty if it may be watched."""
        columns, drop = self._sets
        if name in drop:
            return "dropped"
        if columns and name not in columns:
            return "not among the columns to watch"
        return ""

    def check(self, names: Sequence[str]) -> None:
        """Raise :class:`~driftline.tables.TableError` if columns of these names cannot meet the choices."""
        times = () if self.time_column is None else (self.time_column,)
        known = set(names)
        for what in ("columns", "numeric", "categorical", "time_column"):
            for name in times if what == "time_column" else getattr(self, what):
                if name not in known:
                    raise TableError("{option}: {hint}", option=Option(what), hint=_no_column(name, names))
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

    def unseen(self, names: Sequence[str]) -> list[str]:
        """Note names to drop that no column has: they may come later, or be mistyped."""
        known = set(names)
        return [
            f"drop: {_no_column(name, names)}; one that comes later will be left out"
            for name in self.drop
            if name not in known
        ]


def _no_column(name: str, names: Sequence[str]) -> str:
    """Say that no column has a name, and which names are near."""
    near = get_close_matches(str(name), names, 1)
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    has = f": it has {', '.join(map(repr, names[:_SHOWN]))}{more}"
    return f"no column {name!r}" + (f", did you mean {near[0]!r}?" if near else has)


def left_out(found: Mapping[str, LeftOut]) -> tuple[str, ...]:
    """Return one note that lists columns that nobody asked to leave out, and says how to have them; () without any."""
    told = {name: left for name, left in found.items() if not left.asked}
    if not told:
        return ()
    shown = ", ".join(f"{name!r} ({left.why})" for name, left in list(told.items())[:_LISTED])
    more = f" and {len(told) - _LISTED} more" if len(told) > _LISTED else ""
    ways = [_WAYS[option] for option in _WAYS if any(left.option == option for left in told.values())]
    watch = f"To watch {', '.join(ways)}: name them; " if ways else ""
    return (f"left out: {shown}{more}. {watch}--drop leaves them out without this note",)
