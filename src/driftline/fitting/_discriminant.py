r"""Fits where rows are few for the features (embeddings, pixels): least squares on window labels, from second moments.

With many features a logistic fit that is not held back exaggerates the drift, and does not even exist where the rows
are fewer than about twice the features. Least squares on the labels of the windows does neither. With y = 1 for the
numerator and 0 for the denominator, C the pooled covariance of the features, :math:`\pi` the numerator's share of the
rows and :math:`\delta` the difference of the mean features,

.. math::
    \beta = C^{-1}\pi(1-\pi)\delta,\quad \theta = \frac{\beta}{\pi(1-\pi)(1-R^2)},\quad
    \theta^\top\delta = \frac{R^2}{\pi(1-\pi)(1-R^2)},

which is Fisher's discriminant: exact for Gaussian windows of one covariance, and for any windows as the drift gets
small. Everything follows from the moments of both windows. Noise adds about p/n + p/m to
:math:`\hat\theta^\top\hat\delta`, exactly known whatever the law of the features: without drift labels say nothing,
so only products of a row with itself have a mean.

Features that stand out one by one are few, so an exact fit of them alone says what Fisher's discriminant misses
(:func:`strong_part`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from driftline._inputs import Floats
from driftline.fitting._chunks import CHUNK, Integers, chunks
from driftline.fitting._derivatives import Loss
from driftline.fitting._designs import Dense, Design, Singles
from driftline.fitting._fits import FitDivergedError
from driftline.fitting._lanczos import freedoms, lanczos, signs
from driftline.fitting._moments import BlockSums, Moments, moments
from driftline.fitting._newton import fit_convex

__all__ = ["Discriminant", "Strong", "discriminant", "strong_part"]

_LEAST = 1e-4  # ridge of the discriminant, in variances of a feature: enough for copies of columns in double precision
_PLAIN = 1e-2  # share of a feature that no other explains, above which single precision gives the inverse
_MOST_DOF = 0.5  # share of the rows; beyond it the noise of the discriminant grows without bound
_OUTSTANDING = 5.0  # standard errors; among thousands of features without drift none stands out so far
_PARTS = 10  # stretches of rows, each left out once
_ROWS_EACH = 50  # rows for each feature of an exact fit


class Discriminant(NamedTuple):
    """Fisher's discriminant of two windows: an estimate of log numerator/denominator that is not held back.

    Attributes:
        coef: coefficients in units of the features of the designs, (p,).
        ridge: strength that made it possible, in variances of a feature.
        explained: share of the labels' variance that the features explain on new rows, :math:`R^2`; unbiased.
        noise_num, noise_den: what the noise of each window adds to the symmetric divergence, in nats: about p/n and
            p/m.
        variance: variance of ``divergence`` without drift.
        divergence: symmetric divergence (KL in both directions), noise subtracted.
        dof: effective number of parameters; repetition: number of rows that are worth one.
    """

    coef: Floats
    ridge: float
    explained: float
    noise_num: float
    noise_den: float
    variance: float
    divergence: float
    dof: float
    repetition: float


def discriminant(of: Moments, sums: tuple[BlockSums, BlockSums] | None = None) -> Discriminant:
    """Return Fisher's discriminant of two windows; ``sums`` are those of both, where neighbouring rows are dependent.

    >>> from driftline.fitting import moments
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(2, 1000, 301))
    >>> x[1, :, :10] += 0.1**0.5  # half a nat in each direction
    >>> x[:, :, -1] = 1.0
    >>> found = discriminant(moments(Dense(x[0]), Dense(x[1])))
    >>> bool(abs(found.divergence - 1.0) < 0.25), round(found.noise_num, 2), round(found.noise_den, 2)
    (True, 0.3, 0.3)
    """
    n, m, share = of.rows_num, of.rows_den, of.share
    inverse, ridge = _bounded_inverse(of.pooled, n + m)
    # the inverse times the matrix without the ridge is 1 - ridge * inverse
    trace, square = float(inverse.trace()), float(np.einsum("ij,ij->", inverse, inverse))
    dof = len(inverse) - ridge * trace
    part_den = float(np.einsum("ij,ij->", inverse, of.den))
    part_num = (dof - (1.0 - share) * part_den) / share
    repetition = 1.0
    if sums is not None:
        long_num, long_den = (
            max(part.trace(inverse), own) for part, own in zip(sums, (part_num, part_den), strict=True)
        )
        repetition = (long_num / n + long_den / m) / (part_num / n + part_den / m)
        part_num, part_den = long_num, long_den
    weight = share * (1.0 - share)
    beta = weight * (inverse @ of.shift)
    # labels less their mean are 1 - share and -share; leaving out a row takes its leverage from what it explains
    own = weight * ((1.0 - share) * part_num + share * part_den) / (n + m)
    explained = (weight * float(of.shift @ beta) - own) / (weight - own)
    explained = min(explained, 1.0 - 1.0 / (n + m))  # windows that do not overlap
    rate = 1.0 / (weight * (1.0 - explained))
    pairs = len(inverse) - 2.0 * ridge * trace + ridge * ridge * square - dof * dof / (n + m)
    variance = 2.0 * pairs * (repetition * rate * (1.0 - explained) / (n + m - repetition * dof)) ** 2
    noise_num, noise_den = part_num / n, part_den / m
    coef = rate * beta / of.scale
    return Discriminant(coef, ridge, explained, noise_num, noise_den, variance, rate * explained, dof, repetition)


def _bounded_inverse(matrix: Singles, rows: int) -> tuple[Floats | Singles, float]:
    """Return the inverse of a correlation matrix plus a ridge: the least one that leaves half of the rows free."""
    ridge, most = _LEAST, _MOST_DOF * rows
    if len(matrix) > most:
        steps = np.geomspace(_LEAST, 1e3, 200)
        dof = freedoms(lanczos(matrix, np.ones(len(matrix)), signs(len(matrix))), steps)
        ridge = float(steps[min(int((dof > most).sum()), len(steps) - 1)])
    inverse = _inverse(matrix, ridge, single=True)
    if inverse is None:
        inverse = _inverse(matrix, ridge, single=False)
    if inverse is None or not math.isfinite(float(inverse.trace())):
        raise FitDivergedError("the covariance of the features is not positive: are values extreme?")
    return inverse, ridge


def _inverse(matrix: Singles, ridge: float, single: bool) -> Floats | Singles | None:
    """Return the inverse of a correlation matrix plus a ridge, None if the precision does not suffice."""
    from scipy.linalg.lapack import dpotrf, dpotri, spotrf, spotri  # not at the top: only wide tables need it

    factorise, invert = (spotrf, spotri) if single else (dpotrf, dpotri)
    ridged = matrix.astype(np.float32 if single else np.float64)
    np.fill_diagonal(ridged, matrix.diagonal() + ridge)
    factor, failed = factorise(ridged.T, lower=0, overwrite_a=1)
    if failed or (single and float(factor.diagonal().min()) ** 2 < _PLAIN):
        return None
    half, _ = invert(factor, lower=0, overwrite_c=1)
    out = half.T
    for at in chunks(len(out), 512):  # the factors fill one triangle
        out[at, at.stop :] = out[at.stop :, at].T
        block = np.tril(out[at, at])
        out[at, at] = block + np.tril(block, -1).T
    return np.asarray(out)


class Strong(NamedTuple):
    """What an exact fit of the few features that stand out adds to Fisher's discriminant of them.

    Attributes:
        at: their places among the features, (k,).
        coef: difference of coefficients, exact less Fisher's, (k,).
        reverse, forward: differences of KL(denominator‖numerator) and KL(numerator‖denominator).
        variance: variance of these, the larger one: what the discriminant has no share in.
    """

    at: Integers
    coef: Floats
    reverse: float
    forward: float
    variance: float = 0.0


def strong_part(
    num: Design, den: Design, loss: Loss, of: Moments, repetition: float = 1.0, ridge: float = 1.0
) -> Strong:
    """Fit the features whose means differ most by themselves, exactly, and compare with Fisher's discriminant.

    ``repetition`` is the number of rows that are worth one, ``ridge`` that of :func:`~driftline.fitting.fit_convex`,
    on features in pooled standard deviations.
    """
    n, m = of.rows_num, of.rows_den
    within = 1.0 - of.share * (1.0 - of.share) * of.shift**2
    scores = np.abs(of.shift) / np.sqrt(np.maximum(within, 1e-6) * (1.0 / n + 1.0 / m) * repetition)
    order = np.argsort(-scores)[: int((n + m) / repetition) // _ROWS_EACH]
    at = np.sort(order[scores[order] > _OUTSTANDING])
    if len(at) == 0:
        return Strong(at, np.zeros(0), 0.0, 0.0)
    few_num, few_den = (_few(design, at, of) for design in (num, den))
    found = _compared(few_num, few_den, loss, of.part(at), repetition, ridge)
    parts = []
    for part in range(_PARTS):
        one, other = (Dense(_without(few.matrix, part)) for few in (few_num, few_den))
        parts.append(_compared(one, other, loss, moments(one, other), repetition, ridge)[2:])
    spread = np.var(np.array(parts), axis=0).max() * (_PARTS - 1) * repetition  # the jackknife, over stretches of rows
    return Strong(at, found[0] / of.scale[at] - found[1], *found[2:], float(spread))


def _compared(
    num: Dense, den: Dense, loss: Loss, of: Moments, repetition: float, ridge: float
) -> tuple[Floats, Floats, float, float]:
    """Fit exactly and by Fisher: coefficients of both, and by how much KL in both directions differs."""
    fit, apart = fit_convex(num, den, loss, ridge=ridge), discriminant(of)
    half = 0.5 * apart.divergence
    # the noise of a fit of k parameters, half of it in each direction
    noise = 0.5 * len(apart.coef) * (1.0 / of.rows_num + 1.0 / of.rows_den) * repetition
    reverse, forward = -float(fit.log_den.mean()) - noise - half, float(fit.log_num.mean()) - noise - half
    return fit.coef[:-1], apart.coef, reverse, forward


def _without(rows: Floats, part: int) -> Floats:
    """Return rows without one stretch of them."""
    first, last = (len(rows) * k // _PARTS for k in (part, part + 1))
    return np.concatenate([rows[:first], rows[last:]])


def _few(design: Design, at: Integers, of: Moments) -> Dense:
    """Return some features in pooled standard deviations, and the column of ones."""
    rows, out = design.shape[0], np.ones((design.shape[0], len(at) + 1))
    for start in range(0, rows, CHUNK):
        stop = min(start + CHUNK, rows)
        out[start:stop, :-1] = (design.take(start, stop, 1)[:, at] - of.center[at]) / of.scale[at]
    return Dense(out)
