"""What raises an alarm by itself is named first: in the Record's columns, its causes and its reason."""

import numpy as np
import pandas as pd
import pytest

from driftline.alarms import Cause, Signal
from driftline.monitor import Monitor, Record, Settings, compare, inspect
from driftline.report import compared

ROWS = 400


def table(seed, **columns):
    rng = np.random.default_rng(seed)
    plain = {"x": rng.normal(size=ROWS), "y": rng.normal(size=ROWS), "shop": rng.choice(["north", "south"], ROWS)}
    return pd.DataFrame({**plain, **columns})


def some(share, value, other, seed=9):
    return np.where(np.random.default_rng(seed).random(ROWS) < share, value, other)


def filled(share):
    return pd.Series(some(share, "yes", None), dtype="string")


COUNT = np.arange(ROWS, dtype=float)
PLAIN = table(1)
CASES = {  # columns at first, and now: cause, the column named first, what of it moved
    "filled": ({"e": filled(0.0)}, {"e": filled(0.83)}, Cause.SHARE_MOVED, "e", "% filled, 0 % at first"),
    "nulls": ({}, {"x": some(0.3, np.nan, PLAIN["x"])}, Cause.NEW_VALUES, "x", "missing from 0 % to "),
    "gone": ({"k": some(0.5, "a", "b")}, {"k": filled(0.0)}, Cause.NEW_VALUES, "k", "missing from 0 % to 100 %"),
    "category": ({}, {"shop": some(0.3, "west", PLAIN["shop"])}, Cause.NEW_VALUES, "shop", "new value 'west'"),
    "constant": ({"v": 1.0}, {"v": some(0.6, 2.0, 1.0)}, Cause.NEW_VALUES, "v", "new value 2"),
    "counter": ({"id": COUNT}, {"id": some(0.5, np.nan, COUNT)}, Cause.SHARE_MOVED, "id", "% missing, 0 % at first"),
}


def watched(then, now, *further, **settings):
    with Monitor(window=ROWS, model="linear", **settings) as monitor:
        return list(monitor.watch([table(0, **then), table(1, **now), *further]))


@pytest.mark.parametrize("case", CASES)
def test_the_column_that_raises_the_alarm_is_named_first(case):
    then, now, cause, column, event = CASES[case]
    record = watched(then, now)[-1]
    assert (record.signal, record.causes[0]) == (Signal.ALARM, cause)
    assert record.columns[0].column == column
    assert event in record.columns[0].cause
    assert record.reason.startswith(f"{column}: ")
    assert Record.from_json(record.to_json()) == record


@pytest.mark.parametrize("case", ["filled", "nulls", "category"])
def test_it_is_named_without_summaries_too(case):
    """No counts of the original are kept: what is certain needs none."""
    then, now, _, column, _ = CASES[case]
    record = watched(then, now, summaries=False)[-1]
    assert [m.column for m in record.columns] == [column]
    assert record.columns[0].drift.lower_bound
    assert record.columns[0].drift.value > 0.1


def test_a_column_that_is_not_watched_is_no_problem_of_the_proof(tmp_path):
    then, now, *_ = CASES["filled"]
    path = tmp_path / "run.driftline"
    with Monitor(path, window=ROWS, model="linear", keep="sums") as monitor:
        records = list(monitor.watch([table(0, **then), table(1, **now)]))
    assert records[-1].columns[0].column == "e"
    assert inspect(path).proof.problems == ()


def test_one_comparison_names_it_first():
    then, now, cause, column, event = CASES["filled"]
    record = compare(table(0, **then), table(1, **now))
    assert (record.causes, record.columns[0].column) == ((cause, Cause.INTERVAL_WITHIN), column)
    assert event in record.reason


def test_several_causes_are_all_named_and_the_drift_after_them():
    then = {"e": filled(0.0), "f": filled(0.0)}
    now = {"e": filled(0.8), "f": filled(0.4), "x": PLAIN["x"] + 1.5}
    record = watched(then, now)[-1]
    assert [m.column for m in record.columns] == ["e", "f", "x"]
    assert record.causes[0] == Cause.SHARE_MOVED
    assert Cause.ABOVE_LIMIT in record.causes
    assert record.reason.index("e: ") < record.reason.index("f: ") < record.reason.index("drift of")


def test_an_alarm_that_lasts_is_about_the_same_column_and_not_back_below():
    then, now, cause, column, _ = CASES["filled"]
    _, first, second = watched(then, now, table(2, **now))
    assert (first.causes, second.causes) == ((cause,), (cause,))
    assert [m.column for m in second.columns] == [column]


def test_nothing_is_named_in_a_quiet_window_nor_where_few_rows_are_filled():
    record = watched({"e": filled(0.0)}, {"e": filled(0.01)})[-1]
    assert (record.signal, record.columns) == (Signal.NORMAL, ())
    with Monitor(window=ROWS, model="linear", warm_up=5) as monitor:
        record = list(monitor.watch([table(0, e=filled(0.0)), table(1, e=filled(0.8))]))[-1]
    assert record.signal == Signal.NORMAL


@pytest.mark.parametrize(("rows", "signal"), [(22, Signal.WARNING), (18, Signal.NORMAL), (8, None)])
def test_what_is_certain_but_within_the_tolerance_is_named(rows, signal):
    """Of 400 rows, 22 are certain and a fifth of the tolerance, 18 certain and a twentieth, 8 may be chance.

    These are the rules of watched columns: a warning beyond a tenth of the tolerance, and a name wherever one moved.
    """
    now = {"e": pd.Series(["yes"] * rows + [None] * (ROWS - rows), dtype="string")}
    seen, once = watched({"e": filled(0.0)}, now)[-1], compare(table(0, e=filled(0.0)), table(1, **now), model="linear")
    for record in (seen, once):
        assert record.signal == (signal or Signal.NORMAL)
        assert [m.column for m in record.columns] == (["e"] if signal else [])
        warned = Cause.COLUMN_MOVED in record.causes, "% filled, 0 % at first" in record.reason
        assert warned == (signal == Signal.WARNING,) * 2


def test_a_column_that_is_certain_to_have_moved_is_not_called_chance():
    now = pd.Series(["yes"] * 18 + [None] * (ROWS - 18), dtype="string")
    said = [
        compared(compare(then, now, model="linear"), Settings.uncut({}))[1].sentence
        for then, now in ((table(0, e=filled(0.0)), table(1, e=now)), (table(0), table(1)))
    ]
    assert "% filled, 0 % at first) moved" in said[0]
    assert ["chance alone" in each for each in said] == [False, True]


def test_an_original_that_joins_later_says_what_is_not_compared_with_it(tmp_path):
    """How many rows of an unwatched column hold a value is only known of the first window."""
    shop, more = filled(0.83), some(0.3, "west", PLAIN["shop"])
    path, frames = tmp_path / "run.driftline", [table(0, e=filled(0.0)), table(1, e=shop, shop=more)]
    said = "not watched, and compared with the first window only: 'e'"
    with Monitor(path, window=ROWS, model="linear") as monitor:
        first = list(monitor.watch(frames))[-1]
        joined = monitor.add_original("v2")
        both = list(monitor.watch([table(2, e=filled(0.0), shop=more)]))
    later = next(record for record in both if record.original == "v2")
    own = next(record for record in both if record.original != "v2")
    assert any("had no value in the first window" in note for note in first.notes)
    assert not any("first window only" in note for note in (*first.notes, *own.notes))
    assert any("rare or not there at first" in note for note in own.notes)
    assert (joined.notes, later.notes) == ((said,), (said,))
