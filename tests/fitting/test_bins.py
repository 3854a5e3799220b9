"""Edges of columns: near shares of the rows, around heaps, between values, and never a value of a row."""

import numpy as np
import pytest

from driftline.fitting import column_edges

SHARES = np.array([0.01, 0.05, 0.15, 0.32, 0.5, 0.68, 0.85, 0.95, 0.99])


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e9])
@pytest.mark.parametrize("law", ["normal", "lognormal", "uniform"])
def test_edges_of_a_continuous_column_lie_near_the_shares(law, scale, rng):
    x = scale * (3.0 + getattr(rng, law)(size=4001))
    edges = column_edges(x, SHARES)
    assert len(edges) == len(SHARES)
    below = (x[:, None] <= edges).mean(0)
    np.testing.assert_allclose(below, SHARES, atol=0.06)
    assert (below[[0, -1]] > 0.002).all()
    assert not np.isin(edges, x).any()


def test_few_values_have_an_edge_between_any_two():
    x = np.repeat([0.0, 1.0, 4.0], [10, 80, 10])
    np.testing.assert_array_equal(column_edges(x, SHARES), [0.5, 2.5])
    assert column_edges(np.ones(50), SHARES).size == 0


def test_heaps_have_a_cell_of_their_own(rng):
    x = np.where(rng.random(4000) < 0.4, 0.0, rng.lognormal(size=4000))
    edges = column_edges(x, SHARES)
    assert len(edges) <= 2 * len(SHARES)
    assert edges[0] > 0.0
    assert (x <= edges[0]).sum() == (x == 0.0).sum()
    assert not np.isin(edges, x).any()


def test_counts_are_cut_between_them(rng):
    x = rng.poisson(6.0, 4000).astype(float)
    edges = column_edges(x, SHARES)
    assert 6 <= len(edges) <= 2 * len(SHARES)
    assert not np.isin(edges, x).any()
    assert len({tuple(x <= edge) for edge in edges}) == len(edges)  # no cell is empty
