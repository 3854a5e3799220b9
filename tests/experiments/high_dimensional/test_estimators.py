"""Estimators in many dimensions: bounds are reached by the truth, and overfitting shows."""

import numpy as np
import pytest

from experiments.high_dimensional.estimators import BOUNDS, HELD_OUT, PLUG_IN, Recipe, held_out, read
from experiments.high_dimensional.samples import gaussian_pair, gaussian_truth


def quiet(text):
    pass


@pytest.mark.parametrize("measure", BOUNDS)
def test_true_log_ratios_reach_the_bounds(measure):
    """Over 40,000 rows, in the one direction that counts; five standard errors, from twenty parts of the rows."""
    distance = 0.5 * 20**0.5
    rng = np.random.default_rng(1000)
    p, q = (0.5 * distance**2 - distance * (rng.standard_normal(40000) + mean) for mean in (0.0, distance))
    parts = [BOUNDS[measure](a, b) for a, b in zip(np.split(p, 20), np.split(q, 20), strict=True)]
    error = np.std(parts, ddof=1) / 20**0.5
    truth = gaussian_truth(measure, 0.5)
    assert BOUNDS[measure](p, q) == pytest.approx(truth, abs=5 * error)
    assert 5 * error < 0.12 * truth
    value, factor = held_out(measure, p, q)
    assert value == pytest.approx(truth, abs=5 * error)
    assert factor > 0.9


@pytest.mark.parametrize("measure", BOUNDS)
def test_noise_reads_nothing_on_new_rows(measure):
    """An overfitted ratio of like samples: its scatter is not a divergence, and is shrunk away."""
    noise = np.random.default_rng(1000).normal(0, 2, (2, 10000))
    assert BOUNDS[measure](*noise) < -0.1
    value, factor = held_out(measure, *noise)
    assert abs(value) < 1e-3
    assert factor < 0.05


def test_a_fit_with_many_parameters_reads_nothing_on_like_samples():
    """Its ratio is held back by as much as rows advise: the plain mean of a free fit would be parameters over rows."""
    pair = gaussian_pair(750, 2000, 1000, 0.0, 1000)
    rows = list(read(Recipe(1, 1e-3), "auto", pair, 1000, quiet))
    found = {(row["measure"], row["way"]): row["value"] for row in rows}
    assert abs(found["reverse_kl", PLUG_IN]) < 0.1 * 1501 / 2000
    assert abs(found["reverse_kl", HELD_OUT]) < 0.02
