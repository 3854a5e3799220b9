"""Intervals: readings become Estimates, by inverting the law that a reading is drawn from."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import NormalDist

import numpy as np

from driftline.inference._curvature import Quadratic
from driftline.inference._divergences import Generator, curvature, largest, slope
from driftline.inference._estimates import Estimate
from driftline.inference._laws import law_of

__all__ = ["MOST_NOISE", "beside", "bounded", "interval", "is_noise_known", "normal_interval", "overlooked", "within"]

MOST_NOISE = 1.0  # a fit whose bias without drift exceeds one nat is too poor to expand around
_LEAST_LIKELY = 5.0  # standard deviations from the mean beyond which an error is put down to another cause


def normal_interval(value: float, std_error: float, level: float) -> Estimate:
    """Return the normal interval around a value."""
    z = NormalDist().inv_cdf(0.5 + 0.5 * _checked(level))
    return Estimate(value, std_error, value - z * std_error, value + z * std_error, level)


def interval(
    reading: float, variance: float, noise: float, noise_variance: float, shared: float, level: float
) -> Estimate:
    """Return the estimate behind a plug-in reading.

    Arguments:
        reading: plug-in value.
        variance: variance of the reading by its influence values. Near no drift these overstate it, since their slope
            is an estimate too: they give ``slope * reading``, where the truth is ``noise_variance + slope * D``.
        noise, noise_variance: mean and variance of the reading with no drift.
        shared: share of the noise that comes from the original, see :class:`Estimate`.
        level: confidence level.

    >>> drifted = interval(0.30, 0.0004, 0.02, 0.00004, 0.5, 0.95)
    >>> round(drifted.value, 2), bool(drifted.low < 0.28 < drifted.high)
    (0.28, True)
    """
    _checked(level)
    if not is_noise_known(reading, variance, noise, noise_variance):
        return normal_interval(reading, math.sqrt(max(variance, 0.0)), level)
    slope = max(variance, 0.0) / max(reading, noise)
    value = reading - noise
    std_error = math.sqrt(noise_variance + slope * max(value, 0.0))
    law = law_of(noise, noise_variance, slope)
    chances = np.array([0.5 - 0.5 * level, 0.5 + 0.5 * level])
    low, high = law.truths(reading, chances, value + 12.0 * std_error).tolist()
    return Estimate(
        value, std_error, min(low, value), max(high, value), level, noise, math.sqrt(noise_variance), shared, slope
    )


def is_noise_known(reading: float, variance: float, noise: float, noise_variance: float) -> bool:
    """Say whether the noise has been estimated well enough to be subtracted; not with heavy tails or too few rows."""
    usable = 0.0 < noise < MOST_NOISE and noise_variance > 0.0 and max(noise_variance, variance) < 1e100
    return usable and reading >= noise - 6.0 * math.sqrt(noise_variance)


def beside(
    reading: float, variance: float, travelled: float, quadratic: Quadratic, shared: float, level: float
) -> Estimate:
    """Return the estimate behind a reading that has a normal error of variance ``travelled`` beside that of the law.

    Such an error may take the reading below all that the law allows; as much is put down to it and not to the law.
    """
    edge = quadratic.noise - _LEAST_LIKELY * math.sqrt(max(quadratic.variance, 0.0))
    below = min(max(edge - reading, 0.0), _LEAST_LIKELY * math.sqrt(travelled))
    found = interval(reading + below, variance, quadratic.noise, quadratic.variance, shared, level)
    if np.isnan(found.noise):
        return found
    found = replace(found, value=found.value - below, low=found.low - below, high=found.high - below)
    found = _widened(found, travelled)
    if not found.high >= 0.0:  # no divergence is negative: nothing that is known explains it
        return replace(found, noise=math.nan)
    return replace(found, slope=(max(variance, 0.0) + travelled) / max(reading + below, quadratic.noise))


def _widened(estimate: Estimate, variance: float) -> Estimate:
    """Add an independent normal error to an estimate: distances of both ends are added in squares."""
    spread = NormalDist().inv_cdf(0.5 + 0.5 * estimate.level) * math.sqrt(variance)
    low = estimate.value - math.hypot(estimate.value - estimate.low, spread)
    high = estimate.value + math.hypot(estimate.high - estimate.value, spread)
    way = math.sqrt(variance)
    return replace(estimate, std_error=math.hypot(estimate.std_error, way), low=low, high=high, way=way)


def bounded(found: Estimate, kind: str | Generator) -> Estimate:
    """Return an estimate within the largest value that the divergence can have."""
    return within(found, largest(kind))


def within(found: Estimate, most: float) -> Estimate:
    return replace(found, value=min(found.value, most), low=min(found.low, most), high=min(found.high, most))


def overlooked(estimate: Estimate, kind: str | Generator, nats: float, spread: float) -> Estimate:
    """Return an estimate whose upper end allows for drift that the model may lack, so many nats of ``reverse_kl``.

    Near no drift, divergences are alike up to their second derivative. The lower end stays, since drift that the model
    lacks makes it no smaller; so does the total variation, which has no such derivative.
    """
    none = np.zeros(1)
    bend = math.nan if kind == "total_variation" else float((curvature(none, kind) - slope(none, kind))[0])
    if not math.isfinite(estimate.high) or not bend * (nats + spread) > 0.0:
        return estimate
    width = NormalDist().inv_cdf(0.5 + 0.5 * estimate.level) * bend * spread
    high = estimate.value + bend * nats + math.hypot(estimate.high - estimate.value, width)
    return replace(estimate, high=max(estimate.high, min(high, largest(kind))))


def _checked(level: float) -> float:
    if not 0.0 < level < 1.0:
        raise ValueError(f"level={level} must lie between 0 and 1")
    return level
