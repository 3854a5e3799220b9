"""Design matrices as the solver sees them: products with vectors, and weighted Gram matrices.

Vector products are exact (double). Gram matrices come from products in single precision, which is all that a curvature
or a covariance needs, at half the price; a log-linear design holds its columns in single precision for them, and is
made once for a window and all that is asked about it.
"""

from __future__ import annotations

import copy
import math
from functools import cached_property
from typing import NamedTuple, Protocol, Self

import numpy as np
import numpy.typing as npt

from driftline._inputs import Floats
from driftline.fitting._chunks import CHUNK, Integers, chunks, rows_in_cache, score_rows
from driftline.fitting._features import Features
from driftline.fitting._models import LogLinear, Psi, Stacked

__all__ = ["Dense", "Design", "LogLinearDesign", "design_of", "gram_of"]

Singles = npt.NDArray[np.float32]

_SHORT = 32  # rows of a block up to which it is summed row by row, for all blocks at once: reduceat is slow for these


class Design(Protocol):
    """An (n, p) matrix, known only by its products."""

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        ...

    def dot(self, coef: Floats) -> Floats:
        """Return the matrix times a vector (p,), a vector (n,)."""
        ...

    def pull(self, values: Floats) -> Floats:
        """Return a vector (n,) times the matrix, a vector (p,)."""
        ...

    def tally(self, values: Floats) -> Floats:
        """Return what :meth:`pull` does, with the precision that a covariance needs, (p,)."""
        ...

    def gram(self, weights: Floats) -> Floats:
        """Return the weighted sum of outer products of the rows, (p, p)."""
        ...

    def forms(self, matrix: Floats) -> Floats:
        """Return the quadratic form ``row @ matrix @ row`` of each row, (n,)."""
        ...

    def sums(self, values: Floats, size: int) -> Floats:
        """Return sums of ``values * row`` over blocks of ``size`` rows, (n / size rounded up, p)."""
        ...

    def thin(self, every: int) -> Design:
        """Keep every ``every``-th row."""
        ...

    def pick(self, rows: Integers) -> Self:
        """Keep the rows at these places."""
        ...

    def take(self, start: int, stop: int, every: int) -> Floats:
        """Return every ``every``-th row from ``start`` to ``stop`` as a plain matrix, (rows, p)."""
        ...


def gram_of(matrix: Singles | Floats, weights: Floats) -> Floats:
    """Return the weighted sum of outer products of rows (n, p), by products in single precision, (p, p).

    Where no weight is negative, rows are multiplied by its root: of a matrix times its own transpose one half is
    computed.
    """
    p = matrix.shape[1]
    # weights are divided by their largest magnitude, so that squared per-row scores stay within float32's range
    size = max(float(np.abs(weights).max()), np.finfo(np.float64).tiny) if len(weights) else 1.0
    signed = bool(len(weights)) and float(weights.min()) < 0.0
    factors = (weights / size) if signed else np.sqrt(weights / size)
    factors = factors.astype(np.float32)[:, None]
    out, work = np.zeros((p, p)), np.empty((min(CHUNK, len(matrix)), p), dtype=np.float32)
    for at in chunks(len(matrix)):
        rows = matrix[at]
        part = work[: len(rows)]
        np.multiply(rows, factors[at], out=part, casting="same_kind")
        out += (rows.astype(np.float32, copy=False).T if signed else part.T) @ part
    out *= size
    return out


def forms_of(matrix: Singles | Floats, form: Floats) -> Floats:
    """Return the quadratic form of each row of a matrix, (n,)."""
    out, form = np.empty(len(matrix)), form.astype(matrix.dtype)
    for at in chunks(len(matrix)):
        rows = matrix[at]
        out[at] = np.einsum("ij,ij->i", rows @ form, rows)
    return out


