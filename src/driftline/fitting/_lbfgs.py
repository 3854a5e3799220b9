"""Convex fits by L-BFGS, for many features or losses that couple the rows."""

from __future__ import annotations

import math
import time

import numpy as np

from driftline._inputs import Floats
from driftline.fitting._derivatives import Loss
from driftline.fitting._designs import Design
from driftline.fitting._fits import ConvexFit, FitDivergedError, FitInfo, Scores

__all__ = ["fit_lbfgs"]


def fit_lbfgs(
    num: Design,
    den: Design,
    loss: Loss,
    *,
    offset_num: Floats | None = None,
    offset_den: Floats | None = None,
    ridge: float | Floats = 0.0,
    start: Floats | None = None,
    max_iter: int = 200,
    tol: float = 1e-6,
) -> ConvexFit:
    """Minimise the loss that :func:`~driftline.fitting.fit_convex` minimises, without its curvature."""
    from scipy.optimize import minimize  # not at the top: only wide tables and penalties need it

    began = time.perf_counter()
    weight = ridge / (num.shape[0] + den.shape[0])
    off_num = 0.0 if offset_num is None else offset_num
    off_den = 0.0 if offset_den is None else offset_den

    def log_ratios(coef: Floats) -> tuple[Floats, Floats]:
        return num.dot(coef) + off_num, den.dot(coef) + off_den

    def value_and_gradient(coef: Floats) -> tuple[float, Floats]:
        value, first_num, first_den = loss.slopes(*log_ratios(coef))
        gradient = num.pull(first_num) + den.pull(first_den) + weight * coef
        return value + 0.5 * float((weight * coef) @ coef), gradient

    first = np.zeros(num.shape[1]) if start is None else start
    options = {"maxiter": max_iter, "maxcor": 20, "gtol": tol, "ftol": 1e-15, "maxls": 40}
    with np.errstate(over="ignore", invalid="ignore"):  # a trial step may overflow; the result is checked
        found = minimize(value_and_gradient, first, jac=True, method="L-BFGS-B", options=options)
    size = float(np.abs(found.jac).max())
    if not (math.isfinite(found.fun) and np.isfinite(found.x).all()):
        raise FitDivergedError("L-BFGS diverged: standardise the input, or give the windows more rows")
    converged = size < 10 * tol
    message = "" if converged else f"gradient {size:.1e} after {found.nit} iterations"
    seconds = time.perf_counter() - began
    info = FitInfo("l-bfgs", converged, int(found.nit), float(found.fun), float("nan"), size, seconds, message)
    empty = np.zeros(0)
    nothing = Scores(empty, empty, empty)
    coef = np.asarray(found.x)
    return ConvexFit(coef, np.zeros((0, 0)), nothing, nothing, info, empty, *log_ratios(coef))
