"""Times: lengths, windows that follow the calendar, and columns of times in any form."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftline.sources import Batch, SourceError, WindowRule
from driftline.sources._time_columns import times_of
from driftline.sources._times import MISSING, Every, iso, span
from driftline.tables import Rows

SECOND = 10**9
HOUR = 3600 * SECOND
STRICT = WindowRule(time_column="ts", every="1d")
LENIENT = WindowRule(time_column="ts", every="1d", schema="lenient")


@pytest.mark.parametrize("length", ["15s", "30min", "7h", "1d", "3d", "1w", "2w", "1mo", "5mo"])
@given(times=st.lists(st.integers(-(2**63) + 1, 2**63 - 1), min_size=1))
def test_every_time_is_in_its_window(length: str, times: list[int]) -> None:
    every = Every(length)
    for time, index in zip(times, every.index(np.array(times)).tolist(), strict=True):
        assert every.start(index) <= time < every.start(index + 1)


def test_windows_begin_with_the_calendar() -> None:
    moment = datetime(2024, 5, 31, 17, 45, 50, tzinfo=UTC)
    ns = np.array([int(moment.timestamp()) * SECOND])
    begins = {
        length: iso(Every(length).start(int(Every(length).index(ns)[0]))) for length in ("30min", "6h", "1d", "1mo")
    }
    assert begins == {
        "30min": "2024-05-31T17:30:00Z",
        "6h": "2024-05-31T12:00:00Z",
        "1d": "2024-05-31T00:00:00Z",
        "1mo": "2024-05-01T00:00:00Z",
    }
    monday = Every("1w").start(int(Every("1w").index(ns)[0])) // SECOND
    assert datetime.fromtimestamp(monday, UTC) == datetime(2024, 5, 27, tzinfo=UTC)


@pytest.mark.parametrize("length", ["", "d", "0d", "1y", "-1d", "1.5h", "99999999999d", "2000mo"])
def test_what_is_not_a_length_of_time(length: str) -> None:
    with pytest.raises(ValueError, match=r"is not a length of time|is longer than"):
        Every(length)


def test_span() -> None:
    assert span("0s") == 0
    assert span("1w") == 7 * 86400 * SECOND
    with pytest.raises(ValueError, match="1mo"):
        span("1mo")


@pytest.mark.parametrize(
    "column",
    [
        pa.array([datetime(1970, 1, 1, 1), datetime(1970, 1, 2)], pa.timestamp("us")),
        pa.array([datetime(1970, 1, 1, 1), datetime(1970, 1, 2)], pa.timestamp("s")),
        pa.array(pd.to_datetime(["1970-01-01T03:00+02:00", "1970-01-02T02:00+02:00"])),
        pa.array(["1970-01-01T01:00", "1970-01-02"]),
        pa.array([" 1970-01-01 01:00:00.000 ", "1970-01-02T00:00:00Z"]),
        pa.array(["1970-01-01T02:00:00+0100", "1970-01-01T23:00:00-01:00"]).dictionary_encode(),
        pa.array(["3600", "86400.0"], pa.large_string()),
        pa.array([3600, 86400], pa.int32()),
        pa.array([3600, 86400], pa.uint64()),
        pa.array([3600.0, 86400.0]),
        pa.array([3600, 86400]).cast(pa.decimal128(30, 2)),
    ],
    ids=lambda column: str(column.type),
)
def test_times_of_many_kinds(column: pa.Array) -> None:
    batch = Batch(Rows(pa.table({"ts": column})), None, 0)
    assert times_of(batch, STRICT).tolist() == [HOUR, 24 * HOUR]


@pytest.mark.parametrize("unit", [10**3, 10**6, 10**9])
def test_numbers_since_1970_are_read_by_their_size(unit: int) -> None:
    """In milliseconds, microseconds and nanoseconds, whether the column has integers, floats, decimals or text."""
    wanted = [1_700_000_000 * SECOND, 130_000_000 * SECOND]  # 2023 and 1974
    whole = [1_700_000_000 * unit, 130_000_000 * unit]
    columns = [whole, [float(v) for v in whole], [str(v) for v in whole], pa.array(whole, pa.uint64())]
    for column in [*columns, pa.array(whole).cast(pa.decimal128(30, 2))]:
        batch = Batch(Rows(pa.table({"ts": column})), None, 0)
        assert times_of(batch, STRICT).tolist() == wanted
    batch = Batch(Rows(pa.table({"ts": [str(1_700_000_000_123_456_789)]})), None, 0)
    assert times_of(batch, STRICT).tolist() == [1_700_000_000_123_456_789]  # not rounded to a float


@pytest.mark.parametrize(
    ("texts", "wanted"),
    [
        (["2012/01/31", "2012/1/31", "2012.01.31", "2012-1-31"], "2012-01-31T00:00:00Z"),
        (["Jan 31 2012", "January 31, 2012", "31 Jan 2012", "31-jan-2012", "Jan. 31st 2012"], "2012-01-31T00:00:00Z"),
        (["2012/01/31 15:04", "2012-01-31 3:04 PM", "Jan 31 2012 03:04 p.m."], "2012-01-31T15:04:00Z"),
        (["Tue Jan 31 15:04:05 2012", "31/Jan/2012:16:04:05 +0100"], "2012-01-31T15:04:05Z"),
        (["Tue, 31 Jan 2012 15:04:05 GMT", "2012/01/31T15:04:05,25Z"], "2012-01-31T15:04:05Z"),
        (["2012-01", "Jan 2012", "2012/1"], "2012-01-01T00:00:00Z"),
        (["2012-01-31 12:00 AM"], "2012-01-31T00:00:00Z"),
    ],
)
def test_times_as_people_write_them(texts: list[str], wanted: str) -> None:
    found = times_of(Batch(Rows(pa.table({"ts": texts})), None, 0), STRICT)
    assert [iso(ns) for ns in found.tolist()] == [wanted] * len(texts)


def test_days_and_months_as_numbers_ask_for_their_order() -> None:
    asked = r"'01/02/2012' in row 2 of 'a.csv': say day_first='yes' if the day comes first, day_first='no' if the month"
    for rule in (STRICT, LENIENT):
        for other, hint in (("03/04/2012", "does$"), ("25/12/2012", "is yes"), ("12/25/2012 10:00", "is no")):
            batch = Batch(Rows(pa.table({"ts": ["2012-01-01", "01/02/2012", other]})), "a.csv", 0)
            with pytest.raises(SourceError, match=asked + ".*" + hint):
                times_of(batch, rule)
    for first, wanted in (("yes", "2012-02-01T00:00:00Z"), ("no", "2012-01-02T00:00:00Z")):
        rule = WindowRule(time_column="ts", every="1d", day_first=first)
        found = times_of(Batch(Rows(pa.table({"ts": ["01/02/2012", "1.2.2012"]})), None, 0), rule)
        assert [iso(ns) for ns in found.tolist()] == [wanted] * 2
        wrong = "12/25/2012" if first == "yes" else "25/12/2012"
        with pytest.raises(SourceError, match="is not a time"):
            times_of(Batch(Rows(pa.table({"ts": [wrong]})), None, 0), rule)


def test_a_year_alone_is_not_taken_for_seconds() -> None:
    for value in ("1955", 1955):
        with pytest.raises(SourceError, match="1955 in row 1 looks like a year: write it as 1955-01-01"):
            times_of(Batch(Rows(pa.table({"ts": [value]})), None, 0), STRICT)


def test_dates_and_fractions() -> None:
    day = datetime(2024, 2, 29, tzinfo=UTC)
    for kind in (pa.date32(), pa.date64()):
        batch = Batch(Rows(pa.table({"ts": pa.array([day.date()], kind)})), None, 0)
        assert times_of(batch, STRICT).tolist() == [int(day.timestamp()) * SECOND]
    batch = Batch(Rows(pa.table({"ts": [-0.25, 1.5]})), None, 0)
    assert times_of(batch, STRICT).tolist() == [-SECOND // 4, 3 * SECOND // 2]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (["1970-01-01", "31.12.70"], "'31.12.70' is not a time that can be read, such as .* in row 19 of 'a.csv'"),
        (["1970-01-01", "2024-13-01"], "'2024-13-01' is not a time"),
        (["1970-01-01", "Jam 3 2024"], "'Jam 3 2024' is not a time"),
        (["1970-01-01", "2024-01-01 13:00 PM"], "is not a time"),
        (["1970-01-01", None], "there is no time in row 19"),
        ([1.0, float("nan")], "nan is not a number of seconds, milliseconds, "),
        ([1, 5 * 10**10], "50000000000 is not a number of seconds"),  # seconds of the year 3554
        ([True, False], "holds bool"),
        (pa.array([0, 2**62], pa.timestamp("s")), "beyond the years 1678 to 2261"),
        ([[1], [2]], "holds list"),
    ],
)
def test_times_that_cannot_be_read(column: Any, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        times_of(Batch(Rows(pa.table({"ts": column})), "a.csv", 17), STRICT)


def test_unreadable_times_are_missing_where_lenient() -> None:
    texts = ["nonsense", "1970-01-01", "2024-02-30", None, "1970-01-01T25:00", "1", "inf", "1e300"]
    found = times_of(Batch(Rows(pa.table({"ts": texts})), None, 0), LENIENT)
    assert found.tolist() == [MISSING, 0, MISSING, MISSING, MISSING, SECOND, MISSING, MISSING]


def test_a_date_of_digits_alone_is_not_taken_for_seconds() -> None:
    for value in ("20240531", 20240531):
        with pytest.raises(SourceError, match="20240531 in row 1 looks like the day 2024-05-31"):
            times_of(Batch(Rows(pa.table({"ts": [value]})), None, 0), LENIENT)
    assert times_of(Batch(Rows(pa.table({"ts": [20240531]})), None, 1), STRICT).tolist() == [20240531 * SECOND]


def test_no_time_column() -> None:
    with pytest.raises(SourceError, match=r"no time column 'ts' in 'a.csv': the columns are x, y"):
        times_of(Batch(Rows(pa.table({"x": [1], "y": [2]})), "a.csv", 0), LENIENT)
