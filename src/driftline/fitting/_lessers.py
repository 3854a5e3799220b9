r"""The lesser and the greater of two columns, for dependence that is stronger at one end than correlations say.

With :math:`m = \min(c_i, \pm c_j)` and :math:`M = \max(c_i, \pm c_j)`, where :math:`c = \operatorname{clip}(z, \pm
3.5)`, the functions are :math:`m, m^2, \min(m, 0)^2` and :math:`\max(M, 0)^2`. Beside columns, squares and the product
:math:`c_i c_j = m M` they hold the same of M, and the distance :math:`|c_i - c_j|`. Where two columns follow each other
in a tail alone, the log-density is a function of the lesser, or of the greater, and of each column by itself.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations
from typing import Annotated, NamedTuple

import numpy as np

from driftline._inputs import Floats
from driftline.fitting._chunks import Integers

__all__ = ["LESSER", "Lessers", "lesser_of", "lessers"]

LESSER = 4
"""Number of functions of a pair."""
_FAR = 3.5  # standard deviations of the original, beyond which a column is taken as constant
_MOST = 12  # columns; with more, there are too many pairs for what one window may cost


class Lessers(NamedTuple):
    """Functions of the lesser and the greater of two columns, of rows in the coordinates of the original.

    ``of`` (k, 3) are the two columns, and 1 where the sign of the second is turned round, otherwise 0.
    """

    of: Annotated[Integers, "k 3 <D"]

    @property
    def size(self) -> int:
        """Number of features."""
        return LESSER * len(self.of)

    def __call__(self, z: Floats) -> Floats:
        """Return the features of rows (n, D), (n, size)."""
        columns = np.clip(z, -_FAR, _FAR).T
        one, other = columns[self.of[:, 0]], (1.0 - 2.0 * self.of[:, 2, None]) * columns[self.of[:, 1]]
        lesser, greater = np.minimum(one, other), np.maximum(one, other)
        parts = lesser, np.square(lesser), np.square(np.minimum(lesser, 0.0)), np.square(np.maximum(greater, 0.0))
        return np.ascontiguousarray(np.stack(parts, 1).reshape(self.size, len(z)).T)

    def shares(self, columns: int) -> Floats:
        """Return the share of each column in each feature, (D, size): one half."""
        out = np.zeros((columns, self.size))
        for column in self.of[:, :2].T:
            out[np.repeat(column, LESSER), np.arange(self.size)] += 0.5
        return out


@lru_cache(maxsize=32)
def lessers(columns: int) -> Integers:
    """Return all pairs of this many columns, each with the second as it is and turned round, (m, 3).

    >>> lessers(2).tolist()
    [[0, 1, 0], [0, 1, 1]]
    """
    pairs = combinations(range(columns), 2) if columns <= _MOST else ()
    out = np.array([(i, j, turned) for i, j in pairs for turned in (0, 1)], dtype=np.int64).reshape(-1, 3)
    out.setflags(write=False)
    return out


def lesser_of(of: Integers, columns: int) -> Integers:
    """Return the places of pairs (k, 3) among all of them, (k,)."""
    i, j, turned = of.T
    return np.asarray(2 * (i * columns - i * (i + 1) // 2 + j - i - 1) + turned, dtype=np.int64)
