"""Many streams at once: each key of a table or of a stream is traced as by a monitor of its own."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from driftline.monitor import Plan, Record, Trace, begin_trace, read_trace, take, too_short, trace_bytes
from driftline.spark._columns import check_order, inner, named, outer, quoted
from driftline.spark._output import FIELDS, STATE, arrow_rows, as_quiet, as_row, ddl
from driftline.spark._packing import packed
from driftline.spark._processing import STATE_NAME, Processor

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["read_states", "states", "watch"]

_STATES = {STATE: "binary"}
_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_WATERMARK = "_driftline_watermark"
_NO_ORIGINAL = "originals= has no rows of this key: it is measured from nothing else"
_NO_ROWS = "no rows of this key came"
_OWN_WATERMARK = "spark.watermarkDelayMs"  # in the metadata of a column that has one
_KEYS = (
    "string",
    "boolean",
    "tinyint",
    "smallint",
    "int",
    "bigint",
)  # Spark's timers give these back as they were
_UNITS = {"s": 1000, "min": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}


class _Task(NamedTuple):
    """A table of rows of many streams, and how they are traced."""

    df: DataFrame
    keys: list[str]
    columns: list[str]  # that are watched or needed for the order
    plan: Plan
    initial: DataFrame | None  # keys and their states
    absent: Trace = Trace()  # what a key without a state begins from


def watch(
    df: DataFrame,
    key: str | Sequence[str],
    *,
    order: str | Sequence[str],
    columns: Sequence[str] | None = None,
    flush: bool = False,
    quiet: str | None = None,
    initial: DataFrame | None = None,
    originals: DataFrame | None = None,
    **settings: Any,
) -> DataFrame:
    """Return the Records of all keys of a Spark table or stream, one row for each key, original and window.

    The rows of a key go to one worker, are put in order, and are traced there as by a :class:`~driftline.Monitor` of
    their own: its windows, tests of columns, alarms and doubts. Columns of the result are those of the key,
    ``original``, ``window``, ``status``, ``rows``, ``late`` rows, ``signal``, ``drift`` with ``low`` and ``high``, the
    whole ``record`` as JSON (``Record.from_json``), and ``error``. A window that cannot be measured has the doubt
    ``not_measured`` and its error; its key goes on, and so do the others.

    Arguments:
        df: rows of all keys. A stream needs the RocksDB state store.
        key: column, or columns, that tell streams apart; in a stream text, whole numbers or truth values.
        order: column, or columns, that rows of a key are ordered by: times and something that breaks ties.
        columns: columns to watch; all but key and order if None.
        flush: whether to close the unfinished window of each key, too; not for streams, which have no end.
        quiet: time without rows, such as ``"2d"``, after which a key of a stream is reported: by the watermark with
            windows by time, by the clock otherwise. Tables do not need it.
        initial: table with the columns of the key and ``state``, as :func:`states` returns it: keys go on from there,
            others begin.
        originals: rows of originals, with the columns of the key: drift of a key is measured from its own. A key
            without one is not measured.
        settings: settings of the monitor: ``window=``, or ``time_column=`` and ``every=`` with ``lateness=``, and
            others. In a stream, a watermark of ``lateness`` is set unless there is one.
    """
    task = _task(df, key, order, columns, initial, originals, settings)
    if not df.isStreaming:
        return _of_table(task, flush)
    if flush:
        raise ValueError("flush=True is for tables: a stream has no end at which to close windows")
    return _of_stream(task, None if quiet is None else _milliseconds(quiet, "quiet"))


def states(
    df: DataFrame,
    key: str | Sequence[str],
    *,
    order: str | Sequence[str],
    columns: Sequence[str] | None = None,
    initial: DataFrame | None = None,
    originals: DataFrame | None = None,
    **settings: Any,
) -> DataFrame:
    """Return the state of each key after all rows of a table: the columns of the key, and ``state``.

    It is what ``initial=`` of :func:`watch` takes. The arguments are those of :func:`watch`.
    """
    if df.isStreaming:
        raise ValueError("states of a stream are in its checkpoint: use read_states")
    task = _task(df, key, order, columns, initial, originals, settings)
    plan, absent = task.plan, task.absent

    def stated(table: pa.Table | None, before: bytes | None) -> list[dict[str, Any]]:
        return [{STATE: trace_bytes(take(_from(before, absent), table, plan)[0])}]

    return _grouped(task, stated, _STATES)


def read_states(spark: SparkSession, checkpoint: str) -> DataFrame:
    """Return the state of each key of a stream, from its checkpoint: the columns of the key, and ``state``."""
    found = spark.read.format("statestore").option("stateVarName", STATE_NAME).load(checkpoint)
    parts = found.select("key.*", f"value.{STATE}")
    return parts.toDF(*map(outer, parts.columns))


def _task(
    df: DataFrame,
    key: str | Sequence[str],
    order: str | Sequence[str],
    columns: Sequence[str] | None,
    initial: DataFrame | None,
    originals: DataFrame | None,
    settings: Mapping[str, Any],
) -> _Task:
    """Check everything here, where an error is seen, not on a worker."""
    keys, places = ([name] if isinstance(name, str) else list(name) for name in (key, order))
    if not keys or not places:
        raise ValueError("key= and order= need a column each, since rows of a shuffle have no order")
    taken = [name for name in keys if name.lower() in (*FIELDS, STATE)]  # to Spark, upper and lower case are the same
    if taken:
        raise ValueError(f"the key {taken[0]!r} has the name of a column of the result: rename it")
    time = settings.get("time_column")
    outside = (*keys, *places, *([time] if time else []))
    watched = [name for name in df.columns if name not in outside] if columns is None else list(columns)
    wrong = [name for name in watched if name in keys]
    if wrong:
        raise ValueError(f"the key {wrong[0]!r} cannot be watched: it is the same in all rows of a stream")
    lacking = [name for name in (*keys, *places, *watched, *([time] if time else [])) if name not in df.columns]
    if lacking:
        raise ValueError(f"the table lacks the column(s) {lacking}")
    check_order(df, places)
    if initial is not None and originals is not None:
        raise ValueError("initial= and originals= exclude each other: a key goes on, or begins")
    chosen = [*watched, *([time] if time is not None and time not in watched else [])]
    named = {} if columns is None else {"columns": chosen}  # a column without values is an error only if it is named
    plan = Plan({**settings, **named}, tuple(places), tuple(chosen))
    task = _Task(df, keys, list(dict.fromkeys([*chosen, *places])), plan, None)
    if originals is not None:
        return task._replace(initial=_begun(task, originals), absent=Trace(refused=_NO_ORIGINAL))
    return task._replace(initial=None if initial is None else _same_keys(task, initial, [STATE]))


def _same_keys(task: _Task, given: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Return a table with keys of the same types, and these columns, under their inner names."""
    from pyspark.sql import functions

    lacking = [name for name in (*task.keys, *columns) if name not in given.columns]
    if lacking:
        raise ValueError(f"the table of what keys begin from lacks the column(s) {lacking}")
    own = [functions.col(quoted(name)).cast(task.df.schema[name].dataType).alias(name) for name in task.keys]
    return named(given.select(*own, *map(quoted, columns)), (*task.keys, *columns))


