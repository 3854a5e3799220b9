"""A single look at two tables: what an interval says, or the lack of one."""

import math

import numpy as np
import pandas as pd
import pytest

import driftline
from driftline.alarms import Cause, Signal
from driftline.inference import Estimate
from driftline.monitor import Record, compare
from driftline.monitor._compare import _signal


@pytest.mark.parametrize(
    ("low", "high", "signal", "cause"),
    [
        (0.01, 0.05, Signal.NORMAL, Cause.INTERVAL_WITHIN),
        (0.01, math.nan, Signal.WARNING, Cause.LOWER_BOUND),  # below the tolerance, as far as one can see
        (0.20, math.nan, Signal.ALARM, Cause.LOWER_BOUND),
        (math.nan, math.nan, Signal.WARNING, Cause.NO_INTERVAL),
    ],
)
def test_nothing_but_an_interval_within_the_tolerance_is_normal(low, high, signal, cause):
    assert _signal(Estimate(0.03, 0.01, low, high, 0.95), 0.1, math.isnan(low)) == (signal, cause)


def test_frames_and_arrays_are_compared_as_files_are():
    rng = np.random.default_rng(0)
    then = pd.DataFrame({"x": rng.normal(size=1000), "kind": rng.choice(["a", "b"], 1000)})
    now = then.assign(x=rng.normal(1.0, 1.0, 1000))
    record = compare(then, now, name="train", tolerance=0.05, drop=["kind"])
    assert (record.signal, record.original, record.columns[0].column) == (Signal.ALARM, "train", "x")
    assert driftline.compare(then[["x"]].to_numpy(), now[["x"]].to_numpy(), tolerance=10.0).signal == Signal.NORMAL
    with pytest.raises(ValueError, match=r"current must have two dimensions \(rows, columns\), got shape \(1000,\)"):
        compare(then[["x"]].to_numpy(), now["x"].to_numpy())
    with pytest.raises(ValueError, match="'toleranze' is not a setting"):
        compare(then, now, toleranze=1)


def test_values_that_no_row_had_are_an_alarm_in_a_single_look_too():
    rng = np.random.default_rng(0)
    then = pd.DataFrame({"x": rng.normal(size=1000), "kind": rng.choice(["a", "b"], 1000)})
    now = then.copy()
    now.loc[800:, "kind"] = "c"  # a block at the end: there is no interval
    record = compare(then, now)
    assert record.signal == Signal.ALARM
    assert record.causes[-1] == Cause.NEW_VALUES


def test_a_lower_bound_in_a_record_is_one(rng):
    """Signs of three columns: the estimate says "at least", and so does the one in the Record, also when read back."""
    x, y = rng.normal(size=(2, 3000, 4))
    y[:, 2] = np.abs(y[:, 2]) * np.where(rng.random(3000) < 0.95, 1.0, -1.0) * np.sign(y[:, 0] * y[:, 1])
    record = compare(x, y)
    assert record.drift.lower_bound
    assert record.drift.high == math.inf
    assert str(record.drift).startswith("at least ")
    assert Record.from_json(record.to_json()).drift == record.drift
