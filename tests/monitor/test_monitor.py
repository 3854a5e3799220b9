"""The monitor: it reports drift, goes on as if it had never stopped, and keeps only what it must."""

import json
import logging
import math
import signal
from dataclasses import replace
from itertools import islice

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from driftline import Monitor
from driftline.alarms import AlarmMemory, Signal
from driftline.estimators import parse_estimator
from driftline.inference import Estimate
from driftline.monitor import Record, Settings, inspect, read_run, search
from driftline.monitor import _judgement as judging
from driftline.monitor._sqlite import TrackerError
from driftline.monitor._tracker import Tracker
from driftline.sources import SourceError
from driftline.tables import TableError
from tests.deaths import days_parquet, frame, killed_often, rows_csv, watched
from tests.schema import validate


def days(rows, rng):
    """Return a frame for each day from 1 January that has rows, all of them at noon."""
    times = [f"2026-01-{1 + day:02}T12:00:00" for day in range(len(rows))]
    return [frame(rng, n).with_columns(pl.Series("ts", [at] * n)) for at, n in zip(times, rows, strict=True) if n]


def plain(records):
    return [replace(record, seconds=0.0) for record in records]


def test_drift_is_measured_and_reported():
    rng, alarms, seen = np.random.default_rng(0), [], []
    frames = [frame(rng, 2000, shift=0.0 if t < 4 else 0.5) for t in range(8)]
    with Monitor(window=2000, tolerance=0.02, on_record=seen.append, on_alarm=alarms.append) as monitor:
        records = list(monitor.watch(frames))
    assert [r.status for r in records] == ["original"] + ["measured"] * 7
    assert [r.signal == Signal.ALARM for r in records] == [False] * 4 + [True] * 4
    assert seen == records
    assert alarms == [records[4]]  # when it rises, not while it stands
    drift = records[-1].drift
    assert abs(drift.value - 0.125) < 4 * drift.std_error  # a unit normal moved by 0.5, the rest did not move
    (moved,) = records[-1].columns
    assert (moved.column, moved.cause.split()[0]) == ("amount", "median")
    assert moved.drift.low < 0.125 < moved.drift.high
    assert not any(r.columns or r.pairs for r in records[:4])
    assert records[4].step.value > 0.05 > records[5].step.value
    assert records[-1].first_row == 14_000
    for record in records:
        validate(json.loads(record.to_json()))
        assert Record.from_json(record.to_json()) == record


def test_a_quiet_stream_stays_quiet():
    rng = np.random.default_rng(1)
    with Monitor(window=1000, tolerance=0.0, run_length=1000) as monitor:
        records = list(monitor.watch(frame(rng, 1000) for _ in range(40)))
    # one false alarm in 1000 windows is promised: one in these 39 has a chance of 4 %, two almost none
    assert sum(r.signal == Signal.ALARM for r in records) <= 1
    inside = [r.drift.low <= 0.0 <= r.drift.high for r in records[1:]]
    assert np.mean(inside) > 0.5  # all estimates share the original's noise, so it is not 95 % in one run


@pytest.mark.parametrize("make", [pl.DataFrame, pd.DataFrame, pa.table])
def test_frames_of_all_kinds_read_the_same(make):
    rng = np.random.default_rng(0)
    columns = [{"x": rng.normal(size=300), "c": rng.choice(["a", "b"], 300)} for _ in range(3)]
    with Monitor(window=300) as monitor:
        records = list(monitor.watch(make(c) for c in columns))
    with Monitor(window=300) as monitor:
        expected = list(monitor.watch(pa.table(c) for c in columns))
    assert plain(records) == plain(expected)


def test_going_on_gives_the_same_numbers(tmp_path):
    rng = np.random.default_rng(0)
    table = pl.concat([frame(rng, 500, shift=0.1 * t) for t in range(6)])
    table.write_csv(tmp_path / "rows.csv")
    expected = watched(tmp_path / "whole", tmp_path / "rows.csv", window=500)
    assert len(expected) == 6
    found = []
    for _ in range(6):  # a window a day
        with Monitor(tmp_path / "parts", window=500) as monitor:
            found.append(next(monitor.watch(tmp_path / "rows.csv")))
    assert plain(found) == plain(expected)
    assert plain(read_run(tmp_path / "parts").records) == plain(expected)
    assert watched(tmp_path / "parts", tmp_path / "rows.csv") == []


