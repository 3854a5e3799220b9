r"""A fit against a window of which only sums are left: logistic regression with a linear weight.

For any weight w, :math:`E_{num}[w(u)T] = E_{den}[e^u w(u)T]` at the true log-ratio u. Logistic regression has
:math:`w = 1/(1+e^u)`. The linear :math:`w = (c-u)/2c`, close to it, needs of the numerator no more than the means of T
and of its products, and is the derivative of a convex loss:

.. math:: \kappa\Big[-\frac{c\,m^\top\theta - \frac12\theta^\top S\theta}{2c} + E_{den}\,\ell(u)\Big], \quad
          \ell(u) = e^u\,\frac{c+1-u}{2c} \text{ up to } u = c-1, \text{ and linear beyond.}

T includes a one, :math:`m = E[T]`, :math:`S = E[TT^\top]`; :math:`\kappa = 2nm/(n+m)^2` gives it the curvature that the
logistic loss has where nothing moves. Beyond c - 1 the weight no longer fits, a bias that more rows do not cure: c
grows with the step, so that few rows lie there.

The denominator is asked for sums, too (:class:`Part`), which add up over places that rows may lie in.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Annotated, NamedTuple

import numpy as np

from driftline._inputs import Floats
from driftline.fitting._chunks import chunks
from driftline.fitting._designs import Design
from driftline.fitting._fits import FitDivergedError, FitInfo, Scores
from driftline.fitting._newton import half_inverse

__all__ = ["Ask", "Part", "SumsFit", "WindowSums", "fit_sums", "linear_scores", "part_of", "sums_of_window", "weigh"]

LEAST = 3.0  # the smallest c
_LEAN = 2.0  # skewness of a log-ratio in the numerator that c allows for, at most
_TAIL = 60.0  # rows of a window from which on c reaches into a long tail
_FAR = 4.0  # standard deviations for each unit of skewness, at most
_REFITS = 4  # fits with a new c, at most
_SAME = 0.01  # relative change of c that ends them
_TOLERANCE = 1e-9  # entry of the gradient
_STEPS = 50  # Newton steps of a fit


class WindowSums(NamedTuple):
    """Means over a window's rows: of features and a one (p+1,), of their products (p+1, p+1), and the rows counted."""

    rows: float
    mean: Annotated[Floats, "P+1"]
    gram: Annotated[Floats, "P+1 P+1 half"]

    def joined(self, other: WindowSums) -> WindowSums:
        """Return the sums of the rows of both."""
        rows = self.rows + other.rows
        a, b = self.rows / rows, other.rows / rows
        return WindowSums(rows, a * self.mean + b * other.mean, a * self.gram + b * other.gram)


class Part(NamedTuple):
    """Sums over rows of a denominator at some coefficients: loss, its gradient (p+1,), curvature (p+1, p+1).

    ``beyond`` counts rows where the weight no longer fits.
    """

    rows: float
    loss: float
    pull: Floats
    gram: Floats
    beyond: float

    def joined(self, other: Part) -> Part:
        """Return the sums over the rows of both."""
        return Part(
            self.rows + other.rows,
            self.loss + other.loss,
            self.pull + other.pull,
            self.gram + other.gram,
            self.beyond + other.beyond,
        )


Ask = Callable[[Floats, float], Part]
"""The denominator, as sums at coefficients (p+1,) and c."""


class SumsFit(NamedTuple):
    """Coefficients (p+1,), the constant's last; c, curvature with the prior, the prior's part in its diagonal.

    ``beyond`` is the share of the denominator's rows where the weight no longer fits; ``middle`` and ``spread`` are
    mean and standard deviation of the log-ratio in the numerator.
    """

    coef: Floats
    c: float
    hessian: Floats
    weight: Floats
    beyond: float
    middle: float
    spread: float
    info: FitInfo


