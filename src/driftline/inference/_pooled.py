r"""Error bars from sums over rows alone: what :mod:`_influence` and :mod:`_readings` make of rows that lie elsewhere.

A step's numerator is known by its sums. What its rows would say of their own scatter is asked of the new window's rows,
weighted by the step ratio :math:`e^u`, which have its law. All of it is sums over the new window's rows T (n, p+1), so
it adds up over the places that these lie in; products of three features are among them.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from driftline._inputs import Floats
from driftline.fitting import SumsFit, WindowSums, half_inverse, linear_scores, weigh
from driftline.inference._attribution import Own
from driftline.inference._curvature import noise_of, tilt
from driftline.inference._dependence import Dependence, positive
from driftline.inference._divergences import DIVERGENCES, curvature, slope, terms
from driftline.inference._estimates import Estimate
from driftline.inference._forward import forward_of, summed_along
from driftline.inference._influence import Told, quiet_of, told_beyond
from driftline.inference._intervals import bounded, normal_interval
from driftline.inference._readings import smooth_estimate
from driftline.inference._uncertainty import (
    LEAST_SLACK,
    UNSUPPORTED,
    UNSUPPORTED_ORIGINAL,
    Forward,
    Uncertainty,
    covariance,
    mirrored,
)
from driftline.inference._variation import kink, kinked

__all__ = [
    "KINDS",
    "Begun",
    "Curves",
    "Scored",
    "Terms",
    "advance_pooled",
    "begin_pooled",
    "curves_of",
    "divergence_pooled",
    "own_pooled",
    "scored",
    "shrinking",
    "terms_of",
    "triples",
]

KINDS = tuple(DIVERGENCES)
"""Divergences in the order in which their sums are kept."""
_SMOOTH = tuple(kind for kind in KINDS if kind != "total_variation")
_HUGE = 1e300  # sums of ratios beyond it: their errors are not known


def triples(rows: Floats, weights: Floats) -> Floats:
    """Return the weighted sums of products of three columns of rows (n, q), each product once, (q(q+1)(q+2)/6,).

    >>> triples(np.array([[2.0, 1.0]]), np.ones(1)).tolist()
    [8.0, 4.0, 2.0, 1.0]
    """
    q, found = rows.shape[1], []
    for e in range(q):
        part = rows[:, e:]
        product = (part * (weights * rows[:, e])[:, None]).T @ part
        found.append(product[np.triu_indices(q - e)])
    return np.concatenate(found)


def _cube(packed: Floats, q: int) -> Floats:
    """Return all products of three columns, (q, q, q)."""
    out, at = np.zeros((q, q, q)), 0
    for e in range(q):
        i, j = np.triu_indices(q - e)
        values, i, j = packed[at : at + len(i)], i + e, j + e
        at += len(i)
        for a, b, c in ((e, i, j), (e, j, i), (i, e, j), (j, e, i), (i, j, e), (j, i, e)):
            out[a, b, c] = values
    return out


class Scored(NamedTuple):
    """Sums over a window's rows at a step's coefficients, with q = p + 1.

    Plain sums over rows, with first and second derivatives of the loss: ``plain`` of first T T' (q, q), ``square`` of
    first² T T', ``cube`` of first second T T T. Means with weights e^u, by which the rows stand for the numerator's:
    ``gram`` of T T', ``plain_num`` of (c-u) T T', ``square_num`` of (c-u)² T T', ``cube_num`` of (c-u) T T T; with the
    first derivatives g that these rows would have had as the denominator of the step before, ``past`` of g T T',
    ``square_past`` of g² T T' and ``cross`` of g (c-u) T T'.
    """

    plain: Floats
    square: Floats
    cube: Floats
    gram: Floats
    plain_num: Floats
    square_num: Floats
    cube_num: Floats
    past: Floats
    square_past: Floats
    cross: Floats


def scored(rows: Floats, u: Floats, c: float, past_coef: Floats, past_c: float) -> Scored:
    """Return the sums of rows (n, q) whose step has log-ratios u (n,); ``past_*`` are those of the step before."""
    first, second, _ = linear_scores(u, c)
    weight = np.exp(u - u.max())
    weight /= weight.sum()
    gap, then = c - u, linear_scores(rows @ past_coef, past_c).first

    def gram(values: Floats) -> Floats:
        return np.asarray((rows * values[:, None]).T @ rows)

    return Scored(
        plain=gram(first),
        square=gram(first * first),
        cube=triples(rows, first * second),
        gram=gram(weight),
        plain_num=gram(weight * gap),
        square_num=gram(weight * gap * gap),
        cube_num=triples(rows, weight * gap),
        past=gram(weight * then),
        square_past=gram(weight * then * then),
        cross=gram(weight * then * gap),
    )


class Begun(NamedTuple):
    """A step whose errors are half known: what further sums over rows are to be asked with.

    ``inverse`` is the inverse Hessian divided by the slack, ``spread_num`` and ``spread_den`` the parts of both windows
    in the covariance of the fit, ``meat_*`` those of their scores; ``rate`` is the weight of a row of the numerator,
    ``share`` that of the denominator.
    """

    inverse: Floats
    slack: float
    parameters: float
    meat_num: Floats
    meat_den: Floats
    spread_num: Floats
    spread_den: Floats
    rate: float
    share: float


def begin_pooled(fit: SumsFit, sums: Scored, rows_num: float, rows_den: float) -> Begun:
    """Return what can be said of a step's errors before further sums are asked."""
    n, m, kappa = rows_num, rows_den, weigh(rows_num, rows_den)
    rate, share = kappa / (2.0 * fit.c * n), kappa / m
    half = half_inverse(fit.hessian) if fit.weight.min() > 0.0 else None
    inverse = np.linalg.pinv(fit.hessian, rcond=1e-6, hermitian=True) if half is None else half.T @ half
    inverse = mirrored(inverse)
    parameters = len(inverse) - float(fit.weight @ inverse.diagonal())
    slack = 1.0 - min(parameters / (n + m), 0.5)
    pull_num, pull = sums.plain_num[-1], sums.plain[-1]
    meat_num = n * rate * rate * (sums.square_num - np.outer(pull_num, pull_num))
    meat_den = share * share * (sums.square - np.outer(pull, pull) / m)
    inverse = inverse / slack
    spreads = inverse @ meat_num @ inverse, inverse @ meat_den @ inverse
    return Begun(inverse, slack, parameters, meat_num, meat_den, *spreads, rate, share)


