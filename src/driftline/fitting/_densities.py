"""Summary densities at work: the log-ratio of two of them, and the features in whose span their errors lie."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from driftline._codec import Kinds
from driftline._inputs import Floats
from driftline.fitting._chunks import Integers
from driftline.fitting._ellipsoids import Ellipsoids
from driftline.fitting._mixtures import Mixture

__all__ = ["Density", "Summaries", "Tangents", "tangents_of"]

Density = Mixture | Ellipsoids
DENSITIES = Kinds("driftline.fitting", "Mixture", "Ellipsoids")

_SUPPORT_ROWS = 20_000  # rows that suffice for a fourth moment


class Tangents(NamedTuple):
    """Tangent features of the first summary density.

    Errors of a later summary lie, to first order, in their span, so that error bars know of them. Of all of these those
    in ``kept`` are features.
    """

    density: Annotated[Density, DENSITIES]
    kept: Annotated[Integers, "kept"]

    @property
    def size(self) -> int:
        """Number of features."""
        return len(self.kept)

    def __call__(self, z: Floats) -> Floats:
        """Return the features of standardised rows (n, D), (n, size)."""
        found = self.density.tangents(z)
        return found if len(self.kept) == found.shape[1] else found.take(self.kept, 1)

    def shares(self, columns: int) -> Floats:
        """Return the share of each column in each feature, (D, size)."""
        return self.density.tangent_shares(columns)[:, self.kept]


def tangents_of(density: Density, z: Floats, rows: float, *, shapes: bool = True) -> Tangents:
    """Return the tangent features of a density that rest on at least this many effective rows of ``z``.

    Without ``shapes``, those are left out that tell how clusters change in shape: they are most where each has its own.

    Effective rows are n divided by the fourth moment of a feature in units of its spread: those that have it, for a
    feature that few rows have. In a table with many indicators most products with clusters are of that kind.
    """
    values = density.tangents(z[:: max(1, len(z) // _SUPPORT_ROWS)])
    values -= values.mean(0)
    square = np.square(values)
    spread = square.mean(0)
    heavy = np.square(square).mean(0) / np.maximum(np.square(spread), 1e-300)
    kept = (spread > 1e-12) & (len(z) >= rows * heavy)
    if not shapes and isinstance(density, Ellipsoids):
        kept &= density.placing
    return Tangents(density, np.flatnonzero(kept))


class Summaries(NamedTuple):
    """Summary densities of the original and of the current window: their log-ratio is a first guess of the ratio's.

    ``rows`` is the number of rows that the latter was fitted to.
    """

    start: Annotated[Density, DENSITIES]
    now: Annotated[Density, DENSITIES]
    rows: float

    def __call__(self, z: Floats) -> Floats:
        """Return the log-ratio of rows in the coordinates of the densities, (n,)."""
        return self.start.log_density(z) - self.now.log_density(z)
