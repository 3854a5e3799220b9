"""Rows that repeat or depend on each other: counted for what they are worth, or the interval is withheld."""

import math

import numpy as np
import pytest

from driftline import ContinualDensityRatio, DensityRatio
from driftline.alarms import DriftAlarm, Signal
from driftline.fitting import logistic, loss_of
from driftline.inference import DoubtCode
from driftline.recursion import StepSettings, _log_linear, _rows, _steps
from driftline.recursion._competition import held_out
from driftline.recursion._problem import Problem, solve
from driftline.synthetic import GaussianStream

pytestmark = pytest.mark.filterwarnings("ignore::driftline.UntrustedEstimateWarning")


def traced(windows, model="quadratic", **settings):
    est = ContinualDensityRatio(model=model, random_state=0, **settings).fit(windows[0])
    for window in windows[1:]:
        est.partial_fit(window)
    return est


def blind(monkeypatch):
    """Let nobody see that rows repeat: the negative control."""
    for module in (_log_linear, _rows, _steps):
        monkeypatch.setattr(module, "find_repeats", lambda rows: None)


def ar1(rng, rows, rho, dim=5):
    return GaussianStream(dim=dim, rho=rho).sample(0, rows, rng)


def is_withheld(estimate):
    return math.isnan(estimate.std_error) and DoubtCode.DEPENDENT_ROWS in [d.code for d in estimate.doubts]


@pytest.mark.parametrize("kind", ["reverse_kl", "kl", "js"])
def test_copies_have_the_errors_of_distinct_rows(kind, seed, monkeypatch):
    rng = np.random.default_rng(seed)
    distinct = [rng.normal(0.05 * t, 1.0, (600, 3)) for t in range(4)]
    copies = [np.repeat(rows, 5, 0) for rows in distinct]
    shuffled = [rows[rng.permutation(len(rows))] for rows in copies]
    once, often, mixed = (traced(windows).divergence(kind) for windows in (distinct, copies, shuffled))
    assert often.std_error == pytest.approx(once.std_error, rel=0.03)
    assert often.value == pytest.approx(once.value, abs=0.1 * once.std_error)
    assert mixed.std_error == pytest.approx(often.std_error, rel=1e-3)
    assert mixed.value == pytest.approx(often.value, abs=1e-6)
    parts = traced(distinct).attribution(), traced(shuffled).attribution()
    for a, b in zip(*(sorted(part, key=lambda p: p.column) for part in parts), strict=True):
        assert b.contribution.std_error == pytest.approx(a.contribution.std_error, rel=0.05)
    blind(monkeypatch)
    assert traced(shuffled).divergence(kind).std_error < 0.7 * once.std_error


def test_copies_that_differ_in_number_are_worth_less():
    """Rows drawn again at random say no more than those that were drawn."""
    found = []
    for s in range(12):
        own = np.random.default_rng(s)
        rows = [own.normal(size=(400, 3)) for _ in range(2)]
        drawn = [window[own.integers(0, 400, 1600)] for window in rows]
        found.append([est.divergence().std_error for est in (traced(rows), traced(drawn))])
    once, often = np.median(found, 0)
    assert 0.9 * once < often < 1.6 * once


def like_samples(seed):
    rng = np.random.default_rng(seed)
    return [np.repeat(rng.normal(size=(300, 8)), 10, 0)[rng.permutation(3000)] for _ in range(2)]


@pytest.mark.parametrize("model", ["quadratic", "auto"])
def test_like_samples_of_copies_read_nothing(model, seed):
    est = traced(like_samples(seed), model)
    found = est.divergence()
    assert abs(found.value) < 4.0 * found.std_error < 0.5
    assert est.info_.originals["original"].effective_rows == pytest.approx(300.0)


# auto takes copies for clusters, and looks for seconds
@pytest.mark.parametrize("model", ["quadratic", pytest.param("auto", marks=pytest.mark.slow)])
def test_they_would_if_nobody_saw_that_rows_repeat(model, seed, monkeypatch):
    blind(monkeypatch)
    wrong = traced(like_samples(seed), model).divergence()
    assert wrong.value > 4.0 * wrong.std_error


def test_copies_in_wide_data_read_nothing(seed):
    rng = np.random.default_rng(seed)
    windows = [np.repeat(rng.normal(size=(300, 60)), 5, 0)[rng.permutation(1500)] for _ in range(2)]
    est = traced(windows)
    assert est._state.tracks["original"].current.wide is not None
    found = est.divergence()
    assert abs(found.value) < 4.0 * found.std_error < 4.0