def sums_of(matrix: Singles | Floats, values: Floats, size: int) -> Floats:
    """Return sums of ``values * row`` over blocks of ``size`` rows."""
    starts = np.arange(0, len(matrix), size)
    out = np.empty((len(starts), matrix.shape[1]))
    stretch = max(1, CHUNK // size)
    for first in range(0, len(starts), stretch):
        at = slice(first * size, (first + stretch) * size)
        products, part = matrix[at] * values[at, None], out[first : first + stretch]
        if size > _SHORT:
            part[:] = np.add.reduceat(products, np.arange(0, len(products), size), axis=0)
            continue
        part[:] = products[::size]
        for k in range(1, size):
            more = products[k::size]  # the last block may be shorter
            part[: len(more)] += more
    return out


class Dense(NamedTuple):
    """A matrix held in memory."""

    matrix: Floats

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        return self.matrix.shape[0], self.matrix.shape[1]

    def dot(self, coef: Floats) -> Floats:
        """Return the matrix times a vector (p,)."""
        return self.matrix @ coef

    def pull(self, values: Floats) -> Floats:
        """Return a vector (n,) times the matrix."""
        return values @ self.matrix

    def tally(self, values: Floats) -> Floats:
        """Return a vector (n,) times the matrix."""
        return self.pull(values)

    def gram(self, weights: Floats) -> Floats:
        """Return the weighted sum of outer products of the rows."""
        return gram_of(self.matrix, weights)

    def sums(self, values: Floats, size: int) -> Floats:
        """Return sums over blocks of rows."""
        return sums_of(self.matrix, values, size)

    def forms(self, matrix: Floats) -> Floats:
        """Return the quadratic form of each row."""
        return forms_of(self.matrix, matrix)

    def thin(self, every: int) -> Dense:
        """Keep every ``every``-th row."""
        return Dense(self.matrix[::every])

    def pick(self, rows: Integers) -> Dense:
        """Keep the rows at these places."""
        return Dense(self.matrix[rows])

    def take(self, start: int, stop: int, every: int) -> Floats:
        """Return every ``every``-th row from ``start`` to ``stop``."""
        return self.matrix[start:stop:every]


class LogLinearDesign:
    """Features of standardised rows z (n, D) and a last column of ones.

    ``live`` holds the columns that are features, (n, l), those that have squares first; ``order`` are their numbers.
    ``crossed`` (n, k) are values of the last k features, if these were learned from the rows: by those parts of them
    that have not seen the row.
    """

    def __init__(self, features: Features, z: Floats, crossed: Floats | None = None) -> None:
        self.features = features
        self.z = z
        self.crossed = crossed
        self.shape = len(z), features.size + 1
        self._base, self._curved = features.base, len(features.squares)
        self.order = features.squares
        if len(features.linear) > self._curved:
            others = features.linear[~np.isin(features.linear, features.squares)]
            self.order = np.concatenate([features.squares, others])
        self.live = z if np.array_equal(self.order, np.arange(z.shape[1])) else np.take(z, self.order, axis=1)
        place = np.empty(features.columns, dtype=np.int64)
        place[self.order] = np.arange(len(self.order))
        self._place = place[features.linear]  # of each column among the live ones
        self._thinned: dict[int, LogLinearDesign] = {}
        self._kept: tuple[Floats, Floats] | None = None
        self._even: tuple[float, Floats] | None = None

    @cached_property
    def _extra(self) -> Floats:
        """Pairs, units and learned features, centred and scaled, (n, k + u + ...)."""
        out = self.features.extra(self.z)
        self._cross(out, slice(None))
        return out

    def _cross(self, out: Floats, rows: slice) -> None:
        """Write the values of features that were learned from these rows to the last columns."""
        if self.crossed is None:
            return
        k = self.crossed.shape[1]
        out[:, out.shape[1] - k :] = (self.crossed[rows] - self.features.center[-k:]) / self.features.scale[-k:]

    @cached_property
    def single(self) -> Singles:
        """The whole matrix in single precision, (n, p + 1)."""
        features, (n, p), base, s = self.features, self.shape, self._base, self._curved
        out, l = np.empty((n, p), dtype=np.float32), len(features.linear)
        in_order = np.array_equal(self._place, np.arange(l))
        center, rate = features.center[:base].astype(np.float32), (1.0 / features.scale[:base]).astype(np.float32)
        for at in chunks(n, rows_in_cache(p)):
            rows, part = self.live[at], out[at]
            part[:, :l] = rows if in_order else rows[:, self._place]
            np.multiply(rows[:, :s], rows[:, :s], out=part[:, l:base], casting="same_kind")
            part[:, :base] -= center
            part[:, :base] *= rate
        if p - 1 > base:
            out[:, base:-1] = self._extra
        out[:, -1] = 1.0
        return out

    @cached_property
    def top(self) -> Singles:
        """The largest magnitude of each feature that was learned, (k,)."""
        learned = sum(other.size for other in self.features.others)
        values = self.single[:, self.shape[1] - 1 - learned : -1]
        return np.asarray(np.maximum(values.max(0), -values.min(0)))

    def dot(self, coef: Floats) -> Floats:
        """Return the matrix times a vector (p,)."""
        features, base, l = self.features, self._base, len(self._place)
        weights = coef[:base] / features.scale[:base]
        linear = np.empty(l)
        linear[self._place] = weights[:l]
        out = np.empty(self.shape[0])
        score_rows(self.live, linear, weights[l:], out)
        out += float(coef[-1] - (features.center[:base] * weights).sum())
        if len(coef) - 1 > base:
            out += self._extra @ coef[base:-1]
        return out

    def pull(self, values: Floats) -> Floats:
        """Return a vector (n,) times the matrix; of equal values made once, since every fit starts with it.

        Another value is taken from that only if their ratio is a power of two: then not even the last digit changes.
        """
        first = float(values[0]) if len(values) else 0.0
        if not first or not (values == first).all():
            return self._pulled(values)
        if self._even is None or abs(math.frexp(first / self._even[0])[0]) != 0.5:
            self._even = first, self._pulled(values)
        return self._even[1] * (first / self._even[0])

    def _pulled(self, values: Floats) -> Floats:
        features, base, s = self.features, self._base, self._curved
        n, l = self.live.shape
        size = rows_in_cache(l)
        first, second, work = np.zeros(l), np.zeros(s), np.empty((min(size, n), s))
        for at in chunks(n, size):
            rows, part = self.live[at], values[at]
            first += part @ rows
            if s:
                square = work[: len(rows)]
                np.multiply(rows[:, :s], rows[:, :s], out=square)
                second += part @ square
        total = float(values.sum())
        sums = np.concatenate([first[self._place], second])
        sums -= features.center[:base] * total
        sums /= features.scale[:base]
        rest = values @ self._extra if self.shape[1] - 1 > base else np.zeros(0)
        return np.concatenate([sums, rest, [total]])

    def tally(self, values: Floats) -> Floats:
        """Return a vector (n,) times the matrix, in single precision."""
        size = max(float(np.abs(values).max()), 1e-300)
        return np.asarray(((values / size).astype(np.float32) @ self.single).astype(np.float64) * size)

    def gram(self, weights: Floats) -> Floats:
        """Return the weighted sum of outer products of the rows; with one weight for all of them, made once."""
        first = float(weights[0]) if len(weights) else 0.0
        if first > 0.0 and (weights == first).all():
            return self._plain * first
        if self._kept is not None and np.array_equal(self._kept[0], weights):
            return self._kept[1].copy()
        return gram_of(self.single, weights)

    def keep(self, weights: Floats, gram: Floats) -> None:
        """Keep the Gram matrix with these weights, which something else has needed: it will be asked for again."""
        self._kept = weights, gram

    @cached_property
    def _plain(self) -> Floats:
        """The sum of outer products of the rows: every fit starts with it, and a window is in two of them."""
        return gram_of(self.single, np.ones(self.shape[0]))

    def sums(self, values: Floats, size: int) -> Floats:
        """Return sums over blocks of rows."""
        return sums_of(self.single, values, size)

    def forms(self, matrix: Floats) -> Floats:
        """Return the quadratic form of each row."""
        return forms_of(self.single, matrix)

    def thin(self, every: int) -> LogLinearDesign:
        """Keep every ``every``-th row; the same is not made twice."""
        if every in self._thinned:
            return self._thinned[every]
        out = self._thinned[every] = self._part(slice(None, None, every))
        return out

    def pick(self, rows: Integers) -> LogLinearDesign:
        """Keep the rows at these places."""
        return self._part(rows)

    def _part(self, rows: slice | Integers) -> LogLinearDesign:
        z = np.ascontiguousarray(self.z[rows])
        out = copy.copy(self)
        out.z, out.shape = z, (len(z), self.shape[1])
        out.crossed = None if self.crossed is None else np.ascontiguousarray(self.crossed[rows])
        out.live = z if self.live is self.z else np.ascontiguousarray(self.live[rows])
        for made in ("_extra", "single"):  # no need to make these again
            if made in self.__dict__:
                out.__dict__[made] = np.ascontiguousarray(self.__dict__[made][rows])
        out._thinned, out._kept, out._even = {}, None, None
        for whole in ("_plain", "top"):
            out.__dict__.pop(whole, None)
        return out

    def take(self, start: int, stop: int, every: int) -> Floats:
        """Return every ``every``-th row from ``start`` to ``stop``."""
        rows = slice(start, stop, every)
        if "_extra" not in self.__dict__:
            out = self.features.design(self.z[rows])
            self._cross(out[:, :-1], rows)
            return out
        base = self._base
        plain = self.features.beginning
        out = np.empty((len(self.z[rows]), self.shape[1]))
        out[:, :base], out[:, base:-1], out[:, -1] = plain.design(self.z[rows])[:, :-1], self._extra[rows], 1.0
        return out


def design_of(psi: Psi, x: Floats) -> Design | None:
    """Return the design in which psi of raw rows (n, D) is linear, or None if there is none.

    It consists of log-linear features, or of the activations of an MLP's last hidden layer.
    """
    if isinstance(psi, LogLinear):
        return LogLinearDesign(psi.features, psi.standardizer(x))
    if isinstance(psi, Stacked):
        return design_of(psi.before, psi.old(x))
    design: Design | None = psi.design(x)  # type: ignore[attr-defined]
    return design
