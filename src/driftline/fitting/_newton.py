"""Exact convex fits by Newton's method, for losses that are sums over rows."""

from __future__ import annotations

import math
import time
from typing import NamedTuple

import numpy as np

from driftline._inputs import Floats
from driftline.fitting._derivatives import Loss, Rows
from driftline.fitting._designs import Dense, Design
from driftline.fitting._fits import ConvexFit, FitDivergedError, FitInfo, Scores
from driftline.fitting._losses import loss_of
from driftline.fitting._objectives import Objective, log_mean_exp, logistic, lsif, nwj, unnormalised

__all__ = ["bridge_constant", "fit_convex", "half_inverse"]

_SAMPLE = 8  # large fits start from the solution on one row in this many
_SMALL = 0.025  # gradient at zero, of a shift by a tenth of a standard deviation, below which that does not pay
_RUNAWAY = 50.0  # a standardised coefficient or a loss beyond this is on its way to infinity
_NEAR = 1e-5  # gradient below which the curvature is practically that of the solution


def fit_convex(
    design_num: Design,
    design_den: Design,
    loss: Loss,
    *,
    offset_num: Floats | None = None,
    offset_den: Floats | None = None,
    ridge: float | Floats = 0.0,
    start: Floats | None = None,
    max_iter: int = 50,
    tol: float = 1e-6,
) -> ConvexFit:
    r"""Minimise ``loss(design_num @ theta + offset_num, design_den @ theta + offset_den)`` by Newton's method.

    The loss must be a sum over rows (``loss.separable``); take :func:`~driftline.fitting.unnormalised` of a
    self-normalised objective. ``ridge`` adds :math:`\frac{1}{2(N+M)}\sum_j\rho_j\theta_j^2`, a prior worth
    :math:`\rho` observations (one number, or one for each coefficient) that keeps the solution finite for separable or
    collinear data.

    >>> rng = np.random.default_rng(0)
    >>> x, y, one = rng.normal(0.0, 1.0, 2000), rng.normal(0.5, 1.0, 2000), np.ones(2000)
    >>> fit = fit_convex(Dense(np.stack([x, one], 1)), Dense(np.stack([y, one], 1)), loss_of(logistic))
    >>> fit.info.converged  # the truth is log r = -x/2 + 1/8
    True
    """
    began = time.perf_counter()
    problem = _Problem(design_num, design_den, loss, offset_num, offset_den, ridge)
    end = _minimise(problem, start, max_iter, tol)
    hessian = _hessian_at(problem, end)
    seconds = time.perf_counter() - began
    nan = float("nan")
    info = FitInfo("newton", end.converged, end.steps, end.point.loss, nan, end.gradient, seconds, end.message)
    rows, log_num, log_den = end.point.rows, end.point.log_num, end.point.log_den
    third_num, third_den = loss.third(log_num, log_den)
    num, den = Scores(rows.first_num, rows.second_num, third_num), Scores(rows.first_den, rows.second_den, third_den)
    return ConvexFit(end.point.coef, hessian, num, den, info, problem.weight, log_num, log_den)


class _Point(NamedTuple):
    """Coefficients (p,), their loss with the prior, the derivatives of the loss without it, and the log-ratios."""

    coef: Floats
    loss: float
    rows: Rows
    log_num: Floats
    log_den: Floats


