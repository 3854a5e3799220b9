"""Columns of a Spark table: whether they are there, and numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["check_numbers"]

_NUMERIC = ("byte", "short", "integer", "long", "float", "double", "decimal", "boolean")


def check_numbers(df: DataFrame, names: Sequence[str]) -> None:
    """Raise a ValueError unless a table has these columns, and they hold numbers or booleans."""
    lacking = [name for name in names if name not in df.columns]
    if lacking:
        raise ValueError(f"the table lacks the column(s) {lacking}")
    others = [name for name in names if df.schema[name].dataType.typeName() not in _NUMERIC]
    if others:
        kinds = [df.schema[name].dataType.simpleString() for name in others]
        raise ValueError(f"the column(s) {others} hold {kinds}, not numbers: encode them first, or leave them out")
