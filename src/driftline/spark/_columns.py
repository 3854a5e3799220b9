"""Columns of a Spark table: their names in Spark's words, whether they are there, and what they hold."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["check_numbers", "check_order", "inner", "named", "outer", "quoted"]

_NUMERIC = ("byte", "short", "integer", "long", "float", "double", "decimal", "boolean")
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CODED = "_driftline_"  # begins names that stand for others
_ORDERED = (*_NUMERIC, "string", "date", "timestamp", "timestamp_ntz")


def quoted(name: str) -> str:
    """Return a name as Spark reads it: one with a dot would otherwise be a part of another column.

    >>> quoted("a.b`c")
    '`a.b``c`'
    """
    return "`" + name.replace("`", "``") + "`"


def inner(name: str) -> str:
    """Return a name that Spark takes for a column everywhere.

    PySpark does not quote names with a dot when it calls Python, and its states know only names of plain letters.

    >>> inner("a_b"), inner("a b"), outer(inner("a.b"))
    ('a_b', '_driftline_612062', 'a.b')
    """
    return name if _PLAIN.fullmatch(name) else f"{_CODED}{name.encode().hex()}"


def outer(name: str) -> str:
    """Return the name that :func:`inner` stands for."""
    coded = name.removeprefix(_CODED) if name.startswith(_CODED) else ""
    return bytes.fromhex(coded).decode() if re.fullmatch("([0-9a-f]{2})+", coded) else name


def named(df: DataFrame, names: Sequence[str]) -> DataFrame:
    """Return these columns of a table under their inner names."""
    from pyspark.sql.functions import col

    return df.select(*(col(quoted(name)).alias(inner(name)) for name in names))


def check_numbers(df: DataFrame, names: Sequence[str]) -> None:
    """Raise a ValueError unless a table has these columns, and they hold numbers or booleans."""
    lacking = [name for name in names if name not in df.columns]
    if lacking:
        raise ValueError(f"the table lacks the column(s) {lacking}")
    others = [name for name in names if df.schema[name].dataType.typeName() not in _NUMERIC]
    if others:
        kinds = [df.schema[name].dataType.simpleString() for name in others]
        raise ValueError(f"the column(s) {others} hold {kinds}, not numbers: encode them first, or leave them out")


def check_order(df: DataFrame, names: Sequence[str]) -> None:
    """Raise a ValueError unless rows can be ordered by these columns."""
    for name in names:
        kind = df.schema[name].dataType
        if kind.typeName() not in _ORDERED:
            raise ValueError(
                f"rows cannot be ordered by {name!r}, which holds {kind.simpleString()}: name a column of numbers, "
                "times or text"
            )
