"""Readings: divergences of a fitted ratio with all that an interval needs, and the Estimates behind them."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from driftline._inputs import Floats
from driftline.fitting import Design
from driftline.inference._curvature import Quadratic, calm_rows, second_order, travelled
from driftline.inference._dependence import Dependence
from driftline.inference._divergences import Generator, largest, slope, terms
from driftline.inference._estimates import Estimate
from driftline.inference._intervals import beside, normal_interval, within
from driftline.inference._uncertainty import LEAST_SLACK, Uncertainty, covariance
from driftline.inference._variation import kink, kinked

__all__ = ["Reading", "divergence_estimate", "estimate_at", "read_divergence", "smooth_estimate"]

_NOISY = 0.25  # share of a divergence's maximum; an expansion around no drift with more noise is far outside its range


def divergence_estimate(
    log_r: Floats,
    kind: str | Generator,
    level: float,
    uncertainty: Uncertainty | None,
    design: Design | None,
    *,
    own_window: bool,
    dependence: Dependence,
    shared: bool = True,
) -> Estimate:
    """Estimate a divergence over rows with log-ratios ``log_r``, with the error of both the mean and the fitted ratio.

    Arguments:
        level: confidence level.
        uncertainty: uncertainty of the fitted ratio; None if there is none to propagate: the error is then nan.
        design: design of the rows, with its column of ones.
        own_window: whether the rows are the last window itself, whose errors are then the same draw.
        dependence: dependence between the rows.
        shared: whether the closed windows' errors stay the same in later estimates (they do not for a step's own).
    """
    reading = read_divergence(
        log_r, kind, uncertainty, design, own_window=own_window, dependence=dependence, shared=shared
    )
    return estimate_at(reading, level)


class Reading(NamedTuple):
    """A divergence as it is read, with all that an interval needs at any level.

    Attributes:
        value: plug-in value.
        most: largest value that there is.
        variance: that of the value; nan if it is not known.
        corrected: value less the bias of the fit.
        quadratic: what the curvature does to the value; None for the total variation.
        travelled: part of the variance that windows between original and last have left, or the draw of other rows.
        share: share of the noise that comes from the original.
        kink: of the total variation, the reading of reverse_kl, the mean effect of errors, and the mean log-ratio.
    """

    value: float
    most: float
    variance: float = math.nan
    corrected: float = math.nan
    quadratic: Quadratic | None = None
    travelled: float = 0.0
    share: float = 0.0
    kink: _Kink | None = None


class _Kink(NamedTuple):
    smooth: Reading
    bias: float
    mean: float


def read_divergence(
    log_r: Floats,
    kind: str | Generator,
    uncertainty: Uncertainty | None,
    design: Design | None,
    *,
    own_window: bool,
    dependence: Dependence,
    shared: bool = True,
) -> Reading:
    """Read a divergence; arguments as in :func:`divergence_estimate`."""
    values, most = terms(log_r, kind), largest(kind)
    reading, n = float(values.mean()), values.size
    if uncertainty is None or design is None or float(uncertainty.slack) < LEAST_SLACK:
        return Reading(reading, most)
    gradient = design.pull(slope(log_r, kind)) / n
    own = (values - reading) / n
    spread = uncertainty.covariance if own_window else covariance(uncertainty)
    if own_window:
        own = own - uncertainty.score * design.dot(uncertainty.inverse_hessian @ gradient)
    drawn = dependence.spread(own)
    variance = drawn + float(gradient @ spread @ gradient)
    if kind == "total_variation":
        smooth = read_divergence(
            log_r, "reverse_kl", uncertainty, design, own_window=own_window, dependence=dependence, shared=shared
        )
        _, _, calm, wobble = calm_rows(log_r, design, covariance(uncertainty))
        bias = kink(calm, np.sqrt(np.maximum(wobble, 0.0))) / len(calm)
        return Reading(reading, most, variance, kink=_Kink(smooth, bias, float(log_r.mean())))
    quadratic = second_order(log_r, kind, uncertainty, design, own_window, dependence)
    corrected = reading - quadratic.bias - float(gradient @ uncertainty.bias)
    now = design.pull(np.full(design.shape[0], 1.0 / design.shape[0]))
    way = travelled(kind, uncertainty, now, gradient, quadratic)
    if not own_window:  # the draw of other rows, which no law of the fit knows of
        way += drawn
    return Reading(reading, most, variance, corrected, quadratic, way, quadratic.shared if shared else 0.0)


def estimate_at(reading: Reading, level: float) -> Estimate:
    """Return the estimate behind a reading, with its interval at a confidence level."""
    if math.isnan(reading.variance):
        return normal_interval(reading.value, math.nan, level)
    if reading.kink is None:
        found = _smooth(reading, level)
    else:
        smooth, bias, mean = reading.kink
        found = kinked(mean, reading.value, reading.variance, estimate_at(smooth, level), level, bias)
    return within(found, reading.most)


def smooth_estimate(
    kind: str | Generator,
    corrected: float,
    reading: float,
    variance: float,
    quadratic: Quadratic,
    uncertainty: Uncertainty,
    now: Floats,
    gradient: Floats,
    level: float,
) -> Estimate:
    """Return the estimate behind the reading of a divergence that has no kink.

    Arguments:
        corrected: reading less the effect of the coefficients' bias.
        variance: variance of the reading by its influence values.
        quadratic: effects of the divergence's curvature.
        now: means of features and of a one in the window, (p+1,).
        gradient: slope of the reading in (coefficients, constant), (p+1,).
    """
    way = travelled(kind, uncertainty, now, gradient, quadratic)
    less = corrected - quadratic.bias
    return _smooth(Reading(reading, largest(kind), variance, less, quadratic, way, quadratic.shared), level)


def _smooth(reading: Reading, level: float) -> Estimate:
    quadratic = reading.quadratic
    assert quadratic is not None
    rest, above = max(reading.variance - reading.travelled, 0.0), reading.corrected + quadratic.noise
    found = beside(above, rest, reading.travelled, quadratic, reading.share, level)
    if np.isnan(found.noise) or quadratic.noise > _NOISY * reading.most:  # no law fits: keep the reading as it is
        found = normal_interval(reading.value, float(np.sqrt(max(reading.variance, 0.0))), level)
    return found
