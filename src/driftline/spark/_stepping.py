"""Windows larger than one machine: partitions of a table are the sites of a coordinator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from driftline.federated import Site

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["Sites"]


class Sites:
    """The partitions of a Spark table as sites: pass it to :meth:`~driftline.federated.Coordinator.step`.

    Each round is one Spark job; the rows stay where they are, and sums come to the driver. The table is cached, since
    it is asked several times and must be the same each time. :meth:`close` releases it.

    Arguments:
        df: rows of a window.
        columns: columns that are watched, in the coordinator's order.
    """

    def __init__(self, df: DataFrame, columns: Sequence[str]) -> None:
        lacking = [name for name in columns if name not in df.columns]
        if lacking:
            raise ValueError(f"the table lacks the column(s) {lacking}")
        self._columns = list(columns)
        self._df = df.select(*self._columns).persist()

    def __call__(self, question: bytes) -> dict[str, bytes | str]:
        """Ask all partitions that hold rows; text says why one has not answered."""
        columns = self._columns

        def answered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            from pyspark import TaskContext

            context = TaskContext.get()
            number = 0 if context is None else context.partitionId()
            parts = [pa.Table.from_batches([batch]) for batch in batches if batch.num_rows]
            if not parts:
                return
            name, answer, reason = f"partition {number:05d}", None, ""
            try:
                table = pa.concat_tables(parts)
                rows = np.column_stack([table.column(name).to_numpy().astype(np.float64) for name in columns])
                answer = Site(rows, name).answer(question)
            except Exception as error:  # the driver names the partition
                reason = f"{type(error).__name__}: {error}"
            arrays = [pa.array([name]), pa.array([answer], pa.binary()), pa.array([reason])]
            yield pa.RecordBatch.from_arrays(arrays, names=["site", "answer", "reason"])

        found = self._df.mapInArrow(answered, "site string, answer binary, reason string").collect()
        return {row["site"]: row["reason"] if row["answer"] is None else bytes(row["answer"]) for row in found}

    def close(self) -> None:
        """Release the table."""
        self._df.unpersist()
