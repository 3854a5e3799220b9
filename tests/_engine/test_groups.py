"""Groups of rows: their factors are those of a covariance, whatever the rows have in common."""

import numpy as np
import pytest

from driftline._engine._groups import GROUPS, group_rows

KNOWN = 4.0 * np.sqrt(2.0 / GROUPS)  # four standard errors of a variance from so many groups


def grouped(x, seed=0):
    return group_rows(x, (x - x.mean(0)) / x.std(0), np.random.default_rng(seed))


def variance(x, seed=0):
    """Variance of the mean of each column by the factors."""
    groups = grouped(x, seed)
    return np.square(groups.placed(groups.sums(x / len(x)))).sum(1)


def autoregressive(n, rho, rng):
    noise = rng.normal(size=(n + 500, 2))
    for i in range(1, len(noise)):
        noise[i] = rho * noise[i - 1] + np.sqrt(1.0 - rho**2) * noise[i]
    return noise[500:]


@pytest.mark.parametrize("seed", range(3))
def test_factors_of_independent_rows_have_the_variance_of_a_mean(seed):
    x = np.random.default_rng(seed).exponential(size=(5_000, 3))
    assert np.abs(variance(x) * 5_000 - 1.0).max() < KNOWN + 0.1  # the rows' own variance scatters, too
    assert grouped(x).worth == 1.0


def test_both_roles_of_a_window_cancel():
    x = np.random.default_rng(0).normal(size=(900, 2))
    first, second = grouped(x, 5), grouped(x, 5)
    total = first.placed(first.sums(x)) - second.placed(second.sums(x))
    assert not total.any()
    other = grouped(x, 6)
    assert np.abs(first.placed(first.sums(x)) - other.placed(other.sums(x))).max() > 1.0


def test_copies_count_once():
    rng = np.random.default_rng(1)
    x = np.repeat(rng.normal(size=(600, 2)), 5, axis=0)[rng.permutation(3_000)]
    groups = grouped(x)
    assert len(groups.distinct) == 600
    assert 3.5 < groups.worth < 7.0
    assert np.abs(variance(x) * 600 - 1.0).max() < KNOWN + 0.2
    own = np.empty(3_000, dtype=int)
    own[groups.order] = np.searchsorted(groups.starts, np.arange(3_000), side="right")
    for row in x[:20]:
        assert len(set(own[(x == row).all(1)])) == 1


@pytest.mark.parametrize("seed", range(3))
def test_neighbours_that_depend_on_each_other_make_longer_groups(seed):
    x = autoregressive(6_000, 0.9, np.random.default_rng(seed))
    groups, time = grouped(x), (1.0 + 0.9) / (1.0 - 0.9)
    ratio = variance(x) * 6_000 / time
    assert np.abs(ratio - 1.0).max() < 4.0 * np.sqrt(2.0 / groups.number) + 0.2
    assert 0.4 * time < groups.worth < 2.5 * time


def test_few_rows_have_few_groups():
    x = np.random.default_rng(0).normal(size=(7, 2))
    assert grouped(x).number == 7
    assert group_rows(x[:1], np.zeros((1, 2)), np.random.default_rng(0)).number == 1


@pytest.mark.parametrize("rows", [150, 250, 850])
def test_groups_of_different_sizes_are_no_noise(rows):
    found = [variance(10.0 + np.random.default_rng([rows, s]).normal(size=(rows, 1)), s)[0] * rows for s in range(20)]
    assert abs(np.mean(found) - 1.0) < 4.0 * np.sqrt(2.0 / (20 * 75)) + 0.02


def test_constant_columns_do_not_count_as_dependence():
    x = np.random.default_rng(0).normal(size=(3_000, 2))
    z = np.concatenate([x, np.full((3_000, 1), 0.1), np.full((3_000, 1), -1.0 / 3.0)], 1)
    assert group_rows(x, z, np.random.default_rng(0)).worth == 1.0
