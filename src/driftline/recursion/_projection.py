"""Projection: the ratio so far fitted in new features, by rows that count as the original's as often as it says."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from driftline import inference
from driftline._inputs import Floats
from driftline.fitting import LogLinearDesign, half_inverse

__all__ = ["Projection", "bend_of", "onto_new", "projected"]

_ITERATIONS = 60
_TOLERANCE = 1e-9


class Projection(NamedTuple):
    """Log-ratios of the window's rows in the new features, (n,), their coefficients and constant, (p + 1,).

    ``pull`` are the rows' weights as rows of the original, less what the fit explains of them, ``gain`` (n,) their
    weight in how the fit follows the previous log-ratio, ``inverse`` that of the curvature, ``gram`` the curvature
    without a prior.
    """

    log_r: Floats
    coef: Floats
    pull: Floats
    gain: Floats
    inverse: Floats
    gram: Floats


def projected(design: LogLinearDesign, log_r: Floats, offset: Floats, ridge: Floats) -> Projection | None:
    """Fit the ratio of the weighted rows; what too few rows tell stays at the least-squares fit of the log-ratio."""
    rows = design.take(0, design.shape[0], 1)
    start = inference.projection(rows, (log_r - offset)[:, None])[:, 0]
    base, coef = offset + rows @ start, np.zeros(len(start))
    value = _loss(base, log_r, coef, ridge)
    for _ in range(_ITERATIONS):
        u = base + rows @ coef
        share, pull, bend = _scores(u, log_r)
        gram = design.gram(bend)
        half = half_inverse(gram + np.diag(ridge))
        if half is None:
            return None
        gradient = -(pull @ rows) + ridge * coef
        inverse = half.T @ half
        step = -inverse @ gradient
        if float(-gradient @ step) < _TOLERANCE * len(u):
            return Projection(u, start + coef, pull, share, inverse, gram)
        rate, found = 1.0, value
        for _ in range(30):
            found = _loss(base + rows @ (coef + rate * step), log_r, coef + rate * step, ridge)
            if found <= value + 1e-4 * rate * float(gradient @ step):
                break
            rate *= 0.5
        coef, value = coef + rate * step, found
    return None


def onto_new(design: LogLinearDesign, old: LogLinearDesign, fit: Projection) -> Floats:
    """Return how coefficients follow those in the previous features, (p + 1, q + 1)."""
    now, then = design.take(0, design.shape[0], 1), old.take(0, old.shape[0], 1)
    plain = inference.projection(now, then)
    followed = (now * fit.gain[:, None]).T @ then
    return np.asarray(plain + fit.inverse @ (followed - fit.gram @ plain))


def bend_of(fit: Projection) -> Floats:
    """Return the curvature of each row."""
    share = np.exp(-np.logaddexp(0.0, -fit.log_r))
    return share * (1.0 - share + fit.gain)


def _loss(u: Floats, log_r: Floats, coef: Floats, ridge: Floats) -> float:
    """Return the logistic loss of rows that count r times as the original's and once as the window's."""
    return float((np.exp(log_r) * np.logaddexp(0.0, -u) + np.logaddexp(0.0, u)).sum() + 0.5 * ridge @ coef**2)


def _scores(u: Floats, log_r: Floats) -> tuple[Floats, Floats, Floats]:
    """Return r (1 - s), its difference to s, and the curvature (1 + r) s (1 - s), with s the logistic function of u."""
    share = np.exp(-np.logaddexp(0.0, -u))
    gain = np.exp(log_r - np.logaddexp(0.0, u))
    return gain, gain - share, share * (np.exp(-np.logaddexp(0.0, u)) + gain)
