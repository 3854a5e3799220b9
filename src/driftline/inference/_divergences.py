r"""f-divergences between original and current, as pure functions of log-ratios on current samples.

:math:`D_f = E_q[f(r)]` with ``r = original/current`` and convex ``f``, ``f(1) = 0``. Adding ``c (r - 1)`` to ``f``
does not change the divergence; of that family we take the member with the lightest tail on samples of ``q``, so
that the estimate tends to its true limit (not to half of it) when the current window no longer overlaps the original.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["DIVERGENCES", "Generator", "curvature", "divergence", "largest", "resolve", "slope", "terms"]

Array = npt.NDArray[np.float64]
Generator = Callable[[Any], Any]

_LOG_MAX = 700.0  # exp() stays finite below this
_MOST = {"js": math.log(2.0), "hellinger": 1.0, "total_variation": 1.0}


def _ratio(log_r: Array) -> Array:
    return np.asarray(np.exp(np.minimum(log_r, _LOG_MAX)))


def _kl(log_r: Array) -> Array:
    return _ratio(log_r) * log_r


def _reverse_kl(log_r: Array) -> Array:
    return -log_r


def _js(log_r: Array) -> Array:
    # r log(2r/(1+r)) + log(2/(1+r)) - (r-1) log 2, halved; log(r/(1+r)) as a softplus keeps its digits for large r
    log_r = np.minimum(log_r, _LOG_MAX)
    tail = np.exp(log_r) * np.logaddexp(0.0, -log_r)
    return np.asarray(np.log(2.0) - 0.5 * (tail + np.logaddexp(0.0, log_r)))


def _hellinger(log_r: Array) -> Array:
    return 1.0 - np.exp(np.minimum(0.5 * log_r, _LOG_MAX))


def _pearson(log_r: Array) -> Array:
    return np.square(np.expm1(np.minimum(log_r, _LOG_MAX / 2)))


def _neyman(log_r: Array) -> Array:
    return np.expm1(np.minimum(-log_r, _LOG_MAX))


def _total_variation(log_r: Array) -> Array:
    return np.maximum(-np.expm1(np.minimum(log_r, 0.0)), 0.0)


DIVERGENCES: dict[str, Callable[[Array], Array]] = {
    "kl": _kl,
    "reverse_kl": _reverse_kl,
    "js": _js,
    "hellinger": _hellinger,
    "pearson": _pearson,
    "neyman": _neyman,
    "total_variation": _total_variation,
}


def _kl_slopes(log_r: Array) -> tuple[Array, Array]:
    ratio = _ratio(log_r)
    return ratio * (log_r + 1.0), ratio * (log_r + 2.0)


def _reverse_kl_slopes(log_r: Array) -> tuple[Array, Array]:
    return np.full_like(log_r, -1.0), np.zeros_like(log_r)


def _js_slopes(log_r: Array) -> tuple[Array, Array]:
    log_r = np.minimum(log_r, _LOG_MAX)
    tail, chance = np.exp(log_r) * np.logaddexp(0.0, -log_r), np.exp(-np.logaddexp(0.0, -log_r))
    return -0.5 * tail, 0.5 * (chance - tail)


def _hellinger_slopes(log_r: Array) -> tuple[Array, Array]:
    root = np.exp(np.minimum(0.5 * log_r, _LOG_MAX))
    return -0.5 * root, -0.25 * root


def _pearson_slopes(log_r: Array) -> tuple[Array, Array]:
    ratio = np.exp(np.minimum(log_r, _LOG_MAX / 2))
    return 2.0 * ratio * (ratio - 1.0), 2.0 * ratio * (2.0 * ratio - 1.0)


def _neyman_slopes(log_r: Array) -> tuple[Array, Array]:
    inverse = np.exp(np.minimum(-log_r, _LOG_MAX))
    return -inverse, inverse


# first and second derivatives with respect to log r; the total variation has a kink
_SLOPES: dict[str, Callable[[Array], tuple[Array, Array]]] = {
    "kl": _kl_slopes,
    "reverse_kl": _reverse_kl_slopes,
    "js": _js_slopes,
    "hellinger": _hellinger_slopes,
    "pearson": _pearson_slopes,
    "neyman": _neyman_slopes,
}


def largest(kind: str | Generator) -> float:
    """Return the largest value that a divergence can have.

    >>> largest("hellinger"), largest("reverse_kl")
    (1.0, inf)
    """
    return _MOST.get(kind, math.inf) if isinstance(kind, str) else math.inf


def resolve(kind: str | Generator) -> Callable[[Array], Array]:
    """Return the per-row function of log-ratios for a name of :data:`DIVERGENCES` or a convex ``f(r)``."""
    if callable(kind):
        generator = kind
        at_one = float(np.asarray(generator(np.ones(1)), dtype=float).ravel()[0])
        if not abs(at_one) < 1e-8:
            raise ValueError(f"the generator of an f-divergence must be 0 at r = 1, got f(1) = {at_one:g}")
        return lambda log_r: np.asarray(generator(_ratio(log_r)), dtype=float)
    if not isinstance(kind, str) or kind not in DIVERGENCES:
        raise ValueError(f"divergence {kind!r} is unknown: choose one of {sorted(DIVERGENCES)} or pass a convex f(r)")
    return DIVERGENCES[kind]


def terms(log_r: npt.ArrayLike, kind: str | Generator) -> Array:
    """Return ``f(r)`` of each row; the divergence is their mean."""
    log_r = np.asarray(log_r, dtype=np.float64)
    values = resolve(kind)(log_r)
    if values.shape != log_r.shape:
        raise ValueError(
            f"the generator returned shape {values.shape} for ratios of shape {log_r.shape}: expected one value each"
        )
    if not np.isfinite(values).all():
        raise ValueError(f"divergence {kind!r} is not finite on {(~np.isfinite(values)).sum()} of {values.size} rows")
    return values


def slope(log_r: npt.ArrayLike, kind: str | Generator, width: float = 1e-5) -> Array:
    """Return the derivative of :func:`terms` with respect to ``log r``: in closed form, or by central difference."""
    log_r = np.asarray(log_r, dtype=np.float64)
    if isinstance(kind, str) and kind in _SLOPES:
        return _SLOPES[kind](log_r)[0]
    return (terms(log_r + width, kind) - terms(log_r - width, kind)) / (2.0 * width)


def curvature(log_r: npt.ArrayLike, kind: str | Generator, width: float = 1e-3) -> Array:
    """Return the second derivative of :func:`terms` with respect to ``log r``, as :func:`slope` does the first."""
    log_r = np.asarray(log_r, dtype=np.float64)
    if isinstance(kind, str) and kind in _SLOPES:
        return _SLOPES[kind](log_r)[1]
    middle = terms(log_r, kind)
    return (terms(log_r + width, kind) - 2.0 * middle + terms(log_r - width, kind)) / width**2


def divergence(log_r: npt.ArrayLike, kind: str | Generator = "reverse_kl") -> float:
    r"""Return the divergence, computed from log-ratios on rows of the current distribution.

    ``kl`` is KL(original‖current), ``reverse_kl`` KL(current‖original), ``js`` at most log 2, ``hellinger`` the
    squared distance (at most 1), ``pearson`` :math:`E_q[(r-1)^2]`, ``neyman`` :math:`E_q[1/r]-1`, ``total_variation``
    at most 1.

    Arguments:
        log_r: log of original/current on samples of the current distribution, (n,).
        kind: name of a divergence, or a convex function of the ratio with ``f(1) = 0``.

    >>> divergence([0.0, 0.0], "js")
    0.0
    >>> round(divergence([-40.0, -40.0], "hellinger"), 3)
    1.0
    """
    return float(terms(log_r, kind).mean())