def _begun(task: _Task, originals: DataFrame) -> DataFrame:
    """Return the state of each key after its original, which is fitted where its rows are."""
    plan, own, time = task.plan, list(map(inner, task.keys)), task.plan.settings.time_column
    wanted = [name for name in plan.watched if name != time or name in originals.columns]
    table = _same_keys(task, originals, wanted)

    def begun(group: tuple[Any, ...], rows: pa.Table) -> pa.Table:
        original = rows.select(list(map(inner, wanted))).rename_columns(wanted)
        return arrow_rows(group, own, [{STATE: trace_bytes(begin_trace(original, plan))}], _STATES)

    return table.groupBy(*own).applyInArrow(begun, ddl(table, own, _STATES))


def _from(before: bytes | None, absent: Trace) -> Trace:
    """Return the stream of a key that has this state."""
    return absent if before is None else read_trace(before)


def _of_table(task: _Task, flush: bool) -> DataFrame:
    plan, absent = task.plan, task.absent

    def traced(table: pa.Table | None, before: bytes | None) -> list[dict[str, Any]]:
        trace, records = take(_from(before, absent), table, plan, flush=flush, whole=True)
        short = too_short(trace, plan)
        found = [as_row(record) for record in (*records, *([] if short is None else [short]))]
        return found if found or table is not None else [*_original(trace), as_quiet(trace, _NO_ROWS)]

    return _grouped(task, traced, FIELDS)


