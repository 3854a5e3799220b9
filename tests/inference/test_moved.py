"""Which columns moved: tests of counts in cells, as statistics."""

import math

import numpy as np
import pytest
from scipy.stats import hypergeom

from driftline.inference import (
    CellKind,
    Cells,
    MoveTest,
    PairTables,
    account,
    dependence_moved,
    holm,
    marginal,
    most_moved,
    moved,
    pair_parts,
    rank_correlations,
)

SPREAD = np.array([0.3, 0.2, 0.15, 0.1, 0.1, 0.08, 0.05, 0.017, 0.003])  # bins of a column, and a rare cell
KINDS = np.array([CellKind.ORDERED] * 8 + [CellKind.ALONE], dtype=np.int8)


def cells_of(then, now, kinds=KINDS, rows=None):
    then, now = np.atleast_2d(np.asarray(then, float)), np.atleast_2d(np.asarray(now, float))
    kinds = np.broadcast_to(np.asarray(kinds, dtype=np.int8), then.shape)
    n, m = (then.sum(1), now.sum(1)) if rows is None else (np.full(len(then), float(r)) for r in rows)
    return Cells(then, now, kinds, n, m)


def drawn(rng, n, p, m, q, count=1, kinds=KINDS):
    return cells_of(rng.multinomial(n, p, count), rng.multinomial(m, q, count), kinds)


def tilted(p, size):
    q = p * np.exp(size * np.arange(len(p)))
    return q / q.sum()


@pytest.mark.parametrize(("n", "m"), [(300, 300), (2000, 500)])
def test_a_column_that_stands_still_is_rarely_named(rng, n, m):
    chances = moved(drawn(rng, n, SPREAD, m, SPREAD, 2000)).chance
    for level in (0.05, 0.01):  # a bound, not an equality: several tests share the level
        assert (chances < level).mean() <= level + 3.0 * math.sqrt(level / 2000)
    assert (chances < 0.2).mean() > 0.02  # it is not deaf


@pytest.mark.parametrize(
    "now",
    [tilted(SPREAD, 0.12), np.append(0.97 * SPREAD[:-1] / SPREAD[:-1].sum(), 0.03)],
    ids=["a shift along the order", "one rare cell"],
)
def test_a_column_that_moved_is_named(rng, now):
    assert (moved(drawn(rng, 2000, SPREAD, 2000, now, 40)).chance < 1e-3).mean() >= 0.9


def test_spread_counts_as_well_as_place(rng):
    flat, kinds = np.full(8, 0.125), np.full(8, CellKind.ORDERED)
    wide = flat * np.array([1.4, 1.1, 0.8, 0.7, 0.7, 0.8, 1.1, 1.4])
    found = moved(drawn(rng, 1500, flat, 1500, wide, 20, kinds))
    assert np.median(found.chance) < 1e-4
    assert (found.test == MoveTest.SPREAD).mean() > 0.5


def test_a_shift_beside_a_heap_is_seen(rng):
    """Nine rows of ten share one value: what the others do is lost in ranks of all."""
    rest = np.array([0.3, 0.25, 0.2, 0.15, 0.1])
    p, q = (np.concatenate([[0.9], 0.1 * shares]) for shares in (rest, rest[::-1]))
    kinds = [CellKind.HEAP, *[CellKind.ORDERED] * 5]
    found = moved(drawn(rng, 4000, p, 4000, q, 20, kinds))
    assert np.median(found.chance) < 1e-6
    assert (found.test == MoveTest.PLACE_BESIDE).mean() > 0.5


def test_the_order_of_cells_without_an_order_does_not_matter(rng):
    cells = drawn(rng, 400, SPREAD, 400, tilted(SPREAD, 0.05), kinds=np.ones(9))
    at = rng.permutation(len(SPREAD))
    again = moved(cells._replace(then=cells.then[:, at], now=cells.now[:, at]))
    np.testing.assert_allclose(again.chance, moved(cells).chance)