def test_rows_that_do_not_repeat_are_as_they_were(rng, monkeypatch):
    windows = [rng.normal(0.2 * t, 1.0, (500, 3)) for t in range(3)]
    table = [np.column_stack([rng.integers(0, 3, (500, 2)), rng.poisson(9, 500)]).astype(float) for _ in range(3)]
    before = [traced(each, "auto").divergence() for each in (windows, table)]
    blind(monkeypatch)
    assert [traced(each, "auto").divergence() for each in (windows, table)] == before


def test_copies_are_held_out_together(rng):
    z = np.repeat(rng.normal(size=(80, 2)), 5, 0)[rng.permutation(400)]
    est = traced([z, z + 1.0])
    anchor = est._state.tracks["original"].current
    rows = _rows.own_rows(anchor, StepSettings())
    features, size = anchor.psi.features, anchor.psi.features.size
    problem = Problem(features, features, np.zeros(size), z, z + 1.0, None, None, True, True)
    loss = loss_of(logistic)
    solved = solve(problem._replace(rows_num=rows, rows_den=rows), loss, StepSettings())
    assert len(held_out(solved, loss, StepSettings())) == 160
    assert len(held_out(solve(problem, loss, StepSettings()), loss, StepSettings())) == 800


@pytest.mark.parametrize("model", ["auto", "quadratic"])
def test_too_few_effective_rows_withhold_the_interval(model, seed):
    rng = np.random.default_rng(seed)
    est = traced([ar1(rng, 300, 0.98) for _ in range(3)], model)
    about = est.info_.originals["original"]
    assert about.effective_rows < 30.0
    assert DoubtCode.DEPENDENT_ROWS in [doubt.code for doubt in about.doubts]
    for kind in ("reverse_kl", "kl", "js", "total_variation"):
        found = est.divergence(kind)
        assert is_withheld(found)
        assert (found.low, found.high) == (-math.inf, math.inf)
    assert is_withheld(est.step_divergence())
    assert np.isnan(est.log_ratio(rng.normal(size=(4, 5)), return_std=True)[1]).all()
    assert all(math.isnan(part.contribution.std_error) for part in est.attribution())


def test_sorted_rows_withhold_the_interval(rng):
    windows = [rng.normal(size=(2000, 5)) for _ in range(2)]
    in_order = [rows[rows[:, 0].argsort()] for rows in windows]
    found = traced(in_order, "auto").divergence()
    assert is_withheld(found)
    assert "rows look sorted" in str(found.doubts[0])
    assert math.isfinite(traced(windows, "auto").divergence().std_error)
    assert math.isfinite(traced(in_order, "auto", lag=0).divergence().std_error)  # the user knows better


def test_a_window_of_dependent_rows_is_stepped_over(rng, tmp_path):
    """A window in between is stepped over, so only its own reading is withheld; the original is in every reading."""
    good, bad = [rng.normal(size=(1000, 3)) for _ in range(4)], ar1(rng, 1000, 0.99, 3)
    est, seen = traced(good[:1]), []
    for window in (good[1], bad, good[2], good[3]):
        est.partial_fit(window)
        seen.append(is_withheld(est.divergence()))
        est.save(tmp_path / "state.safetensors")
        again = ContinualDensityRatio.load(tmp_path / "state.safetensors")
        assert str(again.divergence()) == str(est.divergence())
        assert again.divergence().doubts == est.divergence().doubts
    assert seen == [False, True, False, False]
    est = traced([bad, good[0], good[1], good[2]])
    assert is_withheld(est.divergence())
    assert "rows of the original" in str(est.divergence().doubts[0])


def test_moderate_dependence_keeps_its_interval():
    kept = []
    for s in range(20):
        rng = np.random.default_rng(s)
        found = DensityRatio(random_state=0).fit(ar1(rng, 2000, 0.9), ar1(rng, 2000, 0.9)).divergence()
        kept.append(math.isfinite(found.std_error))
    assert np.mean(kept) > 0.8


def test_an_alarm_neither_fires_nor_clears_on_a_withheld_interval(rng):
    alarm = DriftAlarm(run_length=100)
    est = traced([ar1(rng, 300, 0.98), ar1(rng, 300, 0.98)])
    assert alarm.update(est.divergence(), est.step_divergence()).signal == Signal.WARNING
    assert alarm.memory.signal == Signal.NORMAL
