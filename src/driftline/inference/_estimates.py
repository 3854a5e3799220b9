r"""Estimate: a value with its error bar, and the law it is drawn from.

A plug-in divergence (a reading) is, to leading order, a quadratic form in the errors of the ratio: with no drift its
mean is ``noise`` > 0, not 0, and it is skewed like a chi-square; far away it is normal. One law serves both ends,

.. math:: \hat D + \text{noise} \sim s + a\,\chi^2_k(\lambda = D/a),

with mean :math:`D + \text{noise}` and variance :math:`\text{noise\_std}^2 + 4aD`. Intervals
invert it (:func:`driftline.inference.interval`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri
from scipy.stats import ncx2

from driftline.inference._doubts import Doubt

__all__ = ["Estimate", "Law", "law_of", "quantiles", "tail"]

Floats = npt.NDArray[np.float64]

_EXACT = 5.0  # sum of degrees of freedom and noncentrality above which a power of the variable is nearly normal


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its standard error and the interval ``[low, high]`` of the stated level.

    Attributes:
        noise: mean reading of the same rows with no drift at all; it is subtracted, so that without drift ``value``
            scatters around 0 on both sides. ``nan`` if unknown.
        noise_std: standard deviation of ``value`` with no drift.
        shared: share of this noise that comes from the original, and so is the same in all later windows.
        slope: rate at which the variance of ``value`` grows with the truth.
        doubts: reasons not to trust it; empty if there are none.

    >>> print(Estimate(1.25, 0.1, 1.054, 1.446, 0.95))
    1.25 ± 0.1 (95% interval 1.054 to 1.446)
    """

    value: float
    std_error: float
    low: float
    high: float
    level: float
    noise: float = math.nan
    noise_std: float = math.nan
    shared: float = math.nan
    slope: float = math.nan
    doubts: tuple[Doubt, ...] = ()

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        if not math.isfinite(self.std_error):
            return f"{self.value:.4g} (no interval)"
        level = f"{100 * self.level:.4g}%"
        return f"{self.value:.4g} ± {self.std_error:.2g} ({level} interval {self.low:.4g} to {self.high:.4g})"


@dataclass(frozen=True, slots=True)
class Law:
    """Law ``shift + scale * chi-square(dof, noncentrality = D / scale)`` of a reading, ``noise`` included."""

    shift: float
    scale: float
    dof: float

    def above(self, reading: npt.ArrayLike, truth: npt.ArrayLike) -> Floats:
        """Return the chance of a larger reading, given the truth; broadcasts."""
        x = np.maximum((np.asarray(reading, dtype=float) - self.shift) / self.scale, 0.0)
        return tail(x, self.dof, np.asarray(truth, dtype=float) / self.scale)


def tail(x: npt.ArrayLike, dof: float, noncentrality: npt.ArrayLike) -> Floats:
    """Return the noncentral chi-square's upper tail: exact, or for more degrees of freedom by Sankaran's normal power.

    Reference: Sankaran, *Approximations to the non-central chi-square distribution*, Biometrika 1963.

    >>> tail(60.0, 10.0, [30.0]).round(3)
    array([0.057])
    """
    x, extra = np.broadcast_arrays(np.asarray(x, dtype=float), np.asarray(noncentrality, dtype=float))
    out, large = np.empty(x.shape), dof + extra > _EXACT
    if large.any():
        power, mean, spread = _sankaran(dof, extra[large])
        out[large] = ndtr(-((x[large] / (dof + extra[large])) ** power - mean) / spread)
    if not large.all():
        out[~large] = ncx2.sf(x[~large], max(dof, 1e-8), extra[~large])
    return out


def quantiles(levels: Floats, dof: float, noncentrality: float) -> Floats:
    """Return the inverse of 1 - :func:`tail`, for one noncentrality.

    >>> bool(abs(tail(quantiles(np.array([0.3]), 20.0, 5.0), 20.0, 5.0) - 0.7) < 1e-3)
    True
    """
    if dof + noncentrality <= _EXACT:
        return np.asarray(ncx2.ppf(levels, max(dof, 1e-8), noncentrality))
    power, mean, spread = _sankaran(dof, np.asarray(noncentrality))
    base = np.maximum(mean + spread * ndtri(levels), 0.0)
    return np.asarray((dof + noncentrality) * base ** (1.0 / power))


def _sankaran(dof: float, extra: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the exponent that makes x / (dof + extra) nearly normal, and the power's mean and standard deviation."""
    total, twice = dof + extra, dof + 2.0 * extra
    h = 1.0 - (2.0 / 3.0) * total * (dof + 3.0 * extra) / twice**2
    p = twice / total**2
    m = (h - 1.0) * (1.0 - 3.0 * h)
    mean = 1.0 + h * p * (h - 1.0 - 0.5 * (2.0 - h) * m * p)
    return h, mean, h * np.sqrt(2.0 * p) * (1.0 + 0.5 * m * p)


def law_of(noise: float, noise_variance: float, slope: float) -> Law:
    """Return the law with mean D + noise and variance noise_variance + slope D."""
    null = noise_variance / (2.0 * noise)  # the chi-square that fits the noise alone
    # samples that are nearly the same have almost no slope, which would stretch the law without bound
    scale = max(slope / 4.0, 1e-3 * null) if slope > 0.0 else null
    dof = noise_variance / (2.0 * scale**2)
    return Law(noise - scale * dof, scale, dof)
