"""Sums over rows for all curved products of columns at once."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from driftline._inputs import Floats
from driftline.fitting import Integers, Monomials, chunks, factors_of, is_companion, monomials, pairs_of, rows_in_cache

__all__ = ["CurveSums", "curve_means", "heaps_of"]

_SUFFICE = 2_000  # rows for a variance
_HEAP = 0.7  # share of rows with one value beyond which all others count: 0.3³ of 2,000 rows, 54, still tell a variance
_SOME = 250  # rows that show which value this is
Reals = npt.NDArray[np.floating[Any]]  # in single or double precision


class _Tested(NamedTuple):
    """Places of curved products of two and of three columns that are tested, not only come with others."""

    two: Integers
    three: Integers


@lru_cache(maxsize=32)
def _tested(columns: int) -> _Tested:
    factors = monomials(columns)
    two, own = factors[:, 2] == 3 * columns, ~is_companion(factors, columns)
    return _Tested(np.flatnonzero(two & own), np.flatnonzero(~two & own))


class CurveSums:
    """Sums of scores, and of their squares, over curved products of the columns that are in the model.

    A column of two values has no square of its own: candidates with it stay 0.

    Arguments:
        order: columns of the rows, those with more than two values first.
        curved: number of these.
        shift, rate: place and spread, (D,), that lead rows back to the coordinates of the original.
        rows: number of rows to come; variances are taken from no more of them than suffice.
        heaps: values of columns that all but some rows hold, (l,), nan where there is none. Variances are taken from
            all rows with another value: a product of two rare values may have one row, and stands out without it.
    """

    def __init__(
        self, order: Integers, curved: int, shift: Floats, rate: Floats, rows: int, heaps: Floats | None = None
    ) -> None:
        self._d, l, self._every = len(shift), len(order), max(1, rows // _SUFFICE)
        self._heaped = np.flatnonzero(np.isfinite(heaps)) if heaps is not None and self._every > 1 else order[:0]
        self._heaps = None if heaps is None else heaps[self._heaped].astype(np.float32)[:, None]
        self._factors = monomials(self._d)
        self._rate, self._shift = (value[order].astype(np.float32)[:, None] for value in (rate, shift))
        self._moved = bool((rate != 1.0).any() or shift.any())
        self._at, self._curved = np.concatenate([order, self._d + order[:curved]]), curved
        self._two = np.zeros((2, len(self._at), curved))
        self._pairs = pairs_of(l if len(_tested(self._d).three) else 0)
        self._order, self._three = order, np.zeros((2, len(self._pairs[0]), l))

    def add(self, columns: Reals, score: Reals, variance: Reals) -> None:
        """Add the sums over rows, given by columns (l, n)."""
        if not len(self._factors):
            return
        some, times = self._some(columns)
        columns = columns * self._rate + self._shift if self._moved else columns
        basis = factors_of(columns, self._curved)
        self._add(basis, score, 0)
        self._add(np.square(basis[:, some]), times * variance[some], 1)

    def _some(self, columns: Reals) -> tuple[slice | Integers, float | Reals]:
        """Return the rows that variances are taken from, and how many rows each of them stands for."""
        if not len(self._heaped):
            return slice(None, None, self._every), float(self._every)
        rare = (columns[self._heaped] != self._heaps).any(0)
        common = np.flatnonzero(~rare)
        some = common[:: self._every]
        each = len(common) / max(len(some), 1)
        found = np.concatenate([some, np.flatnonzero(rare)])
        return found, np.repeat(np.array([each, 1.0], dtype=np.float32), [len(some), len(found) - len(some)])

    def _add(self, basis: Reals, weight: Reals, at: int) -> None:
        weighted, l = basis * weight, len(self._order)
        self._two[at] += basis @ weighted[l:].T  # one of two factors is a square
        if len(self._pairs[0]):
            products = basis[self._pairs[0]] * basis[self._pairs[1]]
            self._three[at] += products @ weighted[:l].T

    @property
    def sums(self) -> Floats:
        """The sums for all curved products, (2, m); 0 for those that only come with others."""
        d, out, tested = self._d, np.zeros((2, len(self._factors))), _tested(self._d)
        table = np.zeros((2, 2 * d, 2 * d))
        table[:, self._at[:, None], self._at[len(self._order) :]] = self._two
        one, other, _ = self._factors[tested.two].T
        out[:, tested.two] = table[:, one, other]
        if len(tested.three):
            cube = np.zeros((2, d, d, d))
            i, j = (self._order[side][:, None] for side in self._pairs)
            triples = np.sort(np.stack(np.broadcast_arrays(i, j, self._order[None]), -1), -1)
            cube[:, triples[..., 0], triples[..., 1], triples[..., 2]] = self._three
            a, b, c = self._factors[tested.three].T
            out[:, tested.three] = cube[:, a, b, c]
        return out


def heaps_of(columns: Floats) -> Floats:
    """Return the value that all but some of the rows (n, l) hold in a column, nan where there is none; (l,)."""
    sample = columns[:: max(1, len(columns) // _SOME)]
    middle = np.median(sample, axis=0)
    return np.where((sample == middle).mean(0) > _HEAP, middle, np.nan)


def curve_means(z: Floats) -> Floats:
    """Return the means of all curved products over rows (n, D) in the coordinates of the original, (m,)."""
    d = z.shape[1]
    factors = monomials(d)
    sums, others = CurveSums(np.arange(d), d, np.zeros(d), np.ones(d), len(z)), is_companion(factors, d)
    rest, total = Monomials(factors[others]), np.zeros(int(others.sum()))
    for at in chunks(len(z), rows_in_cache(max(len(total), 2 * d))):
        rows = z[at]
        sums.add(np.ascontiguousarray(rows.T), np.ones(len(rows)), np.zeros(len(rows)))
        total += rest(rows).sum(0)
    out = sums.sums[0]
    out[others] = total
    return np.asarray(out / len(z))
