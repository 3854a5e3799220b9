"""Dates and times written as text, in the forms that exports commonly have, as ns since 1970."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from driftline.sources._times import MISSING

__all__ = ["ambiguous", "dates_of"]

_TIME = (
    r"(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?:[.,](?P<fraction>[0-9]{1,9})[0-9]*)?)?"
    r"(?: ?(?P<half>[AaPp]\.?[Mm]\.?))?(?: ?(?P<zone>Z|UTC|GMT|[+-][0-9]{2}(?::?[0-9]{2})?))?"
)
_LATER = rf"(?:(?:T|,? +){_TIME})?"
_WEEKDAY = r"(?:(?:[Mm]on|[Tt]ue|[Ww]ed|[Tt]hu|[Ff]ri|[Ss]at|[Ss]un)[a-z]*,? +)?"
_NAME = r"(?P<name>[A-Za-z]{3,9})\.?"
_DAY = r"(?P<day>[0-9]{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>[0-9]{4})"
_ISO = (
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"(?:[T ][0-9]{2}(?::?[0-9]{2}(?::?[0-9]{2}(?:\.[0-9]{1,9})?)?)?(?:Z|[+-][0-9]{2}(?::?[0-9]{2})?)?)?$"
)
_ZONED = r"[T ][0-9]{2}.*(?:Z|[+-][0-9]{2}(?::?[0-9]{2})?)$"
_FORMS = (
    rf"^{_YEAR}[-/.](?P<month>[0-9]{{1,2}})(?:[-/.]{_DAY})?{_LATER}$",  # 2012/01/31, 2012-1-31 3:04 PM, 2012-01
    rf"^{_WEEKDAY}{_NAME} +(?:{_DAY},? +)?{_YEAR}{_LATER}$",  # Jan 31 2012, January 31, 2012, Jan 2012
    rf"^{_WEEKDAY}{_NAME} +{_DAY} +{_TIME} +{_YEAR}$",  # Tue Jan 31 15:04:05 2012
    rf"^{_WEEKDAY}{_DAY}[-/ ]{_NAME},?[-/ ]{_YEAR}(?:(?:T|:|,? +){_TIME})?$",  # 31 Jan 2012, 31/Jan/2012:15:04:05 +0000
)
_NUMERIC = rf"^(?P<one>[0-9]{{1,2}})[-/.](?P<two>[0-9]{{1,2}})[-/.]{_YEAR}{_LATER}$"  # 31/01/2012 or 01/31/2012
_MONTHS = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
]
_SECOND = 10**9

Ints = NDArray[np.int64]


def dates_of(texts: pa.ChunkedArray, day_first: bool | None) -> Ints:
    """Return times in ns since 1970; MISSING where a text is not a time. Times without a zone are taken as UTC.

    >>> dates_of(pa.chunked_array([["1970/01/02", "Jan 1 1970 01:00", "02.01.1970"]]), True).tolist()
    [86400000000000, 3600000000000, 86400000000000]
    """
    out = _iso(texts)
    for form in (*_FORMS, *([] if day_first is None else [_NUMERIC])):
        unread = np.flatnonzero((out == MISSING) & _valid(texts))
        if not unread.size:
            break
        # one after the other: a column mostly has one form, and the first that fits leaves nothing to the others
        out[unread] = _in_form(texts.take(pa.array(unread)), form, bool(day_first))
    return out


def ambiguous(texts: pa.ChunkedArray) -> tuple[int, bool | None] | None:
    """Return the first text such as 01/02/2012, by its place, and whether another shows that days come first.

    >>> ambiguous(pa.chunked_array([["1970-01-01", "01/02/2012", "25/12/2012"]]))
    (1, True)
    """
    found = pc.extract_regex(texts, _NUMERIC)
    some = _valid(found)
    if not some.any():
        return None
    fields = _fields(found)
    one, two = _number(fields, "one"), _number(fields, "two")
    shown = True if (one > 12).any() else False if (two > 12).any() else None
    return int(np.argmax(some)), shown


def _iso(texts: pa.ChunkedArray) -> Ints:
    dated = _true(pc.match_substring_regex(texts, _ISO))
    zoned = dated & _true(pc.match_substring_regex(texts, _ZONED))
    out = np.full(len(texts), MISSING)
    for mask, kind in ((zoned, pa.timestamp("ns", "UTC")), (dated & ~zoned, pa.timestamp("ns"))):
        if mask.any():
            out[mask] = _parsed(texts.filter(pa.array(mask)), kind)
    return out


def _parsed(texts: pa.ChunkedArray, kind: pa.DataType) -> Ints:
    try:
        return np.asarray(texts.cast(kind).cast(pa.int64()).to_numpy(), np.int64)
    except pa.ArrowException:
        pass
    if len(texts) == 1:
        return np.array([MISSING])
    half = len(texts) // 2  # few are unreadable: halving finds them
    return np.concatenate([_parsed(texts.slice(0, half), kind), _parsed(texts.slice(half), kind)])


def _in_form(texts: pa.ChunkedArray, form: str, day_first: bool) -> Ints:
    found = pc.extract_regex(texts, form)
    known = _valid(found)
    out = np.full(len(texts), MISSING)
    if not known.any():
        return out
    fields = _fields(found.filter(pa.array(known)))
    if "one" in fields:
        order = ("day", "month") if day_first else ("month", "day")
        fields |= dict(zip(order, (fields["one"], fields["two"]), strict=True))
    month = _named_months(fields["name"]) if "name" in fields else _number(fields, "month")
    day = np.where(_given(fields, "day"), _number(fields, "day"), 1)
    days, right = _days(_number(fields, "year"), month, day)
    seconds, in_time = _seconds(fields)
    right &= in_time
    fraction = _fraction(fields)
    out[known] = np.where(right, (days * 86400 + np.where(right, seconds, 0)) * _SECOND + fraction, MISSING)
    return out


def _days(year: Ints, month: Ints, day: Ints) -> tuple[Ints, NDArray[np.bool_]]:
    """Return days since 1970, and whether there is such a day, in the years that 64 bits of ns can hold."""
    right = (year >= 1678) & (year <= 2261) & (month >= 1) & (month <= 12) & (day >= 1)
    months = np.where(right, (year - 1970) * 12 + month - 1, 0).astype("datetime64[M]")
    days = months.astype("datetime64[D]") + np.where(right, day - 1, 0).astype("timedelta64[D]")
    right &= days.astype("datetime64[M]") == months  # there is no 30 February
    return np.where(right, days.astype(np.int64), 0), right


def _seconds(fields: dict[str, pa.Array]) -> tuple[Ints, NDArray[np.bool_]]:
    """Return seconds since midnight, UTC, and whether the clock shows such a time."""
    hour, minute, second = (_number(fields, name) for name in ("hour", "minute", "second"))
    half = _texts(fields, "half")
    halves, later = half != "", np.char.startswith(np.char.lower(half), "p")
    right = (minute < 60) & (second < 60) & np.where(halves, (hour >= 1) & (hour <= 12), hour < 24)
    hour = np.where(halves, hour % 12 + 12 * later, hour)
    zone = _texts(fields, "zone")
    digits = np.char.replace(zone, ":", "")
    shifted = np.char.startswith(zone, "+") | np.char.startswith(zone, "-")
    shift = np.zeros(len(zone), np.int64)
    for text in set(digits[shifted].tolist()):
        size = int(text[1:3]) * 3600 + int(text[3:5] or 0) * 60
        shift[digits == text] = size if text[0] == "+" else -size
    return hour * 3600 + minute * 60 + second - shift, right


def _fraction(fields: dict[str, pa.Array]) -> Ints:
    """Return the fraction of a second, in ns."""
    digits = pc.utf8_rpad(pa.array(_texts(fields, "fraction")), 9, "0")
    return np.asarray(digits.cast(pa.int64()).to_numpy(), np.int64)


def _named_months(names: pa.Array) -> Ints:
    """Return the numbers of months, by English names or their first letters; 0 if there is no such month."""
    known = {month: i + 1 for i, month in enumerate(_MONTHS)}
    known |= {month[:3]: i for month, i in known.items()} | {"sept": 9}
    coded = names.dictionary_encode()
    numbers = np.array([known.get(str(name).lower(), 0) for name in coded.dictionary], np.int64)
    return np.asarray(numbers[coded.indices.to_numpy()], np.int64)


def _fields(found: pa.ChunkedArray) -> dict[str, pa.Array]:
    """Return the groups of a pattern, each as one array of texts."""
    whole = found.combine_chunks()
    return {field.name: pc.struct_field(whole, field.name) for field in whole.type}


def _given(fields: dict[str, pa.Array], name: str) -> NDArray[np.bool_]:
    return np.asarray(_texts(fields, name) != "", bool)


def _texts(fields: dict[str, pa.Array], name: str) -> NDArray[np.str_]:
    size = len(next(iter(fields.values())))
    if name not in fields:
        return np.full(size, "", "U1")
    return np.asarray(pc.fill_null(fields[name], "").to_numpy(zero_copy_only=False), str)


def _number(fields: dict[str, pa.Array], name: str) -> Ints:
    """Return a field as numbers; 0 where it is not given."""
    if name not in fields:
        return np.zeros(len(next(iter(fields.values()))), np.int64)
    texts = pc.fill_null(fields[name], "0")
    return np.asarray(pc.if_else(pc.equal(texts, ""), "0", texts).cast(pa.int64()).to_numpy(), np.int64)


def _valid(values: pa.ChunkedArray) -> NDArray[np.bool_]:
    return np.asarray(pc.is_valid(values).to_numpy(), bool)


def _true(mask: pa.ChunkedArray) -> NDArray[np.bool_]:
    return np.asarray(pc.fill_null(mask, False).to_numpy(), bool)
