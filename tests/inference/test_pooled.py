"""Error bars from sums: sums of three features, and the effects of second order against what rows give."""

import itertools

import numpy as np

from driftline.inference import curves_of, kink, terms_of
from driftline.inference._pooled import KINDS, _cube, triples


def test_products_of_three_are_kept_once_and_found_again():
    rng = np.random.default_rng(0)
    rows, weights = rng.normal(size=(50, 4)), rng.random(50)
    packed = triples(rows, weights)
    assert len(packed) == 4 * 5 * 6 // 6
    whole = np.einsum("i,ia,ib,ic->abc", weights, rows, rows, rows)
    np.testing.assert_allclose(_cube(packed, 4), whole, rtol=1e-12, atol=1e-12)
    for turn in itertools.permutations(range(3)):
        np.testing.assert_array_equal(_cube(packed, 4), _cube(packed, 4).transpose(turn))


def test_sums_of_ratios_without_bound_stay_finite():
    rows = np.ones((3, 1))
    found = terms_of(rows, np.array([690.0, 0.0, -690.0]), np.ones(3))
    assert all(np.isfinite(part).all() for part in found)
    assert np.abs(found.square).max() == 1e300
    bent = curves_of(rows, np.array([690.0, 0.0, -690.0]), np.ones(3), np.eye(1), np.eye(1), 1.0)
    assert all(np.isfinite(part).all() for part in bent)


def test_sums_of_parts_are_those_of_all_rows():
    rng = np.random.default_rng(1)
    rows, log_r, first = rng.normal(size=(60, 3)), rng.normal(size=60), rng.random(60)
    whole, parts = (
        terms_of(rows, log_r, first),
        [terms_of(rows[a], log_r[a], first[a]) for a in (slice(20), slice(20, 60))],
    )
    assert len(whole.total) == len(KINDS)
    for name in whole._fields:
        np.testing.assert_allclose(getattr(whole, name), sum(getattr(part, name) for part in parts), rtol=1e-10)


def test_errors_of_a_ratio_add_to_the_variation_what_quadrature_says():
    """At a log-ratio of 0 with a normal error the total variation gains E[(1 - e^x)_+]; far away, nothing."""
    x = np.linspace(-8.0, 8.0, 200001)
    density = np.exp(-0.5 * x * x) / np.sqrt(2.0 * np.pi)
    truth = float(np.trapezoid(density * np.maximum(1.0 - np.exp(0.1 * x), 0.0), x))
    assert abs(kink(np.zeros(4), np.full(4, 0.1)) / 4 - truth) < 0.1 * truth
    assert kink(np.array([5.0]), np.array([0.1])) == 0.0
