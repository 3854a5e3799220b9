"""Drifting streams of kinds that no model here was made for, with known log-ratios: for reports, never for tuning."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln, log_ndtr, ndtri

__all__ = ["ClaytonStream", "CompositionStream", "RushHourStream"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class ClaytonStream:
    """Normal columns in pairs that follow each other ever more closely in their lower tails alone.

    Each pair has a Clayton copula with parameter ``start + delta * t``: no margin moves, and the change is stronger at
    small values than any correlation says.

    Reference: Clayton, *A model for association in bivariate life tables*, 1978.
    """

    dim: int = 6
    start: float = 0.3
    delta: float = 0.06

    def sample(self, t: float, n: int, rng: np.random.Generator) -> Floats:
        """Draw rows (n, dim) at time t."""
        theta = self.start + self.delta * t
        first, chance = rng.random((2, n, self.dim // 2))
        second = (first**-theta * (chance ** (-theta / (1.0 + theta)) - 1.0) + 1.0) ** (-1.0 / theta)
        rows = np.empty((n, self.dim))
        rows[:, 0::2], rows[:, 1::2] = ndtri(first), ndtri(second)
        return rows

    def log_ratio(self, x: Floats, t: float) -> Floats:
        """Return log p_0/p_t of rows, (n,)."""
        return self._log_copula(x, self.start) - self._log_copula(x, self.start + self.delta * t)

    @staticmethod
    def _log_copula(x: Floats, theta: float) -> Floats:
        log_u, log_v = log_ndtr(x[:, 0::2]), log_ndtr(x[:, 1::2])
        both = np.logaddexp(-theta * log_u, -theta * log_v)
        both += np.log1p(-np.exp(-both))  # the sum of both powers less 1
        values = math.log1p(theta) - (1.0 + theta) * (log_u + log_v) - (2.0 + 1.0 / theta) * both
        return np.asarray(values.sum(1))


@dataclass(frozen=True)
class CompositionStream:
    """Shares of a whole, which sum to 1: a Dirichlet distribution with parameters that move by ``delta * t``.

    The columns are collinear, bounded, skewed, and some are often close to 0.
    """

    delta: float = 0.05

    def _parameters(self, t: float) -> Floats:
        return np.array([4.0, 3.0, 2.0, 1.5, 1.0]) + self.delta * t * np.array([1.0, -0.5, 0.5, -0.25, 0.3])

    def sample(self, t: float, n: int, rng: np.random.Generator) -> Floats:
        """Draw rows (n, 5) at time t."""
        return rng.dirichlet(self._parameters(t), n)

    def log_ratio(self, x: Floats, t: float) -> Floats:
        """Return log p_0/p_t of rows, (n,)."""
        then, now = self._parameters(0.0), self._parameters(t)
        constant = _log_beta(now) - _log_beta(then)
        return np.asarray(np.log(np.maximum(x, 1e-300)) @ (then - now) + constant)


def _log_beta(parameters: Floats) -> float:
    return float(gammaln(parameters).sum() - gammaln(parameters.sum()))


@dataclass(frozen=True)
class RushHourStream:
    """Orders of a shop: the hour of the day, the amount, and whether it is a weekend.

    On weekdays the hour has two peaks, of which the second moves later and gains weight; on weekends it has one. The
    mean of the amount's logarithm is a wave over the day that moves along. Hours do not know that 24 is 0.
    """

    delta: float = 0.1

    def sample(self, t: float, n: int, rng: np.random.Generator) -> Floats:
        """Draw rows (n, 3) at time t: hour from 0 to 24, amount, weekend as 0 or 1."""
        weekend, late = rng.random(n) < 0.28, rng.random(n) < self._weight(t)
        center = np.where(weekend, 13.0, np.where(late, self._peak(t), 8.0))
        focus = np.where(weekend, 1.5, np.where(late, 4.0, 6.0))
        hour = (center + rng.vonmises(0.0, focus) * 12.0 / math.pi) % 24.0
        amount = np.exp(self._level(hour, t) + 0.5 * rng.standard_normal(n))
        return np.stack([hour, amount, weekend.astype(float)], 1)

    def log_ratio(self, x: Floats, t: float) -> Floats:
        """Return log p_0/p_t of rows, (n,)."""
        return self._log_density(x, 0.0) - self._log_density(x, t)

    def _weight(self, t: float) -> float:
        return 0.5 + 0.1 * self.delta * t

    def _peak(self, t: float) -> float:
        return 17.5 + 0.5 * self.delta * t

    def _level(self, hour: Floats, t: float) -> Floats:
        return np.asarray(0.5 + 0.4 * np.cos((hour - 18.0 - self.delta * t) * math.pi / 12.0))

    def _log_density(self, x: Floats, t: float) -> Floats:
        """Return the log-density up to a constant that does not depend on t."""
        hour, amount, weekend = x.T
        weight = self._weight(t)
        work = (1.0 - weight) * _von_mises(hour, 8.0, 6.0) + weight * _von_mises(hour, self._peak(t), 4.0)
        of_hour = np.log(np.where(weekend > 0.5, _von_mises(hour, 13.0, 1.5), work))
        return np.asarray(of_hour - 0.5 * ((np.log(amount) - self._level(hour, t)) / 0.5) ** 2)


def _von_mises(hour: Floats, center: float, focus: float) -> Floats:
    return np.asarray(np.exp(focus * np.cos((hour - center) * math.pi / 12.0)) / (24.0 * np.i0(focus)))
