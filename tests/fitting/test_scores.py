"""Normal scores: increasing, invertible, no row among their knots, and only where a shape asks for them."""

import numpy as np
import pytest

from driftline.fitting import far_from_normal, first_summary, fit_mixture, fit_scores

SHAPES = {
    "lognormal": lambda rng, n: np.exp(2.0 * rng.normal(size=n)),
    "pareto": lambda rng, n: rng.pareto(1.5, size=n),
    "uniform": lambda rng, n: rng.random(n),
    "t3": lambda rng, n: rng.standard_t(3, size=n),
    "zeros": lambda rng, n: np.where(rng.random(n) < 0.3, 0.0, np.exp(rng.normal(size=n))),
    "counts": lambda rng, n: rng.poisson(4.0, size=n).astype(float),
    "ends": lambda rng, n: np.clip(rng.normal(size=n), -1.0, 1.0),
}
CONTINUOUS = ["lognormal", "pareto", "uniform", "t3"]


def standardised(x):
    return (x - x.mean(0)) / x.std(0)


def column(shape, n=4000, seed=0):
    return standardised(SHAPES[shape](np.random.default_rng(seed), n)[:, None])


def scores_of(z):
    scores = fit_scores(z, np.arange(z.shape[1]))
    assert scores is not None
    return scores


@pytest.mark.parametrize("n", [60, 500, 20_000])
@pytest.mark.parametrize("shape", SHAPES)
def test_maps_increase_strictly_and_at_most_by_33_knots(shape, n):
    scores = scores_of(column(shape, n))
    assert scores.knots.shape == scores.values.shape == (1, 33)
    assert (np.diff(scores.knots) > 0.0).all()
    assert (np.diff(scores.values) > 0.0).all()
    assert (scores.slopes > 0.0).all()
    grid = np.sort(np.concatenate([np.linspace(-50.0, 50.0, 5001), scores.knots[0]]))[:, None]
    y = scores(grid)[:, 0]
    assert np.isfinite(y).all()
    assert (np.diff(y)[np.diff(grid[:, 0]) > 1e-9] > 0.0).all()
    assert np.isfinite(scores(np.array([[1e12], [-1e12]]))).all()


@pytest.mark.parametrize("shape", CONTINUOUS)
def test_scores_of_new_rows_are_nearly_normal(shape):
    from scipy.stats import kstest

    z = column(shape, 20_000)
    y = scores_of(z)(z)[:, 0]
    # 33 straight pieces and the noise of 20,000 ranks; without a map these shapes have distances of 0.06 and more
    assert kstest(y, "norm").statistic < 0.015
    assert kstest(standardised(z)[:, 0], "norm").statistic > 0.05
    assert y.mean() == pytest.approx(0.0, abs=0.03)
    assert y.std() == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize("shape", ["counts", "zeros", "ends"])
def test_heaps_go_to_the_score_of_their_middle_rank(shape):
    from scipy.special import ndtri

    z = column(shape)
    scores = scores_of(z)
    values, counts = np.unique(z, return_counts=True)
    heap = int(np.argmax(counts))
    expected = ndtri((counts[:heap].sum() + 0.5 * counts[heap]) / len(z))
    assert scores(values[heap : heap + 1, None])[0, 0] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("n", [60, 300, 5000])
@pytest.mark.parametrize("shape", SHAPES)
def test_no_knot_is_a_row_unless_many_rows_share_it(shape, n):
    z = column(shape, n)
    knots = scores_of(z).knots[0]
    fitted = knots[knots <= z.max()]
    for value in fitted:
        same = (z == value).sum()
        assert same == 0 or same > 8


@pytest.mark.parametrize("shape", CONTINUOUS)
def test_one_row_moves_a_knot_by_little(shape):
    """A knot is a mean of four rows or more: moving a row moves it by a quarter of that, at most."""
    z = np.sort(column(shape, 300), axis=0)
    before = scores_of(z).knots[0]
    for at in (0, 7, 150, 299):
        gap = 0.4 * min(np.diff(z[:, 0])[max(at - 1, 0) : at + 1])
        moved = z.copy()
        moved[at] += gap
        shift = np.abs(scores_of(moved).knots[0] - before)
        assert shift[before <= z.max()].max() <= 0.25 * gap + 1e-12


