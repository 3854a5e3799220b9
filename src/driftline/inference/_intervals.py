"""Intervals: readings of a fitted ratio become Estimates, by inverting the law that a reading is drawn from."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from driftline._inputs import Floats
from driftline.fitting import Design, softmax
from driftline.inference._dependence import Dependence, long_run, long_run_variance
from driftline.inference._divergences import Generator, curvature, largest, slope, terms
from driftline.inference._estimates import Estimate
from driftline.inference._laws import law_of
from driftline.inference._uncertainty import LEAST_SLACK, Forward, Quiet, Uncertainty, covariance, joined_later

__all__ = [
    "Quadratic",
    "Reading",
    "bounded",
    "divergence_estimate",
    "effective_sample_size",
    "estimate_at",
    "forward_along",
    "forward_kl",
    "forward_of",
    "interval",
    "is_noise_known",
    "kink",
    "kinked",
    "log_ratio_std",
    "noise_of",
    "normal_interval",
    "overlooked",
    "read_divergence",
    "smooth_estimate",
    "summed_along",
    "tilt",
]

_MOST_NOISE = 1.0  # a fit whose bias without drift exceeds one nat is too poor to expand around
_NOISY = 0.25  # share of a divergence's maximum; an expansion around no drift with more noise is far outside its range
_LEAST_LIKELY = 5.0  # standard deviations from the mean beyond which an error is put down to another cause
_THIN = 3000  # enough rows to estimate a mean curvature


def normal_interval(value: float, std_error: float, level: float) -> Estimate:
    """Return the normal interval around a value."""
    z = NormalDist().inv_cdf(0.5 + 0.5 * _checked(level))
    return Estimate(value, std_error, value - z * std_error, value + z * std_error, level)


def interval(
    reading: float, variance: float, noise: float, noise_variance: float, shared: float, level: float
) -> Estimate:
    """Return the estimate behind a plug-in reading.

    Arguments:
        reading: plug-in value.
        variance: variance of the reading by its influence values. Near no drift these overstate it, since their slope
            is an estimate too: they give ``slope * reading``, where the truth is ``noise_variance + slope * D``.
        noise, noise_variance: mean and variance of the reading with no drift.
        shared: share of the noise that comes from the original, see :class:`Estimate`.
        level: confidence level.

    >>> drifted = interval(0.30, 0.0004, 0.02, 0.00004, 0.5, 0.95)
    >>> round(drifted.value, 2), bool(drifted.low < 0.28 < drifted.high)
    (0.28, True)
    """
    _checked(level)
    if not is_noise_known(reading, variance, noise, noise_variance):
        return normal_interval(reading, math.sqrt(max(variance, 0.0)), level)
    slope = max(variance, 0.0) / max(reading, noise)
    value = reading - noise
    std_error = math.sqrt(noise_variance + slope * max(value, 0.0))
    law = law_of(noise, noise_variance, slope)
    chances = np.array([0.5 - 0.5 * level, 0.5 + 0.5 * level])
    low, high = law.truths(reading, chances, value + 12.0 * std_error).tolist()
    return Estimate(
        value, std_error, min(low, value), max(high, value), level, noise, math.sqrt(noise_variance), shared, slope
    )


def is_noise_known(reading: float, variance: float, noise: float, noise_variance: float) -> bool:
    """Say whether the noise has been estimated well enough to be subtracted; not with heavy tails or too few rows."""
    usable = 0.0 < noise < _MOST_NOISE and noise_variance > 0.0 and max(noise_variance, variance) < 1e100
    return usable and reading >= noise - 6.0 * math.sqrt(noise_variance)


def divergence_estimate(
    log_r: Floats,
    kind: str | Generator,
    level: float,
    uncertainty: Uncertainty | None,
    design: Design | None,
    *,
    own_window: bool,
    dependence: Dependence,
    shared: bool = True,
) -> Estimate:
    """Estimate a divergence over rows with log-ratios ``log_r``, with the error of both the mean and the fitted ratio.

    Arguments:
        level: confidence level.
        uncertainty: uncertainty of the fitted ratio; None if there is none to propagate: the error is then nan.
        design: design of the rows, with its column of ones.
        own_window: whether the rows are the last window itself, whose errors are then the same draw.
        dependence: dependence between the rows.
        shared: whether the closed windows' errors stay the same in later estimates (they do not for a step's own).
    """
    reading = read_divergence(
        log_r, kind, uncertainty, design, own_window=own_window, dependence=dependence, shared=shared
    )
    return estimate_at(reading, level)


class Reading(NamedTuple):
    """A divergence as it is read, with all that an interval needs at any level.

    Attributes:
        value: plug-in value.
        most: largest value that there is.
        variance: that of the value; nan if it is not known.
        corrected: value less the bias of the fit.
        quadratic: what the curvature does to the value; None for the total variation.
        travelled: part of the variance that windows between original and last have left, or the draw of other rows.
        share: share of the noise that comes from the original.
        kink: of the total variation, the reading of reverse_kl, the mean effect of errors, and the mean log-ratio.
    """

    value: float
    most: float
    variance: float = math.nan
    corrected: float = math.nan
    quadratic: Quadratic | None = None
    travelled: float = 0.0
    share: float = 0.0
    kink: _Kink | None = None


class _Kink(NamedTuple):
    smooth: Reading
    bias: float
    mean: float


def read_divergence(
    log_r: Floats,
    kind: str | Generator,
    uncertainty: Uncertainty | None,
    design: Design | None,
    *,
    own_window: bool,
    dependence: Dependence,
    shared: bool = True,
) -> Reading:
    """Read a divergence; arguments as in :func:`divergence_estimate`."""
    values, most = terms(log_r, kind), largest(kind)
    reading, n = float(values.mean()), values.size
    if uncertainty is None or design is None or float(uncertainty.slack) < LEAST_SLACK:
        return Reading(reading, most)
    gradient = design.pull(slope(log_r, kind)) / n
    own = (values - reading) / n
    spread = uncertainty.covariance if own_window else covariance(uncertainty)
    if own_window:
        own = own - uncertainty.score * design.dot(uncertainty.inverse_hessian @ gradient)
    drawn = long_run_variance(dependence.merged(own), dependence.lag)
    variance = drawn + float(gradient @ spread @ gradient)
    if kind == "total_variation":
        smooth = read_divergence(
            log_r, "reverse_kl", uncertainty, design, own_window=own_window, dependence=dependence, shared=shared
        )
        _, _, calm, wobble = _calm(log_r, design, covariance(uncertainty))
        bias = kink(calm, np.sqrt(np.maximum(wobble, 0.0))) / len(calm)
        return Reading(reading, most, variance, kink=_Kink(smooth, bias, float(log_r.mean())))
    quadratic = _second_order(log_r, kind, uncertainty, design, own_window, dependence)
    corrected = reading - quadratic.bias - float(gradient @ uncertainty.bias)
    now = design.pull(np.full(design.shape[0], 1.0 / design.shape[0]))
    # unequal copies, and rows that depend, leave a variance there even where nothing has moved
    travelled = _travelled(kind, uncertainty, now, gradient, quadratic, ends=dependence.regular)
    if not own_window:  # the draw of other rows, which no law of the fit knows of
        travelled += drawn
    return Reading(reading, most, variance, corrected, quadratic, travelled, quadratic.shared if shared else 0.0)


def estimate_at(reading: Reading, level: float) -> Estimate:
    """Return the estimate behind a reading, with its interval at a confidence level."""
    if math.isnan(reading.variance):
        return normal_interval(reading.value, math.nan, level)
    if reading.kink is None:
        found = _smooth(reading, level)
    else:
        smooth, bias, mean = reading.kink
        found = kinked(mean, reading.value, reading.variance, estimate_at(smooth, level), level, bias)
    return _within(found, reading.most)


def bounded(found: Estimate, kind: str | Generator) -> Estimate:
    """Return an estimate within the largest value that the divergence can have."""
    return _within(found, largest(kind))


def _within(found: Estimate, most: float) -> Estimate:
    return replace(found, value=min(found.value, most), low=min(found.low, most), high=min(found.high, most))


def smooth_estimate(
    kind: str | Generator,
    corrected: float,
    reading: float,
    variance: float,
    quadratic: Quadratic,
    uncertainty: Uncertainty,
    now: Floats,
    gradient: Floats,
    level: float,
) -> Estimate:
    """Return the estimate behind the reading of a divergence that has no kink.

    Arguments:
        corrected: reading less the effect of the coefficients' bias.
        variance: variance of the reading by its influence values.
        quadratic: effects of the divergence's curvature.
        now: means of features and of a one in the window, (p+1,).
        gradient: slope of the reading in (coefficients, constant), (p+1,).
    """
    travelled = _travelled(kind, uncertainty, now, gradient, quadratic)
    less = corrected - quadratic.bias
    return _smooth(Reading(reading, largest(kind), variance, less, quadratic, travelled, quadratic.shared), level)


def _smooth(reading: Reading, level: float) -> Estimate:
    quadratic = reading.quadratic
    assert quadratic is not None
    rest, above = max(reading.variance - reading.travelled, 0.0), reading.corrected + quadratic.noise
    found = _beside(above, rest, reading.travelled, quadratic, reading.share, level)
    if np.isnan(found.noise) or quadratic.noise > _NOISY * reading.most:  # no law fits: keep the reading as it is
        found = normal_interval(reading.value, float(np.sqrt(max(reading.variance, 0.0))), level)
    return found


def forward_kl(
    coef: Floats,
    constant: float,
    log_r: Floats,
    level: float,
    uncertainty: Uncertainty,
    design: Design,
    dependence: Dependence,
) -> Estimate | None:
    r"""Estimate KL(original‖current) of a log-linear ratio, without importance weights.

    It is :math:`E_p[\theta^\top T + c] = \theta^\top E_p T + c`, with the original's means known from the first step;
    None if some features joined later.

    Arguments:
        coef, constant: theta (p,) and c.
        log_r, design, dependence: log-ratios, design and dependence of the rows of the current window.
        level: confidence level.
        uncertainty: uncertainty of the fitted ratio.
    """
    if float(uncertainty.slack) < LEAST_SLACK or bool(joined_later(coef, uncertainty).any()):
        return None
    quadratic = _second_order(log_r, "reverse_kl", uncertainty, design, True, dependence)
    return forward_of(coef, constant, level, uncertainty, quadratic, ends=dependence.regular)


def forward_of(
    coef: Floats,
    constant: float,
    level: float,
    uncertainty: Uncertainty,
    quadratic: Quadratic,
    *,
    ends: bool = True,
) -> Estimate | None:
    """Return KL(original‖current), given the effects of the curvature of ``reverse_kl``; None if no law fits."""
    means = uncertainty.origin_spread[:-1, :-1]
    at = np.append(uncertainty.mean, 1.0)
    variance = at @ covariance(uncertainty) @ at + coef @ means @ coef + 2.0 * (at @ uncertainty.origin[:, :-1] @ coef)
    bias = float(at @ uncertainty.bias + uncertainty.origin[:-1, :-1].trace())
    reading = float(coef @ uncertainty.mean) + constant - bias + quadratic.noise
    travelled = float(at @ (uncertainty.covariance - uncertainty.first) @ at)  # see _travelled
    if ends:
        travelled = max(travelled, float(at @ covariance(uncertainty) @ at) - quadratic.variance)
    travelled = min(max(travelled, 0.0), max(float(variance), 0.0))
    found = _beside(reading, float(variance) - travelled, travelled, quadratic, quadratic.shared, level)
    return None if np.isnan(found.noise) else found


def forward_along(
    forward: Forward,
    log_r: Floats,
    level: float,
    uncertainty: Uncertainty | None,
    design: Design | None,
    dependence: Dependence,
) -> Estimate:
    """Estimate KL(original‖current) as summed up along the way, for log-linear ratios whose constant does not give it.

    Arguments as in :func:`forward_kl`; without an uncertainty the error is nan.
    """
    if uncertainty is None or design is None or float(uncertainty.slack) < LEAST_SLACK:
        return normal_interval(forward.value, float("nan"), level)
    noise = _second_order(log_r, "reverse_kl", uncertainty, design, True, dependence).noise
    return summed_along(forward, design.pull(softmax(log_r)), level, uncertainty, noise)


def summed_along(forward: Forward, gradient: Floats, level: float, uncertainty: Uncertainty, noise: float) -> Estimate:
    """Return KL(original‖current) as summed up along the way.

    The error is that of the means that were summed up and that of the ratio's coefficients at the original's mean
    features, which are estimated from the weighted window: ``gradient``, (p+1,). The ``noise`` of the fits is that of
    ``reverse_kl``, which near no drift is the same divergence; it is not subtracted where it is not known.
    """
    variance = forward.variance + float(gradient @ covariance(uncertainty) @ gradient)
    noise = noise if 0.0 < noise < _MOST_NOISE else math.nan
    value = forward.value - (0.0 if math.isnan(noise) else noise)
    return replace(normal_interval(value, math.sqrt(max(variance, 0.0)), level), noise=noise)


class Quadratic(NamedTuple):
    """Quadratic part of a divergence.

    Attributes:
        bias: bias of the reading.
        noise, variance: its mean and variance near no drift, from the original and the last window.
        shared: share of the noise that comes from the original.
        way: variance from the windows in between alone, whose errors cancel where nothing has moved.
    """

    bias: float
    noise: float
    variance: float
    shared: float
    way: float


def _second_order(
    log_r: Floats,
    kind: str | Generator,
    uncertainty: Uncertainty,
    rows: Design,
    own_window: bool,
    dependence: Dependence,
) -> Quadratic:
    r"""Return the effects of a divergence's curvature on its reading.

    The bias is :math:`\frac12 E[f''\,T^\top\Sigma T]`, on the window itself less the amount by which its rows pull the
    fit towards themselves. Mean and variance near no drift are :math:`\frac12\operatorname{tr}(B\Sigma)` and
    :math:`\frac12\operatorname{tr}(B\Sigma B\Sigma)`, :math:`B = E[f_0'' T T']`, for the member :math:`f_0` of
    :math:`f + c(r-1)` with no slope at r = 1, whose first-order part vanishes with the drift; :math:`\Sigma` is that of
    the original and the last window. Windows in between do not move the mean, since step constants telescope; to the
    variance they add the joint effect of their errors and the last window's.
    """
    spread = covariance(uncertainty)
    thin, every, calm, wobble = _calm(log_r, rows, spread)
    bend = curvature(calm, kind)
    bias = 0.5 * float((wobble * bend).mean())
    if own_window:
        step = every if dependence.independent else 1
        part = thin if dependence.independent else dependence.distinct(rows)
        slopes, scores = slope(log_r[::step], kind), uncertainty.score[::step]
        pulled = long_run(part, dependence.merged(slopes), part, dependence.merged(scores), dependence.lag)
        bias -= float(uncertainty.slack * (uncertainty.inverse_hessian * pulled).sum()) / len(scores)
    tilted = tilt(calm, bend, kind)
    return noise_of(kind, thin.gram(tilted) / len(tilted), bias, uncertainty, spread, dependence.effective(log_r.size))


def tilt(calm: Floats, bend: Floats, kind: str | Generator) -> Floats:
    """Return the curvature of the member of a divergence's family that has no slope at r = 1, bounded far from it.

    2r / (1 + r) instead of r: the same near no drift, which is what the noise is about; a mean of r rests on a few rows
    far from it and would make the noise jump from window to window.
    """
    flat = -float(slope(np.zeros(1), kind)[0])
    return np.asarray(bend + flat * 2.0 / (1.0 + np.exp(-np.maximum(calm, -30.0))))


def noise_of(
    kind: str | Generator, matrix: Floats, bias: float, uncertainty: Uncertainty, spread: Floats, rows: float
) -> Quadratic:
    """Return the effects of a divergence's curvature, given their bias and the mean of ``f0'' T T'`` (p+1, p+1).

    ``spread`` is the covariance of the ratio, ``rows`` the effective rows of the window.
    """
    last = matrix @ (spread - uncertainty.covariance)
    ends = matrix @ uncertainty.first + last
    between = matrix @ (uncertainty.covariance - uncertainty.first)
    noise = 0.5 * float(ends.trace())
    variance = 0.5 * float((ends * ends.T).sum()) + max(float((between * last.T).sum()), 0.0)
    share = 0.5 * float((matrix * uncertainty.first).sum()) / noise if noise > 0.0 else np.nan
    way = 0.5 * float((between * between.T).sum())
    found = Quadratic(bias, noise, variance, min(max(share, 0.0), 1.0), max(way, 0.0))
    return _at_least(found, uncertainty.quiet, kind, rows)


def _travelled(
    kind: str | Generator,
    uncertainty: Uncertainty,
    now: Floats,
    gradient: Floats,
    quadratic: Quadratic,
    *,
    ends: bool = True,
) -> float:
    """Return the variance that the way leaves even where the drift is back at 0.

    Where nothing moves, the errors of a window cancel between its two roles. Where the stream went far away and came
    back, they do not: the constants of its steps are off, whatever the drift is now. This is read where the drift
    would be 0, at the original's means, and is no more than what these windows leave in the reading of now. Far from
    the original it would be: beside a column that has shrunk, the original's means lie where no row is. Of the first
    and the last window (``ends``), what the law of the noise holds already is left out. A divergence without a slope at
    r = 1 (``pearson``) has the second-order part alone.
    """
    flat = float(slope(np.zeros(1), kind)[0])
    then = np.append(np.where(uncertainty.known, uncertainty.mean, now[:-1]), 1.0)

    def left(spread: Floats) -> float:
        constant = max(min(float(then @ spread @ then), float(now @ spread @ now)), 0.0)
        return max(min(flat * flat * constant, float(gradient @ spread @ gradient)), 0.0)

    first = left(uncertainty.covariance - uncertainty.first)
    if ends:
        first = max(first, left(covariance(uncertainty)) - quadratic.variance)
    return first + quadratic.way


def _beside(
    reading: float, variance: float, travelled: float, quadratic: Quadratic, shared: float, level: float
) -> Estimate:
    """Return the estimate behind a reading that has a normal error of variance ``travelled`` beside that of the law.

    Such an error may take the reading below all that the law allows; as much is put down to it and not to the law.
    """
    edge = quadratic.noise - _LEAST_LIKELY * math.sqrt(max(quadratic.variance, 0.0))
    below = min(max(edge - reading, 0.0), _LEAST_LIKELY * math.sqrt(travelled))
    found = interval(reading + below, variance, quadratic.noise, quadratic.variance, shared, level)
    if np.isnan(found.noise):
        return found
    found = replace(found, value=found.value - below, low=found.low - below, high=found.high - below)
    found = _widened(found, travelled)
    if not found.high >= 0.0:  # no divergence is negative: nothing that is known explains it
        return replace(found, noise=math.nan)
    return replace(found, slope=(max(variance, 0.0) + travelled) / max(reading + below, quadratic.noise))


def _widened(estimate: Estimate, variance: float) -> Estimate:
    """Add an independent normal error to an estimate: distances of both ends are added in squares."""
    spread = NormalDist().inv_cdf(0.5 + 0.5 * estimate.level) * math.sqrt(variance)
    low = estimate.value - math.hypot(estimate.value - estimate.low, spread)
    high = estimate.value + math.hypot(estimate.high - estimate.value, spread)
    return replace(estimate, std_error=math.hypot(estimate.std_error, math.sqrt(variance)), low=low, high=high)


def overlooked(estimate: Estimate, kind: str | Generator, nats: float, spread: float) -> Estimate:
    """Return an estimate whose upper end allows for drift that the model may lack, so many nats of ``reverse_kl``.

    Near no drift, divergences are alike up to their second derivative. The lower end stays, since drift that the model
    lacks makes it no smaller; so does the total variation, which has no such derivative.
    """
    none = np.zeros(1)
    bend = math.nan if kind == "total_variation" else float((curvature(none, kind) - slope(none, kind))[0])
    if not math.isfinite(estimate.high) or not bend * (nats + spread) > 0.0:
        return estimate
    width = NormalDist().inv_cdf(0.5 + 0.5 * estimate.level) * bend * spread
    high = estimate.value + bend * nats + math.hypot(estimate.high - estimate.value, width)
    return replace(estimate, high=max(estimate.high, min(high, largest(kind))))


def _at_least(found: Quadratic, quiet: Quiet, kind: str | Generator, rows: float) -> Quadratic:
    """Return the noise, at least as large as counts of rows say it is where columns have rare values.

    Scores of a fit say little of rare events: where one window has none of them, the fit explains the other's.
    """
    if quiet.dof == 0.0:
        return found
    none = np.zeros(1)
    bend = float(curvature(none, kind)[0] - slope(none, kind)[0])
    each = 0.5 * bend * (1.0 / quiet.first + 1.0 / rows)
    noise, variance = each * quiet.dof, each * each * (2.0 * quiet.dof + quiet.excess)
    shared = rows / (rows + quiet.first) if noise > found.noise else found.shared
    return found._replace(noise=max(noise, found.noise), variance=max(variance, found.variance), shared=shared)


def _calm(log_r: Floats, rows: Design, spread: Floats) -> tuple[Design, int, Floats, Floats]:
    """Thin the rows; also return the factor, log-ratios as variable as the true ones, and the variance of their errors.

    The estimated log-ratios are shrunk, since their errors make them vary more than the true ones.
    """
    every = max(1, log_r.size // max(_THIN, 10 * rows.shape[1]))
    thin = rows.thin(every) if every > 1 else rows
    wobble = thin.forms(spread)
    share = np.clip(1.0 - wobble.mean() / max(float(log_r.var()), 1e-300), 0.0, 1.0)
    return thin, every, log_r[::every] * np.sqrt(share), wobble


def kinked(mean: float, reading: float, variance: float, smooth: Estimate, level: float, bias: float) -> Estimate:
    """Estimate the total variation, which has a kink at r = 1 and no curvature there.

    Near no drift it is proportional to the root of the other divergences, and so are the ends of its interval; further
    away its bias is the mean effect of errors of the log-ratio.

    Arguments:
        mean: mean log-ratio of the rows.
        smooth: estimate of ``reverse_kl``.
        bias: mean effect of errors, see :func:`kink`.
    """
    if smooth.value < smooth.noise + 4.0 * max(smooth.noise_std, smooth.std_error):
        factor = reading / math.sqrt(max(-mean, 2.0 * reading * reading, 1e-300))  # of any two, by Pinsker
        value, low, high = (factor * math.sqrt(max(v, 0.0)) for v in (smooth.value, smooth.low, smooth.high))
        width = normal_interval(0.0, 1.0, level).high
        return Estimate(value, (high - low) / (2.0 * width), low, high, level)
    return normal_interval(reading - bias, math.sqrt(max(variance, 0.0)), level)


def kink(calm: Floats, errors: Floats) -> float:
    """Return the sum over rows of what errors of their log-ratios (standard deviations, (n,)) add to the variation."""
    points, weights = np.polynomial.hermite_e.hermegauss(15)
    moved = terms(calm[:, None] + errors[:, None] * points, "total_variation") @ (weights / weights.sum())
    return float((moved - terms(calm, "total_variation")).sum())


def effective_sample_size(log_weights: Floats) -> float:
    r"""Return Kish's effective sample size :math:`(\sum w)^2/\sum w^2`.

    >>> effective_sample_size(np.zeros(10))
    10.0
    """
    weights = np.exp(log_weights - log_weights.max())
    return float(weights.sum() ** 2 / (weights @ weights))


def log_ratio_std(uncertainty: Uncertainty, design: Design) -> Floats:
    """Return the pointwise standard error of the log-ratio, (n,)."""
    return np.sqrt(np.maximum(design.forms(covariance(uncertainty)), 0.0))


def _checked(level: float) -> float:
    if not 0.0 < level < 1.0:
        raise ValueError(f"level={level} must lie between 0 and 1")
    return level