class _Problem(NamedTuple):
    r"""The loss :math:`L(\theta) = \ell(A\theta + a, B\theta + b) + \frac12\sum_j w_j\theta_j^2` of a fit.

    A and B are the designs, a and b the offsets, and w is ``ridge`` divided by the number of rows.
    """

    num: Design
    den: Design
    loss: Loss
    offset_num: Floats | None
    offset_den: Floats | None
    ridge: float | Floats

    @property
    def weight(self) -> Floats:
        """The prior's part in the diagonal of the Hessian, (p,)."""
        return np.full(self.num.shape[1], self.ridge) / (self.num.shape[0] + self.den.shape[0])

    def log_ratios(self, coef: Floats) -> tuple[Floats, Floats]:
        r"""Return :math:`A\theta + a` and :math:`B\theta + b`, (n,) and (m,)."""
        if coef.any():
            num, den = self.num.dot(coef), self.den.dot(coef)
        else:
            num, den = np.zeros(self.num.shape[0]), np.zeros(self.den.shape[0])
        return (
            num if self.offset_num is None else num + self.offset_num,
            den if self.offset_den is None else den + self.offset_den,
        )

    def at(self, coef: Floats) -> _Point:
        """Evaluate the loss and its derivatives in the log-ratios."""
        log_num, log_den = self.log_ratios(coef)
        rows = self.loss.rows(log_num, log_den)
        return _Point(coef, rows.loss + 0.5 * float(self.weight @ (coef * coef)), rows, log_num, log_den)

    def gradient(self, point: _Point) -> Floats:
        r"""Return :math:`\nabla L = A^\top\ell'_a + B^\top\ell'_b + w\theta`, (p,)."""
        return self.num.pull(point.rows.first_num) + self.den.pull(point.rows.first_den) + self.weight * point.coef

    def hessian(self, second_num: Floats, second_den: Floats, weight: Floats) -> Floats:
        r"""Return :math:`A^\top D_a A + B^\top D_b B + D_w`, D diagonal with :math:`\ell''_a, \ell''_b, w`; (p, p)."""
        return self.num.gram(second_num) + self.den.gram(second_den) + np.diag(weight)

    def thinned(self, every: int) -> _Problem:
        """Keep every ``every``-th row, with the prior in proportion."""
        offset_num, offset_den = (None if o is None else o[::every] for o in (self.offset_num, self.offset_den))
        num, den = self.num.thin(every), self.den.thin(every)
        return _Problem(num, den, self.loss, offset_num, offset_den, self.ridge / every)


class _Curvature(NamedTuple):
    """A positive definite Hessian, its half inverse, and the size of the gradient where it was taken."""

    hessian: Floats
    half: Floats
    gradient: float


class _End(NamedTuple):
    """Where Newton's method ended: the point, the last curvature, the size of the gradient, and how it went."""

    point: _Point
    curvature: _Curvature | None
    gradient: float
    steps: int
    converged: bool
    message: str


def _minimise(problem: _Problem, start: Floats | None, max_iter: int, tol: float) -> _End:
    """Descend from ``start`` or, if None, from the solution on some of the rows; raise an error without a minimum."""
    point, curvature = (problem.at(start), None) if start is not None else _start(problem)
    if not math.isfinite(point.loss):
        raise FitDivergedError(
            "the objective is not finite at the start of the fit: are the offsets or inputs extreme?"
        )
    end = _descend(problem, point, curvature, max_iter, tol)
    point = end.point
    if not end.converged and (float(np.abs(point.coef).max()) > _RUNAWAY or point.loss < -_RUNAWAY):
        raise FitDivergedError(
            "the objective has no minimum on these windows (KLIEP, LSIF and NWJ have none where the numerator lies "
            "outside the denominator's rows): take larger windows, smaller steps, or objective='logistic'"
        )
    return end


def _start(problem: _Problem) -> tuple[_Point, _Curvature | None]:
    """Return zero or, for large fits of a large step, the solution on an eighth of the rows.

    That solution is near the one on all rows, with a curvature good enough to get there. The eighth may have no minimum
    although all rows have one. For a small step the curvature at zero is the better one.
    """
    p = problem.num.shape[1]
    zero = problem.at(np.zeros(p))
    if min(problem.num.shape[0], problem.den.shape[0]) <= _SAMPLE * max(20 * p, 500):
        return zero, None
    part = problem.thinned(_SAMPLE)
    try:
        if float(np.abs(part.gradient(part.at(zero.coef))).max()) < _SMALL:
            return zero, None
        near = _minimise(part, zero.coef, max_iter=50, tol=1e-4)
    except FitDivergedError:
        return zero, None
    hessian = _hessian_at(part, near)
    return problem.at(near.point.coef), _Curvature(hessian, _half(hessian), float("inf"))


