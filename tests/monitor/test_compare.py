"""A single look at two tables: what an interval says, or the lack of one."""

import math
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import driftline
from driftline.alarms import Cause, Signal
from driftline.fitting import first_summary
from driftline.inference import Estimate
from driftline.monitor import Monitor, Record, compare
from driftline.monitor._compare import _signal
from driftline.monitor._judgement import plain
from driftline.monitor._sizes import TooFewRowsError


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
    assert _signal(plain(Estimate(0.03, 0.01, low, high, 0.95)), 0.1) == (signal, cause)


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
    assert record.causes[0] == Cause.NEW_VALUES


def test_a_lower_bound_in_a_record_is_one(rng):
    """Signs of three columns: the estimate says "at least", and so does the one in the Record, also when read back."""
    x, y = rng.normal(size=(2, 3000, 4))
    y[:, 2] = np.abs(y[:, 2]) * np.where(rng.random(3000) < 0.95, 1.0, -1.0) * np.sign(y[:, 0] * y[:, 1])
    record = compare(x, y)
    assert record.drift.lower_bound
    assert record.drift.high == math.inf
    assert str(record.drift).startswith("at least ")
    assert Record.from_json(record.to_json()).drift == record.drift


def mixed(rng, rows, shift=0.0, new=0.0, order=False):
    frame = pd.DataFrame(
        {
            "x": rng.normal(shift, 1.0, rows),
            "y": rng.gamma(2.0, 1.0, rows),
            "kind": rng.choice(["a", "b", "c"], rows, p=[0.5, 0.3, 0.2]),
        }
    )
    frame.loc[rng.random(rows) < new, "kind"] = "new"
    return frame.assign(x=np.cumsum(frame.x)) if order else frame


MADE = {
    "quiet": ({}, {}),
    "moved": ({}, {"shift": 0.5}),
    "a new category": ({}, {"new": 0.02}),
    "far away": ({}, {"shift": 40.0}),
    "dependent": ({"order": True}, {"order": True}),
}


def watched(then, now, **settings):
    (_, record) = Monitor(window=len(then), **settings).watch(pd.concat([then, now]), flush=True)
    return record


def assert_same(one, other):
    """Both must tell the same of the same two windows: estimates, doubts of each measure, columns, diagnostics."""
    assert one.divergences == other.divergences
    assert one.doubts == other.doubts
    assert one.columns == other.columns
    assert one.effective_sample_size == other.effective_sample_size
    assert str(one.diagnostics) == str(other.diagnostics)  # nan is not nan
    assert set(other.notes) <= set(one.notes)  # those of the first window are its own Record's


@pytest.mark.parametrize("case", MADE)
def test_compare_tells_what_watch_tells_of_the_same_two_windows(case):
    rng = np.random.default_rng(1000)
    then, now = (mixed(rng, 800, **how) for how in MADE[case])
    alone, stream = compare(then, now), watched(then, now)
    assert_same(alone, stream)
    assert (alone.signal == Signal.NORMAL) <= (stream.signal == Signal.NORMAL)  # one look is never calmer
    if case in ("far away", "dependent"):
        assert alone.doubts


@pytest.mark.full
@pytest.mark.skipif(not os.environ.get("DRIFTLINE_DATA"), reason="DRIFTLINE_DATA does not name a folder")
def test_compare_and_watch_agree_on_a_public_table():
    market = pd.read_csv(Path(os.environ["DRIFTLINE_DATA"], "electricity", "electricity.zip")).drop(columns="date")
    for first, last in ((0, 8_000), (20_000, 30_000)):
        then, now = (market.iloc[k : k + 2_000].sample(frac=1.0, random_state=7) for k in (first, last))
        assert_same(compare(then, now), watched(then, now))


def test_too_few_rows_are_an_error_as_in_a_first_window():
    rng = np.random.default_rng(1000)
    with pytest.raises(TooFewRowsError, match="the rows to compare with it: 30 rows are too few, at least 40"):
        compare(mixed(rng, 500), mixed(rng, 30))


def test_an_unreadable_cell_is_named_by_its_table():
    then = pd.DataFrame({"x": np.random.default_rng(0).normal(size=300)})
    now = pd.DataFrame({"x": ["1.5"] * 299 + ["red"]})
    with pytest.raises(ValueError, match=r"value 'red' in row 300 of the rows to compare with it is not a number"):
        compare(then.astype(str), now, numeric=["x"])


