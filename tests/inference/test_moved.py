"""Which columns moved: tests of counts in cells, as statistics."""

import math

import numpy as np
import pytest

from driftline.inference import Cells, PairTables, dependence_moved, holm, marginal, most_moved, moved, pair_parts

SPREAD = np.array([0.3, 0.2, 0.15, 0.1, 0.1, 0.08, 0.05, 0.017, 0.003])  # bins of a column, and a rare cell


def drawn(rng, n, p, m, q, ordered=8, alone=(8,)):
    then, now = rng.multinomial(n, p).astype(float), rng.multinomial(m, q).astype(float)
    return Cells(then, now, ordered, alone, (float(n), float(m)))


def tilted(p, size):
    q = p * np.exp(size * np.arange(len(p)))
    return q / q.sum()


@pytest.mark.parametrize(("n", "m"), [(300, 300), (2000, 500)])
def test_a_column_that_stands_still_is_rarely_named(rng, n, m):
    chances = np.array([moved(drawn(rng, n, SPREAD, m, SPREAD)) for _ in range(600)])
    for level in (0.05, 0.01):  # a bound, not an equality: several tests share the level
        assert (chances < level).mean() <= level + 3.0 * math.sqrt(level / 600)
    assert (chances < 0.2).mean() > 0.02  # it is not deaf


@pytest.mark.parametrize(
    "now",
    [tilted(SPREAD, 0.12), np.append(0.97 * SPREAD[:-1] / SPREAD[:-1].sum(), 0.03)],
    ids=["a shift along the order", "one rare cell"],
)
def test_a_column_that_moved_is_named(rng, now):
    chances = [moved(drawn(rng, 2000, SPREAD, 2000, now)) for _ in range(40)]
    assert np.mean(np.array(chances) < 1e-3) >= 0.9


def test_spread_counts_as_well_as_place(rng):
    flat = np.full(8, 0.125)
    wide = flat * np.array([1.4, 1.1, 0.8, 0.7, 0.7, 0.8, 1.1, 1.4])
    assert np.median([moved(drawn(rng, 1500, flat, 1500, wide, 8, ())) for _ in range(20)]) < 1e-4


def test_the_order_of_cells_without_an_order_does_not_matter(rng):
    cells = drawn(rng, 400, SPREAD, 400, tilted(SPREAD, 0.05), 0, ())
    at = rng.permutation(len(SPREAD))
    assert moved(cells._replace(then=cells.then[at], now=cells.now[at])) == pytest.approx(moved(cells))


def test_dependent_rows_count_for_what_they_are_worth(rng):
    cells = drawn(rng, 1000, SPREAD, 1000, tilted(SPREAD, 0.06))
    five_times = cells._replace(then=5.0 * cells.then, now=5.0 * cells.now)
    assert moved(five_times) == pytest.approx(moved(cells))
    assert moved(five_times._replace(rows=(5000.0, 5000.0))) < moved(cells)
    assert marginal(five_times, 0.95) == marginal(cells, 0.95)


@pytest.mark.parametrize(
    "cells",
    [
        Cells(np.zeros(3), np.zeros(3), 3, (), (0.0, 0.0)),
        Cells(np.array([9.0, 0.0]), np.array([7.0, 0.0]), 2, (1,), (9.0, 7.0)),
        Cells(np.array([9.0, 1.0]), np.zeros(2), 2, (), (10.0, 0.0)),
    ],
    ids=["nothing", "one cell", "no rows now"],
)
def test_nothing_to_compare_says_nothing(cells):
    assert moved(cells) == 1.0
    assert not math.isfinite(marginal(cells, 0.95).high)


@pytest.mark.parametrize("size", [0.0, 0.04, 0.2])
def test_a_columns_interval_holds_the_truth(rng, size):
    q = tilted(SPREAD, size)
    true = float(q @ np.log(q / SPREAD))
    found = [marginal(drawn(rng, 1000, SPREAD, 1000, q), 0.95) for _ in range(250)]
    inside = np.mean([e.low <= true <= e.high for e in found])
    assert 0.908 <= inside <= 1.0  # nominal 0.95, less three standard errors
    error = np.std([e.value for e in found]) / math.sqrt(250)
    assert abs(np.mean([e.value for e in found]) - true) < 4.0 * error + 0.02 * true


def test_a_cell_that_the_original_did_not_have_makes_a_lower_bound():
    cells = Cells(np.array([600.0, 400.0, 0.0]), np.array([550.0, 400.0, 50.0]), 0, (2,), (1000.0, 1000.0))
    assert marginal(cells, 0.95).lower_bound
    assert most_moved(cells) == 2
    assert not marginal(cells._replace(now=np.array([600.0, 399.0, 1.0])), 0.95).lower_bound


def test_holm_keeps_its_promise(rng):
    quiet = rng.random((4000, 12))
    false = np.mean([holm(p, 0.05).any() for p in quiet])
    assert false <= 0.05 + 3.0 * math.sqrt(0.05 / 4000)
    assert holm([1e-9, 0.5, 1e-8], 0.05).tolist() == [True, False, True]
    assert holm([], 0.05).tolist() == []


def pair(rng, n, rho, shift=0.0, groups=4):
    x = rng.standard_normal((n, 2))
    x[:, 1] = rho * x[:, 0] + math.sqrt(1.0 - rho * rho) * x[:, 1]
    codes = np.searchsorted([-0.67, 0.0, 0.67], x + shift)
    return np.bincount(groups * codes[:, 0] + codes[:, 1], minlength=groups**2).reshape(groups, groups).astype(float)


def tables(rng, n, rho, later, count, shift=0.0):
    then = np.array([pair(rng, n, rho) for _ in range(count)])
    now = np.array([pair(rng, n, later, shift) for _ in range(count)])
    return PairTables(then, now, (float(n), float(n)))


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
def test_pairs_that_depend_as_before_are_rarely_named(rng, rho):
    chances = dependence_moved(tables(rng, 800, rho, rho, 600))
    assert (chances < 0.05).mean() <= 0.05 + 3.0 * math.sqrt(0.05 / 600)


def test_pairs_whose_columns_move_alone_are_rarely_named(rng):
    """The odds ratios of a table hardly depend on its margins."""
    chances = dependence_moved(tables(rng, 800, 0.0, 0.0, 600, shift=0.4))
    assert (chances < 0.05).mean() <= 0.05 + 3.0 * math.sqrt(0.05 / 600)


def test_pairs_whose_relation_changes_are_named(rng):
    assert np.mean(dependence_moved(tables(rng, 2000, 0.3, 0.5, 60)) < 1e-4) >= 0.9


def test_empty_lines_of_a_table_are_left_out(rng):
    found = tables(rng, 800, 0.2, 0.2, 5)
    wider = [np.pad(counts, ((0, 0), (0, 1), (0, 2))) for counts in found[:2]]
    np.testing.assert_allclose(dependence_moved(PairTables(*wider, found.rows)), dependence_moved(found), rtol=1e-6)


def test_parts_of_a_pair_add_up(rng):
    found = tables(rng, 500, 0.3, 0.6, 8, shift=0.3)
    p, q = (counts + 0.5 for counts in found[:2])
    p, q = (x / x.sum((1, 2), keepdims=True) for x in (p, q))
    whole = (q * np.log(q / p)).sum((1, 2))
    columns, dependence = pair_parts(found)
    np.testing.assert_allclose(columns + dependence, whole, rtol=1e-5)
    assert (columns > 0.0).all()
    assert (dependence > 0.0).all()
