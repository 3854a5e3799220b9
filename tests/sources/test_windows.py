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

from driftline.sources import Batch, Cursor, LeftOut, Window, WindowRule, Windows, open_source
from driftline.sources import _leaps as leaps_module
from driftline.sources import _windows as windows_module
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


SMALL = {"AGREED": 3, "BEGUN": 2, "AT_END": 1, "MOST": 8}  # so that short lists of times have leaps of all kinds


def verdict(times: list[int | None], row: int, length: int, lateness: int, first: bool, flush: bool) -> bool | None:
    """Say by the definition whether the time of a row that leaps is right; None if the rows after it do not show it."""
    net, asked = 0, times[row + 1 : row + 1 + SMALL["MOST"]]
    leap = times[row]
    assert leap is not None
    for time in asked:
        if time is not None:
            net += 1 if time // length >= (leap - lateness) // length - leaps_module.FEW else -1
        if abs(net) >= SMALL["BEGUN" if first else "AGREED"]:
            return net > 0
    if len(asked) == SMALL["MOST"] or flush:
        return net >= (0 if first else SMALL["AT_END"])
    return None


def expected(
    times: list[int | None], length: int, lateness: int, flush: bool, where: str = ""
) -> list[tuple[Any, ...]]:
    """Return windows by their definition, row by row; times and lengths in seconds."""
    newest: int | None = None
    rows: dict[int, list[int]] = {}
    late: dict[int, int] = {}
    untimed: dict[int, int] = {}
    wild: dict[int, list[int]] = {}
    out: list[tuple[Any, ...]] = []
    following: int | None = None

    def counted(counts: dict[int, int], stop: int) -> int:
        return sum(counts.pop(index) for index in list(counts) if index < stop)

    def emit(start: int, stop: int, found: list[int], first: int, note: str) -> None:
        nonlocal following
        following = stop
        gone = counted(untimed, stop)
        left = f"{gone} row{'' if gone == 1 else 's'} without a readable time left out" if gone else ""
        far = sorted(i for index in list(wild) if index < stop for i in wild.pop(index))
        ahead = ""
        if far:
            rows_, them = ("1 row", "it") if len(far) == 1 else (f"{len(far)} rows", "them")
            first_ = "" if len(far) == 1 else "the first is "
            ahead = f"{rows_} far ahead of the times around {them} left out ({first_}row {far[0] + 1}{where})"
        note = "; ".join(filter(None, (note, left, ahead)))
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
        right: bool | None = True
        if time is not None:
            if newest is None or time // length > (newest + lateness) // length + leaps_module.FEW:
                right = verdict(times, i, length, lateness, newest is None, flush)
            if right is None:
                break
            if right:
                newest = time if newest is None else max(newest, time)
        floor = -(10**18) if newest is None else (newest - lateness) // length
        if not right:
            wild.setdefault(floor, []).append(i)
        elif time is None:
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


BASE = 10**6  # seconds; smaller numbers would look like years
seconds = st.one_of(st.none(), st.integers(BASE - 60, BASE + 60), st.integers(BASE - 5000, BASE + 5000))
time_lists = st.lists(seconds, max_size=40)


