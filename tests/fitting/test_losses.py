"""Losses: closed-form derivatives are those of the objectives, and a user's pair of functions is checked and taken."""

import math
from dataclasses import dataclass

import numpy as np
import pytest

from driftline.fitting import (
    Dense,
    fit_convex,
    fit_lbfgs,
    kliep,
    logistic,
    loss_of,
    lsif,
    nwj,
    penalised,
    resolve_objective,
    softmax,
)

SEPARABLE = [logistic, nwj, lsif]
SIZES = [(9, 9), (12, 5), (4, 17)]
WIDTH = 1e-4  # central differences err by about its square, and by rounding divided by it


def points(seed, n, m):
    rng = np.random.default_rng(seed)
    return rng.normal(0.3, 0.8, n), rng.normal(-0.2, 0.8, m)


def differences(function, num, den):
    """Return central differences of a function of both samples, one row of them for each log-ratio moved."""
    both, out = np.concatenate([num, den]), []
    for step in WIDTH * np.eye(len(both)):
        upper, lower = (function(*np.split(both + sign * step, [len(num)])) for sign in (1.0, -1.0))
        out.append((np.asarray(upper) - np.asarray(lower)) / (2.0 * WIDTH))
    return np.stack(out)


def joined(parts):
    return np.concatenate(parts)


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("objective", [*SEPARABLE, kliep], ids=lambda o: o.__name__)
def test_first_derivatives(objective, sizes, seed):
    num, den = points(seed, *sizes)
    loss, *first = loss_of(objective).slopes(num, den)
    assert loss == pytest.approx(float(objective(num, den)), abs=1e-14)
    np.testing.assert_allclose(joined(first), differences(objective, num, den), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("objective", SEPARABLE, ids=lambda o: o.__name__)
def test_second_derivatives_are_diagonal_and_right(objective, sizes, seed):
    num, den = points(seed, *sizes)
    loss = loss_of(objective)
    rows = loss.rows(num, den)
    jacobian = differences(lambda a, b: joined(loss.slopes(a, b)[1:]), num, den)
    np.testing.assert_allclose(np.diag(joined([rows.second_num, rows.second_den])), jacobian, rtol=1e-6, atol=1e-9)
    for found, wanted in zip(rows[:3], loss.slopes(num, den), strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("objective", SEPARABLE, ids=lambda o: o.__name__)
def test_third_derivatives(objective, sizes, seed):
    num, den = points(seed, *sizes)
    loss = loss_of(objective)
    jacobian = differences(lambda a, b: joined(loss.rows(a, b)[3:]), num, den)
    np.testing.assert_allclose(joined(loss.third(num, den)), jacobian.diagonal(), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("objective", [logistic, kliep], ids=lambda o: o.__name__)
def test_penalised_derivatives(objective, seed):
    num, den = points(seed, 8, 11)
    rng = np.random.default_rng(seed)
    loss = penalised(loss_of(objective), 3.0, 0.5 * rng.normal(size=8), 0.5 * rng.normal(size=11))
    assert not loss.separable
    slopes = loss.slopes(num, den)
    wanted = differences(lambda a, b: loss.slopes(a, b)[0], num, den)
    np.testing.assert_allclose(joined(slopes[1:]), wanted, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("objective", [*SEPARABLE, kliep], ids=lambda o: o.__name__)
@pytest.mark.parametrize("sizes", [(1000, 313), (256, 512), (1, 3)], ids=str)
def test_sums_over_many_rows(objective, sizes, seed):
    """Logarithms are taken of products of many rows at a time: no row is left out, and none overflows."""
    num, den = points(seed, *sizes)
    assert loss_of(objective).slopes(num, den)[0] == pytest.approx(float(objective(num, den)), rel=1e-12, abs=1e-13)


def test_huge_log_ratios_have_finite_derivatives():
    num, den = np.array([900.0, -900.0, 0.0]), np.array([-900.0, 900.0])
    for found in (*loss_of(logistic).rows(num, den), *loss_of(logistic).third(num, den)):
        assert np.isfinite(found).all()
    for found in loss_of(kliep).slopes(num, den):
        assert np.isfinite(found).all()
    np.testing.assert_array_equal(loss_of(logistic).rows(num, den).second_num[:2], 0.0)


def logistic_value(num, den):
    shift = math.log(len(num) / len(den))
    total = np.logaddexp(0.0, -num - shift).sum() + np.logaddexp(0.0, den + shift).sum()
    return total / (len(num) + len(den))


def logistic_derivatives(num, den):
    shift, rows = math.log(len(num) / len(den)), len(num) + len(den)
    return -1.0 / (1.0 + np.exp(num + shift)) / rows, 1.0 / (1.0 + np.exp(-den - shift)) / rows


def kliep_derivatives(num, den):
    return np.full(len(num), -1.0 / len(num)), softmax(den)


OWN_LOGISTIC, OWN_KLIEP = (logistic_value, logistic_derivatives), (kliep, kliep_derivatives)


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_a_pair_has_the_derivatives_of_the_closed_form(sizes, seed):
    num, den = points(seed, *sizes)
    own, built_in = loss_of(resolve_objective(OWN_LOGISTIC)), loss_of(logistic)
    for found, wanted in zip(own.rows(num, den), built_in.rows(num, den), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-9)
    for found, wanted in zip(own.third(num, den), built_in.third(num, den), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-7)


def test_pairs_that_couple_the_rows_are_recognised():
    assert loss_of(OWN_LOGISTIC).separable
    assert not loss_of(OWN_KLIEP).separable
    # each sample is a sum over its rows, but the two are multiplied
    value = lambda num, den: -num.mean() + np.exp(den).mean() * (2.0 + np.tanh(num.mean()))  # noqa: E731
    slope = lambda num, den: (  # noqa: E731
        np.full(len(num), (-1.0 + np.exp(den).mean() / np.cosh(num.mean()) ** 2) / len(num)),
        np.exp(den) / len(den) * (2.0 + np.tanh(num.mean())),
    )
    assert not loss_of(resolve_objective((value, slope))).separable


def test_both_solvers_take_a_pair(seed):
    rng = np.random.default_rng(seed)
    designs = [Dense(np.column_stack([rng.normal(s, 1.0, (n, 2)), np.ones(n)])) for s, n in ((0.0, 900), (0.4, 700))]
    newton = fit_convex(*designs, loss_of(OWN_LOGISTIC), ridge=1.0, tol=1e-9)
    np.testing.assert_allclose(
        newton.coef, fit_convex(*designs, loss_of(logistic), ridge=1.0, tol=1e-9).coef, atol=1e-7
    )
    other = fit_lbfgs(*designs, loss_of(OWN_KLIEP), ridge=1.0)
    np.testing.assert_allclose(other.coef, fit_lbfgs(*designs, loss_of(kliep), ridge=1.0).coef, atol=1e-7)


def wrong_on(side, factor):
    def derivatives(num, den):
        first = list(logistic_derivatives(num, den))
        first[side] = factor * first[side]
        return tuple(first)

    return derivatives


REFUSED = {
    "numerator": ((logistic_value, wrong_on(0, -1.0)), "derivative on the numerator does not belong to its loss"),
    "denominator": ((logistic_value, wrong_on(1, 1.001)), "derivative on the denominator does not belong to its loss"),
    "of another": ((logistic_value, kliep_derivatives), "derivative on the numerator does not belong to its loss"),
    "nan": ((logistic_value, wrong_on(1, math.nan)), "derivative on the denominator does not belong to its loss"),
    "zero": ((logistic_value, wrong_on(1, 0.0)), "does not depend on the log-ratios of the denominator"),
    "one array": ((logistic_value, lambda a, b: a), "derivative must return two arrays, one for each sample"),
    "swapped": (
        (logistic_value, lambda a, b: logistic_derivatives(a, b)[::-1]),
        r"derivative on the numerator has shape \(5,\) for 6 log-ratios",
    ),
    "vector": ((lambda a, b: a, logistic_derivatives), r"must return a number, got shape \(6,\)"),
    "not finite": ((lambda a, b: math.inf, logistic_derivatives), "objective is inf for log-ratios near 0"),
    "three": ((logistic_value,) * 3, "must be a pair of functions"),
    "no function": ((logistic_value, 3.0), "must be a pair of functions"),
    "number": (3.0, "must be one of .* a function or a pair of them"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_wrong_pairs_are_refused(name):
    pair, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        resolve_objective(pair)


@pytest.mark.networks
def test_an_objective_need_not_be_hashable():
    """A dataclass with a parameter is not."""

    @dataclass
    class Scaled:
        by: float

        def __call__(self, num, den):
            return self.by * (den.exp().mean() - num.mean() - 1.0)

    objective = Scaled(2.0)
    assert resolve_objective(objective) is objective
    num, den = np.linspace(-0.2, 0.3, 6), np.linspace(-0.3, 0.2, 5)
    assert loss_of(objective).slopes(num, den)[0] == pytest.approx(2.0 * loss_of(nwj).slopes(num, den)[0])
