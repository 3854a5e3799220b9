"""Windows: the same whatever the batches are, and wherever reading was interrupted."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from driftline.sources import Batch, Cursor, SourceError, Window, WindowRule, Windows, open_source
from driftline.sources import _clock as clock_module
from driftline.sources._clock import Clock
from driftline.sources._times import MISSING, Every, iso, span, times_of

SECOND = 10**9


def cut(table: pa.Table, sizes: list[int]) -> list[pa.Table]:
    pieces, start = [], 0
    for size in sizes:
        pieces.append(table.slice(start, size))
        start += size
    return [*pieces, table.slice(start)]


def seen(window: Window) -> tuple[Any, ...]:
    """All of a window that must not depend on how it was read; the cursor is tried by going on from it."""
    rows = window.table.column("row").to_pylist() if window.table.num_rows else []
    return rows, window.first_row, window.start, window.end, window.late_rows, window.note


def through_json(cursor: Cursor) -> Cursor:
    return Cursor.from_dict(json.loads(json.dumps(cursor.to_dict())))


def expected(times: list[int | None], length: int, lateness: int, flush: bool) -> list[tuple[Any, ...]]:
    """Windows as defined, row by row, with nothing clever; times and lengths in seconds."""
    newest: int | None = None
    rows: dict[int, list[int]] = {}
    late: dict[int, int] = {}
    untimed: dict[int, int] = {}
    out: list[tuple[Any, ...]] = []
    following: int | None = None

    def counted(counts: dict[int, int], stop: int) -> int:
        return sum(counts.pop(index) for index in list(counts) if index < stop)

    def emit(start: int, stop: int, found: list[int], first: int, note: str) -> None:
        nonlocal following
        following = stop
        gone = counted(untimed, stop)
        left = f"{gone} row{'' if gone == 1 else 's'} without a readable time left out" if gone else ""
        note = "; ".join(filter(None, (note, left)))
        span_ = iso(start * length * SECOND), iso(stop * length * SECOND)
        out.append((found, first, *span_, counted(late, stop), note))

    def close(floor: float) -> None:
        while rows:
            index = min(rows)
            if following is not None and following < index <= floor:
                first = min(found[0] for found in rows.values())
                gap = index - following
                emit(following, index, [], first, f"no rows for {gap} window{'' if gap == 1 else 's'}")
            elif index < floor:
                found = rows.pop(index)
                emit(index, index + 1, found, found[0], "")
            else:
                return

    for i, time in enumerate(times):
        if time is not None:
            newest = time if newest is None else max(newest, time)
        floor = -(10**18) if newest is None else (newest - lateness) // length
        if time is None:
            untimed[floor] = untimed.get(floor, 0) + 1
        elif time // length < floor:
            late[floor] = late.get(floor, 0) + 1
        else:
            rows.setdefault(time // length, []).append(i)
        close(floor)
    if flush:
        close(float("inf"))
    return out


@given(
    rows=st.integers(0, 120),
    size=st.integers(10, 40),
    sizes=st.lists(st.integers(0, 50), max_size=8),
    again=st.lists(st.integers(0, 50), max_size=8),
    flush=st.booleans(),
)
def test_windows_by_rows_from_any_batches_and_any_interruption(
    rows: int, size: int, sizes: list[int], again: list[int], flush: bool
) -> None:
    table = pa.table({"row": range(rows)})
    rule = WindowRule(window=size)
    windows = Windows(open_source(cut(table, sizes), replay=True), rule, flush=flush)
    found = list(windows)
    whole = rows // size
    assert [seen(w)[0] for w in found[:whole]] == [list(range(i * size, (i + 1) * size)) for i in range(whole)]
    assert [w.first_row for w in found] == [i * size for i in range(len(found))]
    assert len(found) == whole + (flush and rows % size > 0)
    assert windows.waiting == (0 if flush else rows % size)
    for k, window in enumerate(found):
        rest = Windows(open_source(cut(table, again), replay=True), rule, through_json(window.cursor), flush)
        assert [seen(w) for w in rest] == [seen(w) for w in found[k + 1 :]]


time_lists = st.lists(st.one_of(st.none(), st.integers(-60, 60), st.integers(-5000, 5000)), max_size=40)


@given(
    times=time_lists,
    length=st.sampled_from([1, 7, 10, 60]),
    lateness=st.sampled_from([0, 3, 10, 50]),
    sizes=st.lists(st.integers(0, 12), max_size=10),
    again=st.lists(st.integers(0, 12), max_size=10),
    flush=st.booleans(),
)
@example([1, 2, 11, 9, 14, 25, 3, None, 31, 90, 78], 10, 3, [4], [1, 1, 1], False)  # rows to pass over when read again
def test_windows_by_time_are_as_defined_and_survive_any_interruption(
    times: list[int | None], length: int, lateness: int, sizes: list[int], again: list[int], flush: bool
) -> None:
    table = pa.table({"row": range(len(times)), "t": pa.array(times, pa.int64())})
    rule = WindowRule(time_column="t", every=f"{length}s", lateness=f"{lateness}s", schema="lenient")
    windows = Windows(open_source(cut(table, sizes), replay=True), rule, flush=flush)
    found = list(windows)
    assert [seen(w) for w in found] == expected(times, length, lateness, flush)
    if flush:
        assert windows.waiting == 0
    for k, window in enumerate(found):
        rest = Windows(open_source(cut(table, again), replay=True), rule, through_json(window.cursor), flush)
        assert [seen(w) for w in rest] == [seen(w) for w in found[k + 1 :]]
        assert rest.waiting == windows.waiting


@given(rest=st.lists(st.integers(0, 100), min_size=1, max_size=30), parts=st.integers(1, 4), data=st.data())
def test_windows_by_time_over_growing_files_go_on_where_they_were(
    tmp_path_factory: pytest.TempPathFactory, rest: list[int], parts: int, data: st.DataObject
) -> None:
    """A run that ends with the rows there are, and goes on when there are more, misses and doubles nothing."""
    folder = tmp_path_factory.mktemp("grow")
    rule = WindowRule(time_column="t", every="10s", lateness="5s")
    rows = [f"{i},{t}\n" for i, t in enumerate(rest)]
    ends = sorted(data.draw(st.lists(st.integers(0, len(rows)), min_size=parts, max_size=parts)))
    cursor, found = None, []
    for start, end in zip([0, *ends], [*ends, len(rows)], strict=True):
        with open(folder / "a.csv", "a") as file:
            file.write(("row,t\n" if not file.tell() else "") + "".join(rows[start:end]))
        for window in Windows(open_source(folder / "a.csv"), rule, cursor):
            found.append(window)
            cursor = through_json(window.cursor)
    texts = [([int(v) for v in seen(w)[0]], *seen(w)[1:]) for w in found]
    assert texts == expected(list(rest), 10, 5, False)


def test_windows_cross_files_and_go_on_in_the_right_one(tmp_path: Path) -> None:
    table = pa.table({"row": range(100)})
    for i in range(4):
        pq.write_table(table.slice(25 * i, 25), tmp_path / f"part-{i + 8}.parquet", row_group_size=7)
    rule = WindowRule(window=30)
    found = list(Windows(open_source(tmp_path), rule))
    assert [seen(w)[0] for w in found] == [list(range(s, s + 30)) for s in (0, 30, 60)]
    assert [(w.cursor.file, w.cursor.row) for w in found] == [
        ("part-9.parquet", 5),
        ("part-10.parquet", 10),
        ("part-11.parquet", 15),
    ]
    rest = list(Windows(open_source(tmp_path), rule, through_json(found[0].cursor), flush=True))
    assert [seen(w)[0] for w in rest] == [list(range(30, 60)), list(range(60, 90)), list(range(90, 100))]


def test_rows_for_windows_that_were_given_out_are_late_when_a_stream_goes_on_with_new_ones() -> None:
    rule = WindowRule(time_column="t", every="10s")
    first = list(Windows(open_source(pa.table({"t": [1, 5, 12]})), rule))
    rest = Windows(open_source(pa.table({"t": [3, 11, 25]})), rule, first[-1].cursor)
    assert [(w.table["t"].to_pylist(), w.late_rows) for w in rest] == [([11], 1)]


def test_rows_for_windows_that_were_flushed_are_late(tmp_path: Path) -> None:
    rule = WindowRule(time_column="t", every="10s", lateness="20s")
    path = tmp_path / "a.csv"
    path.write_text("t\n1\n5\n12\n")
    first = list(Windows(open_source(path), rule, flush=True))
    path.write_text("t\n1\n5\n12\n14\n3\n25\n70\n")
    rest = Windows(open_source(path), rule, first[-1].cursor)
    assert [(w.table["t"].to_pylist(), w.late_rows) for w in rest] == [(["25"], 2)]


def test_a_time_far_ahead_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    rule = WindowRule(time_column="t", every="1d")
    frames = [pd.DataFrame({"t": ["2024-01-01", "2026-01-01"]}), pd.DataFrame({"t": ["2024-01-02"] * 700})]
    frames = [frames[0], frames[1], frames[1]]
    with caplog.at_level(logging.WARNING):
        assert len(list(Windows(open_source(frames), rule))) == 2  # one, and a very long gap
    assert caplog.text.count("the last 1400 rows up to row 1402 are all late") == 1
    assert "2026-01-01" in caplog.text


def clocked(times: list[Any], sizes: list[int], **rule: Any) -> tuple[list[Window], Clock]:
    chosen = WindowRule(time_column="t", **rule)
    clock, start, found = Clock(chosen), 0, []
    for table in cut(pa.table({"row": range(len(times)), "t": times}), sizes):
        found += list(clock.add(Batch(table, "a.csv", start)))
        start += table.num_rows
    return found, clock


def test_one_time_that_is_far_ahead_is_an_error_or_left_out() -> None:
    times = ["2026-01-01", "2026-01-02", "2099-01-01", "2026-01-02", "2026-01-03", "2026-01-04"]
    message = (
        r"time column 't': 2099-01-01T00:00:00Z in row 3 of 'a.csv' is 73 years ahead of the rows before it "
        r"\(2026-01-02T00:00:00Z\): a wrong time, or a gap; leave the row out, or choose schema='lenient'"
    )
    for every in ("10s", "1d", "1w", "1mo"):
        with pytest.raises(SourceError, match=message):
            clocked(times, [2], every=every)
    found, clock = clocked(times, [1, 3], every="1d", schema="lenient")
    assert [seen(w)[0] for w in found] == [[0], [1, 3], [4]]
    assert [w.note for w in found] == ["", "1 row without a readable time left out", ""]
    assert [w.late_rows for w in found] == [0, 0, 0]
    assert clock.late == 0


def test_gaps_of_some_months_are_none_of_that() -> None:
    for every in ("10s", "1h", "1d"):
        found, _ = clocked(["2026-01-01", "2026-11-20", "2026-11-21"], [1], every=every)
        assert found[1].note.startswith("no rows for ")


def test_rows_that_are_late_for_no_window_yet_are_counted() -> None:
    found, clock = clocked([1, 25, 3, None, 4], [2, 1], every="10s", schema="lenient")
    assert [seen(w)[0] for w in found] == [[0], []]
    assert clock.late == 3
    (window,) = clock.flush()
    assert (window.late_rows, window.note) == (2, "1 row without a readable time left out")
    assert clock.late == 0


def test_many_times_that_are_far_ahead_are_a_gap(caplog: pytest.LogCaptureFixture) -> None:
    """A first row from 1970 must not leave out all that follow."""
    times = ["1970-01-01"] + ["2026-01-01"] * 150 + ["2026-01-02"]
    with caplog.at_level(logging.WARNING):
        found, _ = clocked(times, [30, 1, 50], every="1d", schema="lenient")
    assert [seen(w)[0] for w in found] == [[0], [], list(range(100, 151))]
    assert "100 rows up to row 101 of 'a.csv' are far ahead" in caplog.text
    assert sum("99 rows without a readable time" in w.note for w in found) == 1


years = st.sampled_from([0, 0, 0, 1, 2, 3, 5, 9]).map(lambda n: n * 400 * 86400)


@given(
    times=st.lists(st.one_of(st.none(), st.tuples(years, st.integers(-9000, 9000)).map(sum)), max_size=40),
    lateness=st.sampled_from([0, 1800, 86400]),
    sizes=st.lists(st.integers(0, 12), max_size=10),
    again=st.lists(st.integers(0, 12), max_size=10),
    flush=st.booleans(),
)
@example([0, *[400 * 86400] * 7, 400 * 86400 + 3600, 400 * 86400 + 7200, 400 * 86400 + 10800], 0, [2], [3], False)
def test_times_far_ahead_are_left_out_row_by_row_and_the_same_after_any_interruption(
    times: list[int | None], lateness: int, sizes: list[int], again: list[int], flush: bool
) -> None:
    table = pa.table({"row": range(len(times)), "t": pa.array(times, pa.int64())})
    rule = WindowRule(time_column="t", every="1h", lateness=f"{lateness}s", schema="lenient")
    with patch.object(clock_module, "_AGREED", 3):
        found = list(Windows(open_source(cut(table, sizes), replay=True), rule, flush=flush))
        assert [seen(w) for w in found] == expected(plausible(times, 31_556_952, 3), 3600, lateness, flush)
        for k, window in enumerate(found):
            rest = Windows(open_source(cut(table, again), replay=True), rule, through_json(window.cursor), flush)
            assert [seen(w) for w in rest] == [seen(w) for w in found[k + 1 :]]


def plausible(times: list[int | None], furthest: int, enough: int) -> list[int | None]:
    """As defined: times far ahead of those before do not count, unless enough of them follow each other."""
    out: list[int | None] = []
    newest, run = None, 0
    for time in times:
        run = run if time is None else run + 1 if newest is not None and time - newest > furthest else 0
        if time is None or 0 < run < enough:
            out.append(None)
            continue
        run, newest = 0, time if newest is None else max(newest, time)
        out.append(time)
    return out


def test_missing_columns_are_an_error_or_null_with_a_note() -> None:
    frames = [pa.table({"x": range(6), "y": range(6)}), pa.table({"x": range(6)})]
    with pytest.raises(SourceError, match="column 'y' is in rows from 1 on, but not in rows from 7 on"):
        list(Windows(open_source(frames), WindowRule(window=12)))
    (window,) = Windows(open_source(frames), WindowRule(window=12, schema="lenient"))
    assert window.table["y"].null_count == 6
    assert window.note == "not in all rows: column 'y'"


def test_types_that_differ_within_a_window() -> None:
    frames = [pa.table({"x": range(6)}), pa.table({"x": ["a"] * 6})]
    with pytest.raises(SourceError, match="column 'x' holds int64 in rows from 1 on, but string in rows from 7 on"):
        list(Windows(open_source(frames), WindowRule(window=12)))
    (window,) = Windows(open_source(frames), WindowRule(window=12, schema="lenient"))
    assert window.table["x"].to_pylist() == [*"012345", *"aaaaaa"]
    assert window.note == "not of one type: column 'x'"
    for other in ([0.5] * 6, pa.array([None] * 6)):  # no other type: numbers are numbers, nothing is nothing
        (window,) = Windows(open_source([frames[0], pa.table({"x": other})]), WindowRule(window=12))
        assert window.table.num_rows == 12
        assert window.note == ""
    kinds = [pa.table({"x": pa.array(["a"] * 6).dictionary_encode()}), frames[1]]
    (window,) = Windows(open_source(kinds), WindowRule(window=12))
    assert window.table["x"].to_pylist() == ["a"] * 12


@given(
    rows=st.lists(
        st.sampled_from([{}, {"a": 1}, {"a": None, "b": 2}, {"b": 0.5, "a": -3}, {"c": 7}]), min_size=20, max_size=40
    ),
    sizes=st.lists(st.integers(1, 40), max_size=6),
)
def test_a_window_of_json_lines_depends_on_its_own_rows_only(rows: list[dict[str, Any]], sizes: list[int]) -> None:
    class Source:
        name, rows = "lines", None

        def resumes(self, cursor: Cursor) -> bool:
            return True

        def batches(self, cursor: Cursor | None = None) -> Iterator[Batch]:
            start = 0
            for size in [*sizes, len(rows)]:
                some = rows[start : start + size]
                names = dict.fromkeys(name for row in some for name in row)
                table = pa.table({name: [row.get(name) for row in some] for name in names} or {"a": [None] * len(some)})
                if some:
                    yield Batch(table, None, start, sparse=True)
                start += size

    for window in Windows(Source(), WindowRule(window=10)):
        some = rows[window.first_row : window.first_row + 10]
        assert window.table.num_rows == 10
        assert set(window.table.column_names) == {k for row in some for k, v in row.items() if v is not None}
        for name in window.table.column_names:
            values = [row.get(name) for row in some]
            assert window.table[name].to_pylist() == values
            assert pa.types.is_integer(window.table[name].type) == all(v != 0.5 for v in values)


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
def test_what_is_no_length_of_time(length: str) -> None:
    with pytest.raises(ValueError, match=r"is not a length of time|is longer than"):
        Every(length)


def test_span() -> None:
    assert span("0s") == 0
    assert span("1w") == 7 * 86400 * SECOND
    with pytest.raises(ValueError, match="1mo"):
        span("1mo")


HOUR = 3600 * SECOND


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
    batch = Batch(pa.table({"ts": column}), None, 0)
    assert times_of(batch, "ts", strict=True).tolist() == [HOUR, 24 * HOUR]


def test_dates_and_fractions() -> None:
    day = datetime(2024, 2, 29, tzinfo=UTC)
    for kind in (pa.date32(), pa.date64()):
        batch = Batch(pa.table({"ts": pa.array([day.date()], kind)}), None, 0)
        assert times_of(batch, "ts", strict=True).tolist() == [int(day.timestamp()) * SECOND]
    batch = Batch(pa.table({"ts": [-0.25, 1.5]}), None, 0)
    assert times_of(batch, "ts", strict=True).tolist() == [-SECOND // 4, 3 * SECOND // 2]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (["1970-01-01", "31.12.1970"], "'31.12.1970' is neither a time in ISO 8601 .* in row 19 of 'a.csv'"),
        (["1970-01-01", "2024-13-01"], "'2024-13-01' is neither"),
        (["1970-01-01", None], "there is no time in row 19"),
        ([1.0, float("nan")], "is not seconds since 1970"),
        ([1, 1_700_000_000_000], "1700000000000 looks like milliseconds since 1970, seconds are wanted"),
        (["1", "1700000000000"], "1700000000000 looks like milliseconds since 1970, seconds are wanted"),
        ([1, 10**15], "1000000000000000 is not seconds since 1970"),
        ([True, False], "holds bool"),
        (pa.array([0, 2**62], pa.timestamp("s")), "beyond the years 1678 to 2261"),
        ([[1], [2]], "holds list"),
    ],
)
def test_times_that_cannot_be_read(column: Any, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        times_of(Batch(pa.table({"ts": column}), "a.csv", 17), "ts", strict=True)


def test_unreadable_times_are_missing_where_lenient() -> None:
    texts = ["nonsense", "1970-01-01", "2024-02-30", None, "1970-01-01T25:00", "1", "inf", "1e300"]
    found = times_of(Batch(pa.table({"ts": texts}), None, 0), "ts", strict=False)
    assert found.tolist() == [MISSING, 0, MISSING, MISSING, MISSING, SECOND, MISSING, MISSING]


def test_a_date_of_digits_alone_is_not_taken_for_seconds() -> None:
    for value in ("20240531", 20240531):
        with pytest.raises(SourceError, match="is 20240531 in row 1 the day 2024-05-31"):
            times_of(Batch(pa.table({"ts": [value]}), None, 0), "ts", strict=False)
    assert times_of(Batch(pa.table({"ts": [20240531]}), None, 1), "ts", strict=True).tolist() == [20240531 * SECOND]


def test_no_time_column() -> None:
    with pytest.raises(SourceError, match=r"no time column 'ts' in 'a.csv': columns are x, y"):
        times_of(Batch(pa.table({"x": [1], "y": [2]}), "a.csv", 0), "ts", strict=False)


def test_times_by_month_with_a_gap() -> None:
    days = [datetime(2023, 12, 15) + timedelta(days=i) for i in (0, 1, 20, 150, 151, 200)]
    frame = pd.DataFrame({"row": range(6), "ts": days})
    found = list(Windows(open_source(frame), WindowRule(time_column="ts", every="1mo")))
    assert [seen(w)[:1] + seen(w)[2:] for w in found] == [
        ([0, 1], "2023-12-01T00:00:00Z", "2024-01-01T00:00:00Z", 0, ""),
        ([2], "2024-01-01T00:00:00Z", "2024-02-01T00:00:00Z", 0, ""),
        ([], "2024-02-01T00:00:00Z", "2024-05-01T00:00:00Z", 0, "no rows for 3 windows"),
        ([3, 4], "2024-05-01T00:00:00Z", "2024-06-01T00:00:00Z", 0, ""),
        ([], "2024-06-01T00:00:00Z", "2024-07-01T00:00:00Z", 0, "no rows for 1 window"),
    ]
