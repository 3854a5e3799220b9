"""What ``watch`` returns: one row for each key, original and window, in columns that do not change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from driftline.monitor import Record, Trace
from driftline.spark._columns import quoted

__all__ = ["FIELDS", "QUIET", "STATE", "arrow_rows", "as_quiet", "as_row", "ddl"]

FIELDS: Mapping[str, str] = {
    "original": "string",
    "window": "bigint",
    "status": "string",
    "rows": "bigint",
    "late": "bigint",
    "signal": "string",
    "drift": "double",
    "low": "double",
    "high": "double",
    "record": "string",
    "error": "string",
}
STATE = "state"  # column of a table of states
QUIET = "quiet"  # status of a key that sends no more rows
_ARROW = {"string": pa.string(), "bigint": pa.int64(), "double": pa.float64(), "binary": pa.binary()}
_UNMEASURED = "not_measured"


def ddl(df: Any, keys: Sequence[str], fields: Mapping[str, str] = FIELDS) -> str:
    """Return a schema in Spark's words: the keys as they are in a table, then these fields."""
    own = [f"{quoted(name)} {df.schema[name].dataType.simpleString()}" for name in keys]
    return ", ".join([*own, *(f"{name} {kind}" for name, kind in fields.items())])


def as_row(record: Record) -> dict[str, Any]:
    """Return a Record as a row without its key."""
    drift = record.drift
    return {
        "original": record.original,
        "window": record.window,
        "status": str(record.status),
        "rows": record.rows,
        "late": record.late_rows,
        "signal": str(record.signal),
        "drift": None if drift is None else drift.value,
        "low": None if drift is None else drift.low,
        "high": None if drift is None else drift.high,
        "record": record.to_json(),
        "error": next((str(doubt) for doubt in record.doubts if doubt.code == _UNMEASURED), None),
    }


def as_quiet(trace: Trace, why: str) -> dict[str, Any]:
    """Return a row that says that a key sends no rows: its last window, and the rows that wait for theirs."""
    return {
        **dict.fromkeys(FIELDS),
        "window": trace.last_window,
        "status": QUIET,
        "rows": trace.pending.waiting,
        "late": trace.pending.left_out.late,
        "signal": trace.signal or None,
        "error": "; ".join(filter(None, (why, trace.refused))),
    }


def arrow_rows(
    group: Sequence[pa.Scalar], keys: Sequence[str], rows: Iterable[Mapping[str, Any]], fields: Mapping[str, str]
) -> pa.Table:
    """Return rows of one key as an Arrow table."""
    rows = list(rows)
    own = {name: pa.array([value.as_py()] * len(rows), value.type) for name, value in zip(keys, group, strict=True)}
    return pa.table({**own, **{n: pa.array([row[n] for row in rows], _ARROW[kind]) for n, kind in fields.items()}})
