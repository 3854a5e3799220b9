"""Exact convex fits by Newton's method, for losses that are sums over rows."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch import Tensor

from driftline.fitting._designs import Dense, Design
from driftline.fitting._fits import ConvexFit, FitDivergedError, FitInfo, Scores
from driftline.fitting._objectives import Objective, log_mean_exp, logistic, lsif, nwj, unnormalised

__all__ = ["bridge_constant", "fit_convex", "is_separable"]

_SAMPLE = 8  # large fits start from the solution on one row in this many
_RUNAWAY = 50.0  # a standardised coefficient or a loss beyond this is on its way to infinity
_NEAR = 1e-5  # gradient below which the curvature is practically that of the solution


def _row_derivatives(objective: Objective, phi_num: Tensor, phi_den: Tensor) -> tuple[Tensor, ...]:
    """Return the loss and its first and second derivatives with respect to each row's log-ratio.

    The second derivatives assume that the loss is a sum over rows.
    """
    phi_num, phi_den = phi_num.detach().requires_grad_(), phi_den.detach().requires_grad_()
    with torch.enable_grad():
        loss = objective(phi_num, phi_den)
        grads = torch.autograd.grad(loss, (phi_num, phi_den), create_graph=True)
        total = grads[0].sum() + grads[1].sum()
        if total.requires_grad:
            curves = torch.autograd.grad(total, (phi_num, phi_den), allow_unused=True)
            filled = [torch.zeros_like(p) if c is None else c for c, p in zip(curves, (phi_num, phi_den), strict=True)]
        else:
            filled = [torch.zeros_like(phi_num), torch.zeros_like(phi_den)]
    return loss.detach(), grads[0].detach(), grads[1].detach(), filled[0].detach(), filled[1].detach()


def _third(objective: Objective, phi_num: Tensor, phi_den: Tensor, width: float = 1e-3) -> tuple[Tensor, Tensor]:
    """Return third derivatives with respect to each row's log-ratio, by central differences of the second ones."""
    upper = _row_derivatives(objective, phi_num + width, phi_den + width)
    lower = _row_derivatives(objective, phi_num - width, phi_den - width)
    return (upper[3] - lower[3]) / (2.0 * width), (upper[4] - lower[4]) / (2.0 * width)


def is_separable(objective: Objective) -> bool:
    """Say whether the loss is a sum over rows, so that its second derivative in the log-ratios is diagonal.

    If so, Newton's method and influence values apply. This is checked on a small example, for any user's objective.
    """
    generator = torch.Generator().manual_seed(0)
    phi = [torch.randn(6, generator=generator, dtype=torch.float64).mul_(0.3).requires_grad_() for _ in range(2)]
    with torch.enable_grad():
        loss = objective(phi[0], phi[1])
        grads = torch.cat(torch.autograd.grad(loss, phi, create_graph=True))
        if not grads.requires_grad:
            return False
        sign = torch.tensor([1.0, -1.0, 1.0, 1.0, -1.0, 1.0, -1.0, -1.0, 1.0, -1.0, 1.0, 1.0], dtype=torch.float64)
        signed = torch.autograd.grad(grads @ sign, phi, retain_graph=True, allow_unused=True)
        plain = torch.autograd.grad(grads.sum(), phi, allow_unused=True)
    left = torch.cat([torch.zeros(6, dtype=torch.float64) if v is None else v for v in signed])
    right = torch.cat([torch.zeros(6, dtype=torch.float64) if v is None else v for v in plain])
    return bool(torch.allclose(left, right * sign, atol=1e-12, rtol=1e-8))


