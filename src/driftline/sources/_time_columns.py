"""Columns of times in any form (timestamps, dates, text, numbers since 1970) as ns since 1970."""

from __future__ import annotations

from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from driftline._errors import Message, Option
from driftline.sources._batches import Batch, SourceError
from driftline.sources._dates import ambiguous, dates_of
from driftline.sources._times import MISSING
from driftline.sources._window_rule import WindowRule

__all__ = ["times_of"]

_NUMBER = r"^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$"
_WHOLE = r"^[+-]?(?:[0-9]{1,18}|[1-8][0-9]{18})$"  # those that 64 bits hold
_FURTHEST = 9_223_372_036.0  # seconds that fit in 64 bits of ns: the year 2262
_FINER = ((1e17, 1), (1e14, 10**3), (1e11, 10**6))  # numbers from here on are ns, µs, ms: as seconds, the year 5138
_UNITS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


def times_of(batch: Batch, rule: WindowRule) -> NDArray[np.int64]:
    """Return the times of a batch's rows in ns since 1970, UTC (times without a zone are taken as UTC).

    A null or unreadable time is an error if the rule's schema is strict, and ``MISSING`` otherwise. Numbers are seconds
    or, by their size, milliseconds, microseconds or nanoseconds since 1970.

    >>> from driftline.tables import Rows
    >>> table = pa.table({"ts": ["1970-01-01", "1970-01-01T02:00+01:00"]})
    >>> times_of(Batch(Rows(table), None, 0), WindowRule(time_column="ts", every="1d")).tolist()
    [0, 3600000000000]
    """
    table, column, strict = batch.table, rule.time_column or "", rule.schema == "strict"
    if column not in table.column_names:
        if batch.rows.sparse and not strict:
            return np.full(table.num_rows, MISSING)
        where = "" if batch.file is None else f" in {batch.file!r}"
        raise SourceError(f"there is no time column {column!r}{where}: the columns are {', '.join(table.column_names)}")
    values = table.column(column)
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        values = pc.utf8_trim_whitespace(values)
    _refuse_digits(values, column, batch)
    out = _read(values, batch, rule)
    missing = out == MISSING
    if strict and missing.any():
        row = int(np.argmax(missing))
        raise SourceError(f"time column {column!r}: {_complaint(values, row)} in {batch.place(row)}")
    return out


def _refuse_digits(values: pa.ChunkedArray, column: str, batch: Batch) -> None:
    """Refuse 20240531 and 2024 at the beginning of a file: as seconds since 1970 they would be moments of that year."""
    if batch.row or pa.types.is_temporal(values.type) or not len(values) or not values[0].is_valid:
        return
    text = str(values[0]).strip().removesuffix(".0")
    if len(text) == 4 and text.isdecimal() and 1500 <= int(text) <= 2500:
        raise SourceError(
            f"time column {column!r}: {text} in {batch.place(0)} looks like a year: write it as {text}-01-01, or cut "
            "windows by rows"
        )
    if len(text) == 8 and text[:2] in ("19", "20") and text.isdecimal():
        try:
            day = datetime.strptime(text, "%Y%m%d").date()
        except ValueError:
            return
        raise SourceError(
            f"time column {column!r}: {text} in {batch.place(0)} looks like the day {day}: write it like that"
        )


def _read(values: pa.ChunkedArray, batch: Batch, rule: WindowRule) -> NDArray[np.int64]:
    kind = values.type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return _from_timestamps(values)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _from_text(values, batch, rule)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return _from_numbers(values)
    if pa.types.is_null(kind):
        return np.full(len(values), MISSING)
    raise SourceError(
        f"time column {rule.time_column!r} holds {kind}: expected times, dates, text such as 2024-05-31T08:15:00, or "
        "numbers since 1970"
    )


def _from_timestamps(values: pa.ChunkedArray) -> NDArray[np.int64]:
    if pa.types.is_date(values.type):
        values = values.cast(pa.timestamp("s" if pa.types.is_date32(values.type) else "ms"))
    return _scaled(_filled(values.cast(pa.int64())), _UNITS[values.type.unit])


