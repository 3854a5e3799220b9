r"""Means of many parameters, given their noisy estimates: most of them may be zero.

Estimates :math:`b_i \sim N(\beta_i, v_i)` of parameters of one kind are drawn towards zero as far as the bulk of them
looks like noise. The prior is a spike at zero and a normal slab,
:math:`\beta_i \sim (1-\pi)\,\delta_0 + \pi\,N(0, \tau)`, and :math:`\pi` and :math:`\tau` are fitted to the estimates
themselves (empirical Bayes).

Reference: Johnstone and Silverman, *Needles and straw in haystacks*, Annals of Statistics 2004.
"""

from __future__ import annotations

import math

import numpy as np

from driftline._inputs import Floats

__all__ = ["posterior_means"]

_ITERATIONS = 200
_TOLERANCE = 1e-6


def posterior_means(values: Floats, variances: Floats) -> Floats:
    """Return the means of parameters (k,), given estimates (k,) and the variances of these (k,).

    >>> noise = np.array([0.9, -1.1, 0.3, -0.6, 1.2, -0.2])
    >>> posterior_means(noise, np.ones(6)).round(2)
    array([ 0.04, -0.05,  0.01, -0.03,  0.06, -0.01])
    >>> posterior_means(np.append(noise, [20.0, -30.0]), np.ones(8))[-2:].round(1)
    array([ 20., -30.])
    """
    real = variances > 0.0  # the others are known
    x, v = values[real], variances[real]
    square = np.square(x)
    tau = 2.0 * float(np.maximum(square - v, 0.0).mean()) if len(x) else 0.0
    if tau <= 0.0:
        return np.where(real, 0.0, values)
    share = 0.5
    for _ in range(_ITERATIONS):
        odds = math.log(share / (1.0 - share)) + 0.5 * (np.log(v / (v + tau)) + square / v * (tau / (v + tau)))
        chance = 1.0 / (1.0 + np.exp(-np.clip(odds, -500.0, 500.0)))
        # one parameter more, half of it zero: no share is ever known to be all or nothing
        before, share = share, float((chance.sum() + 0.5) / (len(x) + 1.0))
        tau = max(float(chance @ np.maximum(square - v, 0.0) / chance.sum()), 1e-12 * float(v.mean()))
        if abs(share - before) < _TOLERANCE:
            break
    out = values.copy()
    out[real] = x * chance * tau / (tau + v)
    return out
