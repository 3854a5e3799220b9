import math
import warnings
from dataclasses import replace

import numpy as np
import pytest

from driftline import Cause, ContinualDensityRatio, Signal, UntrustedEstimateWarning
from driftline.inference import Doubt, DoubtCode
from driftline.monitor import MovedPair, Without
from driftline.report import histories, verdict
from driftline.report._actions import actions, worth
from driftline.report._histories import doubts
from driftline.report._verdicts import carriers


def judged(run, original=None):
    history = histories(run, original)[0]
    return history, verdict(history)


def plain(text: str) -> str:
    return text.replace("\xa0", " ")


def test_an_alarm_says_since_when_how_far_by_which_columns_and_how_sure(runs):
    records = [runs.original(), *(runs.record(w, 0.02 if w < 5 else 0.5) for w in range(1, 9))]
    history, found = judged(runs.run(records))
    assert (found.outcome, found.trust) == ("alarm", "good")
    assert plain(found.sentence) == (
        "Alarm since the week of 10 Jun 1996 (window 5): the data is 0.500 nats (95 % interval 0.461 to 0.539) from "
        "its original, as far as if one normal column had moved by 1.0 standard deviations; nswprice (0.260: median "
        "from 2 to 3), vicprice (0.135: median from 2 to 3), nswdemand (0.060: median from 2 to 3) and 2 more columns "
        "moved; nothing casts doubt on the estimate."
    )
    assert found.short == (
        "Alarm since the week of 10 Jun 1996 (window 5): 0.500 nats from its original; moved: nswprice, vicprice and "
        "nswdemand"
    )
    titles = [step.title for step in actions(history, found, "/a/b c.driftline", runs.NOW)]
    assert titles[0] == "Look at nswprice, vicprice and nswdemand"
    commands = [step.command for step in actions(history, found, "/a/b c.driftline", runs.NOW)]
    assert "driftline weights 'b c.driftline' current.csv --out weighted.csv" in commands
    assert "driftline original add 'b c.driftline' --name NAME" in commands


def test_an_alarm_that_stands_but_calmed_down(runs):
    calm = runs.record(2, 0.12, signal=Signal.ALARM, causes=(Cause.BACK_BELOW, Cause.ALARM_CONTINUES))
    records = [runs.original(), runs.record(1, 0.5), calm]
    assert "back below the limits in the last window" in judged(runs.run(records))[1].sentence


def test_a_warning_asks_to_wait(runs):
    history, found = judged(runs.run([runs.original(), runs.record(1, 0.02), runs.record(2, 0.14)]))
    assert found.outcome == "warning"
    assert found.sentence.startswith("Warning since the week of 20 May 1996 (window 2): the data is 0.140 nats")
    assert [step.title for step in actions(history, found, "r", {})][-1] == "Then wait"


def test_drift_within_the_tolerance(runs):
    history, found = judged(runs.run([runs.original(), runs.record(1, 0.08)]))
    assert found.outcome == "normal"
    assert "within the tolerance of 0.1 nats, as far as if one normal column had moved by 0.40" in found.sentence
    assert [step.title for step in actions(history, found, "r", {})] == ["Nothing"]


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (0.02, "beyond the tolerance of 0.1 nats, but its interval reaches down to it,"),
        (0.005, "beyond the tolerance of 0.1 nats, but not beyond the limits of the alarm, which allow for a look at"),
    ],
)
def test_drift_between_tolerance_and_limit_is_said_as_its_interval_lies(runs, error, words):
    record = runs.record(1, 0.12, divergences={"reverse_kl": runs.estimate(0.12, error)})
    assert words in judged(runs.run([runs.original(), record]))[1].sentence


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"diagnostics": {"mean_ratio": 1.39}}, "good"),
        ({"diagnostics": {"mean_ratio": 1.41}}, "poor"),
        ({"diagnostics": {"mean_ratio": 0.59}}, "poor"),
        ({"effective_sample_size": 99.0}, "poor"),
        ({"effective_sample_size": float("nan")}, "unknown"),
    ],
)
def test_worth_of_weights(runs, changes, expected):
    assert worth(runs.record(1, 0.02, **changes)) == expected


@pytest.mark.parametrize("value", [0.003, -0.004])
def test_no_drift_names_no_columns(runs, value):
    found = judged(runs.run([runs.original(), runs.record(1, value)]))[1]
    assert found.outcome == "normal"
    assert "which chance alone can explain" in found.sentence
    assert "nswprice" not in found.sentence + found.short


