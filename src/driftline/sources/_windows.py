"""Windows of a source, by rows or by time, each with the cursor from which to continue after it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from typing import NamedTuple

import pyarrow as pa

from driftline.sources._batches import Batch, Cursor, Source, Window
from driftline.sources._clock import Clock
from driftline.sources._concat import concat
from driftline.sources._frames import Frames
from driftline.sources._window_rule import WindowRule

__all__ = ["Rest", "Window", "Windows"]


class Rest(NamedTuple):
    """Rows of a source that were read but are in no window.

    Attributes:
        waiting: number of rows in unfinished windows, after the last batch.
        late: number of rows that came after their window was closed, or without a time.
        tables: rows of frames, which do not come again, the oldest first; they come before the next frames.
    """

    waiting: int = 0
    late: int = 0
    tables: tuple[pa.Table, ...] = ()


class Windows:
    """Windows of a source from a cursor on, however its rows are split into batches.

    Arguments:
        source: source of the rows.
        rule: ``window`` rows, or ``time_column``, ``every`` and ``lateness``; ``schema``.
        cursor: cursor of the last window that was processed; None: from the beginning.
        flush: whether to yield unfinished windows too, at the end of the input.
        before: rest of the frames before these; other sources do not need it.

    Attributes:
        late: number of rows that came after their window was closed, or without a time, and count in no window yet.

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
        self.late = 0

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
        if not isinstance(self._source, Frames):
            return Rest(self.waiting, self.late)
        return Rest(self.waiting, self.late, (*self._returned, *self._unfinished, *self._source.unread()))

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
        cursor = Cursor(last.file, last.row + last.table.num_rows, first + rows, last.head)
        return Window(joined, first, cursor, note=note)

    def _by_time(self) -> Iterator[Window]:
        cursor, batches = self._cursor, iter(self._source.batches(self._cursor))
        first = list(islice(batches, 1))  # a source that has begun need not be opened again to say whether it resumes
        clock = Clock(self._rule, cursor, new=cursor is not None and not self._source.resumes(cursor))
        for batch in chain(first, batches):
            yield from self._passed_on(list(clock.add(batch)), clock)
        if self._flush:
            yield from self._passed_on(list(clock.flush()), clock)

    def _passed_on(self, windows: list[Window], clock: Clock) -> Iterator[Window]:
        open_now = clock.rest()
        for i, window in enumerate(windows):
            self._unfinished = [later.table for later in windows[i + 1 :]] + open_now
            yield window
        self._unfinished, self.late = open_now, clock.late
