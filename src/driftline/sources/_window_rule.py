"""WindowRule: the rule by which a stream is cut into windows, by rows or by time."""

from __future__ import annotations

import re
from dataclasses import dataclass

from driftline._errors import Option, OptionError

__all__ = ["WindowRule"]

_EVERY = re.compile(r"([1-9][0-9]*)(s|min|h|d|w|mo)")
_LATENESS = re.compile(r"([0-9]+)(s|min|h|d|w)")


@dataclass(frozen=True)
class WindowRule:
    """Rule for windows of a fixed number of rows, or of a fixed length of time.

    Arguments:
        window: number of rows in a window; or give ``time_column`` and ``every``.
        time_column: column with the rows' times, for windows by time.
        every: length of a window by time: a number and s, min, h, d, w or mo, such as ``"1d"``.
        lateness: length of time that a window waits for rows that come out of order, such as ``"2h"``.
        schema: ``"strict"``: columns that differ between the rows of a window, or a time that cannot be read, are an
            error; ``"lenient"``: they become null or are left out, with a note.
        day_first: ``"yes"`` or ``"no"``: whether times such as 01/02/2012 begin with the day; None: they are refused.
        columns, drop: columns that matter (all if empty), and those that do not: these may differ between rows.

    >>> WindowRule(time_column="ts", every="1d").lateness
    '0s'
    """

    window: int | None = None
    time_column: str | None = None
    every: str | None = None
    lateness: str = "0s"
    schema: str = "strict"
    day_first: str | None = None
    columns: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()

    def ignores(self, name: str) -> bool:
        """Say whether a column does not matter: whatever it holds, wherever it is missing."""
        if name == self.time_column:
            return False
        return name in self.drop or (bool(self.columns) and name not in self.columns)

    def __post_init__(self) -> None:
        from driftline._inputs import MIN_ROWS  # imported only when needed: PyTorch takes seconds

        if self.window is None and self.every is None:
            raise OptionError(
                "say how long a window is: {window} rows, or {time_column} and {every}",
                window=Option("window", 5000),
                time_column=Option("time_column", "ts"),
                every=Option("every", "1d"),
            )
        if self.window is not None and (self.every is not None or self.time_column is not None):
            given = Option("window", self.window)
            raise OptionError("{option} rows and windows by time exclude each other: choose one", option=given)
        if self.every is not None and self.time_column is None:
            raise OptionError(
                "windows by time need both {time_column} and {every}: {time_column} is missing",
                time_column=Option("time_column"),
                every=Option("every"),
            )
        if self.window is not None and (not isinstance(self.window, int) or self.window < MIN_ROWS):
            raise OptionError(
                "{option} must be a whole number of rows of at least {least}",
                option=Option("window", self.window),
                least=MIN_ROWS,
            )
        if self.every is not None and not _EVERY.fullmatch(self.every):
            given = Option("every", self.every)
            raise OptionError("{option} is not a length of time: a number and s, min, h, d, w or mo", option=given)
        if not _LATENESS.fullmatch(self.lateness):
            given = Option("lateness", self.lateness)
            raise OptionError("{option} is not a length of time: a number and s, min, h, d or w", option=given)
