r"""The optimism of a fit without its curvature: with many features, a trace by random probes and conjugate gradients.

:math:`\operatorname{tr}(H^{-1}J) = E[v^\top H^{-1} J v]` for random signs v, and both matrices are needed only as
products with vectors, which the designs give. With p features the relative error of one probe is about
:math:`\sqrt{2/p}`.

Reference: Hutchinson, *A stochastic estimator of the trace of the influence matrix*, 1990.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from driftline._inputs import Floats
from driftline.fitting import Design, Rows

__all__ = ["probed_optimism"]

_FEATURES = 2000  # features over all probes
_FEW = 300  # up to so many features, two Gram matrices cost less than the probes
_ITERATIONS = 40
_ENOUGH = 1e-2  # relative error of the solution for one probe


def probed_optimism(num: Design, den: Design, rows: Rows, weight: Floats) -> float:
    """Return the expected loss on new rows less that on fitted ones, as :func:`optimism` does; rows as independent.

    Arguments:
        num, den: designs of both windows.
        rows: derivatives of the loss with respect to each row's log-ratio, at the solution.
        weight: the prior's part in the diagonal of the Hessian, (p,).

    >>> from driftline.fitting import Dense, fit_convex, logistic, loss_of
    >>> rng = np.random.default_rng(0)
    >>> num, den = Dense(rng.normal(size=(3000, 40))), Dense(rng.normal(size=(3000, 40)))
    >>> fit = fit_convex(num, den, loss_of(logistic), ridge=1.0)
    >>> rows = loss_of(logistic).rows(fit.log_num, fit.log_den)
    >>> bool(abs(probed_optimism(num, den, rows, fit.weight) * 6000 / 40 - 1.0) < 0.15)  # one row for each parameter
    True
    """
    size, rng = num.shape[1], np.random.default_rng(0)
    sides = ((num, rows.first_num, rows.second_num), (den, rows.first_den, rows.second_den))
    means = [design.pull(first) for design, first, _ in sides]
    if size <= _FEW:
        hessian = np.diag(weight) + sum(design.gram(second) for design, _, second in sides)
        meat = sum(
            design.gram(first**2) - np.outer(mean, mean) / design.shape[0]
            for (design, first, _), mean in zip(sides, means, strict=True)
        )
        if not np.isfinite(hessian).all():
            return float("nan")
        return float((np.linalg.pinv(hessian, rcond=1e-6, hermitian=True) * meat).sum())

    def curved(v: Floats) -> Floats:
        return weight * v + sum(design.pull(second * design.dot(v)) for design, _, second in sides)

    def spread(v: Floats) -> Floats:
        total = np.zeros(size)
        for (design, first, _), mean in zip(sides, means, strict=True):
            total += design.pull(first**2 * design.dot(v)) - mean * float(mean @ v) / design.shape[0]
        return total

    probes = [rng.choice([-1.0, 1.0], size) for _ in range(max(1, _FEATURES // size))]
    return float(np.mean([_solved(curved, v) @ spread(v) for v in probes]))


def _solved(product: Callable[[Floats], Floats], wanted: Floats) -> Floats:
    """Solve a positive definite system, known by its products, by conjugate gradients."""
    from scipy.sparse.linalg import LinearOperator, cg  # not at the top: only wide tables need it

    operator = LinearOperator((len(wanted), len(wanted)), matvec=product, dtype=np.float64)
    return np.asarray(cg(operator, wanted, rtol=_ENOUGH, maxiter=_ITERATIONS)[0])
