"""The budget: its interval holds the true rate as often as it says, whatever neighbouring windows share."""

import math
from dataclasses import replace

import numpy as np
import pytest

from driftline import Monitor
from driftline.report._budget import budget, fitted, said
from driftline.report._histories import histories


def noise(rng, n, rise, sticky, shared):
    """Return errors of n windows that grow by a factor up to ``rise``: a part that all share, and one that lingers."""
    size = np.linspace(1.0, rise, n)
    own = rng.normal(size=n)
    for k in range(1, n):
        own[k] = sticky * own[k - 1] + math.sqrt(1.0 - sticky**2) * own[k]
    return size, size * (math.sqrt(shared) * rng.normal() + math.sqrt(1.0 - shared) * own)


@pytest.mark.parametrize("slope", [0.0, 0.5])
@pytest.mark.parametrize(("rise", "sticky", "shared"), [(1.0, 0.0, 0.3), (1.0, 0.4, 0.0), (4.0, 0.0, 0.5)])
@pytest.mark.parametrize("n", [10, 30])
def test_the_interval_of_the_rate_holds_the_truth(n, rise, sticky, shared, slope):
    rng, held, made, times = np.random.default_rng(7), 0, 0, 400
    t = np.arange(n, dtype=float)
    for _ in range(times):
        errors, wrong = noise(rng, n, rise, sticky, shared)
        line = fitted(t, slope * t + wrong, errors, 0.95)
        if line is not None:
            made += 1
            held += line.slope_low <= slope <= line.slope_high
    assert made > 0.6 * times
    # three standard errors below 95 %, and 3 % for the correlation that ten windows cannot show
    assert held / made > 0.95 - 3.0 * math.sqrt(0.95 * 0.05 / made) - 0.03


def test_plain_least_squares_would_not_hold_it():
    """Negative control: with the errors of the textbook, correlated windows miss the truth far too often."""
    rng, held, n, times = np.random.default_rng(7), 0, 30, 400
    t = np.arange(n, dtype=float)
    x = t - t.mean()
    for _ in range(times):
        _, wrong = noise(rng, n, 1.0, 0.7, 0.0)
        slope = x @ wrong / (x @ x)
        rest = wrong - wrong.mean() - slope * x
        held += abs(slope) < 2.05 * math.sqrt(rest @ rest / (n - 2) / (x @ x))
    assert held / times < 0.85


def steady(runs, rate, windows=25, settings=None, **changes):
    rng = np.random.default_rng(3)
    kind = runs.WEEKLY if settings is None else settings
    values = [rate * w + 0.002 * rng.normal() for w in range(1, windows)]
    records = [runs.record(w, v, settings=kind, **changes) for w, v in enumerate(values, 1)]
    return [
        runs.original(kind),
        *(replace(r, divergences={"reverse_kl": runs.estimate(r.drift.value, 0.002)}) for r in records),
    ]


def found(runs, records, settings=None):
    history = histories(runs.run(records, runs.WEEKLY if settings is None else settings))[0]
    return budget(history), " ".join(said(budget(history), history))


def test_a_steady_drift_has_a_rate_a_month_and_a_day(runs):
    rate = 0.003  # nats a week: 0.1 is reached after 33 weeks, the run began on 6 May 1996
    made, text = found(runs, steady(runs, rate))
    assert made.per == "month"
    month = rate * 30.436875 / 7.0
    assert made.line.slope_low < month < made.line.slope_high
    assert made.line.slope == pytest.approx(month, rel=0.1)
    early, expected, late = made.reached
    assert early < expected < late
    assert "nats a month (95" in text
    assert "Dec 1996" in text


def test_without_times_the_rate_is_a_window(runs):
    made, text = found(runs, steady(runs, 0.003, settings=runs.ROWS), runs.ROWS)
    assert made.per == "window"
    assert made.reached[1] == pytest.approx(33.0, abs=3.0)
    assert "about window 3" in text


def test_no_rate_no_day(runs):
    made, text = found(runs, steady(runs, 0.0))
    assert made.line is not None
    assert made.reached is None
    assert "is not foreseeable: the rate cannot be told from none" in text


def test_a_far_day_is_not_foreseen(runs):
    made, text = found(runs, steady(runs, 0.0008))
    assert made.reached is None
    assert "further ahead than the line looks back" in text


def test_doubts_make_it_unforeseeable(runs):
    records = steady(runs, 0.003)
    doubted = replace(records[-1], doubts=(runs.MISSES,))
    assert "nats: the last estimate is in doubt (model_misses)" in found(runs, [*records[:-1], doubted])[1]
    bare = replace(records[-1], divergences={"reverse_kl": runs.estimate(0.05, math.nan)})
    assert "the last estimate has no error bar" in found(runs, [*records[:-1], bare])[1]
    opened = replace(records[-1].drift, high=math.inf)
    bound = replace(records[-1], divergences={"reverse_kl": opened})
    assert "the last estimate is a lower bound" in found(runs, [*records[:-1], bound])[1]
    most = [replace(r, doubts=(runs.MISSES,)) if 0 < r.window < 18 else r for r in records]
    assert "a line needs 10 estimates without doubts, and there are 7" in found(runs, most)[1]


def test_only_windows_since_an_abrupt_change_count(runs):
    records = steady(runs, 0.003)
    broken = [replace(r, step=runs.estimate(0.5)) if r.window == 20 else r for r in records]
    assert "and there are 5 since the last abrupt change" in found(runs, broken)[1]
    broken = [replace(r, step=runs.estimate(0.5)) if r.window == 12 else r for r in records]
    assert found(runs, broken)[0].windows == 13


def test_beyond_already(runs):
    assert "It is beyond the tolerance of 0.1 nats already" in found(runs, steady(runs, 0.01))[1]


def test_beyond_already_without_a_line(runs):
    records = steady(runs, 0.02, windows=8)
    assert "beyond the tolerance of 0.1 nats already; its rate is not foreseeable" in found(runs, records)[1]
    doubted = replace(records[-1], doubts=(runs.MISSES,))
    assert "already" not in found(runs, [*records[:-1], doubted])[1]


def test_nothing_measured(runs):
    assert "nothing has been measured yet" in found(runs, [runs.original()])[1]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "truth"), [("quiet", 0.0), ("linear", 0.005)])
def test_real_streams_are_held(kind, truth):
    """Seeds 1 to 16, chosen beforehand; 12 windows of each, whose errors are as the recursion makes them."""
    held = made = 0
    for seed in range(1, 17):
        rng = np.random.default_rng([seed, kind == "linear"])
        monitor = Monitor(window=1000, tolerance=0.1)
        windows = (rng.normal(size=(1000, 3)) for _ in range(26))
        moved = (x + np.array([math.sqrt(2.0 * truth * t), 0.0, 0.0]) for t, x in enumerate(windows))
        drifts = [r.drift for r in monitor.watch(frame(x) for x in moved) if r.drift is not None]
        for part in (slice(1, 13), slice(13, 25)):
            values, errors = [d.value for d in drifts[part]], [d.std_error for d in drifts[part]]
            line = fitted(np.arange(len(values), dtype=float), values, errors, 0.95)
            if line is not None:
                made += 1
                held += line.slope_low <= truth <= line.slope_high
    assert made >= 28
    assert held >= 0.95 * made - 3.0 * math.sqrt(made * 0.95 * 0.05)


def frame(x):
    import pandas as pd

    return pd.DataFrame(x, columns=list("abc"))