@pytest.mark.parametrize("count", [2, pytest.param(10, marks=pytest.mark.slow)])
def test_new_values_in_a_few_rows_are_counted_apart(count):
    """The drift without them is that of the rest, whatever their share: here none, and a shift by 0.3.

    Counted with it, the tenth of new rows would be worth more than 0.3 nats.
    """
    errors = []
    for seed in range(1000, 1000 + count):
        rng = np.random.default_rng(seed)
        record = compare(mixed(rng, 2000), mixed(rng, 2000, shift=0.3, new=0.1))
        errors.append(record.diagnostics["without_new_values"] - 0.3**2 / 2)
        assert 0.08 < record.diagnostics["new_values"] < 0.12
    # half the square of a difference of means, of 2,000 and 1,800 rows: 0.007 for the mean of 2
    known = 0.3 * math.sqrt((1 / 2000 + 1 / 1800) / count)
    assert abs(np.mean(errors)) < 4.0 * known + 0.002
    quiet = compare(mixed(rng, 2000), mixed(rng, 2000))
    assert quiet.diagnostics["new_values"] == 0.0
    assert math.isnan(quiet.diagnostics["without_new_values"])


def test_after_a_step_that_could_not_be_measured_columns_are_named_by_their_counts():
    """Counts need no fit: the one column that moved is named, and no other."""
    rng = np.random.default_rng(1000)
    record = compare(mixed(rng, 800), mixed(rng, 800, shift=40.0))
    assert "weak_step" in [doubt.code for doubt in record.doubts]
    assert [(moved.column, moved.cause) for moved in record.columns] == [("x", "median from 0.0 to above 7.8")]


@pytest.mark.parametrize("seed", [1000, *(pytest.param(s, marks=pytest.mark.slow) for s in (1001, 1002, 1003))])
def test_a_new_code_is_named_and_costs_no_million_nats(seed):
    """Clusters do not shrink to the marks of a scale; 5 % of new rows are worth about 0.25 nats, half a row each."""
    rng, n = np.random.default_rng(seed), 3000

    def table(new):
        codes = rng.choice([1, 2, 3], n, p=[0.5, 0.3, 0.2])
        codes[rng.random(n) < new] = 4
        return pd.DataFrame({"code": codes, "a": rng.normal(size=n)})

    record = compare(table(0.0), table(0.05))
    assert 0.1 < record.drift.value < 1.0
    (moved,) = record.columns
    assert moved.column == "code"
    assert moved.cause.startswith("above 3.5 from 0 % to ")
    assert moved.drift.lower_bound  # how rare it was is not known
    assert compare(table(0.0), table(0.0)).columns == ()  # negative control


@pytest.mark.full
@pytest.mark.parametrize(("count", "least"), [(2, 1), pytest.param(4, 3, marks=pytest.mark.slow)])
def test_wrong_units_in_few_rows_are_named_and_the_drift_is_rarely_called_small(count, least):
    """Cents for euros in 3 % of the rows; an integral says 0.19 nats, and the model does not hold so far a tail.

    Counts do, unless the original has a few such rows by itself: one run of four may be too low (docs/trust.md).
    """
    n, held = 3000, 0

    def table(rng, wrong):
        amount = rng.lognormal(3.0, 1.0, n)
        amount[rng.random(n) < wrong] *= 100.0
        return pd.DataFrame({"amount": amount, "a": rng.normal(size=n)})

    for seed in range(1000, 1000 + count):
        rng = np.random.default_rng(seed)
        record = compare(table(rng, 0.0), table(rng, 0.03))
        assert record.columns[0].column == "amount"
        assert record.columns[0].cause.startswith("above ")
        held += record.drift.high > 0.19 or record.drift.lower_bound
        assert compare(table(rng, 0.0), table(rng, 0.0)).doubts == ()
    assert held >= least


@pytest.fixture
def summed_up_once(monkeypatch):
    """Look for the clusters of one and the same original only once; this takes most of the time."""
    known = {}

    def summed_up(z, *, seed):
        key = z.tobytes(), z.shape, seed
        if key not in known:
            known[key] = first_summary(z, seed=seed)
        return known[key]

    monkeypatch.setattr("driftline.recursion._log_linear.first_summary", summed_up)
    return known


@pytest.mark.full
@pytest.mark.parametrize("seed", [1000, *(pytest.param(s, marks=pytest.mark.slow) for s in (1001, 1002, 1003))])
def test_a_column_that_moves_as_a_whole_brings_no_pairs_with_it(seed, summed_up_once):
    """Groups are coarse: without ranks, a shifted column seems to relate otherwise to those that it depends on."""
    rng, n = np.random.default_rng(seed), 3000

    def table():
        a = rng.gamma(2.0, 10.0, n)
        return pd.DataFrame({"a": a, "b": a + rng.gamma(2.0, 5.0, n), "c": rng.normal(size=n)})

    original, current = table(), table()
    moved = compare(original, current.assign(a=current.a * 1.5))
    assert ([m.column for m in moved.columns], moved.pairs) == (["a"], ())
    missing = current.assign(b=current.b.where(rng.random(n) > 0.12))
    assert [m.columns for m in compare(original, missing).pairs] == []
    torn = compare(original, current.assign(a=rng.permutation(current.a)))  # negative control
    assert ([m.column for m in torn.columns], [m.columns for m in torn.pairs]) == ([], [("a", "b")])
    assert len(summed_up_once) == 1
