"""``driftline watch``: what it prints and keeps, how it goes on, and how it ends."""

import io
import json
import shlex
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from driftline import Monitor
from driftline.cli import run
from driftline.cli._errors import code_of, interruptible
from driftline.monitor import Record, read_run
from driftline.sources import LeftOut
from tests.schema import validate


def test_watch_says_a_line_a_window_and_goes_on(copy, said):
    tracker = ["--tracker", "new.driftline"]
    lines = (copy / "people.csv").read_text().splitlines(keepends=True)
    (copy / "grows.csv").write_text("".join(lines[: 1 + 2 * 300 + 50]))
    assert run(["watch", "grows.csv", "--window", "300", *tracker]) == 0
    out, _ = said()
    assert "window 1  up to row 600  300 rows  drift" in out
    assert "50 rows wait" in out
    assert "driftline report new.driftline" in out
    (copy / "grows.csv").write_text("".join(lines))
    assert run(["watch", "grows.csv", *tracker]) == 0  # the settings are in the tracker file
    out, _ = said()
    shown = [line.split("  ")[0] for line in out.splitlines() if line.startswith("window")]
    assert shown == ["window 2", "window 3"]
    assert "ALARM  age" in out
    assert run(["watch", "grows.csv", *tracker]) == 0
    assert "nothing new: new.driftline has seen 4 windows" in said()[0]
    whole = read_run(copy / "run.driftline").records
    for one, other in zip(read_run(copy / "new.driftline").records, whole, strict=True):
        assert (one.divergences, one.signal, one.digest) == (other.divergences, other.signal, other.digest)


def test_json_is_records_only(copy, said):
    assert run(["watch", "people.csv", "--window", "300", "--json"]) == 0
    out, err = said()
    records = [Record.from_json(line) for line in out.splitlines()]
    assert [(r.window, r.status) for r in records] == [(0, "original"), *((t, "measured") for t in (1, 2, 3))]
    assert err == ""
    for line in out.splitlines():
        validate(json.loads(line))


def test_nothing_is_kept_without_a_tracker(copy, said):
    before = sorted(path.name for path in copy.iterdir())
    assert run(["watch", "people.csv", "--window", "300"]) == 0
    assert "nothing was kept" in said()[0]
    assert sorted(path.name for path in copy.iterdir()) == before


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ([], 0),
        (["--fail-on", "alarm"], 1),
        (["--fail-on", "warning"], 1),
        (["--fail-on", "never"], 0),
        (["--fail-on", "alarm", "--tolerance", "5"], 0),
    ],
)
def test_fail_on(copy, options, code):
    assert run(["watch", "people.csv", "--window", "300", "--json", *options]) == code


@pytest.mark.parametrize("tracker", [[], ["--tracker", "new.driftline"]])
def test_a_new_run_knows_one_original(copy, said, tracker):
    command = ["watch", "people.csv", "--window", "300", "--json", "--fail-on", "alarm", *tracker]
    assert run([*command, "--original", "orignal"]) == 2
    out, err = said()
    assert (out, err) == ("", "driftline: --original orignal is unknown: there is only 'original'\n")
    assert not Path("new.driftline").exists()
    assert run([*command, "--original", "original"]) == 1


def test_an_alarm_that_stands_fails_too(copy, said):
    assert run(["watch", "people.csv", "--tracker", "run.driftline", "--fail-on", "alarm"]) == 1
    assert "nothing new" in said()[0]


def test_a_window_that_is_never_full_is_reported(copy, said):
    assert run(["watch", "first.csv", "--window", "5000", "--tracker", "x.driftline", "--json"]) == 2
    out, err = said()
    assert out == ""
    assert err.splitlines() == [
        "driftline: no window was complete, so nothing was measured",
        "driftline: 300 rows wait for their window to be complete (--flush counts them at once)",
        "driftline: nothing has been compared yet: that needs two windows of 5,000 rows; there are 300 in all: "
        "choose a smaller --window, or wait for more rows (--flush counts the unfinished window)",
    ]


