"""Line, title, verdict and advice name what brought a signal before the drift of all columns together."""

import math

import pytest

from driftline.alarms import Cause, Signal
from driftline.inference import Doubt, DoubtCode, Estimate
from driftline.monitor import Marginal, Moved, MovedPair
from driftline.report import actions, histories, verdict
from driftline.terminal._lines import moved as line

NEW = Doubt(DoubtCode.CONSTANT_MOVED, "column(s) 'plan=other' were constant", ("plan=other",))
QUIET = {"x": Marginal(0.0, 0.5, 0.0, 0.0), "plan": Marginal(0.0, 0.5, 0.0, 0.0)}


def bound(column, cause, nats=5.13):
    return Moved(column, Estimate(nats, math.nan, nats, math.inf, 0.95, lower_bound=True), 1e-9, cause)


EVENTS = {  # cause, column, what of it moved
    "filled": (Cause.SHARE_MOVED, "citationIssued", "83 % filled, 0 % at first"),
    "emptied": (Cause.SHARE_MOVED, "id", "70 % missing, 0 % at first"),
    "counter": (Cause.SHARE_MOVED, "number", "80 % below 12, 3 % at first"),
    "new labels": (Cause.SHARE_MOVED, "user", "25 % new values, up to 2 % expected"),
    "missing": (Cause.NEW_VALUES, "plan", "missing from 0 % to 30 %"),
    "category": (Cause.NEW_VALUES, "plan", "new value 'max', 20 %"),
    "column": (Cause.COLUMN_MOVED, "x", "median from 2 to 3"),
}


def judged(runs, value=0.004, signal=Signal.ALARM, **changes):
    record = runs.record(1, value, signal=signal, **{"columns": (), "marginals": QUIET, "unexplained": 0.0, **changes})
    history = histories(runs.run([runs.original(), record]))[0]
    found = verdict(history)
    return record, found, actions(history, found, "run.driftline", {})


@pytest.mark.parametrize("value", [0.004, 0.5])
@pytest.mark.parametrize("event", EVENTS)
def test_the_column_is_named_first(runs, event, value):
    """So it is where the drift of all columns is beyond its limit, too."""
    cause, column, what = EVENTS[event]
    causes = (cause,) if value < 0.1 else (cause, Cause.ABOVE_LIMIT)
    doubts = (NEW,) if cause == Cause.NEW_VALUES else ()
    others = (Moved("x2", Estimate(0.2, 0.01, 0.18, 0.22, 0.95), 1e-9, "median from 2 to 3"),)
    record, found, steps = judged(runs, value, causes=causes, columns=(bound(column, what), *others), doubts=doubts)
    assert line(record).startswith(f"{column} at least 5.13 ({what})")
    assert line(record, 24).startswith(f"{column}: {what}"[:20])
    opening, _, rest = found.sentence.partition(": ")
    assert opening.startswith("Alarm since ")
    assert rest.startswith(f"{column} (at least 5.13: {what})")
    assert "; the watched data as a whole is " in rest
    assert f": {column} ({what})" in found.short
    assert steps[0].title.startswith(f"Look at {column}")
    assert steps[0].text.startswith(f"{column}: {what}. ")
    said = " ".join([line(record), found.sentence, *(step.text for step in steps)])
    assert "chance alone" not in said
    assert "no column" not in said.lower()


def test_a_column_that_is_not_watched_can_be_dropped_or_watched(runs):
    _, _, steps = judged(runs, causes=(Cause.SHARE_MOVED,), columns=(bound("citationIssued", "83 % filled"),))
    assert "The drift leaves citationIssued out: another run can watch or drop it." in steps[0].text
    assert steps[0].command == "driftline watch ... --drop citationIssued"


def test_no_advice_is_given_twice(runs):
    diagnostics = {"new_values": 0.4, "without_new_values": 0.004, "mean_ratio": 1.0}
    columns = (bound("plan", "new value 'max', 40 %"),)
    _, found, steps = judged(
        runs, 0.5, causes=(Cause.NEW_VALUES,), columns=columns, doubts=(NEW,), diagnostics=diagnostics
    )
    assert found.trust == "care"
    assert len({step.title for step in steps}) == len(steps)


def test_a_pair_that_brought_a_warning_is_named(runs):
    pairs = (MovedPair(("x", "y"), 0.3, 1e-9, "rank correlation from 0.1 to 0.7"),)
    _, found, steps = judged(runs, signal=Signal.WARNING, causes=(Cause.COLUMN_MOVED,), pairs=pairs)
    assert ": x and y relate otherwise (rank correlation from 0.1 to 0.7); the watched data" in found.sentence
    assert (steps[0].title, "rank correlation from 0.1 to 0.7" in steps[0].text) == ("Look at x and y", True)


def test_a_step_back_to_the_original_is_named_as_a_step(runs):
    why = "abrupt change: step of 0.800 nats is beyond 0.130"
    record, found, steps = judged(runs, causes=(Cause.ABRUPT_STEP,), reason=why)
    assert line(record) == why
    assert f": {why}; the watched data as a whole is " in found.sentence
    assert (steps[0].title, why in steps[0].text) == ("Look at the last window", True)


def test_a_run_written_before_names_the_cause_by_its_reason(runs):
    why = "citationIssued: 83% of its rows hold a value, at first 0%, at least 5.13 nats"
    record, found, steps = judged(runs, causes=(Cause.SHARE_MOVED,), reason=why)
    assert line(record, 30) == "citationIssued: 83% of its ro…"
    assert f": {why}; the watched data" in found.sentence
    assert why in steps[0].text


def test_a_drift_of_all_columns_is_still_said_to_be_in_no_column(runs):
    """The negative control: neither a column nor a pair moved, and the drift itself is beyond its limit."""
    record, found, steps = judged(runs, 0.5, causes=(Cause.ABOVE_LIMIT,), unexplained=0.5)
    assert line(record) == "no column alone"
    assert "no column moved by itself" in found.sentence
    assert "No column moved by itself" in steps[0].text
    quiet, calm, _ = judged(runs, signal=Signal.NORMAL, causes=(Cause.WITHIN,), unexplained=None)
    assert line(quiet) == ""
    assert "which chance alone can explain" in calm.sentence
