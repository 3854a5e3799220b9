"""f-divergences against closed forms for Gaussians, their bounds, and their behaviour far away."""

import math

import numpy as np
import pytest

from driftline.inference import DIVERGENCES, divergence, terms
from driftline.inference._divergences import slope

MU = 0.5
PHI = 0.5 * (1 + math.erf(MU / 2 / math.sqrt(2)))  # normal distribution function at MU/2
CLOSED = {  # N(0,1) against N(MU,1)
    "kl": MU**2 / 2,
    "reverse_kl": MU**2 / 2,
    "hellinger": 1 - math.exp(-(MU**2) / 8),
    "pearson": math.exp(MU**2) - 1,
    "neyman": math.exp(MU**2) - 1,
    "total_variation": 2 * PHI - 1,
}


def log_ratio(x):
    return MU**2 / 2 - MU * x


@pytest.mark.parametrize("kind", CLOSED)
def test_closed_forms(kind, rng):
    values = terms(log_ratio(rng.normal(MU, 1, 200_000)), kind)
    error = values.std() / math.sqrt(values.size)
    assert abs(values.mean() - CLOSED[kind]) < 4 * error


def test_jensen_shannon_against_quadrature(rng):
    x = np.linspace(-12, 12, 200_001)
    p, q = np.exp(-0.5 * x**2), np.exp(-0.5 * (x - MU) ** 2)
    p, q = p / p.sum(), q / q.sum()
    m = 0.5 * (p + q)
    with np.errstate(divide="ignore", invalid="ignore"):
        truth = 0.5 * np.nansum(p * np.log(p / m)) + 0.5 * np.nansum(q * np.log(q / m))
    values = terms(log_ratio(rng.normal(MU, 1, 200_000)), "js")
    assert abs(values.mean() - truth) < 4 * values.std() / math.sqrt(values.size)


@pytest.mark.parametrize("kind", DIVERGENCES)
def test_zero_without_drift_and_named_slope(kind):
    assert divergence(np.zeros(5), kind) == pytest.approx(0.0, abs=1e-15)
    log_r = np.array([-1.0, -0.3, 0.4, 1.2])
    numeric = (terms(log_r + 1e-4, kind) - terms(log_r - 1e-4, kind)) / 2e-4
    np.testing.assert_allclose(slope(log_r, kind), numeric, rtol=1e-5, atol=1e-7)


def test_limits_when_nothing_overlaps():
    far = np.full(3, -60.0)
    assert divergence(far, "js") == pytest.approx(math.log(2))
    assert divergence(far, "hellinger") == pytest.approx(1.0)
    assert divergence(far, "total_variation") == pytest.approx(1.0)
    for kind in DIVERGENCES:
        assert np.isfinite(divergence(np.array([-300.0, 0.0, 300.0]), kind))


def test_custom_generator(rng):
    log_r = log_ratio(rng.normal(MU, 1, 1000))
    own = divergence(log_r, lambda r: (r - 1) ** 2)
    assert own == pytest.approx(divergence(log_r, "pearson"))
    with pytest.raises(ValueError, match=r"must be 0 at r = 1, got f\(1\) = 1"):
        divergence(log_r, lambda r: r**2)
    with pytest.raises(ValueError, match="'klx' is unknown"):
        divergence(log_r, "klx")
