r"""The log-ratio as it is read: coefficients within their noise are drawn towards zero.

The recursion carries coefficients as they were fitted: their errors cancel between the two roles of a window, and
divergences subtract the noise that is known. A log-ratio at a row has no noise subtracted. Where a model has many
features and few of them move, most of what it says there is noise. So whoever asks for log-ratios or weights gets those
of the posterior means of the coefficients, kind by kind (:func:`driftline.inference.posterior_means`).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from driftline import inference
from driftline._inputs import Floats
from driftline._overflow import quiet_overflow
from driftline._roots import root
from driftline._threads import limited_threads
from driftline.fitting import LogLinear, LogLinearDesign, softmax
from driftline.recursion._state import Anchor

__all__ = ["NEAR", "change_of", "expressed", "moderated", "orthogonal"]

NEAR = 0.99
"""Share of rows, by the size of their features, that make the units in which coefficients are compared."""


def expressed(psi: LogLinear, design: LogLinearDesign, log_r: Floats) -> Floats:
    """Return coefficients (p,) of features that come closest to the summaries' log-ratio, over original and current."""
    assert psi.summaries is not None
    weights = 0.5 * (softmax(log_r) + 1.0 / len(log_r))
    gram = design.gram(weights)
    gram[np.diag_indices_from(gram)] += 1e-6
    wanted = design.pull(weights * psi.summaries(psi.standardizer.original(design.z)))
    return np.asarray(np.linalg.solve(gram, wanted)[:-1])


@limited_threads()
@quiet_overflow()
def moderated(anchor: Anchor) -> Anchor:
    """Return the anchor with the psi that log-ratios are read from; the same one where errors are not known.

    Functions are orthogonalised in the order of the features, kind by kind, so that columns and squares keep what they
    can say, and later kinds what they add. The share of rows that look like the original's stays as it is.
    """
    psi, errors = anchor.psi, anchor.uncertainty
    if not isinstance(psi, LogLinear) or not psi.features.size or anchor.sums is not None:
        return anchor  # without rows it has been done while they were at hand
    if errors is None or errors.slack <= inference.UNSUPPORTED:
        return anchor
    design, log_r = anchor.own_design(), anchor.on_window()
    near = _near(design)
    weights = np.where(near, 0.5 * (softmax(log_r) + 1.0 / len(log_r)), 0.0)
    lower = _orthogonal(design, weights / weights.sum())
    if lower is None:
        return anchor
    coef = psi.coef if psi.summaries is None else psi.coef + expressed(psi, design, log_r)
    change = change_of(psi, coef, lower, inference.covariance(errors)[:-1, :-1])
    on_window = design.dot(np.append(change, 0.0))
    if not np.isfinite(on_window).all():
        return anchor
    constant = _level(log_r[near], on_window[near])
    return anchor._replace(
        psi=psi._replace(coef=psi.coef + change),
        log_normalizer=anchor.log_normalizer + constant,
        known=None,
    )


def change_of(psi: LogLinear, coef: Floats, lower: Floats, covariance: Floats) -> Floats:
    """Return by how much coefficients (p,) are drawn towards zero; ``lower`` as :func:`orthogonal` returns it."""
    drawn = _drawn(psi, lower.T @ coef, lower.T @ covariance @ lower)
    return np.asarray(np.linalg.solve(lower.T, drawn) - coef)


def _level(log_r: Floats, change: Floats) -> float:
    r"""Return the constant c that keeps the mean of :math:`r/(1+r)` over rows (n,) when log-ratios change, less c.

    The mean of r itself would do in theory, but a single row with a large ratio can rule it.
    """

    def excess(constant: float) -> float:
        return float((expit(log_r + change - constant) - expit(log_r)).sum())

    from scipy.special import expit  # not at the top: whoever only reads Records would wait for SciPy

    low, high = float(change.min()), float(change.max())
    return root(excess, low, high, 1e-9) if high > low else low


def _near(design: LogLinearDesign) -> npt.NDArray[np.bool_]:
    """Say which rows are not far out in terms of their features, (n,)."""
    size = np.einsum("ij,ij->i", design.single, design.single)
    return np.asarray(size <= np.quantile(size, NEAR))


def _orthogonal(design: LogLinearDesign, weights: Floats) -> Floats | None:
    """Return the lower factor L (p, p) of the features' covariance; L'c are coefficients of orthogonal functions."""
    mean = design.pull(weights)[:-1]
    return orthogonal(design.gram(weights)[:-1, :-1] - np.outer(mean, mean))


def orthogonal(spread: Floats) -> Floats | None:
    """Return the lower factor of a covariance of features (p, p), if it has one."""
    spread = spread.copy()
    spread[np.diag_indices_from(spread)] += 1e-6 * max(float(spread.diagonal().mean()), 1e-300)
    try:
        return np.asarray(np.linalg.cholesky(spread), dtype=np.float64)
    except np.linalg.LinAlgError:
        return None


def _drawn(psi: LogLinear, values: Floats, covariance: Floats) -> Floats:
    """Return the posterior means of coefficients of orthogonal functions, each kind of feature by itself."""
    out = values.copy()
    for cut in psi.features.kinds():
        out[cut] = inference.posterior_means(values[cut], np.maximum(covariance.diagonal()[cut], 0.0))
    return out
