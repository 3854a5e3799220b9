"""An original of its own: a run begins from it, knows it again, and reads the stream from its first row."""

import numpy as np
import pandas as pd
import pytest

from driftline import Monitor
from driftline.alarms import Cause, Signal
from driftline.report import findings


def frame(rows, shift=0.0, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"x": rng.normal(shift, 1.0, rows), "kind": rng.choice(["a", "b"], rows)})


def test_drift_is_measured_from_the_original_that_is_given(tmp_path):
    file, seen = tmp_path / "run.driftline", []
    with Monitor(file, original=frame(800), window=400, on_record=seen.append) as monitor:
        records = list(monitor.watch(frame(800, shift=1.0, seed=1)))
        assert seen == records == list(monitor.records)
    assert [(r.window, str(r.status), r.rows, r.first_row) for r in records] == [
        (0, "original", 800, 0),
        (1, "measured", 400, 0),
        (2, "measured", 400, 400),
    ]
    assert records[0].causes == (Cause.JOINED,)
    assert any("a table of 800 rows, not the first window" in note for note in records[0].notes)
    assert records[1].signal == Signal.ALARM  # it would be the first window otherwise
    with Monitor(file, original=frame(800)) as monitor:
        more = list(monitor.watch(frame(400, shift=1.0, seed=2)))
        assert [r.window for r in more] == [3]
        assert "alarm" in findings(monitor.run).verdicts[0][1].sentence.lower()
    with pytest.raises(ValueError, match="began from another original than the one that is given: leave it out"):
        Monitor(file, original=frame(800, seed=5))


def test_a_run_that_was_stopped_before_its_first_window_goes_on_from_the_original(tmp_path):
    stopped, whole = tmp_path / "stopped.driftline", tmp_path / "whole.driftline"
    frame(800, shift=1.0, seed=1).to_parquet(tmp_path / "rows.parquet")
    with Monitor(stopped, original=frame(800), window=400) as monitor:
        assert next(monitor.watch(tmp_path / "rows.parquet")).window == 0
    with Monitor(stopped) as monitor:
        assert list(monitor.watch(tmp_path / "rows.parquet")) == list(monitor.records[1:])
        found = monitor.to_frame()
    with Monitor(whole, original=frame(800), window=400) as monitor:
        list(monitor.watch(tmp_path / "rows.parquet"))
        pd.testing.assert_frame_equal(found.drop(columns="seconds"), monitor.to_frame().drop(columns="seconds"))


def test_an_original_may_lack_the_times_of_the_stream():
    times = pd.date_range("2025-01-01", periods=900, freq="h")
    with Monitor(original=frame(500), time_column="ts", every="12d") as monitor:
        records = list(monitor.watch(frame(900, seed=1).assign(ts=times)))
    assert (records[0].rows, records[0].start) == (500, None)
    assert all(r.start.startswith("202") for r in records[1:])
    assert all(r.signal == Signal.NORMAL for r in records)
    assert not any("ts" in note for r in records for note in r.notes)


def test_an_original_that_is_too_short_or_nothing_of_the_kind_is_refused(tmp_path):
    file = tmp_path / "run.driftline"
    with (
        Monitor(file, original=frame(15), window=400) as monitor,
        pytest.raises(ValueError, match=r"^the original: 15 rows are too few, at least 20 are needed"),
    ):
        list(monitor.watch(frame(800)))
    with pytest.raises(ValueError, match="of type int, not a frame"):
        Monitor(tmp_path / "other.driftline", original=5, window=400)
    assert not (tmp_path / "other.driftline").exists()
