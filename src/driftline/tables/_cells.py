"""Cells of Arrow columns of any type as numbers, labels and times; unreadable cells are reported with their rows.

Arrow's types are grouped into families: ``number`` (integers, floats, decimals, durations and times of day in
seconds), ``boolean``, ``text``, ``time`` (dates and timestamps; those without a zone are UTC) and ``null``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from driftline._errors import DriftlineError

__all__ = [
    "FAMILIES",
    "NOTED_ERRORS",
    "NOTED_ROWS",
    "Floats",
    "Read",
    "TableError",
    "Times",
    "Unreadable",
    "column_names",
    "column_of",
    "counted",
    "example",
    "family_of",
    "filled",
    "guarded",
    "pa",
    "pc",
    "percent",
    "quoted",
    "read_booleans",
    "read_labels",
    "read_numbers",
    "read_times",
]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

FAMILIES = ("number", "boolean", "text", "time", "null")

_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_DAY = 86400
_NUMBER = r"^[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|(?i:inf|infinity|nan))$"
_ZONE = r"\d[T ].*(?:Z|[+-]\d\d(?::?\d\d)?)$"
_FRACTION = r"(:\d\d)[.,]\d+"
_QUOTABLE = 10  # least rows with a value before a note, which is kept, may show that value
_EXACT = 2.0**53  # up to here, double precision holds every integer exactly
NOTED_ROWS, NOTED_ERRORS = 10, 3.0  # least rows, and standard errors above the first window, to note a rise of a share
_WHOLE = r"^[+-]?\d+$"


class TableError(DriftlineError):
    """Table that cannot be encoded; the message names the column and, where possible, the row."""


class Unreadable(NamedTuple):
    """Cells that are not of their column's kind: their indices (from 0), and the first one's value and row (from 1)."""

    at: Ints
    value: str
    row: int


class Read(NamedTuple):
    """A column as numbers (n,), nan where missing; the number of infinite cells (nan too), and the unreadable ones.

    ``inexact`` is the number of integers beyond 2^53, of which double precision holds only some.
    """

    values: Floats
    infinite: int = 0
    bad: Unreadable | None = None
    inexact: int = 0

    @property
    def absent(self) -> int:
        """Number of cells without a value."""
        return int(np.count_nonzero(np.isnan(self.values)))


class Times(NamedTuple):
    """A column as days since 1970 and seconds of the day, (n,) each, UTC; 0 where missing."""

    days: Ints
    seconds: Ints
    missing: npt.NDArray[np.bool_]
    bad: Unreadable | None = None


def quoted(value: object, most: int = 40) -> str:
    """Quote a value for a message, cut off after ``most`` characters."""
    text = str(value)
    return repr(text if len(text) <= most else text[:most] + "…")


def percent(share: float) -> str:
    """Format a share: 0.2 %, 14 %."""
    return f"{100.0 * share:{'.2g' if share < 0.1 else '.0f'}} %"


def counted(labels: Any) -> dict[str, int]:
    """Count each value, the most frequent first, equally frequent ones by name; missing ones are left out."""
    found = pc.value_counts(labels.drop_null())
    values, counts = found.field("values").to_pylist(), found.field("counts").to_pylist()
    return dict(sorted(zip(values, counts, strict=True), key=lambda pair: (-pair[1], pair[0])))


def example(counts: Mapping[str, int]) -> str:
    """Quote the most frequent value for a note, if enough rows hold it not to expose any of them; else return "".

    >>> example({"cash": 12, "Bob": 1}), example({"Bob": 9})
    (", such as 'cash'", '')
    """
    value = max(counts, key=lambda v: counts[v], default="")
    return f", such as {quoted(value)}" if counts.get(value, 0) >= _QUOTABLE else ""


def column_names(table: Any) -> list[str]:
    """Return the names of a table's columns; a name that occurs twice is an error."""
    if not isinstance(table, pa.Table):
        raise TableError(f"expected a pyarrow.Table, not a {type(table).__name__}")
    names: list[str] = table.column_names
    if len(set(names)) < len(names):
        twice, times = Counter(names).most_common(1)[0]
        raise TableError(f"column {twice!r} occurs {times} times: columns need different names")
    return names


