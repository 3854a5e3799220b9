"""Rows that a window needs: what is said where there are fewer, and the guess where nobody says how long it is."""

import re

import numpy as np
import pyarrow as pa
import pytest

from driftline import Monitor
from driftline.monitor import Settings, Tracker, guess_window, inspect
from driftline.monitor._sizes import Need, TooFewRowsError, guessed
from driftline.sources import open_source


def table(rows):
    rng = np.random.default_rng(0)
    named = {f"x{j}": rng.normal(size=rows) for j in range(2)}
    return pa.table({**named, "city": np.resize([f"city {k}" for k in range(5)], rows)})


def test_a_short_window_says_how_many_rows_and_which_columns_would_do():
    with Monitor(window=50) as monitor, pytest.raises(TooFewRowsError) as caught:
        list(monitor.watch(table(50)))
    said = str(caught.value)
    least = int(re.search(r"50 rows are too few, at least (\d+) are needed for \d+ encoded columns", said)[1])
    assert f"choose window={least}, or leave columns out: drop=('city',)" in said
    with Monitor(window=50, drop=["city"]) as monitor:  # as advised
        assert len(list(monitor.watch(table(50)))) == 1
    with Monitor(window=least) as monitor:
        assert len(list(monitor.watch(table(least)))) == 1


def test_advice_where_many_columns_are_to_blame_and_where_none_is_left():
    many, one = Need(10, dict.fromkeys("abcdefghij", 1)), Need(10, {"a": 30})
    assert "columns: 5 or so of the 10 that vary" in str(many.error("it", 50, Settings(window=50)))
    assert str(one.error("it", 50, Settings(window=50))).endswith("choose window=300")
    hours = Settings(time_column="ts", every="6h")
    assert "choose every='18h' or longer, or" in str(many.error("it", 50, hours))
    assert many.missed(100) == ""
    two = Need(10, {"a": 1, "b": 1})
    assert "columns: 1 or so of the 2 that vary" in str(two.error("it", 15, Settings(window=15)))  # either of them


def test_windows_by_time_that_are_all_too_short_leave_the_error():
    times = pa.array((np.arange(400) * 72).astype("datetime64[s]"))
    with Monitor(time_column="ts", every="1h") as monitor:
        assert list(monitor.watch(table(400).append_column("ts", times))) == []
        assert "choose every='2h' or longer" in str(monitor.too_few)


@pytest.mark.parametrize("rows", [200, 999, 5_000, 45_312, 10**7])
@pytest.mark.parametrize("least", [10, 80, 2_000])
def test_a_guess_is_enough_for_the_columns_and_leaves_windows_to_compare(rows, least):
    size = guessed(rows, least)
    if rows < 2 * least:
        assert size is None
    else:
        assert least <= size <= max(5000, 4 * least)
        assert rows // size >= 2


def test_a_window_is_guessed_from_rows_and_columns():
    guess = guess_window(open_source(table(3000)), {"drop": ["city"]})
    assert guess == (500, "windows of 500 rows: a guess from 3,000 rows and 2 encoded columns")
    with pytest.raises(ValueError, match=r"a frame has 90 rows, too few to cut into windows \(a window needs \d+, "):
        guess_window(open_source(table(90)), {})


def test_windows_skipped_in_a_row_are_noted_once_counted_and_shown(tmp_path):
    sizes = [400, 15, 15, 15, 400]
    days = [np.full(n, day) for day, n in enumerate(sizes)]
    times = pa.array((np.concatenate(days) * 86400).astype("datetime64[s]"))
    rows, file = table(sum(sizes)).drop_columns(["city"]).append_column("ts", times), tmp_path / "run.driftline"
    with Monitor(file, time_column="ts", every="1d", drop=[]) as monitor:
        records = list(monitor.watch(rows.slice(0, 430)))
        assert monitor.waiting == 15
    assert [str(r.status) for r in records] == ["original", "skipped"]
    assert inspect(file).skipped_in_a_row == 1
    with Monitor(file) as monitor:  # the count survives a break
        records += list(monitor.watch(rows, replay=True, flush=True))
    notes = [[note for note in record.notes if "in a row" in note] for record in records]
    assert [len(each) for each in notes] == [0, 0, 1, 0, 1]
    assert "nothing is measured meanwhile" in notes[2][0]
    assert notes[4] == ["3 windows in a row before this one were skipped"]
    with Tracker(file, readonly=True) as tracker:
        assert tracker.read().records[-1] == records[-1]
    assert inspect(file).skipped_in_a_row == 0
