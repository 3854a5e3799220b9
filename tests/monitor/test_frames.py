"""A run as a frame, and what a monitor and its Records show of themselves."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from driftline import Monitor


@pytest.fixture(scope="module")
def monitor():
    rng, times = np.random.default_rng(0), pd.date_range("2025-01-01", periods=60 * 24, freq="min")
    with Monitor(time_column="ts", every="6h") as found:
        assert repr(found) == "<Monitor in memory: no window yet>"
        list(found.watch(pd.DataFrame({"ts": times, "x": rng.normal(size=len(times))}), flush=True))
        found.add_original("late")
        yield found


def test_a_frame_has_a_row_for_each_record(monitor):
    frame = monitor.to_frame()
    assert isinstance(frame, pd.DataFrame)
    assert frame["window"].tolist() == [0, 1, 2, 3, 3]
    assert frame["original"].tolist() == ["original"] * 4 + ["late"]
    assert frame["start"].iloc[1] == pd.Timestamp("2025-01-01 06:00", tz="UTC")
    record = monitor.records[2]
    row = frame.iloc[2]
    assert (row["drift"], row["low"], row["js"]) == (
        record.drift.value,
        record.drift.low,
        record.divergences["js"].value,
    )
    assert (row["signal"], row["moved"], row["pairs"], row["causes"]) == ("normal", "", "", "within")
    assert pd.isna(row["moved_most"])
    assert frame["drift"].isna().tolist() == [True, False, False, False, True]


def test_frames_of_other_libraries_are_the_same(monitor):
    arrow, polars = monitor.to_frame("pyarrow"), monitor.to_frame("polars")
    assert isinstance(arrow, pa.Table)
    assert isinstance(polars, pl.DataFrame)
    assert polars.to_arrow().column("reason").to_pylist() == arrow.column("reason").to_pylist()
    with pytest.raises(ValueError, match="backend='spark' is unknown: choose pandas, polars, pyarrow"):
        monitor.to_frame("spark")
    assert Monitor(window=100).to_frame("pyarrow").num_rows == 0


def test_representations_are_short_and_say_how_things_stand(monitor):
    assert repr(monitor) == "<Monitor in memory: 4 windows, normal from 'original', normal from 'late'>"
    shown = repr(monitor.records[2])
    assert shown.startswith("<Record of window 2 from 'original': measured, 360 rows, drift ")
    assert "; normal: drift of " in shown
    assert len(shown) < 250
