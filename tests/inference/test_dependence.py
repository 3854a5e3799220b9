"""Long-run covariances: right for autocorrelated rows, plain for independent ones."""

import numpy as np
import pytest

from driftline.fitting import Dense, LogLinearDesign, find_repeats, fit_features
from driftline.inference import Dependence, choose_lag, correlation_time, long_run_variance, swelling
from driftline.inference._dependence import long_run, positive
from driftline.synthetic import GaussianStream


def ar1(rng, n, dim, rho):
    return GaussianStream(dim=dim, rho=rho).sample(0, n, rng)


def test_independent_rows_have_no_lag():
    found = [choose_lag(ar1(np.random.default_rng(s), 2000, 5, 0.0)) for s in range(200)]
    assert np.mean(np.array(found) > 0) <= 0.02


def test_dependence_is_found_however_many_columns_are_independent(rng):
    rows = ar1(rng, 2000, 40, 0.0)
    rows[:, 3] = ar1(rng, 2000, 1, 0.6)[:, 0]
    assert 1 <= choose_lag(rows) <= 20
    assert choose_lag(ar1(rng, 2000, 5, 0.6)) >= 4
    volatile = ar1(rng, 4000, 1, 0.0) * np.exp(0.5 * ar1(rng, 4000, 1, 0.95))  # only the squares depend on each other
    assert choose_lag(volatile / volatile.std()) >= 5


def test_constant_short_and_extreme_rows(rng):
    assert choose_lag(np.zeros((1000, 3))) == 0
    assert choose_lag(rng.normal(size=(20, 2))) == 0
    assert choose_lag(np.full((1000, 1), 1e30)) == 0
    trend = np.linspace(-1.7, 1.7, 1000)[:, None]
    assert choose_lag(trend) == 50  # never dies out: the longest lag that leaves ten blocks


@pytest.mark.parametrize("rho", [0.3, 0.6, 0.8])
def test_variance_of_a_mean_of_ar1_rows(rho):
    """The truth is (1 + rho) / (1 - rho) / n. The mean of 60 estimates is known to a few percent."""
    n = 4000
    found = []
    for seed in range(60):
        rows = ar1(np.random.default_rng(seed), n, 3, rho)
        values = rows[:, 0] / n
        found.append(long_run_variance(values, choose_lag(rows)))
    truth = (1 + rho) / (1 - rho) / n
    error = np.std(found) / np.sqrt(len(found))
    assert abs(np.mean(found) - truth) < 4 * error + 0.05 * truth  # 5 %: the part that a finite lag may leave out
    assert long_run_variance(values, 0) < 0.7 * truth  # negative control: rows treated as independent


def test_blocks_and_grams_agree_on_every_design(rng):
    z = rng.normal(size=(1003, 3))
    features = fit_features(z, pairs=np.array([[0, 1]]), weight=np.ones((3, 2)), bias=np.zeros(2))
    fast, plain = LogLinearDesign(features, z), Dense(features.design(z))
    weights = rng.normal(size=1003)
    weighted = weights[:, None] * plain.matrix
    for size in (1, 7, 1003, 5000):
        expected = np.stack([weighted[i : i + size].sum(0) for i in range(0, 1003, size)])
        for design in (fast, plain):
            np.testing.assert_allclose(design.sums(weights, size), expected, atol=1e-4)
    form = rng.normal(size=(10, 10))
    np.testing.assert_allclose(fast.forms(form), plain.forms(form), atol=1e-3)
    for lag in (0, 5):
        a = long_run(fast, weights, fast, weights, lag)
        b = long_run(plain, weights, Dense(plain.matrix.copy()), weights, lag)
        np.testing.assert_allclose(a, b, rtol=0, atol=2e-3 * np.abs(a).max())


def test_long_run_is_the_flat_top_sum(rng):
    """Compare with the sum over lags written out, for a lag of whole blocks."""
    values, lag = rng.normal(size=400), 4
    values = values - values.mean()
    gamma = [float(values[k:] @ values[: 400 - k]) for k in range(2 * lag + 1)]
    weight = [1.0 if k <= lag else 2.0 - k / lag for k in range(2 * lag + 1)]
    expected = gamma[0] + 2 * sum(w * g for w, g in zip(weight[1:], gamma[1:], strict=True))
    assert long_run_variance(values, lag) == pytest.approx(expected)