def _from_numbers(values: pa.ChunkedArray) -> NDArray[np.int64]:
    if pa.types.is_integer(values.type) and not pa.types.is_uint64(values.type):
        return _from_whole(_filled(values.cast(pa.int64())))
    floats = values.cast(pa.float64(), safe=False)
    return _from_floats(pc.fill_null(floats, np.nan).to_numpy())


def _from_whole(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    unit, _ = _finer(np.abs(numbers.astype(float)))
    return np.where(numbers == MISSING, MISSING, _scaled(numbers, unit))


def _from_floats(numbers: NDArray[np.float64]) -> NDArray[np.int64]:
    unit, per_second = _finer(np.abs(numbers))
    fits = np.abs(numbers) < _FURTHEST * per_second  # nan does not fit
    numbers = np.where(fits, numbers, 0.0)
    whole = np.floor(numbers)  # separate from the fraction, so that the fraction keeps its full precision
    rest = np.rint((numbers - whole) * unit).astype(np.int64)
    return np.where(fits, whole.astype(np.int64) * unit + rest, MISSING)


def _finer(size: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the ns in a unit of numbers of this size, and the units in a second."""
    unit = np.full(len(size), 10**9)
    for least, ns in reversed(_FINER):
        unit[size >= least] = ns
    return unit, 1e9 / unit


def _scaled(counts: NDArray[np.int64], unit: NDArray[np.int64] | int) -> NDArray[np.int64]:
    limit = np.iinfo(np.int64).max // unit
    fits = (counts >= -limit) & (counts <= limit)
    return np.asarray(np.where(fits, np.where(fits, counts, 0) * unit, MISSING), np.int64)


def _from_text(texts: pa.ChunkedArray, batch: Batch, rule: WindowRule) -> NDArray[np.int64]:
    out = np.full(len(texts), MISSING)
    number = _true(pc.match_substring_regex(texts, _NUMBER))
    if number.any():
        whole = _true(pc.match_substring_regex(texts, _WHOLE))
        exact = number & whole
        out[exact] = _from_whole(np.asarray(texts.filter(pa.array(exact)).cast(pa.int64()).to_numpy(), np.int64))
        other = number & ~whole
        out[other] = _from_floats(texts.filter(pa.array(other)).cast(pa.float64()).to_numpy())
    if number.all():
        return out
    dates = dates_of(texts, None if rule.day_first is None else rule.day_first == "yes")
    out = np.where(number, out, dates)
    if rule.day_first is None and (out == MISSING).any():
        _ask_for_order(texts, batch, rule)
    return out


def _ask_for_order(texts: pa.ChunkedArray, batch: Batch, rule: WindowRule) -> None:
    """Refuse 01/02/2012 until it is known whether days or months come first."""
    found = ambiguous(texts)
    if found is None:
        return
    row, shown = found
    hint = "" if shown is None else f" (other rows show that it is {'yes' if shown else 'no'})"
    raise SourceError(
        "time column {column!r}: {text!r} in {place}: {advice}{hint}",
        column=rule.time_column,
        text=str(texts[row])[:60],
        place=batch.place(row),
        advice=Message(
            "say {yes} if the day comes first, {no} if the month does",
            yes=Option("day_first", "yes"),
            no=Option("day_first", "no"),
        ),
        hint=hint,
    )


def _filled(values: pa.ChunkedArray) -> NDArray[np.int64]:
    return np.asarray(pc.fill_null(values, int(MISSING)).to_numpy(), np.int64)


def _true(mask: pa.ChunkedArray) -> NDArray[np.bool_]:
    return np.asarray(pc.fill_null(mask, False).to_numpy(), bool)


def _complaint(values: pa.ChunkedArray, row: int) -> str:
    if not values[row].is_valid:
        return "there is no time"
    if pa.types.is_timestamp(values.type) or pa.types.is_date(values.type):
        return "a time beyond the years 1678 to 2261"
    shown = str(values[row])
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        return f"{shown[:60]!r} is not a time that can be read, such as 2024-05-31T08:15:00 or seconds since 1970"
    return f"{shown} is not a number of seconds, milliseconds, microseconds or nanoseconds since 1970"
