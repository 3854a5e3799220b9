"""Design matrices as the solver sees them: products with vectors, and weighted Gram matrices.

A log-linear design is never built as a whole: its columns and squares are computed block by block as the rows are
read, which costs less than fetching them from memory. Vector products are exact (double); Gram matrices come from
products in single precision, which is all that a curvature or a covariance needs, at half the price.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from driftline.fitting._models import Features, LogLinear, Psi, Stacked
from driftline.fitting._networks import MLP, Network

__all__ = ["Dense", "Design", "LogLinearDesign", "design_of", "last_layer", "log_linear_design"]

_ROWS = 8192  # rows processed at a time


class Design(Protocol):
    """An (n, p) matrix, known only by its products."""

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        ...

    @property
    def device(self) -> torch.device:
        """The tensors' device."""
        ...

    def dot(self, coef: Tensor) -> Tensor:
        """Return the matrix times a vector (p,), a vector (n,)."""
        ...

    def pull(self, values: Tensor) -> Tensor:
        """Return a vector (n,) times the matrix, a vector (p,)."""
        ...

    def gram(self, weights: Tensor) -> Tensor:
        """Return the weighted sum of outer products of the rows, (p, p)."""
        ...

    def forms(self, matrix: Tensor) -> Tensor:
        """Return the quadratic form ``row @ matrix @ row`` of each row, (n,)."""
        ...

    def sums(self, values: Tensor, size: int) -> Tensor:
        """Return sums of ``values * row`` over blocks of ``size`` rows, (n / size rounded up, p)."""
        ...

    def thin(self, every: int) -> Design:
        """Keep every ``every``-th row."""
        ...

    def take(self, start: int, stop: int, every: int) -> Tensor:
        """Return every ``every``-th row from ``start`` to ``stop`` as a plain matrix, (rows, p)."""
        ...


def _add_gram(out: Tensor, block: Tensor, weights: Tensor) -> None:
    # weights are divided by their largest magnitude, so that squared per-row scores stay within float32's range
    size = weights.abs().max().clamp_min(torch.finfo(weights.dtype).tiny)
    out += (block.T @ (block * (weights / size).float()[:, None])).double() * size


def _add_sums(out: Tensor, block: Tensor, values: Tensor, size: int) -> None:
    """Write block sums of a stretch of rows, whose length is a multiple of ``size`` except for the last stretch."""
    products = block.double() * values[:, None]
    products = torch.nn.functional.pad(products, (0, 0, 0, -len(products) % size))
    out.copy_(products.view(-1, size, products.shape[1]).sum(1))