def test_slopes_are_those_of_the_map():
    z = column("lognormal")
    scores = scores_of(z)
    rows = np.concatenate([z[:200], [[z.max() + 3.0]], [[z.min() - 3.0]]])
    step = 1e-9 * (1.0 + np.abs(rows))
    slope = (scores(rows + step) - scores(rows - step)) / (2.0 * step)
    away = np.abs(rows - scores.knots).min(1) > 1e-6
    np.testing.assert_allclose(np.exp(scores.log_slopes(rows))[away], slope[away, 0], rtol=1e-3)


def test_other_columns_stay():
    rng = np.random.default_rng(0)
    z = standardised(np.stack([rng.normal(size=1000), np.exp(rng.normal(size=1000))], 1))
    scores = fit_scores(z, np.array([1]))
    np.testing.assert_array_equal(scores(z)[:, 0], z[:, 0])
    assert fit_scores(z, np.array([], dtype=np.int64)) is None


@pytest.mark.parametrize("n", [500, 5000, 50_000])
def test_normal_columns_are_left(n):
    rng = np.random.default_rng(n)
    z = standardised(rng.normal(size=(n, 20)))
    assert len(far_from_normal(z, fit_mixture(z, seed=0))) == 0


def test_a_harmless_deviation_does_not_matter_however_many_rows():
    rng = np.random.default_rng(0)
    x = rng.standard_t(40, size=(50_000, 5))
    summary = first_summary(standardised(x), seed=0)
    assert summary.scores is None
    assert not summary.density.clustered


@pytest.mark.parametrize("shape", ["lognormal", "pareto", "uniform", "t3", "zeros"])
def test_far_shapes_are_mapped_and_are_one_component(shape, seed):
    z = np.concatenate([column(shape, seed=seed), column(shape, seed=seed + 10)], 1)
    z = np.concatenate([z, np.random.default_rng(seed + 20).normal(size=(len(z), 1))], 1)
    summary = first_summary(z, seed=seed)
    assert summary.scores is not None
    np.testing.assert_array_equal(summary.scores.columns, [0, 1])
    assert summary.density.components == 1


def test_bimodal_columns_that_a_mixture_explains_are_not_mapped():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(3000, 3)) + 4.0 * (rng.random((3000, 1)) < 0.4)
    summary = first_summary(standardised(x), seed=0)
    assert summary.scores is None
    assert summary.density.components == 2


def test_clusters_are_found_beside_columns_that_are_mapped():
    rng = np.random.default_rng(2)
    kind = rng.random((4000, 1)) < 0.4
    x = np.concatenate([rng.normal(size=(4000, 3)) + 3.5 * kind, np.exp(1.5 * rng.normal(size=(4000, 2)))], 1)
    summary = first_summary(standardised(x), seed=0)
    np.testing.assert_array_equal(summary.scores.columns, [3, 4])
    assert summary.density.components == 2
    assert summary.density.weights[1] == pytest.approx(0.4, abs=5.0 * np.sqrt(0.24 / 4000))


def test_two_and_three_valued_columns_are_never_mapped():
    rng = np.random.default_rng(3)
    x = np.stack([rng.random(2000) < 0.1, rng.choice(3, 2000, p=[0.8, 0.1, 0.1]), rng.normal(size=2000)], 1)
    assert first_summary(standardised(x.astype(float)), seed=0).scores is None


def test_a_shift_is_the_same_log_ratio_with_and_without_maps():
    """Lognormal columns whose logarithm moves: the maps make the truth, which is linear in the logarithm, reachable."""
    rng = np.random.default_rng(4)
    logs = rng.normal(size=(20_000, 2))
    x, later = np.exp(1.5 * logs), np.exp(1.5 * (rng.normal(size=(20_000, 2)) + 0.5))
    mean, scale = x.mean(0), x.std(0)
    summary = first_summary((x - mean) / scale, seed=0)
    moved = summary.refit((later - mean) / scale)
    z = (later[:5000] - mean) / scale
    truth = (0.125 - 0.5 * np.log(later[:5000]) / 1.5).sum(1)  # log N(y; 0, 1)/N(y; 0.5, 1), two columns
    error = summary.log_density(z) - moved.log_density(z) - truth
    assert np.abs(error - error.mean()).mean() < 0.08


@pytest.mark.slow
def test_a_column_that_others_determine_has_no_density_in_any_coordinates():
    """Shares of a whole: with a curve in place of one of them, the plane they lie in is bent, but still a plane."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        z = standardised(rng.dirichlet([4.0, 3.0, 5.0, 2.5, 6.0], 3000))
        assert len(first_summary(z, seed=seed).density.gaussian) == 4
    z[:, 4] += rng.normal(size=3000)  # the negative control: nothing determines it now
    assert len(first_summary(z, seed=0).density.gaussian) == 5
