"""How many components the summary of a first window has: BIC proposes, held-out rows confirm."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from driftline._inputs import Floats
from driftline.fitting._chunks import Integers
from driftline.fitting._covariances import independent_columns
from driftline.fitting._expectation import (
    LEAST,
    Columns,
    Fit,
    Sample,
    describe_columns,
    iterate,
    make_sample,
    mark_gap,
    one,
    refit_mixture,
    spread_marks,
)
from driftline.fitting._mixtures import Mixture
from driftline.fitting._starts import divided, seeded

__all__ = ["bic", "fit_mixture", "search"]

T = TypeVar("T")

_MOST = 6  # components
_ROWS, _NUMBERS = 5_000, 1_280_000  # of the search: rows, and numbers in them (5,000 rows of 256 columns)
_SHORT, _LONG = 12, 60  # iterations for each start; for the best of them
_SHARE = 0.05  # of the rows in a component, at least: what a step says of a smaller one is mostly noise
_ERRORS = 2.0  # standard errors by which held-out rows must prefer more than one component, after BIC has


def bic(log_likelihood: float, parameters: int, rows: int) -> float:
    """Return the evidence for a model in nats: its log-likelihood less half a log(rows) for each parameter."""
    return log_likelihood - 0.5 * parameters * math.log(rows)


def fit_mixture(z: Floats, *, seed: int, among: Integers | None = None) -> Mixture:
    """Return the summary density of a first window of standardised rows (n, D).

    The number of components and the form of their covariance are those with the best BIC, on at most 5,000 rows; more
    than one component must also predict rows better that they were not fitted to. Columns that others determine are
    left out; ``among`` are those that may have a density, if it is known.

    >>> rng = np.random.default_rng(0)
    >>> rows = rng.normal(size=(1000, 3))
    >>> fit_mixture(rows, seed=0).components
    1
    >>> rows[:300, 0] += 6.0
    >>> fit_mixture(rows, seed=0).components
    2
    """
    columns = describe_columns(z) if len(z) else Columns(*(np.zeros(0, dtype=np.int64),) * 3, np.zeros((0, 2)))
    if among is not None:
        columns = columns._replace(gaussian=np.intersect1d(columns.gaussian, among))
    sample, rng = make_sample(z, columns), np.random.default_rng(seed)
    kept = independent_columns(sample.scatter)
    if len(kept) < len(columns.gaussian):  # a plane has no density
        columns = columns._replace(gaussian=columns.gaussian[kept])
        sample = make_sample(z, columns)
    size = len(columns.gaussian) + len(columns.binary)
    if size == 0:
        return one(sample).mixture(sample)
    spread = spread_marks(z, columns.gaussian, rng)
    if spread is not z:
        found = _fitted(spread, columns, make_sample(spread, columns), rng)
        refitted = refit_mixture(found, z) if found.components > 1 else found
        clustered = refitted.components > 1 and not _on_marks(refitted, z)
        return refitted if clustered else one(sample).mixture(sample)
    return _fitted(z, columns, sample, rng)


def _on_marks(mixture: Mixture, z: Floats) -> bool:
    """Say whether components have shrunk to the marks of a column: a new mark would be a million nats from them."""
    for at, j in enumerate(mixture.gaussian):
        gap = mark_gap(z[:, j])
        if gap > 0.0 and float(np.square(mixture.spreads[:, at]).min()) < gap**2 / 12.0:
            return True
    return False


def _fitted(z: Floats, columns: Columns, sample: Sample, rng: np.random.Generator) -> Mixture:
    """Return the mixture with the best BIC that predicts rows better that it was not fitted to, or a single one."""
    size = len(columns.gaussian) + len(columns.binary)
    rows = min(_ROWS, max(1_000, _NUMBERS // size))
    order = rng.permutation(len(z))
    part = make_sample(z[order[:rows]], columns) if len(z) > rows else sample
    n = len(part.rows)
    least, most = max(LEAST, _SHARE * n), int(n // (2.0 * LEAST))
    found = search(one(part), lambda k, fit: _best_of(part, k, fit, rng), lambda fit: _worth(fit, n, least), most)
    k = len(found.weights)
    fresh = z[order[rows : 2 * rows]]  # rows that the search has not seen
    if k == 1:
        gain = np.zeros(1)
    elif 2 * len(fresh) >= rows:
        gain = _gain(part, found, fresh)
    else:
        halves = np.array_split(z[order[:rows]], 2)
        anew = [_fit_anew(make_sample(half, columns), k, rng) for half in halves]
        gain = np.concatenate([_gain(*fit, half) for fit, half in zip(anew, reversed(halves), strict=True)])
    if gain.mean() <= _ERRORS * gain.std() / math.sqrt(len(gain)):
        return one(sample).mixture(sample)
    free = len(found.covariance.stretch) > 0
    if part is not sample:
        shift, rate = (part.center - sample.center) / sample.scale, part.scale / sample.scale
        found = found._replace(means=found.means * rate + shift, covariance=found.covariance.scaled(rate))
        found = iterate(sample, found, iterations=_LONG, free=free)
    return found.mixture(sample)


def search(first: T, more: Callable[[int, T], T], worth: Callable[[T], float], most: int) -> T:
    """Return the fit that is worth most, from the first, of one component, until two more in a row have not helped.

    ``more`` returns a fit of k components, given the one before; ``worth`` is -inf if one of them has too few rows.
    """
    best = previous = first
    score, worse = worth(first), 0
    for k in range(2, min(_MOST, most) + 1):
        previous = more(k, previous)
        value, worse = worth(previous), worse + 1
        if value > score:
            best, score, worse = previous, value, 0
        if worse == 2:
            break
    return best


def _worth(fit: Fit, rows: int, least: float = 0.0) -> float:
    return -math.inf if fit.least < least else bic(rows * fit.log_likelihood, fit.parameters(), rows)


def _best_of(sample: Sample, k: int, previous: Fit, rng: np.random.Generator) -> Fit:
    """Return the best fit with k components: three starts, with a diagonal covariance and with a free one."""
    n = len(sample.rows)

    def tried(free: bool) -> Fit:
        starts = [divided(sample, previous), *(seeded(sample, k, previous, free=free, rng=rng) for _ in range(2))]
        short = [iterate(sample, start, iterations=_SHORT, free=free) for start in starts]
        return iterate(sample, max(short, key=lambda fit: _worth(fit, n)), iterations=_LONG, free=free)

    found = [tried(free=False)]
    # clusters that a diagonal covariance has found may turn out to be correlated inside
    found.append(iterate(sample, found[0], iterations=_LONG, free=True))
    if len(previous.covariance.stretch) or len(found[1].covariance.stretch):
        found.append(tried(free=True))
    return max(found, key=lambda fit: _worth(fit, n))


def _fit_anew(sample: Sample, k: int, rng: np.random.Generator) -> tuple[Sample, Fit]:
    """Return a sample and a fit of k components to it that knows of no other rows."""
    fit = one(sample)
    for components in range(2, k + 1):
        fit = _best_of(sample, components, fit, rng)
    return sample, fit


def _gain(sample: Sample, fit: Fit, z: Floats) -> Floats:
    """Return by how much a fit to a sample predicts other rows (n, D) better than a single component does, (n,)."""
    return fit.mixture(sample).log_density(z) - one(sample).mixture(sample).log_density(z)
