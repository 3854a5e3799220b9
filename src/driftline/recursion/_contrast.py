"""A contrast of two windows, learned from a part of their rows: what the held-out rest says needs no model to be right.

It is a small logistic fit of its own, on columns, squares and a few products in robust units, and does not look at the
step's model: features that were chosen, or learned, with the help of all rows would have seen the held-out ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from driftline._inputs import Floats
from driftline.fitting import Integers

__all__ = ["Contrast", "Learned", "Parts", "change", "learn", "split"]

Singles = npt.NDArray[np.float32]
Parts = Sequence[Floats]  # rows of a window in stretches, which need not be copied

_COLUMNS = 40  # columns in a contrast, those that differ most: more would cost as much as the step
_PRODUCTS = 24  # products of columns in it
_CLEAR = 4.0  # standard errors by which a product differs to be in it
_FAR = 4.0  # robust standard deviations beyond which values are one
_STRETCHES = 8  # parts of a window that are split alike: neighbours in time stay together
_ENOUGH = 4000  # rows of a window that suffice to learn from; the others are held out
_QUARTERS = 256  # rows that suffice for medians and quartiles
_NORMAL = 1.349  # distance of a normal column's quartiles, in standard deviations
_STEPS = 4  # Newton steps
_SMALL = 0.1  # nats of a contrast, both ways, that one Newton step finds


class Contrast(NamedTuple):
    """log current/previous up to a constant: ``coef`` of columns in robust units, of their squares and of products.

    ``columns`` (c,), their ``center`` and ``unit``, ``pairs`` (k, 2) of places among them, ``coef`` (2c + k,).
    """

    columns: Integers
    center: Floats
    unit: Floats
    pairs: Integers
    coef: Floats

    def __call__(self, *parts: Floats) -> Floats:
        """Return the contrast of raw rows (n, D), one part of them after the other, (n,)."""
        coef = self.coef.astype(np.float32)
        values = [_features(self.marks(x), self.pairs) @ coef for x in parts]
        return np.asarray(np.concatenate(values), dtype=np.float64)

    def marks(self, *parts: Floats) -> Singles:
        """Return columns of raw rows in robust units, (n, c)."""
        return _marks(parts, self.columns, self.center, self.unit)


class Learned(NamedTuple):
    """A contrast, and the share of it that is not noise: 0 if it has found nothing."""

    contrast: Contrast
    share: float


def split(x: Floats) -> tuple[Parts, Parts]:
    """Return the rows to be learned from, half of them or fewer, and the others; each in several stretches.

    Rows may depend on their neighbours, so that every other row would be half known; and a window may drift itself, so
    that one half would differ from the other.
    """
    share = min(0.5, _ENOUGH / max(len(x), 1))
    starts = [len(x) * k // _STRETCHES for k in range(_STRETCHES + 1)]
    ends = [a + round(share * (b - a)) for a, b in pairwise(starts)]
    known = [x[a:b] for a, b in zip(starts, ends, strict=False)]
    return known, [x[a:b] for a, b in zip(ends, starts[1:], strict=True)]


def learn(num: Parts, den: Parts) -> Learned | None:
    """Learn the contrast of rows of the previous window (n, D) and of the current one; None if nothing varies."""
    columns, center, unit = _units(num, den)
    if len(columns) == 0:
        return None
    a, b = _marks(num, columns, center, unit), _marks(den, columns, center, unit)
    if len(columns) > _COLUMNS:
        kept = np.sort(np.argsort(_apart(a, b))[-_COLUMNS:])
        columns, center, unit, a, b = columns[kept], center[kept], unit[kept], a[:, kept], b[:, kept]
    pairs = _products(a, b)
    coef, share = _fit(_features(a, pairs), _features(b, pairs))
    return Learned(Contrast(columns, center, unit, pairs, coef), share)


def change(a: Singles, b: Singles) -> Floats:
    """Return the change of the products of columns between rows (n, c) and (m, c) in standard errors, (c, c)."""
    a, b = a - a.mean(0), b - b.mean(0)
    size_a, size_b = (np.maximum(np.sqrt(np.square(x).mean(0)), 1e-6) for x in (a, b))
    one, other = a.T @ a / len(a), b.T @ b / len(b)
    error = np.outer(size_a, size_a) / math.sqrt(len(a)) + np.outer(size_b, size_b) / math.sqrt(len(b))
    return np.asarray(np.abs(one - other) / error, dtype=np.float64)


def _units(num: Parts, den: Parts) -> tuple[Integers, Floats, Floats]:
    """Return the columns that vary, their centres and spreads, rounded: a median would be the value of a row."""
    rows = np.concatenate([x[:: max(1, len(x) * len(num) // _QUARTERS)] for x in (*num, *den)])
    low, middle, high = np.quantile(rows, (0.25, 0.5, 0.75), axis=0)
    spread, wide = (high - low) / _NORMAL, rows.std(0)
    unit = np.where(spread > 0.1 * wide, spread, wide)  # a rare indicator, or zeros with a few other values
    live = np.flatnonzero(unit > 1e-9 * np.maximum(np.abs(middle), 1e-300))
    scale = np.exp2(np.round(np.log2(unit[live])))
    return live, np.round(16.0 * middle[live] / scale) / 16.0 * scale, scale


def _marks(parts: Parts, columns: Integers, center: Floats, unit: Floats) -> Singles:
    out = np.empty((sum(len(x) for x in parts), len(columns)), dtype=np.float32)
    first = 0
    for x in parts:
        y = (x if len(columns) == x.shape[1] else x[:, columns]) - center
        y /= unit
        np.clip(y, -_FAR, _FAR, out=out[first : first + len(x)], casting="same_kind")
        first += len(x)
    return out


def _features(y: Singles, pairs: Integers) -> Singles:
    c = y.shape[1]
    out = np.empty((len(y), 2 * c + len(pairs)), dtype=np.float32)
    out[:, :c] = y
    np.square(y, out=out[:, c : 2 * c])
    for k, (i, j) in enumerate(pairs):
        np.multiply(y[:, i], y[:, j], out=out[:, 2 * c + k])
    return out


def _apart(a: Singles, b: Singles) -> Floats:
    """Return how far each column differs between the two, by mean or by size, in standard errors, (c,)."""
    found = []
    for x, y in ((a, b), (np.square(a), np.square(b))):
        error = np.sqrt(x.var(0) / len(x) + y.var(0) / len(y))
        found.append(np.abs(x.mean(0) - y.mean(0)) / np.maximum(error, 1e-9))
    return np.asarray(np.maximum(*found), dtype=np.float64)


def _products(a: Singles, b: Singles) -> Integers:
    """Return the pairs of columns whose products differ clearly, the clearest first, (k, 2)."""
    clear = np.triu(change(a, b), 1)
    order = np.argsort(clear, axis=None)[::-1][:_PRODUCTS]
    order = order[clear.ravel()[order] > _CLEAR]
    return np.stack(np.unravel_index(order, clear.shape), 1).astype(np.int64)


def _fit(num: Singles, den: Singles) -> tuple[Floats, float]:
    """Return coefficients of a logistic fit (p,), and the share of their contrast that is not noise."""
    n, m, p = len(num), len(den), num.shape[1]
    one, other = num.mean(0), den.mean(0)
    middle = 0.5 * (one + other)
    num, den = num - middle, den - middle
    size = np.maximum(np.sqrt(0.5 * (np.square(num).mean(0) + np.square(den).mean(0))), 1e-6)
    num, den = num / size, den / size
    ridge = np.eye(p) * 2.0 / (n + m)
    gap = np.asarray((other - one) / size, dtype=np.float64)
    gram = 0.5 * (num.T @ num / n + den.T @ den / m).astype(np.float64) + ridge
    coef = np.linalg.solve(gram, gap)
    both = float(coef @ gap)  # the sum of both divergences, to first order
    noise = p * (1.0 / n + 1.0 / m)
    share = max(0.0, 1.0 - noise / max(both, 1e-300))
    if share > 0.0 and both > _SMALL:
        coef = _improved(num, den, coef, ridge)
    return coef / size, share


def _improved(num: Singles, den: Singles, coef: Floats, ridge: Floats) -> Floats:
    """Go on by Newton's method, with a constant, as long as the loss falls."""
    constant, best = 0.0, math.inf
    kept = coef
    for _ in range(_STEPS):
        light = coef.astype(np.float32)
        u, v = (np.clip(x @ light + np.float32(constant), -30.0, 30.0) for x in (num, den))
        loss = float(np.logaddexp(0.0, u).mean() + np.logaddexp(0.0, -v).mean() + coef @ ridge @ coef)
        if not loss < best - 1e-3:
            return kept
        best, kept = loss, coef
        p_num, p_den = 1.0 / (1.0 + np.exp(-u)), 1.0 / (1.0 + np.exp(v))
        w_num, w_den = p_num * (1.0 - p_num) / len(num), p_den * (1.0 - p_den) / len(den)
        pull = np.asarray(den.T @ p_den / len(den) - num.T @ p_num / len(num), dtype=np.float64) - 2.0 * ridge @ coef
        gram = (num.T @ (num * w_num[:, None]) + den.T @ (den * w_den[:, None])).astype(np.float64) + 2.0 * ridge
        cross = np.asarray(num.T @ w_num + den.T @ w_den, dtype=np.float64)
        weight = float(w_num.sum() + w_den.sum())
        level = float(p_den.mean() - p_num.mean())
        step = np.linalg.solve(gram - np.outer(cross, cross) / weight, pull - cross * level / weight)
        coef = coef + step
        constant += (level - float(cross @ step)) / weight
    return kept
