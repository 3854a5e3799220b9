"""Errors: bad input is always one line about options, and exit code 2."""

import subprocess
import sys
from pathlib import Path

import pytest

from driftline._errors import Option, OptionError
from driftline.cli import run
from driftline.cli._errors import in_options
from driftline.monitor import Monitor, Record, Settings, settings_of


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["watch"], "say what to watch"),
        (["watch", "-"], "--window 5000 (rows), or --time-column ts --every 1d"),
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
        (
            ["weights", "run.driftline", "first.csv", "--out", "w.csv", "--original", "summer"],
            "there is only 'original'",
        ),
        (["compare", "first.csv", "nowhere.csv"], "nowhere.csv"),
        (["watch", "people.csv", "--window", "1.5"], "'--window': '1.5' must be a whole number"),
        (["compare", "first.csv", "last.csv", "--tolerance", "x"], "'--tolerance': 'x' must be a number"),
        (["compare", "first.csv", "last.csv", "--level", "3"], "--level 3 must lie between 0 and 1"),
        (["original", "add", "run.driftline", "--name", "original"], "original"),
        (["original", "add", "run.driftline", "--name", "x", "nowhere.csv"], "nowhere.csv"),
        (["original"], "Missing command"),
        (["demo", "--weeks", "1"], "--weeks"),
        (["wath"], "wath"),
    ],
)
def test_bad_input_is_one_line(copy, said, arguments, message):
    Path("people").write_text("x\n1\n")
    assert run(arguments) == 2
    _, err = said()
    assert err.startswith("driftline: ")
    assert len(err.splitlines()) == 1
    assert message in err


def test_a_table_that_does_not_fit_is_explained_in_options(copy, said, people):
    people(1010).assign(height=1.8).to_csv("wider.csv", index=False)
    assert run(["watch", "wider.csv", "--tracker", "run.driftline"]) == 2
    _, err = said()
    assert err.startswith("driftline: wider.csv, window 4: column 'height' is new")
    assert "--schema lenient leaves such columns out, or name those to watch with --columns" in err
    texts = people(1011).assign(note=[f"note {i}" for i in range(300)])
    texts.to_csv("texts.csv", index=False)
    assert run(["watch", "texts.csv", "--window", "300"]) == 2  # left out, with a note; but nothing was compared
    assert "left out: 'note' (text or identifiers, 300 different values in 300 rows)" in said()[0]
    assert run(["watch", "texts.csv", "--window", "300", "--columns", "note"]) == 2
    _, err = said()
    assert "texts.csv, window 0: column 'note' is named, but holds text" in err
    assert "name it in --categorical" in err


def refused(**given):
    with pytest.raises(ValueError) as caught:
        Settings(**given)
    return caught.value


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"warning": 5.0, "run_length": 3.0}, "--warning 5 must lie between 1 and --run-length 3"),
        ({"tolerance": float("nan")}, "--tolerance nan must be a number of nats, at least 0"),
        ({"columns": ("a b", "")}, "--columns 'a b,' must be names"),
        ({"divergences": ()}, "--divergences is empty: the alarm looks at the first one"),
        ({"datetime": "second"}, "--datetime: 'second' is unknown, choose from hour, weekday, day, month"),
        ({"warm_up": -1}, "--warm-up -1 must be a whole number of windows, at least 0"),
        ({"every": "1d"}, "--window 300 rows and windows by time exclude each other: choose one"),
        (
            {"window": None, "every": "1d"},
            "windows by time need both --time-column and --every: --time-column is missing",
        ),
        ({"window": None}, "say how long a window is: --window 5000 rows, or --time-column ts and --every 1d"),
    ],
)
def test_wrong_settings_are_explained_in_options(given, expected):
    assert in_options(refused(**{"window": 300} | given)) == expected


def test_what_a_run_was_begun_with_is_said_in_options(tmp_path, people):
    path = tmp_path / "k.driftline"
    with Monitor(path, window=300) as monitor:
        list(monitor.watch(people(1)))
    with pytest.raises(ValueError) as caught:
        Monitor(path, window=None, every="1d", time_column="ts", summaries=False, columns=["age", "city"])
    begun = "window=300, not None; every=None, not '1d'; time_column=None, not 'ts'; summaries=True, not False; "
    assert f"was begun with {begun}columns=[], not ['age', 'city']: leave that out" in str(caught.value)
    begun = "--window 300, not none; no --every, not 1d; no --time-column, not ts; --summaries, not --no-summaries; "
    assert f"was begun with {begun}no --columns, not age,city: leave that out" in in_options(caught.value)


@pytest.mark.parametrize("each", settings_of(Settings).values(), ids=lambda each: each.name)
def test_every_setting_has_a_spelling_in_python_and_in_the_command(each):
    value = {tuple: ("a", "b"), str: "x", int: 7, float: 0.5, bool: True}[each.type]
    error = OptionError("{given}, see {named}", given=Option(each.name, value), named=Option(each.name))
    assert str(error) == f"{each.name}={value!r}, see {each.name}"
    spelt = {tuple: " a,b", bool: ""}.get(each.type, f" {value}")
    assert in_options(error) == f"{each.flag}{spelt}, see {each.flag}"


def test_names_that_look_like_options_are_left_alone(copy, said, people):
    odd = {"age": "window=5", "city": "schema='lenient'", "vip": "(drop)"}
    first, later = people(1).rename(columns=odd), people(2).rename(columns=odd).assign(**{"columns: no column": 1.0})
    first.to_csv("schema='lenient'.csv", index=False)
    later.to_csv("window=5.csv", index=False)
    assert (
        run(["watch", "schema='lenient'.csv", "--window", "300", "--tracker", "odd.driftline"]) == 2
    )  # there is nothing to compare yet
    said()
    assert run(["watch", "window=5.csv", "--tracker", "odd.driftline"]) == 2
    _, err = said()
    assert err.startswith("driftline: window=5.csv, window 1: column 'columns: no column' is new")
    assert "--schema lenient leaves" in err
    later.iloc[:, 1:4].to_csv("window=5.csv", index=False)
    assert run(["watch", "window=5.csv", "--tracker", "odd.driftline"]) == 2
    assert said()[1].startswith("driftline: window=5.csv, window 1: column 'window=5' is missing")
    for name in ("window=5", "schema='lenient'.csv.xls", "(drop)", "{format}", "columns: no column"):
        Path(name).write_text("x\n1\n")
        assert run(["watch", name, "--window", "300"]) == 2
        assert said()[1] == f"driftline: {name!r}: its name does not show its format; say --format csv, for example\n"
        assert run(["weights", "odd.driftline", "window=5.csv", "--out", name]) == 2
        assert said()[1].startswith(f"driftline: {name!r}: its name does not show its format; name it .csv, .parquet")
    for name in ("level=3.csv", "format=csv/part.csv"):
        assert run(["watch", name, "--window", "300"]) == 2
        assert said()[1] == f"driftline: {name!r}: there is no such file or directory\n"


def test_a_reader_who_leaves_is_not_an_error(copy):
    """Run in a process of its own: what happens when Python ends is part of the test."""
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
