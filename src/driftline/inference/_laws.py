r"""The law that a plug-in divergence is drawn from.

A plug-in divergence (a reading) is, to leading order, a quadratic form in the errors of the ratio: with no drift its
mean is ``noise`` > 0, not 0, and it is skewed like a chi-square; far away it is normal. One law serves both ends,

.. math:: \hat D + \text{noise} \sim s + a\,\chi^2_k(\lambda = D/a),

with mean :math:`D + \text{noise}` and variance :math:`\text{noise\_std}^2 + 4aD`. Intervals
invert it (:func:`driftline.inference.interval`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from driftline._inputs import Floats

__all__ = ["Law", "chances_above", "law_of", "quantiles", "tail"]

_EXACT = 5.0  # sum of degrees of freedom and noncentrality above which a power of the variable is nearly normal
_POINTS = 17  # points at which the law is evaluated at once when it is inverted
_LOOKS = 4  # times that the stretch between two of them is divided again, before a straight line is drawn in it


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

    def truths(self, reading: float, chances: Floats, top: float) -> Floats:
        """Return the truths at which a larger reading has these chances; 0 if it is at least as likely with no drift.

        ``top`` is a first guess of a truth beyond all of them. The chance grows with the truth, so the stretch that
        holds a solution is found among many points at once, and then again within that stretch.
        """
        while (self.above(reading, top) < chances).any():
            top = 2.0 * top + self.scale
        low, high = np.zeros(len(chances)), np.full(len(chances), top)
        at, each = np.linspace(0.0, 1.0, _POINTS), np.arange(len(chances))
        for _ in range(_LOOKS):
            points = low[:, None] + (high - low)[:, None] * at
            found = self.above(reading, points)
            below = found < chances[:, None]
            below[:, -1] = False  # as it was found; a rounded point may be
            # the first that is not below: where the tail turns from exact to approximate, later ones may be below again
            first = np.maximum(below.argmin(1), 1)
            low, high = points[each, first - 1], points[each, first]
        left, right = found[each, first - 1], found[each, first]
        share = np.clip((chances - left) / np.maximum(right - left, 1e-300), 0.0, 1.0)
        return np.where(below[:, 0], low + share * (high - low), 0.0)


def tail(x: npt.ArrayLike, dof: float, noncentrality: npt.ArrayLike) -> Floats:
    """Return the noncentral chi-square's upper tail: exact, or for more degrees of freedom by Sankaran's normal power.

    Reference: Sankaran, *Approximations to the non-central chi-square distribution*, Biometrika 1963.

    >>> tail(60.0, 10.0, [30.0]).round(3)
    array([0.057])
    """
    from scipy.special import chndtr, ndtr  # not at the top: whoever only reads Records would wait for SciPy

    x, extra = np.broadcast_arrays(np.asarray(x, dtype=float), np.asarray(noncentrality, dtype=float))
    out, large = np.empty(x.shape), dof + extra > _EXACT
    if large.any():
        power, mean, spread = _sankaran(dof, extra[large])
        out[large] = ndtr(-((x[large] / (dof + extra[large])) ** power - mean) / spread)
    if not large.all():
        out[~large] = 1.0 - chndtr(x[~large], max(dof, 1e-8), extra[~large])
    return out


def chances_above(dof: float, noncentrality: Floats) -> Callable[[float], Floats]:
    """Return :func:`tail` as a function of x alone: what does not depend on x is computed once.

    >>> extra = np.array([2.0, 30.0])
    >>> bool((chances_above(10.0, extra)(60.0) == tail(60.0, 10.0, extra)).all())
    True
    """
    from scipy.special import ndtr  # as in tail

    total = dof + noncentrality
    if not (total > _EXACT).all():
        return lambda x: tail(x, dof, noncentrality)
    power, mean, spread = _sankaran(dof, noncentrality)
    return lambda x: np.asarray(ndtr(-((x / total) ** power - mean) / spread))


def quantiles(levels: Floats, dof: float, noncentrality: float) -> Floats:
    """Return the inverse of 1 - :func:`tail`, for one noncentrality.

    >>> bool(abs(tail(quantiles(np.array([0.3]), 20.0, 5.0), 20.0, 5.0) - 0.7) < 1e-3)
    True
    """
    from scipy.special import chndtrix, ndtri  # as in tail

    if dof + noncentrality <= _EXACT:
        return np.asarray(chndtrix(levels, max(dof, 1e-8), noncentrality))
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