def sums_of_window(design: Design) -> WindowSums:
    """Return the sums of a window that is to be a numerator.

    >>> from driftline.fitting import Dense
    >>> sums_of_window(Dense(np.array([[1.0, 1.0], [3.0, 1.0]]))).gram.tolist()
    [[5.0, 2.0], [2.0, 1.0]]
    """
    n, p = design.shape
    gram = np.zeros((p, p))
    for at in chunks(n):
        rows = design.take(at.start, min(at.stop, n), 1)
        gram += rows.T @ rows
    gram /= n
    return WindowSums(float(n), gram[-1].copy(), gram)


def weigh(rows: float, others: float) -> float:
    """Return kappa, by which the loss of a numerator and a denominator of so many rows has the logistic curvature."""
    return 2.0 * rows * others / (rows + others) ** 2


def linear_scores(u: Floats, c: float) -> Scores:
    """Return first, second and third derivatives of the denominator's loss at log-ratios u (n,), all (n,)."""
    inside = u <= c - 1.0
    ratio = np.exp(np.minimum(u, c - 1.0)) / (2.0 * c)
    first = ratio * (c - np.minimum(u, c - 1.0))
    return Scores(first, np.where(inside, ratio * (c - 1.0 - u), 0.0), np.where(inside, ratio * (c - 2.0 - u), 0.0))


def _losses(u: Floats, c: float) -> Floats:
    """Return the denominator's loss at log-ratios u (n,)."""
    near = np.minimum(u, c - 1.0)
    return np.asarray(np.exp(near) * (c + 1.0 - near + np.maximum(u - (c - 1.0), 0.0)) / (2.0 * c))


def part_of(design: Design, coef: Floats, c: float) -> Part:
    """Return a denominator's sums at coefficients (p+1,) and c, in double precision."""
    n, p = design.shape
    loss, beyond, pull, gram = 0.0, 0.0, np.zeros(p), np.zeros((p, p))
    for at in chunks(n):
        rows = design.take(at.start, min(at.stop, n), 1)
        u = rows @ coef
        scores = linear_scores(u, c)
        loss += float(_losses(u, c).sum())
        beyond += float((u > c - 1.0).sum())
        pull += scores.first @ rows
        gram += (rows * scores.second[:, None]).T @ rows
    return Part(float(n), loss, pull, gram, beyond)


def fit_sums(num: WindowSums, ask: Ask, others: float, ridge: Floats, start: Floats | None = None) -> SumsFit:
    r"""Fit the log-ratio of a window that is known by its sums and one that can be asked, by Newton's method.

    Arguments:
        num: sums of the numerator.
        ask: the denominator.
        others: rows of the denominator.
        ridge: prior on each coefficient, (p+1,): :math:`\frac{1}{2(N+M)}\sum_j\rho_j\theta_j^2` is added to the loss.
        start: coefficients to start from; zero if None.

    >>> from driftline.fitting import Dense
    >>> rng = np.random.default_rng(0)
    >>> x, y = (np.stack([rng.normal(at, 1.0, 4000), np.ones(4000)], 1) for at in (0.0, 0.5))
    >>> fit = fit_sums(sums_of_window(Dense(x)), lambda *at: part_of(Dense(y), *at), 4000.0, np.zeros(2))
    >>> bool(abs(fit.coef - [-0.5, 0.125]).max() < 0.05)  # the truth is log r = -x/2 + 1/8
    True
    """
    began = time.perf_counter()
    coef = np.zeros(len(num.mean)) if start is None else start
    weight = ridge / (num.rows + others)
    c, total = LEAST, 0
    for _ in range(_REFITS):
        problem = _Problem(num, ask, c, weigh(num.rows, others), weight)
        point, gradient, steps, message = _descend(problem, problem.at(coef))
        coef, total = point.coef, total + steps
        middle, spread = spread_of(num, coef)
        wanted = _wanted(middle, spread, min(num.rows, others))
        if abs(wanted - c) <= _SAME * c:
            break
        c = wanted
    seconds = time.perf_counter() - began
    info = FitInfo("newton", not message, total, point.loss, math.nan, gradient, seconds, message)
    beyond = point.part.beyond / point.part.rows
    return SumsFit(coef, problem.c, problem.hessian(point), weight, beyond, middle, spread, info)


