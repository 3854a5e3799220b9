"""Rows in stretches that stay in the cache, and arrays of indices."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from driftline._inputs import Floats

__all__ = ["CHUNK", "Integers", "chunks", "pairs_of", "rows_in_cache", "score_rows"]

Integers = npt.NDArray[np.int64]

CHUNK = 4096  # rows processed at a time: small enough for the cache, large enough for the matrix products
_CACHE = 65_536  # numbers in double precision that stay in the cache while they are used again


def chunks(rows: int, size: int = CHUNK) -> list[slice]:
    """Return slices of at most ``size`` rows."""
    return [slice(start, start + size) for start in range(0, rows, size)]


def rows_in_cache(columns: int) -> int:
    """Return the number of rows of this many columns that stay in the cache while they are used again."""
    return max(256, _CACHE // max(columns, 1))


@lru_cache(maxsize=64)
def pairs_of(count: int) -> tuple[Integers, Integers]:
    """Return the first and the second of all pairs of so many things.

    >>> [side.tolist() for side in pairs_of(3)]
    [[0, 0, 1], [1, 2, 2]]
    """
    one, other = (side.astype(np.int64) for side in np.triu_indices(count, 1))
    for side in (one, other):
        side.setflags(write=False)
    return one, other


def score_rows(z: Floats, linear: Floats, square: Floats, out: Floats) -> None:
    """Write ``z @ linear + z[:, :s]**2 @ square`` of rows (n, D) to ``out`` (n,), for D and s weights."""
    n, s = len(z), len(square)
    size = rows_in_cache(z.shape[1])
    work = np.empty((min(size, n), s))
    for at in chunks(n, size):
        rows = z[at]
        np.dot(rows, linear, out=out[at])
        if s:
            squared = work[: len(rows)]
            np.multiply(rows[:, :s], rows[:, :s], out=squared)
            out[at] += squared @ square
