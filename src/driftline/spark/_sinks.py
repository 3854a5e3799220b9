"""Records of a stream in a table, each exactly once, whatever was stopped in between."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["write_once"]


def write_once(path: str) -> Callable[[DataFrame, int], None]:
    """Return a function for ``foreachBatch`` that writes Records to a Parquet table, a folder for each micro-batch.

    A query that was stopped in the middle of a micro-batch takes it again, with the same number, the same rows and the
    same states: what it had written is replaced by the same Records. Read the table with ``spark.read.parquet(path)``.

    Arguments:
        path: folder of the table. A query that begins anew, without its checkpoint, needs another one.
    """

    def write(batch: DataFrame, number: int) -> None:
        batch.write.mode("overwrite").parquet(f"{path.rstrip('/')}/batch={number}")

    return write