def _joining_csv(tmp_path, rng, windows):
    """Write rows whose drift asks ``auto`` for one feature after another: a product, then a curve."""
    parts = []
    for t in range(windows):
        a, b, c = rng.normal(size=(3, 500))
        drift = 6.0 * t / windows
        parts.append(pl.DataFrame({"a": a, "b": b + 0.2 * drift * a, "c": c + 0.15 * drift * (a**2 - 1.0)}))
    pl.concat(parts).write_csv(tmp_path / "rows.csv")
    return tmp_path / "rows.csv", {"window": 500, "model": "auto"}


def _odd_times(rng, windows):
    """Return days of milliseconds since 1970: some years are wrong, some times missing, and a month has no rows."""
    table = frame(rng, 400 * windows)
    days = np.arange(len(table)) // 400
    times = (1_700_006_400 + 86_400 * (days + 30 * (days > 3)) + 200 * (np.arange(len(table)) % 400)) * 1000
    times[rng.choice(len(table), 30, replace=False)] += 366 * 86_400_000
    return table.with_columns(ts=pl.Series(times).cast(pl.String)), {"time_column": "ts", "every": "1d"}


def _odd_times_csv(tmp_path, rng, windows):
    table, settings = _odd_times(rng, windows)
    missing = pl.Series(rng.random(len(table)) < 0.01)
    table = table.with_columns(ts=pl.when(missing).then(None).otherwise(table["ts"]))
    table.write_csv(tmp_path / "odd.csv")
    return tmp_path / "odd.csv", {**settings, "schema": "lenient"}


def _newest_first_csv(tmp_path, rng, windows):
    table, settings = _odd_times(rng, windows)
    table.reverse().write_csv(tmp_path / "newest.csv")
    return tmp_path / "newest.csv", settings


@pytest.mark.parametrize("make", [_odd_times_csv, _newest_first_csv])
def test_going_on_by_time_gives_the_same_records(make, tmp_path, monkeypatch):
    """However the file is cut into blocks, and wherever the run was stopped; wrong times and rows left out included."""
    source, settings = make(tmp_path, np.random.default_rng(3), 6)
    settings |= {"model": "linear", "summaries": False}
    expected = watched(None, source, **settings)
    assert [(r.status, bool(r.notes)) for r in expected][:5] == [
        ("original", True),
        *[("measured", "odd" in source.name)] * 3,
        ("skipped", True),
    ]
    monkeypatch.setattr("driftline.sources._readers.BLOCK", 5000)
    found = []
    for _ in expected:
        with Monitor(tmp_path / "parts", **settings) as monitor:
            found.append(next(monitor.watch(source)))
    assert plain(found) == plain(expected)


_LATER = [pytest.param(make, marks=pytest.mark.slow) for make in (_odd_times_csv, _newest_first_csv)]


@pytest.mark.full
@pytest.mark.parametrize("make", [rows_csv, days_parquet, _joining_csv, *_LATER])
@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.slow)])
def test_kills_lose_and_repeat_nothing(make, kills, tmp_path):
    source, settings = make(tmp_path, np.random.default_rng(3), 5 * kills)
    records, state, signals = killed_often(tmp_path, source, settings, kills, seed=4)
    # all of them before the run was over, every third in the middle of a write
    assert signals == [signal.SIGXFSZ if kill % 3 == 0 else signal.SIGKILL for kill in range(kills)]
    expected = watched(tmp_path / "whole", source, **settings)
    assert plain(records) == plain(expected)
    assert [r.window for r in records] == list(range(len(records)))
    with Tracker(tmp_path / "whole", readonly=True) as tracker:
        assert tracker.read().state == state
    if make is _joining_csv:
        features = (
            parse_estimator(state, "ContinualDensityRatio", "state").state.tracks["original"].current.psi.features
        )
        assert features.size > features.base  # some have joined meanwhile


