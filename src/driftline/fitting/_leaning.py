"""Fitting densities whose components have shapes and tails of their own, by expectation-maximisation.

The first window decides how many components there are, and how heavy their tails; later ones start where the last has
ended. A shape is drawn towards the one that all components share, so that none is flat.
"""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from driftline._inputs import Floats
from driftline.fitting._chunks import Integers, chunks, rows_in_cache
from driftline.fitting._components import bic, search
from driftline.fitting._ellipsoids import Ellipsoids, student_constant, student_log, student_weight
from driftline.fitting._expectation import LEAST, Columns, Sample, least_rows, make_sample
from driftline.fitting._mixtures import bernoulli_logits
from driftline.fitting._starts import Labels, nearest, scaled, split

__all__ = ["affords_shapes", "fit_ellipsoids", "refit_ellipsoids"]

_SHARE = 0.05  # of the rows in a component, at least
_ROWS_PER_PARAMETER = 25
_ROWS = 5_000  # of the search
_SHORT, _LONG, _WARM = 10, 60, 25  # iterations: of each start, of the best of them, of a later window
_TOLERANCE = 2e-5  # nats a row
_FREEDOM = (3.0, 4.0, 6.0, 8.0, 12.0, math.inf)  # beyond 12 hardly a row is so far out
_HEAP = 0.01  # share of rows with one and the same value, at most: a shape would shrink to it
_DRAWN = 1.0  # row: the weight of the common shape in that of a component


class _Fit(NamedTuple):
    """Weights (K,), means (K, G), chances (K, B), whiteners (K, G, G) and degrees of freedom, in a sample's units."""

    weights: Floats
    means: Floats
    chances: Floats
    whiteners: Floats
    freedom: float
    log_likelihood: float = -math.inf
    least: float = math.inf

    def density(self, sample: Sample) -> Ellipsoids:
        """Return the density of standardised rows, the heaviest component first."""
        order = np.argsort(-self.weights, kind="stable")
        means = sample.center + self.means[order] * sample.scale
        whiteners = self.whiteners[order] / sample.scale[:, None]
        freedom = np.array(self.freedom)
        return Ellipsoids(*sample.columns, self.weights[order], means, self.chances[order], whiteners, freedom)


def affords_shapes(z: Floats, columns: Columns) -> bool:
    """Say whether there are rows enough for a shape of its own, in columns that are not heaped on some values."""
    g = len(columns.gaussian)
    if g < 2 or 0.5 * g * (g + 3) * _ROWS_PER_PARAMETER > len(z):
        return False
    return all(_tallest(z[:, j]) <= _HEAP * len(z) for j in columns.gaussian)


def _tallest(column: Floats) -> int:
    return int(np.unique(column, return_counts=True)[1].max())


def fit_ellipsoids(z: Floats, columns: Columns, *, seed: int) -> Ellipsoids | None:
    """Return the density with the best BIC of a first window of standardised rows (n, D); None for a single Gaussian.

    >>> from driftline.fitting import describe_columns
    >>> rng = np.random.default_rng(0)
    >>> rows = rng.normal(size=(2000, 2))
    >>> rows[:600] = rows[:600] * [0.3, 2.0] + [5.0, 0.0]
    >>> fit_ellipsoids(rows, describe_columns(rows), seed=0).components
    2
    """
    rng = np.random.default_rng(seed)
    sample = make_sample(z, columns)
    part = make_sample(z[rng.permutation(len(z))[:_ROWS]], columns) if len(z) > _ROWS else sample
    found = _search(part, len(z), rng)
    if len(found.weights) == 1 and math.isinf(found.freedom):
        return None
    if part is sample:
        return found.density(sample)
    return refit_ellipsoids(found.density(part), z, iterations=_LONG)


def refit_ellipsoids(density: Ellipsoids, z: Floats, *, iterations: int = _WARM) -> Ellipsoids:
    """Return the summary of a later window (n, D): the same columns, components and tails, from a warm start."""
    sample = make_sample(z, Columns(*density[:4]))
    start = _Fit(
        density.weights,
        (density.means - sample.center) / sample.scale,
        density.chances,
        density.whiteners * sample.scale[:, None],
        float(density.freedom),
    )
    return _iterate(sample, start, iterations=iterations, free=False).density(sample)


