"""Columns that were sorted at first: left out as counters, and compared in bins once they fall."""

import numpy as np
import pyarrow as pa
import pytest

from driftline import Monitor
from driftline.tables import TableEncoder, TableError

N = 2000


def table(rng, x):
    return pa.table({"x": x, "y": rng.normal(size=len(x))})


def looked(rng, first, later):
    encoder = TableEncoder.fit(table(rng, first))
    assert list(encoder.skipped) == ["x"]
    return TableEncoder.from_dict(encoder.to_dict()).transform(table(rng, later))


@pytest.mark.parametrize(
    ("later", "what"),
    [
        (lambda rng: N + np.arange(N), "goes on"),
        (lambda rng: 5 * N + np.arange(N) + rng.integers(-40, 40, N), "goes on, a little out of order"),
        (lambda rng: np.r_[10**12, N + np.arange(N - 1)], "goes on after a wild value"),
    ],
)
def test_a_counter_stays_one(rng, later, what):
    found = looked(rng, np.arange(N), np.asarray(later(rng), float))
    assert (found.doubts, found.evidence) == ((), ()), what


def test_a_column_that_was_only_sorted_is_compared_once_it_falls(rng):
    first = np.sort(rng.gamma(2.0, 30.0, N))
    same = looked(rng, first, rng.gamma(2.0, 30.0, N))
    assert same.evidence == ()
    (doubt,) = same.doubts
    assert doubt.startswith("x: taken for a clock or counter")
    assert "numeric" in doubt
    for now in (rng.gamma(2.0, 60.0, N), np.sort(rng.gamma(2.0, 60.0, N)), 1000.0 + rng.gamma(2.0, 30.0, N)):
        moved = looked(rng, first, now)
        assert [e.column for e in moved.evidence] == ["x"]
        assert "at first" in moved.doubts[0]


def test_rows_that_depend_on_each_other_are_worth_less(rng):
    """A random walk that rose at first wanders back: doubted, but not certain, as it is worth a few rows."""
    walk = np.cumsum(rng.normal(size=N)) * 0.1
    first = np.sort(rng.normal(size=N))
    found = looked(rng, first, walk - walk.mean())
    assert found.doubts
    assert found.evidence == ()
    shuffled = looked(rng, first, rng.permutation(walk - walk.mean()))
    assert shuffled.evidence


def test_a_counter_that_becomes_text_is_noted(rng):
    encoder = TableEncoder.fit(table(rng, np.arange(N)))
    later = pa.table({"x": pa.array([[1]] * N), "y": rng.normal(size=N)})
    assert encoder.transform(later).doubts == (
        "x: taken for a clock or counter and left out, now holds list<item: int64> values",
    )


def test_the_alarm_is_raised_and_record_0_says_that_it_was_left_out():
    """The true drift of x is 2 (1 - log 2) = 0.61 nats; without it there is none."""
    rng = np.random.default_rng(7)
    frames = [table(rng, np.sort(rng.gamma(2.0, 30.0, N))), *(table(rng, rng.gamma(2.0, s, N)) for s in (30.0, 60.0))]
    with Monitor(window=N) as monitor:
        began, quiet, moved = monitor.watch(frames)
    assert "'x' (a clock or counter" in began.to_dict()["notes"][0]
    assert (quiet.signal, moved.signal) == ("normal", "alarm")
    assert "x: taken for" in str(quiet.doubts[0])
    assert moved.causes == ("share_moved",)
    assert 0.3 < float(moved.reason.split("at least ")[1].split()[0]) < 0.61


def test_damaged_counters_are_refused(rng):
    whole = TableEncoder.fit(table(rng, np.arange(N))).to_dict()
    counter = whole["counters"][0]
    for part, value in (("shares", [0.5]), ("rows", 0), ("scale", -1.0), ("edges", []), ("name", "z")):
        with pytest.raises(TableError):
            TableEncoder.from_dict({**whole, "counters": [{**counter, part: value}]})


def test_a_counter_that_is_no_longer_filled_is_evidence(rng):
    gone = np.where(rng.random(N) < 0.9, np.nan, N + np.arange(N, dtype=float))
    encoded = looked(rng, np.arange(N, dtype=float), gone)
    (evidence,) = encoded.evidence
    assert evidence.event == f"{100 * np.isnan(gone).mean():.0f} % missing, 0 % at first"
    assert "taken for a clock or counter and left out; " in encoded.doubts[0]
    few = np.where(rng.random(N) < 0.002, np.nan, N + np.arange(N, dtype=float))
    assert looked(rng, np.arange(N, dtype=float), few).evidence == ()
