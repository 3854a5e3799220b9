r"""What a feature that joins has missed: its drift from the original to the window that a step starts from.

The original's means of all candidates are kept (:class:`Evidence`). When some of them join, the ratio so far is tilted,
:math:`r' \propto r e^{\Delta^\top F}`, until the anchor's window, weighted by it, has these means, while the weighted
means of the features so far stay as they are. No increment is lost to the time before a feature was needed.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from driftline import inference
from driftline._inputs import Floats
from driftline.fitting import (
    Features,
    Integers,
    Lessers,
    LogLinear,
    LogLinearDesign,
    Monomials,
    half_inverse,
    lesser_of,
    log_mean_exp,
    place_of,
    softmax,
)
from driftline.recursion._evidence import Evidence
from driftline.recursion._state import Anchor

__all__ = ["recalled", "tilted_to"]

_ROWS_PER_FEATURE = 3.0  # effective rows of the weighted window for each feature, at least
_ITERATIONS = 30
_TOLERANCE = 1e-8
_LONGEST = 2.0  # nats by which one iteration changes the spread of the log-ratio, at most


def recalled(anchor: Anchor, design: LogLinearDesign, evidence: Evidence, ridge: float) -> Anchor | None:
    """Return the anchor with all features of a design, those that are new to it with their drift so far.

    None if the window weighted by the ratio so far has too few effective rows. ``evidence`` is in the frame of the
    design, ``ridge`` the prior in rows.
    """
    assert isinstance(anchor.psi, LogLinear)
    features = design.features
    new = np.setdiff1d(np.arange(features.size), anchor.psi.features.positions(features))
    return tilted_to(anchor, design, _means(features, new, evidence), ridge)


def tilted_to(anchor: Anchor, design: LogLinearDesign, means: Floats, ridge: float) -> Anchor | None:
    """Do what :func:`recalled` does, given the original's means of the features that are new, (k,)."""
    psi, past = anchor.psi, anchor.uncertainty
    assert isinstance(psi, LogLinear)
    assert past is not None
    features = design.features
    old = psi.features.positions(features)
    new = np.setdiff1d(np.arange(features.size), old)
    log_w = anchor.on_window()
    rows = inference.Dependence() if anchor.rows is None else anchor.rows
    size = inference.effective_sample_size(log_w) / (rows.worth * rows.time)
    if np.isnan(means).any() or size < _ROWS_PER_FEATURE * features.size:
        return None
    target = _target(design, log_w, old, new, means, past)
    tilt = _tilted(design, log_w, target.means, ridge / size)
    if tilt is None:
        return None
    coef = tilt.coef.copy()
    coef[old] += psi.coef
    return anchor._replace(
        psi=psi._replace(features=features, coef=coef),
        log_normalizer=anchor.log_normalizer + tilt.constant,
        uncertainty=_uncertainty(past, old, new, means, target, tilt, size),
        design=None,
        known=None,
    )


def _means(features: Features, new: Integers, evidence: Evidence) -> Floats:
    """Return the original's means of new features, nan where they are not known, (k,)."""
    raw = np.full(features.size, np.nan)
    base, k = features.base, len(features.pairs)
    raw[base : base + k] = evidence.pair_mean[features.pairs[:, 0], features.pairs[:, 1]]
    for at, (weight, bias) in enumerate(zip(features.weight.T, features.bias, strict=True), base + k):
        j = int(np.abs(weight).argmax())
        if np.count_nonzero(weight) == 1 and weight[j] > 0.0:
            knot = np.flatnonzero(np.isclose(evidence.knots[j], -bias / weight[j]))
            if len(knot):
                raw[at] = weight[j] * evidence.hinge_mean[j, knot[0]]
    at = base + k + len(features.bias)
    for other in features.others:
        if isinstance(other.map, Monomials):
            raw[at : at + other.size] = evidence.curve_mean[place_of(other.map.factors, features.columns)]
        if isinstance(other.map, Lessers):
            place = lesser_of(other.map.of, features.columns)
            raw[at : at + other.size] = evidence.lesser_mean[place].ravel()
        at += other.size
    return (raw[new] - features.center[new]) / features.scale[new]


class _Target(NamedTuple):
    """Means that the tilted window shall have, (p,), and the covariance of features about them in the original.

    ``spread`` (p, p) is that of features, ``rest`` (k, k) that of new features less their regression on the others.
    """

    means: Floats
    spread: Floats
    rest: Floats


