"""Sums over rows for the lesser and the greater of all pairs of columns at once."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from driftline._inputs import Floats
from driftline.fitting import LESSER, Integers, chunks, lesser_of, lessers, pairs_of

__all__ = ["LesserSums", "lesser_means"]

_FAR = 3.5  # standard deviations of the original, where columns end
_SUFFICE = 1_000  # rows for a variance
_MOST = 150_000  # pairs of columns times rows; with more, some of the rows have to do
_CACHE = 131_072  # numbers in single precision that stay in the cache
_TREND = 6  # 1, both columns, their squares and their product: what a function has in common with these says nothing
_BOTH = 2 * LESSER  # functions of a pair, as it is and with the second column turned round
Reals = npt.NDArray[np.floating[Any]]  # in single or double precision


class LesserSums:
    """Sums of scores (2 P, 4), and of their squares (2 P, 4, 4), for functions of pairs less their trend.

    Arguments:
        columns: the columns with more than two values, in the order of rows to come; others have no such functions.
        trend: coefficients on 1, both columns, their squares and their product, (2 P, 4, 6).
        shift, rate: place and spread, (D,), that lead rows back to the coordinates of the original.
        rows: number of rows to come; variances are taken from no more of them than suffice.
    """

    def __init__(self, columns: Integers, trend: Floats, shift: Floats, rate: Floats, rows: int) -> None:
        self._from, order, d = np.argsort(columns, kind="stable"), np.sort(columns), len(shift)
        self._pairs = pairs_of(len(columns) if len(trend) else 0)
        i, j = (order[side] for side in self._pairs)
        self._at = lesser_of(np.stack([i, j, np.zeros_like(i)], 1), d)[:, None] + np.arange(2)
        self._every = max(1, math.ceil(len(i) * rows / _MOST))
        self._few = max(1, rows // self._every // _SUFFICE)
        self._trend = trend[self._at].reshape(-1, _BOTH, _TREND).astype(np.float32)
        self._rate, self._shift = (value[order].astype(np.float32)[:, None] for value in (rate, shift))
        self._score, self._variance = np.zeros(trend.shape[:2]), np.zeros((len(trend), LESSER, LESSER))

    def add(self, columns: Reals, score: Reals, variance: Reals) -> None:
        """Add the sums over rows, given by columns (l, n), of which the first ones count."""
        p = len(self._at)
        if not p:
            return
        columns, score, variance = (part[..., :: self._every] for part in (columns, score, variance))
        for at in chunks(len(score), max(256, _CACHE // (_BOTH * p))):
            some = columns[self._from, at]
            some *= self._rate
            some += self._shift
            np.clip(some, -_FAR, _FAR, out=some)
            self._add(some, score[at], variance[at])

    def _add(self, columns: Reals, score: Reals, variance: Reals) -> None:
        (one, other), p = self._pairs, len(self._at)
        values = _functions(columns)
        own, bent = columns @ score, np.square(columns) @ score
        both = ((columns * score) @ columns.T)[one, other]
        sides = np.stack([np.full(p, score.sum()), own[one], own[other], bent[one], bent[other], both], 1)
        found = values.reshape(-1, len(score)) @ score - (self._trend @ sides[..., None]).ravel()
        self._score[self._at] += found.reshape(p, 2, LESSER)
        some = slice(None, None, self._few)
        rest = values[..., some] - self._trend @ _trends(np.ascontiguousarray(columns[:, some]))
        rest = rest.reshape(2 * p, LESSER, -1)
        weighted = rest * (self._few * variance[some])
        self._variance[self._at.ravel()] += weighted @ rest.transpose(0, 2, 1)

    @property
    def sums(self) -> tuple[Floats, Floats]:
        """The sums of scores (2 P, 4) and of their variances (2 P, 4, 4); 0 for pairs of columns with two values."""
        return self._score, self._variance


def _functions(columns: Reals) -> Reals:
    """Return the functions (see :class:`Lessers`) of all pairs of clipped columns (l, n), (P, 8, n)."""
    l, n = columns.shape
    high, low = (np.square(np.maximum(side, 0.0)) for side in (columns, -columns))
    out, at = np.empty((l * (l - 1) // 2, _BOTH, n), dtype=columns.dtype), 0
    for i in range(l - 1):
        part = out[at : at + l - 1 - i]
        at += len(part)
        sides = ((columns, high, low), (-columns, low, high))
        for start, (others, above, below) in zip((0, LESSER), sides, strict=True):
            np.minimum(columns[i], others[i + 1 :], out=part[:, start])
            np.multiply(part[:, start], part[:, start], out=part[:, start + 1])
            np.maximum(low[i], below[i + 1 :], out=part[:, start + 2])
            np.maximum(high[i], above[i + 1 :], out=part[:, start + 3])
    return out


def _trends(columns: Reals) -> Reals:
    """Return 1, both columns, their squares and their product, for all pairs of columns (l, n); (P, 6, n)."""
    l, n = columns.shape
    squares = np.square(columns)
    out, at = np.empty((l * (l - 1) // 2, _TREND, n), dtype=columns.dtype), 0
    for i in range(l - 1):
        part = out[at : at + l - 1 - i]
        at += len(part)
        part[:, 0], part[:, 1], part[:, 2] = 1.0, columns[i], columns[i + 1 :]
        part[:, 3], part[:, 4] = squares[i], squares[i + 1 :]
        np.multiply(columns[i], columns[i + 1 :], out=part[:, 5])
    return out


def lesser_means(z: Floats) -> tuple[Floats, Floats]:
    """Return the means of all functions over rows (n, D), (2 P, 4), and their coefficients on a trend, (2 P, 4, 6)."""
    p = len(lessers(z.shape[1])) // 2
    means, gram, cross = np.zeros((p, _BOTH)), np.zeros((p, _TREND, _TREND)), np.zeros((p, _TREND, _BOTH))
    if p:
        for at in chunks(len(z), max(256, _CACHE // (_BOTH * p))):
            columns = np.ascontiguousarray(np.clip(z[at], -_FAR, _FAR).T)
            values, trend = _functions(columns), _trends(columns)
            means += values.sum(2)
            gram += trend @ trend.transpose(0, 2, 1)
            cross += trend @ values.transpose(0, 2, 1)
    found = np.linalg.pinv(gram / len(z), hermitian=True, rcond=1e-9) @ (cross / len(z))
    trend = np.ascontiguousarray(found.transpose(0, 2, 1)).reshape(-1, LESSER, _TREND)
    return means.reshape(-1, LESSER) / len(z), trend