def shrinking(rows: Floats, u: Floats, c: float, begun: tuple[Floats, Floats]) -> dict[str, Floats]:
    """Return the sums that a step's second-order effects need; ``begun`` are spread_num and spread_den.

    ``pull`` is the sum of third derivatives times T' S T T (q,), ``bent`` that of squared second derivatives times
    T' S_num T T T' (q, q), and ``bent_num`` the mean of T' S_den T T T' with weights e^u.
    """
    _, second, third = linear_scores(u, c)
    weight = np.exp(u - u.max())
    weight /= weight.sum()
    by_num, by_den = (np.einsum("ij,ij->i", rows @ spread, rows) for spread in begun)
    return {
        "pull": (third * (by_num + by_den)) @ rows,
        "bent": (rows * (second * second * by_num)[:, None]).T @ rows,
        "bent_num": (rows * (weight * by_den)[:, None]).T @ rows,
    }


def advance_pooled(
    past: Uncertainty | None,
    begun: Begun,
    sums: Scored,
    bends: dict[str, Floats],
    curve: Floats,
    num: WindowSums,
    den: WindowSums,
    told: Told | None,
    dependent: tuple[bool, bool],
    events: Floats,
) -> Uncertainty:
    """Close the numerator window of a step and open its denominator window, as :func:`advance` does with rows.

    Arguments:
        past: uncertainty of the anchor, in the present coordinates; None for an original.
        curve: sum of second derivatives times T T', (q, q).
        num, den: sums of both windows.
        told: what the numerator's own sums say of its scores; None for an original.
        dependent: whether rows of the numerator, and of the denominator, depend on each other.
        events: counts of events in columns with rare ones, over both windows.
    """
    n, a, (rate, share) = num.rows, begun.inverse, (begun.rate, begun.share)
    rows = tuple(Dependence(endless=endless) for endless in dependent)
    supported = [part.supports(int(w.rows), begun.parameters) for part, w in zip(rows, (num, den), strict=True)]
    slack = begun.slack if all(supported) else UNSUPPORTED
    if past.slack == UNSUPPORTED_ORIGINAL if past is not None else not supported[0]:
        slack = UNSUPPORTED_ORIGINAL
    q = len(a)
    cubes = share * share * _cube(sums.cube, q), -n * rate * rate * _cube(sums.cube_num, q)
    pulls = sum(np.tensordot(cube, a, 2) for cube in cubes) - 0.5 * share * bends["pull"]
    pull_num = sums.plain_num[-1]
    # scores about their means, as where rows stand in for the numerator's
    pulls -= share * share * (curve @ a @ sums.plain[-1]) / den.rows - n * rate * rate * (sums.gram @ a @ pull_num)
    bias = a @ pulls
    if past is None or told is None:
        closed = first = begun.spread_num
        origin = a @ (rate * (sums.plain_num - np.outer(pull_num, sums.gram[-1])))
        spread = (num.gram - np.outer(num.mean, num.mean)) / n
        mean, known = num.mean[:-1].copy(), np.ones(q - 1, dtype=np.bool_)
    else:
        before, pull_past, then = told.before, sums.past[-1], past.inverse_hessian
        alone = n * before * before * (sums.square_past - np.outer(pull_past, pull_past))
        both = -n * before * rate * (sums.cross - np.outer(pull_past, pull_num))
        cross = then @ both @ a
        total = begun.spread_num + cross + cross.T + then @ alone @ then.T + past.covariance
        total += told_beyond(told, sums.gram, sums.past, sums.square_past, then, a)
        closed = positive(total - a @ _joint(begun, sums, bends, curve, cubes, n, den) @ a)
        first, origin, spread = past.first, past.origin, past.origin_spread
        mean, known = past.mean, past.known
    return Uncertainty(
        covariance=mirrored(closed),
        inverse_hessian=a,
        meat=mirrored(begun.meat_den),
        meat_num=mirrored(begun.meat_num),
        score=np.zeros(0),
        bias=bias if past is None else bias + past.bias,
        step_bias=bias,
        first=mirrored(first),
        origin=origin,
        origin_spread=mirrored(spread),
        mean=mean,
        known=known,
        slack=slack,
        quiet=quiet_of(past, begun.parameters, events, int(n), *rows),
    )