def _wanted(middle: float, spread: float, rows: float) -> float:
    """Return the c that leaves few rows beyond c - 1, given mean and standard deviation of u in the numerator.

    Where a column becomes narrower, u is like a z² and has a long upper tail. Sums do not hold its third moment, but
    the ratio's mean of one tells its lean: 0 = log E[e^-u] = -mean + variance/2 - third cumulant/6 + ...
    How far into the tail c should reach is a matter of rows: far out, few of them have most of the weight.
    """
    lean = min(max((3.0 * spread**2 - 6.0 * middle) / max(spread, 1e-3) ** 3, 0.0), _LEAN)
    far = min(0.5 * math.log2(max(rows / _TAIL, 1.0)), _FAR)
    return max(LEAST, 1.0 + middle + (min(max(3.0 - spread, 1.0), 2.0) + far * lean) * spread)


def spread_of(num: WindowSums, coef: Floats) -> tuple[float, float]:
    """Return mean and standard deviation of a log-ratio in the numerator."""
    middle = float(coef @ num.mean)
    return middle, math.sqrt(max(float(coef @ num.gram @ coef) - middle * middle, 0.0))


class _Point(NamedTuple):
    """Coefficients, their loss with the prior, and the denominator's sums at them."""

    coef: Floats
    loss: float
    part: Part


class _Problem(NamedTuple):
    """The loss of a fit with this c."""

    num: WindowSums
    ask: Ask
    c: float
    kappa: float
    weight: Floats

    def at(self, coef: Floats) -> _Point:
        part, gain = self.ask(coef, self.c), self.c * (coef @ self.num.mean) - 0.5 * (coef @ self.num.gram @ coef)
        loss = self.kappa * (part.loss / part.rows - float(gain) / (2.0 * self.c))
        return _Point(coef, loss + 0.5 * float(self.weight @ (coef * coef)), part)

    def gradient(self, point: _Point) -> Floats:
        num = (self.c * self.num.mean - self.num.gram @ point.coef) / (2.0 * self.c)
        return np.asarray(self.kappa * (point.part.pull / point.part.rows - num) + self.weight * point.coef)

    def hessian(self, point: _Point) -> Floats:
        bend = self.kappa * (point.part.gram / point.part.rows + self.num.gram / (2.0 * self.c))
        return np.asarray(bend + np.diag(self.weight))


def _descend(problem: _Problem, point: _Point) -> tuple[_Point, float, int, str]:
    """Take Newton steps; return the end, its largest gradient, the steps, and what went wrong, if anything."""
    size = math.inf
    for steps in range(_STEPS):
        gradient = problem.gradient(point)
        size = float(np.abs(gradient).max())
        if size < _TOLERANCE:
            return point, size, steps, ""
        direction = -_solve(problem.hessian(point), gradient)
        found = _search(problem, point, direction, float(gradient @ direction))
        if found is None:
            return point, size, steps, "" if size < 1e3 * _TOLERANCE else "no descent along the Newton direction"
        point = found
    return point, size, _STEPS, f"gradient {size:.1e} after {_STEPS} iterations"


def _solve(hessian: Floats, gradient: Floats) -> Floats:
    """Return Newton's direction; what rows and prior leave undetermined does not move."""
    if not np.isfinite(hessian).all():
        raise FitDivergedError("the curvature of the objective is not finite at the current estimate")
    half = half_inverse(hessian)
    if half is None:
        return np.asarray(np.linalg.pinv(hessian, rcond=1e-12, hermitian=True) @ gradient)
    return np.asarray(half.T @ (half @ gradient))


def _search(problem: _Problem, point: _Point, direction: Floats, slope: float) -> _Point | None:
    """Halve a step until it improves the loss enough (Armijo); None if none does."""
    rate = 1.0
    for _ in range(40):
        trial = problem.at(point.coef + rate * direction)
        enough = point.loss + 1e-4 * rate * slope + 1e-13 * (1.0 + abs(point.loss))
        if math.isfinite(trial.loss) and trial.loss <= enough:
            return trial
        rate *= 0.5
    return None