def test_padding_changes_nothing(rng):
    cells = drawn(rng, 400, SPREAD, 400, tilted(SPREAD, 0.05), 5)
    wider = (np.pad(part, ((0, 0), (0, 3))) for part in cells[:3])
    np.testing.assert_allclose(moved(Cells(*wider, *cells[3:])).chance, moved(cells).chance)


def test_two_cells_are_one_exact_test():
    chance = moved(cells_of([[1000.0, 0.0]], [[990.0, 10.0]], [CellKind.PLAIN, CellKind.ALONE])).chance[0]
    assert chance == pytest.approx(0.5**11 / 0.9)  # ten of ten rows now, half of the last one's chance; a rise


@pytest.mark.parametrize(("n", "m"), [(1000, 1000), (2000, 500), (500, 5000)])
@pytest.mark.parametrize("share", [0.1, 0.3, 0.5])
def test_two_large_cells_agree_with_fishers_test(n, m, share):
    before = round(share * n)
    for z in (1.0, 3.0, 5.0, 7.0):
        after = round(share * m + z * math.sqrt(share * (1.0 - share) * m * (1.0 + m / n)))
        chance = moved(cells_of([before, n - before], [after, m - after], [CellKind.PLAIN] * 2)).chance[0]
        law = hypergeom(n + m, before + after, m)
        fisher = 2.0 * (law.sf(after) + 0.5 * law.pmf(after))
        assert chance == pytest.approx(fisher, rel=0.15)


def test_two_cells_that_stand_still_are_named_as_often_as_promised(rng):
    for share in (0.05, 0.3, 0.5):
        p = [share, 1.0 - share]
        chances = moved(drawn(rng, 800, p, 1200, p, 4000, [CellKind.PLAIN] * 2)).chance
        for level in (0.1, 0.01):
            off = 3.0 * math.sqrt(level / 4000)
            assert level - off - 0.2 * level <= (chances < level).mean() <= level + off


def test_dependent_rows_count_for_what_they_are_worth(rng):
    cells = drawn(rng, 1000, SPREAD, 1000, tilted(SPREAD, 0.06))
    five_times = cells._replace(then=5.0 * cells.then, now=5.0 * cells.now)
    np.testing.assert_allclose(moved(five_times).chance, moved(cells).chance)
    rows = np.array([5000.0])
    assert moved(five_times._replace(rows_then=rows, rows_now=rows)).chance < moved(cells).chance
    assert marginal(five_times, 0, 0.95) == marginal(cells, 0, 0.95)


@pytest.mark.parametrize(
    "cells",
    [
        cells_of(np.zeros(3), np.zeros(3), np.ones(3)),
        cells_of([9.0, 0.0], [7.0, 0.0], [CellKind.ORDERED, CellKind.ALONE]),
        cells_of([9.0, 1.0], np.zeros(2), np.ones(2)),
    ],
    ids=["nothing", "one cell", "no rows now"],
)
def test_nothing_to_compare_says_nothing(cells):
    assert moved(cells).chance == 1.0
    assert not math.isfinite(marginal(cells, 0, 0.95).high)


@pytest.mark.parametrize("size", [0.0, 0.04, 0.2])
def test_a_columns_interval_holds_the_truth(rng, size):
    q = tilted(SPREAD, size)
    true = float(q @ np.log(q / SPREAD))
    cells = drawn(rng, 1000, SPREAD, 1000, q, 250)
    found = [marginal(cells, k, 0.95) for k in range(250)]
    inside = np.mean([e.low <= true <= e.high for e in found])
    assert 0.908 <= inside <= 1.0  # nominal 0.95, less three standard errors
    error = np.std([e.value for e in found]) / math.sqrt(250)
    assert abs(np.mean([e.value for e in found]) - true) < 4.0 * error + 0.02 * true


