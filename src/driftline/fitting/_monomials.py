r"""Curved products: bounded monomials of two or three columns, for dependence that no correlation shows.

With :math:`c = \operatorname{clip}(z, \pm 3.5)` and :math:`h = c^2 - 1`, these are :math:`h_i c_j` (a dependence that
bends), :math:`h_i h_j` (columns that are far out together) and :math:`c_i c_j c_k` (three columns at once). Two of them
bring companions. A column that follows the bend of another has the log-ratio :math:`(c_j - b h_i)^2 - c_j^2`, so
:math:`h_i c_j` comes with :math:`h_i^2`. An interaction of three columns is as often one of their signs as one of their
sizes, so :math:`c_i c_j c_k` comes with :math:`s_i s_j s_k`, where :math:`s = \operatorname{clip}(4z, \pm 1)`.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations, combinations_with_replacement, permutations
from typing import Annotated, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from driftline._inputs import Floats
from driftline.fitting._chunks import Integers

__all__ = ["Monomials", "companions", "factors_of", "is_companion", "monomials", "place_of"]

_FAR = 3.5  # standard deviations of the original, beyond which a column is taken as constant
_STEEP = 4.0  # slope of a sign, which ends a quarter of a standard deviation from 0
_TWO = 40  # columns; with more, products of two would cost more than the fit
_THREE = 16  # the same for products of three


class Monomials(NamedTuple):
    """Products of three factors each, of rows in the coordinates of the original.

    ``factors`` (k, 3) are places among the clipped columns c (0 to D - 1), their squares h (D to 2 D - 1), signs s
    (2 D to 3 D - 1) and the one that stands for no factor (3 D).
    """

    factors: Annotated[Integers, "k 3"]

    @property
    def size(self) -> int:
        """Number of features."""
        return len(self.factors)

    def __call__(self, z: Floats) -> Floats:
        """Return the features of rows (n, D), (n, size)."""
        signs = np.clip(_STEEP * z.T, -1.0, 1.0)
        basis = np.concatenate([factors_of(z.T, z.shape[1]), signs, np.ones((1, len(z)))])
        out = basis[self.factors[:, 0]]
        out *= basis[self.factors[:, 1]]
        out *= basis[self.factors[:, 2]]
        return out.T

    def shares(self, columns: int) -> Floats:
        """Return the share of each column in each feature, (D, size): by its degree."""
        out = np.zeros((columns, self.size))
        for factor in self.factors.T:
            real = factor < 3 * columns
            degree = 1.0 + (factor[real] // columns == 1)
            np.add.at(out, (factor[real] % columns, np.flatnonzero(real)), degree)
        return np.asarray(out / out.sum(0))


def factors_of(columns: npt.NDArray[Any], curved: int) -> npt.NDArray[Any]:
    """Return columns (D, n), clipped, and the squares less 1 of the first ones, (D + curved, n)."""
    d = len(columns)
    out = np.empty((d + curved, columns.shape[1]), dtype=columns.dtype)
    np.clip(columns, -_FAR, _FAR, out=out[:d])
    np.square(out[:curved], out=out[d:])
    out[d:] -= 1.0
    return out


@lru_cache(maxsize=32)
def monomials(columns: int) -> Integers:
    """Return the factors of all curved products of this many columns, (m, 3), in the order of their numbers.

    >>> monomials(2).tolist()
    [[0, 3, 6], [1, 2, 6], [2, 2, 6], [2, 3, 6], [3, 3, 6]]
    """
    d, found = columns, []
    if 2 <= d <= _TWO:
        found += [(j, d + i, 3 * d) for i, j in permutations(range(d), 2)]
        found += [(d + i, d + j, 3 * d) for i, j in combinations_with_replacement(range(d), 2)]
    if d <= _THREE:
        found += [(*at,) for of in (0, 2 * d) for at in combinations(range(of, of + d), 3)]
    out = np.array(sorted(found), dtype=np.int64).reshape(-1, 3)
    out.setflags(write=False)
    return out


def companions(factors: Integers, columns: int) -> Integers:
    """Return the curved products that come with others (k, 3), (l, 3)."""
    d = columns
    bent = factors[(factors[:, 0] < d) & (factors[:, 1] >= d), 1]
    squares = np.stack([bent, bent, np.full_like(bent, 3 * d)], 1)
    signs = factors[factors[:, 2] < d] + 2 * d
    return np.unique(np.concatenate([squares, signs]), axis=0)


def is_companion(factors: Integers, columns: int) -> npt.NDArray[np.bool_]:
    """Say which curved products (k, 3) only come with others, (k,)."""
    return np.asarray((factors[:, 0] == factors[:, 1]) | (factors[:, 0] >= 2 * columns))


def place_of(factors: Integers, columns: int) -> Integers:
    """Return the places of factors (k, 3) among all candidates, (k,)."""
    base = 3 * columns + 1
    if not len(factors):
        return np.zeros(0, dtype=np.int64)

    def number(of: Integers) -> Integers:
        return (of[:, 0] * base + of[:, 1]) * base + of[:, 2]

    return np.searchsorted(number(monomials(columns)), number(factors))
