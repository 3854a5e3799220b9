"""Scores of a table: log-ratios and weights of rows, added batch by batch where the rows are."""

from __future__ import annotations

import hashlib
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from driftline.estimators import ContinualDensityRatio
from driftline.monitor import Monitor

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["score"]

_ADDED = ("log_ratio", "weight")


def score(
    df: DataFrame,
    model: ContinualDensityRatio | str | os.PathLike[str],
    original: str | None = None,
    *,
    columns: list[str] | None = None,
) -> DataFrame:
    """Return a Spark table with ``log_ratio`` and ``weight`` of each row added, as doubles.

    The model goes to the workers once, as bytes. Doubts are warned of here, before anything is computed; the rows are
    scored when the table is asked for.

    Arguments:
        model: an estimator, or the path of a tracker file.
        original: name of the original that weights lead back to; the first one if None.
        columns: columns that an estimator was fitted on, in its order, if it does not know their names.
    """
    from pyspark.sql.types import DoubleType, StructField, StructType

    taken = [name for name in _ADDED if name in df.columns]
    if taken:
        raise ValueError(f"the table has a column {taken[0]!r} already: rename it")
    if isinstance(model, ContinualDensityRatio):
        data, names = model.to_bytes(), columns or list(getattr(model, "feature_names_in_", []))
        if len(names) != model.n_features_in_:
            raise ValueError(f"columns= must name the {model.n_features_in_} columns that the estimator was fitted on")
        lacking = [name for name in names if name not in df.columns]
        if lacking:
            raise ValueError(f"the table lacks the column(s) {lacking}")
        model.weights(np.zeros((0, len(names))), original)  # warns of doubts
    else:
        data, names = Path(model).read_bytes(), []
        with Monitor.open(model, readonly=True) as monitor:
            known = [each.name for each in monitor.originals]
            if original is not None and original not in known:
                raise ValueError(f"original {original!r} is unknown: choose one of {known}")
    shared = df.sparkSession.sparkContext.broadcast(data)

    def scored(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            values = _scorer(shared.value, tuple(names))(pa.Table.from_batches([batch]), original)
            arrays = [*batch.columns, *(pa.array(part, type=pa.float64()) for part in values)]
            yield pa.RecordBatch.from_arrays(arrays, names=[*batch.schema.names, *_ADDED])

    schema = StructType([*df.schema.fields, *(StructField(name, DoubleType()) for name in _ADDED)])
    return df.mapInArrow(scored, schema)


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
            rows = [table.column(name).to_numpy(zero_copy_only=False).astype(np.float64) for name in names]
            x = np.column_stack(rows) if table.num_rows else np.zeros((0, len(names)))
            with warnings.catch_warnings():  # said once, where the table was asked for
                warnings.simplefilter("ignore")
                return estimator.log_ratio(x, original), estimator.weights(x, original)

        return by_estimator
    handle, path = tempfile.mkstemp(suffix=".driftline")
    with os.fdopen(handle, "wb") as file:
        file.write(held.data)
    try:
        monitor = Monitor.open(path, readonly=True)
        monitor.close()
    finally:
        os.unlink(path)

    def by_monitor(table: pa.Table, original: str | None) -> tuple[Any, Any]:
        further = [name for name in table.column_names if name not in known]
        found = monitor.score(table.drop_columns(further), original)
        return found.log_ratio, found.weights

    encoder = monitor.encoder
    assert encoder is not None  # a tracker without a window is refused
    known = {column.name for column in encoder.columns} | set(encoder.skipped)
    return by_monitor
