"""Options: from the command line and a TOML file, their names, help and completion."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from driftline.cli import run
from driftline.cli._options import Plan, names, plan_of
from driftline.monitor import read_run


def test_config_is_below_the_command_line(copy, said):
    Path("driftline.toml").write_text(
        'source = "people.csv"\nwindow = 150\ndrop = ["vip"]\njson = true\nrun-length = 500\ntolerance = 5\n'
    )
    assert run(["watch", "--config", "driftline.toml", "--window", "300", "--tracker", "configured.driftline"]) == 0
    assert len(said()[0].splitlines()) == 4
    found = read_run("configured.driftline").settings
    assert (found.window, found.drop, found.run_length, found.tolerance) == (300, ("vip",), 500.0, 5.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("windows = 5", "'windows' is not an option"),
        ("window = '5'", 'bad.toml: window = "5" must be a whole number'),
        ("tolerance = true", "must be a number"),
        ("columns = [1, 2]", "must be names"),
        ("fail-on = 'sometimes'", "choose from alarm, warning, never"),
        ("warm-up = 1\nwarm_up = 2", "given twice"),
        ("window = ", "bad.toml: Invalid value"),
        ("[watch]\nwindow = 5", "'watch' is not an option"),
        ("window = 300\nrun-length = 0.5", "bad.toml: run_length = 0.5 must be more than 1 window"),
        ("window = 300\npoll = 0", "bad.toml: poll = 0 must be a positive number"),
        ("window = 300\nsummaries = 'no'", 'bad.toml: summaries = "no" must be true or false'),
        ("window = true", "bad.toml: window = true must be a whole number"),
        ("widow = 300", "'widow' is not an option of driftline watch: did you mean 'window'?"),
        ("window = 300\ncolumns = ['zzz']", "bad.toml: people.csv, window 0: columns: no column 'zzz'"),
        ("window = 300\nnumeric = 'age'\ndrop = 'age'", "bad.toml: column 'age' cannot be in both numeric and drop"),
        ("window = 300\nlevel = 2", "bad.toml: level = 2 must lie between 0 and 1"),
        ("poll = 0", "positive number of seconds"),
    ],
)
def test_bad_config(copy, said, text, message):
    Path("bad.toml").write_text(text)
    assert run(["watch", "people.csv", "--config", "bad.toml"]) == 2
    assert message in said()[1]


def test_the_command_line_is_named_where_it_overrides_the_file(copy, said):
    Path("good.toml").write_text("window = 300\nrun-length = 50\nlevel = 0.9")
    assert run(["watch", "people.csv", "--config", "good.toml", "--level", "2"]) == 2
    assert said()[1] == "driftline: --level 2 must lie between 0 and 1\n"
    assert run(["watch", "people.csv", "--config", "good.toml", "--warning", "70"]) == 2
    assert said()[1] == "driftline: good.toml: --warning 70 must lie between 1 and run_length = 50\n"


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
    assert "every" in plan.settings or "time_column" not in plan.settings


def test_a_report_that_cannot_be_written_is_refused_at_once(copy, said, monkeypatch):
    command = ["watch", "people.csv", "--window", "300", "--tracker", "new.driftline", "--report"]
    Path("page.html").mkdir()
    assert run([*command, "page.html"]) == 2
    assert "is a folder" in said()[1]
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert run([*command, "other.html"]) == 2
    assert "cannot be written to" in said()[1]
    assert not Path("new.driftline").exists()


def test_names_with_commas():
    assert names(["a,b", '"c,d",e']) == ("a", "b", "c,d", "e")
    with pytest.raises(ValueError, match="empty name"):
        names(["a,"])


def test_names_of_the_first_edition_are_understood(copy, capsys):
    assert run(["watch", "people.csv", "--window", "300", "--state", "old.driftline"]) == 0
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


@pytest.mark.parametrize(
    "command",
    ["", "watch", "weights", "report", "inspect", "compare", "demo", "original", "original add", "original list"],
)
def test_help_has_an_example(said, command):
    assert run([*command.split(), "--help"]) == 0
    assert "Example: driftline" in said()[0]


def test_no_arguments_are_help_and_version(said):
    assert run([]) == 0
    assert "watch" in said()[0]
    assert run(["--version"]) == 0
    assert said()[0].startswith("driftline ")


def test_shell_completion(monkeypatch, capsys):
    monkeypatch.setenv("_DRIFTLINE_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "driftline watch --fol")
    monkeypatch.setenv("COMP_CWORD", "2")
    with pytest.raises(SystemExit):
        run([])
    assert "--follow" in capsys.readouterr().out