def test_positive_cuts_off_negative_eigenvalues():
    np.testing.assert_array_equal(positive(np.diag([2.0, -1.0])), np.diag([2.0, 0.0]))


@pytest.mark.parametrize("rho", [0.3, 0.6, 0.9])
def test_correlation_time_of_ar1_rows(rho):
    """The truth is (1 + rho) / (1 - rho); the largest of three columns and their squares lies somewhat above."""
    truth, found = (1 + rho) / (1 - rho), []
    for seed in range(30):
        rows = ar1(np.random.default_rng(seed), 4000, 3, rho)
        lag = choose_lag(rows)
        assert 0 < lag < 200  # a twentieth of the rows, which noise does not reach
        time, endless = correlation_time(rows, None, lag)
        assert not endless
        found.append(time)
    assert 0.9 * truth < np.median(found) < 1.4 * truth


def test_sorted_rows_depend_without_end(rng):
    rows = rng.normal(size=(3000, 6))
    in_order = rows[rows[:, 2].argsort()]
    assert choose_lag(in_order) == 150
    time, endless = correlation_time(in_order, None, 150)
    assert endless
    assert 3000 / time < 30.0
    assert correlation_time(np.zeros((100, 2)), None, 5) == (1.0, False)


def test_what_rows_support():
    assert Dependence().supports(500, 100.0)
    assert not Dependence().supports(499, 100.0)  # whether they depend on each other or not
    assert Dependence(5, None, 4.0).effective(1000) == 250.0
    assert Dependence(5, None, 4.0).supports(1000, 50.0)
    assert not Dependence(5, None, 4.0).supports(1000, 51.0)
    assert not Dependence(5, None, 4.0, endless=True).supports(1000, 1.0)


def test_sums_swell_by_the_correlation_time_of_each_feature_and_by_the_number_of_copies():
    """AR(1) by 0.8: 9 for a column, 4.56 for its square; every row five times: 5; seeds 0 to 3."""
    columns, copies = [], []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        x = np.zeros(20_000)
        for i, e in enumerate(rng.normal(size=len(x))):
            x[i] = 0.8 * x[i - 1] + 0.6 * e if i else e
        rows = Dense(np.stack([x, x**2, rng.normal(size=len(x)), np.ones(len(x))], 1))
        columns.append(swelling(rows, Dependence(40)))
        single = np.append(rng.normal(size=(1000, 2)), np.ones((1000, 1)), 1)
        many = np.repeat(single, 5, axis=0)
        copies.append(swelling(Dense(many), Dependence(0, find_repeats(many))))
    found = np.mean(columns, 0)
    assert found[0] == pytest.approx(9.0, rel=0.15)
    assert found[1] == pytest.approx(4.56, rel=0.2)
    assert found[2] == pytest.approx(1.0, abs=0.25)
    np.testing.assert_allclose(np.mean(copies, 0), 5.0, rtol=1e-3)
    assert (swelling(rows, Dependence()) == 1.0).all()


@pytest.mark.parametrize("lag", [0, 6])
def test_that_a_row_has_more_copies_than_another_is_not_scatter(rng, lag):
    """Scores of one value have a sum that is given by the number of rows; others scatter about their mean over rows."""
    n = 240
    distinct = np.column_stack([rng.normal(size=(n, 2)), np.ones(n)])
    counts = rng.integers(1, 5, n).astype(float)
    share = counts / counts.sum()
    flat = long_run(Dense(distinct[:, 2:]), counts, Dense(distinct[:, 2:]), counts, lag, share)
    np.testing.assert_allclose(flat, 0.0, atol=1e-6)
    scores = counts * rng.random(n)
    found = long_run(Dense(distinct), scores, Dense(distinct), scores, lag, share)
    rows = scores[:, None] * distinct
    centred = Dense(rows - np.outer(share, rows.sum(0)))
    wanted = long_run(centred, np.ones(n), centred, np.ones(n), lag)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-4)
    even = np.full(n, 1.0 / n)
    alone = long_run(Dense(distinct), scores, Dense(distinct), scores, lag)
    np.testing.assert_allclose(long_run(Dense(distinct), scores, Dense(distinct), scores, lag, even), alone, rtol=1e-5)
