r"""Blocks: families of functions of a row that a log-linear model may use, each frozen on the original.

A block maps rows in the coordinates of the original, (n, D), to its functions, (n, size), best column by column in
memory. Functions of one ``family``
are tested together and join the model together: a change that needs one of them mostly needs the others. To add a
family of functions, write a block here and list it in :func:`candidates`.
"""

from __future__ import annotations

from itertools import combinations
from typing import Annotated, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from driftline._inputs import Floats
from driftline.fitting import Integers, Lessers, Monomials, lessers, pairs_of

__all__ = [
    "Block",
    "Columns",
    "Hinges",
    "Products",
    "Steps",
    "Units",
    "candidates",
    "families",
    "part_of",
    "random_units",
]

_KNOTS = (0.05, 0.2, 0.4, 0.6, 0.8, 0.95)  # quantiles of the original
_STEPS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
_PRODUCTS = 64  # columns; with more, products of two are as many as the rows of a usual window
_CURVES = 20  # columns; with more, curved products cost more than the fit
_TRIPLES = 12
_TAILS = 12
_UNITS = 64
_STEEP = 4.0


class Block(Protocol):
    """Functions of rows in the coordinates of the original."""

    @property
    def size(self) -> int:
        """Number of functions."""
        ...

    def __call__(self, z: Floats) -> Floats:
        """Return the functions of rows (n, D), (n, size)."""
        ...

    def shares(self, columns: int) -> Floats:
        """Return the share of each column in each function, (D, size); each function's add up to 1."""
        ...


class Columns(NamedTuple):
    r"""The columns :math:`z_j` and their squares; a column with two values has no square of its own."""

    linear: Annotated[Integers, "l <D"]
    squares: Annotated[Integers, "s <D"]

    @property
    def size(self) -> int:
        """Number of functions."""
        return len(self.linear) + len(self.squares)

    def __call__(self, z: Floats) -> Floats:
        """Return the functions of rows (n, D)."""
        columns = z.T
        return np.concatenate([columns[self.linear], np.square(columns[self.squares])]).T

    def shares(self, columns: int) -> Floats:
        """Return the share of each column in each function."""
        return _ones(columns, np.concatenate([self.linear, self.squares]))


class Hinges(NamedTuple):
    r"""Hinges :math:`(z_j - k)_+` on one column each: changes in the shape of a marginal."""

    columns: Annotated[Integers, "k <D"]
    knots: Annotated[Floats, "k"]

    @property
    def size(self) -> int:
        """Number of functions."""
        return len(self.columns)

    def __call__(self, z: Floats) -> Floats:
        """Return the functions of rows (n, D)."""
        return np.maximum(z.T[self.columns] - self.knots[:, None], 0.0).T

    def shares(self, columns: int) -> Floats:
        """Return the share of each column in each function."""
        return _ones(columns, self.columns)


class Steps(NamedTuple):
    r"""Indicators :math:`1\{z_j > k\}` on one column each: thresholds beyond which rows become more or fewer."""

    columns: Annotated[Integers, "k <D"]
    knots: Annotated[Floats, "k"]

    @property
    def size(self) -> int:
        """Number of functions."""
        return len(self.columns)

    def __call__(self, z: Floats) -> Floats:
        """Return the functions of rows (n, D)."""
        return (z.T[self.columns] > self.knots[:, None]).astype(np.float64).T

    def shares(self, columns: int) -> Floats:
        """Return the share of each column in each function."""
        return _ones(columns, self.columns)


class Products(NamedTuple):
    r"""Products :math:`z_i z_j` of two columns: changes of a correlation."""

    pairs: Annotated[Integers, "k 2 <D"]

    @property
    def size(self) -> int:
        """Number of functions."""
        return len(self.pairs)

    def __call__(self, z: Floats) -> Floats:
        """Return the functions of rows (n, D)."""
        columns = np.ascontiguousarray(z.T)
        out = columns[self.pairs[:, 0]]
        out *= columns[self.pairs[:, 1]]
        return out.T

    def shares(self, columns: int) -> Floats:
        """Return the share of each column in each function."""
        return 0.5 * (_ones(columns, self.pairs[:, 0]) + _ones(columns, self.pairs[:, 1]))


class Units(NamedTuple):
    r"""Random units :math:`(w^\top z + b)_+`, which never join: they show whether the model leaves anything out."""

    weight: Annotated[Floats, "D k"]
    bias: Annotated[Floats, "k"]

    @property
    def size(self) -> int:
        """Number of functions."""
        return len(self.bias)

    def __call__(self, z: Floats) -> Floats:
        """Return the functions of rows (n, D)."""
        return np.maximum(self.weight.T @ z.T + self.bias[:, None], 0.0).T

    def shares(self, columns: int) -> Floats:
        """Return the share of each column in each function."""
        square = np.square(self.weight)
        return np.asarray(square / square.sum(0))