def fit_convex(
    design_num: Design,
    design_den: Design,
    objective: Objective,
    *,
    offset_num: Tensor | None = None,
    offset_den: Tensor | None = None,
    ridge: float = 0.0,
    start: Tensor | None = None,
    max_iter: int = 50,
    tol: float = 1e-6,
) -> ConvexFit:
    r"""Minimise ``objective(design_num @ theta + offset_num, design_den @ theta + offset_den)`` by Newton's method.

    The objective must be a sum over rows (:func:`is_separable`); pass :func:`~driftline.fitting.unnormalised`
    of a self-normalised one. ``ridge`` adds :math:`\frac{\rho}{2(N+M)}\|\theta\|^2`, a prior worth
    :math:`\rho` observations that keeps the solution finite for separable or collinear data.

    >>> from driftline.fitting import Dense
    >>> _ = torch.manual_seed(0)
    >>> x, y = torch.randn(2000, 1, dtype=torch.float64), torch.randn(2000, 1, dtype=torch.float64) + 0.5
    >>> one = torch.ones(2000, 1, dtype=torch.float64)
    >>> fit = fit_convex(Dense(torch.cat([x, one], 1)), Dense(torch.cat([y, one], 1)), logistic)
    >>> fit.info.converged  # the truth is log r = -x/2 + 1/8
    True
    """
    began = time.perf_counter()
    p = design_num.shape[1]
    weight = ridge / (design_num.shape[0] + design_den.shape[0])
    device = design_num.device
    coef = torch.zeros(p, dtype=torch.float64, device=device) if start is None else start
    eye = torch.eye(p, dtype=torch.float64, device=device)

    def phi(theta: Tensor) -> tuple[Tensor, Tensor]:
        num, den = design_num.dot(theta), design_den.dot(theta)
        return num if offset_num is None else num + offset_num, den if offset_den is None else den + offset_den

    def at(theta: Tensor) -> tuple[Tensor, ...]:
        loss, *rest = _row_derivatives(objective, *phi(theta))
        return (loss + 0.5 * weight * (theta @ theta), *rest)

    hessian, factor, known_at = eye, None, float("inf")
    if start is None and min(design_num.shape[0], design_den.shape[0]) > _SAMPLE * max(20 * p, 500):
        near = _neighbourhood(design_num, design_den, objective, offset_num, offset_den, ridge, coef)
        if near is not None:
            coef, factor = near.coef, _factor(near.hessian)
    loss, s_num, s_den, c_num, c_den = at(coef)
    if not torch.isfinite(loss):
        raise FitDivergedError(
            "the objective is not finite at the start of the fit: are the offsets or inputs extreme?"
        )
    message, converged, size, steps = "", False, float("inf"), 0
    while steps < max_iter:
        gradient = design_num.pull(s_num) + design_den.pull(s_den) + weight * coef
        before, size = size, float(gradient.abs().max())
        if size < tol:
            converged = True
            break
        # a curvature that brings the gradient down is good for another step, which saves two Gram matrices; one taken
        # close to the solution also serves inference
        if factor is None or size > 0.2 * before or (size < _NEAR < known_at):
            hessian, known_at = _curvature(design_num, design_den, c_num, c_den, weight, eye), size
            factor = _factor(hessian)
        direction = -torch.cholesky_solve(gradient[:, None], factor)[:, 0]
        if bool((c_num < 0).any()):  # not convex: stay in the basin around the start, which holds the ratio
            direction = direction * min(1.0, 0.5 / float(direction.abs().max()))
        found = _search(at, coef, direction, loss, float(gradient @ direction))
        if found is None:
            converged = size < 1e3 * tol
            message = "" if converged else "no descent along the Newton direction"
            break
        coef, (loss, s_num, s_den, c_num, c_den) = found
        steps += 1
    if not converged and not message:
        message = f"gradient {size:.1e} after {max_iter} iterations"
    if not converged and (float(coef.abs().max()) > _RUNAWAY or float(loss) < -_RUNAWAY):
        raise FitDivergedError(
            "the objective has no minimum on these windows (KLIEP, LSIF and NWJ have none where the numerator lies "
            "outside the denominator's rows): take larger windows, smaller steps, or objective='logistic'"
        )
    if known_at > _NEAR:
        hessian = design_num.gram(c_num) + design_den.gram(c_den) + weight * eye
    info = FitInfo("newton", converged, steps, float(loss), float("nan"), size, time.perf_counter() - began, message)
    third_num, third_den = _third(objective, *phi(coef))
    return ConvexFit(coef, hessian, Scores(s_num, c_num, third_num), Scores(s_den, c_den, third_den), info, weight)