def test_an_alarm_that_has_ended_is_not_forgotten(runs):
    records = [runs.original(), *(runs.record(w, 0.4 if w in (2, 3, 6) else 0.02) for w in range(1, 9))]
    found = judged(runs.run(records))[1]
    assert found.outcome == "normal"
    assert "No alarm now, the last of 2 ended with the week of 17 Jun 1996 (window 6)" in found.sentence


def test_waiting(runs):
    for records, words in (
        ([], "No window is complete yet"),
        ([runs.original()], "Tracing began with the week of 6 May 1996 (window 0) of 336 rows; no later window"),
        ([runs.original(), runs.skipped(1), runs.skipped(2)], "all 2 windows that followed held no rows or too few"),
    ):
        history, found = judged(runs.run(records))
        assert found.outcome == "waiting"
        assert words in found.sentence
        assert [step.title for step in actions(history, found, "r", {})] == ["Wait"]


def test_without_error_bars_nothing_is_decided(runs):
    history, found = judged(runs.run(runs.no_bars(), runs.ROWS))
    assert (found.outcome, found.trust) == ("blind", "poor")
    assert "the reading of 0.35 nats from its original has no interval, and is a hint at most" in found.sentence
    assert "column" not in found.sentence  # of what is not known, none is named
    assert "beyond the tolerance" not in found.sentence
    assert len(actions(history, found, "r", {})) == 1


def test_windows_skipped_at_the_end_are_mentioned(runs):
    run = runs.run([runs.original(), runs.record(1, 0.3), runs.skipped(2, signal=Signal.ALARM)])
    found = judged(run)[1]
    assert found.outcome == "alarm"
    assert "this is as of the week of 13 May 1996 (window 1), 1 later window had too few rows or none" in found.sentence


def small(runs, *windows, **changes):
    return [runs.skipped(w, rows=5, causes=(Cause.TOO_FEW_ROWS, Cause.SIGNAL_STANDS), **changes) for w in windows]


def test_windows_that_were_not_measured_are_not_fine(runs):
    quiet = [runs.original(), runs.record(1, 0.003)]
    assert judged(runs.run(quiet))[1].outcome == "normal"
    empty = judged(runs.run([*quiet, runs.skipped(2), runs.skipped(3)]))[1]
    assert (empty.outcome, empty.trust) == ("normal", "good")  # nothing came that could have been measured

    history, one = judged(runs.run([*quiet, *small(runs, 2)]))
    assert (one.outcome, one.trust) == ("unsure", "care")
    assert one.trust_sentence.startswith("The last window was not measured: 5 rows are too few; the estimate is as of")
    assert [step.title for step in actions(history, one, "r", {})] == ["Wait for the next window"]

    history, found = judged(runs.run([*quiet, *small(runs, *range(2, 32))]))
    assert (found.outcome, found.trust, found.label) == ("blind", "poor", "Undecided")
    assert found.short == "Undecided: the last 30 windows (150 rows) were not measured: too few rows in each"
    assert found.sentence.startswith(
        "Undecided: the last 30 windows (150 rows) were not measured: too few rows in each"
    )
    assert "as of the week of 13 May 1996 (window 1), and says nothing of what came since" in found.sentence
    assert "Nothing casts doubt" not in found.sentence + found.trust_sentence
    (step,) = actions(history, found, "r", {})
    assert step.title == "Take longer windows"
    assert "an --every longer than 1w" in step.text

    again = judged(runs.run([*quiet, *small(runs, 2, 3), runs.record(4, 0.003)]))[1]
    assert (again.outcome, again.trust) == ("normal", "good")  # a window that is measured ends it


def test_an_alarm_stands_while_windows_are_not_measured(runs):
    records = [runs.original(), runs.record(1, 0.3), *small(runs, 2, 3, signal=Signal.ALARM)]
    history, found = judged(runs.run(records))
    assert (found.outcome, found.trust) == ("alarm", "poor")
    assert "the last 2 windows (10 rows) were not measured" in found.sentence
    assert actions(history, found, "r", {})[-1].title == "Take longer windows"


def test_when_no_window_could_be_measured_waiting_does_not_help(runs):
    history, found = judged(runs.run([runs.original(), *small(runs, *range(1, 30))]))
    assert (found.outcome, found.trust) == ("blind", "poor")
    assert "the last 29 windows (145 rows) were not measured" in found.trust_sentence
    assert [step.title for step in actions(history, found, "r", {})] == ["Take longer windows"]


