"""Hold or doubt: bounds from below and from above that the benchmark on public tables measures estimates by."""

import math

import numpy as np
import pytest

pytest.importorskip("pyarrow")

from benchmarks import hold_or_doubt
from benchmarks.hold_or_doubt import Bound, Seen, donsker_varadhan
from benchmarks.results import Result
from driftline.inference import Doubt, DoubtCode, Estimate


def test_the_bound_is_the_truth_for_the_true_log_odds_and_below_it_for_others(rng):
    shift, n = 0.8, 40_000  # N(0, 1) and N(0.8, 1): 0.32 nats
    x, y = rng.normal(size=n), rng.normal(shift, 1.0, n)
    true = donsker_varadhan(shift * x - 0.5 * shift**2, shift * y - 0.5 * shift**2)
    assert true.value == pytest.approx(0.5 * shift**2, abs=4.0 * true.error)
    steep = donsker_varadhan(2.5 * shift * x, 2.5 * shift * y)
    assert steep.value < 0.5 * shift**2 - 3.0 * true.error
    constant = donsker_varadhan(x + 7.0 - x, y + 7.0 - y)
    assert constant.value == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("share", [0.25, 0.5])
def test_mixtures_are_furthest_if_what_is_mixed_in_is_new(share):
    """By sums over two cells: the original has the first, what is mixed in the second."""
    original, current = np.array([1.0, 1e-300]), np.array([1.0 - share, share])
    middle = 0.5 * (original + current)
    js = 0.5 * sum(float((p * np.log(p / middle)).sum()) for p in (original, current))
    assert hold_or_doubt._most_js(share) == pytest.approx(js)
    assert hold_or_doubt._most_kl(share) == pytest.approx(float((original * np.log(original / current)).sum()))


def test_an_open_interval_is_a_doubt_and_does_not_count_as_one_that_holds():
    def verdict(estimate):
        return hold_or_doubt._verdict(Seen("table", "at once", 0, estimate, Bound(1.0, 0.1)))

    assert verdict(Estimate(0.85, 0.05, 0.75, 0.95, 0.95)) == 1  # within the bound's own error
    assert verdict(Estimate(0.7, 0.05, 0.6, 0.8, 0.95)) == 0
    assert verdict(Estimate(0.7, 0.05, 0.6, math.inf, 0.95, lower_bound=True)) == 2
    doubt = Doubt(DoubtCode.WEAK_STEP, "this step could not be measured")
    assert verdict(Estimate(1.2, 0.05, 1.1, 1.3, 0.95, doubts=(doubt,))) == 2


def test_shares_are_taken_over_all_tables():
    def verdict(way, value, seed=0):
        return Result(f"table, {way}{hold_or_doubt._VERDICT}", seed, value, None)

    results = [verdict("at once", 1.0), verdict("at once", 2.0, 1), verdict("slowly", 0.0), verdict("break", 2.0)]
    results += [
        Result(f"table{end}", -1, n, None) for end, n in ((": lows of mixtures", 8.0), (hold_or_doubt._BEYOND, 2))
    ]
    found = {r.what: r.value for r in hold_or_doubt.summary(results)}
    assert found["hold or doubt, static, 2 estimates: share that holds"] == 0.5
    assert found["hold or doubt, static, 2 estimates: share that holds or doubts"] == 1.0
    assert found["hold or doubt, continual, 2 estimates: share that holds or doubts"] == 0.5
    assert found["hold or doubt, 8 lows of mixtures: share beyond the limit"] == 0.25
    assert list(hold_or_doubt.summary([])) == []