def _descend(problem: _Problem, point: _Point, curvature: _Curvature | None, max_iter: int, tol: float) -> _End:
    """Take Newton steps until no entry of the gradient exceeds ``tol``, or no step reduces the loss."""
    size = float("inf")
    for steps in range(max_iter):
        gradient = problem.gradient(point)
        before, size = size, float(np.abs(gradient).max())
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
    if (num.min() < 0.0 or den.min() < 0.0) and half_inverse(hessian) is None:
        hessian = problem.hessian(np.maximum(num, 0.0), np.maximum(den, 0.0), weight)
    return _Curvature(hessian, _half(hessian), size)


def _hessian_at(problem: _Problem, end: _End) -> Floats:
    """Return the Hessian at the end: that of the last curvature if it was taken close by."""
    if end.curvature is not None and not end.curvature.gradient > _NEAR:
        return end.curvature.hessian
    return problem.hessian(end.point.rows.second_num, end.point.rows.second_den, problem.weight)


def half_inverse(matrix: Floats) -> Floats | None:
    r"""Return :math:`L^{-1}`, half of the inverse of :math:`A = LL^\top`; None if A is not positive definite.

    >>> half = half_inverse(np.array([[4.0, 0.0], [0.0, 0.25]]))
    >>> (half.T @ half).tolist()
    [[0.25, 0.0], [0.0, 4.0]]
    """
    from scipy.linalg.lapack import dtrtri

    try:
        root = np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return None
    inverse, singular = dtrtri(root.T)  # by columns, as LAPACK has matrices, the transposed is the upper triangle
    return None if singular else np.asarray(inverse.T)


def _half(matrix: Floats) -> Floats:
    """Return the half inverse of a positive (semi-)definite matrix, adding to its diagonal until there is one."""
    size = max(float(np.abs(matrix.diagonal()).mean()), 1e-300)
    if not math.isfinite(size):
        raise FitDivergedError("the curvature of the objective is not finite at the current estimate")
    for jitter in (0.0, 1e-9, 1e-6, 1e-3, 1.0):
        half = half_inverse(matrix + jitter * size * np.eye(len(matrix)))
        if half is not None:
            return half
    raise FitDivergedError("the curvature of the objective is not positive at the current estimate")


def _direction(point: _Point, gradient: Floats, curvature: _Curvature) -> Floats:
    r"""Return Newton's direction, :math:`-H^{-1}\nabla L`; no entry exceeds 1/2 where the loss is not convex."""
    direction = -(curvature.half.T @ (curvature.half @ gradient))
    if point.rows.second_num.min() < 0.0:  # stay in the basin around the start, which holds the ratio
        direction = direction * min(1.0, 0.5 / float(np.abs(direction).max()))
    return direction


def _search(problem: _Problem, point: _Point, direction: Floats, slope: float) -> _Point | None:
    r"""Halve a step until it improves the loss enough (Armijo); return None if none does.

    .. math:: L(\theta + \alpha d) \le L(\theta) + 10^{-4} \alpha \nabla L^\top d
    """
    rate, loss = 1.0, point.loss
    for _ in range(40):
        trial = problem.at(point.coef + rate * direction)
        # the tolerance lets the last, tiny Newton steps pass although rounding hides their gain
        if math.isfinite(trial.loss) and trial.loss <= loss + 1e-4 * rate * slope + 1e-13 * (1.0 + abs(loss)):
            return trial
        rate *= 0.5
    return None


def bridge_constant(phi_num: Floats, phi_den: Floats, objective: Objective) -> float:
    """Return the constant to add to log-ratios: the objective's own minimiser, or else the bridge estimate."""
    own = unnormalised(objective)
    # in closed form where there is one: Newton's method would overflow where ratios do
    if own is nwj:
        return -float(log_mean_exp(phi_den))
    if own is lsif:
        return float(log_mean_exp(phi_num) - log_mean_exp(2.0 * phi_den))
    loss = loss_of(own)
    if not loss.separable:
        loss = loss_of(logistic)
    ones = (Dense(np.ones((len(phi_num), 1))), Dense(np.ones((len(phi_den), 1))))
    # start where both samples are centred, so that Newton's first step is not taken from a saturated loss
    shift = -0.5 * (float(phi_num.mean()) + float(phi_den.mean()))
    fit = fit_convex(*ones, loss, offset_num=phi_num + shift, offset_den=phi_den + shift)
    return float(fit.coef[0]) + shift
