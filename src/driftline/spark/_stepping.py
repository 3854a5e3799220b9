"""Windows larger than one machine: partitions of a table answer a coordinator's questions where they are."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from driftline.estimators import ContinualDensityRatio
from driftline.federated import Coordinator, Site, relay
from driftline.spark._columns import check_numbers, inner, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["step"]

_FAN = 32  # answers that are joined at once, and that come to the driver at most
_SITE = "table"
_ANSWERED = "number bigint, site string, answer binary, reason string"


def step(
    df: DataFrame,
    run: Coordinator | ContinualDensityRatio,
    *,
    columns: Sequence[str] | None = None,
    original: bool = False,
) -> Coordinator:
    """Advance to a window that is a Spark table, of any size; begin with it if nothing is traced yet.

    Rows stay where they are. Each round of the step is one Spark job, in which partitions answer with sums, and sums
    are joined on the way: what comes to the driver depends neither on the rows nor on the partitions. The result equals
    that of all rows at one :class:`~driftline.federated.Site`. Partitions with too few rows for their sums to leave
    them are coalesced. The table is cached as long as the step takes, since it must be the same in all rounds; one that
    is not is noticed, and the state stays as it was.

    Arguments:
        df: rows of the window; further columns are ignored.
        run: a coordinator, which is changed and returned, or an estimator with ``keep="sums"`` to go on from.
        columns: columns of the table in the coordinator's order, if it does not know their names.
        original: whether to begin with the table anyway: with ``model="auto"``, in the features of what was traced.
    """
    if df.isStreaming:
        raise ValueError(
            "step is for tables that are not streams: take it for each batch of one, "
            "stream.writeStream.foreachBatch(lambda batch, number: step(batch, run))"
        )
    going: Coordinator = run if isinstance(run, Coordinator) else Coordinator.of(run)
    table = _Table(_numbers(df, _names(going, columns)), going.least_rows)
    try:
        return going.step(table) if going.begun and not original else going.begin(table)
    finally:
        table.close()


def _names(run: Coordinator, columns: Sequence[str] | None) -> list[str]:
    """Return the columns of a table that a coordinator is about."""
    known = None if run.names is None else list(run.names)
    names = known if columns is None else list(columns)
    if names is None:
        raise ValueError(f"columns= must name the {run.columns} columns of the table, in the coordinator's order")
    if len(names) != run.columns or (known is not None and names != known):
        raise ValueError(f"columns={names} are not those of the coordinator: {known or run.columns}")
    return names


def _numbers(df: DataFrame, names: Sequence[str]) -> DataFrame:
    """Return these columns of a table as doubles."""
    from pyspark.sql.functions import col

    check_numbers(df, names)
    return df.select(*(col(quoted(name)).cast("double").alias(inner(name)) for name in names))


class _Table:
    """A table as the way to a site: a question out, the sums of all its partitions back."""

    def __init__(self, df: DataFrame, least: int) -> None:
        self._kept = df.persist()
        try:
            self._df = _pooled(self._kept, least)
            self._parts = self._df.rdd.getNumPartitions()
        except BaseException:
            self.close()
            raise

    def __call__(self, question: bytes) -> dict[str, bytes | str]:
        """Ask all partitions that hold rows; text says why one has not answered."""
        from pyspark.sql.functions import col, floor

        found, parts = self._df.mapInArrow(_asking(question), _ANSWERED), self._parts
        while parts > _FAN:
            group = floor(col("number") / _FAN).cast("long").alias("group")
            found, parts = found.groupBy(group).applyInArrow(_joining(question), _ANSWERED), math.ceil(parts / _FAN)
        rows = found.collect()
        failed = sorted((row["site"], row["reason"]) for row in rows if row["answer"] is None)
        if failed:
            return {_SITE: f"{failed[0][0]}: {failed[0][1]}"}
        answers = {row["site"]: bytes(row["answer"]) for row in rows}
        return {_SITE: relay(question, answers, _SITE)} if answers else {}

    def close(self) -> None:
        """Release the table."""
        self._kept.unpersist()


def _pooled(df: DataFrame, least: int) -> DataFrame:
    """Return a table whose partitions have so many rows each, or none, if it has so many at all."""
    rows = _counts(df)
    while 0 < min(rows, default=0) < least and len(rows) > 1:
        # as few as could each have twice the rows, half of them if these are too uneven
        parts = max(1, min(len(rows) // 2, sum(rows) // (2 * least)))
        df = df.coalesce(parts)
        rows = _counts(df)
    return df


def _counts(df: DataFrame) -> list[int]:
    """Count the rows of partitions that have some."""

    def counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = sum(batch.num_rows for batch in batches)
        if rows:
            yield pa.RecordBatch.from_arrays([pa.array([rows])], names=["rows"])

    return [row["rows"] for row in df.mapInArrow(counted, "rows bigint").collect()]


def _asking(question: bytes) -> Any:
    """Return the function by which a partition answers."""

    def answered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        number = 0 if context is None else context.partitionId()
        parts = [batch for batch in batches if batch.num_rows]
        if not parts:
            return
        name, answer, reason = f"partition {number:05d}", None, ""
        try:
            table = pa.Table.from_batches(parts)
            answer = Site(np.column_stack([column.to_numpy() for column in table.columns]), name).answer(question)
        except Exception as error:  # the driver names the partition
            reason = f"{type(error).__name__}: {error}"
        yield from pa.Table.from_pydict(_row(number, name, answer, reason), _schema()).to_batches()

    return answered


def _joining(question: bytes) -> Any:
    """Return the function that joins answers of a group: what has failed, if anything has."""

    def joined(key: tuple[Any, ...], table: pa.Table) -> pa.Table:
        number, rows = key[0].as_py(), sorted(table.to_pylist(), key=lambda row: row["site"])
        failed = next((row for row in rows if row["answer"] is None), None)
        if failed is not None:
            return pa.Table.from_pydict(_row(number, failed["site"], None, failed["reason"]), _schema())
        name = f"{rows[0]['site']} to {rows[-1]['site'].rpartition(' ')[2]}"
        answer = relay(question, {row["site"]: row["answer"] for row in rows}, name)
        return pa.Table.from_pydict(_row(number, name, answer, ""), _schema())

    return joined


def _row(number: int, site: str, answer: bytes | None, reason: str) -> dict[str, list[Any]]:
    return {"number": [number], "site": [site], "answer": [answer], "reason": [reason]}


def _schema() -> pa.Schema:
    kinds = {"number": pa.int64(), "site": pa.string(), "answer": pa.binary(), "reason": pa.string()}
    return pa.schema(list(kinds.items()))
