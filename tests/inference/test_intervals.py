"""Intervals: they cover draws of the law they invert, and are normal where there is no law."""

import math

import numpy as np
import pytest

from driftline import Estimate
from driftline.inference import interval, normal_interval


@pytest.mark.parametrize("truth", [0.0, 0.005, 0.05, 1.0])
def test_intervals_cover_draws_of_their_law(truth):
    """10 dimensions, noise 0.02: with variance estimated as it is in practice, slope times reading."""
    noise, dof = 0.02, 10.0
    scale = noise / dof
    rng = np.random.default_rng(1)
    readings = scale * (rng.noncentral_chisquare(dof, truth / scale, 2000) if truth else rng.chisquare(dof, 2000))
    found = [interval(r, 4 * scale * r, noise, 2 * scale**2 * dof, 0.5, 0.9) for r in readings]
    assert np.mean([e.value for e in found]) == pytest.approx(truth, abs=4 * readings.std() / 45)
    inside = np.mean([e.low <= truth <= e.high for e in found])
    # with no drift the interval can miss on one side only
    assert abs(inside - (0.95 if truth == 0.0 else 0.9)) < 4 * 0.0067
    assert all(e.low <= e.value <= e.high for e in found)


def test_without_a_law_the_interval_is_normal():
    for noise, variance in ((math.nan, 1.0), (0.0, 0.0), (-0.1, 0.2), (math.inf, 1.0)):
        estimate = interval(1.0, 0.04, noise, variance, 0.5, 0.95)
        assert estimate.low == pytest.approx(1 - 1.96 * 0.2, abs=1e-3)
        assert math.isnan(estimate.noise)


def test_estimate_and_its_words():
    estimate = normal_interval(2.0, 0.5, 0.95)
    assert isinstance(estimate, Estimate)
    assert float(estimate) == 2.0
    assert estimate.high - estimate.value == pytest.approx(1.96 * 0.5, abs=1e-3)
    assert "no interval" in str(normal_interval(2.0, math.nan, 0.95))
    for call in (normal_interval, lambda v, s, level: interval(v, s, 0.1, 0.01, 0.5, level)):
        with pytest.raises(ValueError, match=r"level=1.5 must lie between 0 and 1"):
            call(0.0, 1.0, 1.5)
