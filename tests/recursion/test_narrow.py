"""keep="sums" where a column becomes narrower: the fit reaches into its tails, and too quick a step is doubted."""

import math
import warnings

import numpy as np
import pytest

from driftline import ContinualDensityRatio, UntrustedEstimateWarning
from driftline.fitting import Dense, _sums, fit_sums, part_of, sums_of_window


def constants(factor, seeds, rows=20_000):
    """Return errors of the fitted constant of log N(0, 1)/N(0, 1/factor²), which later divergences are made of."""
    errors = []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        scales = np.array([[1.0], [factor]])
        columns = [np.stack([x, x * x, np.ones(rows)], 1) for x in rng.normal(size=(2, rows)) / scales]
        old, new = (Dense(each) for each in columns)
        fit = fit_sums(sums_of_window(old), lambda *at, new=new: part_of(new, *at), float(rows), np.zeros(3))
        errors.append(fit.coef[-1] + math.log(factor))
    return np.array(errors)


def test_the_weight_reaches_into_the_tail_of_a_column_that_became_narrower(monkeypatch):
    errors = constants(1.4, range(10))
    tolerance = 3.0 * errors.std(ddof=1) / math.sqrt(len(errors))
    assert abs(errors.mean()) < tolerance
    monkeypatch.setattr(_sums, "_LEAN", 0.0)
    assert constants(1.4, range(10)).mean() > tolerance  # what is read without it is too low


def stepped(first, second, model="quadratic"):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UntrustedEstimateWarning)
        return ContinualDensityRatio(model=model, keep="sums", random_state=0).fit(first).partial_fit(second)


def large(est):
    return [doubt for doubt in est.divergence().doubts if doubt.code in ("large_step", "little_overlap")]


def test_a_step_that_narrows_a_column_too_far_is_open_on_both_sides():
    rng = np.random.default_rng(4)
    est = stepped(rng.normal(size=(2000, 2)), rng.normal(size=(2000, 2)) / [1.7, 1.0])
    (doubt,) = large(est)
    assert doubt.code == "little_overlap"
    assert "is not measured: column 0 became narrower" in str(doubt)
    later = est.partial_fit(rng.normal(size=(2000, 2)) / [1.7, 1.0])
    for found in (est.divergence(), later.divergence()):
        assert found.low <= found.floor
        assert found.high == np.inf
        assert not found.lower_bound


def test_a_step_that_narrows_a_column_too_quickly_is_a_lower_bound_and_names_it():
    rng = np.random.default_rng(0)
    est = stepped(rng.normal(size=(2000, 2)), rng.normal(size=(2000, 2)) * [1.0, 1.0 / 1.33])
    (doubt,) = large(est)
    assert doubt.code == "large_step"
    assert "column 1 became narrower" in str(doubt)
    assert doubt.concerns == ("1",)
    assert est.divergence().lower_bound
    assert est.divergence().high == np.inf
    later = est.partial_fit(rng.normal(size=(2000, 2)) * [1.0, 1.0 / 1.33])
    assert large(later)
    assert later.divergence().high == np.inf


@pytest.mark.parametrize("factor", [1.15, 1.0, 1.0 / 1.6])
def test_columns_that_narrow_slowly_stay_or_grow_are_not_doubted(factor):
    rng = np.random.default_rng(1)
    assert not large(stepped(rng.normal(size=(2000, 2)), rng.normal(size=(2000, 2)) / [factor, 1.0]))


def test_a_direction_that_becomes_narrower_is_doubted_where_products_are_in_the_model():
    rng = np.random.default_rng(2)
    turn = np.array([[1.0, 1.0], [-1.0, 1.0]]) / math.sqrt(2.0)
    old, new = rng.normal(size=(2000, 2)), rng.normal(size=(2000, 2)) / [1.7, 1.0]
    assert large(stepped(old, new @ turn, "quadratic-full"))
    assert not large(stepped(old, rng.normal(size=(2000, 2)) @ turn, "quadratic-full"))


def test_far_rows_that_leave_are_no_narrower_column():
    rng = np.random.default_rng(3)
    old, new = rng.normal(size=(2, 2000, 2))
    old[:3, 0] *= 60.0
    assert old[:, 0].var() > 2.0 * new[:, 0].var()
    assert not large(stepped(old, new))
