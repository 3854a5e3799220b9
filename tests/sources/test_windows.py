"""Windows: they do not depend on batches, nor on where reading was interrupted."""

from __future__ import annotations

import json
import logging
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from driftline.sources import Batch, Cursor, SourceError, Window, WindowRule, Windows, open_source
from driftline.sources import _clock as clock_module
from driftline.sources._clock import Clock
from driftline.sources._times import iso
from driftline.tables import Rows

SECOND = 10**9


def cut(table: pa.Table, sizes: list[int]) -> list[pa.Table]:
    pieces, start = [], 0
    for size in sizes:
        pieces.append(table.slice(start, size))
        start += size
    return [*pieces, table.slice(start)]


def seen(window: Window) -> tuple[Any, ...]:
    """Return everything that must not depend on how a window was read; cursors are tested by continuing from them."""
    rows = window.table.column("row").to_pylist() if window.table.num_rows else []
    return rows, window.first_row, window.start, window.end, window.late_rows, window.note


def through_json(cursor: Cursor) -> Cursor:
    return Cursor.from_dict(json.loads(json.dumps(cursor.to_dict())))


def expected(times: list[int | None], length: int, lateness: int, flush: bool) -> list[tuple[Any, ...]]:
    """Return windows by their definition, row by row; times and lengths in seconds."""
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
@example([1, 2, 11, 9, 14, 25, 3, None, 31, 90, 78], 10, 3, [4], [1, 1, 1], False)  # rows to skip when read again
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
def test_windows_by_time_over_growing_files_continue_from_the_cursor(
    tmp_path_factory: pytest.TempPathFactory, rest: list[int], parts: int, data: st.DataObject
) -> None:
    """A run that ends with the present rows, and continues when there are more, neither misses nor repeats a row."""
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


def test_windows_cross_files_and_continue_in_the_right_one(tmp_path: Path) -> None:
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


def test_rows_for_windows_already_yielded_are_late_when_a_stream_continues_with_new_rows() -> None:
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


def test_rows_that_are_all_late_after_a_time_far_ahead_cause_a_warning(caplog: pytest.LogCaptureFixture) -> None:
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
        found += list(clock.add(Batch(Rows(table), "a.csv", start)))
        start += table.num_rows
    return found, clock


def test_one_time_that_is_far_ahead_is_an_error_or_left_out() -> None:
    times = ["2026-01-01", "2026-01-02", "2099-01-01", "2026-01-02", "2026-01-03", "2026-01-04"]
    message = (
        r"time column 't': 2099-01-01T00:00:00Z in row 3 of 'a.csv' is 73 years ahead of the rows before it "
        r"\(2026-01-02T00:00:00Z\): either a wrong time or a gap; leave the row out, or choose schema='lenient'"
    )
    for every in ("10s", "1d", "1w", "1mo"):
        with pytest.raises(SourceError, match=message):
            clocked(times, [2], every=every)
    found, clock = clocked(times, [1, 3], every="1d", schema="lenient")
    assert [seen(w)[0] for w in found] == [[0], [1, 3], [4]]
    assert [w.note for w in found] == ["", "1 row without a readable time left out", ""]
    assert [w.late_rows for w in found] == [0, 0, 0]
    assert clock.late == 0


def test_a_gap_of_some_months_is_not_far_ahead() -> None:
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
    """A first row from 1970 must not cause all later rows to be left out."""
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
    """Apply the definition: times far ahead of those before do not count, unless enough of them follow each other."""
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