def _neighbourhood(
    num: Design,
    den: Design,
    objective: Objective,
    offset_num: Tensor | None,
    offset_den: Tensor | None,
    ridge: float,
    start: Tensor,
) -> ConvexFit | None:
    """Fit an eighth of the rows: this ends near the solution, with a curvature good enough to get there.

    Return None if the eighth has no minimum: all rows may still have one.
    """
    part = [None if o is None else o[::_SAMPLE] for o in (offset_num, offset_den)]
    try:
        return fit_convex(
            num.thin(_SAMPLE),
            den.thin(_SAMPLE),
            objective,
            offset_num=part[0],
            offset_den=part[1],
            ridge=ridge / _SAMPLE,
            start=start,
            tol=1e-4,
        )
    except FitDivergedError:
        return None


def _curvature(
    design_num: Design, design_den: Design, c_num: Tensor, c_den: Tensor, weight: float, eye: Tensor
) -> Tensor:
    """Return the Hessian or, where it is not positive (LSIF far from its optimum), its positive part by rows."""
    jitter = 1e-10 + weight
    hessian = design_num.gram(c_num) + design_den.gram(c_den) + jitter * eye
    if bool((c_num < 0).any() | (c_den < 0).any()) and torch.linalg.cholesky_ex(hessian).info != 0:
        hessian = design_num.gram(c_num.clamp_min(0)) + design_den.gram(c_den.clamp_min(0)) + jitter * eye
    return hessian


def _factor(matrix: Tensor) -> Tensor:
    """Return the Cholesky factor of a positive (semi-)definite matrix, adding to its diagonal until there is one."""
    size = matrix.diagonal().abs().mean().clamp_min(1e-300)
    eye = torch.eye(matrix.shape[0], dtype=matrix.dtype, device=matrix.device)
    for jitter in (0.0, 1e-9, 1e-6, 1e-3, 1.0):
        factor: Tensor
        factor, status = torch.linalg.cholesky_ex(matrix + jitter * size * eye)
        if status == 0:
            return factor
    raise FitDivergedError("the curvature of the objective is not finite or not positive at the current estimate")


def _search(
    at: Callable[[Tensor], tuple[Tensor, ...]], coef: Tensor, direction: Tensor, loss: Tensor, slope: float
) -> tuple[Tensor, tuple[Tensor, ...]] | None:
    """Backtrack along a descent direction; return None if no step improves the loss."""
    rate = 1.0
    for _ in range(40):
        trial = coef + rate * direction
        values = at(trial)
        # the tolerance lets the last, tiny Newton steps pass although rounding hides their gain
        if torch.isfinite(values[0]) and values[0] <= loss + 1e-4 * rate * slope + 1e-13 * (1.0 + loss.abs()):
            return trial, values
        rate *= 0.5
    return None


def bridge_constant(phi_num: Tensor, phi_den: Tensor, objective: Objective) -> float:
    """Return the constant to add to log-ratios: the objective's own minimiser, or else the bridge estimate."""
    own = unnormalised(objective)
    # in closed form where there is one: Newton's method would overflow where ratios do
    if own is nwj:
        return -float(log_mean_exp(phi_den))
    if own is lsif:
        return float(log_mean_exp(phi_num) - log_mean_exp(2.0 * phi_den))
    if not is_separable(own):
        own = logistic
    ones = (Dense(phi_num.new_ones(len(phi_num), 1)), Dense(phi_den.new_ones(len(phi_den), 1)))
    # start where both samples are centred, so that Newton's first step is not taken from a saturated loss
    shift = -0.5 * (float(phi_num.mean()) + float(phi_den.mean()))
    fit = fit_convex(*ones, own, offset_num=phi_num + shift, offset_den=phi_den + shift)
    return float(fit.coef[0]) + shift
