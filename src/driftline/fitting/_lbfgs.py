"""Convex fits by L-BFGS, for many features or losses that couple the rows."""

from __future__ import annotations

import time

import torch
from torch import Tensor

from driftline.fitting._fits import ConvexFit, FitDivergedError, FitInfo, Scores
from driftline.fitting._models import Features
from driftline.fitting._objectives import Objective

__all__ = ["fit_features_lbfgs"]


def fit_features_lbfgs(
    features: Features,
    z_num: Tensor,
    z_den: Tensor,
    objective: Objective,
    *,
    offset_num: Tensor | None = None,
    offset_den: Tensor | None = None,
    ridge: float = 0.0,
    max_iter: int = 200,
    tol: float = 1e-6,
) -> ConvexFit:
    """Fit a log-linear model by L-BFGS without building the design."""
    began = time.perf_counter()
    weight = ridge / (z_num.shape[0] + z_den.shape[0])
    coef = z_num.new_zeros(features.size + 1).requires_grad_()
    zero = z_num.new_zeros(())
    off_num = zero if offset_num is None else offset_num
    off_den = zero if offset_den is None else offset_den
    optimiser = torch.optim.LBFGS(
        [coef],
        lr=1.0,
        max_iter=max_iter,
        tolerance_grad=tol,
        tolerance_change=1e-14,
        history_size=20,
        line_search_fn="strong_wolfe",
    )

    def logs(theta: Tensor) -> tuple[Tensor, Tensor]:
        return (
            features.score(z_num, theta[:-1]) + theta[-1] + off_num,
            features.score(z_den, theta[:-1]) + theta[-1] + off_den,
        )

    def closure() -> Tensor:
        optimiser.zero_grad()
        loss = objective(*logs(coef)) + 0.5 * weight * (coef @ coef)
        loss.backward()
        return loss

    with torch.enable_grad():
        optimiser.step(closure)
        loss = closure().detach()
    size = float(coef.grad.abs().max()) if coef.grad is not None else float("nan")
    theta = coef.detach()
    if not (torch.isfinite(loss) and torch.isfinite(theta).all()):
        raise FitDivergedError("L-BFGS diverged: standardise the input, or give the windows more rows")
    steps = int(optimiser.state[coef].get("n_iter", 0))
    converged = size < 10 * tol
    message = "" if converged else f"gradient {size:.1e} after {steps} iterations"
    info = FitInfo("l-bfgs", converged, steps, float(loss), float("nan"), size, time.perf_counter() - began, message)
    empty = theta.new_zeros(0)
    nothing = Scores(empty, empty, empty)
    return ConvexFit(theta, empty, nothing, nothing, info)
