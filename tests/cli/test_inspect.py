"""``driftline inspect``: everything in a tracker file, and the proof that rows of a file are not in it."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

from driftline.cli import run
from driftline.recursion import SUMMED


def test_inspect_shows_all_and_proves(copy, said):
    assert run(["inspect", "run.driftline", "--against", "first.csv"]) == 0
    out, _ = said()
    assert "none is there" in " ".join(out.split())
    assert "the 300 rows of window 3" in out
    assert "'Wien'" in out
    assert run(["inspect", "run.driftline", "--against", "last.csv", "--json"]) == 0
    found = json.loads(said()[0])
    assert found["against"]["left_behind"] == 0
    assert found["against"]["also_current"] > 200  # those are kept for the next step
    assert found["records"] == 4
    assert run(["original", "add", "run.driftline", "--name", "v2", "first.csv"]) == 0
    assert run(["inspect", "run.driftline", "--against", "first.csv"]) == 1  # until the next window
    assert "originals have seen no window since they joined: v2" in " ".join(said()[0].split())


def test_inspect_against_lines_without_a_key(copy, said, people):
    rows = json.loads(people(1012).to_json(orient="records"))
    sparse = [{k: v for k, v in row.items() if k != "vip"} for row in rows]
    Path("sparse.jsonl").write_text("".join(json.dumps(row) + "\n" for row in sparse))
    assert run(["inspect", "run.driftline", "--against", "sparse.jsonl"]) == 0
    assert "none is there" in " ".join(said()[0].split())


def test_inspect_proves_that_no_row_is_at_rest(copy, said):
    command = ["watch", "people.csv", "--window", "300", "--keep", "sums", "--tracker", "sums.driftline"]
    assert run(command) == 0
    out = " ".join(said()[0].split())
    assert out.count("the model is quadratic: auto needs rows, and none are kept") == (0 if "auto" in SUMMED else 1)
    for more in ([], ["--prove"], ["--prove", "--arrays"]):
        assert run(["inspect", "sums.driftline", *more]) == 0
        out = " ".join(said()[0].split())
        assert "keep=sums" in out
        assert "no row at rest: all " in out
        assert "rows held" not in out
    assert run(["inspect", "sums.driftline", "--prove", "--json"]) == 0
    found = json.loads(said()[0])
    assert (found["no_row_at_rest"], found["problems"], found["held"]) == (True, [], [])
    assert sum(holding["bytes"] for holding in found["holdings"]) == found["bytes"]
    assert run(["original", "add", "sums.driftline", "--name", "v2", "first.csv"]) == 0
    assert run(["inspect", "sums.driftline", "--prove", "--against", "first.csv"]) == 0  # at once
    said()
    assert run(["original", "add", "sums.driftline", "--name", "v3"]) == 2
    assert "since --keep sums keeps none: give original 'v3' a file" in said()[1]
    assert run(["report", "sums.driftline", "--out", "page.html"]) == 0


def test_a_file_with_rows_is_no_proof(copy, said):
    assert run(["inspect", "run.driftline"]) == 0
    assert "at rest" not in said()[0]
    assert run(["inspect", "run.driftline", "--prove"]) == 1
    assert "NOT free of rows: 'tracks.0.anchor.window' holds 300 rows" in " ".join(said()[0].split())
    assert run(["inspect", "run.driftline", "--prove", "--json"]) == 1
    assert json.loads(said()[0])["no_row_at_rest"] is False
    with closing(sqlite3.connect("run.driftline", isolation_level=None)) as database:
        database.execute("CREATE TABLE rows (x)")
    assert run(["inspect", "run.driftline", "--prove"]) == 2
    assert "it also holds the table 'rows'" in said()[1]
