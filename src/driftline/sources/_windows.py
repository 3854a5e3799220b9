"""Windows of a source, by rows or by time, each with the cursor from which to continue after it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, islice
from typing import NamedTuple

import pyarrow as pa

from driftline.sources._batches import Batch, Cursor, LeftOut, Source, SourceError, Window
from driftline.sources._clock import Clock
from driftline.sources._concat import concat
from driftline.sources._files import Files
from driftline.sources._frames import Frames
from driftline.sources._order import disorder, in_order
from driftline.sources._times import Every, iso
from driftline.sources._window_rule import WindowRule

__all__ = ["Rest", "Window", "Windows"]


class Rest(NamedTuple):
    """Rows of a source that were read but are in no window.

    Attributes:
        waiting: number of rows in unfinished windows, after the last batch.
        largest: number of rows in the largest of them, with windows by time.
        left_out: rows that came after their window was closed, or had no time or a wild one; in no window yet.
        remark: what people should know of the rows that wait; usually empty.
        tables: rows of frames, which do not come again, the oldest first; they come before the next frames.
    """

    waiting: int = 0
    largest: int = 0
    left_out: LeftOut = LeftOut()
    remark: str = ""
    tables: tuple[pa.Table, ...] = ()


class Windows:
    """Windows of a source from a cursor on, however its rows are split into batches.

    Arguments:
        source: source of the rows.
        rule: ``window`` rows, or ``time_column``, ``every`` and ``lateness``; ``schema``.
        cursor: cursor of the last window that was processed; None: from the beginning.
        flush: whether to yield unfinished windows too, at the end of the input.
        before: rest of the frames before these; other sources do not need it.

    Windows by time need rows in the order of time. Files and frames of which most rows would be late, such as those
    with the newest row first, are sorted, if they fit in memory.

    A call that leaves rows out but completes no window yields one without rows for them, so that they are not passed
    over in silence; its cursor remembers that they are accounted for.

    Attributes:
        left_out: rows that came after their window was closed, without a time or with a wild one, in no window yet.

    >>> import pyarrow as pa
    >>> from driftline.sources import open_source
    >>> windows = Windows(open_source(pa.table({"x": range(25)})), WindowRule(window=10))
    >>> [(window.first_row, window.table.num_rows) for window in windows], windows.waiting
    ([(0, 10), (10, 10)], 5)
    """

    def __init__(
        self,
        source: Source,
        rule: WindowRule,
        cursor: Cursor | None = None,
        flush: bool = False,
        before: Rest | None = None,
    ) -> None:
        self._source = source
        if isinstance(source, Frames) and before is not None:
            source.after(before.tables)
        self._rule = rule
        self._cursor = cursor
        self._flush = flush
        self._returned: list[pa.Table] = []
        self._unfinished: list[pa.Table] = []
        self._coming: deque[Batch] = deque()  # sorted, and not passed on yet
        self._order = ""
        self._remark = ""
        self._largest = 0
        self.left_out = LeftOut()

    def __iter__(self) -> Iterator[Window]:
        return self._by_rows(self._rule.window) if self._rule.window is not None else self._by_time()

    @property
    def waiting(self) -> int:
        """Number of rows in unfinished windows, after the last batch."""
        return sum(table.num_rows for table in self._unfinished)

    def put_back(self, window: Window) -> None:
        """Count the rows of a window just yielded as not yet read."""
        self._returned = [window.table]

    def rest(self) -> Rest:
        """Return the rows that were read but are in no window yielded so far."""
        tables: tuple[pa.Table, ...] = ()
        if isinstance(self._source, Frames):
            coming = [batch.table for batch in self._coming]
            tables = (*self._returned, *self._unfinished, *coming, *self._source.unread())
        return Rest(self.waiting, self._largest, self.left_out, self._remark, tables)

    def _by_rows(self, size: int) -> Iterator[Window]:
        pieces: list[Batch] = []
        held = 0
        first = 0 if self._cursor is None else self._cursor.total
        for batch in self._source.batches(self._cursor):
            start, rows = 0, batch.table.num_rows
            while held + rows - start >= size:
                end = start + size - held
                pieces.append(batch.part(start, end - start))
                self._unfinished = [batch.table.slice(end)]
                yield self._window(pieces, first, size)
                start, first, held, pieces = end, first + size, 0, []
            if start < rows:
                pieces.append(batch.part(start))
                held += rows - start
            self._unfinished = [piece.table for piece in pieces]
        if self._flush and held:
            self._unfinished = []
            yield self._window(pieces, first, held)

    def _window(self, pieces: list[Batch], first: int, rows: int) -> Window:
        joined, note = concat(pieces, strict=self._rule.schema == "strict", ignored=self._rule.ignores)
        last = pieces[-1]
        cursor = Cursor(last.file, last.row + last.table.num_rows, first + rows, last.head, mark=last.mark)
        return Window(joined, first, cursor, note=note)

    def _by_time(self) -> Iterator[Window]:
        if self._unordered():
            yield from self._sorted()
            return
        cursor, batches = self._cursor, iter(self._source.batches(self._cursor))
        first = list(islice(batches, 1))  # a source that has begun need not be opened again to say whether it resumes
        again = cursor is not None and self._source.resumes(cursor)
        yield from self._clocked(chain(first, batches), cursor, again)

    def _unordered(self) -> bool:
        """Say whether the rows are not in the order of time; a source that can only be read once is taken to be."""
        if self._cursor is not None:
            return not self._cursor.in_order
        look = getattr(self._source, "look", None)
        self._order = "" if look is None else disorder(look(), self._rule)
        return bool(self._order)

    def _sorted(self) -> Iterator[Window]:
        """Yield the windows of rows that are sorted first; those of windows before the cursor are passed over."""
        cursor, name = self._cursor, self._source.name
        if getattr(self._source, "follows", False):
            raise SourceError(f"{name} is not in the order of {self._rule.time_column!r}: it cannot be followed")
        again = cursor is not None and (isinstance(self._source, Files) or self._source.resumes(cursor))
        passed = None if cursor is None or not again else cursor.next_window
        batches = in_order(self._source.batches(None), self._rule, name, passed)
        if cursor is not None and not again:
            batches = (replace(batch, row=batch.row + cursor.total) for batch in batches)
        self._coming = deque(batches)
        if again and cursor is not None and self._coming:
            cursor = replace(cursor, row=self._coming[0].row, total=self._coming[0].row)
        note = f"rows were not in the order of {self._rule.time_column!r} ({self._order}): they were sorted"
        for window in self._clocked(self._popped(), cursor, again, whole=True):
            said = "; ".join(filter(None, (note, window.note))) if self._order else window.note
            self._order = ""
            yield replace(window, cursor=replace(window.cursor, in_order=False), note=said)

    def _popped(self) -> Iterator[Batch]:
        while self._coming:
            yield self._coming.popleft()

    def _clocked(
        self, batches: Iterator[Batch], cursor: Cursor | None, again: bool, *, whole: bool = False
    ) -> Iterator[Window]:
        """Yield windows by time from a cursor on.

        Arguments:
            batches: the rows.
            cursor: cursor to continue from.
            again: whether rows left out after the cursor come again.
            whole: whether the rows are all there are, sorted, without those of windows before the cursor.
        """
        if cursor is not None and not again:
            cursor = replace(cursor, noted=LeftOut())
        clock = Clock(self._rule, cursor, new=cursor is not None and (whole or not again))
        end = clock.flush if self._flush else clock.settle if whole else None
        some = False
        for found in chain((clock.add(batch) for batch in batches), (finish() for finish in [end] if finish)):
            for window in self._passed_on(list(found), clock):
                some = True
                yield window
        if cursor is not None and not some and self.left_out:
            yield self._only_left_out(cursor, clock, again)

    def _only_left_out(self, cursor: Cursor, clock: Clock, again: bool) -> Window:
        """Return a window without rows that accounts for rows left out."""
        left, self.left_out = self.left_out, LeftOut()
        after = replace(cursor, noted=cursor.noted + left) if again else cursor
        at = iso(Every(self._rule.every or "").start(cursor.next_window or 0))
        note = "; ".join(filter(None, ("no window was complete", clock.note)))
        return Window(clock.empty, cursor.total, after, at, at, left.late, note, left)

    def _passed_on(self, windows: list[Window], clock: Clock) -> Iterator[Window]:
        open_now = clock.rest()
        for i, window in enumerate(windows):
            self._unfinished = [later.table for later in windows[i + 1 :]] + open_now
            yield window
        self._unfinished, self._largest = open_now, clock.largest
        self.left_out, self._remark = clock.left_out, clock.remark
