"""Boosted trees as a feature: right where the truth is known, quiet on like samples, and without a value of a row."""

import numpy as np
import pytest

from driftline.fitting import Dense, Trees, fit_convex, fit_crossed, helps, logistic, loss_of, row_losses
from driftline.fitting._bins import fit_bins


def turned(n, seed, sign):
    """Draw two columns whose product's sign is likely ``sign``, and three that say nothing: trees need two levels."""
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((n, 5))
    wrong = (z[:, 0] * z[:, 1] * sign < 0) & (rng.random(n) < 0.6)
    z[wrong, 0] *= -1
    return z


def log_ratio(z):
    """Return the truth: products of the wanted sign have probability 0.8."""
    return np.log(4.0) * np.sign(z[:, 0] * z[:, 1])


@pytest.fixture(scope="module")
def crossed():
    return fit_crossed(turned(5000, 1, 1.0), turned(4000, 2, -1.0), seed=3)


def test_new_rows_get_the_true_log_ratio(crossed):
    z = turned(20_000, 4, -1.0)
    assert np.abs(crossed.trees(z)[:, 0] - log_ratio(z)).mean() < 0.25  # leaves are shrunk
    worth = -crossed.trees(z).mean() - np.log(np.exp(-crossed.trees(turned(20_000, 5, 1.0))).mean())
    truth = 0.6 * np.log(4.0)
    assert 0.95 * truth < worth < 1.03 * truth  # 1.03: three standard errors of 20,000 rows


def test_values_of_the_fitted_rows_are_as_good_as_on_new_rows(crossed):
    new = crossed.trees(turned(20_000, 4, -1.0))
    assert crossed.den.mean() == pytest.approx(new.mean(), abs=4 * crossed.den.std() / np.sqrt(4000))
    seen = crossed.trees(turned(4000, 2, -1.0))
    assert seen.mean() < crossed.den.mean()  # the mean of all boosters has seen these rows


def test_their_coefficient_in_a_convex_fit_is_about_one(crossed):
    designs = [Dense(np.stack([values, np.ones(len(values))], 1)) for values in (crossed.num, crossed.den)]
    fit = fit_convex(*designs, loss_of(logistic))
    assert fit.coef[0] == pytest.approx(1.0, abs=0.12)
    assert abs(fit.coef[1]) < 0.1  # windows of different sizes do not shift it


def test_trees_on_an_offset_add_what_it_lacks():
    num, den = turned(4000, 1, 1.0), turned(4000, 2, -1.0)
    told = fit_crossed(num, den, offset_num=log_ratio(num), offset_den=log_ratio(den))
    assert np.abs(told.den).mean() < 0.1
    wrong = fit_crossed(num, den, offset_num=2 * log_ratio(num), offset_den=2 * log_ratio(den))
    assert np.corrcoef(wrong.den, log_ratio(den))[0, 1] < -0.9


@pytest.mark.parametrize("seed", range(6))
def test_like_samples_are_left_alone(seed):
    num, den = turned(1500, 10 + seed, 1.0), turned(1500, 30 + seed, 1.0)
    quiet = fit_crossed(num, den, seed=seed)
    zero = np.zeros(1500)
    assert not helps(row_losses(zero, zero), row_losses(quiet.num, quiet.den), z=3.0)
    assert np.abs(quiet.den).mean() < 0.3


def test_losses_of_rows_have_the_mean_of_the_objective():
    rng = np.random.default_rng(0)
    num, den = rng.standard_normal(70), rng.standard_normal(30)
    wanted = np.logaddexp(0, -num).mean() + np.logaddexp(0, den).mean()
    assert 2 * row_losses(num, den).mean() == pytest.approx(wanted)


def test_no_value_of_a_row_is_kept():
    rng = np.random.default_rng(0)
    num, den = rng.lognormal(0.0, 1.0, (3000, 4)), rng.lognormal(0.3, 1.2, (3000, 4))
    num[:, 1], den[:, 1] = rng.poisson(40.0, 3000), rng.poisson(45.0, 3000)  # heaps
    num[:, 2], den[:, 2] = np.round(num[:, 2], 1), np.round(den[:, 2], 1)
    num[:, 3], den[:, 3] = rng.random(3000) < 0.2, rng.random(3000) < 0.3
    trees = fit_crossed(num, den).trees
    assert len(trees.start)
    rows = np.concatenate([num, den])
    for j, column in enumerate(rows.T):
        assert not np.isin(trees.threshold[trees.feature == j], column).any()
    for values in (trees.value, trees.gain):
        assert not np.isin(values[values != 0], rows).any()
    assert set(trees.threshold[(trees.feature == 3) & np.isfinite(trees.threshold)]) <= {0.5}  # the middle


