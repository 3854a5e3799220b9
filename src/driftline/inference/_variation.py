"""The total variation, which has a kink at r = 1 and no curvature there."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from driftline._inputs import Floats
from driftline.inference._divergences import terms
from driftline.inference._estimates import Estimate
from driftline.inference._intervals import normal_interval

__all__ = ["kink", "kinked"]


def kinked(mean: float, reading: float, variance: float, smooth: Estimate, level: float, bias: float) -> Estimate:
    """Estimate the total variation, which has a kink at r = 1 and no curvature there.

    Near no drift it is proportional to the root of the other divergences, and so are the ends of its interval; further
    away its bias is the mean effect of errors of the log-ratio. Its ``noise`` is 0, since none is subtracted, and nan
    where that of ``reverse_kl`` is not known.

    Arguments:
        mean: mean log-ratio of the rows.
        smooth: estimate of ``reverse_kl``.
        bias: mean effect of errors, see :func:`kink`.
    """
    noise = math.nan if math.isnan(smooth.noise) else 0.0
    if smooth.low > 0.0 and not smooth.value < smooth.noise + 4.0 * smooth.noise_std:
        return replace(normal_interval(reading - bias, math.sqrt(max(variance, 0.0)), level), noise=noise)
    # where the rows' mean log-ratio is positive the constant is off, and they do not tell the factor
    most = math.sqrt(0.5)  # of any two, by Pinsker
    factor = min(reading / math.sqrt(-mean), most) if mean < 0.0 else most
    width = normal_interval(0.0, 1.0, level).high
    top = smooth.high if noise == 0.0 else max(smooth.high, width * smooth.std_error)
    value, low, high = (factor * math.sqrt(max(v, 0.0)) for v in (smooth.value, smooth.low, top))
    return Estimate(value, (high - low) / (2.0 * width), low, high, level, noise)


def kink(calm: Floats, errors: Floats) -> float:
    """Return the sum over rows of what errors of their log-ratios (standard deviations, (n,)) add to the variation."""
    points, weights = np.polynomial.hermite_e.hermegauss(15)
    moved = terms(calm[:, None] + errors[:, None] * points, "total_variation") @ (weights / weights.sum())
    return float((moved - terms(calm, "total_variation")).sum())
