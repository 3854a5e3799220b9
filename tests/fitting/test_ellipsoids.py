"""Densities with shapes and tails of their own: against other implementations, finite differences and known truths."""

import numpy as np
import pytest
from scipy.stats import multivariate_t

from driftline.fitting import (
    Ellipsoids,
    Mixture,
    affords_shapes,
    describe_columns,
    first_summary,
    fit_ellipsoids,
    moved_density,
    tangents_of,
)

NONE = np.zeros(0, dtype=np.int64)


def made(freedom=6.0, components=3, columns=4, seed=0):
    rng = np.random.default_rng(seed)
    mixing = rng.normal(size=(components, columns, columns)) / 2.0 + np.eye(columns)
    weights = np.arange(components, 0.0, -1.0)
    return Ellipsoids(
        np.arange(columns),
        NONE,
        NONE,
        np.zeros((0, 2)),
        weights / weights.sum(),
        2.5 * rng.normal(size=(components, columns)),
        np.zeros((components, 0)),
        np.linalg.inv(mixing),
        np.array(freedom),
    )


def drawn(density, rows, rng, *, moved=0.0):
    of = rng.choice(density.components, rows, p=density.weights)
    z = rng.normal(size=(rows, len(density.gaussian)))
    if np.isfinite(density.freedom):
        z /= np.sqrt(rng.chisquare(density.freedom, (rows, 1)) / density.freedom)
    # P P' = inverse of the shape, so a row is the centre plus z times the inverse of P
    return density.means[of] + moved + np.einsum("nj,njk->nk", z, np.linalg.inv(density.whiteners)[of])


@pytest.mark.parametrize("freedom", [4.0, np.inf])
def test_the_log_density_is_that_of_scipy(freedom):
    density = made(freedom)
    x = drawn(density, 50, np.random.default_rng(1))
    expected = np.zeros(50)
    for weight, mean, whitener in zip(density.weights, density.means, density.whiteners, strict=True):
        shape = np.linalg.inv(whitener @ whitener.T)
        df = 1e9 if np.isinf(freedom) else freedom
        expected += weight * multivariate_t(mean, shape, df=df).pdf(x)
    np.testing.assert_allclose(density.log_density(x), np.log(expected), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("freedom", [5.0, np.inf])
def test_small_changes_of_the_density_lie_in_the_span_of_its_tangents(freedom):
    density, rng = made(freedom), np.random.default_rng(2)
    x = drawn(density, 400, rng)
    products = np.stack([x[:, i] * x[:, j] for i in range(4) for j in range(i, 4)], 1)
    span = np.concatenate([np.ones((400, 1)), x, products, density.tangents(x)], 1)
    if np.isfinite(freedom):  # what is bounded needs no columns
        span = np.concatenate([np.ones((400, 1)), density.tangents(x)], 1)
    step = 1e-5
    changes = {
        "weights": density.weights + step * np.array([1.0, -0.4, -0.6]),
        "means": density.means + step * rng.normal(size=density.means.shape),
        "whiteners": density.whiteners + step * rng.normal(size=density.whiteners.shape),
    }
    for name, value in changes.items():
        change = (density._replace(**{name: value}).log_density(x) - density.log_density(x)) / step
        rest = change - span @ np.linalg.lstsq(span, change, rcond=None)[0]
        assert np.abs(rest).max() < 1e-3 * np.abs(change).max(), name


def test_tangents_have_a_share_of_columns_each():
    for freedom in (5.0, np.inf):
        density = made(freedom)
        kept = tangents_of(density, drawn(density, 4000, np.random.default_rng(0)), 0.0)
        assert kept.size == density.tangents(np.zeros((1, 4))).shape[1]
        np.testing.assert_allclose(kept.shares(6).sum(0), 1.0)
        assert not kept.shares(6)[4:].any()


@pytest.mark.parametrize("freedom", [5.0, np.inf])
def test_the_fit_finds_components_tails_and_shapes(freedom, seed):
    truth = made(freedom)
    z = drawn(truth, 6000, np.random.default_rng(seed))
    found = fit_ellipsoids(z, describe_columns(z), seed=seed)
    assert found.components == 3
    assert float(found.freedom) in ({4.0, 6.0} if freedom == 5.0 else {np.inf})
    fresh = drawn(truth, 20_000, np.random.default_rng([seed, 1]))
    lost = float((truth.log_density(fresh) - found.log_density(fresh)).mean())
    # a parameter costs half a row's share of the log-likelihood; the tails are from a grid
    assert 0.0 < lost < 2.0 * found.parameters / (2 * 6000) + 0.002


# each looks for clusters three times, which takes seconds: the others run with the slow tests
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_the_summary_takes_shapes_of_their_own_where_clusters_differ_and_none_where_they_are_alike(seed):
    rng = np.random.default_rng(seed)
    differ = first_summary(drawn(made(6.0), 5000, rng), seed=seed)
    assert isinstance(differ.density, Ellipsoids)
    assert differ.scores is None
    alike = rng.normal(size=(5000, 4)) + 4.0 * (rng.random((5000, 1)) < 0.4)
    assert isinstance(first_summary(alike, seed=seed).density, Mixture)
    assert isinstance(first_summary(rng.normal(size=(5000, 4)), seed=seed).density, Mixture)


def test_shapes_need_rows_and_columns_without_heaps():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(1000, 3))
    assert affords_shapes(z, describe_columns(z))
    assert not affords_shapes(z[:100], describe_columns(z))
    z[:50, 1] = 0.0
    assert not affords_shapes(z, describe_columns(z))


@pytest.mark.parametrize("columns", [2, 5])
def test_no_component_is_a_row_with_the_fewest_rows(columns):
    rng = np.random.default_rng(columns)
    n = 13 * columns * (columns + 3)  # as few as are accepted
    z = rng.normal(size=(n, columns)) ** 3
    z[:, 0] += 6.0 * (rng.random(n) < 0.4)
    found = fit_ellipsoids(z, describe_columns(z), seed=0)
    assert found is not None
    nearest = np.abs(found.means[:, None] - z).max(2).min()
    assert nearest > 1e-6
    assert float(found.spreads.min()) > 1e-3


# one in forty moves by chance: two of 4 in one run of 280, four of 10 in one of 14,000
@pytest.mark.parametrize(("count", "most"), [(4, 1), pytest.param(10, 3, marks=pytest.mark.slow)])
def test_clusters_stay_where_nothing_has_moved_and_move_with_the_rows(count, most):
    truth, left = made(6.0), 0
    for seed in range(count):
        rng = np.random.default_rng(seed)
        first = drawn(truth, 3000, rng)
        found = fit_ellipsoids(first, describe_columns(drawn(truth, 3000, rng)), seed=seed)
        left += moved_density(found, 3000, first, drawn(truth, 3000, rng)) is not None
        moved = moved_density(found, 3000, first, drawn(truth, 3000, rng, moved=0.5))
        assert moved is not None
        # by half a unit, the same for each component; the error of a mean of 500 rows of unit spread is 0.04
        assert np.abs((moved.means - found.means).mean(0) - 0.5).max() < 0.25
    assert left <= most
    assert moved_density(found, 3000, first, drawn(truth, 30, rng, moved=5.0)) is None  # too few rows to tell
