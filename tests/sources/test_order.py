"""Rows that do not come in the order of time are recognised and sorted, or refused with a remedy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from driftline.sources import LeftOut, SourceError, Window, WindowRule, Windows, open_source
from driftline.sources import _order as order_module

RULE = WindowRule(time_column="t", every="1d", schema="lenient")
ROWS = pd.DataFrame({"t": pd.date_range("2012-01-01", periods=400, freq="1h").astype(str), "row": range(400)})
SHUFFLED = ROWS.sample(frac=1, random_state=0)
PANEL = pd.concat([ROWS[k::4] for k in range(4)])  # four series, one after the other


def held(windows: list[Window]) -> list[list[int]]:
    return [sorted(map(int, window.table.column("row").to_pylist())) for window in windows]


DAYS = [list(range(k, k + 24)) for k in range(0, 384, 24)]


@pytest.mark.parametrize(
    ("frame", "said"), [(ROWS[::-1], "newest first"), (SHUFFLED, "out of order"), (PANEL, "out of order"), (ROWS, "")]
)
def test_rows_in_any_order_give_the_same_windows(tmp_path: Path, frame: pd.DataFrame, said: str) -> None:
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_json(tmp_path / "a.jsonl", orient="records", lines=True)
    for source in (tmp_path / "a.csv", tmp_path / "a.jsonl", frame, [frame[:100], frame[100:]]):
        windows = list(Windows(open_source(source), RULE))
        assert held(windows) == DAYS
        wanted = f"rows were not in the order of 't' ({said}): they were sorted" if said else ""
        assert [window.note for window in windows] == [wanted, *[""] * 15]
        assert [window.first_row for window in windows] == list(range(0, 384, 24))


def test_rows_that_are_sorted_are_resumed_by_time(tmp_path: Path) -> None:
    """Also in a newer export, which begins with other rows; rows that cannot be used are counted once."""
    path = tmp_path / "a.csv"
    odd = pd.DataFrame({"t": ["", "2102-01-01"], "row": [400, 401]})
    pd.concat([odd, ROWS[:300][::-1]]).to_csv(path, index=False)
    windows = list(Windows(open_source(path), RULE))
    assert held(windows) == DAYS[:12]
    for k, window in enumerate(windows):
        rest = list(Windows(open_source(path), RULE, window.cursor))
        assert held(rest) == DAYS[k + 1 : 12] or (k == 11 and held(rest) == [[]])
        assert [w.first_row for w in rest[:-1]] == [w.first_row for w in windows[k + 1 : -1]]
    (only,) = Windows(open_source(path), RULE, windows[-1].cursor)
    assert (only.left_out, only.table.num_rows) == (LeftOut(untimed=1, wild=1), 0)
    assert not list(Windows(open_source(path), RULE, only.cursor))  # nothing new
    pd.concat([odd, ROWS[::-1]]).to_csv(path, index=False)
    later = list(Windows(open_source(path), RULE, only.cursor))
    assert held(later) == DAYS[12:]
    assert not any(window.late_rows for window in later)


def test_frames_that_come_newest_first_one_after_the_other() -> None:
    first = Windows(open_source(ROWS[:200][::-1]), RULE)
    windows = list(first)
    second = Windows(open_source(ROWS[200:][::-1]), RULE, windows[-1].cursor, before=first.rest())
    assert held(windows) + held(list(second)) == DAYS


def test_frames_that_were_sorted_lose_no_rows_when_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order_module, "_PIECE", 60)
    first = Windows(open_source(ROWS[:300][::-1]), RULE)
    reading = iter(first)
    windows = [next(reading), next(reading)]
    second = Windows(open_source(ROWS[300:][::-1]), RULE, windows[-1].cursor, before=first.rest())
    assert held(windows) + held(list(second)) == DAYS


def test_a_few_rows_out_of_order_are_not_sorted() -> None:
    mixed = pd.concat([ROWS[:100], ROWS[20:40], ROWS[100:]])
    windows = list(Windows(open_source(mixed), RULE))
    assert [window.late_rows for window in windows if window.late_rows] == [20]


def test_more_rows_than_fit_in_memory_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ROWS[::-1].to_csv(tmp_path / "a.csv", index=False)
    monkeypatch.setattr(order_module, "_MEMORY", 1000)
    with pytest.raises(SourceError, match=r"are not in the order of 't', and take more than 0 MB, .* sort them by 't'"):
        list(Windows(open_source(tmp_path / "a.csv"), RULE))


def test_order_is_seen_however_long_the_first_window_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order_module, "_LOOK", 50)
    dates = np.repeat([f"2012-01-{d:02d}" for d in (9, 8, 7, 6)], [500, 5, 500, 500])
    windows = list(Windows(open_source(pd.DataFrame({"t": dates, "row": range(1505)})), RULE))
    assert [window.table.num_rows for window in windows] == [500, 500, 5]


def test_a_stream_that_comes_once_is_not_looked_at_ahead() -> None:
    def frames() -> Iterator[pd.DataFrame]:
        yield from (ROWS[::-1][k : k + 100] for k in range(0, 400, 100))

    windows = Windows(open_source(frames()), RULE)
    assert not list(windows)
    assert windows.left_out.total > 350  # which ends a command with exit code 2
