"""Exact convex fits by Newton's method, for losses that are sums over rows."""

from __future__ import annotations

import time
from typing import NamedTuple

import torch
from torch import Tensor

from driftline.fitting._designs import Dense, Design
from driftline.fitting._fits import ConvexFit, FitDivergedError, FitInfo, Scores
from driftline.fitting._objectives import Objective, log_mean_exp, logistic, lsif, nwj, unnormalised

__all__ = ["bridge_constant", "fit_convex", "is_separable"]

_SAMPLE = 8  # large fits start from the solution on one row in this many
_RUNAWAY = 50.0  # a standardised coefficient or a loss beyond this is on its way to infinity
_NEAR = 1e-5  # gradient below which the curvature is practically that of the solution


class _Rows(NamedTuple):
    """A loss and its first and second derivatives with respect to the log-ratio of each row, (n,) and (m,)."""

    loss: Tensor
    first_num: Tensor
    first_den: Tensor
    second_num: Tensor
    second_den: Tensor


def _row_derivatives(objective: Objective, phi_num: Tensor, phi_den: Tensor) -> _Rows:
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
    return _Rows(loss.detach(), grads[0].detach(), grads[1].detach(), filled[0].detach(), filled[1].detach())


def _third(objective: Objective, phi_num: Tensor, phi_den: Tensor, width: float = 1e-3) -> tuple[Tensor, Tensor]:
    """Return third derivatives with respect to each row's log-ratio, by central differences of the second ones."""
    upper = _row_derivatives(objective, phi_num + width, phi_den + width)
    lower = _row_derivatives(objective, phi_num - width, phi_den - width)
    num = (upper.second_num - lower.second_num) / (2.0 * width)
    return num, (upper.second_den - lower.second_den) / (2.0 * width)


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
    problem = _Problem(design_num, design_den, objective, offset_num, offset_den, ridge)
    end = _minimise(problem, start, max_iter, tol)
    hessian = _hessian_at(problem, end)
    seconds = time.perf_counter() - began
    loss, nan = float(end.point.loss), float("nan")
    info = FitInfo("newton", end.converged, end.steps, loss, nan, end.gradient, seconds, end.message)
    third_num, third_den = _third(objective, *problem.log_ratios(end.point.coef))
    rows = end.point.rows
    num, den = Scores(rows.first_num, rows.second_num, third_num), Scores(rows.first_den, rows.second_den, third_den)
    return ConvexFit(end.point.coef, hessian, num, den, info, problem.weight)


class _Point(NamedTuple):
    """Coefficients (p,), their loss with the prior, and the derivatives of the loss without it."""

    coef: Tensor
    loss: Tensor
    rows: _Rows


class _Problem(NamedTuple):
    r"""The loss :math:`L(\theta) = \ell(A\theta + a, B\theta + b) + \frac{w}{2}\|\theta\|^2` of a fit.

    A and B are the designs, a and b the offsets, and w is ``ridge`` divided by the number of rows.
    """

    num: Design
    den: Design
    objective: Objective
    offset_num: Tensor | None
    offset_den: Tensor | None
    ridge: float

    @property
    def weight(self) -> float:
        """The prior's part in the diagonal of the Hessian."""
        return self.ridge / (self.num.shape[0] + self.den.shape[0])

    def eye(self) -> Tensor:
        """Return the identity matrix, (p, p)."""
        return torch.eye(self.num.shape[1], dtype=torch.float64, device=self.num.device)

    def log_ratios(self, coef: Tensor) -> tuple[Tensor, Tensor]:
        r"""Return :math:`A\theta + a` and :math:`B\theta + b`, (n,) and (m,)."""
        num, den = self.num.dot(coef), self.den.dot(coef)
        return (
            num if self.offset_num is None else num + self.offset_num,
            den if self.offset_den is None else den + self.offset_den,
        )

    def at(self, coef: Tensor) -> _Point:
        """Evaluate the loss and its derivatives in the log-ratios."""
        rows = _row_derivatives(self.objective, *self.log_ratios(coef))
        return _Point(coef, rows.loss + 0.5 * self.weight * (coef @ coef), rows)

    def gradient(self, point: _Point) -> Tensor:
        r"""Return :math:`\nabla L = A^\top\ell'_a + B^\top\ell'_b + w\theta`, (p,)."""
        return self.num.pull(point.rows.first_num) + self.den.pull(point.rows.first_den) + self.weight * point.coef

    def hessian(self, second_num: Tensor, second_den: Tensor, weight: float) -> Tensor:
        r"""Return :math:`A^\top\operatorname{diag}(\ell''_a)A + B^\top\operatorname{diag}(\ell''_b)B + wI`, (p, p)."""
        return self.num.gram(second_num) + self.den.gram(second_den) + weight * self.eye()

    def thinned(self, every: int) -> _Problem:
        """Keep every ``every``-th row, with the prior in proportion."""
        offset_num, offset_den = (None if o is None else o[::every] for o in (self.offset_num, self.offset_den))
        num, den = self.num.thin(every), self.den.thin(every)
        return _Problem(num, den, self.objective, offset_num, offset_den, self.ridge / every)


class _Curvature(NamedTuple):
    """A positive definite Hessian, its Cholesky factor, and the size of the gradient where it was taken."""

    hessian: Tensor
    factor: Tensor
    gradient: float


