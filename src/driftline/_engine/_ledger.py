r"""The ledger: what the model leaves out, function by function, added up over the steps.

A step's fit leaves scores of the functions outside the model, :math:`s_f = -\sum_i \ell'_i \tilde f(x_i)`, where
:math:`\tilde f` is f less its regression on the model's functions. Where nothing is left out, each is noise. Over steps
the scores add up, while their noise does not: each window enters twice, with opposite signs. So drift too small for any
one step is found by its sum.

Scores are in units of mean differences between the two windows of a step.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from driftline._engine._groups import GROUPS
from driftline._inputs import Floats
from driftline.fitting import Integers

__all__ = ["Ledger", "chance_of_all", "chances", "hotelling", "sum_of"]

_RIDGE = 1e-3  # added to correlations inside a family, of which one function may follow from the others


class Ledger(NamedTuple):
    """Sums of scores of all functions (P,), and factors of their covariance (P, GROUPS); 0 for those in the model."""

    scores: Annotated[Floats, "P"]
    factors: Annotated[Floats, "P 100 single"]

    @classmethod
    def empty(cls, size: int) -> Ledger:
        """Return the ledger before any step."""
        return cls(np.zeros(size), np.zeros((size, GROUPS)))

    def plus(self, at: Integers, scores: Floats, factors: Floats) -> Ledger:
        """Add the scores of a step for some functions."""
        all_scores, all_factors = self.scores.copy(), self.factors.copy()
        all_scores[at] += scores
        all_factors[at] += factors
        return Ledger(all_scores, all_factors)

    def without(self, at: Integers) -> Ledger:
        """Return the ledger without some functions."""
        scores, factors = self.scores.copy(), self.factors.copy()
        scores[at], factors[at] = 0.0, 0.0
        return Ledger(scores, factors)


def hotelling(ledger: Ledger, at: Integers, family: Integers) -> Floats:
    r"""Return Hotelling's :math:`T^2 = S^\top V^{-1} S` of each family's scores, (families,).

    Arguments:
        at: the functions, (k,).
        family: number of each function's family, (k,), from 0 on.
    """
    out, sizes = np.zeros(int(family.max()) + 1), np.bincount(family)
    at, starts = at[np.argsort(family, kind="stable")], np.cumsum(sizes) - sizes
    for size in np.unique(sizes):
        which = np.flatnonzero(sizes == size)
        rows = at[starts[which][:, None] + np.arange(size)]
        score, factor = ledger.scores[rows], ledger.factors[rows]
        spread = np.sqrt(np.square(factor).sum(2))
        unit = np.where(spread > 0.0, spread, 1.0)
        factor, score = factor / unit[..., None], np.where(spread > 0.0, score / unit, 0.0)
        covariance = factor @ factor.transpose(0, 2, 1) + _RIDGE * np.eye(size)
        out[which] = np.einsum("fi,fi->f", score, np.linalg.solve(covariance, score[..., None])[..., 0])
    return out


def chances(ledger: Ledger, at: Integers, family: Integers, freedom: int) -> Floats:
    """Return the log-chance of each family's scores where nothing is left out, (families,); see :func:`hotelling`."""
    from scipy.stats import f as fisher

    size = np.bincount(family)
    rest = np.maximum(freedom - size + 1, 1)
    return np.asarray(fisher.logsf(hotelling(ledger, at, family) * rest / (size * freedom), size, rest))


def chance_of_all(ledger: Ledger, at: Integers, freedom: int) -> float:
    """Return the log-chance that noise makes the scores of so many functions as large; see :func:`sum_of`."""
    from scipy.stats import chi2

    square, degrees = sum_of(ledger, at, freedom)
    return float(chi2.logsf(square, degrees)) if degrees else 0.0


def sum_of(ledger: Ledger, at: Integers, freedom: int) -> tuple[float, float]:
    r"""Return the sum of squared scores in units of noise, scaled to a :math:`\chi^2`, and its degrees of freedom.

    The degrees are those that the correlations leave, :math:`k^2 / \operatorname{tr} R^2`, with the trace corrected for
    the noise of its factors. Each score has a noise of its own, so its square is larger by
    :math:`\nu / (\nu - 2)` on average.
    """
    spread = np.sqrt(np.square(ledger.factors[at]).sum(1))
    at, spread = at[spread > 0.0], spread[spread > 0.0]
    k = len(at)
    if not k:
        return 0.0, 0.0
    factors = ledger.factors[at] / spread[:, None]
    trace = (float(np.square(factors.T @ factors).sum()) - k * k / freedom) / (1.0 + 1.0 / freedom)
    degrees = k * k / min(max(trace, float(k)), float(k * k))
    square = float(np.square(ledger.scores[at] / spread).sum()) * max(freedom - 2, 1) / freedom
    return square * degrees / k, degrees
