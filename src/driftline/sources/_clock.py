"""Windows by time: which rows are late and which windows are empty or finished depends on rows, not on batches."""

from __future__ import annotations

import heapq
import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from driftline.sources._batches import Batch, Cursor, LeftOut, Window
from driftline.sources._concat import concat
from driftline.sources._leaps import Leaps
from driftline.sources._tally import Tally
from driftline.sources._time_columns import times_of
from driftline.sources._times import MISSING, Every, iso, span
from driftline.sources._window_rule import WindowRule
from driftline.tables import Rows

__all__ = ["Clock"]

logger = logging.getLogger("driftline.sources")
_LAST = np.iinfo(np.int64).max
_SUSPECT = 1000  # late rows in succession that call for a warning


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

    A wrong time far ahead would close all windows up to it. So a leap beyond a few windows needs the agreement of the
    rows after it (:class:`~driftline.sources._leaps.Leaps`): until it is decided, these rows are held back; a row that
    they contradict is left out.

    Arguments:
        rule: length of the windows, their lateness, and the time column.
        cursor: cursor to continue from.
        new: whether the rows after the cursor do not come again; rows of windows before it are then late.
        quiet: whether not to warn of many late rows.

    Attributes:
        empty: a table without rows, with the columns of those that came last.
    """

    def __init__(
        self, rule: WindowRule, cursor: Cursor | None = None, *, new: bool = False, quiet: bool = False
    ) -> None:
        if rule.every is None or rule.time_column is None:
            raise ValueError("windows by time need time_column and every")
        self._rule = rule
        self._every = Every(rule.every)
        self._lateness = span(rule.lateness)
        self._strict = rule.schema == "strict"
        self._ignored = rule.ignores
        self._end = cursor or Cursor(None, 0, 0, "")
        self._newest = MISSING if self._end.newest is None else min(self._end.newest, _LAST)
        self._next = self._end.next_window
        if new and self._next is not None:
            self._newest = self._closing(self._next)
        self._leaps = Leaps(self._every, self._lateness)
        self._held: list[tuple[Batch, NDArray[np.int64]]] = []  # from the first leap that is not decided on
        self._open: dict[int, _Open] = {}
        self._indices: list[int] = []  # heap of the open windows
        self._firsts: list[tuple[int, int]] = []  # heap of (rows before its first, index); closed ones are skipped
        self._tally = Tally(self._end.noted)
        self.empty = Rows(pa.table({}))
        self._late_run = 0
        self._quiet = quiet

    @property
    def note(self) -> str:
        """Note on rows left out, other than late ones, that no window yielded so far accounts for."""
        return self._tally.note()

    @property
    def left_out(self) -> LeftOut:
        """Rows left out that no window yielded so far accounts for."""
        return self._tally.unaccounted

    @property
    def remark(self) -> str:
        """Remark on the rows that are held back; empty if there are none."""
        if not self._held:
            return ""
        batch, times = self._held[0]
        if self._newest == MISSING:
            return "whether the first time is right is seen from the ten rows after it"
        ahead = f"{batch.place(0)} is from {iso(int(times[0]))}, far ahead of the rows before ({iso(self._newest)})"
        return f"{ahead}: that counts once fifty rows agree, and is left out if fifty contradict"

    def add(self, batch: Batch) -> Iterator[Window]:
        """Take the next rows; yield the windows that they finish."""
        self.empty = batch.rows.part(0, 0)
        if batch.table.num_rows:
            self._held.append((batch, times_of(batch, self._rule)))
            yield from self._decide(final=False)

    def settle(self) -> Iterator[Window]:
        """Decide on the rows held back as if no more came; yield the windows that they finish."""
        yield from self._decide(final=True)

    def flush(self) -> Iterator[Window]:
        """Close all windows, as if time had moved on."""
        yield from self.settle()
        yield from self._close(_LAST)

    @property
    def largest(self) -> int:
        """Number of rows in the largest open window."""
        return max((sum(p.table.num_rows for p in window.pieces) for window in self._open.values()), default=0)

    def rest(self) -> list[pa.Table]:
        """Return the rows of open windows, the oldest window first, then those held back."""
        rows = [piece.table for index in sorted(self._open) for piece in self._open[index].pieces]
        return rows + [batch.table for batch, _ in self._held]

    def _decide(self, *, final: bool) -> Iterator[Window]:
        """Sort the rows held back into windows, up to the first leap that only later rows can decide on."""
        held, self._held = self._held, []
        if not held:
            return
        times = held[0][1] if len(held) == 1 else np.concatenate([part for _, part in held])
        wild, decided = self._leaps.judge(times, self._newest, final=final)
        start = 0
        for batch, part in held:
            rows = min(max(decided - start, 0), len(part))
            if rows:
                yield from self._sort(batch.part(0, rows), part[:rows], wild[start : start + rows])
            if rows < len(part):
                self._held.append((batch.part(rows), part[rows:]))
            start += len(part)

    def _sort(self, batch: Batch, times: NDArray[np.int64], wild: NDArray[np.bool_]) -> Iterator[Window]:
        """Sort rows into windows; those marked wild are left out."""
        times = np.where(wild, MISSING, times)
        known = times != MISSING
        newest = np.maximum.accumulate(np.concatenate([[self._newest], times]))
        indices, oldest = np.full(len(times), MISSING), np.full(len(times), MISSING)
        indices[known] = self._every.index(times[known])
        begun = newest[1:] != MISSING
        # not below the earliest time that 64 bits can hold
        oldest[begun] = self._every.index(np.maximum(newest[1:][begun], MISSING + 1 + self._lateness) - self._lateness)
        total = self._end.total
        self._warn(known & (indices < oldest), int(newest[-1]), batch)
        cuts = [0, *(np.flatnonzero(np.diff(oldest)) + 1).tolist(), len(times)]
        for start, stop in pairwise(cuts):
            floor = int(oldest[start])
            some = slice(start, stop)
            place = batch.place(start + int(np.argmax(wild[some]))) if wild[some].any() else ""
            kept = self._count(indices[some], known[some], wild[some], floor, place)
            self._keep(batch, start + np.flatnonzero(kept), indices, newest[:-1], total)
            yield from self._close(floor)
        self._newest = int(newest[-1])
        rows = batch.table.num_rows
        self._end = Cursor(batch.file, batch.row + rows, total + rows, batch.head, mark=batch.mark)

    def _count(
        self,
        indices: NDArray[np.int64],
        known: NDArray[np.bool_],
        wild: NDArray[np.bool_],
        floor: int,
        place: str,
    ) -> NDArray[np.bool_]:
        """Count rows that are late, wild or have no time; mark the others that belong to windows still to come."""
        late = known & (indices < floor)
        if self._next is None or floor >= self._next:  # otherwise they were counted before the interruption
            found = LeftOut(int(late.sum()), int((~known & ~wild).sum()), int(wild.sum()))
            self._tally.add(floor, found, place)
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
                before = None if newest[first] == MISSING else self._coarse(int(newest[first]))
                place = Cursor(batch.file, batch.row + first, total + first, batch.head, before, mark=batch.mark)
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
        return self._made(self.empty, None, start, stop, note)

    def _window(self, index: int) -> Window:
        heapq.heappop(self._indices)
        done = self._open.pop(index)
        rows, note = concat(done.pieces, strict=self._strict, ignored=self._ignored)
        return self._made(rows, done.first.total, index, index + 1, note)

    def _made(self, rows: Rows, first: int | None, start: int, stop: int, note: str) -> Window:
        left, about = self._tally.take(stop)
        cursor = self._done(stop)
        return Window(
            rows,
            cursor.total if first is None else first,
            cursor,
            iso(self._every.start(start)),
            iso(self._every.start(stop)),
            left.late,
            "; ".join(filter(None, (note, about))),
            left,
        )

    def _done(self, index: int) -> Cursor:
        """Return the cursor to continue from when this window is the next."""
        self._next = index
        while self._firsts and self._firsts[0][1] not in self._open:
            heapq.heappop(self._firsts)
        if self._firsts:
            place = self._open[self._firsts[0][1]].first
            return replace(place, next_window=index, noted=self._tally.noted)
        # everything was flushed: time counts as moved on, so that rows that still come for these windows are late
        self._newest = max(self._newest, self._closing(index))
        return replace(self._end, newest=self._coarse(self._newest), next_window=index, noted=self._tally.noted)

    def _coarse(self, newest: int) -> int:
        """Return the earliest time that closes the same windows and leaps as far as this one: no row's own time.

        Cursors are kept. Both depend on the windows that hold the time less the lateness and the time plus it.
        """
        late = self._lateness
        ends = np.array([max(newest, MISSING + 1 + late) - late, min(newest, _LAST - late) + late])
        oldest, furthest = (self._every.start(int(index)) for index in self._every.index(ends))
        return max(MISSING + 1, min(newest, max(oldest + late, furthest - late)))

    def _closing(self, index: int) -> int:
        """Return the earliest time that closes all windows before this one."""
        return max(self._newest, min(self._every.start(index) + self._lateness, _LAST))

    def _warn(self, late: NDArray[np.bool_], newest: int, batch: Batch) -> None:
        """Warn when only late rows come: are they in order of time?"""
        before = self._late_run
        on_time = np.flatnonzero(~late)
        self._late_run = before + late.size if not on_time.size else late.size - 1 - int(on_time[-1])
        suspect = _SUSPECT + self._tally.noted.late  # those were named before
        if before < suspect <= self._late_run and not self._quiet:
            row = batch.place(late.size - 1)
            message = "the last %d rows up to %s are all late: a row before them is from %s"
            logger.warning(message, self._late_run, row, iso(newest))
