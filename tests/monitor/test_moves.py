"""Which columns and pairs a run names, and what it says of them."""

import math
import re

import numpy as np
import pandas as pd
import pytest

from driftline import Cause, Monitor, Signal, compare
from driftline.monitor import Pool

ROWS = 1500


def frame(rng, n=ROWS, *, shift=0.0, rho=0.3, gaps=0.02, kinds=("a", "b"), year=2013, top=0.1, both=0.0):
    one = rng.normal(size=n)
    return pd.DataFrame(
        {
            "x": rng.normal(shift, 1.0, n),
            "one": one + both,
            "other": rho * one + math.sqrt(1 - rho * rho) * rng.normal(size=n),
            "twin": one + both + 0.05 * rng.normal(size=n),
            "kind": rng.choice(list(kinds), n),
            "gaps": np.where(rng.random(n) < gaps, np.nan, rng.normal(size=n)),
            "income": rng.choice(["low", "60K+"], n, p=[1 - top, top]),
            "year": np.full(n, year),
        }
    )


def watched(frames, **settings):
    with Monitor(window=ROWS, model="quadratic", **settings) as monitor:
        return list(monitor.watch(frames))


def names(record):
    return {m.column for m in record.columns}, {m.columns for m in record.pairs}


@pytest.mark.parametrize(
    ("change", "column", "cause"),
    [
        ({"shift": 0.4}, "x", r"median from \S+ to \S+"),
        ({"gaps": 0.1}, "gaps", r"missing from \d % to \d+ %"),
        ({"kinds": ("a", "b", "wallet")}, "kind", r"new value 'wallet', 3\d %"),
        ({"year": 2014}, "year", "new value 2014, 100 %"),
        ({"top": 0.01}, "income", r"60K\+ from \d+ % to \d"),
    ],
)
def test_the_column_that_moved_is_named_with_its_cause(rng, change, column, cause):
    *quiet, last = watched([*(frame(rng) for _ in range(3)), frame(rng, **change)])
    assert [names(record) for record in quiet] == [(set(), set())] * 3
    assert all(record.unexplained is None for record in quiet)
    assert names(last) == ({column}, set())
    (moved,) = last.columns
    assert re.match(cause, moved.cause)
    assert moved.chance < 1e-3
    assert moved.drift.low > 0.0
    assert last.signal != Signal.NORMAL


def test_a_pair_is_named_where_both_columns_stand_still(rng):
    *_, last = watched([frame(rng), frame(rng), frame(rng, rho=0.7)])
    columns, pairs = names(last)
    assert columns == set()
    assert ("one", "other") in pairs
    assert all("other" in pair for pair in pairs)  # the twin tells the same
    assert last.pairs[0].cause.startswith("rank correlation from 0.")
    assert last.pairs[0].dependence > 0.05


def test_columns_that_tell_the_same_are_both_named(rng):
    *_, last = watched([frame(rng), frame(rng), frame(rng, both=0.5)])
    assert names(last)[0] == {"one", "twin"}
    drift = last.divergences["reverse_kl"]
    assert sum(m.drift.value for m in last.columns) > drift.value  # they do not add up
    assert last.unexplained < 0.3 * drift.value


def test_a_column_that_moved_within_the_tolerance_is_a_warning(rng):
    *_, last = watched([frame(rng), frame(rng), frame(rng, shift=0.3)], tolerance=0.2)
    assert (last.signal, last.causes) == (Signal.WARNING, (Cause.COLUMN_MOVED,))
    assert last.reason.startswith("x moved (median from")
    assert last.drift.value < 0.2
    *_, last = watched([frame(rng), frame(rng), frame(rng, shift=0.3)], tolerance=5.0)
    assert last.signal == Signal.NORMAL  # far within
    assert names(last) == ({"x"}, set())


def test_a_column_that_hides_the_rest_is_set_aside(rng):
    *_, last = watched([frame(rng), frame(rng), frame(rng, year=2014, shift=0.4)])
    assert last.columns[0].column == "year"
    assert last.without.column == "year"
    assert last.without.new
    assert last.without.drift == pytest.approx(0.08, abs=0.05)
    assert last.unexplained is None  # the year's own drift has no upper end


def test_weak_shifts_are_seen_by_the_last_windows_together(rng):
    """A tenth of a standard deviation in windows of 1,500, at a level that one window does not reach."""
    frames = [frame(rng, 20_000).iloc[:15_000], *(frame(rng, shift=0.12) for _ in range(8))]
    with Monitor(original=frames[0], window=ROWS, model="quadratic", tolerance=0.0, run_length=200) as monitor:
        records = list(monitor.watch(frames[1:]))
    found = [m.column for record in records for m in record.columns]
    assert found.count("x") >= 3
    assert len(found) - found.count("x") <= 1  # at a level of 1/200 a window, any other is named in 4 % of eight


