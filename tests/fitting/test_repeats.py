"""Rows that are copies of each other: found where they are copies, not where tables repeat by nature."""

import numpy as np
import pytest

from driftline.fitting import LogLinearDesign, find_repeats, fit_crossed, fit_features


def test_copies_are_found_in_any_order(rng):
    distinct = rng.normal(size=(300, 4))
    rows = np.repeat(distinct, 5, 0)
    for order in (np.arange(1500), rng.permutation(1500)):
        found = find_repeats(rows[order])
        assert found.worth == 5.0
        assert (np.diff(found.first) > 0).all()
        np.testing.assert_array_equal(rows[order][found.first][found.place], rows[order])
        np.testing.assert_array_equal(found.counts, 5.0)
        values = rng.normal(size=1500)
        assert found.sums(values).sum() == pytest.approx(values.sum())


def test_tables_that_repeat_by_nature_are_left_alone(rng):
    assert find_repeats(rng.normal(size=(1000, 3))) is None
    assert find_repeats(rng.integers(0, 4, (1000, 3)).astype(float)) is None
    assert find_repeats(np.column_stack([rng.integers(0, 2, 1000), rng.poisson(20, 1000)]).astype(float)) is None
    assert find_repeats(np.round(rng.normal(size=(5000, 2)), 1)) is None  # coarse numbers
    assert find_repeats(np.repeat(rng.normal(size=(200, 1)), 5, 0)) is None  # a single column
    assert find_repeats(np.repeat(rng.normal(size=(20, 3)), 50, 0)) is None  # few rows, which may be categories
    few = rng.normal(size=(1000, 3))
    few[900:] = few[:100]
    assert find_repeats(few) is None  # a tenth of the rows twice


def test_a_heap_counts_as_different_rows(rng):
    rows = np.concatenate([np.repeat(rng.normal(size=(200, 3)), 3, 0), np.zeros((400, 3))])[rng.permutation(1000)]
    found = find_repeats(rows)
    assert len(found.first) == 600
    assert found.worth == pytest.approx((200 * 9 + 400) / 1000)
    alone = rng.normal(size=(1000, 3))
    alone[:300] = 0.0  # nothing else repeats
    assert find_repeats(alone) is None


def test_minus_zero_is_zero_and_integers_do_not_collide(rng):
    rows = np.repeat(np.column_stack([rng.normal(size=100), np.zeros(100)]), 2, 0)
    rows[::2, 1] *= -1.0
    assert find_repeats(rows).worth == 2.0
    grid = np.stack(np.meshgrid(np.arange(300.0), np.arange(40.0)), -1).reshape(-1, 2)
    fine = np.column_stack([grid, np.repeat(np.arange(6000.0), 2)])
    assert find_repeats(fine) is None  # all differ, though each column repeats


def test_picked_rows_of_a_design(rng):
    z = rng.normal(size=(200, 3))
    features = fit_features(z, pairs=np.array([[0, 1]]), weight=np.ones((3, 2)), bias=np.zeros(2))
    at = rng.permutation(200)[:50]
    for warm in (False, True):
        design = LogLinearDesign(features, z)
        if warm:
            _ = design.single
        part = design.pick(at)
        assert part.shape == (50, design.shape[1])
        np.testing.assert_allclose(part.take(0, 50, 1), features.design(z[at]))
        np.testing.assert_allclose(part.single, features.design(z[at]), atol=1e-5)


def test_trees_of_weighted_rows_are_those_of_copies_without_their_echo(rng, monkeypatch):
    """A row that weighs two counts as two; of copies on both sides of a fold, like samples look different."""
    num, den = rng.normal(size=(400, 3)), rng.normal(size=(400, 3))
    with monkeypatch.context() as patch:
        patch.setattr("driftline.fitting._boosting._ROUNDS", 40)  # an echo grows for ever, and is loud by then
        copied = fit_crossed(*(np.repeat(rows, 8, 0)[rng.permutation(3200)] for rows in (num, den)))
    weighted = fit_crossed(num, den, weight_num=np.full(400, 8.0), weight_den=np.full(400, 8.0))
    plain = fit_crossed(num, den)
    np.testing.assert_array_equal(weighted.num, plain.num)
    assert abs(weighted.den.mean()) < 0.1
    assert copied.den.mean() < -1.0
    heavy = np.where(num[:, 0] > 0.0, 4.0, 1.0)
    tilted = fit_crossed(num, den, weight_num=heavy).trees(np.array([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]]))[:, 0]
    assert tilted[0] > 0.05 > -0.2 > tilted[1]  # the truth is log 1.6 and log 0.4, held back