def candidates(z: Floats, columns: Columns, mapped: Integers) -> list[Block]:
    """Return the blocks that may join a model of columns and squares, given the original's rows (n, D).

    Arguments:
        mapped: columns with normal scores, whose hinges the model has from the start.
    """
    lin, curved = columns.linear, columns.squares
    found: list[Block] = []
    rest = np.setdiff1d(curved, mapped)
    if len(rest):
        knots = np.quantile(z[:, rest], _KNOTS, axis=0).T
        found.append(Hinges(np.repeat(rest, len(_KNOTS)), knots.ravel()))
    if 2 <= len(lin) <= _PRODUCTS:
        i, j = pairs_of(len(lin))
        found.append(Products(np.stack([lin[i], lin[j]], 1)))
    if len(curved):
        knots = np.quantile(z[:, curved], _STEPS, axis=0).T
        found.append(Steps(np.repeat(curved, len(_STEPS)), knots.ravel()))
    d = z.shape[1]
    factors = _bends(lin, curved, d) + _triples(lin, d)
    if factors:
        found.append(Monomials(np.array(factors, dtype=np.int64)))
    if len(curved) >= 2 and d <= _TAILS:
        of = lessers(d)
        found.append(Lessers(of[np.isin(of[:, :2], curved).all(1)]))
    return found


def families(block: Block, columns: int) -> Integers:
    """Return the number of each function's family, (size,), given the number of columns D."""
    if isinstance(block, Hinges | Steps):
        return np.unique(block.columns, return_inverse=True)[1].astype(np.int64)
    if isinstance(block, Lessers):
        return np.repeat(np.arange(len(block.of)), block.size // max(len(block.of), 1))
    if isinstance(block, Monomials):
        # places of factors: columns, their squares, their signs, and none
        own = np.sort(np.where(block.factors == 3 * columns, -1, block.factors % columns), 1)
        return np.unique(own, axis=0, return_inverse=True)[1].ravel().astype(np.int64)
    return np.arange(block.size)


class Part(NamedTuple):
    """Some of the functions of a block."""

    block: Block
    own: npt.NDArray[np.bool_]

    @property
    def size(self) -> int:
        """Number of functions."""
        return int(self.own.sum())

    def __call__(self, z: Floats) -> Floats:
        """Return the functions of rows (n, D)."""
        return self.block(z)[:, self.own]

    def shares(self, columns: int) -> Floats:
        """Return the share of each column in each function."""
        return self.block.shares(columns)[:, self.own]


def part_of(block: Block, own: npt.NDArray[np.bool_]) -> Block:
    """Return some of the functions of a block; the others are not computed where that is easy."""
    if own.all():
        return block
    if isinstance(block, Hinges | Steps):
        return type(block)(block.columns[own], block.knots[own])
    if isinstance(block, Products):
        return Products(block.pairs[own])
    if isinstance(block, Monomials):
        return Monomials(block.factors[own])
    return Part(block, own)


def random_units(z: Floats, rng: np.random.Generator) -> Units:
    """Return random units: a third on all columns, the others on two or three; half of the rows are on either side."""
    d = z.shape[1]
    weight = np.zeros((d, _UNITS))
    for k in range(_UNITS):
        count = d if k % 3 == 0 else min(d, int(rng.integers(2, 4)))
        used = rng.permutation(d)[:count]
        weight[used, k] = rng.normal(size=count) / np.sqrt(count)
    along = z[:4000] @ weight
    places = [np.quantile(along[:, k], rng.uniform(0.1, 0.9)) for k in range(_UNITS)]
    return Units(weight, -np.array(places))


def _bends(lin: Integers, curved: Integers, d: int) -> list[tuple[int, int, int]]:
    """Products of a column and the square of another, and of two squares."""
    if len(lin) > _CURVES:
        return []
    found = [(int(j), d + int(i), 3 * d) for i in curved for j in lin if i != j]
    found += [(d + int(i), d + int(j), 3 * d) for i, j in combinations(curved, 2)]
    return found


def _triples(lin: Integers, d: int) -> list[tuple[int, int, int]]:
    """Products of three columns, and of their signs."""
    if len(lin) > _TRIPLES:
        return []
    found = [(int(i), int(j), int(k)) for i, j, k in combinations(lin, 3)]
    return found + [(2 * d + i, 2 * d + j, 2 * d + k) for i, j, k in found]


def _ones(columns: int, of: Integers) -> Floats:
    out = np.zeros((columns, len(of)))
    out[of, np.arange(len(of))] = 1.0
    return out
