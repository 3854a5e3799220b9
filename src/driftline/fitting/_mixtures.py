"""The summary density of a window: a small mixture of Gaussians with one covariance, and Bernoullis beside them.

It is a handful of numbers made of many rows each: no component is a row.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np

from driftline._inputs import Floats
from driftline.fitting._chunks import Integers, chunks, rows_in_cache
from driftline.fitting._covariances import Covariance

__all__ = ["Mixture", "bernoulli_logits", "logits_of", "shares_of"]


class Mixture(NamedTuple):
    r"""A density :math:`\sum_k w_k N(z; \mu_k, W) \prod_j P_k(z_j)` of standardised rows.

    ``W`` is one for all components, in the form of :class:`Covariance`. Two-valued columns are independent of the
    others given the component; those that exclude each other (the indicators of one categorical column) share a
    ``group`` and are one draw. Columns that were constant are not covered, nor those that
    others determine.

    Shapes: gaussian (G,), binary (B,), group (B,), levels (B, 2), weights (K,), means (K, G), chances (K, B),
    variance (G,), axes (r, G), stretch (r,).
    """

    gaussian: Annotated[Integers, "g <D"]
    binary: Annotated[Integers, "b <D"]
    group: Annotated[Integers, "b"]
    levels: Annotated[Floats, "b 2"]
    weights: Annotated[Floats, "k"]
    means: Annotated[Floats, "k g"]
    chances: Annotated[Floats, "k b"]
    variance: Annotated[Floats, "g"]
    axes: Annotated[Floats, "r g"]
    stretch: Annotated[Floats, "r"]

    def check(self) -> None:
        """Refuse a density without clusters, and groups that are not numbered."""
        if not len(self.weights):
            raise ValueError("it has no clusters")
        if len(self.group) and not 0 <= self.group.min() <= self.group.max() < len(self.group):
            raise ValueError("its groups are not numbered")

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

    @property
    def clustered(self) -> bool:
        """Whether its logarithm has terms that products of columns do not have."""
        return self.components > 1

    @property
    def spreads(self) -> Floats:
        """Standard deviations of columns inside components, (K, G)."""
        inner = 1.0 + (self.stretch - 1.0) @ np.square(self.axes)
        return np.tile(np.sqrt(self.variance * inner), (self.components, 1))

    @property
    def freedom(self) -> Floats:
        """Degrees of freedom of the tails: those of Gaussians."""
        return np.array(np.inf)

    @property
    def words(self) -> str:
        """What it is, for people."""
        return f"{self.components} clusters"

    def log_density(self, z: Floats) -> Floats:
        """Return the log-density of standardised rows (n, D), (n,)."""
        out = np.empty(len(z))
        covariance, (weight, bias) = self.covariance, self._logits()
        constant = 0.5 * (len(self.gaussian) * math.log(2.0 * math.pi) + covariance.log_determinant)
        for at in chunks(len(z), rows_in_cache(z.shape[1])):
            centred, logits = self._linear(z[at], weight, bias)
            top = logits.max(0)
            logits -= top
            out[at] = top + np.log(np.exp(logits, out=logits).sum(0))
            out[at] -= 0.5 * covariance.forms(centred)
        out -= constant
        return out

    def responsibilities(self, z: Floats) -> Floats:
        """Return the probability of each component given standardised rows (n, D), (n, K)."""
        out = np.empty((len(z), self.components))
        weight, bias = self._logits()
        for at in chunks(len(z), rows_in_cache(z.shape[1])):
            _, logits = self._linear(z[at], weight, bias)
            logits -= logits.max(0)
            np.exp(logits, out=logits)
            logits /= logits.sum(0)
            out[at] = logits.T
        return out

    def tangents(self, z: Floats) -> Floats:
        r"""Return features :math:`\gamma_k(z)` and :math:`\gamma_k(z) z_j`, k = 2…K, (n, m).

        Small changes of the logarithm lie in their span, and in that of columns and their products.
        """
        parts = 1 + len(self.columns)
        out = np.empty((len(z), (self.components - 1) * parts))
        gamma, columns = self.responsibilities(z), self.columns
        for at in chunks(len(z)):
            rows = z[at].take(columns, 1)
            for k in range(1, self.components):
                share, first = gamma[at, k, None], (k - 1) * parts
                out[at, first] = share[:, 0]
                np.multiply(rows, share, out=out[at, first + 1 : first + parts])
        return out

    def tangent_shares(self, columns: int) -> Floats:
        """Return the share of each column in each tangent feature, (D, m): that of a cluster by distance of means."""
        own, k = self.columns, self.components
        parts = 1 + len(own)
        out = np.zeros((columns, (k - 1) * parts))
        apart = np.concatenate([self.means / np.sqrt(self.variance), self.chances], 1)
        for c in range(1, k):
            distance = np.square(apart[c] - apart[0])
            alone = distance / max(float(distance.sum()), 1e-300)
            out[own, (c - 1) * parts] = alone
            # half of a product with a column is the column's own
            out[own, (c - 1) * parts + 1 : c * parts] = 0.5 * alone[:, None]
            out[own, (c - 1) * parts + 1 + np.arange(len(own))] += 0.5
        return out

    def _linear(self, z: Floats, weight: Floats, bias: Floats) -> tuple[Floats, Floats]:
        """Return the Gaussian columns about the components' centre, (n, G), and the logits of components, (K, n)."""
        g = len(self.gaussian)
        centred = (z if g == z.shape[1] else z[:, self.gaussian]) - self.means.mean(0)
        logits = weight[:, :g] @ centred.T
        if len(self.binary):
            logits += weight[:, g:] @ shares_of(z, self.binary, self.levels).T
        logits += bias[:, None]
        return centred, logits

    def _logits(self) -> tuple[Floats, Floats]:
        """Return weights (K, G + B) and biases (K,) of the log-densities of components, less a term they share."""
        return logits_of(self.weights, self.means - self.means.mean(0), self.chances, self.group, self.covariance)


def logits_of(
    weights: Floats, means: Floats, chances: Floats, group: Integers, covariance: Covariance
) -> tuple[Floats, Floats]:
    """Return weights (K, G + B) and biases (K,) in which log-densities of components are linear, less a shared term."""
    solved = covariance.solve(means)
    odds, none = bernoulli_logits(chances, group)
    bias = np.log(weights) - 0.5 * np.einsum("kj,kj->k", solved, means) + none
    return np.concatenate([solved, odds], 1), bias


def bernoulli_logits(chances: Floats, group: Integers) -> tuple[Floats, Floats]:
    """Return log-odds (K, B) of two-valued columns in each component, and log-chances (K,) that none of them is on."""
    none = np.log(_chances_of_none(chances, group))
    return np.log(chances) - none[:, group], none.sum(1)


def shares_of(z: Floats, binary: Integers, levels: Floats) -> Floats:
    """Return two-valued columns as 0 and 1, values between and beyond by interpolation and clipping, (n, B)."""
    low, high = levels[:, 0], levels[:, 1]
    return np.clip((z[:, binary] - low) / (high - low), 0.0, 1.0)


def _chances_of_none(chances: Floats, group: Integers) -> Floats:
    """Return the probability that no column of a group is on, (K, groups)."""
    out = np.ones((len(chances), int(group.max()) + 1 if len(group) else 0))
    for j, number in enumerate(group):
        out[:, number] -= chances[:, j]
    return np.maximum(out, 1e-9)  # indicators that fill the whole: rows without any are all but impossible
