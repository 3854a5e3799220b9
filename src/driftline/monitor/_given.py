"""An original that is a table of its own, not the first window: how a run begins from it, and how it is known again."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from driftline._causes import reason
from driftline._errors import OptionError
from driftline._wording import counted
from driftline.alarms import Cause
from driftline.monitor._advance import RunState, begin, digest
from driftline.monitor._records import Record
from driftline.monitor._settings import Settings
from driftline.sources import Cursor, Window, read_whole, rows_of_frame
from driftline.tables import Rows

__all__ = ["begin_from", "check_same", "given_rows"]


def given_rows(data: Any, settings: Settings) -> Rows:
    """Return the rows of a frame, or all rows of a file that is named."""
    if not isinstance(data, str | os.PathLike):
        return rows_of_frame(data)
    return read_whole(os.fspath(data), None, settings.null_values, settings.window_rule().ignores)


def begin_from(rows: Rows, settings: Settings, notes: Sequence[str] = ()) -> tuple[RunState, Record]:
    """Begin a run from the rows of a table; nothing of the stream has been read yet."""
    own = Window(_with_times(rows, settings), 0, Cursor(None, 0, 0, ""))
    about = f"the original is a table of {counted(rows.table.num_rows, 'row')}, not the first window"
    state, record = begin(own, settings, (*notes, about), what="the original")
    causes = (Cause.JOINED,)
    return replace(state, cursor=None), replace(record, causes=causes, reason=reason(causes))


def _with_times(rows: Rows, settings: Settings) -> Rows:
    """Add the column of times that the stream has, if the original does without and none of its parts are watched."""
    column, table = settings.time_column, rows.table
    if column is None or column in table.column_names or settings.datetime:
        return rows
    any_time = "1970-01-01" if rows.untyped else datetime(1970, 1, 1, tzinfo=UTC)
    return rows.holding(table.append_column(column, pa.repeat(any_time, table.num_rows)))


def check_same(state: RunState, rows: Rows, first: Record, path: str) -> None:
    """Raise if these are not the rows that a run began from; only their digest is left of them."""
    if digest(state.encoder.transform(_with_times(rows, state.settings)).values) != first.digest:
        raise OptionError(
            "{file} began from another original than the one that is given: leave it out to go on, begin another file, "
            "or add it with `driftline original add`",
            file=path,
        )
