"""``driftline inspect``: everything in a tracker file, and the proof that rows of a file are not in it."""

import json
from pathlib import Path

from driftline.cli import run


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
