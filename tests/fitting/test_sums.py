"""The fit against sums: closed forms, the optimum at the true ratio, how near it comes to logistic regression."""

import math

import numpy as np
import pytest

from driftline.fitting import (
    Dense,
    fit_convex,
    fit_sums,
    linear_scores,
    logistic,
    loss_of,
    part_of,
    sums_of_window,
    weigh,
)
from driftline.fitting._sums import _losses, spread_of


def with_one(*columns):
    return Dense(np.stack([*columns, np.ones(len(columns[0]))], 1))


def fitted(num, den, ridge=0.0):
    size = num.shape[1]
    return fit_sums(sums_of_window(num), lambda *at: part_of(den, *at), float(den.shape[0]), np.full(size, ridge))


def quadratic(x):
    return with_one(x, x * x)


@pytest.mark.parametrize("c", [3.0, 4.7])
def test_scores_are_the_derivatives_of_the_loss(c):
    u = np.concatenate([np.linspace(-5.0, c - 1.01, 40), np.linspace(c - 0.99, c + 6.0, 40)])
    step = 1e-5
    scores = linear_scores(u, c)
    up, down = linear_scores(u + step, c), linear_scores(u - step, c)
    np.testing.assert_allclose((_losses(u + step, c) - _losses(u - step, c)) / (2 * step), scores.first, rtol=1e-7)
    np.testing.assert_allclose((up.first - down.first) / (2 * step), scores.second, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose((up.second - down.second) / (2 * step), scores.third, rtol=1e-7, atol=1e-9)


def test_the_true_ratio_is_the_optimum_of_the_expected_loss():
    """By quadrature, without sampling: N(0, 1) over N(0.4, 1.1^2), where next to no mass lies beyond c - 1."""
    x = np.linspace(-9.0, 9.0, 20001)
    wide = 1.1
    p = np.exp(-0.5 * x**2)
    q = np.exp(-0.5 * ((x - 0.4) / wide) ** 2)
    p, q = p / p.sum(), q / q.sum()
    rows = np.stack([x, x * x, np.ones_like(x)], 1)
    truth = np.linalg.lstsq(rows * np.sqrt(p)[:, None], np.log(p / q) * np.sqrt(p), rcond=None)[0]
    for c in (3.0, 5.0):
        u = rows @ truth
        mean, gram = p @ rows, (rows * p[:, None]).T @ rows
        scores = linear_scores(u, c)
        gap = (q * scores.first) @ rows - (c * mean - gram @ truth) / (2 * c)
        beyond = float(q[u > c - 1].sum())
        assert beyond < 1e-6
        assert np.abs(gap).max() < 1e-5


def test_nothing_moves_nothing_is_found_and_the_curvature_is_the_logistic_one():
    x = np.random.default_rng(3).normal(size=3000)
    fit = fitted(quadratic(x), quadratic(x))
    assert np.abs(fit.coef).max() < 1e-8
    assert fit.c == 3.0
    logit = fit_convex(quadratic(x), quadratic(x), loss_of(logistic))
    np.testing.assert_allclose(fit.hessian, logit.hessian, rtol=1e-5, atol=1e-5)
    assert weigh(100.0, 300.0) == pytest.approx(2 * 0.25 * 0.75)


def test_it_does_not_depend_on_the_units_of_features():
    rng = np.random.default_rng(4)
    x, y = rng.normal(0, 1, (2, 2000, 2)) + np.array([[[0.0, 0.0]], [[0.3, -0.2]]])
    turn = np.array([[2.0, 0.5], [-30.0, 1.0]])
    one = fitted(with_one(*x.T), with_one(*y.T))
    other = fitted(with_one(*(x @ turn).T), with_one(*(y @ turn).T))
    np.testing.assert_allclose(turn @ other.coef[:2], one.coef[:2], rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(other.coef[2], one.coef[2], atol=1e-8)


def test_sums_of_parts_are_those_of_all_rows():
    rng = np.random.default_rng(5)
    x = rng.normal(size=5000)
    whole, coef = quadratic(x), np.array([0.3, -0.1, 0.05])
    cuts = [slice(0, 17), slice(17, 3100), slice(3100, 5000)]
    sums, part = None, None
    for cut in cuts:
        mine, answer = sums_of_window(quadratic(x[cut])), part_of(quadratic(x[cut]), coef, 3.2)
        sums, part = (mine, answer) if sums is None else (sums.joined(mine), part.joined(answer))
    for found, wanted in ((sums, sums_of_window(whole)), (part, part_of(whole, coef, 3.2))):
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


def test_four_unequal_sites_fit_what_all_rows_in_one_place_do():
    """Windows lie in four places, of which each answers with sums alone."""
    rng = np.random.default_rng(8)
    x, y = rng.normal(0, 1, 3000), rng.normal(0.4, 1.2, 2500)
    nums = np.split(x, [30, 700, 1100])
    dens = [quadratic(part) for part in np.split(y, [1300, 1350, 2400])]
    first, *others = (sums_of_window(quadratic(part)) for part in nums)
    for other in others:
        first = first.joined(other)

    def ask(coef, c):
        found, *rest = (part_of(den, coef, c) for den in dens)
        for part in rest:
            found = found.joined(part)
        return found

    merged = fit_sums(first, ask, 2500.0, np.ones(3))
    pooled = fitted(quadratic(x), quadratic(y), ridge=1.0)
    np.testing.assert_allclose(merged.coef, pooled.coef, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(merged.hessian, pooled.hessian, rtol=1e-8, atol=1e-8)
    assert merged.c == pytest.approx(pooled.c, rel=1e-8)


@pytest.mark.parametrize("shift", [0.05, 0.3, 0.8])
def test_it_is_nearly_as_exact_as_logistic_regression(shift):
    """Mean squared error of the slope over seeds 0 to 119, means moved by ``shift``; the truth is -shift."""
    errors = []
    for seed in range(120):
        rng = np.random.default_rng(seed)
        num, den = with_one(rng.normal(0, 1, 1000)), with_one(rng.normal(shift, 1, 1000))
        both = fitted(num, den).coef[0], fit_convex(num, den, loss_of(logistic)).coef[0]
        errors.append([value + shift for value in both])
    size = np.sqrt(np.square(errors).mean(0))
    # a ratio of two correlated root mean squares of 120 draws is known to a few percent
    assert size[0] < 1.1 * size[1]
    bias = np.mean(errors, 0)[0]
    assert abs(bias) < 4 * np.std(errors, 0)[0] / math.sqrt(120)


def test_c_grows_with_the_step_and_few_rows_lie_beyond():
    rng = np.random.default_rng(6)
    num, den = with_one(rng.normal(0, 1, 4000)), with_one(rng.normal(1.5, 1, 4000))
    fit = fitted(num, den)
    assert fit.c > 3.5
    assert 0.0 < fit.beyond < 0.05
    assert fit.info.converged
    middle, spread = spread_of(sums_of_window(num), fit.coef)
    assert (fit.middle, fit.spread) == (middle, spread)
    assert spread == pytest.approx(1.5, rel=0.1)


def test_a_window_far_away_still_has_an_optimum():
    """The loss is linear beyond c - 1: without that, such a fit runs away."""
    rng = np.random.default_rng(7)
    num, den = quadratic(rng.normal(0, 1, 500)), quadratic(rng.normal(6, 0.5, 500))
    fit = fitted(num, den, ridge=1.0)
    assert np.isfinite(fit.coef).all()
    assert fit.info.converged
