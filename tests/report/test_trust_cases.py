"""Cases, the words of their verdicts and what to do: which doubts make an estimate bad, and which do not."""

import math
from dataclasses import replace

import pytest

from driftline.alarms import Cause, Signal
from driftline.inference import Doubt, DoubtCode, Estimate
from driftline.report import actions, compared, histories, verdict

FEW = Doubt(DoubtCode.FEW_ROWS, "30 rows are few for 11 parameters: enlarge the window")
DEPENDENT = Doubt(DoubtCode.DEPENDENT_ROWS, "rows depend on each other over 40 rows, so there is no interval; shuffle")
APART = Doubt(DoubtCode.LITTLE_OVERLAP, "the two windows hardly overlap")
WEAK = Doubt(DoubtCode.WEAK_STEP, "the step at t=2 could not be measured, and later values build upon it")
MISSES = Doubt(DoubtCode.MODEL_MISSES, "the data have changed in a way that the model does not hold")
FLOOR = Doubt(DoubtCode.BELOW_FLOOR, "at least 0.4 nats show in plain counts", ("reverse_kl",))
OUTLIER = Doubt(DoubtCode.OUTLIER, "row 7 alone carries 40% of the step", ("amount",))
NEW = Doubt(DoubtCode.CONSTANT_MOVED, "column(s) 'plan=other' were constant", ("plan=other",))
STILL = Doubt(DoubtCode.NOTHING_VARIES, "no column varies, neither then nor now")
COUNTER = Doubt(DoubtCode.COUNTER_FELL, "id: taken for a clock or counter and left out; it has fallen back")
UNSEEN = Doubt(DoubtCode.NOT_AUDITED, "rows are too few for an auditor: drift would not be noticed")
HEAVY = Doubt(DoubtCode.FEW_FOR_KL, "'kl' rests on 3.2 rows", ("kl",))
ROUGH = Doubt(DoubtCode.NOISE_UNKNOWN, "the noise of 'reverse_kl' cannot be estimated: heavy tails", ("reverse_kl",))


def judged(runs, record, *before):
    history = histories(runs.run([runs.original(), *before, record]))[0]
    found = verdict(history)
    return found, actions(history, found, "run.driftline", {})


def about(new):
    return {"new_values": new, "without_new_values": 0.004, "mean_ratio": 1.0}


