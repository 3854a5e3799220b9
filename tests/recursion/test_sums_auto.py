"""keep="sums" with the model auto: its files are read again, and a jump of a correlation is held or doubted."""

import math
import warnings

import numpy as np
import polars as pl
import pytest

from driftline import ContinualDensityRatio, Monitor, UntrustedEstimateWarning
from driftline._wording import bounds, precise
from driftline.alarms import Signal
from driftline.inference import DoubtCode
from driftline.monitor import inspect
from driftline.recursion._kept import between
from driftline.terminal._lines import short

ROWS = 1000
TABLES = {
    "two clusters": lambda rng: rng.choice([-3.0, 3.0], ROWS)[:, None] + 0.5 * rng.normal(size=(ROWS, 3)),
    "lognormal": lambda rng: np.exp(rng.normal(size=(ROWS, 3))),
    "all constant": lambda rng: np.ones((ROWS, 3)),
    "one constant": lambda rng: np.stack([np.ones(ROWS), rng.normal(size=ROWS)], 1),
    "one column": lambda rng: rng.normal(size=(ROWS, 1)),
    "categories": lambda rng: np.eye(3)[rng.choice(3, ROWS, p=[0.5, 0.3, 0.2])],
    "zero-inflated": lambda rng: np.where(rng.random((ROWS, 3)) < 0.9, 0.0, rng.exponential(1.0, (ROWS, 3))),
}


def codes(estimate):
    return [doubt.code for doubt in estimate.doubts]


@pytest.mark.filterwarnings("ignore::driftline.UntrustedEstimateWarning")
@pytest.mark.parametrize("name", TABLES)
def test_files_of_auto_are_read_again_whatever_its_features(name):
    rng = np.random.default_rng(3)
    est = ContinualDensityRatio(keep="sums", random_state=0).fit(TABLES[name](rng))
    for _ in range(2):
        again = ContinualDensityRatio.from_bytes(est.to_bytes())
        window = TABLES[name](rng)
        est.partial_fit(window)
        again.partial_fit(window)
        assert again.to_bytes() == est.to_bytes()
    loaded = ContinualDensityRatio.from_bytes(est.to_bytes())
    assert repr(loaded.divergence()) == repr(est.divergence())


def test_a_monitor_of_clusters_is_read_again_and_proven(tmp_path):
    rng = np.random.default_rng(4)
    path = tmp_path / "run.driftline"
    with Monitor(path, window=ROWS, keep="sums") as monitor:
        tables = [pl.DataFrame(TABLES["two clusters"](rng), schema=["a", "b", "c"]) for _ in range(3)]
        first = list(monitor.watch(tables[:2]))
    with Monitor(path, window=ROWS, keep="sums") as monitor:
        later = list(monitor.watch(tables[2:]))
    assert first
    assert later
    proof = inspect(path).proof
    assert proof.problems == ()
    assert proof.sentence.startswith("no row at rest")


def correlated(rng, rho, rows=2000):
    return rng.multivariate_normal([0.0, 0.0], [[1.0, rho], [rho, 1.0]], rows)


def traced(seed, *rhos):
    rng, found = np.random.default_rng(seed), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UntrustedEstimateWarning)
        est = ContinualDensityRatio(keep="sums", random_state=0).fit(correlated(rng, 0.0))
        for rho in rhos:
            est.partial_fit(correlated(rng, rho))
            found.append((est.divergence(), est.step_divergence()))
    return est, found


@pytest.mark.parametrize("seed", [11, 12, 13])
@pytest.mark.parametrize("rho", [0.3, 0.5, 0.7, 0.8, 0.9])
def test_a_correlation_that_jumps_is_within_the_interval_or_doubted_now_and_later(rho, seed):
    truth, (_, found) = -0.5 * math.log1p(-rho * rho), traced(seed, rho, rho)
    for drift, _ in found:
        assert drift.low - drift.std_error <= truth <= drift.high + drift.std_error  # about three standard errors
        assert math.isfinite(drift.high) or DoubtCode.MODEL_MISSES in codes(drift)
        assert drift.floor <= truth
    step = found[0][1]
    assert step.high == math.inf
    assert step.low <= truth
    assert DoubtCode.MODEL_MISSES in codes(step)


# a third is silent, and 0.92 of the intervals hold it: each less three times its standard error; none of 12 is silent
# with chance 0.008
@pytest.mark.parametrize(("count", "few", "least"), [(12, 0, 9), pytest.param(60, 10, 49, marks=pytest.mark.slow)])
def test_a_step_allows_for_a_product_that_moved_and_did_not_stand_out(count, few, least):
    """A correlation of 0.2 in 1,000 rows stands out in two of three steps, and is allowed for in the others, too."""
    truth, silent, held = -0.5 * math.log1p(-0.04), 0, 0
    for seed in range(count):
        rng = np.random.default_rng(8000 + seed)
        est = ContinualDensityRatio(keep="sums", random_state=0).fit(correlated(rng, 0.0, 1000))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UntrustedEstimateWarning)
            step = est.partial_fit(correlated(rng, 0.2, 1000)).step_divergence()
        silent += not step.doubts
        held += step.low <= truth <= step.high
    assert silent > few
    assert held >= least


def test_two_windows_may_hide_opposite_moves():
    quiet, one, other = np.zeros(2), np.array([0.01, 0.004]), np.array([0.02, 0.003])
    assert between(quiet, one) == (0.01, 0.004)
    assert between(one, other) == pytest.approx((0.06, 0.01))


def test_a_refused_jump_says_at_least_what_counts_show():
    for seed in (17, 18, 19):
        _, found = traced(seed, 0.9)
        drift = found[0][0]
        assert drift.floor > max(drift.value, 0.0)
        assert drift.lower_bound
        assert str(drift).startswith(f"at least {drift.floor:.4g} (95% interval from {drift.floor:.4g}, ")
        assert float(precise(drift)) == pytest.approx(drift.floor, abs=1e-3)
        assert bounds(drift)[0] == precise(drift)
        assert short(drift) == f"≥ {precise(drift)}"


def test_a_jump_that_the_window_holds_joins_and_is_measured():
    est, found = traced(14, 0.3)
    assert "products" in est.info_.originals["original"].reason
    assert math.isfinite(found[0][0].high)
    assert found[0][0].low > 0.0


def test_what_did_not_join_leaves_nothing_behind_when_the_correlation_goes_back():
    est, found = traced(15, 0.8, 0.0)
    assert found[0][0].high == math.inf
    assert est.info_.originals["original"].reason == ""
    back = found[1][0]
    assert abs(back.value) < 4.0 * back.std_error


def test_a_record_of_a_jump_is_open_above_and_no_reason_for_calm():
    for rho in (0.35, 0.8):
        rng = np.random.default_rng(16)
        tables = [pl.DataFrame(correlated(rng, r, 4000), schema=["a", "b"]) for r in (0.0, 0.0, rho)]
        with Monitor(None, window=4000, keep="sums") as monitor:
            record = list(monitor.watch(tables))[-1]
        assert record.step.high == math.inf
        assert short(record.step).startswith("≥ ")
        assert record.signal != Signal.NORMAL
        drift_open = not math.isfinite(record.drift.high)
        assert drift_open == (rho == 0.8)
        assert ("step_open" in record.causes) != drift_open
