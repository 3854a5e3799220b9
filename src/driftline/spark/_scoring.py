"""Scores of a table: log-ratios and weights of rows, added batch by batch where the rows are."""

from __future__ import annotations

import hashlib
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator
from functools import lru_cache
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from driftline.estimators import ContinualDensityRatio, warn_of
from driftline.monitor import Monitor
from driftline.spark._columns import check_numbers, inner, named

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["score"]

_ADDED = ("log_ratio", "weight")
_TRACKER = b"SQLite format 3\x00"


def score(
    df: DataFrame,
    model: ContinualDensityRatio | bytes | str | os.PathLike[str],
    original: str | None = None,
    *,
    columns: list[str] | None = None,
) -> DataFrame:
    """Return a Spark table with ``log_ratio`` and ``weight`` of each row added, as doubles.

    The model goes to the workers once, as bytes. Doubts are warned of here, before anything is computed; the rows are
    scored when the table is asked for, which may be a stream. Of a row with a missing or infinite value where an
    estimator needs a number, both are null; a tracker has learned what a missing value means.

    Arguments:
        model: an estimator, the path of its file or of a tracker file, or the bytes of either.
        original: name of the original that weights lead back to; the first one if None.
        columns: columns that an estimator was fitted on, in its order, if it does not know their names.
    """
    from pyspark.sql.types import DoubleType, StructField, StructType

    taken = [name for name in _ADDED if name in df.columns]
    if taken:
        raise ValueError(f"the table has a column {taken[0]!r} already: rename it")
    data = _bytes_of(model)
    names = [] if data.startswith(_TRACKER) else _checked(df, data, original, columns)
    if not names:
        _check_tracker(df, data, original)
    given, odd = df.columns, any(inner(name) != name for name in df.columns)
    shared = df.sparkSession.sparkContext.broadcast(data)

    def scored(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            table = pa.Table.from_batches([batch]).rename_columns(given)
            values = _scorer(shared.value, tuple(names))(table, original)
            arrays = [*batch.columns, *(pa.array(part, type=pa.float64(), from_pandas=True) for part in values)]
            yield pa.RecordBatch.from_arrays(arrays, names=[*given, *_ADDED])

    schema = StructType([*df.schema.fields, *(StructField(name, DoubleType()) for name in _ADDED)])
    return (named(df, given) if odd else df).mapInArrow(scored, schema)


def _bytes_of(model: ContinualDensityRatio | bytes | str | os.PathLike[str]) -> bytes:
    """Return the bytes of a model, wherever it is."""
    if isinstance(model, ContinualDensityRatio):
        return model.to_bytes()
    if isinstance(model, bytes | bytearray | memoryview):
        return bytes(model)
    log = Path(f"{os.fspath(model)}-wal")
    if log.exists() and log.stat().st_size:
        raise ValueError(f"{os.fspath(model)}: a window is being written to it just now: try again in a moment")
    return Path(model).read_bytes()


def _checked(df: DataFrame, data: bytes, original: str | None, columns: list[str] | None) -> list[str]:
    """Return the columns that an estimator needs, all of them in the table; warn of doubts."""
    estimator = ContinualDensityRatio.from_bytes(data, what="the model")
    names = columns or list(getattr(estimator, "feature_names_in_", []))
    if len(names) != estimator.n_features_in_:
        raise ValueError(f"columns= must name the {estimator.n_features_in_} columns that the estimator was fitted on")
    check_numbers(df, names)
    estimator.weights(np.zeros((0, len(names))), original)  # warns of doubts
    return names


def _check_tracker(df: DataFrame, data: bytes, original: str | None) -> None:
    """Raise an error unless a tracker can score the table back to the original; warn of doubts."""
    from pyspark.sql.pandas.types import to_arrow_schema

    monitor = _monitor(data)
    known = [each.name for each in monitor.originals]
    if original is not None and original not in known:
        raise ValueError(f"original {original!r} is unknown: choose one of {known}")
    # PySpark before this argument takes UTC by itself
    zone: dict[str, Any] = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
    none = to_arrow_schema(df.schema, **zone).empty_table()
    warn_of(monitor.score(_known_to(monitor, none), original).doubts)


Scorer = Callable[[pa.Table, str | None], tuple[Any, Any]]


def _scorer(data: bytes, names: tuple[str, ...]) -> Scorer:
    """Return the function that scores a table; a worker makes it once."""
    return _made(hashlib.sha256(data).hexdigest(), names, _Bytes(data))


class _Bytes:
    """Bytes that do not count in the key of a cache: their digest does."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Bytes)

    def __hash__(self) -> int:
        return 0


@lru_cache(maxsize=4)
def _made(digest: str, names: tuple[str, ...], held: _Bytes) -> Scorer:
    if names:
        estimator = ContinualDensityRatio.from_bytes(held.data, what="the model")

        def by_estimator(table: pa.Table, original: str | None) -> tuple[Any, Any]:
            rows = [table.column(name).cast(pa.float64()).to_numpy(zero_copy_only=False) for name in names]
            x = np.column_stack(rows)
            whole, out = np.isfinite(x).all(1), np.full((2, len(x)), np.nan)
            with warnings.catch_warnings():  # said once, where the table was asked for
                warnings.simplefilter("ignore")
                out[:, whole] = estimator.log_ratio(x[whole], original), estimator.weights(x[whole], original)
            return out[0], out[1]

        return by_estimator
    monitor = _monitor(held.data)

    def by_monitor(table: pa.Table, original: str | None) -> tuple[Any, Any]:
        found = monitor.score(_known_to(monitor, table), original)
        return found.log_ratio, found.weights

    return by_monitor


def _monitor(data: bytes) -> Monitor:
    """Return a monitor from the bytes of its tracker file, which is not needed any more."""
    handle, path = tempfile.mkstemp(suffix=".driftline")
    with os.fdopen(handle, "wb") as file:
        file.write(data)
    try:
        monitor = Monitor.open(path, readonly=True)
        monitor.close()
    finally:
        os.unlink(path)
    if monitor.encoder is None:
        raise ValueError("the tracker has no window yet: watch some rows first")
    return monitor


def _known_to(monitor: Monitor, table: pa.Table) -> pa.Table:
    """Return a table without columns that the monitor has never seen."""
    encoder = monitor.encoder
    assert encoder is not None
    known = {column.name for column in encoder.columns} | set(encoder.skipped)
    return table.drop_columns([name for name in table.column_names if name not in known])
