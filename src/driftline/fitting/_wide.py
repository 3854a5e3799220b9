r"""Fits where rows are few for the features (embeddings, pixels): least squares on window labels, from second moments.

With many features a logistic fit that is not held back exaggerates the drift, and does not even exist where the rows
are fewer than about twice the features. Least squares on the labels of the windows does neither. With y = 1 for the
numerator and 0 for the denominator, C the pooled covariance of the features, :math:`\pi` the numerator's share of the
rows and :math:`\delta` the difference of the mean features,

.. math::
    \beta = C^{-1}\pi(1-\pi)\delta,\quad \theta = \frac{\beta}{\pi(1-\pi)(1-R^2)},\quad
    \theta^\top\delta = \frac{R^2}{\pi(1-\pi)(1-R^2)},

which is Fisher's discriminant: exact for Gaussian windows of one covariance, and for any windows as the drift gets
small. Everything follows from the moments of both windows; noise adds ``dof/n + dof/m`` to
:math:`\hat\theta^\top\hat\delta`, whatever the law of the features, and nothing else.

Features that stand out one by one are few, so an exact fit of them alone says what Fisher's discriminant misses
(:func:`strong_part`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from driftline._inputs import Floats
from driftline.fitting._derivatives import Loss
from driftline.fitting._designs import Dense, Design, Singles
from driftline.fitting._features import CHUNK, Integers, chunks, rows_in_cache
from driftline.fitting._fits import FitDivergedError
from driftline.fitting._newton import fit_convex

__all__ = ["Discriminant", "Moments", "Strong", "discriminant", "moments", "strong_part", "window_gram"]

_LEAST = 1e-4  # ridge of the discriminant, in variances of a feature: enough for copies of columns in double precision
_PLAIN = 1e-2  # share of a feature that no other explains, above which single precision gives the inverse
_MOST_DOF = 0.5  # share of the rows; beyond it the noise of the discriminant grows without bound
_OUTSTANDING = 5.0  # standard errors; among thousands of features without drift none stands out so far
_ROWS_EACH = 50  # rows for each feature of an exact fit


class Moments(NamedTuple):
    """Moments of the features of two windows, in units of their pooled standard deviations.

    Shapes: ``shift`` (p,), the difference of means, numerator less denominator; ``center`` and ``scale`` (p,), the
    pooled mean and standard deviation; ``pooled`` and ``den`` (p, p), second moments around ``center`` of all rows and
    of the denominator's, in single precision.
    """

    rows_num: int
    rows_den: int
    shift: Floats
    center: Floats
    scale: Floats
    pooled: Singles
    den: Singles

    @property
    def share(self) -> float:
        """The numerator's share of the rows."""
        return self.rows_num / (self.rows_num + self.rows_den)

    @property
    def rows(self) -> int:
        """Number of rows of both windows."""
        return self.rows_num + self.rows_den

    def part(self, at: Integers) -> Moments:
        """Return the moments of some features."""
        inside = np.ix_(at, at)
        return self._replace(
            shift=self.shift[at],
            center=self.center[at],
            scale=self.scale[at],
            pooled=self.pooled[inside],
            den=self.den[inside],
        )


def window_gram(design: Design) -> Floats:
    """Return mean products of the features of a window and of their column of ones, (p + 1, p + 1)."""
    out = design.gram(np.ones(design.shape[0]))
    out /= design.shape[0]
    return out


def moments(num: Design, den: Design, gram_num: Floats | None = None, gram_den: Floats | None = None) -> Moments:
    """Return the moments of two windows whose designs end in a column of ones.

    ``gram_num`` and ``gram_den`` are those of :func:`window_gram` where they are known.
    """
    gram_num = window_gram(num) if gram_num is None else gram_num
    gram_den = window_gram(den) if gram_den is None else gram_den
    n, m = num.shape[0], den.shape[0]
    share = n / (n + m)
    # means by exact products: those in the Gram matrices are of single precision
    mean_num = num.pull(np.full(n, 1.0 / n))[:-1]
    mean_den = den.pull(np.full(m, 1.0 / m))[:-1]
    center = share * mean_num + (1.0 - share) * mean_den
    variance = share * gram_num.diagonal()[:-1] + (1.0 - share) * gram_den.diagonal()[:-1] - center * center
    still = variance <= 1e-10 * (1.0 + center * center)  # rounding of a constant column
    scale = np.sqrt(np.where(still, 1.0, variance))
    rate = np.where(still, 0.0, 1.0 / scale)
    pooled = np.empty((len(scale), len(scale)), dtype=np.float32)
    second = np.empty_like(pooled)
    for at in chunks(len(scale), rows_in_cache(len(scale))):  # by stretches: whole temporary matrices cost more
        both = _around(gram_den, mean_den, center, at)
        second[at] = both * (rate[at, None] * rate)
        both *= 1.0 - share
        both += share * _around(gram_num, mean_num, center, at)
        pooled[at] = both * (rate[at, None] * rate)
    return Moments(n, m, (mean_num - mean_den) * rate, center, scale, pooled, second)


def _around(gram: Floats, mean: Floats, center: Floats, at: slice) -> Floats:
    """Return some rows of the second moments around ``center``."""
    return np.asarray(gram[at, :-1] if at.stop < len(gram) else gram[at.start : -1, :-1]) - (
        np.outer(center[at], mean) + np.outer((mean - center)[at], center)
    )


