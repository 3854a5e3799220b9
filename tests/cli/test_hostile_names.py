"""Names and values come from data: none of them may steer a terminal, or make text read in another order."""

import json
import unicodedata
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from driftline.cli import run
from driftline.monitor import read_run

COLUMN, VALUE = "pay\x9b31mment\u202etxt.exe\u2066\x7f", "\x85wal\u200flet\u061c\x1b]0;owned\x07"


@pytest.fixture
def source(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng, frames = np.random.default_rng(0), []
    for t in range(3):
        cards = ["credit", "debit", VALUE] if t == 2 else ["credit", "debit"]
        frames.append(pd.DataFrame({COLUMN: rng.choice(cards, 300), f"n{COLUMN}": rng.normal(t, 1, 300)}))
    pd.concat(frames).to_csv("rows.csv", index=False)
    return "rows.csv"


def steering(text):
    """Return the characters of a text that do more than to be shown."""
    return {c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") and c != "\n"}


def test_no_output_steers_a_terminal(source, said):
    run(["watch", source, "--window", "300", "--tracker", "run"])
    run(["inspect", "run", "--arrays"])
    run(["report", "run", "--out", "report.html"])
    run(["original", "list", "run"])
    run(["compare", source, source])
    run(["weights", "run", source, "--out", "weights.csv"])
    run(["watch", source, "--window", "300", "--columns", f"{COLUMN}x"])
    out, err = said()
    assert "pay�31mment" in out
    assert "such as" in out  # the new value is quoted
    assert steering(out) | steering(err) == set()
    page = Path("report.html").read_text(encoding="utf-8")
    assert "pay�31mment" in page
    assert steering(page) == set()


def test_json_says_the_same_in_escapes(source, said):
    run(["watch", source, "--window", "300", "--tracker", "run", "--json"])
    run(["inspect", "run", "--json"])
    run(["compare", source, source, "--json"])
    out, err = said()
    assert steering(out) | steering(err) == set()
    *records, inside, compared = map(json.loads, out.splitlines())
    assert COLUMN in {moved["column"] for moved in records[-1]["columns"]}
    assert "\\u009b31m" in out
    assert "\\u202e" in out
    assert [column["column"] for column in inside["columns"]] == [COLUMN, f"n{COLUMN}"]
    assert compared["status"] == "measured"
    for line, record in zip(out.splitlines(), read_run("run").records, strict=False):
        assert record.to_json() == line