class _End(NamedTuple):
    """Where Newton's method ended: the point, the last curvature, the size of the gradient, and how it went."""

    point: _Point
    curvature: _Curvature | None
    gradient: float
    steps: int
    converged: bool
    message: str


def _minimise(problem: _Problem, start: Tensor | None, max_iter: int, tol: float) -> _End:
    """Descend from ``start`` or, if None, from the solution on some of the rows; raise an error without a minimum."""
    coef, curvature = (start, None) if start is not None else _start(problem)
    point = problem.at(coef)
    if not torch.isfinite(point.loss):
        raise FitDivergedError(
            "the objective is not finite at the start of the fit: are the offsets or inputs extreme?"
        )
    end = _descend(problem, point, curvature, max_iter, tol)
    point = end.point
    if not end.converged and (float(point.coef.abs().max()) > _RUNAWAY or float(point.loss) < -_RUNAWAY):
        raise FitDivergedError(
            "the objective has no minimum on these windows (KLIEP, LSIF and NWJ have none where the numerator lies "
            "outside the denominator's rows): take larger windows, smaller steps, or objective='logistic'"
        )
    return end


def _start(problem: _Problem) -> tuple[Tensor, _Curvature | None]:
    """Return zero or, for large fits, the solution on an eighth of the rows.

    That solution is near the one on all rows, with a curvature good enough to get there. The eighth may have no minimum
    although all rows have one.
    """
    p = problem.num.shape[1]
    zero = torch.zeros(p, dtype=torch.float64, device=problem.num.device)
    if min(problem.num.shape[0], problem.den.shape[0]) <= _SAMPLE * max(20 * p, 500):
        return zero, None
    part = problem.thinned(_SAMPLE)
    try:
        near = _minimise(part, zero, max_iter=50, tol=1e-4)
    except FitDivergedError:
        return zero, None
    hessian = _hessian_at(part, near)
    return near.point.coef, _Curvature(hessian, _factor(hessian), float("inf"))


def _descend(problem: _Problem, point: _Point, curvature: _Curvature | None, max_iter: int, tol: float) -> _End:
    """Take Newton steps until no entry of the gradient exceeds ``tol``, or no step reduces the loss."""
    size = float("inf")
    for steps in range(max_iter):
        gradient = problem.gradient(point)
        before, size = size, float(gradient.abs().max())
        if size < tol:
            return _End(point, curvature, size, steps, True, "")
        if curvature is None or _is_outdated(curvature, size, before):
            curvature = _curvature(problem, point, size)
        direction = _direction(point, gradient, curvature)
        found = _search(problem, point, direction, float(gradient @ direction))
        if found is None:
            converged = size < 1e3 * tol
            message = "" if converged else "no descent along the Newton direction"
            return _End(point, curvature, size, steps, converged, message)
        point = found
    return _End(point, curvature, size, max_iter, False, f"gradient {size:.1e} after {max_iter} iterations")


def _is_outdated(curvature: _Curvature, size: float, before: float) -> bool:
    """Say whether to compute the curvature again, from the sizes of the gradient now and a step before.

    A curvature that brings the gradient down is good for another step, which saves two Gram matrices; one taken close
    to the solution also serves inference.
    """
    return size > 0.2 * before or size < _NEAR < curvature.gradient


def _curvature(problem: _Problem, point: _Point, size: float) -> _Curvature:
    """Return the Hessian or, where it is not positive (LSIF far from its optimum), its positive part by rows."""
    weight = 1e-10 + problem.weight
    num, den = point.rows.second_num, point.rows.second_den
    hessian = problem.hessian(num, den, weight)
    if bool((num < 0).any() | (den < 0).any()) and torch.linalg.cholesky_ex(hessian).info != 0:
        hessian = problem.hessian(num.clamp_min(0), den.clamp_min(0), weight)
    return _Curvature(hessian, _factor(hessian), size)


def _hessian_at(problem: _Problem, end: _End) -> Tensor:
    """Return the Hessian at the end: that of the last curvature if it was taken close by."""
    if end.curvature is not None and not end.curvature.gradient > _NEAR:
        return end.curvature.hessian
    return problem.hessian(end.point.rows.second_num, end.point.rows.second_den, problem.weight)


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


def _direction(point: _Point, gradient: Tensor, curvature: _Curvature) -> Tensor:
    r"""Return Newton's direction, :math:`-H^{-1}\nabla L`; no entry exceeds 1/2 where the loss is not convex."""
    direction = -torch.cholesky_solve(gradient[:, None], curvature.factor)[:, 0]
    if bool((point.rows.second_num < 0).any()):  # stay in the basin around the start, which holds the ratio
        direction = direction * min(1.0, 0.5 / float(direction.abs().max()))
    return direction


def _search(problem: _Problem, point: _Point, direction: Tensor, slope: float) -> _Point | None:
    r"""Halve a step until it improves the loss enough (Armijo); return None if none does.

    .. math:: L(\theta + \alpha d) \le L(\theta) + 10^{-4} \alpha \nabla L^\top d
    """
    rate, loss = 1.0, point.loss
    for _ in range(40):
        trial = problem.at(point.coef + rate * direction)
        # the tolerance lets the last, tiny Newton steps pass although rounding hides their gain
        if torch.isfinite(trial.loss) and trial.loss <= loss + 1e-4 * rate * slope + 1e-13 * (1.0 + loss.abs()):
            return trial
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