def _target(
    design: LogLinearDesign, log_w: Floats, old: Integers, new: Integers, means: Floats, past: inference.Uncertainty
) -> _Target:
    """Return the means to be reached: of old features those at hand, of new ones the original's.

    The weighted window has other means of old features than the original, by chance; new ones are expected to differ by
    their regression on that, which is noise and not drift.
    """
    weights = softmax(log_w)
    now = design.pull(weights)[:-1]
    spread = design.gram(weights)[:-1, :-1] - np.outer(now, now)
    inner = spread[np.ix_(old, old)]
    inner = inner + 1e-6 * max(float(inner.diagonal().mean()), 1e-300) * np.eye(len(old))
    slopes = np.linalg.solve(inner, spread[np.ix_(old, new)])
    wanted = now.copy()
    wanted[new] = means + np.where(_estimated(past), now[old] - past.mean, 0.0) @ slopes
    rest = spread[np.ix_(new, new)] - slopes.T @ spread[np.ix_(old, new)]
    return _Target(wanted, spread, rest)


def _estimated(past: inference.Uncertainty) -> npt.NDArray[np.bool_]:
    """Say of which features there is a mean of the original: known, or, since features changed, an estimate of it."""
    return np.asarray(past.known | (past.origin_spread.diagonal()[:-1] > 0.0))


class _Tilt(NamedTuple):
    """Coefficients (p,) of a tilt, the constant that keeps the mean ratio, and the inverse of its curvature."""

    coef: Floats
    constant: float
    inverse: Floats
    means: Floats


def _tilted(design: LogLinearDesign, log_w: Floats, means: Floats, weight: float) -> _Tilt | None:
    r"""Minimise :math:`\log\sum_i w_i e^{\Delta^\top(F_i - m)} + \frac{w}{2}\|\Delta\|^2`; None without an end."""
    p = design.shape[1] - 1
    base, coef = log_w - float(log_mean_exp(log_w)) - math.log(len(log_w)), np.zeros(p)
    value = _partition(design, base, coef, means, weight)
    for _ in range(_ITERATIONS):
        weights = softmax(base + design.dot(np.append(coef, 0.0)))
        now = design.pull(weights)[:-1]
        hessian = design.gram(weights)[:-1, :-1] - np.outer(now, now) + (weight + 1e-9) * np.eye(p)
        half = half_inverse(hessian)
        if half is None:
            return None
        inverse = half.T @ half
        gradient = now - means + weight * coef
        step = -inverse @ gradient
        if float(-gradient @ step) < _TOLERANCE:
            tilted = base + design.dot(np.append(coef, 0.0))
            return _Tilt(coef, float(log_mean_exp(tilted)) + math.log(len(tilted)), inverse, now)
        length = math.sqrt(max(float(step @ hessian @ step), 0.0))
        rate, found = min(1.0, _LONGEST / max(length, 1e-300)), value
        for _ in range(20):
            found = _partition(design, base, coef + rate * step, means, weight)
            if found <= value + 1e-4 * rate * float(gradient @ step) + 1e-12:
                break
            rate *= 0.5
        coef, value = coef + rate * step, found
    return None


def _partition(design: LogLinearDesign, base: Floats, coef: Floats, means: Floats, weight: float) -> float:
    logs = base + design.dot(np.append(coef, 0.0))
    mass = float(log_mean_exp(logs)) + math.log(len(logs))
    return mass - float(coef @ means) + 0.5 * weight * float(coef @ coef)


def _uncertainty(
    past: inference.Uncertainty,
    old: Integers,
    new: Integers,
    means: Floats,
    target: _Target,
    tilt: _Tilt,
    size: float,
) -> inference.Uncertainty:
    """Return the uncertainty with new features: their tilt has the errors of means of the original and of the window.

    The window's error is taken as independent of that in its other role, which is on the safe side.
    """
    p = len(old) + len(new)
    wide = inference.placed(past, old, p + 1, (new, means))
    own, spread = past.origin_spread[:-1, :-1].diagonal(), target.spread[old, old]
    real = _estimated(past) & (spread > 1e-9)
    each = float(np.median(own[real] / spread[real])) if real.any() else 1.0 / size  # an original row's worth
    pull = np.concatenate([tilt.inverse[:, new], -(tilt.means @ tilt.inverse[:, new])[None]])
    first = pull @ (each * target.rest) @ pull.T
    origin, origin_spread = wide.origin.copy(), wide.origin_spread.copy()
    origin[:, new] += pull @ (each * target.rest)
    cross = each * target.spread
    origin_spread[np.ix_(new, new)] = cross[np.ix_(new, new)]
    origin_spread[np.ix_(old, new)] = cross[np.ix_(old, new)]
    origin_spread[np.ix_(new, old)] = cross[np.ix_(new, old)]
    return wide._replace(
        covariance=inference.mirrored(wide.covariance + first + pull @ (target.rest / size) @ pull.T),
        first=inference.mirrored(wide.first + first),
        origin=origin,
        origin_spread=inference.mirrored(origin_spread),
    )
