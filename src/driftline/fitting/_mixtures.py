"""The summary density of a window: a small mixture of Gaussians with one covariance, and Bernoullis beside them.

It is a handful of numbers made of many rows each: no component is a row.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from driftline._inputs import Floats
from driftline.fitting._covariances import Covariance
from driftline.fitting._features import Integers, chunks, rows_in_cache

__all__ = ["Mixture", "Summaries", "Tangents", "tangents_of"]

_SUPPORT_ROWS = 20_000  # rows that suffice for a fourth moment


class Mixture(NamedTuple):
    r"""A density :math:`\sum_k w_k N(z; \mu_k, W) \prod_j P_k(z_j)` of standardised rows.

    ``W`` is one for all components, in the form of :class:`Covariance`. Two-valued columns are independent of the
    others given the component; those that exclude each other (the indicators of one categorical column) share a
    ``group`` and are one draw. Columns that were constant are not covered, nor those that
    others determine.

    Shapes: gaussian (G,), binary (B,), group (B,), levels (B, 2), weights (K,), means (K, G), chances (K, B),
    variance (G,), axes (r, G), stretch (r,).
    """

    gaussian: Integers
    binary: Integers
    group: Integers
    levels: Floats
    weights: Floats
    means: Floats
    chances: Floats
    variance: Floats
    axes: Floats
    stretch: Floats

    @property
    def components(self) -> int:
        """Number of components K."""
        return len(self.weights)

    @property
    def columns(self) -> Integers:
        """Numbers of the columns it covers, Gaussian ones first, (G + B,)."""
        return np.concatenate([self.gaussian, self.binary])

    @property
    def covariance(self) -> Covariance:
        """Covariance of the Gaussian columns inside a component."""
        return Covariance(self.variance, self.axes, self.stretch)

    @property
    def parameters(self) -> int:
        """Number of free parameters."""
        k = self.components
        return k - 1 + k * (len(self.gaussian) + len(self.binary)) + self.covariance.parameters

    @property
    def trivial(self) -> bool:
        """Whether its logarithm is a sum of terms in z, z² of single columns: what every quadratic model has."""
        return self.components == 1 and len(self.stretch) == 0

    def log_density(self, z: Floats) -> Floats:
        """Return the log-density of standardised rows (n, D), (n,)."""
        out = np.empty(len(z))
        covariance, middle = self.covariance, self.means.mean(0)
        weight, bias = self._logits()
        constant = 0.5 * (len(self.gaussian) * math.log(2.0 * math.pi) + covariance.log_determinant)
        for at in chunks(len(z), rows_in_cache(z.shape[1])):
            rows = z[at]
            logits = weight @ self._design(rows).T + bias[:, None]
            top = logits.max(0)
            logits -= top
            out[at] = top + np.log(np.exp(logits, out=logits).sum(0))
            out[at] -= 0.5 * covariance.forms(rows[:, self.gaussian] - middle)
        out -= constant
        return out

    def responsibilities(self, z: Floats) -> Floats:
        """Return the probability of each component given standardised rows (n, D), (n, K)."""
        out = np.empty((len(z), self.components))
        weight, bias = self._logits()
        for at in chunks(len(z), rows_in_cache(z.shape[1])):
            logits = weight @ self._design(z[at]).T + bias[:, None]
            logits -= logits.max(0)
            np.exp(logits, out=logits)
            logits /= logits.sum(0)
            out[at] = logits.T
        return out

    def shares(self, z: Floats) -> Floats:
        """Return two-valued columns as 0 and 1, values between and beyond by interpolation and clipping, (n, B)."""
        low, high = self.levels[:, 0], self.levels[:, 1]
        return np.clip((z[:, self.binary] - low) / (high - low), 0.0, 1.0)

    def _design(self, z: Floats) -> Floats:
        """Return what the logits are linear in, (n, G + B)."""
        return np.concatenate([z[:, self.gaussian] - self.means.mean(0), self.shares(z)], 1)

    def _logits(self) -> tuple[Floats, Floats]:
        """Return weights (K, G + B) and biases (K,) of the log-densities of components, less a term they share."""
        return logits_of(self.weights, self.means - self.means.mean(0), self.chances, self.group, self.covariance)


def logits_of(
    weights: Floats, means: Floats, chances: Floats, group: Integers, covariance: Covariance
) -> tuple[Floats, Floats]:
    """Return weights (K, G + B) and biases (K,) in which log-densities of components are linear, less a shared term."""
    solved = covariance.solve(means)
    none = np.log(chances_of_none(chances, group))
    odds = np.log(chances) - none[:, group]
    bias = np.log(weights) - 0.5 * np.einsum("kj,kj->k", solved, means) + none.sum(1)
    return np.concatenate([solved, odds], 1), bias


def chances_of_none(chances: Floats, group: Integers) -> Floats:
    """Return the probability that no column of a group is on, (K, groups)."""
    out = np.ones((len(chances), int(group.max()) + 1 if len(group) else 0))
    for j, number in enumerate(group):
        out[:, number] -= chances[:, j]
    return np.maximum(out, 1e-9)  # indicators that fill the whole: rows without any are all but impossible


class Tangents(NamedTuple):
    r"""Features :math:`\gamma_k(z)` and :math:`\gamma_k(z) z_j`, k = 2…K, of the first summary density.

    Errors of a later summary lie, to first order, in their span, so that error bars know of them. Of all of these (each
    component itself, then by columns) those in ``kept`` are features.
    """

    mixture: Mixture
    kept: Integers

    @property
    def size(self) -> int:
        """Number of features."""
        return len(self.kept)

    def __call__(self, z: Floats) -> Floats:
        """Return the features of standardised rows (n, D), (n, size)."""
        return self._all(z)[:, self.kept]

    def _all(self, z: Floats) -> Floats:
        parts = 1 + len(self.mixture.columns)
        out = np.empty((len(z), (self.mixture.components - 1) * parts))
        gamma, columns = self.mixture.responsibilities(z), self.mixture.columns
        for at in chunks(len(z)):
            rows = z[at][:, columns]
            for k in range(1, self.mixture.components):
                share, first = gamma[at, k, None], (k - 1) * parts
                out[at, first] = share[:, 0]
                np.multiply(rows, share, out=out[at, first + 1 : first + parts])
        return out

    def shares(self, columns: int) -> Floats:
        """Return the share of each column in each feature, (D, size): that of a responsibility by distance of means."""
        mixture, k = self.mixture, self.mixture.components
        own = mixture.columns
        out = np.zeros((columns, (k - 1) * (1 + len(own))))
        apart = np.concatenate([mixture.means / np.sqrt(mixture.variance), mixture.chances], 1)
        parts = 1 + len(own)
        for c in range(1, k):
            distance = np.square(apart[c] - apart[0])
            alone = distance / max(float(distance.sum()), 1e-300)
            out[own, (c - 1) * parts] = alone
            # half of a product with a column is the column's own
            out[own, (c - 1) * parts + 1 : c * parts] = 0.5 * alone[:, None]
            out[own, (c - 1) * parts + 1 + np.arange(len(own))] += 0.5
        return out[:, self.kept]


def tangents_of(mixture: Mixture, z: Floats, rows: float) -> Tangents:
    """Return the tangent features of a mixture that rest on at least this many effective rows of ``z``.

    Effective rows are n divided by the fourth moment of a feature in units of its spread: those that have it, for a
    feature that few rows have. In a table with many indicators most products with clusters are of that kind.
    """
    every = Tangents(mixture, np.arange((mixture.components - 1) * (1 + len(mixture.columns))))
    values = every(z[:: max(1, len(z) // _SUPPORT_ROWS)])
    values -= values.mean(0)
    square = np.square(values)
    spread = square.mean(0)
    heavy = np.square(square).mean(0) / np.maximum(np.square(spread), 1e-300)
    return every._replace(kept=np.flatnonzero((spread > 1e-12) & (len(z) >= rows * heavy)))


class Summaries(NamedTuple):
    """Summary densities of the original and of the current window: their log-ratio is a first guess of the ratio's."""

    start: Mixture
    now: Mixture

    def __call__(self, z: Floats) -> Floats:
        """Return the log-ratio of rows in the coordinates of the mixtures, (n,)."""
        return self.start.log_density(z) - self.now.log_density(z)
