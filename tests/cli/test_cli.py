"""The command: what it prints, keeps and refuses, and how it ends; bad input is always one line and a 2."""

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import jsonschema
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from driftline import Monitor
from driftline.cli import run
from driftline.cli._errors import code_of, in_options, interruptible
from driftline.cli._options import Plan, names, plan_of
from driftline.monitor import Record, read_run
from driftline.monitor._records import RECORD_SCHEMA

ROWS = 300


def people(seed, moved=0.0, rows=ROWS):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.normal(40 + 10 * moved, 10, rows).round(3),
            "city": rng.choice(["Wien", "Graz", "Linz"], rows, p=[0.5, 0.3, 0.2]),
            "vip": rng.random(rows) < 0.3,
        }
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A file of four windows, the last one moved, and its tracker file."""
    place = tmp_path_factory.mktemp("cli")
    frames = [people(1000), people(1001), people(1002), people(1003, moved=1.0)]
    pd.concat(frames).to_csv(place / "people.csv", index=False)
    frames[0].to_csv(place / "first.csv", index=False)
    frames[3].to_csv(place / "last.csv", index=False)
    assert (
        run(["watch", str(place / "people.csv"), "--window", str(ROWS), "--tracker", str(place / "run.driftline")]) == 0
    )
    return place


@pytest.fixture
def copy(folder, tmp_path, monkeypatch):
    """The same, to be changed, and worked in."""
    for path in folder.iterdir():
        if path.suffix in (".csv", ".driftline"):
            (tmp_path / path.name).write_bytes(path.read_bytes())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def said(capsys):
    found = capsys.readouterr()
    assert "Traceback" not in found.err
    return found.out, found.err


def test_watch_says_a_line_a_window_and_goes_on(copy, capsys):
    state = ["--tracker", "new.driftline"]
    lines = (copy / "people.csv").read_text().splitlines(keepends=True)
    (copy / "grows.csv").write_text("".join(lines[: 1 + 2 * ROWS + 50]))
    assert run(["watch", "grows.csv", "--window", str(ROWS), *state]) == 0
    out, _ = said(capsys)
    assert "window 1  up to row 600  300 rows  drift" in out
    assert "50 rows wait" in out
    assert "driftline report new.driftline" in out
    (copy / "grows.csv").write_text("".join(lines))
    assert run(["watch", "grows.csv", *state]) == 0  # settings are the tracker file's
    out, _ = said(capsys)
    shown = [line.split("  ")[0] for line in out.splitlines() if line.startswith("window")]
    assert shown == ["window 2", "window 3"]
    assert "ALARM  age" in out
    assert run(["watch", "grows.csv", *state]) == 0
    assert "nothing new: new.driftline has seen 4 windows" in said(capsys)[0]
    whole = read_run(copy / "run.driftline").records
    for one, other in zip(read_run(copy / "new.driftline").records, whole, strict=True):
        assert (one.divergences, one.signal, one.digest) == (other.divergences, other.signal, other.digest)


def test_json_is_records_only(copy, capsys):
    assert run(["watch", "people.csv", "--window", "300", "--json"]) == 0
    out, err = said(capsys)
    records = [Record.from_json(line) for line in out.splitlines()]
    assert [(r.window, r.status) for r in records] == [(0, "original"), *((t, "measured") for t in (1, 2, 3))]
    assert err == ""
    for line in out.splitlines():
        jsonschema.validate(json.loads(line), RECORD_SCHEMA)


def test_nothing_is_kept_without_state(copy, capsys):
    before = sorted(path.name for path in copy.iterdir())
    assert run(["watch", "people.csv", "--window", "300"]) == 0
    assert "nothing was kept" in said(capsys)[0]
    assert sorted(path.name for path in copy.iterdir()) == before


@pytest.mark.parametrize(
    ("options", "code"),
    [([], 0), (["--fail-on", "alarm"], 1), (["--fail-on", "warning"], 1), (["--fail-on", "never"], 0),
     (["--fail-on", "alarm", "--tolerance", "5"], 0)],
)  # fmt: skip
def test_fail_on(copy, options, code):
    assert run(["watch", "people.csv", "--window", "300", "--json", *options]) == code


@pytest.mark.parametrize("state", [[], ["--tracker", "new.driftline"]])
def test_a_new_run_knows_one_original(copy, capsys, state):
    command = ["watch", "people.csv", "--window", "300", "--json", "--fail-on", "alarm", *state]
    assert run([*command, "--original", "orignal"]) == 2
    out, err = said(capsys)
    assert (out, err) == ("", "driftline: --original 'orignal' is unknown: there are original\n")
    assert not Path("new.driftline").exists()
    assert run([*command, "--original", "original"]) == 1


def test_an_alarm_that_stands_fails_too(copy, capsys):
    assert run(["watch", "people.csv", "--tracker", "run.driftline", "--fail-on", "alarm"]) == 1
    assert "nothing new" in said(capsys)[0]


def test_only_the_named_original_counts(copy, capsys):
    assert run(["original", "add", "run.driftline", "--name", "model-2"]) == 0
    people(1004, moved=1.0).to_csv("people2.csv", index=False)
    watch = ["watch", "people2.csv", "--tracker", "run.driftline", "--fail-on", "alarm", "--json"]
    assert run([*watch, "--original", "model-3"]) == 2
    assert "there are original, model-2" in said(capsys)[1]
    assert run([*watch, "--original", "model-2"]) == 0
    found = [Record.from_json(line) for line in said(capsys)[0].splitlines()]
    assert [(r.original, str(r.signal)) for r in found] == [("original", "alarm"), ("model-2", "normal")]
    assert run(["original", "list", "run.driftline"]) == 0
    out, _ = said(capsys)
    assert [line.split()[0] for line in out.splitlines()] == ["original", "original", "model-2"]


def test_config_is_below_the_command_line(copy, capsys):
    Path("driftline.toml").write_text(
        'source = "people.csv"\nwindow = 150\ndrop = ["vip"]\njson = true\nrun-length = 500\ntolerance = 5\n'
    )
    assert run(["watch", "--config", "driftline.toml", "--window", "300", "--tracker", "configured.driftline"]) == 0
    assert len(said(capsys)[0].splitlines()) == 4
    found = read_run("configured.driftline").settings
    assert (found.window, found.drop, found.run_length, found.tolerance) == (300, ("vip",), 500.0, 5.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("windows = 5", "'windows' is not an option"),
        ("window = '5'", "bad.toml: window = '5' must be a whole number"),
        ("tolerance = true", "must be a number"),
        ("columns = [1, 2]", "must be names"),
        ("fail-on = 'sometimes'", "choose from alarm, warning, never"),
        ("warm-up = 1\nwarm_up = 2", "there twice"),
        ("window = ", "bad.toml: Invalid value"),
        ("[watch]\nwindow = 5", "'watch' is not an option"),
        ("window = 300\nlevel = 2", "--level 2.0 must lie between 0 and 1"),
        ("poll = 0", "positive number of seconds"),
    ],
)
def test_bad_config(copy, capsys, text, message):
    Path("bad.toml").write_text(text)
    assert run(["watch", "people.csv", "--config", "bad.toml"]) == 2
    assert message in said(capsys)[1]


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.dictionaries(
        st.sampled_from(["window", "every", "time-column", "level", "top", "columns", "fail-on", "poll", "json", "x"]),
        st.one_of(
            st.integers(),
            st.floats(allow_nan=False, allow_infinity=False),
            st.booleans(),
            st.text("ab,\" '", max_size=9),
            st.lists(st.one_of(st.text("ab", max_size=2), st.integers()), max_size=3),
        ),
    )
)
def test_any_config_is_a_plan_or_a_clear_error(tmp_path_factory, values):
    path = tmp_path_factory.getbasetemp() / "any.toml"
    path.write_text("\n".join(f"{key} = {json.dumps(value)}" for key, value in values.items()))
    try:
        plan = plan_of({"source": "a.csv"}, str(path))
    except ValueError:
        return
    assert isinstance(plan, Plan)
    assert "window" in plan.settings or "every" in plan.settings


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["watch"], "say what to watch"),
        (["watch", "people.csv"], "--window 5000 (rows), or --time-column ts --every 1d"),
        (["watch", "people.csv", "--time-column", "ts"], "--time-column ts --every 1d"),
        (["watch", "people.csv", "--every", "1d"], "need both --time-column and --every: --time-column is missing"),
        (["watch", "people.csv", "--window", "300", "--every", "1d"], "exclude each other"),
        (["watch", "people.csv", "--window", "many"], "--window"),
        (["watch", "people.csv", "--window", "3"], "--window 3 must be"),
        (["watch", "people.csv", "--window", "300", "--columns", "a,,b"], "empty name"),
        (
            ["watch", "people.csv", "--window", "300", "--columns", "height"],
            "people.csv, window 0: --columns: no column 'height'",
        ),
        (["watch", "people.csv", "--window", "300", "--fail-on", "monday"], "fail-on"),
        (["watch", "people.csv", "--window", "300", "--nonsense"], "--nonsense"),
        (
            ["watch", "people.csv", "--window", "300", "--tracker", "first.csv"],
            "first.csv: not a driftline tracker file",
        ),
        (["watch", "people.csv", "--window", "150", "--tracker", "run.driftline"], "--window 300, not 150"),
        (["watch", "nowhere.csv", "--window", "300"], "nowhere.csv"),
        (["watch", "people.csv", "--window", "300", "--format", "xls"], "--format xls is unknown"),
        (["watch", "people.csv", "--window", "300", "--config", "nowhere.toml"], "nowhere.toml"),
        (["watch", "people.csv", "--time-column", "city", "--every", "1d"], "city"),
        (
            ["watch", "people.csv", "--window", "300", "--report", "no/such/folder/report.html"],
            "there is no folder no/such",
        ),
        (["watch", "people.csv", "--window", "300", "--report", "report.pdf"], "must end in .html"),
        (["watch", "people.csv", "--window", "300", "--schema", "loose"], "--schema: 'loose' is unknown"),
        (["watch", "people", "--window", "300"], "--format csv, for example"),
        (["report", "nowhere.driftline"], "nowhere.driftline"),
        (["report", "run.driftline", "--original", "summer"], "summer"),
        (["inspect", "first.csv"], "not a driftline tracker file"),
        (["inspect", "run.driftline", "--against", "nowhere.csv"], "nowhere.csv"),
        (["weights", "run.driftline", "first.csv"], "--out"),
        (["weights", "run.driftline", "first.csv", "--out", "first.csv"], "is the file that is read"),
        (["weights", "run.driftline", "first.csv", "--out", "weights.xls"], "name it .csv, .parquet"),
        (["weights", "run.driftline", "first.csv", "--out", "w.csv", "--original", "summer"], "there are original"),
        (["compare", "first.csv", "nowhere.csv"], "nowhere.csv"),
        (["compare", "first.csv", "last.csv", "--level", "3"], "--level 3.0"),
        (["original", "add", "run.driftline", "--name", "original"], "original"),
        (["original", "add", "run.driftline", "--name", "x", "nowhere.csv"], "nowhere.csv"),
        (["original"], "Missing command"),
        (["demo", "--weeks", "1"], "--weeks"),
        (["wath"], "wath"),
    ],
)
def test_bad_input_is_one_line(copy, capsys, arguments, message):
    Path("people").write_text("x\n1\n")
    assert run(arguments) == 2
    _, err = said(capsys)
    assert err.startswith("driftline: ")
    assert len(err.splitlines()) == 1
    assert message in err


def test_a_window_that_is_never_full_is_said(copy, capsys):
    assert run(["watch", "first.csv", "--window", "5000", "--tracker", "x.driftline", "--json"]) == 0
    out, err = said(capsys)
    assert out == ""
    assert err.splitlines() == [
        "driftline: no window was complete, so nothing was measured",
        "driftline: 300 rows wait for their window to be complete (--flush counts them at once)",
    ]


def test_stopped_by_hand(copy, capsys, monkeypatch):
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
    out, err = said(capsys)
    assert "stopped after window 1; the same command goes on from there" in err
    assert "wait" not in err  # rows were read ahead, and are not waiting for others
    assert run(command) == 0
    rest = said(capsys)[0]
    assert [Record.from_json(line).window for line in (out + rest).splitlines()] == [0, 1, 2, 3]


def test_follow_ends_with_the_window_that_fails(copy, capsys):
    command = ["watch", "people.csv", "--window", "300", "--follow", "--poll", "0.05", "--fail-on", "alarm", "--json"]
    people(1007, rows=50).to_csv("people.csv", mode="a", header=False, index=False)
    assert run(command) == 1
    out, err = said(capsys)
    assert Record.from_json(out.splitlines()[-1]).signal == "alarm"
    assert err == ""  # the 50 rows that were read ahead are not waiting


def test_rows_that_were_late_before_any_window(copy, capsys, monkeypatch):
    watch = Monitor.watch

    def late(self, *args, **kwargs):
        yield from watch(self, *args, **kwargs)
        self.late = 2870

    monkeypatch.setattr(Monitor, "watch", late)
    assert run(["watch", "first.csv", "--window", "5000", "--tracker", "late.driftline", "--json"]) == 0
    assert (
        "driftline: 2,870 rows came after their window was closed and were left out; no later window has been "
        "complete yet" in said(capsys)[1].splitlines()
    )


def test_late_rows_are_noted_once(copy, capsys):
    rows = people(1008).assign(ts=pd.date_range("2025-01-01", periods=ROWS, freq="15min"))
    late = rows.iloc[[3, 4]]
    pd.concat([rows[:250], late, rows[250:]]).to_csv("late.csv", index=False)
    assert run(["watch", "late.csv", "--time-column", "ts", "--every", "1d", "--flush"]) == 0
    assert said(capsys)[0].count("were left out") == 1


def test_one_row_waits(copy, capsys):
    people(1009, rows=ROWS + 1).to_csv("more.csv", index=False)
    assert run(["watch", "more.csv", "--window", "300", "--tracker", "my run.driftline"]) == 0
    out, _ = said(capsys)
    assert "1 row waits for its window to be complete" in out
    command = next(line for line in out.splitlines() if line.startswith("for a report: ")).partition(": ")[2]
    assert shlex.split(command) == ["driftline", "report", "my run.driftline"]
    assert run(["watch", "more.csv", "--tracker", "my run.driftline"]) == 0
    assert "has seen 1 window\n" in said(capsys)[0]


def test_a_table_that_does_not_fit_is_told_in_options(copy, capsys):
    people(1010).assign(height=1.8).to_csv("wider.csv", index=False)
    assert run(["watch", "wider.csv", "--tracker", "run.driftline"]) == 2
    _, err = said(capsys)
    assert err.startswith("driftline: wider.csv, window 4: column 'height' is new")
    assert "--schema lenient leaves such columns out, or name those to watch with --columns" in err
    texts = people(1011).assign(note=[f"note {i}" for i in range(ROWS)])
    texts.to_csv("texts.csv", index=False)
    assert run(["watch", "texts.csv", "--window", "300"]) == 2
    _, err = said(capsys)
    assert "texts.csv, window 0: column 'note' holds text" in err
    assert "(--drop)" in err
    assert "name it in --categorical" in err


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("warning=5.0 must lie between 1 and run_length=3.0", "--warning 5.0 must lie between 1 and --run-length 3.0"),
        ("tolerance=nan must be a number", "--tolerance nan must be a number"),
        ("such as datetime=('hour',)", "such as --datetime hour"),
        ("begun with summaries=True, not False: x", "begun with --summaries, not --no-summaries: x"),
        ("begun with window=None, not 5; every='1d', not None", "begun with no --window, not 5; --every 1d, not none"),
        ("columns: no column 'a b'", "--columns: no column 'a b'"),
        ("format=csv/part.csv: no such file", "format=csv/part.csv: no such file"),
        ("'data/window=5': there is no such file", "'data/window=5': there is no such file"),
        ("column 'level=3' is missing", "column 'level=3' is missing"),
    ],
)
def test_errors_speak_of_options(text, told):
    assert in_options(text) == told


def test_a_report_that_cannot_be_written_is_said_at_once(copy, capsys, monkeypatch):
    command = ["watch", "people.csv", "--window", "300", "--tracker", "new.driftline", "--report"]
    Path("page.html").mkdir()
    assert run([*command, "page.html"]) == 2
    assert "is a folder" in said(capsys)[1]
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert run([*command, "other.html"]) == 2
    assert "nothing may be written to" in said(capsys)[1]
    assert not Path("new.driftline").exists()


def test_terminated_is_stopped_in_order(copy, capsys, monkeypatch):
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
    assert "stopped after window 0; the same command goes on from there" in said(capsys)[1]
    assert code_of(KeyboardInterrupt()) == 130


def test_report_with_watch(copy, capsys):
    assert run(["watch", "people.csv", "--window", "300", "--report", "page.html"]) == 0
    assert "report: page.html" in said(capsys)[0]
    assert "<html" in Path("page.html").read_text()[:300]


def test_report(copy, capsys):
    assert run(["report", "run.driftline", "--out", "page.html", "--png", "page.png"]) == 0
    assert said(capsys)[0].split() == ["page.html", "page.png"]
    assert Path("page.png").read_bytes().startswith(b"\x89PNG")
    assert run(["report", "run.driftline"]) == 0
    assert Path("report.html").exists()


@pytest.mark.parametrize("out", ["w.csv", "w.parquet", "w.arrow", "w.jsonl"])
@pytest.mark.parametrize("kind", ["csv", "parquet", "jsonl"])
def test_weights_from_any_format_to_any(copy, capsys, kind, out):
    rows = people(1005, moved=0.5)
    {"csv": lambda: rows.to_csv("rows.csv", index=False), "parquet": lambda: rows.to_parquet("rows.parquet"),
     "jsonl": lambda: rows.to_json("rows.jsonl", orient="records", lines=True)}[kind]()  # fmt: skip
    assert run(["weights", "run.driftline", f"rows.{kind}", "--out", out]) == 0
    assert said(capsys)[0] == f"300 rows in {out}\n"
    read = {".csv": pl.read_csv, ".parquet": pl.read_parquet, ".arrow": pl.read_ipc, ".jsonl": pl.read_ndjson}
    found = read[Path(out).suffix](out)
    with Monitor.open("run.driftline", readonly=True) as monitor:
        expected = monitor.log_ratio(rows)
        weights = monitor.weights(rows)
    np.testing.assert_allclose(found["log_ratio"].to_numpy(), expected, rtol=1e-12)
    np.testing.assert_allclose(found["weight"].to_numpy(), weights, rtol=1e-12)
    assert found.columns == ["age", "city", "vip", "log_ratio", "weight"]


def test_weights_do_not_hide_a_column(copy, capsys):
    people(1006).assign(weight=1.0).to_csv("rows.csv", index=False)
    assert run(["weights", "run.driftline", "rows.csv", "--out", "w.csv"]) == 2
    assert "'weight'" in said(capsys)[1]
    assert not Path("w.csv").exists()


def test_compare(copy, capsys):
    assert run(["compare", "first.csv", "last.csv", "--json", "--fail-on", "alarm"]) == 1
    found = json.loads(said(capsys)[0])
    jsonschema.validate(found, RECORD_SCHEMA)
    assert found["columns"][0]["column"] == "age"
    truth = 0.5  # ages moved by one standard deviation
    assert (
        abs(found["divergences"]["reverse_kl"]["value"] - truth) < 4 * found["divergences"]["reverse_kl"]["std_error"]
    )
    assert run(["compare", "first.csv", "first.csv", "--fail-on", "warning"]) == 0
    out, _ = said(capsys)
    assert "normal: the 95% interval" in out
    assert run(["compare", "first.csv", "last.csv", "--tolerance", "0.5", "--fail-on", "alarm"]) == 0


def test_inspect_shows_all_and_proves(copy, capsys):
    assert run(["inspect", "run.driftline", "--against", "first.csv"]) == 0
    out, _ = said(capsys)
    assert "none is there" in " ".join(out.split())
    assert "the 300 rows of window 3" in out
    assert "'Wien'" in out
    assert run(["inspect", "run.driftline", "--against", "last.csv", "--json"]) == 0
    found = json.loads(said(capsys)[0])
    assert found["against"]["left_behind"] == 0
    assert found["against"]["also_current"] > 200  # those are kept for the next step
    assert found["records"] == 4
    assert run(["original", "add", "run.driftline", "--name", "v2", "first.csv"]) == 0
    assert run(["inspect", "run.driftline", "--against", "first.csv"]) == 1  # until the next window
    assert "originals have seen no window since they joined: v2" in " ".join(said(capsys)[0].split())


def test_inspect_against_lines_without_a_key(copy, capsys):
    rows = json.loads(people(1012).to_json(orient="records"))
    sparse = [{k: v for k, v in row.items() if k != "vip"} for row in rows]
    Path("sparse.jsonl").write_text("".join(json.dumps(row) + "\n" for row in sparse))
    assert run(["inspect", "run.driftline", "--against", "sparse.jsonl"]) == 0
    assert "none is there" in " ".join(said(capsys)[0].split())


@pytest.mark.parametrize(
    "command",
    [[], ["watch"], ["weights"], ["report"], ["inspect"], ["compare"], ["demo"], ["original"], ["original", "add"],
     ["original", "list"]],
)  # fmt: skip
def test_help_has_an_example(capsys, command):
    assert run([*command, "--help"]) == 0
    assert "Example: driftline" in said(capsys)[0]


def test_no_arguments_are_help_and_version(capsys):
    assert run([]) == 0
    assert "watch" in said(capsys)[0]
    assert run(["--version"]) == 0
    assert said(capsys)[0].startswith("driftline ")


def test_names_with_commas():
    assert names(["a,b", '"c,d",e']) == ("a", "b", "c,d", "e")
    with pytest.raises(ValueError, match="empty name"):
        names(["a,"])


def test_shell_completion(monkeypatch, capsys):
    monkeypatch.setenv("_DRIFTLINE_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "driftline watch --fol")
    monkeypatch.setenv("COMP_CWORD", "2")
    with pytest.raises(SystemExit):
        run([])
    assert "--follow" in capsys.readouterr().out


def test_a_reader_who_leaves_is_no_error(copy):
    """The only test with a process of its own: what happens when Python ends is part of it."""
    command = [sys.executable, "-m", "driftline", "watch", "-", "--window", "100", "--json"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    lines = (copy / "people.csv").read_text().splitlines(keepends=True)
    with subprocess.Popen(command, **pipes, text=True) as process:
        process.stdin.writelines(lines[:151])
        process.stdin.flush()
        Record.from_json(process.stdout.readline())
        process.stdout.close()
        process.stdin.writelines(lines[151:211])  # the next window, and nobody to read about it
        process.stdin.close()
        assert process.stderr.read() == ""
    assert process.returncode == 141


def test_names_of_the_first_edition_are_understood(copy, capsys):
    assert run(["watch", "people.csv", "--window", str(ROWS), "--state", "old.driftline"]) == 0
    Path("driftline.toml").write_text('source = "people.csv"\nwindow = 300\nstate = "configured.driftline"\n')
    assert run(["watch", "--config", "driftline.toml"]) == 0
    assert Path("configured.driftline").is_file()
    assert run(["reference", "add", "old.driftline", "--name", "second"]) == 0
    capsys.readouterr()
    assert run(["reference", "list", "old.driftline"]) == 0
    old = capsys.readouterr().out
    assert run(["original", "list", "old.driftline"]) == 0
    assert capsys.readouterr().out == old
    assert "second" in old
