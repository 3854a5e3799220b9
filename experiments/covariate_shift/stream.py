"""The synthetic stream: the authors' curve and noise; x moves and widens from N(0.8, 0.25²) to N(1.6, 0.5²).

Their code has y = 1.2x³ - 2.4x² + 3.6x + 1.5(0.5 - U), U uniform on [0, 1], drawn on [0, 3]. The paper's text has
Gaussian noise of variance 0.01 instead. The densities of x are not known; ours lie in the same interval.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import norm

from experiments.methods import Floats

__all__ = ["LATEST", "NOISE_VARIANCE", "SHOWN", "curve", "moments", "sample", "true_weights"]

LATEST = 10
"""Time of the last window."""
SHOWN = (0.0, 3.0)
"""Interval of x on which the authors draw the curve."""
_WIDTH = 1.5  # of the uniform noise
NOISE_VARIANCE = _WIDTH**2 / 12.0
"""The squared error of the curve itself: no line can do better."""


def curve(x: Floats) -> Floats:
    """The regression function, which no straight line fits everywhere."""
    return np.asarray(1.2 * x**3 - 2.4 * x**2 + 3.6 * x)


def moments(t: int) -> tuple[float, float]:
    """Mean and standard deviation of D_t."""
    way = (t - 1) / (LATEST - 1)
    return 0.8 * (1.0 + way), 0.25 * (1.0 + way)


def sample(t: int, n: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Rows x (n, 1) of D_t and their y (n,)."""
    mean, scale = moments(t)
    x = mean + scale * rng.standard_normal(n)
    return x[:, None], curve(x) + _WIDTH * (0.5 - rng.random(n))


def true_weights(x: Floats, t: int) -> Floats:
    """D_1's density over D_t's."""
    return np.asarray(norm.pdf(x[:, 0], *moments(1)) / norm.pdf(x[:, 0], *moments(t)))
