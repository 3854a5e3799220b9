"""Records of a stream in a table, each exactly once, whatever was stopped in between."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["write_once"]

_NUMBER = "batch"  # folders of micro-batches, which Spark reads as a column


def write_once(path: str) -> Callable[[DataFrame, int], None]:
    """Return a function for ``foreachBatch`` that writes Records to a Parquet table, a folder for each micro-batch.

    A query that was stopped in the middle of a micro-batch takes it again, with the same number, the same rows and the
    same states: what it had written is replaced by the same Records. Read the table with ``spark.read.parquet(path)``.

    Arguments:
        path: folder of the table, one for each checkpoint: a query that begins anew counts micro-batches from 0, and
            would replace what is there.
    """

    def write(batch: DataFrame, number: int) -> None:
        if _NUMBER in batch.columns:
            raise ValueError(
                f"the column {_NUMBER!r} would be replaced by the number of the micro-batch: rename the key"
            )
        batch.write.mode("overwrite").parquet(f"{path.rstrip('/')}/{_NUMBER}={number}")

    return write