@given(
    times=time_lists,
    length=st.sampled_from([1, 7, 10, 60]),
    lateness=st.sampled_from([0, 3, 10, 50]),
    sizes=st.lists(st.integers(0, 12), max_size=10),
    again=st.lists(st.integers(0, 12), max_size=10),
    flush=st.booleans(),
)
@example(
    [BASE + t if t else None for t in (1, 2, 11, 9, 14, 25, 3, None, 31, 90, 78)], 10, 3, [4], [1, 1, 1], False
)  # rows to skip when read again
def test_windows_by_time_are_as_defined_and_survive_any_interruption(
    times: list[int | None], length: int, lateness: int, sizes: list[int], again: list[int], flush: bool
) -> None:
    table = pa.table({"row": range(len(times)), "t": pa.array(times, pa.int64())})
    rule = WindowRule(time_column="t", every=f"{length}s", lateness=f"{lateness}s", schema="lenient")
    with patch.multiple(leaps_module, **SMALL):
        windows = Windows(open_source(iter(cut(table, sizes)), replay=True), rule, flush=flush)
        found = list(windows)
        assert [seen(w) for w in found] == expected(times, length, lateness, flush)
        if flush:
            assert windows.waiting == 0
        for k, window in enumerate(found):
            rest = Windows(open_source(iter(cut(table, again)), replay=True), rule, through_json(window.cursor), flush)
            later = list(rest)
            if later and later[-1].start == later[-1].end:  # a call that completed no window accounts for rows left out
                assert len(later) == 1
                last = later.pop()
                assert last.left_out == windows.left_out
                cursor = through_json(last.cursor)
                assert not list(
                    Windows(open_source(iter(cut(table, again)), replay=True), rule, cursor, flush)
                )  # only once
            assert [seen(w) for w in later] == [seen(w) for w in found[k + 1 :]]
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
        with patch.multiple(leaps_module, **SMALL), patch.object(windows_module, "disorder", return_value=""):
            for window in Windows(open_source(folder / "a.csv"), rule, cursor):
                found.append(window)
                cursor = through_json(window.cursor)
    texts = [([int(v) for v in seen(w)[0]], *seen(w)[1:]) for w in found]
    wanted = expected(list(rest), 10, 5, False, " of 'a.csv'")
    complete = [window for window in texts if window[2] != window[3]]  # without those that only count rows left out
    assert [w[:4] for w in complete] == [w[:4] for w in wanted]
    assert sum(w[4] for w in texts) >= sum(w[4] for w in wanted)


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
    first = list(Windows(open_source(pa.table({"t": [1] * 11 + [12]})), rule))
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
    first, late = (
        pd.DataFrame({"t": ["2024-01-01"] * 11 + ["2026-01-01"] * 60}),
        pd.DataFrame({"t": ["2024-01-02"] * 700}),
    )
    with caplog.at_level(logging.WARNING):
        assert len(list(Windows(open_source(iter([first, late, late])), rule))) == 2  # one, and a very long gap
    assert caplog.text.count("the last 1400 rows up to row 1471 are all late") == 1
    assert "2026-01-01" in caplog.text


def clocked(times: list[Any], sizes: list[int], **rule: Any) -> tuple[list[Window], Clock]:
    chosen = WindowRule(time_column="t", **rule)
    clock, start, found = Clock(chosen), 0, []
    for table in cut(pa.table({"row": range(len(times)), "t": times}), sizes):
        found += list(clock.add(Batch(Rows(table), "a.csv", start)))
        start += table.num_rows
    return found, clock


def days(*numbers: int, start: str = "2012-01-01", each: int = 40) -> list[str]:
    first = datetime.fromisoformat(start)
    return [str(first + timedelta(days=n, minutes=i)) for n in numbers for i in range(each)]


def test_one_wrong_year_is_left_out_and_noted_in_any_place() -> None:
    """It closes nothing: neither a year later nor ninety, neither in the first row nor among the last."""
    right = days(0, 1, 2, 3)
    for wrong in ("2102-01-02", "2013-01-02"):
        for at in (0, 1, 45, 119):
            times = [*right[:at], wrong, *right[at:]]
            for schema in ("strict", "lenient"):
                found, clock = clocked(times, [30, 1, 50], every="1d", schema=schema)
                found += clock.flush()
                assert [w.table.num_rows for w in found] == [40, 40, 40, 40]
                said = [w.note for w in found if w.note]
                assert said == [f"1 row far ahead of the times around it left out (row {at + 1} of 'a.csv')"]
                assert not any(w.late_rows for w in found)


def test_a_wrong_year_among_the_last_rows_waits_for_more() -> None:
    times = [*days(0, 1), "2102-01-02", *days(1, each=5)]
    found, clock = clocked(times, [45], every="1d")
    assert [w.table.num_rows for w in found] == [40]  # a row of the second day came before
    assert sum(table.num_rows for table in clock.rest()) == 46
    assert "row 81 of 'a.csv' is from 2102-01-02T00:00:00Z, far ahead of the rows before" in clock.remark
    (last,) = clock.flush()
    assert last.table.num_rows == 45
    assert last.left_out.wild == 1


