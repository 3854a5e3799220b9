"""A contrast of two windows, learned from a part of their rows: what the held-out rest says needs no model to be right.

It is a small logistic fit of its own, on columns, squares and a few products in robust units, and does not look at the
step's model: features that were chosen, or learned, with the help of all rows would have seen the held-out ones.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Annotated, NamedTuple

import numpy as np
import numpy.typing as npt

from driftline._inputs import Floats
from driftline.fitting import Integers, chunks

__all__ = ["COLUMNS", "Contrast", "Learned", "change", "covariance", "learn", "split", "thinning"]

Singles = npt.NDArray[np.float32]

COLUMNS = 40  # columns in a contrast, those that differ most: more would cost as much as the step
_PRODUCTS = 24  # products of columns in it
_CLEAR = 4.0  # standard errors by which a product differs to be in it
_FAR = 4.0  # robust standard deviations beyond which values are one
_STRETCHES = 4  # parts of a window that are split alike: neighbours in time stay together
_ENOUGH = 4096  # rows to learn from, and rows held out, that suffice
_QUARTERS = 128  # rows that suffice for medians and quartiles
_CHOICE = 512  # rows that suffice to choose columns
_NORMAL = 1.349  # distance of a normal column's quartiles, in standard deviations
_BEND = 12  # rows of a window for each coefficient that suffice for the curvature
_CHUNK = 512  # rows at a time, which stay in the cache
_STEPS = 4  # Newton steps
_SMALL = 0.1  # nats of a contrast, both ways, that one Newton step finds


class Contrast(NamedTuple):
    """log current/previous up to a constant: ``coef`` of columns in robust units, of their squares and of products.

    ``columns`` (c,), their ``center`` and ``unit``, ``pairs`` (k, 2) of places among them, ``coef`` (2c + k,).
    """

    columns: Annotated[Integers, "columns <D"]
    center: Annotated[Floats, "columns"]
    unit: Annotated[Floats, "columns"]
    pairs: Annotated[Integers, "products 2 <columns"]
    coef: Annotated[Floats, "terms"]

    def check(self) -> None:
        """Refuse a wrong number of coefficients."""
        terms = 2 * len(self.columns) + len(self.pairs)
        if len(self.coef) != terms:
            raise ValueError(f"coef has {len(self.coef)} entries, not {terms}")

    def __call__(self, x: Floats) -> Floats:
        """Return the contrast of raw rows (n, D), (n,)."""
        return self.of(self.marks(x))

    def marks(self, x: Floats) -> Singles:
        """Return columns of raw rows in robust units, (n, c)."""
        return self._marked([x[at] for at in chunks(len(x), _CHUNK)])

    def learnt_from(self, x: Floats, every: int) -> Singles:
        """Return the marks of the rows of a window (n, D) to be learned from, or of every so many of them."""
        return self._marked([x[a:b:every] for a, b, _ in _stretches(len(x))])

    def held_out(self, x: Floats, every: int) -> Singles:
        """Return the marks of the held-out rows of a window (n, D), or of every so many of them."""
        return self._marked([x[b:c:every] for _, b, c in _stretches(len(x))])

    def _marked(self, parts: list[Floats]) -> Singles:
        """Return the marks of stretches of rows, one after the other: a stretch stays in the cache meanwhile."""
        sizes, c = [len(part) for part in parts], len(self.columns)
        out, work = np.empty((sum(sizes), c), dtype=np.float32), np.empty((max(sizes, default=0), c))
        rate, stop = np.empty_like(work), 0
        rate[:] = 1.0 / self.unit  # as often as there are rows: faster than one row for all
        for part, size in zip(parts, sizes, strict=True):
            rows = part if c == part.shape[1] else part.take(self.columns, 1)
            y = np.subtract(rows, self.center, out=work[:size])
            y *= rate[:size]
            np.clip(y, -_FAR, _FAR, out=y)
            start, stop = stop, stop + size
            out[start:stop] = y
        return out

    def of(self, marks: Singles) -> Floats:
        """Return the contrast of rows in robust units."""
        coef, c = self.coef.astype(np.float32), len(self.columns)
        out = np.empty(len(marks), dtype=np.float32)
        for at in chunks(len(marks), _CHUNK):
            rows = marks[at]
            out[at] = rows @ coef[:c] + np.square(rows) @ coef[c : 2 * c]
        for (i, j), weight in zip(self.pairs.tolist(), coef[2 * c :], strict=True):
            out += weight * (marks[:, i] * marks[:, j])
        return np.asarray(out, dtype=np.float64)


class Learned(NamedTuple):
    """A contrast, the share of it that is not noise (0 if it has found nothing), and held-out rows of both windows.

    These, ``num`` and ``den``, are in robust units.
    """

    contrast: Contrast
    share: float
    num: Singles
    den: Singles

    def values(self) -> tuple[Floats, Floats]:
        """Return log current/previous of the held-out rows of both windows."""
        return self.share * self.contrast.of(self.num), self.share * self.contrast.of(self.den)


def split(x: Floats) -> tuple[Floats, Floats]:
    """Return the rows to be learned from, one half of them, and the held-out ones; each in several stretches.

    Rows may depend on their neighbours, so that every other row would be half known; and a window may drift itself, so
    that one half would differ from the other.
    """
    places = _stretches(len(x))
    return np.concatenate([x[a:b] for a, b, _ in places]), np.concatenate([x[b:c] for _, b, c in places])


def _stretches(rows: int) -> list[tuple[int, int, int]]:
    """Return for each stretch where the rows to be learned from begin, where they end, and where the others end."""
    starts = [rows * k // _STRETCHES for k in range(_STRETCHES + 1)]
    return [(a, (a + b) // 2, b) for a, b in pairwise(starts)]


def thinning(rows: int) -> int:
    """Return the distance between the rows of a half window that are used: as many as it takes, if it has more."""
    return -(-rows // (2 * _ENOUGH))


def _known(x: Floats, every: int) -> Floats:
    return np.concatenate([x[a:b:every] for a, b, _ in _stretches(len(x))])


def learn(num: Floats, den: Floats) -> Learned | None:
    """Learn the contrast of the previous window (n, D) and the current one (m, D) from a part of the rows of both.

    None if nothing varies.
    """
    bare = _units(*(_known(x, max(1, len(x) // (2 * _CHOICE))) for x in (num, den)))
    if len(bare.columns) == 0:
        return None
    if len(bare.columns) > COLUMNS:
        known = [_known(x, thinning(len(x))) for x in (num, den)]
        kept = np.sort(np.argsort(_apart(*(bare.marks(x[:: 1 + len(x) // _CHOICE]) for x in known)))[-COLUMNS:])
        bare = bare._replace(columns=bare.columns[kept], center=bare.center[kept], unit=bare.unit[kept])
    a, b = (bare.learnt_from(x, thinning(len(x))) for x in (num, den))
    pairs = _products(a, b)
    coef, share = _fit(_features(a, pairs), _features(b, pairs))
    held = (bare.held_out(x, thinning(len(x))) for x in (num, den))
    return Learned(bare._replace(pairs=pairs, coef=coef), share, *held)


def change(a: Singles, b: Singles) -> Floats:
    """Return the change of the covariances of columns between rows (n, c) and (m, c) in standard errors, (c, c)."""
    one, other = covariance(a), covariance(b)
    size_a, size_b = (np.sqrt(np.maximum(x.diagonal(), 1e-12)) for x in (one, other))
    error = np.outer(size_a, size_a) / math.sqrt(len(a)) + np.outer(size_b, size_b) / math.sqrt(len(b))
    return np.asarray(np.abs(one - other) / error)


def covariance(y: Singles) -> Floats:
    """Return the covariances of columns of rows (n, c), (c, c)."""
    mean = _means(y).astype(np.float64)
    return np.asarray((y.T @ y).astype(np.float64) / len(y) - np.outer(mean, mean))


def _means(y: Singles) -> Singles:
    """Return the means of columns of rows (n, c), (c,): a product is faster than a mean along the longer axis."""
    return np.asarray((np.ones(len(y), dtype=np.float32) @ y) / np.float32(len(y)))


def _units(num: Floats, den: Floats) -> Contrast:
    """Return an empty contrast of the columns that vary. Centres and units are rounded: a median is a row's value."""
    rows = np.concatenate([num, den])
    low, middle, high = _quarters(rows[:: max(1, len(rows) // _QUARTERS)])
    around = rows - np.full(len(rows), 1.0 / len(rows)) @ rows
    spread, wide = (high - low) / _NORMAL, np.sqrt(np.einsum("ij,ij->j", around, around) / len(rows))
    unit = np.where(spread > 0.1 * wide, spread, wide)  # a rare indicator, or zeros with a few other values
    live = np.flatnonzero(unit > 1e-9 * np.maximum(np.abs(middle), 1e-300))
    scale = np.exp2(np.round(np.log2(unit[live])))
    center = np.round(16.0 * middle[live] / scale) / 16.0 * scale
    return Contrast(live, center, scale, np.zeros((0, 2), dtype=np.int64), np.zeros(2 * len(live)))


def _quarters(rows: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the quartiles of columns of rows (n, c), each (c,), as np.quantile does in twice the time."""
    columns = np.sort(rows.T, axis=1)
    last = len(rows) - 1

    def at(share: float) -> Floats:
        place = int(share * last)
        one, other, part = columns[:, place], columns[:, min(place + 1, last)], share * last - place
        return np.asarray(one + (other - one) * part if part < 0.5 else other - (other - one) * (1.0 - part))

    return at(0.25), at(0.5), at(0.75)


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
    few = [x[:: max(1, len(x) // max(_BEND * p, 1000))] - middle for x in (num, den)]
    gram = 0.5 * sum(x.T @ x / len(x) for x in few).astype(np.float64)
    size = np.sqrt(np.maximum(gram.diagonal(), 1e-12))
    ridge = np.eye(p) * 2.0 / (n + m)
    gap = np.asarray((other - one) / size, dtype=np.float64)
    coef = np.linalg.solve(gram / np.outer(size, size) + ridge, gap)
    both = float(coef @ gap)  # the sum of both divergences, to first order
    noise = p * (1.0 / n + 1.0 / m)
    share = max(0.0, 1.0 - noise / max(both, 1e-300))
    if share > 0.0 and both > _SMALL:
        single = size.astype(np.float32)
        coef = _improved((num - middle) / single, (den - middle) / single, coef, ridge)
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
