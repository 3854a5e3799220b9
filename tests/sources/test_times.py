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

from driftline.sources import Batch, SourceError
from driftline.sources._times import MISSING, Every, iso, span, times_of
from driftline.tables import Rows

SECOND = 10**9
HOUR = 3600 * SECOND


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
    assert times_of(batch, "ts", strict=True).tolist() == [HOUR, 24 * HOUR]


def test_dates_and_fractions() -> None:
    day = datetime(2024, 2, 29, tzinfo=UTC)
    for kind in (pa.date32(), pa.date64()):
        batch = Batch(Rows(pa.table({"ts": pa.array([day.date()], kind)})), None, 0)
        assert times_of(batch, "ts", strict=True).tolist() == [int(day.timestamp()) * SECOND]
    batch = Batch(Rows(pa.table({"ts": [-0.25, 1.5]})), None, 0)
    assert times_of(batch, "ts", strict=True).tolist() == [-SECOND // 4, 3 * SECOND // 2]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (["1970-01-01", "31.12.1970"], "'31.12.1970' is neither a time in ISO 8601 .* in row 19 of 'a.csv'"),
        (["1970-01-01", "2024-13-01"], "'2024-13-01' is neither"),
        (["1970-01-01", None], "there is no time in row 19"),
        ([1.0, float("nan")], "is not seconds since 1970"),
        ([1, 1_700_000_000_000], "1700000000000 looks like milliseconds since 1970, but seconds are expected"),
        (["1", "1700000000000"], "1700000000000 looks like milliseconds since 1970, but seconds are expected"),
        ([1, 10**15], "1000000000000000 is not seconds since 1970"),
        ([True, False], "holds bool"),
        (pa.array([0, 2**62], pa.timestamp("s")), "beyond the years 1678 to 2261"),
        ([[1], [2]], "holds list"),
    ],
)
def test_times_that_cannot_be_read(column: Any, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        times_of(Batch(Rows(pa.table({"ts": column})), "a.csv", 17), "ts", strict=True)


def test_unreadable_times_are_missing_where_lenient() -> None:
    texts = ["nonsense", "1970-01-01", "2024-02-30", None, "1970-01-01T25:00", "1", "inf", "1e300"]
    found = times_of(Batch(Rows(pa.table({"ts": texts})), None, 0), "ts", strict=False)
    assert found.tolist() == [MISSING, 0, MISSING, MISSING, MISSING, SECOND, MISSING, MISSING]


def test_a_date_of_digits_alone_is_not_taken_for_seconds() -> None:
    for value in ("20240531", 20240531):
        with pytest.raises(SourceError, match="20240531 in row 1 looks like the day 2024-05-31"):
            times_of(Batch(Rows(pa.table({"ts": [value]})), None, 0), "ts", strict=False)
    assert times_of(Batch(Rows(pa.table({"ts": [20240531]})), None, 1), "ts", strict=True).tolist() == [
        20240531 * SECOND
    ]


def test_no_time_column() -> None:
    with pytest.raises(SourceError, match=r"no time column 'ts' in 'a.csv': the columns are x, y"):
        times_of(Batch(Rows(pa.table({"x": [1], "y": [2]})), "a.csv", 0), "ts", strict=False)
