r"""Error bars that survive the recursion: influence values of each window, their accumulated covariance, intervals.

A step is an M-estimator: :math:`\hat\theta - \theta \approx -H^{-1}\sum_i g_i T(x_i)` with ``g_i`` the derivative of
the loss in the log-ratio of row i. Window t works twice, as denominator of step t and as numerator of step t+1; its two
influences are added before the covariance is taken, and windows are independent of each other. What is kept is the
covariance of all closed windows and the last window's share, so memory does not depend on t.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from driftline.designs import Design
from driftline.divergences import Generator, slope, terms
from driftline.fitting import ConvexFit

__all__ = [
    "Estimate",
    "Uncertainty",
    "advance",
    "covariance",
    "divergence_estimate",
    "effective_sample_size",
    "interval",
    "log_ratio_std",
    "of_step",
    "optimism",
]


class Estimate(NamedTuple):
    """A value with its standard error and the interval ``[low, high]`` of the stated level.

    The error is that of sampling, carried through all steps, for log-linear models; networks report ``nan``.

    >>> print(Estimate(1.25, 0.1, 1.054, 1.446, 0.95))
    1.25 ± 0.1 (95% interval 1.054 to 1.446)
    """

    value: float
    std_error: float
    low: float
    high: float
    level: float

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        if not np.isfinite(self.std_error):
            return f"{self.value:.4g} (no interval)"
        level = f"{100 * self.level:.4g}%"
        return f"{self.value:.4g} ± {self.std_error:.2g} ({level} interval {self.low:.4g} to {self.high:.4g})"


class Uncertainty(NamedTuple):
    """Covariance of (coefficients, constant) from the closed windows, and the last window's share as denominator.

    ``meat`` and ``meat_num`` are the scores' covariances in the last step, on its denominator and its numerator.
    Shapes for p features: covariance, inverse_hessian, meat and meat_num (p+1, p+1), score (n,).
    """

    covariance: Tensor
    inverse_hessian: Tensor
    meat: Tensor
    meat_num: Tensor
    score: Tensor


def _centred(design: Design, left: Tensor, right: Tensor) -> Tensor:
    """Sum over rows of ``left * right * T T'`` less the part of the means: n times the covariance of the products."""
    n = design.shape[0]
    return design.gram(left * right) - torch.outer(design.pull(left), design.pull(right)) / n


def advance(
    past: Uncertainty | None, positions: Tensor, design_num: Design, design_den: Design, fit: ConvexFit
) -> Uncertainty:
    """Close the numerator window of a step and open its denominator window.

    Arguments:
        past: of the position the step started from; None for an original, which has only this one role.
        positions: where the past features stand among the present ones (the constant is added here).
        design_num, design_den: designs of both windows with their column of ones, (n, p+1) and (m, p+1).
    """
    factor, status = torch.linalg.cholesky_ex(fit.hessian)
    inverse = torch.cholesky_inverse(factor) if status == 0 else torch.linalg.pinv(fit.hessian, hermitian=True)
    inverse = inverse.contiguous()  # a layout of its own would change the last digit after saving and loading
    size = design_num.shape[1]
    meat_num = _centred(design_num, fit.score_num, fit.score_num)
    closed = inverse @ meat_num @ inverse
    if past is not None:
        at = torch.cat([positions, positions.new_tensor([size - 1])])
        before, inverse_past, meat_past = (_placed(m, at, size) for m in past[:3])
        cross = inverse_past @ _centred(design_num, past.score, fit.score_num) @ inverse
        closed = closed + before + cross + cross.T + inverse_past @ meat_past @ inverse_past
    meat = _centred(design_den, fit.score_den, fit.score_den)
    return Uncertainty(0.5 * (closed + closed.T), inverse, meat, meat_num, fit.score_den)


def _placed(matrix: Tensor, at: Tensor, size: int) -> Tensor:
    if matrix.shape[0] == size:
        return matrix
    out = matrix.new_zeros(size, size)
    out[at[:, None], at[None, :]] = matrix
    return out


def optimism(uncertainty: Uncertainty) -> float:
    r"""Expected loss on new rows less that on the fitted ones, :math:`\operatorname{tr}(H^{-1}J)` (Takeuchi)."""
    return float((uncertainty.inverse_hessian * (uncertainty.meat_num + uncertainty.meat)).sum())


def of_step(uncertainty: Uncertainty) -> Uncertainty:
    """The uncertainty of the last step's ratio alone, its numerator taken as an original."""
    a = uncertainty.inverse_hessian
    return uncertainty._replace(covariance=a @ uncertainty.meat_num @ a)


def covariance(uncertainty: Uncertainty) -> Tensor:
    """Covariance of (coefficients, constant) from all windows, (p+1, p+1)."""
    a = uncertainty.inverse_hessian
    return uncertainty.covariance + a @ uncertainty.meat @ a


def interval(value: float, std_error: float, level: float) -> Estimate:
    """The normal interval around a value."""
    if not 0.0 < level < 1.0:
        raise ValueError(f"level={level} must lie between 0 and 1")
    z = NormalDist().inv_cdf(0.5 + 0.5 * level)
    return Estimate(value, std_error, value - z * std_error, value + z * std_error, level)


def divergence_estimate(
    log_r: npt.NDArray[np.float64],
    kind: str | Generator,
    level: float,
    uncertainty: Uncertainty | None,
    design: Callable[[], Design],
    *,
    own_window: bool,
) -> Estimate:
    """A divergence over rows with log-ratios ``log_r``, with the error of both the mean and the fitted ratio.
    Arguments:
        uncertainty: of the fitted ratio; None where there is none to propagate (networks): the error is then nan.
        design: builds the rows' design, with its column of ones.
        own_window: whether the rows are the last window itself, whose errors then are the same draw.
    """
    values = terms(log_r, kind)
    value, n = float(values.mean()), values.size
    if uncertainty is None:
        return interval(value, float("nan"), level)
    rows = design()
    device = uncertainty.covariance.device
    gradient = rows.pull(torch.as_tensor(slope(log_r, kind), device=device)) / n
    own = torch.as_tensor((values - value) / n, device=device)
    if own_window:
        pull = rows.dot(uncertainty.inverse_hessian @ gradient)
        own = own - uncertainty.score * pull
        own = own - own.mean()
        spread = uncertainty.covariance
    else:
        spread = covariance(uncertainty)
    variance = float(own @ own) + float(gradient @ spread @ gradient)
    return interval(value, float(np.sqrt(max(variance, 0.0))), level)


def effective_sample_size(log_weights: Tensor) -> float:
    r"""Kish's :math:`(\sum w)^2/\sum w^2`.

    >>> effective_sample_size(torch.zeros(10))
    10.0
    """
    return float((2.0 * torch.logsumexp(log_weights, 0) - torch.logsumexp(2.0 * log_weights, 0)).exp())


def log_ratio_std(uncertainty: Uncertainty, design: Tensor) -> Tensor:
    """Pointwise standard error of the log-ratio, (n,)."""
    return ((design @ covariance(uncertainty)) * design).sum(1).clamp_min(0.0).sqrt()