class Dense(NamedTuple):
    """A matrix held in memory."""

    matrix: Tensor

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        return self.matrix.shape[0], self.matrix.shape[1]

    @property
    def device(self) -> torch.device:
        """The tensors' device."""
        return self.matrix.device

    def dot(self, coef: Tensor) -> Tensor:
        """Return the matrix times a vector (p,)."""
        return self.matrix @ coef

    def pull(self, values: Tensor) -> Tensor:
        """Return a vector (n,) times the matrix."""
        return values @ self.matrix

    def gram(self, weights: Tensor) -> Tensor:
        """Return the weighted sum of outer products of the rows."""
        p = self.matrix.shape[1]
        out = torch.zeros(p, p, dtype=torch.float64, device=self.matrix.device)
        for rows, part in zip(self.matrix.split(_ROWS), weights.split(_ROWS), strict=True):
            _add_gram(out, rows.float(), part)
        return out

    def sums(self, values: Tensor, size: int) -> Tensor:
        """Return sums over blocks of rows."""
        out = self.matrix.new_zeros(-(-self.matrix.shape[0] // size), self.matrix.shape[1])
        stretch = max(1, _ROWS // size)
        for rows, part, sums in zip(
            self.matrix.split(stretch * size), values.split(stretch * size), out.split(stretch), strict=True
        ):
            _add_sums(sums, rows, part, size)
        return out

    def forms(self, matrix: Tensor) -> Tensor:
        """Return the quadratic form of each row."""
        parts = [((rows @ matrix) * rows).sum(1) for rows in self.matrix.split(_ROWS)]
        return torch.cat(parts) if parts else self.matrix.new_zeros(0)

    def thin(self, every: int) -> Dense:
        """Keep every ``every``-th row."""
        return Dense(self.matrix[::every])

    def take(self, start: int, stop: int, every: int) -> Tensor:
        """Return every ``every``-th row from ``start`` to ``stop``."""
        return self.matrix[start:stop:every]


class LogLinearDesign(NamedTuple):
    """Features of standardised rows and a last column of ones; ``extra`` holds pairs and units, computed once.

    Shapes: z (n, D), extra (n, k + u) centred and scaled.
    """

    features: Features
    z: Tensor
    extra: Tensor

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        return self.z.shape[0], self.features.size + 1

    @property
    def device(self) -> torch.device:
        """The tensors' device."""
        return self.z.device

    def _base(self) -> tuple[int, int]:
        return self.features.columns, self.features.columns * (1 + self.features.squares)

    def dot(self, coef: Tensor) -> Tensor:
        """Return the matrix times a vector (p,)."""
        d, base = self._base()
        weights = coef[:base] / self.features.scale[:base]
        square = weights[d:] if self.features.squares else torch.zeros_like(weights)
        constant = coef[-1] - (self.features.center[:base] * weights).sum()
        out = torch.empty(self.z.shape[0], dtype=self.z.dtype, device=self.z.device)
        work = torch.empty(min(_ROWS, len(out)), d, dtype=self.z.dtype, device=self.z.device)
        for rows, values in zip(self.z.split(_ROWS), out.split(_ROWS), strict=True):
            part = work[: len(rows)]
            torch.addcmul(weights[:d], rows, square, out=part)
            torch.sum(part.mul_(rows), 1, out=values)
        out += constant
        return out if self.extra.shape[1] == 0 else out.addmv_(self.extra, coef[base:-1])

    def pull(self, values: Tensor) -> Tensor:
        """Return a vector (n,) times the matrix."""
        d, base = self._base()
        sums = torch.zeros(base, dtype=self.z.dtype, device=self.z.device)
        work = torch.empty(min(_ROWS, self.z.shape[0]), d, dtype=self.z.dtype, device=self.z.device)
        for rows, part in zip(self.z.split(_ROWS), values.split(_ROWS), strict=True):
            sums[:d] += part @ rows
            if self.features.squares:
                square = work[: len(rows)]
                torch.mul(rows, rows, out=square)
                sums[d:] += part @ square
        total = values.sum()
        sums = (sums - self.features.center[:base] * total) / self.features.scale[:base]
        return torch.cat([sums, values @ self.extra, total[None]])

    def gram(self, weights: Tensor) -> Tensor:
        """Return the weighted sum of outer products of the rows."""
        p = self.shape[1]
        out = torch.zeros(p, p, dtype=torch.float64, device=self.z.device)
        for block, part in zip(self._blocks(_ROWS), weights.split(_ROWS), strict=True):
            _add_gram(out, block, part)
        return out

    def sums(self, values: Tensor, size: int) -> Tensor:
        """Return sums over blocks of rows."""
        n, p = self.shape
        out = torch.zeros(-(-n // size), p, dtype=torch.float64, device=self.z.device)
        stretch = max(1, _ROWS // size)
        for block, part, sums in zip(
            self._blocks(stretch * size), values.split(stretch * size), out.split(stretch), strict=True
        ):
            _add_sums(sums, block, part, size)
        return out

    def forms(self, matrix: Tensor) -> Tensor:
        """Return the quadratic form of each row."""
        small = matrix.float()
        parts = [((block @ small) * block).sum(1).double() for block in self._blocks(_ROWS)]
        return torch.cat(parts) if parts else self.z.new_zeros(0)

    def _blocks(self, count: int) -> Iterator[Tensor]:
        """Yield the matrix ``count`` rows at a time, in single precision; each block overwrites the one before."""
        d, base = self._base()
        n, p = self.shape
        center, rate = self.features.center[:base].float(), (1.0 / self.features.scale[:base]).float()
        block = torch.empty(min(count, n), p, dtype=torch.float32, device=self.z.device)
        block[:, -1] = 1.0
        for rows, extra in zip(self.z.split(count), self.extra.split(count), strict=True):
            filled = block[: len(rows)]
            filled[:, :d] = rows
            if self.features.squares:
                torch.mul(filled[:, :d], filled[:, :d], out=filled[:, d:base])
            filled[:, :base].sub_(center).mul_(rate)
            filled[:, base:-1] = extra
            yield filled

    def thin(self, every: int) -> LogLinearDesign:
        """Keep every ``every``-th row."""
        return LogLinearDesign(self.features, self.z[::every].contiguous(), self.extra[::every].contiguous())

    def take(self, start: int, stop: int, every: int) -> Tensor:
        """Return every ``every``-th row from ``start`` to ``stop``."""
        return self.features.design(self.z[start:stop:every])


def design_of(psi: Psi, x: Tensor) -> Design | None:
    """Return the design in which psi of raw rows (n, D) is linear, or None if there is none.

    It consists of log-linear features, or of the activations of an MLP's last hidden layer.
    """
    if isinstance(psi, LogLinear):
        return log_linear_design(psi.features, psi.standardizer(x))
    if isinstance(psi, Network) and isinstance(psi.module, MLP):
        return Dense(last_layer(psi.module, psi.inputs(x)))
    return design_of(psi.before, psi.old(x)) if isinstance(psi, Stacked) else None


def last_layer(module: MLP, inputs: Tensor) -> Tensor:
    """Return activations of the last hidden layer and a column of ones, (n, width + 1), in double precision."""
    with torch.no_grad():
        activations = module.hidden(inputs)
        return torch.cat([activations, activations.new_ones(len(activations), 1)], 1).double()


def log_linear_design(features: Features, z: Tensor) -> LogLinearDesign:
    """Return the design of standardised rows (n, D)."""
    return LogLinearDesign(features, z, features.extra(z))
