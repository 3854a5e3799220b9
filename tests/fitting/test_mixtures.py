"""Summary densities: they are densities, EM climbs, K is what the data have, and no component is a row."""

import math

import numpy as np
import pytest

from driftline.fitting import (
    Covariance,
    Mixture,
    first_summary,
    fit_mixture,
    moved_density,
    refit_mixture,
    tangents_of,
)
from driftline.synthetic import MixtureStream


def standardised(x):
    spread = x.std(0)
    return (x - x.mean(0)) / np.where(spread == 0.0, 1.0, spread)


def clusters(rng, n=2000, dim=3, gap=5.0):
    x = rng.normal(size=(n, dim))
    x[rng.random(n) < 0.4] += gap
    return x


def correlated(rng, n, dim):
    return rng.normal(size=(n, dim)) @ rng.normal(size=(dim, dim))


def by_hand(mixture, z):
    """The density as the docstring has it, component by component, with dense matrices."""
    root = np.diag(np.sqrt(mixture.variance))
    inner = np.eye(len(mixture.variance)) + (mixture.axes.T * (mixture.stretch - 1.0)) @ mixture.axes
    inverse, (_, logdet) = np.linalg.inv(root @ inner @ root), np.linalg.slogdet(root @ inner @ root)
    on = z[:, mixture.binary] == mixture.levels[:, 1]
    parts = []
    for weight, mean, chances in zip(mixture.weights, mixture.means, mixture.chances, strict=True):
        away = z[:, mixture.gaussian] - mean
        value = math.log(weight) - 0.5 * np.einsum("ij,jk,ik->i", away, inverse, away)
        value -= 0.5 * (logdet + len(mean) * math.log(2.0 * math.pi))
        for g in set(mixture.group):
            members = mixture.group == g
            none = ~on[:, members].any(1)
            value += (on[:, members] * np.log(chances[members])).sum(1) + none * np.log1p(-chances[members].sum())
        parts.append(value)
    return np.array(parts)


def mixed_rows(rng, n=3000):
    kind = rng.random(n) < 0.4
    numbers = rng.normal(size=(n, 3)) @ np.array([[1.0, 0.7, 0.0], [0.0, 0.8, 0.0], [0.0, 0.0, 1.0]])
    numbers[kind] += 4.0
    category = np.where(kind, rng.choice(4, n, p=[0.1, 0.2, 0.3, 0.4]), rng.choice(4, n, p=[0.4, 0.3, 0.2, 0.1]))
    flag = rng.random(n) < np.where(kind, 0.2, 0.7)
    return standardised(np.concatenate([numbers, np.eye(4)[category][:, 1:], flag[:, None], np.ones((n, 1))], 1))


def test_log_density_is_the_mixture_by_hand():
    z = mixed_rows(np.random.default_rng(0))
    mixture = fit_mixture(z, seed=0)
    assert mixture.components >= 2
    assert len(mixture.stretch) > 0
    np.testing.assert_array_equal(mixture.columns, np.arange(7))  # all but the constant one
    parts = by_hand(mixture, z)
    total = np.logaddexp.reduce(parts)
    np.testing.assert_allclose(mixture.log_density(z), total, atol=1e-9)
    np.testing.assert_allclose(mixture.responsibilities(z), np.exp(parts - total).T, atol=1e-9)


def test_indicators_of_one_category_are_one_draw_and_others_are_not():
    mixture = fit_mixture(mixed_rows(np.random.default_rng(0)), seed=0)
    assert len(set(mixture.group[:3])) == 1
    assert mixture.group[3] != mixture.group[0]


