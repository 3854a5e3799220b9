"""Many streams at once: each key of a table is traced by a monitor of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from driftline.monitor import Monitor, Record, Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["watch"]

_FIELDS = (
    "original string, window bigint, status string, rows bigint, signal string, drift double, low double, high double, "
    "record string, error string"
)


def watch(
    df: DataFrame,
    key: str | Sequence[str],
    *,
    order: str | Sequence[str],
    columns: Sequence[str] | None = None,
    flush: bool = False,
    **settings: Any,
) -> DataFrame:
    """Return the Records of all streams in a Spark table, one row for each key, original and window.

    The rows of a key go to one worker, are put in order, and are watched there by a
    :class:`~driftline.Monitor`: its windows, tests of columns, alarms and doubts. Columns of the result are those of
    the key, ``original``, ``window``, ``status``, ``rows``, ``signal``, ``drift`` with ``low`` and ``high``, the whole
    ``record`` as JSON (``Record.from_json``), and ``error``. A key that cannot be watched has one row with the error;
    the others go on.

    Arguments:
        df: a table that is not a stream; rows of a shuffle have no order of their own.
        key: column, or columns, that tell streams apart.
        order: column, or columns, that rows of a key are ordered by: times and something that breaks ties.
        columns: columns to watch; all but key and order if None.
        flush: whether to count the unfinished window of each key, too.
        settings: settings of the monitor: ``window=`` or ``every=``, and others.
    """
    if df.isStreaming:
        raise ValueError("watch is for tables that are not streams: write the stream to a table, and watch that")
    keys, places = ([name] if isinstance(name, str) else list(name) for name in (key, order))
    if not keys or not places:
        raise ValueError("key= and order= need a column each, since rows of a shuffle have no order")
    watched = [name for name in df.columns if name not in (*keys, *places)] if columns is None else list(columns)
    lacking = [name for name in (*keys, *places, *watched) if name not in df.columns]
    if lacking:
        raise ValueError(f"the table lacks the column(s) {lacking}")
    time = settings.get("time")
    chosen = {**settings, "columns": [*watched, *([time] if time is not None and time not in watched else [])]}
    Settings.from_dict(chosen)  # wrong settings are said here, not by a worker
    needed = [name for name in dict.fromkeys([*watched, *places, *([time] if time else [])]) if name not in keys]
    schema = ", ".join([*(f"`{name}` {df.schema[name].dataType.simpleString()}" for name in keys), _FIELDS])

    def traced(group: tuple[Any, ...], table: pa.Table) -> pa.Table:
        ordered = table.sort_by([(name, "ascending") for name in places])
        kept = ordered.select([name for name in ordered.column_names if name in chosen["columns"]])
        rows = [(*(value.as_py() for value in group), *found) for found in _rows(kept, chosen, flush)]
        return pa.table(
            {name: pa.array([row[i] for row in rows], type=kind) for i, (name, kind) in enumerate(_types(table, keys))}
        )

    return df.select(*keys, *needed).groupBy(*keys).applyInArrow(traced, schema)


def _types(table: pa.Table, keys: Sequence[str]) -> list[tuple[str, pa.DataType]]:
    """Return names and types of the columns of the result."""
    kinds = {"string": pa.string(), "bigint": pa.int64(), "double": pa.float64()}
    fields = [field.split() for field in _FIELDS.split(", ")]
    return [*((name, table.schema.field(name).type) for name in keys), *((name, kinds[kind]) for name, kind in fields)]


def _rows(table: pa.Table, settings: dict[str, Any], flush: bool) -> Iterator[tuple[Any, ...]]:
    """Yield the Records of one stream as rows, and the error that ended it, if one did."""
    try:
        monitor = Monitor(**settings)
        for record in monitor.watch(table, flush=flush):
            yield _row(record)
        if monitor.run.records:
            return
        raise ValueError(f"{table.num_rows} rows are too few for a first window")
    except Exception as error:  # a bad stream must not end the others
        yield (*(None,) * 9, f"{type(error).__name__}: {error}")


def _row(record: Record) -> tuple[Any, ...]:
    drift = record.drift
    numbers = (None, None, None) if drift is None else (drift.value, drift.low, drift.high)
    said = record.original, record.window, str(record.status), record.rows, str(record.signal)
    return (*said, *numbers, record.to_json(), None)