def test_stopped_by_hand(copy, said, monkeypatch):
    watch, seen = Monitor.watch, []

    def interrupted(self, *args, **kwargs):
        for record in watch(self, *args, **kwargs):
            yield record
            seen.append(record)
            if len(seen) == 2:
                raise KeyboardInterrupt

    command = ["watch", "people.csv", "--window", "300", "--tracker", "stopped.driftline", "--json"]
    with monkeypatch.context() as patched:
        patched.setattr(Monitor, "watch", interrupted)
        assert run(command) == 130
    out, err = said()
    assert "stopped after window 1; the same command goes on from there" in err
    assert "wait" not in err  # rows that were read ahead are not waiting for others
    assert run(command) == 0
    rest = said()[0]
    assert [Record.from_json(line).window for line in (out + rest).splitlines()] == [0, 1, 2, 3]


def test_terminated_is_stopped_in_order(copy, said, monkeypatch):
    before, watch = signal.getsignal(signal.SIGTERM), Monitor.watch

    def terminated(self, *args, **kwargs):
        for record in watch(self, *args, **kwargs):
            yield record
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(Monitor, "watch", terminated)
    try:
        interruptible()
        assert run(["watch", "people.csv", "--window", "300", "--tracker", "stopped.driftline"]) == 143
    finally:
        signal.signal(signal.SIGTERM, before)
    assert "stopped after window 0; the same command goes on from there" in said()[1]
    assert code_of(KeyboardInterrupt()) == 130


def test_follow_ends_with_the_window_that_fails(copy, said, people):
    command = ["watch", "people.csv", "--window", "300", "--follow", "--poll", "0.05", "--fail-on", "alarm", "--json"]
    people(1007, rows=50).to_csv("people.csv", mode="a", header=False, index=False)
    assert run(command) == 1
    out, err = said()
    assert Record.from_json(out.splitlines()[-1]).signal == "alarm"
    assert err == ""  # the 50 rows that were read ahead are not waiting


def test_rows_that_were_late_before_any_window(copy, said, monkeypatch):
    monkeypatch.setattr(Monitor, "left_out", LeftOut(late=2870))
    assert run(["watch", "first.csv", "--window", "5000", "--tracker", "late.driftline", "--json"]) == 2
    assert (
        "driftline: 2,870 rows came after their window was closed and were left out; no later window has been "
        "complete yet" in said()[1].splitlines()
    )


def test_late_rows_are_noted_once(copy, said, people):
    rows = people(1008).assign(ts=pd.date_range("2025-01-01", periods=300, freq="15min"))
    late = rows.iloc[[3, 4]]
    pd.concat([rows[:250], late, rows[250:]]).to_csv("late.csv", index=False)
    assert run(["watch", "late.csv", "--time-column", "ts", "--every", "1d", "--flush"]) == 0
    assert said()[0].count("were left out") == 1


def test_one_row_waits(copy, said, people):
    people(1009, rows=301).to_csv("more.csv", index=False)
    assert run(["watch", "more.csv", "--window", "300", "--tracker", "my run.driftline"]) == 2  # nothing to compare yet
    out, _ = said()
    assert "1 row waits for its window to be complete" in out
    command = next(line for line in out.splitlines() if line.startswith("for a report: ")).partition(": ")[2]
    assert shlex.split(command) == ["driftline", "report", "my run.driftline"]
    assert run(["watch", "more.csv", "--tracker", "my run.driftline"]) == 2
    out, err = said()
    assert "has seen 1 window\n" in out
    assert "a window of 300 rows after the original; there are 1 more" in err


@pytest.fixture
def days(people):
    """Function that writes days of 300 people to days.csv; the first call begins the file."""

    def write(*numbers, rows=300, edit=lambda frame: frame):
        frames = []
        for day in numbers:
            at = pd.Timestamp("2012-01-01") + pd.Timedelta(days=day)
            times = pd.date_range(at, periods=rows, freq=pd.Timedelta(days=1) / rows).strftime("%Y-%m-%d %H:%M:%S")
            frames.append(people(2000 + day, rows=rows).assign(ts=times))
        edit(pd.concat(frames)).to_csv("days.csv", mode="a", header=not Path("days.csv").exists(), index=False)

    return write


