"""A log-linear step as a convex problem, and its solution by Newton's method."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from driftline._inputs import Floats
from driftline.fitting import (
    LESSER,
    ConvexFit,
    Design,
    Features,
    Lessers,
    LogLinearDesign,
    Loss,
    Monomials,
    Summaries,
    fit_convex,
)
from driftline.inference import Dependence
from driftline.recursion._rare import off_heap
from driftline.recursion._settings import StepSettings

__all__ = ["EFFECT", "Problem", "Solved", "plain_prior", "prior", "solve"]

_FIXED = 1e9  # times the prior: a coefficient with this much of it stays
EFFECT = 2.5  # nats: prior standard deviation of the largest effect of a learned feature or a rare value, for ridge=1


class Problem(NamedTuple):
    """A log-linear step to be fitted: features, those before, their coefficients, both windows standardised, offsets.

    A psi of the same kind is continued by adding to its coefficients; of any other, only the output counts, as an
    offset. ``summaries`` are those that psi will have, whose step is in the offsets. ``crossed_num`` and
    ``crossed_den`` are values of learned features for rows that they were learned from, see :class:`LogLinearDesign`.
    The coefficients of the first ``frozen`` learned features stay as they are. ``rows_num`` and ``rows_den`` say how
    the rows of each window depend on each other.
    """

    features: Features
    before: Features
    coef: Floats
    z_num: Floats
    z_den: Floats
    offset_num: Floats | None
    offset_den: Floats | None
    continues: bool
    first: bool
    summaries: Summaries | None = None
    crossed_num: Floats | None = None
    crossed_den: Floats | None = None
    frozen: int = 0
    rows_num: Dependence = Dependence()
    rows_den: Dependence = Dependence()

    @property
    def rows(self) -> float:
        """Number of effective rows of the window that has fewer."""
        return min(self.rows_num.effective(len(self.z_num)), self.rows_den.effective(len(self.z_den)))

    @property
    def time(self) -> float:
        """Number of neighbouring rows that are worth one, the larger of both windows."""
        return max(self.rows_num.time, self.rows_den.time)


class Solved(NamedTuple):
    """A problem, the designs of both windows, the fit, and rows of both off the most common value of a column, (D,)."""

    problem: Problem
    num: LogLinearDesign
    den: LogLinearDesign
    fit: ConvexFit
    events: Floats


def prior(num: LogLinearDesign, den: LogLinearDesign, events: Floats, frozen: int = 0) -> Floats:
    """Return the weight of the prior on each coefficient and on the constant, (p + 1,); ``events`` as in plain_prior.

    Clusters of a table with many indicators have features that only a few rows hold. In units of their spread these are
    far away, and a coefficient that looks small would change the ratio of such rows by any amount: the prior on what is
    learned is on the largest effect that it has on a row. The same holds for columns of which all but a few rows hold
    the same value: the prior is on the effect of an event, whose distance is one over the root of its share.
    """
    features = num.features
    out, weight = plain_prior(features, events, len(num.z) + len(den.z))
    at = first = len(out) - 1 - sum(other.size for other in features.others)
    for other in features.others:
        part = slice(at, at + other.size)
        at = part.stop
        if isinstance(other.map, Monomials):  # bounded, so only as rare as their columns
            out[part] = np.maximum(1.0, np.append(np.tile(weight, 3), 0.0)[other.map.factors].max(1))
            continue
        if isinstance(other.map, Lessers):
            out[part] = np.maximum(1.0, np.repeat(weight[other.map.of[:, :2]].max(1), LESSER))
            continue
        top = np.maximum(num.top, den.top)[part.start - first : part.stop - first]
        out[part] = np.maximum(1.0, np.square(top / EFFECT))
        out[part][:frozen] *= _FIXED
        frozen = max(0, frozen - other.size)
    return out


def plain_prior(features: Features, events: Floats, rows: float) -> tuple[Floats, Floats]:
    """Return the prior on features that are not learned, (p + 1,), and that on an event of each column, (D,).

    Arguments:
        events: rows of both windows that do not hold the most common value of a column, (D,).
        rows: rows of both windows.
    """
    out, weight = features.prior, rows / (EFFECT**2 * np.maximum(events, 1.0))
    columns, ends = np.concatenate([features.linear, features.squares]), features.base + len(features.pairs)
    rare = np.concatenate([weight[columns], weight[features.pairs].max(1, initial=0.0)])
    out[:ends] = np.where(rare > 1.0, rare, out[:ends])
    return out, weight


def solve(problem: Problem, loss: Loss, settings: StepSettings, known: Design | None = None) -> Solved:
    """Fit by Newton's method; ``known`` is the design of the numerator's window, used if it has these features."""
    num = LogLinearDesign(problem.features, problem.z_num, problem.crossed_num)
    if isinstance(known, LogLinearDesign) and known.features is problem.features:
        num = known
    den = LogLinearDesign(problem.features, problem.z_den, problem.crossed_den)
    events = off_heap(num.z, den.z)
    ridge = settings.ridge * prior(num, den, events, problem.frozen)
    fit = fit_convex(num, den, loss, offset_num=problem.offset_num, offset_den=problem.offset_den, ridge=ridge)
    return Solved(problem, num, den, fit, events)