def test_it_integrates_to_one():
    """On a line and a flag: the sum over a fine grid and both values."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=3000)
    x[rng.random(3000) < 0.3] += 5.0
    z = standardised(np.stack([x, rng.random(3000) < 0.3], 1))
    mixture = fit_mixture(z, seed=0)
    grid = np.linspace(-8.0, 8.0, 20_001)
    density = [np.exp(mixture.log_density(np.stack([grid, np.full(len(grid), v)], 1))) for v in np.unique(z[:, 1])]
    assert np.sum(density) * (grid[1] - grid[0]) == pytest.approx(1.0, abs=1e-9)


def test_far_values_stay_finite():
    mixture = fit_mixture(mixed_rows(np.random.default_rng(0)), seed=0)
    far = np.full((4, 8), [[1e6], [-1e6], [1e-300], [0.0]])
    assert np.isfinite(mixture.log_density(far)).all()
    np.testing.assert_allclose(mixture.responsibilities(far).sum(1), 1.0)


def test_it_predicts_new_rows_as_well_as_the_truth():
    """Excess loss on new rows is about parameters / (2 n) nats: five times that is far too much."""
    stream, rng = MixtureStream(5), np.random.default_rng(3)
    x, new = stream.sample(0, 20_000, rng), stream.sample(0, 20_000, rng)
    mean, scale = x.mean(0), x.std(0)
    mixture = fit_mixture((x - mean) / scale, seed=0)
    assert mixture.components == 2
    means, weights = stream._components(0.0)
    distance = ((new[:, None] - means) ** 2).sum(2)
    truth = np.logaddexp.reduce(np.log(weights) - 0.5 * distance - 2.5 * math.log(2.0 * math.pi), axis=1)
    loss = truth - (mixture.log_density((new - mean) / scale) - np.log(scale).sum())
    assert loss.mean() < 5.0 * mixture.parameters / (2.0 * len(x)) + 3.0 * loss.std() / math.sqrt(len(new))


@pytest.mark.parametrize("dim", [5, 64])
@pytest.mark.parametrize("n", [2000, 4000])
def test_two_components_are_found(dim, n, seed):
    x = MixtureStream(dim).sample(0, n, np.random.default_rng(seed))
    mixture = fit_mixture(standardised(x), seed=seed)
    assert mixture.components == 2
    error = math.sqrt(0.21 / n)  # of a share; overlap makes it less certain
    assert mixture.weights[1] == pytest.approx(0.3, abs=6.0 * error)


@pytest.mark.parametrize("n", [500, 2000])
@pytest.mark.parametrize("dim", [1, 5, 20])
@pytest.mark.parametrize("count", [4, pytest.param(12, marks=pytest.mark.slow)])
def test_gaussian_windows_have_one_component_and_no_scores(n, dim, count):
    """At most one miss in a hundred: none in 12 (a miss is a bug, or a chance of a tenth at that rate), nor in 4."""
    for seed in range(count):
        rng = np.random.default_rng(100 * dim + seed)
        x = correlated(rng, n, dim) if seed % 2 else rng.normal(size=(n, dim))
        summary = first_summary(standardised(x), seed=seed)
        assert summary.density.components == 1
        assert summary.scores is None


def test_an_elongated_gaussian_is_one_component():
    x = np.random.default_rng(0).normal(size=(4000, 6))
    x += 4.0 * x[:, :1]
    mixture = fit_mixture(standardised(x), seed=0)
    assert mixture.components == 1
    assert len(mixture.stretch) > 0
    assert not mixture.trivial


def test_independent_columns_are_trivial():
    mixture = fit_mixture(standardised(np.random.default_rng(0).normal(size=(4000, 6))), seed=0)
    assert mixture.trivial


def test_correlated_clusters_have_a_full_covariance():
    rng = np.random.default_rng(4)
    x = correlated(rng, 4000, 5)
    x[rng.random(4000) < 0.4] += 4.0 * rng.normal(size=5)
    mixture = fit_mixture(standardised(x), seed=0)
    assert mixture.components == 2
    assert len(mixture.stretch) == 5


def test_columns_that_others_determine_are_not_covered():
    x = np.random.default_rng(0).normal(size=(2000, 4))
    x[:, 2] = x[:, 0] - 2.0 * x[:, 1]
    mixture = fit_mixture(standardised(x), seed=0)
    assert mixture.components == 1
    assert len(mixture.gaussian) == 3


def test_the_covariance_is_what_it_says():
    rng = np.random.default_rng(5)
    axes = np.linalg.qr(rng.normal(size=(6, 6)))[0][:2]
    covariance = Covariance(rng.uniform(0.5, 2.0, 6), axes, np.array([3.0, 0.2]))
    root = np.diag(np.sqrt(covariance.variance))
    dense = root @ (np.eye(6) + (axes.T * (covariance.stretch - 1.0)) @ axes) @ root
    rows = rng.normal(size=(50, 6))
    np.testing.assert_allclose(covariance.solve(rows), rows @ np.linalg.inv(dense), atol=1e-10)
    np.testing.assert_allclose(covariance.forms(rows), (covariance.solve(rows) * rows).sum(1), atol=1e-10)
    assert covariance.log_determinant == pytest.approx(np.linalg.slogdet(dense)[1])
    scatter = rows.T @ rows / 50
    expected = -0.5 * (covariance.log_determinant + np.trace(np.linalg.solve(dense, scatter)))
    assert covariance.log_likelihood(scatter) == pytest.approx(expected)


def test_refits_climb():
    rng = np.random.default_rng(6)
    first = fit_mixture(standardised(clusters(rng)), seed=0)
    later = clusters(rng, gap=6.0) - 3.0
    values = [first.log_density(later).mean()]
    mixture = first
    for _ in range(3):
        mixture = refit_mixture(mixture, later)
        values.append(mixture.log_density(later).mean())
    assert values[1] > values[0]
    assert np.diff(values).min() > -1e-4  # a row; the tolerance is 2e-5


def test_refits_do_not_depend_on_units():
    """A window in other units has the same mixture in these units, if the start is moved along."""
    rng = np.random.default_rng(7)
    first = fit_mixture(standardised(clusters(rng, dim=4)), seed=0)
    window = standardised(clusters(rng, dim=4, gap=4.0))
    rate, shift = np.array([1e-3, 1.0, 50.0, 2.0]), np.array([0.0, 3.0, -1e3, 1.0])
    moved = first._replace(means=first.means * rate + shift, variance=first.variance * rate**2)
    a, b = refit_mixture(first, window), refit_mixture(moved, window * rate + shift)
    np.testing.assert_allclose(a.weights, b.weights, atol=1e-5)
    expected = a.log_density(window) - np.log(rate).sum()
    np.testing.assert_allclose(b.log_density(window * rate + shift), expected, atol=1e-3)


@pytest.mark.parametrize(("dim", "limit"), [(5, 0.15), (64, 0.35)])
def test_log_ratios_of_refits_follow_the_stream(dim, limit):
    """The error is noise of both windows: it does not grow with the drift."""
    stream, rng = MixtureStream(dim), np.random.default_rng(8)
    x = stream.sample(0, 4000, rng)
    mean, scale = x.mean(0), x.std(0)
    first = mixture = fit_mixture((x - mean) / scale, seed=0)
    for t in range(1, 13):
        mixture = refit_mixture(mixture, (stream.sample(t, 4000, rng) - mean) / scale)
        assert mixture.components == 2
        new = stream.sample(t, 2000, rng)
        z = (new - mean) / scale
        error = first.log_density(z) - mixture.log_density(z) - stream.log_ratio(new, t)
        assert np.abs(error - error.mean()).mean() < limit


@pytest.mark.parametrize("n", [60, 120, 240])
def test_no_component_is_a_row(n):
    """Means stand no nearer to a row than rows to each other, and no row makes up much of one."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        start = fit_mixture(standardised(clusters(rng, n=600, dim=4)), seed=seed)
        window = clusters(rng, n=n, dim=4)
        window[0] = 40.0  # alone, far away: a component would like to sit on it
        z = standardised(window)
        for mixture in (fit_mixture(z, seed=seed), refit_mixture(start, z)):
            apart = np.sqrt(((z[:, None] - z[None]) ** 2).sum(2) + np.diag(np.full(n, np.inf)))
            near = np.sqrt(((mixture.means[:, None] - z[None]) ** 2).sum(2)).min(1)
            assert near.min() > 0.2 * np.median(apart.min(1))
            share = mixture.responsibilities(z)
            assert (share.max(0) / np.maximum(share.sum(0), n / (2.0 * mixture.components))).max() < 0.07
            assert mixture.weights.min() > 0.9 * min(50.0 / n, 1.0 / (2.0 * mixture.components))


