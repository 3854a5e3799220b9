"""Times in ns since 1970: lengths of time, windows that follow the calendar, and columns of times in any form."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from driftline.sources._batches import Batch, SourceError

__all__ = ["MISSING", "Every", "iso", "span", "times_of"]

MISSING = np.iinfo(np.int64).min  # numpy's mark of a missing time (NaT)
_DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ]|$)"
_ZONED = r"[T ][0-9]{2}.*(?:Z|[+-][0-9]{2}(?::?[0-9]{2})?)$"
_NUMBER = r"^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$"
_MILLISECONDS = 1e11  # larger numbers look like milliseconds: as seconds, this is the year 5138
_FURTHEST = 9_223_372_036.0  # seconds that fit in 64 bits of ns: the year 2262
_SECOND = 10**9
_UNITS = {"s": _SECOND, "min": 60 * _SECOND, "h": 3600 * _SECOND, "d": 86400 * _SECOND, "w": 7 * 86400 * _SECOND}
_MONDAY = -3 * 86400 * _SECOND  # the Monday before 1970 began, on a Thursday
_LONGEST = 2**62  # ns, about 146 years


def span(length: str) -> int:
    """Return a length of time in ns.

    >>> span("2min")
    120000000000
    """
    match = re.fullmatch(r"([0-9]+)(s|min|h|d|w)", length)
    if match is None:
        raise ValueError(f"{length!r} is not a length of time: a number and s, min, h, d or w")
    value = int(match[1]) * _UNITS[match[2]]
    if value > _LONGEST:
        raise ValueError(f"{length!r} is longer than {_LONGEST // _UNITS['d'] // 365} years")
    return value


def iso(ns: int) -> str:
    """Format a time in ns since 1970 as ISO 8601, to the second, in UTC."""
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=ns // _SECOND)
    return moment.isoformat().replace("+00:00", "Z")


@dataclass(frozen=True)
class Every:
    """Windows of one length (15s, 30min, 6h, 1d, 1w, 1mo) that start with the calendar's days, Mondays or months.

    Multiples of a unit, such as 6h or 2w, are counted from 1970 (weeks from the Monday before). All in UTC.

    >>> import numpy as np
    >>> month = Every("1mo")
    >>> month.index(np.array([0, 40 * 86400 * 10**9])).tolist(), iso(month.start(1))
    ([0, 1], '1970-02-01T00:00:00Z')
    """

    length: str

    def __post_init__(self) -> None:
        match = re.fullmatch(r"([1-9][0-9]*)(s|min|h|d|w|mo)", self.length)
        if match is None:
            raise ValueError(f"{self.length!r} is not a length of time: a number and s, min, h, d, w or mo")
        if self._months:
            if self._months > 1200:
                raise ValueError(f"{self.length!r} is longer than 100 years")
        else:
            span(self.length)

    @property
    def _months(self) -> int:
        return int(self.length[:-2]) if self.length.endswith("mo") else 0

    @property
    def _origin(self) -> int:
        return _MONDAY if self.length.endswith("w") else 0

    def index(self, times: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the index of the window that holds each time (ns since 1970)."""
        if self._months:
            months = times.astype("datetime64[ns]").astype("datetime64[M]").astype(np.int64)
            return np.asarray(months // self._months, np.int64)
        length = span(self.length)
        # the origin is subtracted as whole windows and a remainder, so that nothing overflows near the ends of time
        whole, rest = np.divmod(times, length)
        shift, over = divmod(-self._origin, length)
        return np.asarray(whole + shift + (rest >= length - over if over else 0), np.int64)

    def start(self, index: int) -> int:
        """Return the start of a window, in ns since 1970."""
        if not self._months:
            return index * span(self.length) + self._origin
        year, month = divmod(index * self._months, 12)
        moment = datetime(1970 + year, month + 1, 1, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)
        return moment.days * _UNITS["d"]


def times_of(batch: Batch, column: str, *, strict: bool) -> NDArray[np.int64]:
    """Return the times of a batch's rows in ns since 1970, UTC (times without a zone are taken as UTC).

    A null or unreadable time is an error if ``strict``, and ``MISSING`` otherwise.

    >>> from driftline.tables import Rows
    >>> table = pa.table({"ts": ["1970-01-01", "1970-01-01T02:00+01:00"]})
    >>> times_of(Batch(Rows(table), None, 0), "ts", strict=True).tolist()
    [0, 3600000000000]
    """
    table = batch.table
    if column not in table.column_names:
        if batch.rows.sparse and not strict:
            return np.full(table.num_rows, MISSING)
        where = "" if batch.file is None else f" in {batch.file!r}"
        raise SourceError(f"there is no time column {column!r}{where}: the columns are {', '.join(table.column_names)}")
    values = table.column(column)
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    _refuse_digits(values, column, batch)
    out = _read(values, column)
    missing = out == MISSING
    if strict and missing.any():
        row = int(np.argmax(missing))
        raise SourceError(f"time column {column!r}: {_complaint(values, row)} in {batch.place(row)}")
    return out


def _refuse_digits(values: pa.ChunkedArray, column: str, batch: Batch) -> None:
    """Refuse 20240531 at the beginning of a file: as seconds since 1970 it would be a day in August of that year."""
    if batch.row or pa.types.is_temporal(values.type) or not len(values) or not values[0].is_valid:
        return
    text = str(values[0]).strip().removesuffix(".0")
    if len(text) == 8 and text[:2] in ("19", "20") and text.isdecimal():
        try:
            day = datetime.strptime(text, "%Y%m%d").date()
        except ValueError:
            return
        raise SourceError(
            f"time column {column!r}: {text} in {batch.place(0)} looks like the day {day}: write it like that"
        )


def _read(values: pa.ChunkedArray, column: str) -> NDArray[np.int64]:
    kind = values.type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return _from_timestamps(values)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _from_text(values)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return _from_seconds(values)
    if pa.types.is_null(kind):
        return np.full(len(values), MISSING)
    raise SourceError(
        f"time column {column!r} holds {kind}: expected times, dates, ISO 8601 text or seconds since 1970"
    )


def _from_timestamps(values: pa.ChunkedArray) -> NDArray[np.int64]:
    if pa.types.is_date(values.type):
        values = values.cast(pa.timestamp("s" if pa.types.is_date32(values.type) else "ms"))
    unit = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[values.type.unit]
    counts = _filled(values.cast(pa.int64()))
    limit = np.iinfo(np.int64).max // unit
    fits = (counts >= -limit) & (counts <= limit)
    return np.where(fits, np.where(fits, counts, 0) * unit, MISSING)


def _from_seconds(values: pa.ChunkedArray) -> NDArray[np.int64]:
    if pa.types.is_integer(values.type) and not pa.types.is_uint64(values.type):
        seconds = _filled(values.cast(pa.int64()))
        fits = np.abs(seconds.astype(float)) < _FURTHEST
        return np.where(fits, np.where(fits, seconds, 0) * 10**9, MISSING)
    floats = values.cast(pa.float64(), safe=False)
    return _from_floats(pc.fill_null(floats, np.nan).to_numpy())


def _from_floats(seconds: NDArray[np.float64]) -> NDArray[np.int64]:
    fits = np.abs(seconds) < _FURTHEST  # nan does not fit
    seconds = np.where(fits, seconds, 0.0)
    whole = np.floor(seconds)  # separate from the fraction, so that the fraction keeps its full precision
    return np.where(fits, whole.astype(np.int64) * 10**9 + np.rint((seconds - whole) * 1e9).astype(np.int64), MISSING)


def _from_text(values: pa.ChunkedArray) -> NDArray[np.int64]:
    values = pc.utf8_trim_whitespace(values)
    dated = _true(pc.match_substring_regex(values, _DATE))
    zoned = dated & _true(pc.match_substring_regex(values, _ZONED))
    number = _true(pc.match_substring_regex(values, _NUMBER))
    out = np.full(len(values), MISSING)
    for mask, kind in ((zoned, pa.timestamp("ns", "UTC")), (dated & ~zoned, pa.timestamp("ns"))):
        if mask.any():
            out[mask] = _parsed(values.filter(pa.array(mask)), kind)
    if number.any():
        out[number] = _from_floats(values.filter(pa.array(number)).cast(pa.float64()).to_numpy())
    return out


def _parsed(texts: pa.ChunkedArray, kind: pa.DataType) -> NDArray[np.int64]:
    try:
        return _filled(texts.cast(kind).cast(pa.int64()))
    except pa.ArrowException:
        pass
    if len(texts) == 1:
        return np.array([MISSING])
    half = len(texts) // 2  # few are unreadable: halving finds them
    return np.concatenate([_parsed(texts.slice(0, half), kind), _parsed(texts.slice(half), kind)])


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
    try:
        many = _MILLISECONDS < abs(float(shown)) < 1000.0 * _FURTHEST
    except ValueError:
        many = False
    if many:
        return f"{shown} looks like milliseconds since 1970, but seconds are expected: divide by 1000"
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        return f"{shown[:60]!r} is neither a time in ISO 8601 (such as 2024-05-31T08:15:00) nor seconds since 1970"
    return f"{shown} is not seconds since 1970"
