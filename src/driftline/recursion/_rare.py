"""Rare values: columns in which all but a few rows hold the same value, such as flags of rare events."""

from __future__ import annotations

import numpy as np

from driftline._inputs import Floats

__all__ = ["few_of", "heaps", "off_heap"]

_SOME = 250  # rows of a window that show the most common value of a column, if most rows hold it
_HEAP = 0.5  # share of these rows; a value that fewer hold is not one against which others are rare
_FEW = 50.0  # rows of both windows; with more, counts are nearly normal


def off_heap(num: Floats, den: Floats) -> Floats:
    """Count the rows of both windows (n, D), (m, D) that do not hold the most common value of a column; (D,).

    If no value is held by most rows, nearly all are counted.
    """
    sample = np.concatenate([z[:: max(1, len(z) // _SOME)] for z in (num, den)])
    heap, out = np.median(sample, axis=0), np.full(num.shape[1], float(len(num) + len(den)))
    heaped = np.flatnonzero((sample == heap).mean(0) > _HEAP)
    out[heaped] = sum((z[:, heaped] != heap[heaped]).sum(0) for z in (num, den))
    return out


def few_of(counts: Floats, rows: float) -> Floats:
    """Return those counts of events, rows with another value than most, that are few; (k,)."""
    return np.asarray(counts[(counts > 0.0) & (counts < np.minimum(_FEW, 0.1 * rows))])


def heaps(x: Floats) -> Floats:
    """Return the value that more than half of the rows (n, D) hold in each column, nan where there is none; (D,)."""
    middle = np.median(x, axis=0)
    return np.where((x == middle).mean(0) > _HEAP, middle, np.nan)
