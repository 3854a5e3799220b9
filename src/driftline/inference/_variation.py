"""The total variation, which has a kink at r = 1 and no curvature there."""

from __future__ import annotations

import math

import numpy as np

from driftline._inputs import Floats
from driftline.inference._divergences import terms
from driftline.inference._estimates import Estimate
from driftline.inference._intervals import normal_interval

__all__ = ["kink", "kinked"]


def kinked(mean: float, reading: float, variance: float, smooth: Estimate, level: float, bias: float) -> Estimate:
    """Estimate the total variation, which has a kink at r = 1 and no curvature there.

    Near no drift it is proportional to the root of the other divergences, and so are the ends of its interval; further
    away its bias is the mean effect of errors of the log-ratio.

    Arguments:
        mean: mean log-ratio of the rows.
        smooth: estimate of ``reverse_kl``.
        bias: mean effect of errors, see :func:`kink`.
    """
    if smooth.value < smooth.noise + 4.0 * max(smooth.noise_std, smooth.std_error):
        factor = reading / math.sqrt(max(-mean, 2.0 * reading * reading, 1e-300))  # of any two, by Pinsker
        value, low, high = (factor * math.sqrt(max(v, 0.0)) for v in (smooth.value, smooth.low, smooth.high))
        width = normal_interval(0.0, 1.0, level).high
        return Estimate(value, (high - low) / (2.0 * width), low, high, level)
    return normal_interval(reading - bias, math.sqrt(max(variance, 0.0)), level)


def kink(calm: Floats, errors: Floats) -> float:
    """Return the sum over rows of what errors of their log-ratios (standard deviations, (n,)) add to the variation."""
    points, weights = np.polynomial.hermite_e.hermegauss(15)
    moved = terms(calm[:, None] + errors[:, None] * points, "total_variation") @ (weights / weights.sum())
    return float((moved - terms(calm, "total_variation")).sum())