DAYS = ["watch", "days.csv", "--time-column", "ts", "--every", "1d", "--tracker", "days.driftline"]


def test_one_wrong_year_does_not_blind_a_run(copy, said, days):
    def wrong(frame):
        frame.iloc[700, frame.columns.get_loc("ts")] = "2102-01-03 08:00:00"
        return frame

    days(0, 1, 2, 3, 4, edit=wrong)
    assert run([*DAYS, "--json"]) == 0
    out, _ = said()
    records = [Record.from_json(line) for line in out.splitlines()]
    assert [(r.status, r.rows) for r in records] == [("original", 300), *[("measured", n) for n in (300, 299, 300)]]
    assert records[2].notes[0] == "1 row far ahead of the times around it left out (row 701 of 'days.csv')"


def test_calls_within_a_window_are_fine_once_something_was_compared(copy, said, days):
    """Cron every few hours with daily windows: each call only adds rows to the day that is not over."""
    days(0, 1)
    assert run(DAYS) == 2  # there is nothing to compare yet
    assert "a complete window of 1d after the original, and a row after it" in said()[1]
    days(2, rows=40)
    assert run(DAYS) == 0
    for _ in range(2):  # no rows, and more rows
        assert run(DAYS) == 0
        assert said()[1] == ""
        days(2, rows=40, edit=lambda frame: frame[20:])


def test_rows_left_out_get_a_record_and_exit_code_2_if_they_are_most(copy, said, days):
    days(0, 1, 2, 3)
    assert run([*DAYS, "--json"]) == 0
    said()
    days(0, 1)
    assert run([*DAYS, "--json"]) == 2
    out, err = said()
    (record,) = [Record.from_json(line) for line in out.splitlines()]
    assert (record.status, record.rows, record.late_rows, record.signal) == ("skipped", 0, 600, "normal")
    assert "600 rows of this call were left out (600 late), 0 rows were measured" in err
    assert "rows must come in the order of 'ts': sort them" in err
    assert run([*DAYS, "--json"]) == 0  # they were named, and nothing is new
    days(4, 5)
    assert run([*DAYS, "--json"]) == 0
    assert [Record.from_json(line).late_rows for line in said()[0].splitlines()[-2:]] == [0, 0]


def test_windows_with_too_few_rows_are_not_a_green_light(copy, said, days):
    days(0, 1, 2)
    assert run(DAYS) == 0
    days(3, rows=20)
    days(4, rows=20)
    assert run(DAYS) == 0  # day 2 was measured
    days(5, rows=20)
    assert run(DAYS) == 2
    assert "20 in windows that could not be measured" in said()[1]


def test_rows_of_standard_input_that_fill_no_window_are_not_measured_later(copy, said, people, monkeypatch):
    def piped(frame, *options):
        text = io.BytesIO(frame.to_csv(index=False).encode())
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(text)))
        return run(["watch", "-", "--tracker", "run.driftline", "--json", *options])

    assert piped(people(7, rows=300)) == 0
    assert piped(people(8, rows=100)) == 2
    assert "nothing was measured: 100 rows of standard input did not fill a window, and do not come again" in said()[1]
    assert piped(people(8, rows=200), "--flush") == 0


def test_what_a_kill_loses_of_standard_input_is_said_and_replay_brings_it_back(copy, said, people, monkeypatch):
    def piped(rows, tracker, *options):
        text = io.BytesIO(all_rows[:rows].to_csv(index=False).encode())
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(text)))
        return run(["watch", "-", "--window", "300", "--keep", "sums", "--tracker", tracker, "--json", *options])

    all_rows, warning = people(7, rows=1200), "if this command is killed, they are lost"
    assert piped(1200, "whole.driftline", "--replay") == 0
    whole, err = said()
    assert warning not in err  # all rows come again
    watch = Monitor.watch

    def interrupted(self, *args, **kwargs):
        yield next(watch(self, *args, **kwargs))
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Monitor, "watch", interrupted)
        assert piped(700, "piped.driftline") == 130
    out, err = said()
    assert "rows of an unfinished window are in memory alone" in err
    assert warning in err
    assert "stopped after window 0; rows that had not filled a window are lost: send all rows again with --repl" in err
    assert piped(1200, "piped.driftline", "--replay") == 0
    found = [Record.from_json(line) for line in (out + said()[0]).splitlines()]
    expected = [Record.from_json(line) for line in whole.splitlines()]
    assert [replace(record, seconds=0.0) for record in found] == [replace(record, seconds=0.0) for record in expected]