def test_what_is_kept(tmp_path):
    rng = np.random.default_rng(0)
    frames = [frame(rng, 300, shift=0.1 * t) for t in range(4)]
    with Monitor(tmp_path / "run", window=300) as monitor:
        (first,) = monitor.watch(frames[:1])
        rows = [monitor.encoder.transform(f.to_arrow()).values for f in frames]
        assert inspect(tmp_path / "run").originals_held == ("original",)
        assert search(tmp_path / "run", [rows[0]]).left_behind > 280  # until the next window it is needed
        sizes = []
        for t in range(1, 4):
            list(monitor.watch(frames[t : t + 1]))
            found = inspect(tmp_path / "run")
            sizes.append(found.parts["state"])
            assert found.originals_held == ()
            assert [(held.window, held.rows) for held in found.held] == [(t, 300)]
            assert search(tmp_path / "run", rows[:t]).found == 0
            assert search(tmp_path / "run", [rows[t]]).found > 280
    assert len(set(sizes)) == 1
    assert first.digest != ""
    assert sum(array.bytes for array in found.arrays) < found.bytes
    assert found.free_is_zero


def test_rows_wider_than_a_page_are_found(tmp_path, monkeypatch):
    monkeypatch.setattr("driftline.monitor._sqlite._PAGE", 512)  # 64 numbers
    rng = np.random.default_rng(0)
    wide = [pa.table({f"x{j}": rng.normal(size=500) for j in range(40)}) for _ in range(2)]
    with Monitor(tmp_path / "run", window=500, model="linear") as monitor:
        list(monitor.watch(wide[:1]))
        rows = monitor.encoder.transform(wide[0]).values
        assert rows.shape[1] == 80
        assert search(tmp_path / "run", [rows]).found == 500
        list(monitor.watch(wide[1:]))
        assert search(tmp_path / "run", [rows]).found == 0


