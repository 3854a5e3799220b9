"""Rows that occur several times in a window: copies say nothing new, so they count as one wherever errors are taken.

Tables of categories and counts repeat by nature, since they have few possible rows. Copies are seen as such only where
some column is so fine that two rows would hardly agree in it by chance.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from driftline._inputs import Floats
from driftline.fitting._chunks import Integers

__all__ = ["Repeats", "find_repeats"]

_REPEATED = 1.2  # rows that are worth one; with fewer, errors are off by less than a tenth
_FINE = 0.9  # share of distinct rows that differ in one column
_MANY = 50  # distinct rows; with fewer, a column that tells them apart may be one of categories
_HEAP = 20  # times the median number of copies: a row such as "all missing", which is common by nature
_FEW = 0.99  # share of distinct rows above which copies cannot add up to `_REPEATED`, being at most a heap
_LOOKS = 4  # columns looked at for so many distinct values, before whole rows are compared


class Repeats(NamedTuple):
    """Which rows of a window are copies of each other; rows of a heap count as different ones.

    Attributes:
        first: the first of the copies of each distinct row, in their order, (k,).
        place: place of each row among the distinct ones, (n,).
        worth: number of rows that are worth one, the sum of squared numbers of copies over that of copies.
    """

    first: Integers
    place: Integers
    worth: float

    @property
    def counts(self) -> Floats:
        """Number of copies of each distinct row, (k,)."""
        return np.bincount(self.place, minlength=len(self.first)).astype(np.float64)

    def sums(self, values: Floats) -> Floats:
        """Return the sums of values (n,) over copies, (k,)."""
        return np.asarray(np.bincount(self.place, values, len(self.first)), dtype=np.float64)


def find_repeats(rows: Floats) -> Repeats | None:
    """Return which rows (n, D) are copies, None if so few are that it does not matter, or if they are so by nature.

    >>> rows = np.random.default_rng(0).normal(size=(100, 2))
    >>> find_repeats(rows) is None, find_repeats(np.tile(rows, (5, 1))).worth, find_repeats(np.zeros((100, 2))) is None
    (True, 5.0, True)
    """
    n, columns = rows.shape
    if columns < 2 or _has_fine_column(rows[:, :_LOOKS], _FEW * n):
        return None
    found = np.unique(_digests(rows), return_index=True, return_inverse=True, return_counts=True)
    first, place, counts = found[1], found[2].ravel(), found[3]
    heaps = counts > _HEAP * np.median(counts)
    copies = counts[~heaps].astype(np.float64)
    worth = float(copies @ copies / copies.sum())
    if worth <= _REPEATED or len(first) < _MANY or not _has_fine_column(rows[first], _FINE * len(first)):
        return None
    # in the order of the rows, those of a heap one by one
    own = np.where(heaps[place], np.arange(n), first[place])
    at, order = np.unique(own, return_inverse=True)
    total = float(copies @ copies + counts[heaps].sum())
    return Repeats(at, order.ravel(), total / n)


def _has_fine_column(rows: Floats, least: float) -> bool:
    """Say whether some column has at least so many distinct values."""
    return any(1 + np.count_nonzero(np.diff(np.sort(column))) >= least for column in rows.T)


def _digests(rows: Floats) -> npt.NDArray[np.uint64]:
    """Return a number of 64 bits for each row, the same for equal rows: sums of scrambled bits of its columns."""
    bits = np.ascontiguousarray(rows + 0.0).view(np.uint64)  # -0.0 equals 0.0
    keys = np.random.default_rng(0).integers(1, 2**63, (2, rows.shape[1]), dtype=np.uint64) | np.uint64(1)
    # numbers with few digits differ in their highest bits alone, which a product does not carry downwards
    mixed = (bits ^ (bits >> np.uint64(29))) * keys[0]
    mixed ^= mixed >> np.uint64(32)
    mixed *= keys[1]
    mixed ^= mixed >> np.uint64(29)
    return np.asarray(mixed.sum(1, dtype=np.uint64))
