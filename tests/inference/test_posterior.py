"""Posterior means: noise is drawn to zero, signal is left alone, and the units of neither matter."""

import numpy as np
import pytest

from driftline.inference import posterior_means


def test_noise_is_drawn_to_zero_and_signal_is_left(rng):
    variances = rng.uniform(0.5, 2.0, 60)
    truth = np.where(np.arange(60) < 6, 12.0, 0.0)
    drawn = posterior_means(truth + np.sqrt(variances) * rng.normal(size=60), variances)
    assert np.abs(drawn[:6] - 12.0).max() < 4.0 * np.sqrt(2.0)  # within the noise of an estimate
    assert np.square(drawn[6:]).mean() < 0.2 * variances.mean()


@pytest.mark.parametrize("size", [0.0, 1.0, 3.0, 10.0])
@pytest.mark.parametrize("share", [0.1, 1.0])
def test_it_is_hardly_ever_worse_than_the_estimates(size, share):
    """Mean squared errors over 200 draws of 40 parameters; a tenth is left to the price of fitting the prior."""
    rng = np.random.default_rng(0)
    truth = size * (rng.random((200, 40)) < share) * rng.choice([-1.0, 1.0], (200, 40))
    seen = truth + rng.normal(size=truth.shape)
    drawn = np.array([posterior_means(row, np.ones(40)) for row in seen])
    assert np.square(drawn - truth).mean() < 1.1 * np.square(seen - truth).mean()


def test_units_do_not_matter(rng):
    values, variances = 2.0 * rng.normal(size=20), rng.uniform(0.5, 1.5, 20)
    scaled = posterior_means(1e-3 * values, 1e-6 * variances)
    np.testing.assert_allclose(scaled, 1e-3 * posterior_means(values, variances), rtol=1e-4, atol=1e-9)


def test_parameters_without_an_error_are_kept(rng):
    values = rng.normal(size=8)
    np.testing.assert_array_equal(posterior_means(values, np.zeros(8)), values)
    assert posterior_means(np.zeros(0), np.zeros(0)).shape == (0,)