def column_of(table: Any, name: str) -> Any:
    """Return one column as a plain type: without dictionaries, run ends, views and extension types."""
    column = table.column(name)
    try:
        for _ in range(8):  # wrappers inside wrappers
            kind = column.type
            if isinstance(kind, pa.BaseExtensionType):
                chunks = [chunk.storage for chunk in column.chunks]
                column = pa.chunked_array(chunks, type=kind.storage_type)
            elif pa.types.is_dictionary(kind):
                column = column.cast(kind.value_type)
            elif pa.types.is_run_end_encoded(kind):
                column = pa.chunked_array([pc.run_end_decode(c) for c in column.chunks], type=kind.value_type)
            elif pa.types.is_string_view(kind):
                column = column.cast(pa.large_string())
            else:
                break
    except (pa.ArrowException, ValueError) as error:
        raise TableError(
            "column {column!r} cannot be read: {what}: {error}",
            column=name,
            what=str(table.schema.field(name).type),
            error=error,
        ) from None
    return column


def family_of(column: Any) -> str:
    """Return the family of a plain column's type; ``"other"`` for nested and binary types, which nothing can read."""
    kind, is_ = column.type, pa.types
    if is_.is_null(kind) or column.null_count == len(column):
        return "null"
    if is_.is_boolean(kind):
        return "boolean"
    if is_.is_integer(kind) or is_.is_floating(kind) or is_.is_decimal(kind) or is_.is_duration(kind):
        return "number"
    if is_.is_time(kind):
        return "number"
    if is_.is_string(kind) or is_.is_large_string(kind):
        return "text"
    return "time" if is_.is_timestamp(kind) or is_.is_date(kind) else "other"


def guarded(name: str, action: Any) -> Any:
    """Run an action; name the column if Arrow itself refuses it, such as text that is not UTF-8."""
    try:
        return action()
    except (pa.ArrowException, UnicodeError) as error:
        raise TableError(f"column {name!r} cannot be read: {error}") from None


def filled(column: Any) -> int:
    """Count the cells of a plain column that hold a value; floating-point numbers only if they are finite."""
    if pa.types.is_floating(column.type):
        return int(np.isfinite(_plain_numbers(column, "number")).sum())
    return len(column) - int(column.null_count)


def read_numbers(column: Any, family: str) -> Read:
    """Read cells as double precision; infinite ones are missing, text that is not a number is unreadable."""
    if family == "text":
        values, bad = _parsed_numbers(column)
    else:
        values, bad = _plain_numbers(column, family), None
    infinite = np.isinf(values)
    if infinite.any():
        values = np.where(infinite, np.nan, values)
    return Read(values, int(infinite.sum()), bad, _inexact(column, family, values))


def _inexact(column: Any, family: str, values: Floats) -> int:
    """Count integers that double precision may have rounded."""
    far = np.abs(values) > _EXACT
    if not far.any() or pa.types.is_floating(column.type):
        return 0
    if family == "text":  # a number with a point or an exponent was never exact
        whole = pc.match_substring_regex(pc.utf8_trim_whitespace(column), _WHOLE)
        far &= np.asarray(pc.fill_null(whole, False).to_numpy(), dtype=bool)
    return int(far.sum())


def _plain_numbers(column: Any, family: str) -> Floats:
    kind, per_second = column.type, 1
    if family == "null":
        return np.full(len(column), np.nan)
    if pa.types.is_duration(kind) or pa.types.is_time(kind):
        per_second = _PER_SECOND[kind.unit]
        column = column.cast(pa.int32() if pa.types.is_time32(kind) else pa.int64())
    if pa.types.is_boolean(kind):
        column = column.cast(pa.uint8())
    if not pa.types.is_float16(kind):
        column = column.cast(pa.float64(), safe=False)
    values: Floats = np.asarray(column.to_numpy(), dtype=np.float64)
    return values / per_second if per_second > 1 else values


def _parsed_numbers(column: Any) -> tuple[Floats, Unreadable | None]:
    text = pc.utf8_trim_whitespace(column)
    try:
        return np.asarray(text.cast(pa.float64()).to_numpy(), dtype=np.float64), None
    except pa.ArrowInvalid:
        readable = pc.match_substring_regex(text, _NUMBER)
    kept = pc.if_else(readable, text, pa.scalar(None, text.type)).cast(pa.float64())
    return np.asarray(kept.to_numpy(), dtype=np.float64), _unreadable(column, readable)


def _unreadable(column: Any, readable: Any) -> Unreadable | None:
    bad = np.flatnonzero(pc.invert(pc.fill_null(readable, True)).to_numpy())
    return Unreadable(bad, str(column[int(bad[0])].as_py()), int(bad[0]) + 1) if len(bad) else None