def _search(sample: Sample, rows: int, rng: np.random.Generator) -> _Fit:
    """Return the fit with the best BIC to a sample of a window with so many rows."""
    n, g, b = len(sample.rows), len(sample.columns.gaussian), len(sample.columns.binary)
    first = _iterate(sample, _begun(sample, np.zeros(n, dtype=np.intp), 1), iterations=_LONG, free=True)
    least = max(LEAST, _SHARE * n, g * (g + 1))
    most = min(rows // (_ROWS_PER_PARAMETER * (g * (g + 3) // 2 + b + 1)), int(n // (2.0 * LEAST)))
    return search(first, lambda k, fit: _best_of(sample, k, fit, rng), lambda fit: _worth(fit, n, least), most)


def _best_of(sample: Sample, k: int, previous: _Fit, rng: np.random.Generator) -> _Fit:
    """Return the best fit with k components from three starts."""
    rows, g = scaled(sample), len(sample.columns.gaussian)
    labels = np.argmax(_expect(_by_column(sample.rows), previous, sample.columns.group)[0], 0)
    turned = rows.copy()
    turned[:, :g] = rows[:, :g] @ previous.whiteners[int(np.argmax(previous.weights))]
    starts = [split(rows, labels, int(np.argmax(previous.weights)), k - 1), nearest(rows, k, rng)]
    starts.append(nearest(turned, k, rng))
    short = [_iterate(sample, _begun(sample, start, k), iterations=_SHORT, free=True) for start in starts]
    best = max(short, key=lambda fit: _worth(fit, len(rows)))
    return _iterate(sample, best, iterations=_LONG, free=True)


def _worth(fit: _Fit, rows: int, least: float = 0.0) -> float:
    k, g, b = len(fit.weights), fit.means.shape[1], fit.chances.shape[1]
    parameters = k - 1 + k * (g + b + g * (g + 1) // 2) + math.isfinite(fit.freedom)
    return -math.inf if fit.least < least else bic(rows * fit.log_likelihood, parameters, rows)


def _begun(sample: Sample, labels: Labels, k: int) -> _Fit:
    """Return components for labelled rows."""
    g = len(sample.columns.gaussian)
    blank = _Fit(
        np.full(k, 1.0 / k), np.zeros((k, g)), np.tile(sample.on, (k, 1)), np.tile(np.eye(g), (k, 1, 1)), math.inf
    )
    member = np.asarray(labels[:, None] == np.arange(k), dtype=np.float64)
    return _maximised(sample, blank, _moments(sample, blank, 0.9 * member + 0.1 / k))


def _iterate(sample: Sample, fit: _Fit, *, iterations: int, free: bool) -> _Fit:
    """Improve a fit until it gains less than the tolerance; ``free`` also looks for the heaviness of its tails."""
    last = -math.inf
    for count in range(iterations):
        if free and count % 4 == 3:
            fit = fit._replace(freedom=_tails(sample, fit))
        moments = _moments(sample, fit)
        if moments.log_likelihood - last < _TOLERANCE and count > 4:
            break
        last = moments.log_likelihood
        fit = _maximised(sample, fit, moments)
    else:
        moments = _moments(sample, fit)
    return fit._replace(log_likelihood=moments.log_likelihood, least=float(moments.sizes.min()))


class _Moments(NamedTuple):
    """Of each component: rows (K,), weights of Student's t (K,), weighted sums of rows and products, sums of flags."""

    sizes: Floats
    counts: Floats
    sums: Floats
    products: Floats
    flags: Floats
    log_likelihood: float


def _moments(sample: Sample, fit: _Fit, member: Floats | None = None) -> _Moments:
    """Sum over the rows, with a component's probability given each row or as ``member`` (n, K) says."""
    n, (k, g) = len(sample.rows), fit.means.shape
    sizes, counts, sums, products = np.zeros(k), np.zeros(k), np.zeros((k, g)), np.zeros((k, g, g))
    flags, total = np.zeros(fit.chances.shape), 0.0
    for at in chunks(n, rows_in_cache(sample.rows.shape[1])):
        rows = _by_column(sample.rows[at])
        gamma, weights = _expect(rows, fit, sample.columns.group)
        top = gamma.max(0)
        gamma -= top
        np.exp(gamma, out=gamma)
        norm = gamma.sum(0)
        total += float(top.sum() + np.log(norm).sum())
        gamma /= norm
        if member is not None:
            gamma = np.ascontiguousarray(member[at].T)
        sizes += gamma.sum(1)
        flags += gamma @ rows[g:].T
        gamma *= weights
        counts += gamma.sum(1)
        sums += gamma @ rows[:g].T
        for c in range(k):
            products[c] += (rows[:g] * gamma[c]) @ rows[:g].T
    return _Moments(sizes, counts, sums, products, flags, total / n - float(np.log(sample.scale).sum()))


def _by_column(rows: npt.NDArray[np.float32]) -> Floats:
    """Return rows (n, p) in double precision as (p, n): NumPy is slow along rows so short, and components are few."""
    return np.ascontiguousarray(rows.T, dtype=np.float64)


def _expect(rows: Floats, fit: _Fit, group: Integers) -> tuple[Floats, Floats]:
    """Return log-densities of components times their weights, and weights of Student's t, both (K, n), of (p, n)."""
    g = fit.means.shape[1]
    logs, distance = _terms(rows, fit, group)
    logs += student_constant(fit.freedom, g) + student_log(distance, fit.freedom, g)
    return logs, student_weight(distance, fit.freedom, g)


def _terms(rows: Floats, fit: _Fit, group: Integers) -> tuple[Floats, Floats]:
    """Return what does not depend on the tails, and squared distances, both (K, n), of rows (p, n)."""
    g = fit.means.shape[1]
    odds, none = bernoulli_logits(fit.chances, group)
    logs = odds @ rows[g:]
    logs += (none + np.log(fit.weights) + np.linalg.slogdet(fit.whiteners)[1])[:, None]
    distance = np.empty(logs.shape)
    for c, (mean, whitener) in enumerate(zip(fit.means, fit.whiteners, strict=True)):
        y = whitener.T @ (rows[:g] - mean[:, None])
        np.einsum("ij,ij->j", y, y, out=distance[c])
    return logs, distance


def _tails(sample: Sample, fit: _Fit) -> float:
    """Return the degrees of freedom under which the rows are most likely, looking onwards from those of the fit."""
    g = fit.means.shape[1]
    logs, distance = _terms(_by_column(sample.rows), fit, sample.columns.group)

    @cache
    def likelihood(at: int) -> float:
        nu = _FREEDOM[at]
        terms = logs + student_constant(nu, g) + student_log(distance, nu, g)
        top = terms.max(0)
        terms -= top
        return float((top + np.log(np.exp(terms, out=terms).sum(0))).sum())

    best, before = _FREEDOM.index(fit.freedom), -1
    while best != before:
        before = best
        best = max(range(max(best - 1, 0), min(best + 2, len(_FREEDOM))), key=likelihood)
    return _FREEDOM[best]


def _maximised(sample: Sample, fit: _Fit, moments: _Moments) -> _Fit:
    """Return the parameters that fit the components' rows; one with few rows stays near where it was."""
    n, (k, g) = len(sample.rows), fit.means.shape
    enough = np.maximum(moments.sizes, least_rows(n, k))
    missing = (enough - moments.sizes)[:, None]
    means = (moments.sums + missing * fit.means) / (moments.counts[:, None] + missing)
    chances = (moments.flags + sample.on + missing * fit.chances) / (enough[:, None] + 1.0)
    inside = np.empty((k, g, g))
    for c, mean in enumerate(means):
        cross = np.outer(moments.sums[c], mean)
        inside[c] = moments.products[c] - cross - cross.T + moments.counts[c] * np.outer(mean, mean)
    common = inside.sum(0) / n
    common[np.diag_indices(g)] += 1e-6
    drawn = _DRAWN + missing
    shapes = (inside + drawn[..., None] * common) / (moments.sizes + drawn[:, 0])[:, None, None]
    whiteners = np.linalg.inv(np.linalg.cholesky(shapes)).transpose(0, 2, 1)
    return _Fit(enough / enough.sum(), means, chances, whiteners, fit.freedom)
