"""The summary of a first window: which columns are replaced by normal scores, and the mixture that fits them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from driftline._inputs import Floats
from driftline.fitting._components import bic, fit_mixture
from driftline.fitting._expectation import refit_mixture
from driftline.fitting._mixtures import Mixture
from driftline.fitting._scores import NormalScores, far_from_normal, fit_scores, spread_scores

__all__ = ["Summary", "first_summary"]

_ROWS = 5_000  # on which choices are compared


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

    Columns are mapped where a mixture misses their shape, if BIC with the maps and their slopes is better.

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
    found, tried = [plain], set()
    single = [_single(plain.mixture, z)] if plain.mixture.components > 1 else []
    for mixture in (plain.mixture, *single):
        columns = far_from_normal(part, mixture)
        scores = fit_scores(z, columns)
        if scores is not None and tuple(columns) not in tried:
            tried.add(tuple(columns))
            mixture = fit_mixture(spread_scores(z, columns, seed=seed), seed=seed)
            found.append(Summary(scores, refit_mixture(mixture, scores(z))))
    return max(found, key=lambda summary: _evidence(summary, part))


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
