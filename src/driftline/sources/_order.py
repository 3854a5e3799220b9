"""Rows that do not come in the order of time, such as newest first: recognised, and sorted if they fit in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from driftline.sources._batches import Batch, SourceError
from driftline.sources._clock import Clock
from driftline.sources._concat import concat
from driftline.sources._time_columns import times_of
from driftline.sources._times import MISSING, Every
from driftline.sources._window_rule import WindowRule

__all__ = ["disorder", "in_order"]

_LOOK = 100_000  # rows that are looked at, and twice as many again until they show an order
_MEMORY = 1 << 29  # bytes of rows that are sorted at most
_PIECE = 1 << 16  # rows of a batch


def disorder(batches: Iterator[Batch], rule: WindowRule) -> str:
    """Describe the order of rows, if read as they come most would be late; empty if they come in the order of time.

    The first 100,000 rows are looked at, and more as long as they are all within a window.
    """
    rule = replace(rule, schema="lenient")  # what cannot be read is found when it is read
    clock, column = Clock(rule, quiet=True), rule.time_column
    rows = left = closed = rises = falls = 0
    last, more = np.array([], np.int64), True
    try:
        while more:
            step, more = _next_rows(batches, max(rows, _LOOK))
            for batch in step:
                if column not in batch.table.column_names:
                    return ""
                batch = replace(batch, rows=batch.rows.holding(batch.table.select([column])))
                times = times_of(batch, rule)
                known = np.concatenate([last, times[times != MISSING]])
                rises, falls = rises + int((np.diff(known) > 0).sum()), falls + int((np.diff(known) < 0).sum())
                last = known[-1:]
                windows = list(clock.add(batch))
                left += sum(window.left_out.total for window in windows)
                closed += sum(window.table.num_rows > 0 for window in windows)
                rows += batch.table.num_rows
            if not more:
                left += sum(window.left_out.total for window in clock.flush())
            if 2 * (left + clock.left_out.total) > rows:
                return "newest first" if falls > 9 * rises else "out of order"
            if closed >= 3 or rises > 9 * falls:
                break
    except SourceError:  # it is raised again when these rows are read, after the windows before them
        pass
    return ""


def _next_rows(batches: Iterator[Batch], count: int) -> tuple[list[Batch], bool]:
    """Return the batches of at least so many more rows, and whether there may be others after them."""
    found, rows = [], 0
    for batch in batches:
        found.append(batch)
        rows += batch.table.num_rows
        if rows >= count:
            return found, True
    return found, False


def in_order(batches: Iterator[Batch], rule: WindowRule, name: str, from_window: int | None) -> Iterator[Batch]:
    """Sort all rows by time, those without one last; yield them in batches, numbered in their new order.

    Arguments:
        batches: the rows.
        rule: rule of the windows, which names the time column.
        name: name of the source in messages.
        from_window: index of the first window whose rows are yielded; None: all are.
    """
    pieces, times = _all_of(batches, rule, name)
    if not pieces:
        return
    rows, _ = concat(pieces, strict=rule.schema == "strict")
    order = np.argsort(np.where(times == MISSING, np.iinfo(np.int64).max, times), kind="stable")
    start = 0 if from_window is None else _before(times, Every(rule.every or ""), from_window)
    table = rows.table.combine_chunks()
    for at in range(start, len(order), _PIECE):
        piece = table.take(pa.array(order[at : at + _PIECE]))
        yield Batch(rows.holding(piece), None, at)


def _all_of(batches: Iterator[Batch], rule: WindowRule, name: str) -> tuple[list[Batch], NDArray[np.int64]]:
    pieces, size = [], 0
    for batch in batches:
        pieces.append(batch)
        size += batch.table.nbytes
        if size > _MEMORY:
            raise SourceError(
                f"the rows of {name} are not in the order of {rule.time_column!r}, and take more than "
                f"{_MEMORY >> 20} MB, too much to sort them here: sort them by {rule.time_column!r} first, or cut them "
                "into files by time"
            )
    found = [times_of(piece, rule) for piece in pieces]
    return pieces, np.concatenate(found) if found else np.array([], np.int64)


def _before(times: NDArray[np.int64], every: Every, window: int) -> int:
    """Return the number of rows whose windows are before this one."""
    known = times[times != MISSING]
    return int((every.index(known) < window).sum())