def test_one_doubted_step_stays_in_doubt(runs):
    sentence = "the fit did not converge (stopped after 50 steps)"
    doubt = Doubt(DoubtCode.NOT_CONVERGED, sentence)
    records = [
        runs.original(),
        runs.record(1, 0.02),
        runs.record(2, 0.02, notes=("late data",), doubts=(doubt,)),
        runs.record(3, 0.02),
    ]
    history, found = judged(runs.run(records[:3]))
    assert found.trust == "poor"
    assert sentence in found.sentence
    later = judged(runs.run(records))[1]
    assert (later.outcome, later.trust) == ("unsure", "care")
    assert later.short.endswith("(unsure)")
    long_after = judged(runs.run([*records, *(runs.record(t, 0.02) for t in range(4, 15))]))[1]
    assert (long_after.outcome, long_after.trust) == ("normal", "good")
    assert "1 of the latest steps was in doubt, that of the week of 20 May 1996 (window 2), and later" in later.sentence
    assert actions(history, found, "r", {})[0].title == "Look at the columns first"


def test_far_away_is_called_far_away(runs):
    found = judged(runs.extreme())[1]
    assert "1,000,000 nats" in found.sentence
    assert "hardly any row could come from both times (one normal column would have moved by 1,414" in found.sentence


def test_several_originals_are_named(runs):
    run = runs.several()
    assert "from the original “winter <1997>”" in judged(run, "winter <1997>")[1].sentence
    with pytest.raises(ValueError, match="original 'summer' is not in this run: it has 'original', 'winter <1997>'"):
        histories(run, "summer")


def test_a_sentence_names_three_columns_at_most(runs):
    assert [part.column for part in carriers(runs.record(1, 0.5))] == ["nswprice", "vicprice", "nswdemand"]
    assert carriers(runs.record(1, 0.01)) == ()


def test_drift_in_no_column_is_said_to_be_that(runs):
    pair = MovedPair(("a", "b"), 0.2, 1e-9, "rank correlation from 0.30 to 0.52")
    found = judged(runs.run([runs.original(), runs.record(1, 0.5, columns=(), pairs=(pair,), unexplained=0.3)]))[1]
    assert "a and b relate otherwise (rank correlation from 0.30 to 0.52)" in found.sentence
    assert "about 0.3 nats are in no single column and no pair" in found.sentence
    assert found.short.endswith("a and b relate otherwise")
    found = judged(runs.run([runs.original(), runs.record(1, 0.5, columns=(), unexplained=0.5)]))[1]
    assert "no column moved by itself and no two relate otherwise" in found.sentence


def test_a_column_that_hides_the_rest_may_be_left_out(runs):
    hiding = runs.record(1, 8.0, columns=runs.moved(8.0, (1.0,), ("year",)), without=Without("year", 0.02, new=True))
    history, found = judged(runs.run([runs.original(), hiding]))
    assert "without year, about 0.02 nats are left" in found.sentence
    assert any("--drop year" in step.command for step in actions(history, found, "r", {}))
    still = replace(hiding, without=Without("year", 0.02, new=False))
    history, found = judged(runs.run([runs.original(), still]))
    assert not any("--drop" in step.command for step in actions(history, found, "r", {}))


def test_weights_that_are_worth_little_are_not_recommended(runs):
    history, found = judged(runs.run([runs.original(), runs.record(1, 4.0)]))
    steps = actions(history, found, "r", {})
    assert steps[1].title == "Retrain without weights if the change is real"
    assert not any("weights" in step.command for step in steps)


