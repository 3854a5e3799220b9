"""How ``driftline watch`` begins: from a file of its own or the first window, with windows given or guessed."""

import json

from driftline.cli import run


def test_windows_are_guessed_from_a_file_and_the_first_lines_say_so(copy, said):
    assert run(["watch", "people.csv", "--tracker", "begun.driftline"]) == 0
    out, _ = said()
    lines = out.splitlines()
    assert lines[0].endswith("tracker begun.driftline; the first window is the original")
    assert lines[1].startswith("  windows of ")
    assert "a guess from" in lines[1]
    assert "--window sets it" in lines[1]
    assert run(["watch", "people.csv", "--tracker", "begun.driftline"]) == 0  # the guess is kept
    assert "guess" not in said()[0]


def test_what_cannot_be_guessed_is_asked_for(copy, said, monkeypatch):
    assert run(["watch", "-"]) == 2
    assert "say how long a window is: --window 5000" in said()[1]
    assert run(["watch", "people.csv", "--original-file", "-"]) == 2
    assert "--original-file -: name a file" in said()[1]
    assert run(["watch", "people.csv", "--time-column", "day"]) == 2
    assert "--every 1d" in said()[1]


def test_the_original_may_be_a_file(copy, said):
    given = ["watch", "last.csv", "--original-file", "first.csv", "--window", "300", "--tracker", "begun.driftline"]
    assert run([*given, "--fail-on", "alarm"]) == 1
    out, _ = said()
    assert "; the original is first.csv (" in out.splitlines()[0]
    assert run([*given, "--json"]) == 0  # the same again
    assert said()[0] == ""
    assert run([*given[:3], "last.csv", *given[4:]]) == 2
    assert "begun.driftline began from another original" in said()[1]
    (copy / "first.csv").unlink()
    assert run(given) == 0  # it may be gone by now
    said()
    assert run([*given[:-1], "new.driftline"]) == 2
    assert "'first.csv': there is no such file" in said()[1]
    assert not (copy / "new.driftline").exists()


def test_a_column_that_the_original_lacks_is_an_error_about_its_file(copy, said):
    (copy / "train.csv").write_text("height\n" + "".join(f"{k % 7}.5\n" for k in range(100)))
    assert run(["watch", "first.csv", "--original-file", "train.csv", "--window", "300", "--columns", "age"]) == 2
    assert "train.csv, window 0: --columns: no column 'age'" in said()[1]


def test_the_original_is_in_the_records_too(copy, said):
    assert run(["watch", "last.csv", "--original-file", "first.csv", "--window", "300", "--json"]) == 0
    first = json.loads(said()[0].splitlines()[0])
    assert (first["status"], first["causes"]) == ("original", ["joined"])