def test_edges_are_rounded_and_lie_between_heaps():
    rng = np.random.default_rng(0)
    x = np.where(rng.random(6000) < 0.5, 3.0, rng.lognormal(1.0, 1.0, 6000))
    edges = fit_bins(x[:, None]).edge[:-1]
    assert len(edges) > 25
    below, above = edges[edges < 3.0].max(), edges[edges > 3.0].min()
    assert x[(x > below) & (x < above)].tolist() == [3.0] * int((x == 3.0).sum())
    away = edges[(edges < 2.9) | (edges > 3.1)]
    mantissa, _ = np.frexp(away)
    assert (mantissa * 2**16 % 1 == 0).all()  # 16 bits, where a value of a row has 53
    assert fit_bins(np.array([[0.0], [0.0], [4.0]])).edge.tolist() == [2.0, np.inf]


def test_leaves_have_rows_enough_and_values_are_bounded():
    rng = np.random.default_rng(0)
    num, den = rng.standard_normal((2000, 2)), rng.standard_normal((2000, 2)) + 6.0  # nearly apart
    crossed = fit_crossed(num, den)
    for values in (crossed.num, crossed.den, crossed.trees(num), crossed.trees(den + 50.0)):
        assert np.abs(values).max() <= 8.0
    asked = np.isfinite(crossed.trees.threshold)
    z = np.concatenate([num, den])
    for j, cut in zip(crossed.trees.feature[asked], crossed.trees.threshold[asked], strict=True):
        assert 20 <= (z[:, j] > cut).sum() <= 3980


def test_boosting_ends_where_a_value_of_one_window_alone_gains_a_bit_for_ever():
    """The other two have the log-ratio of their counts, and the third the largest that there is."""
    rng = np.random.default_rng(0)
    num, den = (rng.choice([0.0, 1.0, 2.0], (4000, 1), p=chances) for chances in ([0.5, 0.5, 0.0], [0.3, 0.6, 0.1]))
    crossed = fit_crossed(num, den)
    assert 20 < crossed.rounds < 80
    values = crossed.trees(np.array([[0.0], [1.0], [2.0]]))[:, 0]
    wanted = [np.log(np.mean(num == value) / np.mean(den == value)) for value in (0.0, 1.0)]
    np.testing.assert_allclose(values[:2], wanted, atol=0.01)
    assert values[2] < -5.0


def test_rows_with_the_same_answers_have_the_same_value(crossed):
    """Few questions are answered once for all rows with the same answers: as one by one."""
    rng = np.random.default_rng(0)
    num, den = (rng.choice([0.0, 1.0, 2.0], (900, 2), p=chances) for chances in ([0.5, 0.3, 0.2], [0.2, 0.3, 0.5]))
    few, z = fit_crossed(num, den).trees, rng.choice([0.0, 1.0, 2.0], (50, 2))
    assert len(few.start)
    for trees, rows in ((few, z), (crossed.trees, turned(50, 9, 1.0))):
        alone = np.concatenate([trees(row[None]) for row in rows])
        np.testing.assert_allclose(trees(rows), alone, rtol=1e-12)


def test_a_constant_table_has_no_trees():
    crossed = fit_crossed(np.zeros((50, 3)), np.zeros((60, 3)))
    assert crossed.rounds == 0
    assert crossed.trees(np.ones((7, 3))).tolist() == [[0.0]] * 7
    assert crossed.trees.describe(["a", "b", "c"]) == []


def test_the_same_seed_gives_the_same_trees_and_units_do_not_matter():
    num, den = turned(1000, 1, 1.0), turned(1000, 2, -1.0)
    first, again, scaled = fit_crossed(num, den), fit_crossed(num, den), fit_crossed(4.0 * num, 4.0 * den)
    for one, other in zip(first.trees, again.trees, strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(first.den, scaled.den)


def test_columns_are_listed_by_their_gain(crossed):
    lines = crossed.trees.describe(["x", "y", "a", "b", "c"])
    assert {line.split(":")[0] for line in lines[:2]} == {"x", "y"}
    assert sum(int(line.split(": ")[1].split(" %")[0]) for line in lines) == pytest.approx(100, abs=3)


def test_trees_are_plain_arrays(crossed, tmp_path):
    from safetensors.numpy import load_file, save_file

    save_file(crossed.trees._asdict(), tmp_path / "trees")
    z = turned(100, 9, 1.0)
    np.testing.assert_array_equal(Trees(**load_file(tmp_path / "trees"))(z), crossed.trees(z))
    assert crossed.trees(z).shape == (100, crossed.trees.size)