def _joint(
    begun: Begun,
    sums: Scored,
    bends: dict[str, Floats],
    curve: Floats,
    cubes: tuple[Floats, Floats],
    n: float,
    den: WindowSums,
) -> Floats:
    """Return the variance of both windows' joint effect, see ``_bilinear`` in :mod:`_influence`."""
    a, rate, share = begun.inverse, begun.rate, begun.share
    flat_num, flat_den = n * rate * sums.gram, share * curve
    bent_num = n * rate * rate * bends["bent_num"] - flat_num @ begun.spread_den @ flat_num / n
    bent_den = share * share * bends["bent"] - flat_den @ begun.spread_num @ flat_den / den.rows
    centred = [cube - cube[:, :, -1:] * mean for cube, mean in zip(cubes, (den.gram[-1], sums.gram[-1]), strict=True)]
    turned = np.einsum("abe,bc,ed->acd", centred[0], a, a, optimize=True)
    both = np.einsum("acd,fdc->af", turned, centred[1], optimize=True)
    return np.asarray(bent_num + bent_den + both + both.T)


class Terms(NamedTuple):
    """Sums over a window's rows for each divergence: of f, f², f first T and f' T; (7,), (7,), (7, q) and (7, q)."""

    total: Floats
    square: Floats
    crossed: Floats
    slopes: Floats


