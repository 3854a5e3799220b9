"""Models of psi, the log-ratio up to a constant: features and the log-linear model built on them.

A model is a frozen value: it maps raw rows to psi and is replaced, never changed. Its standardisation stays as it was
when tracing began, so that psi refers to the same coordinates in every step.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch
from torch import Tensor

__all__ = ["CHUNK", "Features", "LogLinear", "Psi", "Stacked", "Standardizer", "fit_features", "fit_standardizer"]

CHUNK = 8192  # rows scored at a time: small enough for the cache, large enough for the matrix products


class Standardizer(NamedTuple):
    """Column means and scales of the first window of an original. Further columns are ignored, see :class:`Stacked`."""

    mean: Tensor
    scale: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        """Return standardised rows, (n, D)."""
        return (x[:, : self.mean.shape[0]] - self.mean).div_(self.scale)


def fit_standardizer(x: Tensor) -> Standardizer:
    """Return means and standard deviations; a constant column gets scale 1, so that it is 0 until it moves."""
    mean = x.mean(0)
    size = x.abs().amax(0).clamp_min(1e-290)  # divided out, so that squares of tiny numbers do not underflow
    spread = (x / size).std(0, correction=0) * size
    constant = spread <= 1e-12 * mean.abs()
    return Standardizer(mean, torch.where(constant, torch.ones_like(spread), spread))


class Features(NamedTuple):
    r"""The statistics :math:`T(x)` of a log-linear model, each centred and scaled once.

    Their order is: the columns, their squares (if ``squares``), products of the listed ``pairs`` of columns, and ridge
    units :math:`\max(0, w^\top z + b)`.

    Shapes: pairs (k, 2), weight (D, u), bias (u,), center and scale (p,).
    """

    squares: bool
    pairs: Tensor
    weight: Tensor
    bias: Tensor
    center: Tensor
    scale: Tensor

    @property
    def size(self) -> int:
        """Number of features p."""
        return self.center.shape[0]

    @property
    def columns(self) -> int:
        """Number of input columns D."""
        return self.weight.shape[0]

    def fill(self, z: Tensor, out: Tensor) -> None:
        """Write the features of standardised rows (n, D), not yet centred and scaled, to ``out`` (n, p)."""
        d, k, u = self.columns, self.pairs.shape[0], self.bias.shape[0]
        out[:, :d] = z
        if self.squares:
            torch.mul(z, z, out=out[:, d : 2 * d])
        at = d * (1 + self.squares)
        if k:
            torch.mul(z[:, self.pairs[:, 0]], z[:, self.pairs[:, 1]], out=out[:, at : at + k])
        if u:
            out[:, at + k :] = torch.relu_(torch.addmm(self.bias, z, self.weight))

    def design(self, z: Tensor) -> Tensor:
        """Return the features with a last column of ones, (n, p + 1)."""
        out = torch.empty(z.shape[0], self.size + 1, dtype=z.dtype, device=z.device)
        rate = 1.0 / self.scale
        for rows, part in zip(z.split(CHUNK), out.split(CHUNK), strict=True):
            self.fill(rows, part[:, :-1])
            part[:, :-1].sub_(self.center).mul_(rate)
        out[:, -1] = 1.0
        return out

    def extra(self, z: Tensor) -> Tensor:
        """Return the pairs and units alone, centred and scaled, (n, k + u)."""
        base = self.columns * (1 + self.squares)
        out = torch.empty(z.shape[0], self.size - base, dtype=z.dtype, device=z.device)
        if out.shape[1] == 0:
            return out
        bare = self._replace(squares=False)
        work = torch.empty(min(CHUNK, len(z)), self.columns + out.shape[1], dtype=z.dtype, device=z.device)
        for rows, part in zip(z.split(CHUNK), out.split(CHUNK), strict=True):
            bare.fill(rows, work[: len(rows)])
            torch.sub(work[: len(rows), self.columns :], self.center[base:], out=part)
            part.div_(self.scale[base:])
        return out

    def score(self, z: Tensor, coef: Tensor) -> Tensor:
        """Return ``design(z)[:, :-1] @ coef`` without building the design."""
        weights, d = coef / self.scale, self.columns
        out = z @ weights[:d] - (self.center * weights).sum()
        if self.squares:
            out = out + (z * z) @ weights[d : 2 * d]
        return out + self.beyond_squares(z, weights) if self.size > d * (1 + self.squares) else out

    def beyond_squares(self, z: Tensor, weights: Tensor) -> Tensor:
        """Return the part of pairs and units in a score, for weights (p,) of the uncentred features."""
        d, k = self.columns, self.pairs.shape[0]
        at = d * (1 + self.squares)
        out = z.new_zeros(z.shape[0])
        if k > d:  # many pairs: one matrix product beats gathering the columns
            form = torch.zeros(d, d, dtype=z.dtype, device=z.device)
            form = form.index_put((self.pairs[:, 0], self.pairs[:, 1]), weights[at : at + k])
            out = out + ((z @ form) * z).sum(1)
        elif k:
            out = out + (z[:, self.pairs[:, 0]] * z[:, self.pairs[:, 1]]) @ weights[at : at + k]
        if self.bias.shape[0]:
            out = out + torch.relu(torch.addmm(self.bias, z, self.weight)) @ weights[at + k :]
        return out

    def extend(self, z: Tensor, pairs: Tensor, weight: Tensor, bias: Tensor) -> Features:
        """Add pairs and units to these features, the new ones centred and scaled on ``z``."""
        base = self.columns * (1 + self.squares)
        old, k = self, self.pairs.shape[0]
        fresh = fit_features(z, squares=False, pairs=pairs, weight=weight, bias=bias)
        cut = self.columns + pairs.shape[0]

        def merge(a: Tensor, b: Tensor) -> Tensor:
            return torch.cat([a[: base + k], b[self.columns : cut], a[base + k :], b[cut:]])

        return Features(
            old.squares,
            torch.cat([old.pairs, pairs]),
            torch.cat([old.weight, weight], 1),
            torch.cat([old.bias, bias]),
            merge(old.center, fresh.center),
            merge(old.scale, fresh.scale),
        )

    def positions(self, into: Features) -> Tensor:
        """Return the indices of these features among those of ``into``, which extends them; (p,)."""
        base, k, u = self.columns * (1 + self.squares), self.pairs.shape[0], self.bias.shape[0]
        shift = base + into.pairs.shape[0]
        return torch.cat([torch.arange(base + k), torch.arange(shift, shift + u)]).to(self.center.device)


def fit_features(
    z: Tensor,
    *,
    squares: bool = True,
    pairs: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
) -> Features:
    """Build features that are centred and scaled on standardised rows ``z``."""
    d = z.shape[1]
    bare = Features(
        squares,
        z.new_zeros(0, 2, dtype=torch.long) if pairs is None else pairs,
        z.new_zeros(d, 0) if weight is None else weight,
        z.new_zeros(0) if bias is None else bias,
        z.new_zeros(0),
        z.new_zeros(0),
    )
    size = d * (1 + squares) + bare.pairs.shape[0] + bare.bias.shape[0]
    total, square = z.new_zeros(size), z.new_zeros(size)
    for rows in z.split(CHUNK):
        raw = z.new_empty(rows.shape[0], size)
        bare.fill(rows, raw)
        total += raw.sum(0)
        square += (raw * raw).sum(0)
    center = total / z.shape[0]
    spread = (square / z.shape[0] - center * center).clamp_min(0.0).sqrt()
    scale = torch.where(spread <= 1e-7 * (1.0 + center.abs()), torch.ones_like(spread), spread)
    return bare._replace(center=center, scale=scale)


class Psi(Protocol):
    """A model as the recursion sees it: psi of raw rows (n, D), in double precision (n,)."""

    def __call__(self, x: Tensor) -> Tensor:
        """Return psi of raw rows, (n,)."""
        ...


class LogLinear(NamedTuple):
    r"""The log-linear model :math:`\psi(x) = \theta^\top T(x)`."""

    standardizer: Standardizer
    features: Features
    coef: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        """Return psi of raw rows, (n,)."""
        features, (mean, scale) = self.features, self.standardizer
        d, base = features.columns, features.columns * (1 + features.squares)
        weights = self.coef / features.scale
        linear, square = weights[:d], weights[d:base] if features.squares else torch.zeros_like(weights[:d])
        out = torch.empty(x.shape[0], dtype=x.dtype, device=x.device)
        chunk = min(CHUNK, max(1, x.shape[0]))
        standard, work = (torch.empty(chunk, d, dtype=x.dtype, device=x.device) for _ in range(2))
        for rows, values in zip(x[:, :d].split(chunk), out.split(chunk), strict=True):
            z, w = standard[: len(rows)], work[: len(rows)]
            torch.sub(rows, mean, out=z).div_(scale)
            torch.addcmul(linear, z, square, out=w)  # columns and squares in one go: z (w1 + z w2)
            torch.sum(w.mul_(z), 1, out=values)
            if features.size > base:
                values += features.beyond_squares(z, weights)
        return out.sub_((features.center * weights).sum())


class Stacked(NamedTuple):
    """Psi of encoded columns that have been replaced, on rows that hold the new columns first and then the old ones.

    A step starts from it when the columns have been replaced: the fit sees the new ones, psi those it was made for.
    """

    standardizer: Standardizer
    before: Psi

    def __call__(self, x: Tensor) -> Tensor:
        """Return psi of stacked rows (n, D_new + D_old)."""
        return self.before(self.old(x))

    def old(self, x: Tensor) -> Tensor:
        """Return the old columns of stacked rows, (n, D_old)."""
        return x[:, self.standardizer.mean.shape[0] :]
