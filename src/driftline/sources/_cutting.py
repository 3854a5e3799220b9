"""Windows of a stream whose rows come in small batches, in any order: what waits between two of them is a value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from driftline.sources._ahead import Held, Judged, among_rows, among_times, numbers_of
from driftline.sources._batches import Batch, Cursor, LeftOut, SourceError, Window
from driftline.sources._leaps import Leaps
from driftline.sources._time_columns import times_of
from driftline.sources._times import MISSING, Every, iso, span
from driftline.sources._window_rule import WindowRule
from driftline.tables import Rows

__all__ = ["Pending", "closed_to", "cut", "due"]

_LAST = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Pending:
    """What waits between two batches of a stream.

    Attributes:
        rows: rows of windows that are still open; None if there are none.
        last: order of the last row that is in a closed window, a table of one row; None before, and with windows by
            time.
        newest: latest time so far (ns since 1970, UTC), only with windows by time.
        next_window: index in time of the first window that is not closed, only with windows by time.
        total: number of rows in windows so far.
        left_out: rows left out that no window accounts for yet.
        held: rows among those that wait which are far ahead of the others; None if there are none.
    """

    rows: pa.Table | None = None
    last: pa.Table | None = None
    newest: int | None = None
    next_window: int | None = None
    total: int = 0
    left_out: LeftOut = field(default_factory=LeftOut)
    held: Held | None = None

    @property
    def waiting(self) -> int:
        """Number of rows that wait for their window to be complete."""
        return 0 if self.rows is None else self.rows.num_rows


def cut(
    pending: Pending,
    table: pa.Table,
    rule: WindowRule,
    order: Sequence[str],
    *,
    until: int | None = None,
    flush: bool = False,
    whole: bool = False,
) -> tuple[Pending, list[Window]]:
    """Put the rows of a batch in order, and cut off the windows that are complete.

    Rows are ordered together with those that wait, so that it does not matter in which batch they came. A row is late
    if its window is closed: with windows by rows, if its order is not greater than that of the last row in a window;
    with windows by time, if it belongs before the first window that is open. Late rows, and those without an order,
    are left out and counted with the next window.

    One wrong order or time far ahead would close all windows before it. So rows that are ahead by more than a few
    windows are held back until enough others agree, and left out once as many contradict
    (:func:`~driftline.sources._ahead.judge`).

    Arguments:
        pending: what waits from the batches before.
        table: the rows; columns that are neither watched nor for the order must not be among them.
        rule: rule of the windows.
        order: columns that rows are ordered by.
        until: time (ns since 1970) up to which all rows have come; windows that end before it are closed.
        flush: whether to close all windows, full or not.
        whole: whether these are all rows there are: none comes late, so none is held back for its order.

    >>> rule, rows = WindowRule(window=10), pa.table({"x": range(25), "n": range(25)})
    >>> pending, windows = cut(Pending(), rows, rule, ["n"])
    >>> [window.table.num_rows for window in windows], pending.waiting
    ([10, 10], 5)
    >>> pending, windows = cut(pending, rows.slice(17), rule, ["n"])
    >>> [window.late_rows for window in windows], pending.waiting
    ([3], 0)
    """
    unordered = _any([pc.is_null(table.column(name), nan_is_null=True) for name in order], table.num_rows)
    pending = replace(pending, left_out=pending.left_out + LeftOut(untimed=int(unordered.sum())))
    table = table.filter(pa.array(~unordered)) if unordered.any() else table
    if rule.window is not None:
        return _by_rows(pending, table, rule.window, order, flush, whole or flush)
    return _by_time(pending, table, rule, order, until, flush)


def due(pending: Pending, rule: WindowRule) -> int | None:
    """Return the time (ns since 1970) at which the next open window ends; None if none is open, or it has no end."""
    if rule.window is not None or pending.rows is None or not pending.rows.num_rows:
        return None
    every = Every(rule.every or "")
    first = int(every.index(_times(pending.rows, rule)).min())
    return every.start(first + 1)


def closed_to(pending: Pending, rule: WindowRule, until: int | None = None) -> str:
    """Say up to which order or time windows are closed, so that rows before it are late; empty if none is.

    >>> rule, rows = WindowRule(window=10), pa.table({"n": range(25)})
    >>> closed_to(cut(Pending(), rows, rule, ["n"])[0], rule)
    'n=19'
    """
    if rule.window is not None:
        last = {} if pending.last is None else pending.last.to_pylist()[0]
        return ", ".join(f"{name}={value}" for name, value in last.items())
    every = Every(rule.every or "")
    floor = _floor(pending, every, span(rule.lateness), until)
    return "" if floor is None else iso(every.start(floor))


def _by_rows(
    pending: Pending, table: pa.Table, size: int, order: Sequence[str], flush: bool, whole: bool
) -> tuple[Pending, list[Window]]:
    late = np.zeros(table.num_rows, bool) if pending.last is None else ~_after(table, pending.last, order)
    pending = replace(pending, left_out=pending.left_out + LeftOut(late=int(late.sum())))
    new = table.filter(pa.array(~late)) if late.any() else table
    rows = _ordered(_joined(pending.rows, new), order)
    found, full = Judged(rows.num_rows), rows.num_rows if flush else rows.num_rows // size * size
    values, came = numbers_of(rows.column(order[0])), numbers_of(new.column(order[0]))
    if not whole and values is not None and came is not None:
        found, full = among_rows(values, came, pending.held, size)
    pending, rows = _after_judging(pending, rows, found, np.arange(rows.num_rows) < found.right)
    windows = []
    for start in range(0, full, size):
        pending, window = _closed(pending, rows.slice(start, size))
        windows.append(window)
    last = _own(rows.slice(full - 1, 1).select(list(order))) if full else pending.last
    return replace(pending, rows=_own(rows.slice(full)), last=last), windows


def _by_time(
    pending: Pending, table: pa.Table, rule: WindowRule, order: Sequence[str], until: int | None, flush: bool
) -> tuple[Pending, list[Window]]:
    every, lateness = Every(rule.every or ""), span(rule.lateness)
    times = _times(table, rule)
    known = times != MISSING
    before = _floor(pending, every, lateness, until)
    late = known & (every.index(np.where(known, times, 0)) < (MISSING if before is None else before))
    left = LeftOut(late=int(late.sum()), untimed=int((~known).sum()))
    pending = replace(pending, left_out=pending.left_out + left)
    kept = known & ~late
    rows = _ordered(_joined(pending.rows, table.filter(pa.array(kept)) if not kept.all() else table), order)
    pending, rows, waiting = _timed(pending, rows, times[kept], rule, until, flush)
    floor = _LAST if flush else _floor(pending, every, lateness, until)
    if not rows.num_rows or floor is None:
        return replace(pending, rows=rows), []
    indices, windows = every.index(waiting), []
    for start, stop, part in _complete(rows, indices, pending.next_window, floor):
        pending, window = _closed(pending, part, every, start, stop)
        windows.append(window)
    return replace(pending, rows=_own(rows.filter(pa.array(indices >= (pending.next_window or MISSING))))), windows


def _timed(
    pending: Pending, rows: pa.Table, new: NDArray[np.int64], rule: WindowRule, until: int | None, final: bool
) -> tuple[Pending, pa.Table, NDArray[np.int64]]:
    """Note the newest time that counts, leave out rows whose time is wrong, and return the times of the others.

    Time up to which all rows have come is not far ahead, whatever the rows of this stream say.
    """
    times = _times(rows, rule)
    reached = max((time for time in (pending.newest, until) if time is not None), default=None)
    leaps, ordered = Leaps(Every(rule.every or ""), span(rule.lateness)), np.sort(times)
    found = among_times(ordered, new, leaps, reached, pending.held, final=final)
    right = np.ones(len(times), bool) if found.right == len(times) else times < ordered[found.right]
    if right.any():
        newest = int(times[right].max())
        pending = replace(pending, newest=newest if pending.newest is None else max(newest, pending.newest))
    pending, rows = _after_judging(pending, rows, found, right)
    return pending, rows, times[right] if found.wild else times


def _after_judging(
    pending: Pending, rows: pa.Table, found: Judged, right: NDArray[np.bool_]
) -> tuple[Pending, pa.Table]:
    """Leave out rows that are wrong; those that are held back wait."""
    pending = replace(pending, held=found.held)
    if not found.wild:
        return pending, rows
    wild = LeftOut(wild=rows.num_rows - int(right.sum()))
    return replace(pending, left_out=pending.left_out + wild), rows.filter(pa.array(right))


def _complete(
    rows: pa.Table, indices: NDArray[np.int64], following: int | None, floor: int
) -> Iterator[tuple[int, int, pa.Table]]:
    """Yield the windows below the floor, and gaps without rows up to the next window with rows."""
    for index in np.unique(indices).tolist():
        if following is not None and following < index <= floor:
            yield following, index, rows.slice(0, 0)
        if index >= floor:
            return
        yield index, index + 1, rows.filter(pa.array(indices == index))
        following = index + 1


def _closed(
    pending: Pending, part: pa.Table, every: Every | None = None, start: int = 0, stop: int = 0
) -> tuple[Pending, Window]:
    """Return a window, and what waits without it."""
    left, total = pending.left_out, pending.total + part.num_rows
    notes = [f"no rows for {stop - start} window{'' if stop - start == 1 else 's'}"] if not part.num_rows else []
    if left.untimed:
        notes.append(f"{left.untimed} row{'' if left.untimed == 1 else 's'} without a time or an order left out")
    if left.wild:
        notes.append(LeftOut(wild=left.wild).described())
    window = Window(
        Rows(part),
        pending.total,
        Cursor(None, total, total, "", next_window=None if every is None else stop),
        None if every is None else iso(every.start(start)),
        None if every is None else iso(every.start(stop)),
        left.late,
        "; ".join(notes),
        left,
    )
    after = replace(pending, total=total, left_out=LeftOut(), next_window=None if every is None else stop)
    return after, window


def _floor(pending: Pending, every: Every, lateness: int, until: int | None) -> int | None:
    """Return the index of the first window that is not complete yet; None if nothing is known."""
    reached = [] if until is None else [until]
    if pending.newest is not None:
        reached.append(max(pending.newest, MISSING + 1 + lateness) - lateness)
    indices = [int(every.index(np.array([time]))[0]) for time in reached]
    if pending.next_window is not None:
        indices.append(pending.next_window)
    return max(indices, default=None)


def _times(table: pa.Table, rule: WindowRule) -> NDArray[np.int64]:
    lenient = replace(rule, schema="lenient")  # a row without a time is counted, and must not stop the others
    return times_of(Batch(Rows(table), None, 1), lenient)


def _after(table: pa.Table, last: pa.Table, order: Sequence[str]) -> NDArray[np.bool_]:
    """Say of each row whether its order is greater than that of the last row."""
    after, equal = np.zeros(table.num_rows, bool), np.ones(table.num_rows, bool)
    for name in order:
        column, value = table.column(name), last.column(name)[0]
        if column.type != value.type:
            value = value.cast(column.type)
        after |= equal & _true(pc.greater(column, value))
        equal &= _true(pc.equal(column, value))
    return after


def _joined(waiting: pa.Table | None, table: pa.Table) -> pa.Table:
    if waiting is None or not waiting.num_rows:
        return table
    if set(waiting.column_names) != set(table.column_names):
        raise SourceError(
            f"rows that wait for their window have the columns {waiting.column_names}, those that came "
            f"{table.column_names}"
        )
    try:
        return pa.concat_tables([waiting, table], promote_options="permissive")
    except pa.ArrowException as error:
        raise SourceError(f"rows that wait for their window and those that came do not fit together: {error}") from None


def _ordered(table: pa.Table, order: Sequence[str]) -> pa.Table:
    return table.take(pc.sort_indices(table, [(name, "ascending") for name in order]))


def _own(table: pa.Table) -> pa.Table:
    """Copy rows, so that nothing else is in their memory."""
    return table.take(pa.array(np.arange(table.num_rows)))


def _any(masks: Sequence[pa.ChunkedArray], rows: int) -> NDArray[np.bool_]:
    found = np.zeros(rows, bool)
    for mask in masks:
        found |= _true(mask)
    return found


def _true(mask: pa.ChunkedArray) -> NDArray[np.bool_]:
    return np.asarray(pc.fill_null(mask, False).to_numpy(), bool)