def terms_of(rows: Floats, log_r: Floats, first: Floats) -> Terms:
    """Return the sums of divergences of log-ratios (n,), for scores ``first`` (n,) of rows (n, q)."""
    values, slopes = np.empty((len(KINDS), len(rows))), np.empty((len(KINDS), len(rows)))
    for k, kind in enumerate(KINDS):
        values[k], slopes[k] = terms(log_r, kind), slope(log_r, kind)
    square = np.einsum("ij,ij->i", values, values)
    found = values.sum(1), square, (values * first) @ rows, slopes @ rows
    return Terms(*(np.clip(np.nan_to_num(part, nan=_HUGE), -_HUGE, _HUGE) for part in found))


class Curves(NamedTuple):
    """Sums for each divergence but the total variation, by the covariance S of the ratio, and one for the latter.

    ``wobbled`` of f'' T' S T (6,), ``pulled`` of f' first T' A T (6,), ``tilted`` of f0'' T T' (6, q, q), ``kink`` ().
    """

    wobbled: Floats
    pulled: Floats
    tilted: Floats
    kink: Floats


def curves_of(rows: Floats, log_r: Floats, first: Floats, spread: Floats, inverse: Floats, share: float) -> Curves:
    """Return the sums of second-order effects; ``share`` is that of the log-ratios' variance which is not error."""
    wobble = np.maximum(np.einsum("ij,ij->i", rows @ spread, rows), 0.0)
    own = first * np.einsum("ij,ij->i", rows @ inverse, rows)
    calm, q = log_r * math.sqrt(share), rows.shape[1]
    wobbled, pulled, tilted = np.empty(len(_SMOOTH)), np.empty(len(_SMOOTH)), np.empty((len(_SMOOTH), q, q))
    for k, kind in enumerate(_SMOOTH):
        bend = np.clip(curvature(calm, kind), -_HUGE, _HUGE)
        wobbled[k], pulled[k] = float(wobble @ bend), float(own @ slope(log_r, kind))
        tilted[k] = (rows * tilt(calm, bend, kind)[:, None]).T @ rows
    found = wobbled, pulled, tilted, np.asarray(kink(calm, np.sqrt(wobble)))
    return Curves(*(np.clip(np.nan_to_num(part, nan=_HUGE), -_HUGE, _HUGE) for part in found))


def own_pooled(uncertainty: Uncertainty, sums: Scored, share: float, den: WindowSums) -> Own:
    """Return what attribution needs of the current window, as :func:`own_part` does with rows."""
    mean, m = den.mean, den.rows
    spread = (den.gram - np.outer(mean, mean)) / m
    cross = uncertainty.inverse_hessian @ (share * (sums.plain - np.outer(sums.plain[-1], mean)) / m)
    return Own(uncertainty.mean - mean[:-1], spread[:-1, :-1], cross[:-1, :-1])


class _Ratio(NamedTuple):
    """A ratio whose divergences are asked: its coefficients with the constant, uncertainty and sums."""

    coef: Floats
    uncertainty: Uncertainty
    found: Terms
    curves: Curves
    scores: Scored
    share: float
    den: WindowSums