@pytest.mark.parametrize("every", ["1h", "1d"])
def test_a_weekend_or_a_month_off_is_a_gap(every: str) -> None:
    """A weekend of daily windows needs nothing; a longer gap needs fifty rows that agree, or ten at the very end."""
    for gap in (3, 31, 400):
        times = days(0, gap, each=55)
        found, clock = clocked(times, [54, 2, 20], every=every)
        assert sum(w.table.num_rows for w in found) == 55
        assert clock.remark == ""
        found, clock = clocked(times[:67], [54, 2], every=every)  # twelve rows after the gap
        waits = gap > 3 or every == "1h"
        assert ("counts once fifty rows agree" in clock.remark) == waits
        found += clock.flush()
        assert [w.table.num_rows for w in found if w.table.num_rows] == [55, 12]
        assert not any(w.left_out for w in found)


def test_some_wrong_years_in_a_gap_do_not_matter() -> None:
    times = [*days(0), *[t for day in days(60, each=60) for t in (day, "2102-01-01")][:100], *days(61)]
    found, clock = clocked(times, [7] * 20, every="1d")
    found += clock.flush()
    assert [w.table.num_rows for w in found] == [40, 0, 50, 40]


def test_rows_that_are_late_for_no_window_yet_are_counted() -> None:
    times = [BASE + 1] * 11 + [BASE + 25, BASE + 3, None, BASE + 4]
    found, clock = clocked(times, [2, 10], every="10s", schema="lenient")
    assert [len(seen(w)[0]) for w in found] == [11, 0]
    assert clock.left_out == LeftOut(late=2, untimed=1)
    (window,) = clock.flush()
    assert (window.late_rows, window.note) == (2, "1 row without a readable time left out")
    assert not clock.left_out


def test_rows_left_out_are_accounted_for_in_a_call_that_completes_no_window(tmp_path: Path) -> None:
    """Each is in the windows once, however many calls there were."""
    path, rule, cursor = tmp_path / "a.csv", WindowRule(time_column="t", every="10s", schema="lenient"), None
    path.write_text("t\n")
    calls = [[1] * 11 + [12, 13], [2, 3, "x"], [], [14, 3], [25], [11, "x", 26], [37]]
    found: list[list[Window]] = []
    for rows in calls:
        with path.open("a") as file:
            file.writelines(f"{BASE + t if t != 'x' else t}\n" for t in rows)
        found.append(list(Windows(open_source(path), rule, cursor)))
        cursor = through_json(found[-1][-1].cursor) if found[-1] else cursor
    told = [[(w.table.num_rows, w.left_out.late, w.left_out.untimed) for w in call] for call in found]
    assert told == [[(11, 0, 0)], [(0, 2, 1)], [], [(0, 1, 0)], [(3, 0, 0)], [(0, 1, 1)], [(2, 0, 0)]]
    assert found[1][0].note == "no window was complete; 1 row without a readable time left out"


def test_times_by_month_with_a_gap() -> None:
    moments = [datetime(2023, 12, 15) + timedelta(days=i) for i in (0, 1, 20, 150, 151, 200)]
    frame = pd.DataFrame({"row": range(6), "ts": moments})
    with patch.multiple(leaps_module, **{**SMALL, "AGREED": 2}):
        found = list(Windows(open_source(frame), WindowRule(time_column="ts", every="1mo")))
    assert [seen(w)[:1] + seen(w)[2:] for w in found] == [
        ([0, 1], "2023-12-01T00:00:00Z", "2024-01-01T00:00:00Z", 0, ""),
        ([2], "2024-01-01T00:00:00Z", "2024-02-01T00:00:00Z", 0, ""),
        ([], "2024-02-01T00:00:00Z", "2024-05-01T00:00:00Z", 0, "no rows for 3 windows"),
        ([3, 4], "2024-05-01T00:00:00Z", "2024-06-01T00:00:00Z", 0, ""),
        ([], "2024-06-01T00:00:00Z", "2024-07-01T00:00:00Z", 0, "no rows for 1 window"),
    ]
