"""Intervals: they cover draws of the law they invert, and are normal where there is no law."""

import math
from dataclasses import replace

import numpy as np
import pytest

from driftline import Estimate
from driftline.inference import Forward, Quiet, Uncertainty, interval, normal_interval
from driftline.inference._forward import summed_along
from driftline.inference._variation import kinked


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


@pytest.mark.parametrize("noise", [0.004, math.nan])
@pytest.mark.parametrize(("mean", "reading"), [(0.05, 0.0), (0.01, 0.002), (-0.01, 0.03)])
@pytest.mark.parametrize("value", [-0.1, 0.0, 0.02])
def test_total_variation_has_a_width_and_stays_between_0_and_pinskers_bound(noise, mean, reading, value):
    """Rows whose ratios are all above 1 have no variation at all, though the constant is only off by its error."""
    smooth = replace(normal_interval(value, 0.05, 0.95), noise=noise, noise_std=0.002)
    found = kinked(mean, reading, 0.0, smooth, 0.95, 0.0)
    assert found.std_error > 0.0 or smooth.high <= 0.0 < noise
    assert 0.0 == found.low <= found.value <= found.high <= math.sqrt(0.5 * max(smooth.high, 1.96 * 0.05)) + 1e-4
    assert math.isnan(found.noise) == math.isnan(noise)  # then a doubt says so


def test_total_variation_far_away_has_the_normal_interval():
    found = kinked(
        -0.5, 0.4, 0.0004, replace(normal_interval(0.5, 0.05, 0.95), noise=0.004, noise_std=0.002), 0.95, 0.01
    )
    assert found.value == pytest.approx(0.39)
    assert found.std_error == pytest.approx(0.02)


@pytest.mark.parametrize(("value", "known"), [(-0.4, False), (-0.02, True), (0.3, True)])
def test_a_kl_that_lies_below_0_has_an_unknown_noise(value, known):
    """Its doubt follows from that: nothing that is known explains such an interval."""
    p = 2
    nothing = np.zeros((p, p))
    errors = Uncertainty(
        nothing,
        nothing,
        nothing,
        nothing,
        np.zeros(0),
        np.zeros(p),
        np.zeros(p),
        nothing,
        nothing,
        nothing,
        np.zeros(p - 1),
        np.ones(p - 1, dtype=bool),
        1.0,
        Quiet(),
    )
    found = summed_along(Forward(value, 0.01, 100.0), np.zeros(p), 0.95, errors, 0.001)
    assert math.isnan(found.noise) is not known
