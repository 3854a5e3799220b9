r"""Evidence for further features: scores of candidates outside the model, added up over the steps.

A feature outside the model has score :math:`s = \sum_i g_i f(x_i)`, zero on average where the model is right. Scores
and their variances are added up over the steps, so that a slow drift is found as surely as a fast one.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

__all__ = ["PAIR_COLUMNS", "Evidence", "coarse", "collect", "forget", "start_evidence"]

PAIR_COLUMNS = 512  # with more columns than this the products alone would cost more than the fit
_QUANTILES = (0.1, 0.3, 0.5, 0.7, 0.9)
_CHUNK = 16384  # rows whose products are held in memory at once


class Evidence(NamedTuple):
    """Sums of scores over the steps so far, and of their variances over the windows that are done with.

    Attributes:
        knots: knots of the hinges on each column, (D, 5).
        trend: coefficients of each hinge on 1, z, z^2, (D, 5, 3).
        pair_score, pair_variance: sums for the products of two columns, (D, D).
        hinge_score, hinge_variance: sums for the hinges, (D, 5).
        row_variance: sum of the rows' squared scores, ().
        row_spread: second moments of the rows, weighted by their squared scores, (D, D).
        shared: whether the sums include the last window's scores as denominator, ().
    """

    knots: Tensor
    trend: Tensor
    pair_score: Tensor
    pair_variance: Tensor
    hinge_score: Tensor
    hinge_variance: Tensor
    row_variance: Tensor
    row_spread: Tensor
    shared: Tensor


def start_evidence(z: Tensor) -> Evidence:
    """Return empty evidence, with knots of the hinges at quantiles of the standardised original (n, D)."""
    d = z.shape[1]
    rows = z[torch.linspace(0, z.shape[0] - 1, min(z.shape[0], 20_000)).long()]
    knots = coarse(torch.quantile(rows, z.new_tensor(_QUANTILES), dim=0).T.contiguous())
    square, hinge, number = z.new_zeros(d, d), z.new_zeros(d, len(_QUANTILES)), z.new_zeros(())
    return Evidence(
        knots=knots,
        trend=_trend(rows, knots),
        pair_score=square,
        pair_variance=square.clone(),
        hinge_score=hinge,
        hinge_variance=hinge.clone(),
        row_variance=number,
        row_spread=square.clone(),
        shared=number.clone(),
    )


def forget(evidence: Evidence) -> Evidence:
    """Drop all sums: the scores of a model that was too small say nothing about the larger one."""
    kept = Evidence(*map(torch.zeros_like, evidence))
    return kept._replace(knots=evidence.knots, trend=evidence.trend)


def coarse(values: Tensor) -> Tensor:
    """Round to 1/64 of a standard deviation: a knot at the very value of a row would keep that value in the state."""
    return torch.round(64.0 * values) / 64.0


def _trend(z: Tensor, knots: Tensor) -> Tensor:
    """Regress each hinge on 1, z, z^2, which the model has, (D, 5, 3): only the residual of a hinge is scored."""
    out = z.new_empty(*knots.shape, 3)
    for j, column in enumerate(z.T):
        basis = torch.stack([torch.ones_like(column), column, column * column], 1)
        hinges = torch.relu(column[:, None] - knots[j])
        out[j] = (torch.linalg.pinv(basis.T @ basis, hermitian=True) @ (basis.T @ hinges)).T
    return out


class _Sums(NamedTuple):
    """Scores of the candidates on one window and the variances of those scores."""

    pair_score: Tensor
    pair_variance: Tensor
    hinge_score: Tensor
    hinge_variance: Tensor
    row_variance: Tensor
    row_spread: Tensor


_VARIANCES = ("pair_variance", "hinge_variance", "row_variance", "row_spread")


def _sums(evidence: Evidence, z: Tensor, center: Tensor, score: Tensor, total: Tensor) -> _Sums:
    """Sum over a window this step's scores, and the variances of its rows' scores in both roles together."""
    out = _Sums(*(torch.zeros_like(getattr(evidence, name)) for name in _Sums._fields))
    for rows, g, h in zip(z.split(_CHUNK), score.split(_CHUNK), total.split(_CHUNK), strict=True):
        if z.shape[1] <= PAIR_COLUMNS:
            # centring changes a product by terms the model has, whose score is zero: only the variance gets smaller
            c = (rows - center).float()
            size, spread = g.abs().max().clamp_min(1e-300), h.abs().max().clamp_min(1e-300)
            out.pair_score.add_((c.T @ (c * (g / size).float()[:, None])).double() * size)
            weight = (h / spread).float().square()[:, None]
            out.row_spread.add_((c.T @ (c * weight)).double() * spread**2)
            c *= c
            out.pair_variance.add_((c.T @ (c * weight)).double() * spread**2)
        squares = rows * rows
        for k in range(evidence.knots.shape[1]):
            a, b, c2 = evidence.trend[:, k].T
            rest = torch.relu(rows - evidence.knots[:, k]) - a - b * rows - c2 * squares
            out.hinge_score[:, k].add_(g @ rest)
            out.hinge_variance[:, k].add_((h * h) @ (rest * rest))
        out.row_variance.add_(h @ h)
    return out


def collect(
    evidence: Evidence, z_num: Tensor, z_den: Tensor, s_num: Tensor, s_den: Tensor, past: Tensor | None
) -> tuple[Evidence, Evidence]:
    """Return the evidence to keep and the evidence to test, which includes the variance of the open window.

    The kept evidence has closed the numerator window. A window's rows count once as denominator (``past``) and once as
    numerator: the two scores nearly cancel.
    """
    center = z_num.mean(0)
    both = s_num if past is None or not bool(evidence.shared) else s_num + past
    num, den = _sums(evidence, z_num, center, s_num, both), _sums(evidence, z_den, center, s_den, s_den)
    kept = evidence._replace(
        pair_score=evidence.pair_score + num.pair_score + den.pair_score,
        hinge_score=evidence.hinge_score + num.hinge_score + den.hinge_score,
        shared=torch.ones_like(evidence.shared),
        **{name: getattr(evidence, name) + getattr(num, name) for name in _VARIANCES},
    )
    return kept, kept._replace(**{name: getattr(kept, name) + getattr(den, name) for name in _VARIANCES})