def test_more_rows_waiting_than_windows_have(copy, said, days):
    days(0, 1, 2)
    assert run(DAYS) == 0
    for _ in range(3):
        days(2)
    assert run(DAYS) == 2
    assert "does 'ts' still move on?" in said()[1]


def test_report_with_watch(copy, said):
    assert run(["watch", "people.csv", "--window", "300", "--report", "page.html"]) == 0
    assert "report: page.html" in said()[0]
    assert "<html" in Path("page.html").read_text()[:300]


def by_day(sizes, seed=1):
    """Return rows of days with so many rows each, and one row of the day after."""
    rng = np.random.default_rng(seed)
    days = [
        pd.Timestamp("2025-01-01") + pd.Timedelta(days=d, seconds=i)
        for d, n in enumerate([*sizes, 1])
        for i in range(n)
    ]
    return pd.DataFrame({"ts": days, "x": rng.normal(size=len(days)), "y": rng.normal(size=len(days))})


@pytest.mark.parametrize(("small", "plain", "careful"), [(0, 0, 0), (1, 0, 0), (2, 2, 1), (30, 2, 1)])
def test_days_that_were_not_measured_are_not_fine(tmp_path, monkeypatch, said, small, plain, careful):
    monkeypatch.chdir(tmp_path)
    by_day([400, 400, 400, *[5] * small]).to_csv("a.csv", index=False)
    command = ["watch", "a.csv", "--time-column", "ts", "--every", "1d"]
    assert run([*command, "--tracker", "a.driftline"]) == plain
    err = said()[1]
    assert (f"the last {small} windows ({5 * small} rows) were not measured" in err) == (small > 1)
    assert ("choose a longer --every" in err) == (small > 1)
    assert run([*command, "--tracker", "a.driftline"]) == plain  # it stands
    assert run([*command, "--tracker", "a.driftline", "--fail-on", "alarm"]) == plain
    assert run([*command, "--tracker", "a.driftline", "--fail-on", "warning"]) == careful
    assert run([*command, "--tracker", "b.driftline", "--fail-on", "warning", "--json"]) == careful


@pytest.mark.parametrize("small", [1, 29])
def test_days_that_are_all_too_short_ask_for_longer_ones(tmp_path, monkeypatch, said, small):
    monkeypatch.chdir(tmp_path)
    by_day([400, *[5] * small]).to_csv("a.csv", index=False)
    assert run(["watch", "a.csv", "--time-column", "ts", "--every", "1d", "--tracker", "a.driftline"]) == 2
    out, err = said()
    assert "choose a longer --every or fewer --columns" in err
    assert "shorter" not in out + err
    assert "The first verdict comes with the next complete window" not in out


@pytest.mark.parametrize("keep", ["rows", "sums"])
def test_rows_of_standard_input_that_fill_no_window_are_lost_and_that_is_said(copy, said, monkeypatch, keep):
    lines = (copy / "people.csv").read_text().splitlines(keepends=True)

    def piped(text, *options):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(text.encode()))))
        code = run(["watch", "-", "--tracker", "in.driftline", *options])
        return code, said()[0]

    code, out = piped("".join(lines[:751]), "--window", "300", "--keep", keep)
    assert code == 0
    assert (
        "150 rows of standard input are in no window, and lost with this call: send all rows again with --replay" in out
    )
    assert "wait for their window" not in out
    code, out = piped("".join(lines[:901]), "--replay")
    assert "window 2" in out
    assert "lost with this call" not in out
