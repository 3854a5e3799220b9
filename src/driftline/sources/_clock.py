"""Windows by time: which rows are late and which windows are empty or finished depends on rows, not on batches."""

from __future__ import annotations

import heapq
import logging
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from driftline._errors import Option
from driftline.sources._batches import Batch, Cursor, SourceError, Window
from driftline.sources._concat import concat
from driftline.sources._times import MISSING, Every, iso, span, times_of
from driftline.sources._window_rule import WindowRule
from driftline.tables import Rows

__all__ = ["Clock"]

logger = logging.getLogger("driftline.sources")
_LAST = np.iinfo(np.int64).max
_SUSPECT = 1000  # late rows in succession that call for a warning
_YEAR = 31_556_952 * 10**9
_FAR = 1000  # windows that a row may be ahead of earlier ones; at least a year, at most 20 years or 10 windows
_AGREED = 100  # successive rows far ahead that show that time has really moved on


@dataclass
class _Open:
    """A window that may still receive rows, and the cursor of its first row."""

    first: Cursor
    pieces: list[Batch]


class Clock:
    """Sorter of rows into windows by time; it yields each window as soon as it is finished.

    Let ``newest`` be the latest time up to a row: windows that end before ``newest - lateness`` are closed at that row.
    A row whose window is already closed is late: it is left out, and counted with the oldest window open at that point.
    Windows come in order; successive windows without rows come as one window without rows. The cursor after each window
    is the first row of any later window, so that reading again from there, with rows of earlier windows left out, gives
    the same windows.

    A row very far ahead of those before it would close all windows up to it: in a strict schema it is an error,
    otherwise it is left out like a row without a readable time. If 100 such rows follow each other, the last of them
    counts: there was a gap.

    Arguments:
        rule: length of the windows, their lateness, and the time column.
        cursor: cursor to continue from.
        new: whether the rows after the cursor do not come again; rows of windows before it are then late.
    """

    def __init__(self, rule: WindowRule, cursor: Cursor | None = None, *, new: bool = False) -> None:
        if rule.every is None or rule.time_column is None:
            raise ValueError("windows by time need time_column and every")
        self._every = Every(rule.every)
        self._lateness = span(rule.lateness)
        self._column = rule.time_column
        self._strict = rule.schema == "strict"
        self._ignored = rule.ignores
        self._end = cursor or Cursor(None, 0, 0, "")
        self._newest = MISSING if self._end.newest is None else min(self._end.newest, _LAST)
        self._next = self._end.next_window
        if new and self._next is not None:
            self._newest = self._closing(self._next)
        self._open: dict[int, _Open] = {}
        self._indices: list[int] = []  # heap of the open windows
        self._firsts: list[tuple[int, int]] = []  # heap of (rows before its first, index); closed ones are skipped
        self._late: Counter[int] = Counter()
        self._untimed: Counter[int] = Counter()
        self._empty = Rows(pa.table({}))
        self._late_run = 0
        self._ahead_run = 0
        length = self._every.start(1) - self._every.start(0)
        self._furthest = min(max(_FAR * length, _YEAR), max(20 * _YEAR, 10 * length), _LAST)

    @property
    def late(self) -> int:
        """Number of rows late or without a readable time that no window yielded so far accounts for."""
        return self._late.total() + self._untimed.total()

    def add(self, batch: Batch) -> Iterator[Window]:
        """Take the next rows; yield the windows that they finish."""
        times, agreed = self._plausible(times_of(batch, self._column, strict=self._strict), batch)
        known = times != MISSING
        newest = np.maximum.accumulate(np.concatenate([[self._newest], times]))
        indices, oldest = np.full(len(times), MISSING), np.full(len(times), MISSING)
        indices[known] = self._every.index(times[known])
        begun = newest[1:] != MISSING
        # not below the earliest time that 64 bits can hold
        oldest[begun] = self._every.index(np.maximum(newest[1:][begun], MISSING + 1 + self._lateness) - self._lateness)
        before = newest[:-1].copy()
        before[agreed] = times[agreed]  # so that they are not far ahead when reading resumes there
        total = self._end.total
        self._empty = batch.rows.part(0, 0)
        self._warn(known & (indices < oldest), int(newest[-1]), batch)
        cuts = [0, *(np.flatnonzero(np.diff(oldest)) + 1).tolist(), len(times)]
        for start, stop in pairwise(cuts):
            floor = int(oldest[start])
            some = slice(start, stop)
            kept = self._count(indices[some], known[some], floor)
            self._keep(batch, start + np.flatnonzero(kept), indices, before, total)
            yield from self._close(floor)
        self._newest = int(newest[-1])
        rows = batch.table.num_rows
        self._end = Cursor(batch.file, batch.row + rows, total + rows, batch.head)

    def flush(self) -> Iterator[Window]:
        """Close all windows, as if time had moved on."""
        yield from self._close(_LAST)

    def rest(self) -> list[pa.Table]:
        """Return the rows of open windows, the oldest window first."""
        return [piece.table for index in sorted(self._open) for piece in self._open[index].pieces]

    def _plausible(self, times: NDArray[np.int64], batch: Batch) -> tuple[NDArray[np.int64], list[int]]:
        """Blank out times far ahead of the rows before; also return the rows at which enough of them agreed to count.

        Each row is judged by those that counted before it, so that batches do not matter.
        """
        newest = np.maximum.accumulate(np.concatenate([[self._newest], times]))[:-1]
        limit = np.where(newest == MISSING, _LAST, np.minimum(newest, _LAST - self._furthest) + self._furthest)
        ahead = np.flatnonzero(times > limit)
        if not ahead.size:
            if (times != MISSING).any():
                self._ahead_run = 0
            return times, []
        times, agreed = times.copy(), []
        first = int(ahead[0])
        if (times[:first] != MISSING).any():
            self._ahead_run = 0
        top = int(newest[first])
        for row, time in enumerate(times[first:].tolist(), first):
            if time == MISSING:
                continue
            if time - top <= self._furthest:
                self._ahead_run = 0
            elif self._strict:
                raise self._far(time, top, batch.place(row))
            else:
                self._ahead_run += 1
                if self._ahead_run < _AGREED:
                    times[row] = MISSING
                    continue
                self._ahead_run = 0
                agreed.append(row)
                logger.warning("%d rows up to %s are far ahead of those before: a gap", _AGREED, batch.place(row))
            top = max(top, time)
        return times, agreed

    def _far(self, time: int, newest: int, place: str) -> SourceError:
        return SourceError(
            "time column {column!r}: {time} in {place} is {years:.3g} years ahead of the rows before it ({newest}): "
            "either a wrong time or a gap; leave the row out, or choose {schema}",
            column=self._column,
            time=iso(time),
            place=place,
            years=(time - newest) / _YEAR,
            newest=iso(newest),
            schema=Option("schema", "lenient"),
        )

    def _count(self, indices: NDArray[np.int64], known: NDArray[np.bool_], floor: int) -> NDArray[np.bool_]:
        """Count rows that are late or have no time; mark the others that belong to windows still to come."""
        late = known & (indices < floor)
        if self._next is None or floor >= self._next:  # otherwise they were counted before the interruption
            self._late[floor] += int(late.sum())
            self._untimed[floor] += int((~known).sum())
        kept = known & ~late
        return kept if self._next is None else kept & (indices >= self._next)

    def _keep(
        self, batch: Batch, rows: NDArray[np.int64], indices: NDArray[np.int64], newest: NDArray[np.int64], total: int
    ) -> None:
        if not len(rows):
            return
        rows = rows[np.argsort(indices[rows], kind="stable")]
        groups = np.split(rows, np.flatnonzero(np.diff(indices[rows])) + 1)
        for group in groups:
            first, last, index = int(group[0]), int(group[-1]), int(indices[group[0]])
            if index not in self._open:
                before = None if newest[first] == MISSING else int(newest[first])
                place = Cursor(batch.file, batch.row + first, total + first, batch.head, before)
                self._open[index] = _Open(place, [])
                heapq.heappush(self._indices, index)
                heapq.heappush(self._firsts, (place.total, index))
            if last - first + 1 == len(group):
                piece = batch.part(first, len(group))
            else:
                taken = batch.rows.holding(batch.table.take(group))
                piece = replace(batch, rows=taken, row=batch.row + first)
            self._open[index].pieces.append(piece)

    def _close(self, floor: int) -> Iterator[Window]:
        """Yield the windows below the floor, and gaps without rows up to the next window with rows."""
        while self._indices:
            index = self._indices[0]
            if self._next is not None and self._next < index <= floor:
                yield self._gap(self._next, index)
            elif index < floor:
                yield self._window(index)
            else:
                return

    def _gap(self, start: int, stop: int) -> Window:
        count = stop - start
        note = f"no rows for {count} window{'' if count == 1 else 's'}"
        cursor = self._done(stop)
        return self._made(self._empty, cursor.total, cursor, start, stop, note)

    def _window(self, index: int) -> Window:
        heapq.heappop(self._indices)
        done = self._open.pop(index)
        rows, note = concat(done.pieces, strict=self._strict, ignored=self._ignored)
        return self._made(rows, done.first.total, self._done(index + 1), index, index + 1, note)

    def _made(self, rows: Rows, first: int, cursor: Cursor, start: int, stop: int, note: str) -> Window:
        late, untimed = _taken(self._late, stop), _taken(self._untimed, stop)
        left = f"{untimed} row{'' if untimed == 1 else 's'} without a readable time left out" if untimed else ""
        return Window(
            rows,
            first,
            cursor,
            iso(self._every.start(start)),
            iso(self._every.start(stop)),
            late,
            "; ".join(filter(None, (note, left))),
        )

    def _done(self, index: int) -> Cursor:
        """Return the cursor to continue from when this window is the next."""
        self._next = index
        while self._firsts and self._firsts[0][1] not in self._open:
            heapq.heappop(self._firsts)
        if self._firsts:
            return replace(self._open[self._firsts[0][1]].first, next_window=index)
        # everything was flushed: time counts as moved on, so that rows that still come for these windows are late
        self._newest = max(self._newest, self._closing(index))
        return replace(self._end, newest=self._newest, next_window=index)

    def _closing(self, index: int) -> int:
        """Return the earliest time that closes all windows before this one."""
        return max(self._newest, min(self._every.start(index) + self._lateness, _LAST))

    def _warn(self, late: NDArray[np.bool_], newest: int, batch: Batch) -> None:
        """Warn when only late rows come: a single time far ahead closes all windows before it."""
        before = self._late_run
        on_time = np.flatnonzero(~late)
        self._late_run = before + late.size if not on_time.size else late.size - 1 - int(on_time[-1])
        if before < _SUSPECT <= self._late_run:
            row = batch.place(late.size - 1)
            message = "the last %d rows up to %s are all late: a row before them is from %s"
            logger.warning(message, self._late_run, row, iso(newest))


def _taken(counts: Counter[int], stop: int) -> int:
    """Remove and return the counts of windows before this one."""
    due: list[Any] = [index for index in counts if index < stop]
    return sum(counts.pop(index) for index in due)