def test_a_cell_that_the_original_did_not_have_makes_a_lower_bound():
    cells = cells_of([600.0, 400.0, 0.0], [550.0, 400.0, 50.0], [1, 1, CellKind.ALONE])
    assert marginal(cells, 0, 0.95).lower_bound
    assert most_moved(cells, 0) == 2
    assert not marginal(cells._replace(now=np.array([[600.0, 399.0, 1.0]])), 0, 0.95).lower_bound


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
    return PairTables(then, now, np.ones(count, dtype=bool), (float(n), float(n)))


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
def test_pairs_that_depend_as_before_are_rarely_named(rng, rho):
    chances = dependence_moved(tables(rng, 800, rho, rho, 600))
    assert (chances < 0.05).mean() <= 0.05 + 3.0 * math.sqrt(0.05 / 600)


def test_pairs_whose_columns_move_alone_are_rarely_named(rng):
    """The odds ratios of a table hardly depend on its margins."""
    chances = dependence_moved(tables(rng, 800, 0.0, 0.0, 600, shift=0.4))
    assert (chances < 0.05).mean() <= 0.05 + 3.0 * math.sqrt(0.05 / 600)


def test_pairs_whose_relation_changes_are_named(rng):
    found = tables(rng, 2000, 0.3, 0.5, 60)
    chances = dependence_moved(found)
    assert np.mean(chances < 1e-4) >= 0.9
    screened = dependence_moved(found, 1e-4)  # pairs that cannot speak at this level are not looked at
    np.testing.assert_array_equal(screened < 1e-4, chances < 1e-4)
    assert (rank_correlations(found.now) > rank_correlations(found.then)).mean() > 0.95


def test_pairs_that_move_together_are_rarely_named(rng):
    """A shift of both columns of a correlated pair tilts its table, and does not change how they go together."""
    chances = dependence_moved(tables(rng, 800, 0.6, 0.6, 600, shift=0.3))
    assert (chances < 0.05).mean() <= 0.05 + 3.0 * math.sqrt(0.05 / 600)


def test_empty_lines_of_a_table_are_left_out(rng):
    found = tables(rng, 800, 0.2, 0.2, 5)
    wider = [np.pad(counts, ((0, 0), (0, 1), (0, 2))) for counts in found[:2]]
    np.testing.assert_allclose(
        dependence_moved(PairTables(*wider, found.ordered, found.rows)), dependence_moved(found), rtol=1e-6
    )


def test_parts_of_a_pair_add_up(rng):
    found = tables(rng, 500, 0.3, 0.6, 8, shift=0.3)
    p, q = (counts + 0.5 for counts in found[:2])
    p, q = (x / x.sum((1, 2), keepdims=True) for x in (p, q))
    whole = (q * np.log(q / p)).sum((1, 2))
    columns, dependence = pair_parts(found)
    np.testing.assert_allclose(columns + dependence, whole, rtol=1e-5)
    assert (columns > 0.0).all()
    assert (dependence > 0.0).all()


def test_an_account_counts_what_two_columns_tell_once(rng):
    x = rng.choice(4, 20_000, p=[0.4, 0.3, 0.2, 0.1]), rng.choice(4, 20_000, p=[0.1, 0.2, 0.3, 0.4])
    then, now = (np.diag(np.bincount(each, minlength=4).astype(float)) for each in x)  # both columns are the same
    pairs = PairTables(then[None], now[None], np.ones(1, dtype=bool), (20_000.0, 20_000.0))
    p, q = np.array([0.4, 0.3, 0.2, 0.1]), np.array([0.1, 0.2, 0.3, 0.4])
    own = float(q @ np.log(q / p))
    at, first = np.array([[0, 1]]), np.zeros(1, dtype=bool)
    assert account(np.array([own, own]), at, pairs, first) == pytest.approx(own, rel=0.05)
    assert account(np.array([own, own]), at, pairs, first, without=1) == pytest.approx(own)