def test_doubts_are_those_of_the_estimator(runs):
    rng = np.random.default_rng(1000)
    est = ContinualDensityRatio(model="quadratic", random_state=0).fit(rng.normal(0.0, 1.0, (60, 6)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UntrustedEstimateWarning)
        est.partial_fit(rng.normal(8.0, 1.0, (60, 6)))
    found = est.info_.originals["original"].doubts
    assert found
    for doubt in found:
        assert doubts(runs.record(1, 0.1, doubts=(doubt,))) == [doubt]
    assert doubts(runs.record(1, 0.1, notes=("colour: 132 rows hold values not seen at first, such as 'teal'",))) == []


def test_an_interval_that_rules_nothing_out_is_not_called_calm(runs):
    rough = {"reverse_kl": runs.Estimate(-1.5, 7.0, -16.0, 13.1, 0.95)}
    record = runs.record(1, 0.0, divergences=rough, effective_sample_size=300.0)
    history, found = judged(runs.run([runs.original(), record]))
    assert (found.outcome, found.trust) == ("unsure", "good")
    assert "which says little: it may lie up to 13.1 nats away" in found.sentence
    assert "chance" not in found.sentence
    assert [step.title for step in actions(history, found, "r", {})] == ["Take larger windows"]


def test_weights_that_contradict_a_small_drift_are_a_doubt(runs):
    assert doubts(runs.record(1, 0.02, effective_sample_size=250.0)) == []
    assert "the weights are worth 1 of 336 rows" in str(doubts(runs.record(1, 0.02, effective_sample_size=1.0))[0])
    assert doubts(runs.record(1, 4.0, effective_sample_size=1.0)) == []  # as expected far away
    found = judged(runs.run([runs.original(), runs.record(1, 0.02, effective_sample_size=1.0)]))[1]
    assert (found.outcome, found.trust) == ("unsure", "poor")
    assert found.short.endswith("(not to be trusted)")


def test_an_estimate_that_is_not_a_number_is_in_doubt(runs):
    broken = runs.record(1, 0.1, divergences={"js": runs.Estimate(math.nan, math.nan, math.nan, math.nan, 0.95)})
    assert [str(doubt) for doubt in doubts(broken)] == ["the estimate is not a finite number"]


def test_an_alarm_that_is_not_the_divergences_says_why(runs):
    record = runs.record(1, 0.01, signal=Signal.ALARM, reason="plan changed: 100% of the rows are what no row was")
    _, found = judged(runs.run([runs.original(), record]))
    assert found.outcome == "alarm"
    assert "the alarm is about this: plan changed: 100% of the rows" in found.sentence


WEAK = Doubt(DoubtCode.WEAK_STEP, "the step at t=2 could not be measured, and later values build upon it; begin anew")
OFF = Doubt(DoubtCode.STEP_MEAN_OFF, "the step ratio averages 0.7 on the window instead of 1")


def test_a_column_with_nearly_all_of_the_drift_comes_first(runs):
    record = runs.record(1, 1.8, doubts=(WEAK,))
    note = replace(record.columns[0], column="note", cause="missing from 16 % to 100 %")
    record = replace(record, columns=(note,), without=Without("note", 0.0, new=False))
    history, found = judged(runs.run([runs.original(), record]))
    assert ": note (" in found.sentence.partition("nats")[0]
    steps = actions(history, found, "r", {})
    assert steps[0].title == "Look at note"
    assert steps[0].text.startswith("note: missing from 16 % to 100 %. ")


def test_a_warning_about_a_step_back_does_not_blame_the_data(runs):
    away = runs.record(1, 0.5, marginals={"nswprice": runs.Marginal(0.3, 1e-9, 0.0, 0.0)})
    silent = {"nswprice": runs.Marginal(0.0, 0.9, 0.0, 0.0)}
    quiet = {"columns": (), "unexplained": 0.0, "marginals": silent}
    back = runs.record(2, 0.0, 0.4, doubts=(OFF, WEAK), **quiet)
    after = runs.record(3, 0.0, signal=Signal.WARNING, causes=(Cause.UNSETTLED,), doubts=(WEAK,), **quiet)
    history, found = judged(runs.run([runs.original(), away, back, after]))
    assert "the data is back near its original" in found.sentence
    assert "the warning is about the step to the week of 20 May 1996 (window 2)" in found.sentence
    assert "begin" not in found.sentence
    first = actions(history, found, "r", {})[0]
    assert first.title.startswith("Check what changed with")
    assert first.text.startswith("Before it, nswprice was different: median from 2 to 3. ")


def test_verdict_and_advice_name_columns_in_one_order(runs):
    names = ("col3", "col1", "col0", "col2")
    columns = runs.moved(0.5, (0.4, 0.3, 0.2, 0.1), names)
    new = Doubt(DoubtCode.CONSTANT_MOVED, "columns were constant", tuple(f"col{k} missing" for k in range(4)))
    record = runs.record(1, 0.5, columns=columns, doubts=(new,), causes=(Cause.NEW_VALUES,))
    record = replace(record, diagnostics={**record.diagnostics, "new_values": 0.3, "without_new_values": 0.0})
    history, found = judged(runs.run([runs.original(), record]))
    first = actions(history, found, "r", {})[0]
    assert first.title == "Look at col3, col1, col0 and 1 more"
    assert first.command.endswith("--drop col3,col1,col0,col2")
    assert "“col3 missing”, “col1 missing” and “col0 missing”" in found.sentence
