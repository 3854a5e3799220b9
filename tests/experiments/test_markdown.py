"""The form of a verdict, and words that verdicts share."""

import pandas as pd
import pytest

from experiments.markdown import table, verdict
from experiments.words import capitalised, counted, every, listed, mean_spread

NUMBERS = table(["method", "error"], [["ours", "0.1"], ["p(y|x)", "0.2"]])


def test_a_verdict_has_its_form(check_form):
    text = verdict(
        "It holds",
        NUMBERS,
        ["First.", "", "Second " + 30 * "long word " + "here."],
        ["More.", "* an item", "* another", "End."],
    )
    assert text.startswith("**It holds.**\n\n| method | error |\n| --- | --- |\n| ours | 0.1 |\n")
    assert text.endswith("<details><summary>Details</summary>\n\nMore.\n\n* an item\n* another\n\nEnd.\n\n</details>\n")
    check_form(text)


def test_bars_in_cells_are_escaped_and_no_details_leave_no_fold():
    text = verdict("It holds", NUMBERS, ["First."])
    assert "p(y\\|x)" in text
    assert "<details>" not in text


def test_more_than_three_sentences_are_refused():
    with pytest.raises(ValueError, match="4 sentences, but a verdict has at most 3"):
        verdict("It holds", NUMBERS, ["One.", "Two.", "Three.", "Four."])


def test_numbers_and_lists_in_words():
    assert [counted(1, "seed"), counted(3, "seed")] == ["1 seed", "3 seeds"]
    assert [every(n, "seed") for n in (1, 2, 3)] == ["the one seed", "both seeds", "all 3 seeds"]
    assert [listed([]), listed(["a", "b"]), listed(["a", "b"], "; ")] == ["none", "a, b", "a; b"]
    assert capitalised("log price") == "Log price"
    assert mean_spread(pd.Series([1.0, 3.0]), 2) == "2.00 ± 1.41"
    assert mean_spread(pd.Series([1.0, 3.0]), 1, ddof=0) == "2.0 ± 1.0"
    assert mean_spread(pd.Series([1.0]), 1) == "1.0"
    assert mean_spread(pd.Series([1.0, float("nan")]), 1) == "no number"
