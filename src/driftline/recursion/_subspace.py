"""Directions in which a log-linear fit leaves structure, and random ridge units in the subspace they span.

Two kinds of subspace are tested: the one in which the columns vary together, and the eigenvectors of the score matrix
of all products, whitened, beyond the edge that noise alone would reach.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from driftline._inputs import Floats
from driftline.fitting import Features, LogLinearDesign, chunks, gram_of, half_inverse, rows_in_cache
from driftline.recursion._evidence import PAIR_COLUMNS, Evidence, coarse

__all__ = [
    "UNITS",
    "Spread",
    "halves_agree",
    "is_round",
    "ridge_units",
    "score_directions",
    "spread_directions",
    "spread_helps",
    "spread_of",
    "whitened",
]

UNITS = 64  # ridge units in a block, at most
_UNITS_PER_DIRECTION = 16
_DIRECTIONS = 8
_AGREED = 2.5  # standard errors, twice
_OUT = 1.3  # times the middle variance of all directions, beyond which one stands out
_ROUND = 1.25  # the same, below which it surely does not
_CLEAR = 1e-3  # share of the largest variance below which one may be a matter of rounding
_MADE = 32  # columns; with more, sums of columns cost less than Gram matrices of all features


def ridge_units(directions: Floats, one: Floats, other: Floats, seed: int) -> tuple[Floats, Floats]:
    """Draw random ridge units in a subspace, with their kinks where the rows of two windows are."""
    rng = np.random.default_rng(seed)
    count = min(UNITS, _UNITS_PER_DIRECTION * directions.shape[1])
    mix = rng.normal(size=(directions.shape[1], count))
    weight = directions @ (mix / np.linalg.norm(mix, axis=0))
    rows = rng.integers(0, len(one) + len(other), count)
    picked = np.stack([one[i] if i < len(one) else other[i - len(one)] for i in rows])
    return weight, coarse(-(picked * weight.T).sum(1))


def whitened(covariance: Floats) -> tuple[Floats, Floats]:
    """Principal directions (D, k) scaled to unit variance, and the variances along them; none for zero variance."""
    values, vectors = np.linalg.eigh(covariance)
    keep = values > 1e-4 * max(float(values.max()), 1e-300)  # anything smaller is rounding of single-precision sums
    return vectors[:, keep] / np.sqrt(values[keep]), values[keep]


class Spread(NamedTuple):
    """Sums over every other row of two windows, from the first and from the second row on, and over all of them.

    Rows are taken from a point among them, so that single precision loses nothing. Shapes: counts (2,), sums (2, D),
    squares (2, D, D).
    """

    counts: Floats
    sums: Floats
    squares: Floats

    def covariance(self, half: int | None = None) -> Floats:
        """Return the covariance of the rows of both windows, or of one half of them, (D, D)."""
        at = slice(None) if half is None else slice(half, half + 1)
        count, mean = float(self.counts[at].sum()), self.sums[at].sum(0) / float(self.counts[at].sum())
        return np.asarray(self.squares[at].sum(0) / count - np.outer(mean, mean))


def spread_of(one: Floats, other: Floats) -> Spread:
    """Return the sums of two windows (n, D) and (m, D)."""
    d = one.shape[1]
    center = other[: rows_in_cache(d)].mean(0)
    counts, sums, squares = np.zeros(2), np.zeros((2, d)), np.zeros((2, d, d))
    for half in (0, 1):
        for window in (one[half::2], other[half::2]):
            counts[half] += len(window)
            for at in chunks(len(window), rows_in_cache(d)):
                rows = np.empty(window[at].shape, dtype=np.float32)
                np.subtract(window[at], center, out=rows, casting="same_kind")
                sums[half] += rows.sum(0)
                squares[half] += rows.T @ rows
    return Spread(counts, sums, squares)


def is_round(num: LogLinearDesign, den: LogLinearDesign) -> bool:
    """Say whether Gram matrices, which fits start with, show that no direction of rows stands out from the others.

    They are scaled otherwise than the sums that directions are taken from, so it must be clear.
    """
    features, d = num.features, num.z.shape[1]
    if not _DIRECTIONS < d <= _MADE or len(features.linear) < d:
        return False
    gram = num.gram(np.ones(num.shape[0])) + den.gram(np.ones(den.shape[0]))
    mean, scale = gram[-1, :d] / gram[-1, -1], features.scale[:d]
    spread = (gram[:d, :d] / gram[-1, -1] - np.outer(mean, mean)) * np.outer(scale, scale)
    values = np.linalg.eigvalsh(spread)
    return bool(values[0] > _CLEAR * values[-1] and values[-1] < _ROUND * np.median(values))


def spread_directions(covariance: Floats) -> Floats:
    """Directions (D, k) in which columns vary together, scaled to unit variance: clusters live there.

    All directions for few columns; otherwise the largest principal components that stand out from the bulk.
    """
    whitener, values = whitened(covariance)
    if len(covariance) <= _DIRECTIONS:
        return whitener
    order = np.argsort(-values, kind="stable")
    return whitener[:, order[values[order] > _OUT * np.median(values)][:_DIRECTIONS]]


def score_directions(features: Features, total: Evidence) -> Floats:
    """Directions (D, k) in which the fit leaves structure, scaled to unit variance; none where it leaves only noise."""
    # in the metric of the scores' own noise, so that noise alone has no preferred direction
    whitener, _ = whitened(total.row_spread / max(total.row_variance, 1e-300))
    k, none = whitener.shape[1], whitener[:, :0]
    if not _DIRECTIONS < features.columns <= PAIR_COLUMNS or k <= _DIRECTIONS:
        return none
    values, vectors = np.linalg.eigh(whitener.T @ total.pair_score @ whitener)
    # noise is a symmetric Gaussian matrix: a semicircle of radius 2 sigma sqrt(k) whose edge fluctuates as k^(-1/6);
    # heavy tails widen it, which the median of the eigenvalues shows
    size = np.abs(values)
    sigma = max(math.sqrt(total.row_variance), float(np.median(size)) / (0.404 * 2.0 * math.sqrt(k)))
    edge = sigma * (2.0 * math.sqrt(k) + 5.0 * k ** (-1.0 / 6.0))
    if float(size.max()) <= edge:
        return none
    # the strongest direction is certain; those at the bulk's edge come along, since a needless one costs little
    strong = np.flatnonzero(size > 2.0 * sigma * math.sqrt(k))
    strong = strong[np.argsort(-size[strong], kind="stable")][:_DIRECTIONS]
    basis = vectors[:, strong]
    # earlier directions stay in view: structure often involves old and new ones together
    dense = features.weight[:, (features.weight != 0).sum(0) > 1]
    if dense.shape[1] and len(strong) < _DIRECTIONS:
        inside = np.linalg.pinv(whitener) @ dense
        inside = inside - basis @ (basis.T @ inside)
        left, lengths, _ = np.linalg.svd(inside, full_matrices=False)
        old = left[:, lengths > 0.3 * max(float(lengths.max()), 1e-300)]
        basis = np.concatenate([basis, old], 1)[:, :_DIRECTIONS]
    return np.asarray(whitener @ basis)


def halves_agree(total: Evidence, *sides: tuple[LogLinearDesign, Floats]) -> bool:
    """Say whether the strongest direction of each half of the rows is confirmed by the other half.

    The noise along a direction is that of its own rows: rare values make it many times that of normal columns, whose
    law the edge of :func:`score_directions` is.
    """
    whitener, _ = whitened(total.row_spread / max(total.row_variance, 1e-300))
    for half in (0, 1):
        values, vectors = np.linalg.eigh(whitener.T @ total.pair_scores[half] @ whitener)
        at = int(np.abs(values).argmax())
        direction = whitener @ vectors[:, at]
        center = float(sides[0][0].z.mean(0) @ direction)
        fourth = weight = 0.0
        for design, scores in sides:
            squares = np.square(scores)
            fourth += float(squares @ (design.z @ direction - center) ** 4)
            weight += float(squares.sum())
        noise = math.sqrt(max(0.5 * total.row_variance * fourth / max(weight, 1e-300), 1e-300))
        found = float(direction @ total.pair_scores[1 - half] @ direction) * math.copysign(1.0, values[at])
        if found < _AGREED * noise:
            return False
    return True


def spread_helps(
    spread: Spread,
    num: LogLinearDesign,
    den: LogLinearDesign,
    s_num: Floats,
    s_den: Floats,
    *,
    time: float,
    level: float,
    seed: int,
) -> bool:
    """Test units in the spread's directions jointly, by their scores, against the chi-square law.

    Directions come from one half of the rows and are tested on the other, then the halves change places: chosen and
    tested on the same rows, they would look like drift by themselves. ``time`` is the number of neighbouring rows that
    are worth one.
    """
    statistic, freedom, grams = 0.0, 0, []
    for half in (0, 1):
        pool = num.z[half::2], den.z[half::2]
        directions = spread_directions(spread.covariance(half))
        if directions.shape[1] == 0:
            continue
        weight, bias = ridge_units(directions, *pool, seed)
        other = slice(1 - half, None, 2)
        value, count, known = _score_test(weight, bias, ((num, s_num), (den, s_den)), other)
        statistic, freedom = statistic + value / time, freedom + count
        grams.append(known)
    if len(grams) == 2:  # both halves of the rows: error bars need the same of all
        for design, scores, parts in zip((num, den), (s_num, s_den), zip(*grams, strict=True), strict=True):
            design.keep(scores * scores, parts[0] + parts[1])
    if freedom == 0:
        return False
    # Wilson-Hilferty: the cube root of a chi-square is nearly normal
    z = ((statistic / freedom) ** (1 / 3) - (1 - 2 / (9 * freedom))) / math.sqrt(2 / (9 * freedom))
    return bool(z > NormalDist().inv_cdf(1.0 - level))


def _score_test(
    weight: Floats, bias: Floats, sides: tuple[tuple[LogLinearDesign, Floats], ...], rows: slice
) -> tuple[float, int, list[Floats]]:
    """Statistic and degrees of freedom of units given the features already there, on some rows of both windows.

    Also return the Gram matrices of these features on the rows of each window, weighted by squared scores.
    """
    p, units = sides[0][0].shape[1], weight.astype(np.float32)
    size = p + len(bias)
    moments, score, grams = np.zeros((size, size)), np.zeros(size), []
    for design, scores in sides:
        known, s = design.single[rows], scores[rows]
        stacked = np.empty((len(known), size), dtype=np.float32)
        stacked[:, :p] = known
        np.maximum(design.z[rows].astype(np.float32) @ units + bias.astype(np.float32), 0.0, out=stacked[:, p:])
        gram = gram_of(stacked, s * s)
        moments += gram
        grams.append(gram[:p, :p])
        top = max(float(np.abs(s).max()), 1e-300)
        score += ((s / top).astype(np.float32) @ stacked) * top
    half = half_inverse(moments[:p, :p])
    if half is None:  # collinear features, to the precision of the products
        slope = moments[p:, :p] @ np.linalg.pinv(moments[:p, :p], hermitian=True)
    else:
        slope = (moments[p:, :p] @ half.T) @ half
    outside, score = moments[p:, p:] - slope @ moments[:p, p:], score[p:] - slope @ score[:p]
    values, vectors = np.linalg.eigh(outside)
    keep = values > 1e-3 * moments[p:, p:].diagonal().max()  # the resolution of single-precision products
    return float(((vectors[:, keep].T @ score) ** 2 / values[keep]).sum()), int(keep.sum()), grams
