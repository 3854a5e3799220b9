"""The synthetic stream: true weights are a density ratio."""

import numpy as np
import pytest

from experiments.covariate_shift import experiment as shift
from experiments.covariate_shift.stream import moments


def test_true_weights_are_a_density_ratio_with_enough_rows():
    x, _ = shift.sample(10, 200_000, np.random.default_rng(1000))
    weights = shift.true_weights(x, 10)
    assert weights.mean() == pytest.approx(1.0, abs=0.02)
    assert weights.sum() ** 2 / (weights**2).sum() / len(x) > 0.05
    assert np.average(x[:, 0], weights=weights) == pytest.approx(moments(1)[0], abs=0.01)
