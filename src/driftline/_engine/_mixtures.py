r"""The log-ratio of two mixtures, as a first guess of the ratio's that does not run away in the tails.

Mixtures of normals differ by thousands of nats at a row far from all clusters, where neither knows anything. Each is
therefore mixed with a little of one broad density, the same for all windows: Student's t with three degrees of freedom
in every direction. Far out the ratio tends to one; near the rows nothing changes.
"""

from __future__ import annotations

import math

import numpy as np

from driftline._inputs import Floats
from driftline.fitting import Density

__all__ = ["mixture_ratio"]

_SHARE = 1e-6  # of the broad density: log-ratios of mixtures go on to about 20 nats
_FREEDOM = 3.0


def mixture_ratio(original: Density, current: Density, z: Floats) -> Floats:
    """Return the log-ratio of two mixtures at rows in the coordinates of the original (n, D), (n,)."""
    broad = _broad(original, z)
    return np.logaddexp(original.log_density(z), broad) - np.logaddexp(current.log_density(z), broad)


def _broad(density: Density, z: Floats) -> Floats:
    """Return the logarithm of the broad density times its share, (n,); a two-valued column has even chances."""
    d, free = len(density.gaussian), _FREEDOM
    size = np.square(z[:, density.gaussian]).sum(1)
    level = math.lgamma(0.5 * (free + d)) - math.lgamma(0.5 * free) - 0.5 * d * math.log(free * math.pi)
    even = len(density.binary) * math.log(0.5)
    return np.asarray(math.log(_SHARE) + even + level - 0.5 * (free + d) * np.log1p(size / free))