def read_booleans(column: Any, family: str) -> Read:
    """Read cells as 0 and 1: booleans, the texts true and false in any case, and the numbers 0 and 1."""
    if family == "number":
        numbers = read_numbers(column, family)
        bad = np.flatnonzero(~np.isnan(numbers.values) & (numbers.values != 0.0) & (numbers.values != 1.0))
        if not len(bad):
            return numbers
        first = Unreadable(bad, f"{numbers.values[bad[0]]:.6g}", int(bad[0]) + 1)
        values = numbers.values.copy()  # the array may be Arrow's own memory
        values[bad] = np.nan
        return Read(values, numbers.infinite, first)
    if family != "text":
        return Read(_plain_numbers(column, family))
    text = pc.utf8_lower(pc.utf8_trim_whitespace(column))
    true, false = pc.equal(text, "true"), pc.equal(text, "false")
    known = pc.or_(true, false)
    flags = pc.if_else(known, true, pa.scalar(None, pa.bool_()))
    return Read(_plain_numbers(flags, "boolean"), 0, _unreadable(column, known))


def read_labels(column: Any, family: str) -> Any:
    """Read cells as text, null where missing. Whole numbers read the same as integers and as floats."""
    kind = column.type
    if family in ("text", "null"):
        return column if family == "text" else pa.chunked_array([pa.nulls(len(column), pa.string())])
    if pa.types.is_integer(kind) or family == "boolean":
        return column.cast(pa.string())
    numbers = _plain_numbers(column, family)
    absent = np.isnan(numbers)
    whole = ~absent & (np.abs(numbers) < _EXACT) & (numbers == np.floor(numbers))
    as_integers = pa.array(np.where(whole, numbers, 0.0).astype(np.int64), mask=~whole).cast(pa.string())
    source = column if pa.types.is_float32(kind) else pa.chunked_array([pa.array(numbers)])
    as_floats = source.cast(pa.string())
    text = pc.if_else(pa.array(whole), as_integers, as_floats)
    return pc.if_else(pa.array(absent), pa.scalar(None, pa.string()), text)


def read_times(column: Any, family: str) -> Times:
    """Read cells as UTC days and seconds; text must be ISO 8601, with or without a zone."""
    bad = None
    if family == "text":
        column, bad = _parsed_times(column)
    kind = column.type
    missing = column.is_null().to_numpy().astype(bool)
    if family == "null" or pa.types.is_null(kind):
        nothing = np.zeros(len(column), dtype=np.int64)
        return Times(nothing, nothing, missing, bad)
    if pa.types.is_date32(kind):
        counts, per_day = column.cast(pa.int32()).cast(pa.int64()), 1
    else:
        per_day = _DAY * (1000 if pa.types.is_date64(kind) else _PER_SECOND[kind.unit])
        counts = column.cast(pa.int64())
    since = np.asarray(pc.fill_null(counts, 0).to_numpy(), dtype=np.int64)
    days = since // per_day
    seconds = (since - days * per_day) // max(1, per_day // _DAY) if per_day > 1 else np.zeros_like(days)
    return Times(days, seconds, missing, bad)


def _parsed_times(column: Any) -> tuple[Any, Unreadable | None]:
    text = pc.replace_substring_regex(pc.utf8_trim_whitespace(column), _FRACTION, r"\1")
    try:
        return _cast_times(text), None
    except pa.ArrowInvalid:
        pass
    unique = pc.unique(text).drop_null()
    readable = [value for value in unique.to_pylist() if _is_time(value)]
    known = pc.is_in(text, value_set=pa.array(readable, text.type))
    known = pc.if_else(text.is_null(), pa.scalar(None, pa.bool_()), known)
    return _cast_times(pc.if_else(known, text, pa.scalar(None, text.type))), _unreadable(column, known)


def _is_time(value: str) -> bool:
    if not re.match(r"\d{4}-", value):
        return False
    try:
        _cast_times(pa.chunked_array([[value]]))
    except pa.ArrowInvalid:
        return False
    return True


def _cast_times(text: Any) -> Any:
    """Cast ISO text to timestamps in UTC; texts with and without a zone may be mixed."""
    nothing, zoned = pa.scalar(None, text.type), pc.match_substring_regex(text, _ZONE)
    naive = pc.if_else(zoned, nothing, text).cast(pa.timestamp("s"))
    aware = pc.if_else(zoned, text, nothing).cast(pa.timestamp("s", "UTC"))
    return pc.coalesce(naive.cast(pa.int64()), aware.cast(pa.int64())).cast(pa.timestamp("s"))