def _original(trace: Trace) -> list[dict[str, Any]]:
    """Return the Record of an original after which no rows have come."""
    return [as_row(Record.from_json(trace.unsaid))] if trace.unsaid else []


def _grouped(
    task: _Task, function: Callable[[pa.Table | None, bytes | None], list[dict[str, Any]]], fields: Mapping[str, str]
) -> DataFrame:
    """Apply a function to the rows of each key, if it has some, and to the state that it begins from."""
    columns, keys, schema = task.columns, task.keys, ddl(task.df, task.keys, fields)
    groups, inside = list(map(inner, keys)), list(map(inner, columns))
    own = named(task.df, (*keys, *columns)).groupBy(*groups)

    def made(group: tuple[Any, ...], table: pa.Table, before: bytes | None) -> pa.Table:
        rows = table.select(inside).rename_columns(columns) if table.num_rows else None
        return arrow_rows(group, keys, function(rows, before), fields)

    if task.initial is None:

        def alone(group: tuple[Any, ...], table: pa.Table) -> pa.Table:
            return made(group, table, None)

        return own.applyInArrow(alone, schema)

    def together(group: tuple[Any, ...], table: pa.Table, given: pa.Table) -> pa.Table:
        if given.num_rows > 1:
            raise ValueError(f"initial= has {given.num_rows} states for the key {group}: it goes on from one")
        return made(group, table, given.column(STATE)[0].as_py() if given.num_rows else None)

    return own.cogroup(task.initial.groupBy(*groups)).applyInArrow(together, schema)


def _of_stream(task: _Task, quiet: int | None) -> DataFrame:
    df, keys, plan = task.df, task.keys, task.plan
    provider = df.sparkSession.conf.get(_PROVIDER)
    if "RocksDB" not in str(provider):
        raise ValueError(f"the state of streams needs RocksDB: spark.conf.set({_PROVIDER!r}, {_ROCKSDB!r})")
    for name in keys:
        kind = df.schema[name].dataType.simpleString()
        if kind not in _KEYS:
            raise ValueError(f"a key of a stream is text, a whole number or a truth value, {name!r} is {kind}: cast it")
    by_time = plan.settings.every is not None
    if by_time:
        df = _with_watermark(df, plan)
    mode = "eventTime" if by_time else "none" if quiet is None else "processingTime"
    initial = None if task.initial is None else task.initial.groupBy(*map(inner, keys))
    rows = packed(df, keys, task.columns).groupBy(*map(inner, keys))
    # not of Spark's class, so that nothing else here needs Spark
    processor: Any = Processor(keys, plan, quiet, task.absent)
    return rows.transformWithState(processor, ddl(task.df, keys), "append", mode, initial)


def _with_watermark(df: DataFrame, plan: Plan) -> DataFrame:
    """Set a watermark unless there is one.

    It is on a column of its own that is left out afterwards, so that late rows come to us and are counted: Spark would
    drop them. Times ahead of the clock do not move it, since one wrong row would close the windows of all keys.
    """
    from pyspark.sql import functions

    if any(_OWN_WATERMARK in field.metadata for field in df.schema.fields):
        return df
    name = plan.settings.time_column or ""
    kind = df.schema[name].dataType.simpleString()
    if kind != "timestamp":
        raise ValueError(f"the times of a stream must be timestamps, {name!r} is {kind}: cast it")
    capped = functions.least(functions.col(quoted(name)), functions.current_timestamp())
    late = _milliseconds(plan.settings.lateness, "lateness")
    return df.withColumn(_WATERMARK, capped).withWatermark(_WATERMARK, f"{late} milliseconds")


def _milliseconds(length: str, what: str) -> int:
    match = re.fullmatch(r"([0-9]+)(s|min|h|d|w)", length) if isinstance(length, str) else None
    if match is None:
        raise ValueError(f"{what}={length!r} is not a length of time: a number and s, min, h, d or w")
    return int(match[1]) * _UNITS[match[2]]
