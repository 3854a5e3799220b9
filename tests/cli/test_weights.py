"""``driftline weights``: rows of any format, weighted as the monitor would, in any format."""

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

from driftline import Monitor, UntrustedEstimateWarning
from driftline.cli import run


@pytest.mark.parametrize("out", ["w.csv", "w.parquet", "w.arrow", "w.jsonl"])
@pytest.mark.parametrize("kind", ["csv", "parquet", "jsonl"])
def test_weights_from_any_format_to_any(copy, said, kind, out, people):
    rows = people(1005, moved=0.5)
    write = {
        "csv": lambda path: rows.to_csv(path, index=False),
        "parquet": rows.to_parquet,
        "jsonl": lambda path: rows.to_json(path, orient="records", lines=True),
    }
    write[kind](f"rows.{kind}")
    assert run(["weights", "run.driftline", f"rows.{kind}", "--out", out]) == 0
    assert said()[0] == f"300 rows in {out}, weighted to stand in for the original 'original'\n"
    read = {".csv": pl.read_csv, ".parquet": pl.read_parquet, ".arrow": pl.read_ipc, ".jsonl": pl.read_ndjson}
    found = read[Path(out).suffix](out)
    with Monitor.open("run.driftline", readonly=True) as monitor:
        expected = monitor.log_ratio(rows)
        weights = monitor.weights(rows)
    np.testing.assert_allclose(found["log_ratio"].to_numpy(), expected, rtol=1e-12)
    np.testing.assert_allclose(found["weight"].to_numpy(), weights, rtol=1e-12)
    assert found.columns == ["age", "city", "vip", "log_ratio", "weight"]


def test_weights_do_not_hide_a_column(copy, said, people):
    people(1006).assign(weight=1.0).to_csv("rows.csv", index=False)
    assert run(["weights", "run.driftline", "rows.csv", "--out", "w.csv"]) == 2
    assert "'weight'" in said()[1]
    assert not Path("w.csv").exists()


def test_weights_say_their_original_and_their_doubts_in_lines(copy, said, people, recwarn):
    pd.concat([people(1), people(2, moved=6.0)]).to_csv("far.csv", index=False)
    assert run(["watch", "far.csv", "--window", "300", "--tracker", "far.driftline"]) == 0
    assert run(["original", "add", "far.driftline", "--name", "now"]) == 0
    said()
    assert run(["weights", "far.driftline", "far.csv", "--out", "w.csv"]) == 0
    out, err = said()
    assert out == "600 rows in w.csv, weighted to stand in for the original 'original'\n"
    assert err.startswith("driftline: these weights are not to be trusted: the weights rest on")
    lines = err.splitlines()
    assert all(line.startswith("driftline: these weights are not to be trusted: ") for line in lines)
    assert ["the step at t=1 could not be measured" in line for line in lines].count(True) == 1  # those of steps, too
    assert len(lines) == len(set(lines))
    assert run(["weights", "far.driftline", "far.csv", "--out", "w.csv", "--original", "now"]) == 0
    assert said() == ("600 rows in w.csv, weighted to stand in for the original 'now'\n", "")
    assert not recwarn.list
    with Monitor.open("far.driftline", readonly=True) as monitor:
        with pytest.warns(UntrustedEstimateWarning, match="^original: the weights rest on") as found:
            monitor.weights(people(1))
        assert found[0].filename == __file__
        assert monitor.score(people(1)).doubts[0].code == "few_for_weights"


def test_an_error_names_the_file_and_the_originals(copy, said, people):
    people(1).drop(columns="city").to_csv("less.csv", index=False)
    for command in (
        ["weights", "run.driftline", "less.csv", "--out", "w.csv"],
        ["original", "add", "run.driftline", "less.csv", "--name", "less"],
        ["inspect", "run.driftline", "--against", "less.csv"],
    ):
        assert run(command) == 2
        assert said()[1].startswith("driftline: less.csv: column 'city' is missing: --schema lenient")
    for command in (
        ["weights", "run.driftline", "first.csv", "--out", "w.csv"],
        ["report", "run.driftline"],
        ["watch", "people.csv", "--tracker", "run.driftline"],
    ):
        assert run([*command, "--original", "nope"]) == 2
        assert said()[1] == "driftline: --original nope is unknown: there is only 'original'\n"
    assert not Path("report.html").exists()


@pytest.mark.parametrize(("option", "suffix"), [("--out", ".html or .htm"), ("--png", ".png")])
def test_a_report_has_the_suffix_of_its_format(copy, said, option, suffix):
    assert run(["report", "run.driftline", option, "page.pdf"]) == 2
    assert said()[1] == f"driftline: {option} page.pdf: its name must end in {suffix}\n"


def test_columns_that_the_run_does_not_know_are_passed_on_and_said(copy, said, people):
    rows = people(1007).assign(label=range(300), **{"=sum": "x"})
    rows.to_csv("rows.csv", index=False)
    assert run(["weights", "run.driftline", "rows.csv", "--out", "w.csv"]) == 0
    assert "driftline: not in the first window, and not counted: 'label', '=sum'\n" in said()[1]
    found = pd.read_csv("w.csv")
    assert found["label"].tolist() == list(range(300))
    rows.drop(columns=["label", "=sum"]).to_csv("plain.csv", index=False)
    assert run(["weights", "run.driftline", "plain.csv", "--out", "v.csv"]) == 0
    assert found["weight"].tolist() == pd.read_csv("v.csv")["weight"].tolist()


def test_warnings_of_python_become_lines(copy, said, people, monkeypatch, recwarn):
    score = Monitor.score

    def noisy(self, frame, original=None):
        warnings.warn("overflow somewhere", RuntimeWarning, stacklevel=1)
        return score(self, frame, original)

    monkeypatch.setattr(Monitor, "score", noisy)
    people(1008).to_csv("rows.csv", index=False)
    assert run(["weights", "run.driftline", "rows.csv", "--out", "w.csv"]) == 0
    assert "driftline: overflow somewhere\n" in said()[1]
    assert not recwarn.list


def test_formulas_are_neutralised_if_asked(copy, said, people):
    names = ["=1+1", "-5", "+x", "@cmd", "-1e5", "plain", "\t=1", None]
    rows = people(1009).assign(**{"=name": [names[k % 8] for k in range(300)]})
    rows.to_csv("rows.csv", index=False)
    assert run(["weights", "run.driftline", "rows.csv", "--out", "w.csv", "--escape-formulas"]) == 0
    found = pd.read_csv("w.csv")
    assert found["'=name"].fillna("").tolist()[:8] == ["'=1+1", "-5", "'+x", "'@cmd", "-1e5", "plain", "'\t=1", ""]
    assert found["age"].tolist() == rows["age"].tolist()  # numbers below 0, too, stay numbers
    assert run(["weights", "run.driftline", "rows.csv", "--out", "w.csv"]) == 0
    assert pd.read_csv("w.csv")["=name"][0] == "=1+1"  # off by default
    said()
    assert run(["weights", "run.driftline", "rows.csv", "--out", "w.parquet", "--escape-formulas"]) == 2
    assert "--escape-formulas is for CSV files" in said()[1]


def test_an_unreadable_cell_is_named_by_its_row_of_the_file(copy, said, people):
    rows = people(1005).astype({"age": str})
    rows.loc[211, "age"] = "red"
    rows.to_csv("rows.csv", index=False)
    assert run(["weights", "run.driftline", "rows.csv", "--out", "w.csv"]) == 2
    assert "column 'age': value 'red' in row 212 of rows.csv is not a number" in said()[1]
