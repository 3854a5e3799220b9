"""Sizes: how many rows a window needs for its columns, what to do if it has fewer, and a guess where nobody says."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import NamedTuple

from driftline._errors import DriftlineError, Message, Option
from driftline._inputs import MIN_ROWS
from driftline.monitor._settings import Settings
from driftline.recursion import rows_for_sums
from driftline.tables import TableEncoder

__all__ = ["Need", "TooFewRowsError", "guessed", "need"]

_NAMED = 3  # the most columns that advice names
_USUAL = 5000  # rows of a window, where there are enough
_AUDITED = 200  # rows of a first window with which the auditor can look
_ENOUGH = 20  # windows: more of them are not worth smaller ones


class TooFewRowsError(DriftlineError):
    """The first window, or an original, has too few rows for its columns to be watched."""


class Need(NamedTuple):
    """Rows that a window needs.

    Attributes:
        each: rows for each encoded column that counts.
        varying: numbers of these columns, by raw column: those that vary or, where sums are kept, all.
        more: rows beside these.
    """

    each: int
    varying: Mapping[str, int]
    more: int = 0

    @property
    def columns(self) -> int:
        """Number of encoded columns that count."""
        return sum(self.varying.values())

    @property
    def rows(self) -> int:
        """Least number of rows."""
        return self._least(self.columns)

    def _least(self, columns: int) -> int:
        return max(MIN_ROWS, self.each * columns + self.more)

    def missed(self, rows: int) -> str:
        """Say that this many rows are too few; empty if they are not."""
        which = ", where sums are kept instead of rows" if self.more else " that vary"
        need = f"at least {self.rows:,} are needed for {self.columns} encoded columns{which}"
        return f"{rows:,} rows are too few, {need}" if rows < self.rows else ""

    def error(self, what: str, rows: int, settings: Settings) -> TooFewRowsError:
        """Return the error that a first window of this many rows is, with ways out of it."""
        ways = [way for way in (self._longer(rows, settings), self._narrower(rows)) if way is not None]
        return TooFewRowsError(
            "{what}: {missed}; {advice}", what=what, missed=self.missed(rows), advice=Message.join(", or ", ways)
        )

    def _longer(self, rows: int, settings: Settings) -> Message:
        """Advise longer windows."""
        if settings.every is None:
            return Message("choose {window}", window=Option("window", _rounded_up(self.rows)))
        number, unit = re.fullmatch(r"(\d+)(\D+)", settings.every).groups()  # type: ignore[union-attr]
        longer = int(number) * math.ceil(1.2 * self.rows / max(rows, 1))
        return Message("choose {every} or longer", every=Option("every", f"{longer}{unit}"))

    def _narrower(self, rows: int) -> Message | None:
        """Advise fewer columns: those to leave out, if a few of them are to blame, or else how many there may be."""
        left, out = self.columns, []
        for name, size in sorted(self.varying.items(), key=lambda item: -item[1]):
            if self._least(left) <= rows:
                break
            out.append(name)
            left -= size
        if left <= 0:
            return None  # not even one column
        if len(out) <= _NAMED and all(self.varying[name] > 1 for name in out):
            takes = ", ".join(f"{self.varying[name]} of them" for name in out)
            return Message("leave columns out: {drop} ({takes})", drop=Option("drop", tuple(out)), takes=takes)
        most = len(self.varying) - len(out)
        fewer = "watch fewer columns with {columns}: {most} or so of the {all}{vary}"
        vary = "" if self.more else " that vary"
        return Message(fewer, columns=Option("columns"), most=most, all=len(self.varying), vary=vary)


def need(settings: Settings, encoder: TableEncoder, constant: Mapping[str, float]) -> Need:
    """Return what a window needs.

    A step through a window with fewer than five rows per parameter would spoil all steps after it. Sums of fewer than
    ten would nearly be rows: and there are sums of all columns, since a constant one may vary later.

    Arguments:
        settings: settings of the run.
        encoder: encoder of the columns.
        constant: encoded columns with one value only, which need nothing.
    """
    names = encoder.names
    if settings.keep == "sums":
        more = rows_for_sums(settings.model, 0)
        each = rows_for_sums(settings.model, 1) - more
        return Need(each, {raw: len(at) for raw, at in encoder.groups.items()}, more)
    counts = {raw: sum(names[j] not in constant for j in at) for raw, at in encoder.groups.items()}
    each = 10 if settings.model in ("auto", "quadratic") else 5
    return Need(each, {raw: count for raw, count in counts.items() if count})


def guessed(rows: int, least: int, windows: int = 2) -> int | None:
    """Guess how many rows a window should have; None if the rows do not make so many ``windows``.

    A few thousand rows are good, four times the least if that is more, and five windows or more to see anything in;
    but not fewer than 200 rows, if there are twice as many.

    >>> guessed(45_312, 80), guessed(1_000_000, 80), guessed(3_000, 80), guessed(600, 80), guessed(100, 80)
    (2200, 5000, 500, 200, None)
    """
    if rows < windows * least:
        return None
    good = min(max(rows // _ENOUGH, 500, 4 * least), max(_USUAL, 4 * least))
    size = max(min(good, rows // 5), least, _AUDITED if rows >= windows * _AUDITED else 0)
    return max(size - size % _digits(size), least)


def _rounded_up(rows: int) -> int:
    """Round up to two digits."""
    return rows + -rows % _digits(rows)


def _digits(rows: int) -> int:
    """Return the unit of the second digit of a number: 100 for 4,711."""
    return int(10 ** max(len(str(rows)) - 2, 0))
