"""The synthetic stream: x moves and widens from D_1 = N(0, 0.3²) to D_10 = N(0.5, 0.5²), y = x³ - x + noise."""

from __future__ import annotations

import numpy as np
from scipy.stats import norm

from experiments.methods import Floats

__all__ = ["LATEST", "curve", "moments", "sample", "true_weights"]

LATEST = 10
"""Time of the last window."""
_NOISE = 0.1  # standard deviation: the paper's variance is 0.01


def curve(x: Floats) -> Floats:
    """The regression function, which no straight line fits everywhere."""
    return np.asarray(x**3 - x)


def moments(t: int) -> tuple[float, float]:
    """Mean and standard deviation of D_t."""
    way = (t - 1) / (LATEST - 1)
    return 0.5 * way, 0.3 + 0.2 * way


def sample(t: int, n: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Rows x (n, 1) of D_t and their y (n,)."""
    mean, scale = moments(t)
    x = mean + scale * rng.standard_normal(n)
    return x[:, None], curve(x) + _NOISE * rng.standard_normal(n)


def true_weights(x: Floats, t: int) -> Floats:
    """D_1's density over D_t's."""
    return np.asarray(norm.pdf(x[:, 0], *moments(1)) / norm.pdf(x[:, 0], *moments(t)))
