"""Curvature of a divergence: what errors of the ratio do to a reading, on average and in its spread."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from driftline._inputs import Floats
from driftline.fitting import Design
from driftline.inference._dependence import Dependence, long_run
from driftline.inference._divergences import Generator, curvature, slope
from driftline.inference._uncertainty import Quiet, Uncertainty, covariance

__all__ = ["Quadratic", "calm_rows", "noise_of", "second_order", "tilt", "travelled"]

_THIN = 3000  # enough rows to estimate a mean curvature


class Quadratic(NamedTuple):
    """Quadratic part of a divergence.

    Attributes:
        bias: bias of the reading.
        noise, variance: its mean and variance near no drift, from the original and the last window.
        shared: share of the noise that comes from the original.
        way: variance from the windows in between alone, whose errors cancel where nothing has moved.
    """

    bias: float
    noise: float
    variance: float
    shared: float
    way: float


def second_order(
    log_r: Floats,
    kind: str | Generator,
    uncertainty: Uncertainty,
    rows: Design,
    own_window: bool,
    dependence: Dependence,
) -> Quadratic:
    r"""Return the effects of a divergence's curvature on its reading.

    The bias is :math:`\frac12 E[f''\,T^\top\Sigma T]`, on the window itself less the amount by which its rows pull the
    fit towards themselves. Mean and variance near no drift are :math:`\frac12\operatorname{tr}(B\Sigma)` and
    :math:`\frac12\operatorname{tr}(B\Sigma B\Sigma)`, :math:`B = E[f_0'' T T']`, for the member :math:`f_0` of
    :math:`f + c(r-1)` with no slope at r = 1, whose first-order part vanishes with the drift; :math:`\Sigma` is that of
    the original and the last window. Windows in between do not move the mean, since step constants telescope; to the
    variance they add the joint effect of their errors and the last window's.
    """
    spread = covariance(uncertainty)
    thin, every, calm, wobble = calm_rows(log_r, rows, spread)
    bend = curvature(calm, kind)
    bias = 0.5 * float((wobble * bend).mean())
    if own_window:
        step = every if dependence.independent else 1
        part = thin if dependence.independent else dependence.distinct(rows)
        slopes, scores = slope(log_r[::step], kind), uncertainty.score[::step]
        both = dependence.merged(slopes), part, dependence.merged(scores)
        pulled = long_run(part, *both, dependence.lag, dependence.shares)
        bias -= float(uncertainty.slack * (uncertainty.inverse_hessian * pulled).sum()) / len(scores)
    tilted = tilt(calm, bend, kind)
    return noise_of(kind, thin.gram(tilted) / len(tilted), bias, uncertainty, spread, dependence.effective(log_r.size))


def tilt(calm: Floats, bend: Floats, kind: str | Generator) -> Floats:
    """Return the curvature of the member of a divergence's family that has no slope at r = 1, bounded far from it.

    2r / (1 + r) instead of r: the same near no drift, which is what the noise is about; a mean of r rests on a few rows
    far from it and would make the noise jump from window to window.
    """
    flat = -float(slope(np.zeros(1), kind)[0])
    return np.asarray(bend + flat * 2.0 / (1.0 + np.exp(-np.maximum(calm, -30.0))))


def noise_of(
    kind: str | Generator, matrix: Floats, bias: float, uncertainty: Uncertainty, spread: Floats, rows: float
) -> Quadratic:
    """Return the effects of a divergence's curvature, given their bias and the mean of ``f0'' T T'`` (p+1, p+1).

    ``spread`` is the covariance of the ratio, ``rows`` the effective rows of the window.
    """
    last = matrix @ (spread - uncertainty.covariance)
    ends = matrix @ uncertainty.first + last
    between = matrix @ (uncertainty.covariance - uncertainty.first)
    noise = 0.5 * float(ends.trace())
    variance = 0.5 * float((ends * ends.T).sum()) + max(float((between * last.T).sum()), 0.0)
    share = 0.5 * float((matrix * uncertainty.first).sum()) / noise if noise > 0.0 else np.nan
    way = 0.5 * float((between * between.T).sum())
    found = Quadratic(bias, noise, variance, min(max(share, 0.0), 1.0), max(way, 0.0))
    return _at_least(found, uncertainty.quiet, kind, rows)


def _at_least(found: Quadratic, quiet: Quiet, kind: str | Generator, rows: float) -> Quadratic:
    """Return the noise, at least as large as counts of rows say it is where columns have rare values.

    Scores of a fit say little of rare events: where one window has none of them, the fit explains the other's.
    """
    if quiet.dof == 0.0:
        return found
    none = np.zeros(1)
    bend = float(curvature(none, kind)[0] - slope(none, kind)[0])
    each = 0.5 * bend * (1.0 / quiet.first + 1.0 / rows)
    noise, variance = each * quiet.dof, each * each * (2.0 * quiet.dof + quiet.excess)
    shared = rows / (rows + quiet.first) if noise > found.noise else found.shared
    return found._replace(noise=max(noise, found.noise), variance=max(variance, found.variance), shared=shared)


def travelled(
    kind: str | Generator,
    uncertainty: Uncertainty,
    now: Floats,
    gradient: Floats,
    quadratic: Quadratic,
) -> float:
    """Return the variance that the way leaves even where the drift is back at 0.

    Where nothing moves, the errors of a window cancel between its two roles. Where the stream went far away and came
    back, they do not: the constants of its steps are off, whatever the drift is now. This is read where the drift
    would be 0, at the original's means, and is no more than what these windows leave in the reading of now. Far from
    the original it would be: beside a column that has shrunk, the original's means lie where no row is. Of the first
    and the last window, what the law of the noise holds already is left out. A divergence without a slope at
    r = 1 (``pearson``) has the second-order part alone.
    """
    flat = float(slope(np.zeros(1), kind)[0])
    then = np.append(np.where(uncertainty.known, uncertainty.mean, now[:-1]), 1.0)

    def left(spread: Floats) -> float:
        constant = max(min(float(then @ spread @ then), float(now @ spread @ now)), 0.0)
        return max(min(flat * flat * constant, float(gradient @ spread @ gradient)), 0.0)

    between, all_windows = left(uncertainty.covariance - uncertainty.first), left(covariance(uncertainty))
    return max(between, all_windows - quadratic.variance) + quadratic.way


def calm_rows(log_r: Floats, rows: Design, spread: Floats) -> tuple[Design, int, Floats, Floats]:
    """Thin the rows; also return the factor, log-ratios as variable as the true ones, and the variance of their errors.

    The estimated log-ratios are shrunk, since their errors make them vary more than the true ones.
    """
    every = max(1, log_r.size // max(_THIN, 10 * rows.shape[1]))
    thin = rows.thin(every) if every > 1 else rows
    wobble = thin.forms(spread)
    share = np.clip(1.0 - wobble.mean() / max(float(log_r.var()), 1e-300), 0.0, 1.0)
    return thin, every, log_r[::every] * np.sqrt(share), wobble