def test_clusters_of_a_larger_window_move_only_if_rows_of_both_differ():
    """A fit to ten times as many rows predicts better though nothing moves; if that is not known, most of these do."""

    def moved(by, known):
        found = []
        for seed in range(6):
            rng = np.random.default_rng([42_000, seed])
            then, now = (rng.normal(size=(n, 2)) + 4.0 * (rng.random((n, 1)) < 0.4) for n in (600, 6000))
            found.append(moved_density(fit_mixture(then, seed=seed), known, then, now + by) is not None)
        return sum(found)

    assert moved(0.0, 600) == 0  # three standard errors: 0.001 each
    assert moved(0.4, 600) == 6
    assert moved(0.0, 6000) >= 2


def test_a_component_whose_rows_are_gone_keeps_its_place():
    rng = np.random.default_rng(9)
    x = clusters(rng, n=4000)
    first = fit_mixture(x, seed=0)
    alone = x[first.responsibilities(x)[:, 0] > 0.5]
    later = refit_mixture(first, alone)
    np.testing.assert_allclose(later.means[1], first.means[1], atol=0.1)
    assert later.weights[1] == pytest.approx(50.0 / len(alone), rel=0.05)


def test_shares_are_never_certain():
    rng = np.random.default_rng(10)
    flags = rng.random((300, 3)) < [0.5, 0.2, 0.8]
    mixture = fit_mixture(standardised(flags.astype(float)), seed=0)
    quiet = np.full((100, 3), mixture.levels[:, 0])
    later = refit_mixture(mixture, quiet)
    assert (later.chances > 0.0).all()
    assert (later.chances < 1.0).all()
    assert np.isfinite(later.log_density(mixture.levels.T)).all()