def divergence_pooled(
    kind: str,
    level: float,
    coef: Floats,
    uncertainty: Uncertainty,
    found: Terms,
    curves: Curves,
    scores: Scored,
    share: float,
    den: WindowSums,
    *,
    of_step: bool,
    forward: tuple[Forward, Floats] | None = None,
) -> Estimate:
    """Estimate a divergence over the window's own rows, as :func:`divergence_estimate` does with them.

    Arguments:
        coef: coefficients of the ratio, the constant's last, (q,).
        uncertainty: its uncertainty: that of the last step alone with ``of_step``.
        found, curves, scores: sums over the window's rows.
        share: weight of a row of the window in the fit.
        den: sums of the window.
        forward: KL(original‖current) along the way, and the window's means with weights original/current: with them,
            ``kl`` is taken from the ratio's constant, or else from these.
    """
    ratio = _Ratio(coef, uncertainty, found, curves, scores, share, den)
    if kind == "kl" and forward is not None:
        return _forward(ratio, level, *forward)
    reading = float(found.total[KINDS.index(kind)] / den.rows)
    if float(uncertainty.slack) < LEAST_SLACK:
        return normal_interval(reading, float("nan"), level)
    gradient = found.slopes[KINDS.index(kind)] / den.rows
    variance = _variance(ratio, kind, reading, gradient)
    if kind == "total_variation":
        smooth = divergence_pooled("reverse_kl", level, *ratio, of_step=of_step)
        bias = float(curves.kink) / den.rows
        return bounded(kinked(float(coef @ den.mean), reading, variance, smooth, level, bias), kind)
    quadratic = noise_of(kind, *_second_order(ratio, kind), uncertainty, covariance(uncertainty), den.rows)
    corrected = reading - float(gradient @ uncertainty.bias)
    estimate = smooth_estimate(kind, corrected, reading, variance, quadratic, uncertainty, den.mean, gradient, level)
    if of_step and not np.isnan(estimate.noise):
        estimate = replace(estimate, shared=0.0)
    return bounded(estimate, kind)


def _variance(ratio: _Ratio, kind: str, reading: float, gradient: Floats) -> float:
    """Return the variance of a reading by the influence values of the window's rows and of the closed windows."""
    k, n, uncertainty = KINDS.index(kind), ratio.den.rows, ratio.uncertainty
    along = ratio.share * (uncertainty.inverse_hessian @ gradient)
    scores, total = ratio.scores, float(ratio.scores.plain[-1] @ along)
    own = float(ratio.found.square[k]) / n**2 - reading * reading / n
    own -= 2.0 / n * (float(ratio.found.crossed[k] @ along) - reading * total)
    own += float(along @ scores.square @ along) - total * total / n
    return max(own, 0.0) + float(gradient @ uncertainty.covariance @ gradient)


def _second_order(ratio: _Ratio, kind: str) -> tuple[Floats, float]:
    """Return the mean of f0'' T T' and the bias of a reading."""
    k, n, uncertainty = _SMOOTH.index(kind), ratio.den.rows, ratio.uncertainty
    bias = 0.5 * float(ratio.curves.wobbled[k]) / n
    means = float(ratio.found.slopes[KINDS.index(kind)] @ uncertainty.inverse_hessian @ ratio.scores.plain[-1]) / n
    bias -= uncertainty.slack * ratio.share * (float(ratio.curves.pulled[k]) - means) / n
    return ratio.curves.tilted[k] / n, bias


def _forward(ratio: _Ratio, level: float, forward: Forward, weighted: Floats) -> Estimate:
    """Return KL(original‖current)."""
    uncertainty = ratio.uncertainty
    if float(uncertainty.slack) < LEAST_SLACK:
        return normal_interval(forward.value, float("nan"), level)
    quadratic = noise_of(
        "reverse_kl", *_second_order(ratio, "reverse_kl"), uncertainty, covariance(uncertainty), ratio.den.rows
    )
    exact = forward_of(ratio.coef[:-1], float(ratio.coef[-1]), level, uncertainty, quadratic)
    if exact is not None:
        return exact
    return summed_along(forward, weighted, level, uncertainty, quadratic.noise)
