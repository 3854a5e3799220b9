r"""Limits: which reading of a quiet stream is too large to be chance.

The limit of each look is the value that a reading of a stream at the tolerance exceeds with chance 1 / run length,
*given the readings so far*: the original's share of the noise is drawn once and stays, so looks are not independent,
and one original in a few would raise false alarms again and again. Earlier readings show how large that share turned
out to be, by Bayes' rule on a grid of its quantiles; run lengths are then geometric, with the promised mean.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from driftline._inputs import Floats
from driftline._roots import root
from driftline.inference import Estimate, Law, chances_above, law_of, quantiles

__all__ = ["Quiet", "has_law", "limit", "quiet_law"]

_NODES = 48  # number of quantiles of the original's share of the noise


def limit(
    estimate: Estimate, tolerance: float, run_length: float, persistence: int = 1, weights: tuple[float, ...] = ()
) -> float:
    """Return the limit of a look, from its estimate.

    A stream at the tolerance exceeds it ``persistence`` times in a row once per ``run_length`` windows.

    Arguments:
        weights: weights learned about the original from earlier looks, see :class:`AlarmMemory`.

    >>> quiet = Estimate(0.0, 0.01, 0.0, 0.02, 0.95, noise=0.02, noise_std=0.01, shared=0.5, slope=0.01)
    >>> limit(quiet, 0.0, 100) < limit(quiet, 0.0, 1000) < limit(quiet, 0.05, 1000)
    True
    """
    chance = _chance(run_length, persistence)
    if not has_law(_checked(estimate)):  # only the normal law
        return tolerance + NormalDist().inv_cdf(1.0 - chance) * estimate.std_error
    # no limit below the tolerance itself: drift that does not matter raises nothing
    beyond = max(quiet_law(estimate, tolerance, weights).limit(chance) - estimate.noise - tolerance, 0.0)
    return tolerance + math.hypot(beyond, NormalDist().inv_cdf(1.0 - chance) * _way(estimate, tolerance))


def _way(estimate: Estimate, tolerance: float) -> float:
    """Return the error of the way, but for the part that the law of a reading at the tolerance holds by its slope.

    It counts as far as it exceeds the rest of the error: a stream that has stayed, or has gone straight to where it is,
    shows as much, and its promise is kept without it.
    """
    held = tolerance / (estimate.noise + max(estimate.value, 0.0))
    rest = estimate.std_error**2 - estimate.way**2
    return math.sqrt(max(estimate.way**2 - rest, 0.0) * max(1.0 - held, 0.0))


def _checked(estimate: Estimate) -> Estimate:
    if not math.isfinite(estimate.std_error):
        raise ValueError(
            f"the estimate {estimate.value:.4g} has no standard error, so no false-alarm rate can be kept: take a step "
            "first, with a log-linear model ('auto', 'quadratic') or an MLP with polish=True, and with the telescoped "
            "normaliser"
        )
    return estimate


def has_law(estimate: Estimate) -> bool:
    """Say whether the law of a quiet reading is known, beyond its standard error."""
    return estimate.noise > 0.0 and estimate.noise_std > 0.0


class Quiet(NamedTuple):
    """The law of a reading at the tolerance, given what earlier readings say about the original's share of the noise.

    A reading is ``shift + scale |mu + e + w|^2``: e, of variance ``shared``, came with the original and stays, w is
    drawn anew in each window, |mu|^2 is the tolerance. ``lengths`` are values of |mu + e|^2, ``weights`` their chances.
    """

    law: Law
    fresh: float
    lengths: Floats
    weights: Floats

    def above(self) -> Callable[[float], Floats]:
        """Return the chance of a larger reading, for each of the lengths, as a function of the reading."""
        tails, (shift, scale) = chances_above(self.law.dof, self.lengths / self.fresh), (self.law.shift, self.law.scale)
        return lambda reading: tails(max(reading - shift, 0.0) / scale / self.fresh)

    def limit(self, chance: float) -> float:
        """Return the reading that is exceeded with this chance."""
        width = self.law.scale * math.sqrt(2.0 * self.law.dof + 4.0 * float(self.lengths.max())) + self.law.scale
        low = self.law.shift
        high = low + self.law.scale * (self.law.dof + float(self.lengths.max())) + 4.0 * width

        above = self.above()

        def excess(reading: float) -> float:
            return math.log(max(float(above(reading) @ self.weights), 1e-300)) - math.log(chance)

        while excess(high) > 0.0:
            high += 4.0 * width
        return root(excess, low, high, 1e-4 * width) if excess(low) > 0.0 else low

    def learned(self, reading: float) -> tuple[float, ...]:
        """Return the weights of the lengths after a reading, as logarithms."""
        width = 0.05 * self.law.scale * math.sqrt(2.0 * self.law.dof * self.fresh)
        above = self.above()
        density = np.maximum(above(reading - width) - above(reading + width), 1e-300)
        logs = np.log(np.maximum(self.weights, 1e-300)) + np.log(density)
        return tuple(float(v) for v in logs - logs.max())


def quiet_law(estimate: Estimate, tolerance: float, weights: tuple[float, ...]) -> Quiet:
    """Return the law of a reading of a stream at the tolerance; ``weights`` as in :func:`limit`."""
    noise, variance = estimate.noise, estimate.noise_std**2
    null = 2.0 * variance / noise  # the slope of the chi-square that fits the noise
    slope = (null * noise + estimate.slope * tolerance) / (noise + tolerance)
    law, shared = law_of(noise, variance, slope), min(max(estimate.shared, 0.0), 0.95)
    extra = tolerance / law.scale
    if shared < 0.01:
        return Quiet(law, 1.0, np.array([extra]), np.ones(1))
    levels = (np.arange(_NODES) + 0.5) / _NODES
    chances = np.exp(np.array(weights)) if weights else np.ones(_NODES)
    return Quiet(law, 1.0 - shared, shared * quantiles(levels, law.dof, extra / shared), chances / chances.sum())


@lru_cache
def _chance(run_length: float, persistence: int) -> float:
    """Return the chance of one exceedance such that ``persistence`` in a row take ``run_length`` windows on average."""
    if persistence == 1:
        return 1.0 / run_length

    def excess(log_chance: float) -> float:
        all_in_a_row = math.exp(persistence * log_chance)
        waiting = -persistence * log_chance + math.log1p(-all_in_a_row) - math.log1p(-math.exp(log_chance))
        return waiting - math.log(run_length)

    return math.exp(root(excess, -math.log(run_length) - 1.0, -1e-6))
