"""Features of a log-linear model: the statistics T(x)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, NamedTuple

import numpy as np
import numpy.typing as npt

from driftline._inputs import Floats
from driftline.fitting._chunks import CHUNK, Integers, chunks
from driftline.fitting._learned import Learned

__all__ = ["Features", "fit_features"]

_THIRD = 25  # rows of a window beyond the two most common values of a column, from which on its square says more
_THIRD_SHARE = 0.1  # or this share of the rows, in small windows
_SOME = 250  # rows that show whether most values of a column differ


class Features(NamedTuple):
    r"""The statistics :math:`T(x)` of a log-linear model, each centred and scaled once.

    Their order is: columns (``linear``), squares of columns (``squares``), products of ``pairs`` of columns, ridge
    units :math:`\max(0, w^\top z + b)`, and ``others`` that were learned. A column that has been constant so far is not
    among them, nor the square of one with two values, which says what the column says; ``curved`` says whether squares
    belong to the model at all.

    Shapes: linear (l,), squares (s,), pairs (k, 2), weight (D, u), bias (u,), center and scale (p,).
    """

    linear: Annotated[Integers, "l <D"]
    squares: Annotated[Integers, "s <D"]
    pairs: Annotated[Integers, "k 2 <D"]
    weight: Annotated[Floats, "D u"]
    bias: Annotated[Floats, "u"]
    center: Annotated[Floats, "P"]
    scale: Annotated[Floats, "P"]
    curved: bool = True
    others: tuple[Learned, ...] = ()

    def check(self) -> None:
        """Refuse columns twice, squares of columns that are not there, and a wrong number of features."""
        size = self.base + len(self.pairs) + len(self.bias) + sum(other.size for other in self.others)
        if size != self.size:
            raise ValueError(f"it has centres of {self.size} features, and {size} features")
        linear, squares = set(self.linear.tolist()), set(self.squares.tolist())
        if len(linear) + len(squares) != self.base or not squares <= linear:
            raise ValueError("it has columns twice, or squares of columns that it does not have")

    @property
    def size(self) -> int:
        """Number of features p."""
        return len(self.center)

    @property
    def columns(self) -> int:
        """Number of input columns D."""
        return len(self.weight)

    @property
    def base(self) -> int:
        """Number of columns and squares among the features."""
        return len(self.linear) + len(self.squares)

    @property
    def beginning(self) -> Features:
        """Columns and squares alone."""
        bare = self._replace(pairs=self.pairs[:0], weight=self.weight[:, :0], bias=self.bias[:0], others=())
        return bare._replace(center=self.center[: self.base], scale=self.scale[: self.base])

    def fill(self, z: Floats, out: Floats) -> None:
        """Write the features of standardised rows (n, D), not yet centred and scaled, to ``out`` (n, p)."""
        l, base, k = len(self.linear), self.base, len(self.pairs)
        out[:, :l] = z[:, self.linear]
        if base > l:
            squared = z[:, self.squares]
            np.multiply(squared, squared, out=out[:, l:base])
        if k:
            np.multiply(z[:, self.pairs[:, 0]], z[:, self.pairs[:, 1]], out=out[:, base : base + k])
        if len(self.bias):
            units = z @ self.weight
            units += self.bias
            np.maximum(units, 0.0, out=out[:, base + k : base + k + len(self.bias)])
        at = base + k + len(self.bias)
        for other in self.others:
            out[:, at : at + other.size] = other(z)
            at += other.size

    def design(self, z: Floats) -> Floats:
        """Return the features with a last column of ones, (n, p + 1)."""
        out = np.empty((z.shape[0], self.size + 1))
        rate = 1.0 / self.scale
        for at in chunks(len(z)):
            part = out[at, :-1]
            self.fill(z[at], part)
            part -= self.center
            part *= rate
        out[:, -1] = 1.0
        return out

    def extra(self, z: Floats) -> Floats:
        """Return the pairs and units alone, centred and scaled, (n, k + u)."""
        base = self.base
        out = np.empty((z.shape[0], self.size - base))
        if out.shape[1] == 0:
            return out
        bare = self._replace(linear=self.linear[:0], squares=self.squares[:0])
        rate = 1.0 / self.scale[base:]
        for at in chunks(len(z)):
            bare.fill(z[at], out[at])
            out[at] -= self.center[base:]
            out[at] *= rate
        return out

    def beyond_squares(self, z: Floats, weights: Floats) -> Floats:
        """Return the part of pairs and units in a score, for weights (p,) of the uncentred features."""
        base, k, u = self.base, len(self.pairs), len(self.bias)
        out = np.zeros(z.shape[0])
        if k > self.columns:  # many pairs: one matrix product beats gathering the columns
            form = np.zeros((self.columns, self.columns))
            form[self.pairs[:, 0], self.pairs[:, 1]] = weights[base : base + k]
            out += np.einsum("ij,ij->i", z @ form, z)
        elif k:
            out += (z[:, self.pairs[:, 0]] * z[:, self.pairs[:, 1]]) @ weights[base : base + k]
        if u:
            units = z @ self.weight
            units += self.bias
            out += np.maximum(units, 0.0, out=units) @ weights[base + k : base + k + u]
        at = base + k + u
        for other in self.others:
            out += other(z) @ weights[at : at + other.size]
            at += other.size
        return out

    def by_column(self, weights: Floats) -> tuple[Floats, Floats]:
        """Return the weights (p,) of columns and of squares as two vectors over all columns, (D,) each."""
        linear, square = np.zeros(self.columns), np.zeros(self.columns)
        linear[self.linear] = weights[: len(self.linear)]
        square[self.squares] = weights[len(self.linear) : self.base]
        return linear, square

    def extend(
        self,
        z: Floats,
        *,
        linear: Integers | None = None,
        squares: Integers | None = None,
        pairs: Integers | None = None,
        weight: Floats | None = None,
        bias: Floats | None = None,
        others: tuple[Learned, ...] = (),
        also: Floats | None = None,
    ) -> Features:
        """Add features to these, the new ones centred and scaled on ``z``.

        If rows of another window are given (``also``), scales are those of both: what was constant until now, and moves
        there, would be of any size in units of its first spread.
        """
        none = np.zeros(0, dtype=np.int64)
        new = (
            none if linear is None else linear,
            none if squares is None else squares,
            none.reshape(0, 2) if pairs is None else pairs,
            np.zeros((self.columns, 0)) if weight is None else weight,
            np.zeros(0) if bias is None else bias,
            others,
        )
        fresh = _fitted(z, *new)
        if also is not None:
            fresh = fresh._replace(scale=_fitted(np.concatenate([z, also]), *new).scale)
        cuts, more = self._cuts(), fresh._cuts()

        def merge(a: Floats, b: Floats) -> Floats:
            return np.concatenate([side[cut] for at in range(5) for side, cut in ((a, cuts[at]), (b, more[at]))])

        return Features(
            np.concatenate([self.linear, fresh.linear]),
            np.concatenate([self.squares, fresh.squares]),
            np.concatenate([self.pairs, fresh.pairs]),
            np.concatenate([self.weight, fresh.weight], 1),
            np.concatenate([self.bias, fresh.bias]),
            merge(self.center, fresh.center),
            merge(self.scale, fresh.scale),
            self.curved,
            self.others + others,
        )

    @property
    def prior(self) -> Floats:
        """Weight of the prior on each coefficient and on the constant, (p + 1,).

        A column with two values has half of it: the square that is left out would share its coefficient.
        """
        out = np.ones(self.size + 1)
        if self.curved and len(self.squares) < len(self.linear):
            out[: len(self.linear)] = np.where(np.isin(self.linear, self.squares), 1.0, 0.5)
        return out

    def awake(self, *windows: Floats) -> tuple[Integers, Integers]:
        """Return columns that vary in standardised windows, and columns with more than two values, not here yet.

        A third value counts from some rows on: the coefficient of a square that rests on a row or two may be anything.
        """
        if len(self.linear) == self.columns and (not self.curved or len(self.squares) == self.columns):
            return self.linear[:0], self.squares[:0]  # all are here, as they mostly are
        still = np.setdiff1d(np.arange(self.columns), self.linear)
        moved = still[[any(z[:, j].any() for z in windows) for j in still]] if len(still) else still
        if not self.curved:
            return moved, self.squares[:0]
        known = np.concatenate([self.linear, moved])
        plain = np.setdiff1d(known, self.squares)
        return moved, plain[_have_three([z[:, plain] for z in windows])] if len(plain) else plain

    def _cuts(self) -> list[slice]:
        """Return the places of columns, squares, pairs, units and others among the features."""
        learned = sum(other.size for other in self.others)
        ends = np.cumsum([0, len(self.linear), len(self.squares), len(self.pairs), len(self.bias), learned])
        return [slice(int(a), int(b)) for a, b in pairwise(ends)]

    def kinds(self) -> list[slice]:
        """Return the places of each kind of features: columns, squares, pairs, units, and what was learned at once."""
        *plain, learned = self._cuts()
        ends = learned.start + np.cumsum([0, *(other.size for other in self.others)])
        found = [*plain, *(slice(int(a), int(b)) for a, b in pairwise(ends))]
        return [cut for cut in found if cut.stop > cut.start]

    def framed(self, shift: Floats, rate: Floats, rows: Floats) -> Features:
        """Return the same features for the frame around ``shift`` with spread ``rate``, fitted on rows in it."""
        moved = self._replace(weight=self.weight * rate[:, None], bias=self.bias + shift @ self.weight)
        others = tuple(other.framed(shift, rate) for other in self.others)
        return _fitted(rows, *moved[:5], others)._replace(curved=self.curved)

    def express(self, coef: Floats, into: Features, shift: Floats, rate: Floats) -> Floats:
        """Return coefficients (p + 1, k), the constant's last, of the same functions in terms of other features.

        ``into`` are the same features in the frame around ``shift`` with spread ``rate``, see :meth:`framed`; rows are
        ``z = shift + rate * z_into``.
        """
        raw, constant = coef[:-1] / self.scale[:, None], coef[-1].copy()
        constant -= self.center @ raw
        lines, squares, pairs, units, others = (raw[cut].copy() for cut in self._cuts())
        at = np.zeros(self.columns, dtype=np.int64)
        at[self.linear] = np.arange(len(self.linear))
        m, s = shift, rate
        constant += m[self.linear] @ lines + m[self.squares] ** 2 @ squares
        lines *= s[self.linear, None]
        np.add.at(lines, at[self.squares], (2.0 * m * s)[self.squares, None] * squares)
        squares *= (s**2)[self.squares, None]
        if len(pairs):
            a, b = self.pairs.T
            constant += (m[a] * m[b]) @ pairs
            np.add.at(lines, at[a], (s[a] * m[b])[:, None] * pairs)
            np.add.at(lines, at[b], (s[b] * m[a])[:, None] * pairs)
            pairs *= (s[a] * s[b])[:, None]
        raw = np.concatenate([lines, squares, pairs, units, others])
        constant += into.center @ raw
        return np.concatenate([raw * into.scale[:, None], constant[None]])

    def carry(self, means: Floats, into: Features, shift: Floats, rate: Floats) -> Floats:
        """Return the means (p,) of other features of the same rows; ``into``, ``shift`` and ``rate`` as in express."""
        raw = means * self.scale + self.center
        lines, squares, pairs, units, others = (raw[cut] for cut in self._cuts())
        at, (m, s) = np.zeros(self.columns), (shift, rate)
        at[self.linear] = lines
        squares = (squares - 2.0 * (m * at)[self.squares] + m[self.squares] ** 2) / s[self.squares] ** 2
        a, b = self.pairs.T
        pairs = (pairs - m[a] * at[b] - m[b] * at[a] + m[a] * m[b]) / (s[a] * s[b])
        moved = np.concatenate([((at - m) / s)[self.linear], squares, pairs, units, others])
        return np.asarray((moved - into.center) / into.scale)

    def positions(self, into: Features) -> Integers:
        """Return the indices of these features among those of ``into``, which extends them; (p,)."""
        pairs = zip(self._cuts(), into._cuts(), strict=True)
        return np.concatenate([np.arange(b.start, b.start + a.stop - a.start) for a, b in pairs])


def fit_features(
    z: Floats,
    *,
    squares: bool = True,
    pairs: Integers | None = None,
    weight: Floats | None = None,
    bias: Floats | None = None,
    sparing: bool = False,
) -> Features:
    """Build features that are centred and scaled on standardised rows ``z``: columns, their squares, and others.

    ``sparing`` leaves out constant columns and squares of two-valued ones, see :meth:`Features.awake`.
    """
    every = np.arange(z.shape[1])
    bare = Features(
        every[:0] if sparing else every,
        every if squares and not sparing else every[:0],
        np.zeros((0, 2), dtype=np.int64) if pairs is None else pairs,
        np.zeros((z.shape[1], 0)) if weight is None else weight,
        np.zeros(0) if bias is None else bias,
        np.zeros(0),
        np.zeros(0),
        squares,
    )
    if sparing:
        linear, curved = bare.awake(z)
        bare = bare._replace(linear=linear, squares=curved)
    return _fitted(z, *bare[:5])._replace(curved=squares)


def _fitted(
    z: Floats,
    linear: Integers,
    squares: Integers,
    pairs: Integers,
    weight: Floats,
    bias: Floats,
    others: tuple[Learned, ...] = (),
) -> Features:
    bare = Features(linear, squares, pairs, weight, bias, np.zeros(0), np.zeros(0), others=others)
    size = bare._cuts()[-1].stop
    total, square = np.zeros(size), np.zeros(size)
    if size:
        raw = np.empty((min(CHUNK, len(z)), size))
        for at in chunks(len(z)):
            rows = z[at]
            part = raw[: len(rows)]
            bare.fill(rows, part)
            total += part.sum(0)
            square += np.einsum("ij,ij->j", part, part)
    center = total / z.shape[0]
    spread = np.sqrt(np.maximum(square / z.shape[0] - center * center, 0.0))
    scale = np.where(spread <= 1e-7 * (1.0 + np.abs(center)), 1.0, spread)
    return bare._replace(center=center, scale=scale)


def _have_three(parts: Sequence[Floats]) -> npt.NDArray[np.bool_]:
    """Say which columns hold at least three values in all parts (n, k) together, and the third on some rows; (k,)."""
    low, high = np.min([part.min(0) for part in parts], axis=0), np.max([part.max(0) for part in parts], axis=0)
    out = np.asarray(np.any([((part != low) & (part != high)).any(0) for part in parts], axis=0))
    rows = sum(len(part) for part in parts)
    # twice as many in each of two windows: what the original had too few of must not join by chance later
    least = min(_THIRD * len(parts) ** 2, _THIRD_SHARE * rows)
    for j in np.flatnonzero(out):
        some = np.concatenate([part[:: max(1, len(part) // _SOME), j] for part in parts])
        if _beyond_two(some) < 0.5 * len(some):  # not a column whose values all differ
            out[j] = _beyond_two(np.concatenate([part[:, j] for part in parts])) >= least
    return out


def _beyond_two(values: Floats) -> int:
    """Count the rows whose value is none of the two most common ones."""
    counts = np.unique(values, return_counts=True)[1]
    return int(len(values) - np.sort(counts)[-2:].sum())
