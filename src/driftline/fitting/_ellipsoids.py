"""A summary density whose components have shapes of their own, and tails as heavy as the rows'.

Clusters of a real table are rarely alike, and dependence that is curved is followed best by pieces that lean
differently. Where the rows can pay for it, this density takes the place of :class:`Mixture`.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np
import numpy.typing as npt

from driftline._inputs import Floats
from driftline.fitting._chunks import Integers, chunks, rows_in_cache
from driftline.fitting._mixtures import bernoulli_logits, shares_of

__all__ = ["Ellipsoids", "student_constant", "student_log", "student_weight"]


class Ellipsoids(NamedTuple):
    r"""A density :math:`\sum_k w_k t_\nu(z; \mu_k, \Sigma_k) \prod_j P_k(z_j)` of standardised rows.

    ``freedom`` is :math:`\nu`, infinite for Gaussians. A whitener P has :math:`P P^\top = \Sigma^{-1}`. Two-valued
    columns are as in :class:`Mixture`.

    Shapes: gaussian (G,), binary (B,), group (B,), levels (B, 2), weights (K,), means (K, G), chances (K, B), whiteners
    (K, G, G), freedom ().
    """

    gaussian: Annotated[Integers, "g <D"]
    binary: Annotated[Integers, "b <D"]
    group: Annotated[Integers, "b"]
    levels: Annotated[Floats, "b 2"]
    weights: Annotated[Floats, "k"]
    means: Annotated[Floats, "k g"]
    chances: Annotated[Floats, "k b"]
    whiteners: Annotated[Floats, "k g g"]
    freedom: Annotated[Floats, ""]

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
        """Numbers of the columns it covers, first those with shapes, (G + B,)."""
        return np.concatenate([self.gaussian, self.binary])

    @property
    def parameters(self) -> int:
        """Number of free parameters."""
        k, g = self.components, len(self.gaussian)
        return k - 1 + k * (g + len(self.binary) + g * (g + 1) // 2) + bool(np.isfinite(self.freedom))

    @property
    def clustered(self) -> bool:
        """Whether its logarithm has terms that products of columns do not have."""
        return True

    @property
    def spreads(self) -> Floats:
        """Standard deviations of columns inside components, those of the normal core where tails are heavy, (K, G)."""
        return np.asarray(np.sqrt(np.square(np.linalg.inv(self.whiteners)).sum(1)))

    @property
    def words(self) -> str:
        """What it is, for people."""
        clusters = f"{self.components} clusters" if self.components > 1 else "one cluster"
        tails = f", tails as of Student's t with {float(self.freedom):g}" if np.isfinite(self.freedom) else ""
        return f"{clusters} with shapes of {'their' if self.components > 1 else 'its'} own{tails}"

    def log_density(self, z: Floats) -> Floats:
        """Return the log-density of standardised rows (n, D), (n,)."""
        out = np.empty(len(z))
        for at in chunks(len(z), rows_in_cache(z.shape[1])):
            logs, _, _ = self._parts(z[at])
            top = logs.max(1)
            out[at] = top + np.log(np.exp(logs - top[:, None]).sum(1))
        return out

    def tangents(self, z: Floats) -> Floats:
        r"""Return features in whose span small changes of the logarithm lie, (n, m).

        With :math:`y = P_k^\top (z - \mu_k)` and the weight :math:`u` that Student's t gives a row, these are, for each
        component, :math:`\gamma_k u y`, :math:`\gamma_k u y y^\top`, and :math:`\gamma_k`, :math:`\gamma_k z_j` of
        two-valued columns, of all but the first. They are bounded where tails are heavy. Of the first of Gaussians,
        columns and squares say the same with the help of the others.
        """
        (i, j), plain = np.triu_indices(len(self.gaussian)), np.isinf(self.freedom)
        p, q = np.triu_indices(len(self.gaussian), 1)
        out = np.empty((len(z), self._tangents))
        for at in chunks(len(z), rows_in_cache(z.shape[1])):
            logs, whitened, weights = self._parts(z[at])
            logs -= logs.max(1)[:, None]
            gamma = np.exp(logs, out=logs)
            gamma /= gamma.sum(1)[:, None]
            parts: list[Floats] = [gamma[:, 1:]]
            on = shares_of(z[at], self.binary, self.levels)
            for k, y in enumerate(whitened):
                share = (gamma[:, k] * weights[:, k])[:, None]
                if k == 0 and plain:
                    parts.append(share * (y[:, p] * y[:, q]))
                else:
                    parts += [share * y, share * (y[:, i] * y[:, j])]
                if k:
                    parts.append(gamma[:, k, None] * on)
            np.concatenate(parts, 1, out=out[at])
        return out

    @property
    def placing(self) -> npt.NDArray[np.bool_]:
        """Whether each tangent feature is one of weights or places of clusters, not of their shapes, (m,)."""
        g, plain = len(self.gaussian), np.isinf(self.freedom)
        parts = [np.ones(self.components - 1, dtype=np.bool_)]
        for k in range(self.components):
            if k == 0 and plain:
                parts.append(np.zeros(g * (g - 1) // 2, dtype=np.bool_))
            else:
                parts += [np.ones(g, dtype=np.bool_), np.zeros(g * (g + 1) // 2, dtype=np.bool_)]
            parts += [np.ones(len(self.binary), dtype=np.bool_)] * (k > 0)
        return np.concatenate(parts)

    def tangent_shares(self, columns: int) -> Floats:
        """Return the share of each column in each tangent feature, (D, m), by the whiteners' entries."""
        g, (i, j) = len(self.gaussian), np.triu_indices(len(self.gaussian))
        p, q = np.triu_indices(g, 1)
        parts = [_even(columns, self.columns, self.components - 1)]
        for k, whitener in enumerate(self.whiteners):
            size = np.abs(whitener) * self.spreads[k][:, None]
            own = np.zeros((columns, g))
            own[self.gaussian] = size / np.maximum(size.sum(0), 1e-300)
            if k == 0 and np.isinf(self.freedom):
                parts.append(0.5 * (own[:, p] + own[:, q]))
            else:
                parts += [own, 0.5 * (own[:, i] + own[:, j])]
            if k:
                flags = np.zeros((columns, len(self.binary)))
                flags[self.binary, np.arange(len(self.binary))] = 1.0
                parts.append(flags)
        return np.concatenate(parts, 1)

    @property
    def _tangents(self) -> int:
        k, g = self.components, len(self.gaussian)
        twice = 2 * g if np.isinf(self.freedom) else 0
        return (k - 1) * (1 + len(self.binary)) + k * (g + g * (g + 1) // 2) - twice

    def _parts(self, z: Floats) -> tuple[Floats, list[Floats], Floats]:
        """Return log-densities of components times their weights (n, K), whitened rows, and Student's weights."""
        g, rows = len(self.gaussian), z[:, self.gaussian]
        odds, bias = bernoulli_logits(self.chances, self.group)
        logs = shares_of(z, self.binary, self.levels) @ odds.T + bias + np.log(self.weights)
        whitened = [(rows - mean) @ whitener for mean, whitener in zip(self.means, self.whiteners, strict=True)]
        distance = np.stack([np.einsum("ij,ij->i", y, y) for y in whitened], 1)
        nu = float(self.freedom)
        logs += np.linalg.slogdet(self.whiteners)[1] + student_constant(nu, g) + student_log(distance, nu, g)
        return logs, whitened, student_weight(distance, nu, g)


def student_constant(nu: float, columns: int) -> float:
    """Return the logarithm of the factor that makes Student's t in this many columns a density."""
    if math.isinf(nu):
        return -0.5 * columns * math.log(2.0 * math.pi)
    return math.lgamma(0.5 * (nu + columns)) - math.lgamma(0.5 * nu) - 0.5 * columns * math.log(nu * math.pi)


def student_log(distance: Floats, nu: float, columns: int) -> Floats:
    """Return the log-density, without its constant, at squared distances."""
    if math.isinf(nu):
        return -0.5 * distance
    return np.asarray(-0.5 * (nu + columns) * np.log1p(distance / nu))


def student_weight(distance: Floats, nu: float, columns: int) -> Floats:
    """Return how much a row at a squared distance counts for the centre and the shape."""
    return np.ones_like(distance) if math.isinf(nu) else np.asarray((nu + columns) / (nu + distance))


def _even(columns: int, own: Integers, count: int) -> Floats:
    out = np.zeros((columns, count))
    out[own] = 1.0 / max(len(own), 1)
    return out
