"""The summary of a first window: which columns are replaced by normal scores, and the mixture that fits them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from driftline._inputs import Floats
from driftline.fitting._chunks import Integers
from driftline.fitting._components import bic, fit_mixture
from driftline.fitting._densities import Density
from driftline.fitting._expectation import Columns, refit_mixture
from driftline.fitting._leaning import affords_shapes, fit_ellipsoids, refit_ellipsoids
from driftline.fitting._mixtures import Mixture
from driftline.fitting._scores import NormalScores, far_from_normal, fit_scores, spread_scores

__all__ = ["Summary", "first_summary", "moved_density", "refit_density"]

_FEWEST = 100  # rows of a window; with fewer, clusters stay where they are
_STRETCHES = 10  # of neighbouring rows in each half of a window
_ROWS = 5_000  # on which choices are compared
_ERRORS = 2.0  # standard errors by which rows must prefer shapes of their own that these were not fitted to
_MOVED = 2.0  # standard errors by which rows must prefer clusters that have moved
_LARGER = 1.1  # times as many rows, from which that they are more is an advantage
_APART = 3.0  # standard errors by which clusters of two windows must tell their rows apart
_LONG = 4.0  # kurtosis of a column with long tails; a normal one has 3, one with two modes less


class Summary(NamedTuple):
    """A small density of one window, in normal scores of some columns: numbers made of many rows, never a row."""

    scores: NormalScores | None
    density: Density

    def map(self, z: Floats) -> Floats:
        """Return standardised rows (n, D) in the coordinates of the density, (n, D)."""
        return z if self.scores is None else self.scores(z)

    def log_density(self, z: Floats) -> Floats:
        """Return the log-density of standardised rows (n, D) in these coordinates, (n,).

        The maps are the same in every window: in differences their slopes cancel.
        """
        return self.density.log_density(self.map(z))

    def refit(self, z: Floats) -> Summary:
        """Return the summary of a later window, with the same maps and components, from a warm start."""
        return self._replace(density=refit_density(self.density, self.map(z)))


def refit_density(density: Density, z: Floats) -> Density:
    """Return the density of a later window (n, D), of the same kind and size, from a warm start."""
    return refit_mixture(density, z) if isinstance(density, Mixture) else refit_ellipsoids(density, z)


def moved_density(density: Density, rows: float, num: Floats, den: Floats, *, worth: float = 1.0) -> Density | None:
    """Return the density of a window (m, D), or None where its clusters are those of an earlier one of so many rows.

    Clusters that stand for anything but clusters move a good deal by chance, and that would be taken for drift. So what
    is fitted to half of the rows must predict the other half better, after a correction: a fit to all rows has half
    the error, a quarter of the difference to what a fit says of its own rows. So many neighbours are ``worth`` one row.

    That is not enough if the window has more rows than the earlier one: a fit to more rows predicts better though
    nothing moves. Clusters must then also tell rows of the window from those of the window before, (n, D).
    """
    if len(den) < _FEWEST:
        return None
    gains, optimism = [], 0.0
    halves = _halves(den)
    before = [density.log_density(half) for half in halves]
    for own, other in ((0, 1), (1, 0)):
        fitted = refit_density(density, halves[own])
        gains.append(fitted.log_density(halves[other]) - before[other])
        optimism += float((fitted.log_density(halves[own]) - before[own]).mean() - gains[-1].mean()) / 2.0
    gain = np.concatenate(gains)
    if gain.mean() + optimism / 4.0 <= _MOVED * gain.std() * np.sqrt(worth / len(gain)):
        return None
    if len(den) > _LARGER * rows and not _differ(density, _halves(num), halves, worth):
        return None
    return refit_density(density, den)


def _halves(z: Floats) -> tuple[Floats, Floats]:
    """Return two halves of the rows in stretches, since neighbours often depend on each other."""
    part = (np.arange(len(z)) * 2 * _STRETCHES // len(z)) % 2
    return z[part == 0], z[part == 1]


def _differ(density: Density, num: tuple[Floats, Floats], den: tuple[Floats, Floats], worth: float) -> bool:
    """Say whether clusters fitted to as many rows of either window tell other rows of both apart, given in halves.

    If nothing moves, the difference of their log-densities has the same mean over rows of both that neither has seen.
    """
    apart, error, most = 0.0, 0.0, min(map(len, (*num, *den)))
    if 2 * most < _FEWEST:
        return False
    for own, other in ((0, 1), (1, 0)):
        then, now = (refit_density(density, half[own][np.arange(most) * len(half[own]) // most]) for half in (num, den))
        values = [now.log_density(half[other]) - then.log_density(half[other]) for half in (num, den)]
        apart += float(values[1].mean() - values[0].mean())
        error += sum(float(value.var()) / len(value) for value in values)
    return apart > _APART * float(np.sqrt(worth * error))


def first_summary(z: Floats, *, seed: int) -> Summary:
    """Return the summary of a first window of standardised rows (n, D).

    Columns far from normal are mapped, or only those whose shape a mixture misses, or those with long tails, or none:
    whichever has the best BIC, with the maps and their slopes. Clusters have shapes and tails of their own if that is
    better still, by BIC and for rows that have not been fitted.

    >>> rng = np.random.default_rng(0)
    >>> rows = rng.normal(size=(1000, 3))
    >>> first_summary(rows, seed=0).scores is None
    True
    >>> rows[:, 1] = np.exp(rows[:, 1])
    >>> first_summary(rows, seed=0).scores.columns
    array([1])
    """
    part = z[np.random.default_rng(seed).permutation(len(z))[:_ROWS]]
    found = _with_one_shape(z, part, seed)
    best = max(found, key=lambda summary: _evidence(summary, part))
    leaning = [_leaning(z, each, seed) for each in _different(found[0], best)]
    own = max((each for each in leaning if each), key=lambda summary: _evidence(summary, part), default=None)
    if own is not None and _evidence(own, part) > _evidence(best, part) and _predicts(own, best, part):
        return own
    return best


def _with_one_shape(z: Floats, part: Floats, seed: int) -> list[Summary]:
    """Return summaries whose clusters are alike in shape, first the one without maps."""
    mixture = fit_mixture(z, seed=seed)
    plain = Summary(None, mixture)
    strange = far_from_normal(part, _single(mixture, z))
    if not len(strange):
        return [plain]
    # long tails hide clusters in other columns, so these go first; then all that a mixture still misses
    tailed = strange[[_kurtosis(part[:, j]) > _LONG for j in strange]]
    among = mixture.gaussian  # a curve in place of a column hides that others determine it
    first = _mapped(z, tailed, among, seed) if len(tailed) else plain
    missed = np.union1d(tailed, far_from_normal(first.map(part), first.density))
    found = {(): plain, tuple(tailed): first}
    for columns in (missed, strange):
        if tuple(columns) not in found:
            found[tuple(columns)] = _mapped(z, columns, among, seed)
    return list(found.values())


def _different(plain: Summary, best: Summary) -> list[Summary]:
    return [plain] if best.scores is None else [plain, best]


def _leaning(z: Floats, summary: Summary, seed: int) -> Summary | None:
    """Return the summary in the same coordinates whose clusters have shapes of their own, if rows can pay for it."""
    columns = Columns(*summary.density[:4])
    if not affords_shapes(z, columns):
        return None
    density = fit_ellipsoids(summary.map(z), columns, seed=seed)
    return None if density is None else summary._replace(density=density)


def _predicts(one: Summary, other: Summary, z: Floats) -> bool:
    """Say whether a summary predicts rows better than another one, each fitted again to the other half of them."""
    gain = []
    for fitted, fresh in ((z[::2], z[1::2]), (z[1::2], z[::2])):
        logs = [_log_density(summary.refit(fitted), fresh) for summary in (one, other)]
        gain.append(logs[0] - logs[1])
    both = np.concatenate(gain)
    return bool(both.mean() > _ERRORS * both.std() / np.sqrt(len(both)))


def _mapped(z: Floats, columns: Integers, among: Integers, seed: int) -> Summary:
    """Return the summary with maps of the given columns, at least one."""
    mixture = fit_mixture(spread_scores(z, columns, seed=seed), seed=seed, among=among)
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
    parameters = summary.density.parameters + (summary.scores.parameters if summary.scores is not None else 0)
    return bic(float(_log_density(summary, z).sum()), parameters, len(z))


def _log_density(summary: Summary, z: Floats) -> Floats:
    """Return the log-density of standardised rows, as one of these, (n,)."""
    slopes = 0.0 if summary.scores is None else summary.scores.log_slopes(z)
    return summary.log_density(z) + slopes
