"""KL(original‖current) of log-linear ratios, without importance weights: by their constant, or along the way."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from driftline._inputs import Floats
from driftline.fitting import Design, softmax
from driftline.inference._curvature import Quadratic, second_order
from driftline.inference._dependence import Dependence
from driftline.inference._estimates import Estimate
from driftline.inference._intervals import MOST_NOISE, beside, normal_interval
from driftline.inference._uncertainty import LEAST_SLACK, Forward, Uncertainty, covariance, joined_later

__all__ = ["forward_along", "forward_kl", "forward_of", "summed_along"]


def forward_kl(
    coef: Floats,
    constant: float,
    log_r: Floats,
    level: float,
    uncertainty: Uncertainty,
    design: Design,
    dependence: Dependence,
) -> Estimate | None:
    r"""Estimate KL(original‖current) of a log-linear ratio, without importance weights.

    It is :math:`E_p[\theta^\top T + c] = \theta^\top E_p T + c`, with the original's means known from the first step;
    None if some features joined later.

    Arguments:
        coef, constant: theta (p,) and c.
        log_r, design, dependence: log-ratios, design and dependence of the rows of the current window.
        level: confidence level.
        uncertainty: uncertainty of the fitted ratio.
    """
    if float(uncertainty.slack) < LEAST_SLACK or bool(joined_later(coef, uncertainty).any()):
        return None
    quadratic = second_order(log_r, "reverse_kl", uncertainty, design, True, dependence)
    return forward_of(coef, constant, level, uncertainty, quadratic)


def forward_of(
    coef: Floats,
    constant: float,
    level: float,
    uncertainty: Uncertainty,
    quadratic: Quadratic,
) -> Estimate | None:
    """Return KL(original‖current), given the effects of the curvature of ``reverse_kl``; None if no law fits."""
    means = uncertainty.origin_spread[:-1, :-1]
    at = np.append(uncertainty.mean, 1.0)
    variance = at @ covariance(uncertainty) @ at + coef @ means @ coef + 2.0 * (at @ uncertainty.origin[:, :-1] @ coef)
    bias = float(at @ uncertainty.bias + uncertainty.origin[:-1, :-1].trace())
    reading = float(coef @ uncertainty.mean) + constant - bias + quadratic.noise
    between = float(at @ (uncertainty.covariance - uncertainty.first) @ at)
    way = max(between, float(at @ covariance(uncertainty) @ at) - quadratic.variance)  # as `travelled` has it
    way = min(max(way, 0.0), max(float(variance), 0.0))
    found = beside(reading, float(variance) - way, way, quadratic, quadratic.shared, level)
    return None if np.isnan(found.noise) else found


def forward_along(
    forward: Forward,
    log_r: Floats,
    level: float,
    uncertainty: Uncertainty | None,
    design: Design | None,
    dependence: Dependence,
) -> Estimate:
    """Estimate KL(original‖current) as summed up along the way, for log-linear ratios whose constant does not give it.

    Arguments as in :func:`forward_kl`; without an uncertainty the error is nan.
    """
    if uncertainty is None or design is None or float(uncertainty.slack) < LEAST_SLACK:
        return normal_interval(forward.value, float("nan"), level)
    noise = second_order(log_r, "reverse_kl", uncertainty, design, True, dependence).noise
    return summed_along(forward, design.pull(softmax(log_r)), level, uncertainty, noise)


def summed_along(forward: Forward, gradient: Floats, level: float, uncertainty: Uncertainty, noise: float) -> Estimate:
    """Return KL(original‖current) as summed up along the way.

    The error is that of the means that were summed up and that of the ratio's coefficients at the original's mean
    features, which are estimated from the weighted window: ``gradient``, (p+1,). The ``noise`` of the fits is that of
    ``reverse_kl``, which near no drift is the same divergence; it is not subtracted where it is not known.
    """
    variance = forward.variance + float(gradient @ covariance(uncertainty) @ gradient)
    noise = noise if 0.0 < noise < MOST_NOISE else math.nan
    value = forward.value - (0.0 if math.isnan(noise) else noise)
    found = normal_interval(value, math.sqrt(max(variance, 0.0)), level)
    # no divergence is negative: nothing that is known explains it
    return replace(found, noise=noise if found.high >= 0.0 else math.nan)
