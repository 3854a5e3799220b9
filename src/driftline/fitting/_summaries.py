"""The summary of a first window: which columns are replaced by normal scores, and the mixture that fits them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from driftline._inputs import Floats
from driftline.fitting._components import bic, fit_mixture
from driftline.fitting._expectation import refit_mixture
from driftline.fitting._features import Integers
from driftline.fitting._mixtures import Mixture
from driftline.fitting._scores import NormalScores, far_from_normal, fit_scores, spread_scores

__all__ = ["Summary", "first_summary"]

_ROWS = 5_000  # on which choices are compared
_LONG = 4.0  # kurtosis of a column with long tails; a normal one has 3, one with two modes less


class Summary(NamedTuple):
    """A small density of one window, in normal scores of some columns: numbers made of many rows, never a row."""

    scores: NormalScores | None
    mixture: Mixture

    @property
    def trivial(self) -> bool:
        """Whether its logarithm is a sum of terms in z, z² of single columns: what every quadratic model has."""
        return self.scores is None and self.mixture.trivial

    def map(self, z: Floats) -> Floats:
        """Return standardised rows (n, D) in the coordinates of the mixture, (n, D)."""
        return z if self.scores is None else self.scores(z)

    def log_density(self, z: Floats) -> Floats:
        """Return the log-density of standardised rows (n, D) in these coordinates, (n,).

        The maps are the same in every window: in differences their slopes cancel.
        """
        return self.mixture.log_density(self.map(z))

    def refit(self, z: Floats) -> Summary:
        """Return the summary of a later window, with the same maps and components, from a warm start."""
        return self._replace(mixture=refit_mixture(self.mixture, self.map(z)))


def first_summary(z: Floats, *, seed: int) -> Summary:
    """Return the summary of a first window of standardised rows (n, D).

    Columns far from normal are mapped, or only those whose shape a mixture misses, or those with long tails, or none:
    whichever has the best BIC, with the maps and their slopes.

    >>> rng = np.random.default_rng(0)
    >>> rows = rng.normal(size=(1000, 3))
    >>> first_summary(rows, seed=0).scores is None
    True
    >>> rows[:, 1] = np.exp(rows[:, 1])
    >>> first_summary(rows, seed=0).scores.columns
    array([1])
    """
    plain = Summary(None, fit_mixture(z, seed=seed))
    part = z[np.random.default_rng(seed).permutation(len(z))[:_ROWS]]
    strange = far_from_normal(part, _single(plain.mixture, z))
    if not len(strange):
        return plain
    # long tails hide clusters in other columns, so these go first; then all that a mixture still misses
    tailed = strange[[_kurtosis(part[:, j]) > _LONG for j in strange]]
    first = _mapped(z, tailed, seed) if len(tailed) else plain
    missed = np.union1d(tailed, far_from_normal(first.map(part), first.mixture))
    found = {(): plain, tuple(tailed): first}
    for columns in (missed, strange):
        if tuple(columns) not in found:
            found[tuple(columns)] = _mapped(z, columns, seed)
    return max(found.values(), key=lambda summary: _evidence(summary, part))


def _mapped(z: Floats, columns: Integers, seed: int) -> Summary:
    """Return the summary with maps of the given columns, at least one."""
    mixture = fit_mixture(spread_scores(z, columns, seed=seed), seed=seed)
    scores = fit_scores(z, columns)
    return Summary(scores, refit_mixture(mixture, z if scores is None else scores(z)))


def _kurtosis(column: Floats) -> float:
    square = (column - column.mean()) ** 2
    return float((square * square).mean() / square.mean() ** 2)


def _single(mixture: Mixture, z: Floats) -> Mixture:
    """Return the single component of the same columns."""
    first = mixture._replace(weights=np.ones(1), means=mixture.means[:1], chances=mixture.chances[:1])
    return refit_mixture(first, z)


def _evidence(summary: Summary, z: Floats) -> float:
    """Return BIC in nats on standardised rows, as a density of these."""
    value, parameters = float(summary.log_density(z).sum()), summary.mixture.parameters
    if summary.scores is not None:
        value += float(summary.scores.log_slopes(z).sum())
        parameters += summary.scores.parameters
    return bic(value, parameters, len(z))