def test_a_commit_that_fails_loses_nothing(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    frames = [frame(rng, 300, shift=t) for t in range(4)]
    expected = watched(None, frames, window=300)
    rows = iter(frames)
    with Monitor(tmp_path / "run", window=300) as monitor:
        found = [next(monitor.watch(rows)), next(monitor.watch(rows))]
        commit = monitor._tracker.commit

        def fails(*args):
            raise TrackerError("disk full")

        monkeypatch.setattr(monitor._tracker, "commit", fails)
        with pytest.raises(TrackerError, match="disk full"):
            list(monitor.watch(rows))
        monkeypatch.setattr(monitor._tracker, "commit", commit)
        found += monitor.watch(rows)
    assert plain(found) == plain(expected)


# nominal: one in forty; two of 5 have a chance of 0.006, three of 10 one of 0.002
@pytest.mark.full
@pytest.mark.parametrize(("runs", "most"), [(5, 1), pytest.param(10, 2, marks=pytest.mark.slow)])
def test_a_short_window_is_not_stepped_through(runs, most):
    """A holiday with few rows is skipped; the next day is compared with the day before it, and shows no drift."""
    rng, away = np.random.default_rng(0), 0
    for _ in range(runs):
        rows = days([1000, 1000, 15, 1000, 1000], rng)
        with Monitor(time_column="ts", every="1d", tolerance=0.0) as monitor:
            records = list(monitor.watch(rows, flush=True))
        assert [r.status for r in records] == ["original", "measured", "skipped", "measured", "measured"]
        assert "the next window is compared with the one before" in records[2].notes[-1]
        away += records[-1].drift.low > 0.0
    assert away <= most


def test_without_error_bars_nothing_is_decided_while_warming_up():
    drift, step = Estimate(2.0, math.nan, math.nan, math.nan, 0.95), Estimate(0.1, math.nan, math.nan, math.nan, 0.95)
    alarm = AlarmMemory()
    signals = []
    for _ in range(4):
        alarm, decision = judging._decide(alarm, Settings(window=100, warm_up=2), drift, step)
        signals.append(decision.signal)
    assert signals == [Signal.NORMAL, Signal.NORMAL, Signal.WARNING, Signal.WARNING]
    assert alarm.seen == 4


def test_summaries_can_be_refused(tmp_path):
    rng = np.random.default_rng(0)
    run_with, run_without = tmp_path / "with", tmp_path / "without"
    frames = [frame(rng, 300) for _ in range(2)]
    watched(run_with, frames, window=300)
    watched(run_without, frames, window=300, summaries=False)
    assert set(read_run(run_with).now) == {"amount", "income", "card", "new"}
    assert read_run(run_with).originals[0].then.keys() == read_run(run_with).now.keys()
    assert read_run(run_without).now == {}
    assert read_run(run_without).originals[0].then == {}


def test_originals(tmp_path):
    rng = np.random.default_rng(0)
    with Monitor(tmp_path / "run", window=1000) as monitor:
        list(monitor.watch(frame(rng, 1000, shift=0.3 * (t > 0)) for t in range(3)))
        monitor.add_original("now")
        record = monitor.add_original("far", frame(rng, 1000, shift=1.0))
        assert (record.status, record.original, record.rows) == ("original", "far", 1000)
        with pytest.raises(ValueError, match="'far' is traced already"):
            monitor.add_original("far")
        assert set(inspect(tmp_path / "run").originals_held) == {"now", "far"}
    with Monitor.open(tmp_path / "run") as monitor:
        records = list(monitor.watch([frame(rng, 1000, shift=0.3)]))
        assert [r.original for r in records] == ["original", "now", "far"]
        values = {r.original: r.drift for r in records}
        for name, truth in (("original", 0.045), ("now", 0.0), ("far", 0.245)):
            assert abs(values[name].value - truth) < 4 * max(values[name].std_error, 0.004)
        assert [original.name for original in monitor.originals] == ["original", "now", "far"]
        assert inspect(tmp_path / "run").originals_held == ()
        sample = frame(rng, 500, shift=0.3)
        weights = {name: monitor.weights(sample, name) for name in values}
        assert abs(np.average(sample["amount"], weights=weights["far"]) - 1.0) < 0.15
        assert abs(np.average(sample["amount"], weights=weights["original"])) < 0.15
        assert monitor.weights(sample) == pytest.approx(weights["original"])
        with pytest.raises(ValueError, match="'winter' is unknown"):
            monitor.weights(sample, "winter")
        assert np.isfinite(monitor.log_ratio(sample)).all()


def test_settings_stay_unless_they_only_judge(tmp_path):
    rng = np.random.default_rng(0)
    frames = [frame(rng, 300) for _ in range(4)]
    watched(tmp_path / "run", frames[:2], window=300)
    with pytest.raises(ValueError, match=r"begun with window=300, not 200"):
        Monitor(tmp_path / "run", window=200)
    with pytest.raises(ValueError, match="'nonsense' is not a setting"):
        Monitor(tmp_path / "run", nonsense=1)
    (record,) = watched(tmp_path / "run", frames[2:3], tolerance=0.3)
    assert "from here on tolerance=0.3 instead of 0.1" in record.notes
    (record,) = watched(tmp_path / "run", frames[3:])
    assert record.notes == ()
    assert read_run(tmp_path / "run").settings.tolerance == 0.3


def test_schema_changes(tmp_path):
    rng = np.random.default_rng(0)
    frames = [frame(rng, 300) for _ in range(3)]
    watched(tmp_path / "run", frames[:2], window=300)
    changed = frames[2].drop("income").with_columns(card=pl.lit("cash"), extra=pl.lit(1.0))
    before = read_run(tmp_path / "run")
    with pytest.raises(TableError, match="'income' is missing"):
        watched(tmp_path / "run", [changed])
    assert read_run(tmp_path / "run") == before
    (record,) = watched(tmp_path / "run", [changed], schema="lenient")
    notes = " ".join(record.notes)
    assert "income" in notes
    assert "extra" in notes
    assert "'cash'" in notes
    assert record.status == "measured"
    assert record.signal == Signal.ALARM


def test_windows_that_cannot_be_measured():
    rng = np.random.default_rng(0)
    with Monitor(time_column="ts", every="1d") as monitor:
        records = list(monitor.watch(days([2, 500, 500, 0, 0, 5, 500], rng), flush=True))
    assert [r.status for r in records] == ["original", "measured", "skipped", "skipped", "measured"]
    assert [r.rows for r in records] == [500, 500, 0, 5, 500]
    assert "2 rows before" in records[0].notes[0]
    assert (records[2].start[:10], records[2].end[:10]) == ("2026-01-04", "2026-01-06")
    assert "too few" in records[3].notes[-1]


def test_rows_that_wait_are_logged(caplog):
    rng = np.random.default_rng(0)
    with Monitor(window=300) as monitor, caplog.at_level(logging.INFO, logger="driftline"):
        assert len(list(monitor.watch([frame(rng, 700)]))) == 2
        assert monitor.waiting == 100
    assert "100 rows" in caplog.text


@pytest.mark.parametrize("settings", [{"window": 300}, {"time_column": "ts", "every": "1d"}])
def test_frames_may_come_in_several_calls(settings):
    rng = np.random.default_rng(0)
    days = [f"2026-01-{1 + i // 350:02}" for i in range(2000)]
    table = frame(rng, 2000).with_columns(ts=pl.Series(days))
    with Monitor(**settings) as monitor:
        expected = list(monitor.watch(table))
    with Monitor(**settings) as monitor:
        found = [r for start in range(0, 2000, 130) for r in monitor.watch(table[start : start + 130])]
    with Monitor(**settings) as monitor:
        one_by_one = []
        rows = iter([table])
        while part := list(islice(monitor.watch(rows), 1)):
            one_by_one += part
    assert len(expected) > 4
    assert plain(found) == plain(expected)
    assert plain(one_by_one) == plain(expected)


def test_json_lines_without_a_column(tmp_path):
    rng = np.random.default_rng(0)
    lines = [{"x": rng.normal(), **({"y": rng.normal()} if i < 300 else {})} for i in range(600)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    _, second = watched(None, tmp_path / "rows.jsonl", window=300)
    assert second.status == "measured"
    assert second.columns[0].column == "y"  # all missing now


def test_wrong_use(tmp_path):
    with pytest.raises(ValueError, match="how long a window is"):
        Monitor()
    with pytest.raises(FileNotFoundError, match="no such tracker"):
        Monitor.open(tmp_path / "nothing")
    with pytest.raises(SourceError):
        watched(None, tmp_path / "nothing.csv", window=100)
    with pytest.raises(ValueError, match="no window has been watched"):
        Monitor(window=100).weights(frame(np.random.default_rng(0)))
    with Monitor(tmp_path / "run", window=300) as monitor:
        list(monitor.watch([frame(np.random.default_rng(0), 300)]))
        with pytest.raises(TrackerError, match="another process"):
            Monitor(tmp_path / "run")
        with Monitor.open(tmp_path / "run", readonly=True) as reader:
            assert len(reader.records) == 1


def test_an_interval_that_was_withheld_is_neither_an_alarm_nor_a_green_light(tmp_path, rng):
    """Sorted rows say nothing sure: whatever the tolerance, a warning with its reason, until rows do again."""

    def window(ordered):
        rows = pl.DataFrame({"a": rng.normal(size=600), "b": rng.normal(size=600)})
        return rows.sort("a") if ordered else rows

    source = pl.concat([window(ordered) for ordered in (False, False, True, False, False)])
    for tolerance in (0.0, 5.0):
        records = watched(tmp_path / f"{tolerance}.db", source, window=600, tolerance=tolerance, run_length=10_000)
        blind = [r for r in records if r.drift is not None and not math.isfinite(r.drift.std_error)]
        assert [r.window for r in blind] == [2]  # the next step starts from the window before
        assert all(r.signal == Signal.WARNING and r.doubts for r in blind)
        assert "rows look sorted" in " ".join(map(str, blind[0].doubts))
        assert records[-1].signal == Signal.NORMAL
        assert records[-1].doubts == ()
