"""``driftline compare``: two files, one Record, an exit code."""

import json

import pytest

import driftline
from driftline.cli import run
from tests.schema import validate


def test_compare(copy, said):
    assert run(["compare", "first.csv", "last.csv", "--json", "--fail-on", "alarm"]) == 1
    found = json.loads(said()[0])
    validate(found)
    assert found["columns"][0]["column"] == "age"
    same = driftline.compare("first.csv", "last.csv", name="first.csv").to_dict()
    assert {**same, "seconds": 0.0} == {**found, "seconds": 0.0}
    truth = 0.5  # ages moved by one standard deviation
    assert (
        abs(found["divergences"]["reverse_kl"]["value"] - truth) < 4 * found["divergences"]["reverse_kl"]["std_error"]
    )
    assert run(["compare", "first.csv", "first.csv", "--fail-on", "warning"]) == 0
    out, _ = said()
    assert "normal: the 95 % interval" in out
    assert run(["compare", "first.csv", "last.csv", "--tolerance", "0.5", "--fail-on", "alarm"]) == 0


def test_nothing_measured_does_not_look_fine(copy, said):
    """Tables in which nothing varies: exit code 2 with the reason, also with --fail-on, and the same from watch."""
    rows = "a,b\n" + "1,x\n" * 400
    (copy / "still.csv").write_text(rows)
    for words in (["compare", "still.csv", "still.csv"], ["watch", "still.csv", "--window", "200"]):
        for further in ([], ["--fail-on", "alarm"]):
            assert run([*words, *further]) == 2
            out, error = said()
            assert "nothing was measured: no column varies, neither then nor now" in error
            assert "Nothing can be decided" in out
        assert run([*words, "--fail-on", "warning"]) == 1


CASES = {  # rows of the second file: words of the verdict, exit code with --fail-on alarm
    "first": ("No alarm: the data is", "", 0),
    "last": ("Alarm: the data is", "Look at age", 1),
    "few": ("", "20 rows are too few", 2),
    "far": ("Alarm: ", "that they differ is certain, how far is not", 1),
    "new": ("Alarm: ", "40 % new values, at least", 1),
}


@pytest.mark.parametrize("case", CASES)
def test_cases_words_and_exit_codes(copy, said, people, case):
    opening, words, code = CASES[case]
    people(7, rows=20).to_csv(copy / "few.csv", index=False)
    people(7, moved=30.0).to_csv(copy / "far.csv", index=False)
    new = people(7)
    new.loc[:120, "city"] = "Bonn"
    new.to_csv(copy / "new.csv", index=False)
    assert run(["compare", "first.csv", f"{case}.csv", "--fail-on", "alarm"]) == code
    out, error = said()
    assert words in out.replace("\xa0", " ") + error
    assert not opening or any(line.startswith(opening) for line in out.splitlines())


def test_a_doubt_about_another_measure_is_printed_with_it(copy, said, people):
    people(7, moved=4.0).to_csv(copy / "far.csv", index=False)
    words = ["compare", "first.csv", "far.csv", "--divergences", "reverse_kl,pearson"]
    run([*words, "--json"])
    found = json.loads(said()[0])
    validate(found)
    assert "few_for_divergence" in {doubt["code"] for doubt in found["divergences"]["pearson"]["doubts"]}
    assert "few_for_divergence" not in {doubt["code"] for doubt in found["doubts"]}
    run(words)
    assert "· Pearson χ²: this divergence rests on" in said()[0]
