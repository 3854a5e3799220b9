"""A run that a strict schema has stopped goes on with one command."""

from pathlib import Path

from driftline.cli import run


def test_a_strict_run_goes_on_leniently_with_one_command(tmp_path, monkeypatch, said, people):
    monkeypatch.chdir(tmp_path)
    Path("parts").mkdir()
    people(1).to_csv("parts/1.csv", index=False)
    people(2).assign(new=1.5).to_csv("parts/2.csv", index=False)
    strict = ["watch", "parts", "--window", "300", "--tracker", "run.driftline"]
    assert run(strict) == 2
    assert "window 1: column 'new' is new" in said()[1]
    assert run(strict) == 2  # it stays at the last good window
    said()
    assert run(["watch", "parts", "--tracker", "run.driftline", "--schema", "lenient"]) == 0
    out = said()[0]
    assert "window 1: from here on schema='lenient' instead of 'strict'" in out
    assert "window 1: new, left out: 'new'" in out
    people(3).drop(columns="vip").to_csv("parts/3.csv", index=False)
    assert run(["watch", "parts", "--tracker", "run.driftline"]) == 0  # and it stays lenient
    assert "vip: the column is missing" in said()[0]