def test_latent_classes_of_flags_are_found():
    rng = np.random.default_rng(11)
    kind = rng.random(3000) < 0.4
    flags = rng.random((3000, 8)) < np.where(kind[:, None], 0.8, 0.2)
    mixture = fit_mixture(standardised(flags.astype(float)), seed=0)
    assert mixture.components == 2
    assert mixture.weights[1] == pytest.approx(0.4, abs=5.0 * math.sqrt(0.24 / 3000))


def test_independent_flags_and_categories_have_one_component():
    rng = np.random.default_rng(12)
    for seed in range(5):
        flags = rng.random((2000, 5)) < [0.5, 0.3, 0.1, 0.02, 0.7]
        category = np.eye(5)[rng.choice(5, 2000)][:, 1:]
        z = standardised(np.concatenate([flags, category, rng.normal(size=(2000, 2))], 1))
        assert fit_mixture(z, seed=seed).components == 1


@pytest.mark.parametrize("rows", [0, 5])
def test_windows_with_next_to_no_rows_are_refused(rows):
    with pytest.raises(ValueError, match=f"at least 10 rows, got {rows}"):
        fit_mixture(np.zeros((rows, 3)), seed=0)


def test_constant_windows_have_a_density_of_nothing():
    mixture = fit_mixture(np.zeros((100, 3)), seed=0)
    assert mixture.components == 1
    assert (mixture.log_density(np.ones((4, 3))) == 0.0).all()


def test_columns_that_stop_moving_stay_finite():
    rng = np.random.default_rng(13)
    first = fit_mixture(standardised(clusters(rng)), seed=0)
    window = standardised(clusters(rng))
    window[:, 1] = 0.3
    assert np.isfinite(refit_mixture(first, window).log_density(window)).all()


def test_the_same_seed_gives_the_same_mixture():
    z = standardised(clusters(np.random.default_rng(14)))
    for a, b in zip(fit_mixture(z, seed=3), fit_mixture(z, seed=3), strict=True):
        np.testing.assert_array_equal(a, b)


def test_tangents_are_responsibilities_and_their_products_with_columns():
    z = mixed_rows(np.random.default_rng(0))
    mixture = fit_mixture(z, seed=0)
    tangents = tangents_of(mixture, z, 0.0)
    out, share = tangents(z), mixture.responsibilities(z)
    assert out.shape == (len(z), tangents.size)
    assert tangents.size == (mixture.components - 1) * 8
    np.testing.assert_allclose(out[:, 0], share[:, 1])
    np.testing.assert_allclose(out[:, 1:8], share[:, 1:2] * z[:, mixture.columns])


def test_errors_of_a_summary_lie_in_the_span_of_tangents():
    """To first order: moving weights, means and shares a little changes the log-density by a sum of features."""
    z = mixed_rows(np.random.default_rng(0))
    mixture = fit_mixture(z, seed=0)
    rng = np.random.default_rng(1)
    tiny = 1e-5
    weights = mixture.weights * np.exp(tiny * rng.normal(size=mixture.components))
    moved = mixture._replace(
        weights=weights / weights.sum(),
        means=mixture.means + tiny * rng.normal(size=mixture.means.shape),
        chances=mixture.chances * (1.0 - tiny * rng.random(mixture.chances.shape)),
    )
    change = (moved.log_density(z) - mixture.log_density(z)) / tiny
    design = np.concatenate([np.ones((len(z), 1)), z[:, mixture.columns], tangents_of(mixture, z, 0.0)(z)], 1)
    left = change - design @ np.linalg.lstsq(design, change, rcond=None)[0]
    assert np.abs(left).max() < 1e-2 * np.abs(change).max()


def test_one_component_has_no_tangents():
    z = standardised(np.random.default_rng(0).normal(size=(100, 2)))
    assert tangents_of(fit_mixture(z, seed=0), z, 0.0)(z).shape == (100, 0)


def test_a_mixture_is_arrays_only():
    mixture = fit_mixture(mixed_rows(np.random.default_rng(0)), seed=0)
    assert all(isinstance(part, np.ndarray) for part in mixture)
    assert Mixture(*mixture).log_density(np.zeros((1, 8))).shape == (1,)


def test_a_summary_is_decided_by_its_rows_and_seed():
    """So tests/conftest.py may keep it for other tests that begin with the same rows."""
    rng = np.random.default_rng(3)
    rows = np.concatenate([rng.normal(size=(700, 3)), rng.normal(4.0, 0.5, (500, 3))])
    before = rows.copy()
    first, again = (first_summary(rows, seed=0).density for _ in range(2))
    assert first.components == 2
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(rows, before)