class Discriminant(NamedTuple):
    """Fisher's discriminant of two windows: an estimate of log numerator/denominator that is not held back.

    Attributes:
        coef: coefficients in units of the features of the designs, (p,).
        ridge: strength that made it possible, in variances of a feature.
        determination: share of the labels' variance that the features explain on new rows, :math:`R^2`; unbiased.
        dof_num, dof_den: effective numbers of parameters, as each window's rows see them: noise adds
            ``dof_num / n + dof_den / m`` to the symmetric divergence.
        freedom: trace of the squared hat matrix, which gives the variance of ``determination`` without drift.
        divergence: symmetric divergence (KL in both directions), noise subtracted.
    """

    coef: Floats
    ridge: float
    determination: float
    dof_num: float
    dof_den: float
    freedom: float
    divergence: float


def discriminant(of: Moments) -> Discriminant:
    """Return Fisher's discriminant of two windows.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(2, 1000, 301))
    >>> x[1, :, :10] += 0.1**0.5  # half a nat in each direction
    >>> x[:, :, -1] = 1.0
    >>> found = discriminant(moments(Dense(x[0]), Dense(x[1])))
    >>> round(found.divergence, 1), bool(found.dof_num + found.dof_den > 595.0)
    (1.0, True)
    """
    n, m, share = of.rows_num, of.rows_den, of.share
    inverse, ridge = _bounded_inverse(of.pooled, n + m)
    weight = share * (1.0 - share)
    beta = weight * (inverse @ of.shift)
    # the inverse times the matrix without the ridge is 1 - ridge * inverse
    trace, square = float(inverse.trace()), float(np.einsum("ij,ij->", inverse, inverse))
    hat = len(inverse) - ridge * trace
    dof_den = float(np.einsum("ij,ij->", inverse, of.den))
    dof_num = (hat - (1.0 - share) * dof_den) / share
    freedom = len(inverse) - 2.0 * ridge * trace + ridge * ridge * square - hat * hat / (n + m)
    # rows of a window have one label, so that leaving out each row subtracts its window's mean leverage
    plain = float(of.shift @ beta)
    # labels less their mean: 1 - share and -share; a row's leverage is its form in the inverse, over all rows
    own = weight * ((1.0 - share) * dof_num + share * dof_den) / (n + m)
    determination = (weight * plain - own) / (weight - own)
    determination = min(determination, 1.0 - 1.0 / (n + m))
    coef = beta / (weight * (1.0 - determination))
    divergence = determination / (weight * (1.0 - determination))
    return Discriminant(coef / of.scale, ridge, determination, dof_num, dof_den, freedom, divergence)


def _bounded_inverse(matrix: Singles, rows: int) -> tuple[Floats | Singles, float]:
    """Return the inverse of a correlation matrix plus a ridge: the least one that leaves half of the rows free."""
    ridge, most = _LEAST, _MOST_DOF * rows
    if len(matrix) > most:
        values = np.maximum(np.linalg.eigvalsh(matrix), 0.0)
        steps = np.geomspace(_LEAST, 1e3, 200)
        dof = (values / (values + steps[:, None])).sum(1)
        ridge = float(steps[min(int((dof > most).sum()), len(steps) - 1)])
    inverse = _inverse(matrix, ridge, single=True)
    if inverse is None:
        inverse = _inverse(matrix, ridge, single=False)
    if inverse is None:
        raise FitDivergedError("the covariance of the features is not positive: are values extreme?")
    return inverse, ridge


def _inverse(matrix: Singles, ridge: float, single: bool) -> Floats | Singles | None:
    """Return the inverse of a correlation matrix plus a ridge, None if the precision does not suffice."""
    from scipy.linalg.lapack import dpotrf, dpotri, spotrf, spotri  # not at the top: only wide tables need it

    factorise, invert = (spotrf, spotri) if single else (dpotrf, dpotri)
    ridged = matrix.astype(np.float32 if single else np.float64)
    ridged.flat[:: len(matrix) + 1] += ridge
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
    """

    at: Integers
    coef: Floats
    reverse: float
    forward: float


def strong_part(num: Design, den: Design, loss: Loss, of: Moments, ridge: float = 1.0) -> Strong:
    """Fit the features whose means differ most by themselves, exactly, and compare with Fisher's discriminant.

    ``ridge`` is that of :func:`~driftline.fitting.fit_convex`, on features in pooled standard deviations.
    """
    n, m = of.rows_num, of.rows_den
    within = 1.0 - of.share * (1.0 - of.share) * of.shift**2
    scores = np.abs(of.shift) / np.sqrt(np.maximum(within, 1e-6) * (1.0 / n + 1.0 / m))
    order = np.argsort(-scores)[: (n + m) // _ROWS_EACH]
    at = np.sort(order[scores[order] > _OUTSTANDING])
    if len(at) == 0:
        return Strong(at, np.zeros(0), 0.0, 0.0)
    few_num, few_den = (_few(design, at, of) for design in (num, den))
    fit = fit_convex(few_num, few_den, loss, ridge=ridge)
    apart = discriminant(of.part(at))
    k, half = len(at), 0.5 * apart.divergence
    # the noise of a fit of k parameters, half of it in each direction
    noise = 0.5 * k * (1.0 / n + 1.0 / m)
    reverse, forward = -float(fit.log_den.mean()) - noise - half, float(fit.log_num.mean()) - noise - half
    return Strong(at, fit.coef[:-1] / of.scale[at] - apart.coef, reverse, forward)


def _few(design: Design, at: Integers, of: Moments) -> Dense:
    """Return some features in pooled standard deviations, and the column of ones."""
    rows, out = design.shape[0], np.ones((design.shape[0], len(at) + 1))
    for start in range(0, rows, CHUNK):
        stop = min(start + CHUNK, rows)
        out[start:stop, :-1] = (design.take(start, stop, 1)[:, at] - of.center[at]) / of.scale[at]
    return Dense(out)
