"""Steps in which columns become narrower so quickly that the new window's rows do not reach the old one's tails."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from driftline._inputs import Floats
from driftline.fitting import Features, WindowSums
from driftline.inference import Doubt, DoubtCode

__all__ = ["narrowed"]

_NARROW = 0.5  # curvature from which on a step is read too low: by 3 % of 2.9 nats after 14 steps of 0.63
_GONE = 1.0  # curvature from which on the squared ratio of two normal windows has no mean in the new one


def narrowed(num: WindowSums, coef: Floats, features: Features, names: Sequence[str] | None) -> tuple[Doubt, ...]:
    r"""Return the doubt that a step narrows too quickly for sums, by the sums of its numerator and its coefficients.

    The log-ratio has a part :math:`z^\top B z`. Of normal windows, the largest eigenvalue of 2B by the numerator's
    covariance is the largest ratio of variances, less one. From a ratio of 2 on, the squared ratio has no mean in the
    new window: what is read rests on its few outermost rows, and may be too low or too high. A far row makes B small,
    so it makes no false doubt.
    """
    curvature, at = _worst(num, coef, features)
    if curvature <= _NARROW:
        return ()
    column = int(features.linear[at])
    label = str(column) if names is None else repr(names[column])
    gone = curvature > _GONE
    sentence = (
        f"the step is large for keep='sums' and {'is not measured' if gone else 'read too low'}: column {label} became "
        f"narrower, its variance {1.0 + curvature:.3g} times smaller ({1.0 + _NARROW} is the most that is measured "
        "well): take smaller steps, or keep='rows'"
    )
    code = DoubtCode.LITTLE_OVERLAP if gone else DoubtCode.LARGE_STEP
    return (Doubt(code, sentence, (str(column) if names is None else names[column],)),)


def _worst(num: WindowSums, coef: Floats, features: Features) -> tuple[float, int]:
    """Return the largest eigenvalue of 2B by the numerator's covariance, and which linear feature has most of it."""
    count = len(features.linear)
    if not features.base > count and not len(features.pairs):
        return 0.0, 0
    rate = coef[:-1] / features.scale
    twice = np.zeros((count, count))
    at = np.searchsorted(features.linear, features.squares)
    twice[at, at] = 2.0 * rate[count : features.base]
    for (i, j), value in zip(features.pairs, rate[features.base :], strict=False):
        a, b = np.searchsorted(features.linear, (i, j))
        twice[a, b] += value
        twice[b, a] += value
    scale, mean = features.scale[:count], num.mean[:count]
    spread = (num.gram[:count, :count] - np.outer(mean, mean)) * np.outer(scale, scale)
    values, vectors = np.linalg.eigh(spread)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    sizes, directions = np.linalg.eigh(root @ twice @ root)
    return float(sizes[-1]), int(np.abs(directions[:, -1]).argmax())
