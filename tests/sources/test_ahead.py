"""Rows far ahead of the others, in a stream whose batches have no order: they must not close the windows before."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from driftline.sources import Pending, WindowRule, Windows, closed_to, cut, open_source

BY_ROWS, BY_TIME = WindowRule(window=100), WindowRule(time_column="at", every="1d")
DAY = pd.Timedelta(days=1)
FAR = pd.Timestamp("2099-01-01", tz="UTC")


def stream(rows=600, start="2025-01-06"):
    """Return rows of 100 a day, by number and by time."""
    n = np.arange(rows)
    return pd.DataFrame({"n": n, "at": pd.Timestamp(start, tz="UTC") + n * (DAY / 100)})


def carried(table, rule, cuts, order=None, **more):
    """Cut windows of rows that come in pieces; return the numbers in each, and what waits."""
    pending, windows = Pending(), []
    for part in np.split(np.arange(len(table)), cuts):
        rows = pa.Table.from_pandas(table.iloc[part], preserve_index=False)
        pending, found = cut(pending, rows, rule, order or (["n"] if rule.window else ["at", "n"]), **more)
        windows += found
    return windows, pending


def numbers(windows):
    return [window.table["n"].to_pylist() for window in windows]


@pytest.mark.parametrize("step", [5, 7, 30, 150, 600])
@pytest.mark.parametrize("place", [0, 217, 299])
def test_one_row_far_ahead_closes_nothing(place, step):
    """Whatever the batches: rows before it are not late, and once fifty have contradicted it, it is left out."""
    for rule, name, far in ((BY_ROWS, "n", 10**15), (BY_TIME, "at", FAR)):
        table = stream()
        table.loc[place, name] = far
        windows, pending = carried(table, rule, np.arange(step, 600, step))
        rows = [n for part in numbers(windows) for n in part]
        wanted = [n for n in range(600) if n != place]
        assert rows == wanted[: len(rows)]
        assert len(rows) >= (500 if rule is BY_ROWS else 499)
        late = sum(window.late_rows for window in windows) + pending.left_out.late
        wild = sum(window.left_out.wild for window in windows) + pending.left_out.wild
        # alone in one batch nothing contradicts it: it waits
        assert (late, wild) == (0, 0 if step == 600 else 1)
        said = [window.note for window in windows if window.left_out.wild]
        assert all("1 row far ahead of the times around it left out" in note for note in said)


def test_rows_after_a_gap_count_as_soon_as_fifty_agree():
    for rule in (BY_ROWS, BY_TIME):
        table = stream(340)
        table.loc[250:, "n"] += 10**6
        table.loc[250:, "at"] += 40 * DAY
        late, _ = carried(table, rule, range(10, 340, 10))
        rows = [part for part in numbers(late) if part]
        assert rows[:2] == [list(range(100)), list(range(100, 200))]
        wanted = 100 if rule is BY_ROWS else 50  # of the next window: by time, it ends with the gap
        assert len(rows[2]) == wanted
        early, pending = carried(table.iloc[:300], rule, range(10, 300, 10))
        assert numbers(early) == rows[:2]
        assert pending.waiting == 100
        assert (pending.held.ahead, pending.held.against) == (
            (10**6 + 250, 0) if rule is BY_ROWS else (table["at"][250].value, 0)
        )


def test_rows_in_order_have_the_windows_of_a_file_in_that_order():
    """By time, the judgement is that of ``Windows``: of the gap, the wrong time, and the end of the input."""
    rng = np.random.default_rng(4)
    for _ in range(20):
        table = stream(int(rng.integers(120, 500)))
        gap, far = rng.integers(20, len(table)), rng.integers(1, 3)
        table.loc[gap:, "at"] += int(rng.integers(2, 9)) * DAY
        table.loc[len(table) - far :, "at"] += 5000 * DAY
        for flush in (False, True):
            rows = pa.Table.from_pandas(table, preserve_index=False)
            wanted = list(Windows(open_source(rows), BY_TIME, flush=flush))
            _, found = cut(Pending(), rows, BY_TIME, ["at"], flush=flush)
            assert numbers(found) == numbers(wanted)
            assert [(w.start, w.end) for w in found] == [(w.start, w.end) for w in wanted]


def test_time_that_the_whole_stream_has_reached_is_not_far_ahead():
    table = stream(60)
    table.loc[40:, "at"] += 40 * DAY
    _, held = carried(table, BY_TIME, [40])
    assert held.held is not None
    reached = table["at"].iloc[-1].value
    rows = pa.Table.from_pandas(table.iloc[40:], preserve_index=False)
    pending, _ = cut(Pending(), pa.Table.from_pandas(table.iloc[:40], preserve_index=False), BY_TIME, ["at"])
    after, windows = cut(pending, rows, BY_TIME, ["at"], until=reached)
    assert after.held is None
    assert [window.table.num_rows for window in windows] == [40, 0]


def test_wrong_rows_that_come_again_and_again_are_left_out_each_time():
    table = stream(5000)
    wrong = np.arange(30, 5000, 40)  # more than fifty in all
    for rule, name, far in ((BY_ROWS, "n", 10**15), (BY_TIME, "at", FAR)):
        mixed = table.copy()
        mixed.loc[wrong, name] = far
        windows, pending = carried(mixed, rule, range(20, 5000, 20))
        assert sum(window.late_rows for window in windows) + pending.left_out.late == 0
        kept = [n for part in numbers(windows) for n in part]
        assert kept == [n for n in range(5000) if n not in set(wrong)][: len(kept)]
        assert len(kept) > 4700


def test_orders_that_are_text_or_of_one_value_still_make_windows():
    table = stream(300)
    text = table.assign(n=table["n"].map("{:05d}".format))
    windows, _ = carried(text, BY_ROWS, [130])
    assert [len(part) for part in numbers(windows)] == [100, 100, 100]
    days = table.assign(day=table["at"].dt.date)
    windows, pending = carried(days, BY_ROWS, range(10, 300, 10), order=["day", "n"])
    assert numbers(windows) == [list(range(t, t + 100)) for t in (0, 100, 200)]
    assert closed_to(pending, BY_ROWS) == "day=2025-01-08, n=299"
    whole, _ = carried(days.assign(n=[*range(299), 10**15]), BY_ROWS, [], order=["n"], whole=True)
    assert [len(part) for part in numbers(whole)] == [100, 100, 100]
