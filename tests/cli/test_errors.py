"""Errors: bad input is always one line about options, and exit code 2."""

import subprocess
import sys
from pathlib import Path

import pytest

from driftline.cli import run
from driftline.cli._errors import in_options
from driftline.monitor import Record


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
    assert run(["watch", "texts.csv", "--window", "300"]) == 2
    _, err = said()
    assert "texts.csv, window 0: column 'note' holds text" in err
    assert "(--drop)" in err
    assert "name it in --categorical" in err


@pytest.mark.parametrize(
    ("text", "expected"),
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
def test_errors_speak_of_options(text, expected):
    assert in_options(text) == expected


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
