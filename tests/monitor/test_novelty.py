"""Values an original did not have: the bound is a bound, and rare values do not raise alarms."""

import math

import numpy as np
import pyarrow as pa
import pytest

from driftline import Monitor
from driftline.alarms import Cause, Signal
from driftline.inference import terms
from driftline.monitor._novelty import constants, novelty


def asked(share, rows=1000, kind="reverse_kl", now=1000):
    then, values = np.zeros((rows, 1)), np.zeros((now, 1))
    values[: round(share * now)] = 1.0
    return novelty(constants(["x"], then), rows, ["x"], values, kind=kind, run_length=1000)


def test_no_values_no_novelty():
    assert asked(0.0) is None
    assert novelty({}, 100, ["x"], np.ones((100, 1)), kind="kl", run_length=1000) is None
    assert constants(["x", "y"], np.array([[1.0, 2.0], [1.0, 3.0]])) == {"x": 1.0}


def test_the_bound_in_closed_form():
    before = math.log(1000) / 1000
    assert asked(1.0).least == pytest.approx(-math.log(before), rel=1e-6)
    low = 0.3 - 3 * math.sqrt(0.3 * 0.7 / 1000)
    expected = low * math.log(low / before) + (1 - low) * math.log((1 - low) / (1 - before))
    assert asked(0.3).least == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("kind", ["reverse_kl", "kl", "js", "hellinger", "total_variation"])
def test_the_bound_is_below_the_truth(kind):
    """Two Bernoulli laws, the first sample without ones: in hardly any of 2000 trials is the bound above the truth."""
    rng, p, q, above, tried = np.random.default_rng(0), 0.002, 0.05, 0, 0
    chances = np.array([q, 1 - q])
    truth = float(chances @ terms(np.log([p, 1 - p]) - np.log(chances), kind))
    for _ in range(2000):
        then, now = rng.random((500, 1)) < p, rng.random((500, 1)) < q
        if then.any():
            continue
        tried += 1
        found = novelty({"x": 0.0}, 500, ["x"], now.astype(float), kind=kind, run_length=1000)
        above += found is not None and found.least > truth
    assert tried > 500
    assert above <= 5


def test_copies_say_less_and_the_order_of_rows_says_nothing():
    rng = np.random.default_rng(0)
    values = np.column_stack([rng.normal(size=1000), np.arange(1000) >= 700])

    def least(now):
        return novelty({"y": 0.0}, 1000, ["x", "y"], now, kind="reverse_kl", run_length=1000).least

    assert least(values) == least(rng.permutation(values)) == asked(0.3).least
    assert least(np.repeat(values[::10], 10, axis=0)) < least(values)


def test_a_block_of_new_values_is_an_alarm_as_the_same_rows_shuffled_are():
    """900 of 5000 rows at the end: sorted, they are worth six effective rows, which hid them."""
    rng = np.random.default_rng(0)

    def window(new, shuffled):
        kinds = np.array(["a", "b", "c"])[np.where(np.arange(5000) >= 5000 - new, 2, rng.integers(0, 2, 5000))]
        order = rng.permutation(5000) if shuffled else np.arange(5000)
        return pa.table({"x": rng.normal(size=5000), "kind": kinds[order]})

    for shuffled in (False, True):
        with Monitor(window=5000) as monitor:
            records = list(monitor.watch(window(new, shuffled) for new in (0, 0, 900)))
        assert [r.signal for r in records] == [Signal.NORMAL, Signal.NORMAL, Signal.ALARM]
        assert Cause.NEW_VALUES in records[-1].causes


def _table(rng, rows, share, constant=0.0):
    changed = np.where(rng.random(rows) < share, rng.normal(size=rows), constant)
    return pa.table({"x": rng.normal(size=rows), "y": changed})


def test_new_values_are_an_alarm_and_rare_ones_are_not():
    rng = np.random.default_rng(0)
    with Monitor(window=500) as monitor:
        records = list(monitor.watch(_table(rng, 500, share) for share in (0.0, 0.0, 0.002, 0.002, 1.0, 1.0)))
    assert [r.signal == Signal.ALARM for r in records] == [False] * 4 + [True] * 2
    assert records[4].reason.startswith("y: 100\xa0% new values, at least ")
    with Monitor(window=500, warm_up=10) as monitor:
        records = list(monitor.watch(_table(rng, 500, share) for share in (0.0, 0.0, 1.0)))
    assert records[-1].signal == Signal.NORMAL
