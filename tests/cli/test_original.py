"""``driftline original``: further originals, and which of them counts."""

from driftline.cli import run
from driftline.monitor import Record


def test_only_the_named_original_counts(copy, said, people):
    assert run(["original", "add", "run.driftline", "--name", "model-2"]) == 0
    people(1004, moved=1.0).to_csv("people2.csv", index=False)
    watch = ["watch", "people2.csv", "--tracker", "run.driftline", "--fail-on", "alarm", "--json"]
    assert run([*watch, "--original", "model-3"]) == 2
    assert "choose from 'original', 'model-2'" in said()[1]
    assert run([*watch, "--original", "model-2"]) == 0
    found = [Record.from_json(line) for line in said()[0].splitlines()]
    assert [(r.original, str(r.signal)) for r in found] == [("original", "alarm"), ("model-2", "normal")]
    assert run(["original", "list", "run.driftline"]) == 0
    out, _ = said()
    assert [line.split()[0] for line in out.splitlines()] == ["original", "original", "model-2"]
