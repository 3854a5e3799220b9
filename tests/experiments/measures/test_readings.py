"""Readings of two samples, where the truth is known."""

import numpy as np
import pytest

from experiments.measures.readings import held_out


def test_held_out_divergences_are_right_for_the_true_ratio():
    """N(0,1) over N(1,1): both KL are 1/2. Standard error of a mean of log-ratios (sd 1): 0.0032."""
    rng = np.random.default_rng(0)
    p, q = rng.normal(0, 1, 100_000), rng.normal(1, 1, 100_000)
    found = held_out(0.5 - p, 0.5 - q)
    assert found["kl"] == pytest.approx(0.5, abs=4 * 0.0032)
    assert found["reverse_kl"] == pytest.approx(0.5, abs=4 * 0.0032)
    grid = np.linspace(-8, 9, 20_001)
    densities = [np.exp(-0.5 * (grid - mean) ** 2) / np.sqrt(2 * np.pi) for mean in (0, 1)]
    middle = 0.5 * sum(densities)
    js = 0.5 * sum(np.trapezoid(d * np.log(d / middle), grid) for d in densities)
    assert found["js"] == pytest.approx(js, abs=4 * 0.001)
    assert held_out(p - 0.5, q - 0.5)["js"] < 0.0  # a wrong ratio makes it smaller