def test_a_column_that_came_back_is_not_named(rng):
    records = watched([*(frame(rng) for _ in range(3)), *(frame(rng, shift=1.0) for _ in range(3)), frame(rng)])
    assert ["x" in names(record)[0] for record in records[3:]] == [True] * 3 + [False]


def test_an_original_that_joins_has_counts_of_its_own(rng):
    with Monitor(window=ROWS, model="quadratic") as monitor:
        list(monitor.watch([frame(rng), frame(rng, shift=1.0)]))
        monitor.add_original("later")
        monitor.add_original("given", frame(rng, kinds=("a", "b"), shift=1.0))
        records = list(monitor.watch([frame(rng, shift=1.0)]))
    assert {r.original: names(r)[0] for r in records} == {"original": {"x"}, "later": set(), "given": set()}
    assert len({original.ledger.columns[0].edges for original in monitor.run.originals}) == 3


def test_without_summaries_nothing_is_counted_and_that_is_said(rng, tmp_path):
    path = tmp_path / "run.driftline"
    with Monitor(path, window=ROWS, model="quadratic", summaries=False) as monitor:
        first, *_, last = monitor.watch([frame(rng), frame(rng), frame(rng, shift=1.0)])
        assert monitor.run.originals[0].ledger is None
    assert any("columns and pairs that move are not named" in note for note in first.notes)
    assert (last.columns, last.pairs, last.unexplained) == ((), (), None)
    with Monitor(path, window=ROWS, model="quadratic", summaries=False) as monitor:
        assert list(monitor.watch([frame(rng)]))


def test_rows_that_depend_too_far_are_not_tested(rng):
    def walk():
        steps = rng.normal(size=(ROWS, 3)).cumsum(0)
        return pd.DataFrame(steps, columns=list("abc"))

    with Monitor(window=ROWS, model="quadratic") as monitor:
        *_, last = monitor.watch([walk() for _ in range(3)])
    assert (last.columns, last.pairs) == ((), ())
    assert any("columns were not tested" in note for note in last.notes)


def test_copies_of_rows_count_once(rng):
    few = [frame(rng, ROWS // 5) for _ in range(8)]
    five = [pd.concat([each] * 5, ignore_index=True).sample(frac=1.0, random_state=0) for each in few]
    assert [names(record) for record in watched(five)] == [(set(), set())] * 8


def test_a_run_that_was_stopped_names_what_one_run_names(rng, tmp_path):
    frames = [*(frame(rng) for _ in range(3)), *(frame(rng, shift=0.2) for _ in range(3))]
    whole = watched(frames)
    parts = []
    for each in frames:
        with Monitor(tmp_path / "run", window=ROWS, model="quadratic") as monitor:
            parts += list(monitor.watch([each]))
    assert [(r.columns, r.pairs, r.unexplained) for r in parts] == [(r.columns, r.pairs, r.unexplained) for r in whole]


def test_compare_names_as_watch_does(rng):
    then, now = frame(rng), frame(rng, shift=0.5, gaps=0.1)
    *_, last = watched([then, now])
    record = compare(then, now, model="quadratic")
    assert [(m.column, m.cause, m.drift) for m in record.columns] == [
        (m.column, m.cause, m.drift) for m in last.columns
    ]
    assert {m.column for m in record.columns} == {"x", "gaps"}


def test_a_pool_that_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="does not hold numbers"):
        Pool.from_dict({"counts": [["a"]], "rows": [1.0], "squares": [1.0]}, None)
    with pytest.raises(ValueError, match="does not fit"):
        Pool.from_dict({"counts": [[1.0]], "rows": [1.0], "squares": [1.0]}, None)


def test_every_tested_column_is_noted_whether_it_moved_or_not(rng):
    changes = {"shift": 0.4, "gaps": 0.3, "kinds": ("a", "b", "wallet")}
    first, quiet, last = watched([frame(rng), frame(rng), frame(rng, **changes)])
    assert first.marginals == {}
    assert set(quiet.marginals) == set(last.marginals) == set(frame(rng, 3).columns)
    assert all(each.chance > 1e-4 for each in quiet.marginals.values())
    for moved in last.columns:
        own = last.marginals[moved.column]
        assert own.chance == pytest.approx(moved.chance, rel=0.01)
        assert own.drift == pytest.approx(moved.drift.value, rel=0.01)
    assert last.marginals["gaps"].missing == pytest.approx(0.3, abs=5 * math.sqrt(0.3 * 0.7 / ROWS))
    assert last.marginals["kind"].new == pytest.approx(1 / 3, abs=5 * math.sqrt(0.3 * 0.7 / ROWS))
    assert last.marginals["x"].missing == last.marginals["x"].new == 0.0
    # a normal column that moved by s has s² / 2 nats; cells lose a little of it
    assert last.marginals["x"].drift == pytest.approx(0.08, abs=0.03)


def test_columns_that_were_not_tested_are_not_noted(rng):
    same = frame(rng)
    *_, last = watched([same, same.iloc[np.repeat(np.arange(10), ROWS // 10)].reset_index(drop=True)])
    assert last.marginals == {}