CASES = {
    # doubts, further changes: trust, words of the verdict, first title, words of the advice
    "none": ((), {}, "good", "nothing casts doubt", "Nothing", "Go on watching"),
    "few rows": ((FEW,), {}, "poor", "not to be trusted: 30 rows are few", "Take larger windows", "--every longer"),
    "dependent": ((DEPENDENT,), {}, "poor", "over 40 rows", "Take longer windows", "lag="),
    "abrupt": ((APART, WEAK), {}, "poor", "hardly overlap", "Begin a new original", "Closer windows do not help"),
    "earlier step": ((WEAK,), {}, "poor", "could not be measured", "Begin a new original", "the step itself is"),
    "lower bound": (
        (MISSES,),
        {},
        "bound",
        "lower bound: the model misses a part",
        "Read it as a lower bound",
        "holds",
    ),
    "below floor": ((FLOOR, MISSES), {}, "bound", "plain counts of rows show more", "Read it as a lower bound", "near"),
    "outlier": ((OUTLIER,), {}, "poor", "row 7 alone", "Look at that row", "wrong unit"),
    "new, few": ((NEW,), about(0.02), "good", "2 % of the rows hold values that no row", "Nothing", "Go on"),
    "new, many": ((NEW,), about(0.4), "care", "cannot be measured", "Look at plan", "is that right"),
    "counter": ((COUNTER,), {}, "care", "id: taken for a clock", "Look at id", "--numeric"),
    "not audited": ((UNSEEN,), {}, "care", "too few for an auditor", "Take larger windows", "surer"),
    "rough": ((ROUGH,), {}, "care", "cannot be estimated", "Take larger windows", "surer"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_doubt_is_weighed_by_what_it_means_for_the_drift(runs, case):
    doubts, diagnostics, trust, words, title, advice = CASES[case]
    changes = {"diagnostics": diagnostics} if diagnostics else {}
    found, steps = judged(runs, runs.record(2, 0.02, doubts=doubts, **changes), runs.record(1, 0.02))
    assert found.trust == trust
    assert words.lower() in found.sentence.replace("\xa0", " ").lower()
    assert steps[0].title == title
    assert advice.lower() in steps[0].text.lower()
    assert ("(not to be trusted)" in found.short) == (trust == "poor")


def test_a_doubt_about_another_measure_stays_with_it(runs):
    record = runs.record(1, 0.02)
    divergences = {**record.divergences, "kl": replace(record.divergences["kl"], doubts=(HEAVY,))}
    found, _ = judged(runs, replace(record, divergences=divergences))
    assert found.trust == "good"
    headline, _ = judged(runs, runs.record(1, 0.02, doubts=(HEAVY,)))  # as a run whose first divergence is kl has it
    assert headline.trust == "poor"


def test_new_values_are_said_with_the_drift_of_the_rest(runs):
    found, _ = judged(runs, runs.record(1, 0.05, doubts=(NEW,), diagnostics=about(0.02)))
    sentence = found.sentence.replace("\xa0", " ")
    assert "2 % of the rows hold values that no row of the original had (“plan=other”), without them the drift is" in (
        sentence
    )
    assert "about 0.004 nats" in sentence
    assert found.outcome == "normal"


def test_closer_windows_are_advised_only_where_windows_lie_apart(runs):
    records = [runs.record(1, 0.02), runs.skipped(2)]
    _, steps = judged(runs, runs.record(3, 0.02, doubts=(APART, WEAK)), *records)
    assert steps[0].title == "Close the gap"
    _, steps = judged(runs, runs.record(3, 0.02, doubts=(APART, WEAK)), runs.record(1, 0.02), runs.record(2, 0.02))
    assert steps[0].title == "Begin a new original"
    assert steps[0].command == "driftline original add run.driftline --name NAME"


def test_floor_and_auditor_are_in_the_headline(runs):
    drift = Estimate(0.42, 0.03, 0.37, 0.48, 0.95, floor=0.31)
    found, _ = judged(runs, runs.record(1, 0.42, divergences={"reverse_kl": drift}))
    assert "0.420 nats (95 % interval 0.370 to 0.480; at least 0.31 whatever the model)" in found.sentence.replace(
        "\xa0", " "
    )
    bound = Estimate(0.31, 0.02, 0.27, math.inf, 0.95, lower_bound=True)
    found, _ = judged(runs, runs.record(1, 0.31, divergences={"reverse_kl": bound}, doubts=(MISSES,)))
    assert "at least 0.310 nats" in found.sentence
    assert found.sentence.endswith("it is a lower bound: the model misses a part.")


def test_nothing_measured_is_undecided_and_names_nothing(runs):
    bare = Estimate(0.0, math.nan, math.nan, math.nan, 0.95)
    record = runs.record(1, 0.0, divergences={"reverse_kl": bare}, doubts=(STILL,), signal=Signal.WARNING, columns=())
    found, steps = judged(runs, record)
    assert (found.outcome, found.label) == ("blind", "Undecided")
    assert found.sentence.startswith("Nothing can be decided: nothing was measured; ")
    assert steps[0].title == "Look at what is written to the columns"


def test_a_wide_interval_asks_for_more_rows(runs):
    record = runs.record(1, 0.14, causes=(Cause.WIDE_INTERVAL,), signal=Signal.WARNING)
    _, steps = judged(runs, record)
    assert steps[0].title == "Take larger windows"


@pytest.mark.parametrize(
    ("value", "signal", "cause", "opening", "title"),
    [
        (0.02, Signal.NORMAL, Cause.INTERVAL_WITHIN, "No alarm: ", "Nothing"),
        (0.2, Signal.WARNING, Cause.INTERVAL_REACHES, "Warning: ", "Take more rows"),
        (0.2, Signal.ALARM, Cause.INTERVAL_BEYOND, "Alarm: ", "Look at nswprice, vicprice and nswdemand"),
    ],
)
def test_a_comparison_has_the_words_of_a_run(runs, value, signal, cause, opening, title):
    history, found = compared(runs.record(1, value, signal=signal, causes=(cause,)), runs.ROWS)
    assert found.sentence.startswith(opening)
    assert "window" not in found.sentence
    assert actions(history, found, "", {})[0].title == title
