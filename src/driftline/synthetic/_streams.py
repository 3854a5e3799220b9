"""Simulated drifting streams whose log-ratio is known: for demos, tests and benchmarks."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.signal import lfilter

__all__ = ["CorrelationStream", "GaussianStream", "MixtureStream"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class GaussianStream:
    """The paper's stream (Sec. 4.2): mean ``delta * t``, standard deviation ``1 - delta * t`` in every dimension.

    With ``rho``, the rows of a window follow an AR(1) process with that coefficient; the ratio stays the same.

    >>> round(GaussianStream(delta=0.02).reverse_kl(20), 2)
    17.33
    """

    dim: int = 64
    delta: float = 0.02
    mean: float = 0.0
    rho: float = 0.0

    def sample(self, t: float, n: int, rng: np.random.Generator) -> Floats:
        """Draw rows (n, dim) at time t."""
        z = rng.standard_normal((n, self.dim))
        if self.rho:
            z[1:] *= math.sqrt(1.0 - self.rho**2)
            z = lfilter([1.0], [1.0, -self.rho], z, axis=0)
        return self.mean + self.delta * t + (1.0 - self.delta * t) * z

    def log_ratio(self, x: Floats, t: float) -> Floats:
        """Return log p_0/p_t of rows, (n,)."""
        shift, scale = self.delta * t, 1.0 - self.delta * t
        z = x - self.mean
        return np.asarray((0.5 * (((z - shift) / scale) ** 2 - z**2)).sum(1) + self.dim * math.log(scale))

    def reverse_kl(self, t: float) -> float:
        """Return KL(p_t‖p_0) in nats."""
        shift, scale = self.delta * t, 1.0 - self.delta * t
        return self.dim * 0.5 * (scale**2 + shift**2 - 1.0 - 2.0 * math.log(scale))


@dataclass(frozen=True)
class CorrelationStream:
    """Unit Gaussians whose neighbouring columns become correlated, rho = ``delta * t``: the marginals never move."""

    dim: int = 64
    delta: float = 0.04

    def sample(self, t: float, n: int, rng: np.random.Generator) -> Floats:
        """Draw rows (n, dim) at time t."""
        x, rho = rng.standard_normal((n, self.dim)), self.delta * t
        x[:, 1::2] = rho * x[:, 0::2] + math.sqrt(1.0 - rho**2) * x[:, 1::2]
        return x

    def log_ratio(self, x: Floats, t: float) -> Floats:
        """Return log p_0/p_t of rows, (n,)."""
        rho, a, b = self.delta * t, x[:, 0::2], x[:, 1::2]
        quadratic = (a**2 - 2.0 * rho * a * b + b**2) / (1.0 - rho**2) - a**2 - b**2
        return np.asarray(0.5 * quadratic.sum(1) + 0.25 * self.dim * math.log(1.0 - rho**2))

    def reverse_kl(self, t: float) -> float:
        """Return KL(p_t‖p_0) in nats."""
        return -0.25 * self.dim * math.log(1.0 - (self.delta * t) ** 2)


@dataclass(frozen=True)
class MixtureStream:
    """Two unit Gaussians on fixed random directions, moving apart in weight and distance (weight 0.3 + 0.02 t)."""

    dim: int = 64
    seed: int = 7

    def _components(self, t: float) -> tuple[Floats, Floats]:
        directions = np.random.default_rng(self.seed).standard_normal((2, self.dim))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        weight = 0.3 + 0.02 * t
        return directions * np.array([[2.0 + 0.05 * t], [2.0 - 0.05 * t]]), np.array([1.0 - weight, weight])

    def sample(self, t: float, n: int, rng: np.random.Generator) -> Floats:
        """Draw rows (n, dim) at time t."""
        means, weights = self._components(t)
        return np.asarray(means[rng.choice(2, n, p=weights)] + rng.standard_normal((n, self.dim)))

    def _log_density(self, x: Floats, t: float) -> Floats:
        means, weights = self._components(t)
        logits = x @ means.T - 0.5 * (means**2).sum(1) + np.log(weights)
        return np.asarray(np.logaddexp(logits[:, 0], logits[:, 1]))

    def log_ratio(self, x: Floats, t: float) -> Floats:
        """Return log p_0/p_t of rows, (n,)."""
        return self._log_density(x, 0.0) - self._log_density(x, t)
