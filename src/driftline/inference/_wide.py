r"""Divergences from many features: sums of steps that are not held back, with the noise of their ends subtracted.

The coefficients of steps add up, :math:`\theta = \sum_s\theta_s`. A window's mean features err by :math:`\epsilon_s`,
once as denominator and once as numerator: in the sum this cancels but for the first and the last window, and

.. math:: J_t = \theta^\top(\bar T_0 - \bar T_t) - \text{noise}_0 - \text{noise}_t

is the symmetric divergence without bias after any number of steps. KL(current‖original) follows in the same way from
the steps' own values,

.. math:: K_t = a_t - \theta^\top\bar T_t - \text{noise}_t,\quad
    a_t = \sum_s\left(K_s^{\text{step}} + \theta_s^\top\bar T_s + \text{noise}_s\right).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Annotated, NamedTuple

import numpy as np

from driftline._inputs import Floats
from driftline.fitting import Integers, WideFit
from driftline.inference._divergences import Generator, largest, terms
from driftline.inference._doubts import Doubt, DoubtCode
from driftline.inference._estimates import Estimate, opened, withheld
from driftline.inference._intervals import interval, normal_interval

__all__ = ["Wide", "advance_wide", "placed_wide", "reframed_wide", "wide_divergence"]

_MISMATCH = 1.5  # noise of a window in between, in units of its own noise times features per row: measured
_HELD_BACK = 0.1  # share of the features' variance that a ridge may take from the discriminant without a doubt
_NUDGE = 0.02  # relative change for a numerical derivative


class Wide(NamedTuple):
    """What is kept of the steps of many features, in units of one frame of features: nothing grows with time.

    Attributes:
        coef: sum of the steps' coefficients that are not held back, (p,).
        origin: mean features of the original, (p,).
        level: :math:`a_t`.
        noise_first, noise_last: noise of the first and the last window in the symmetric divergence, in nats.
        between: variance of scores that the windows in between leave.
        variance: variance of the symmetric divergence of the last step without drift, and of what features that stand
            out add to it.
        crowd: parameters per row at the last step.
        rows_first, rows_last: rows of the first and the last window, each that repeats others counted in part; nan, as
            is ``variance``, where rows depend on each other too much for that.
        held_back: largest share of the features' variance that a ridge took from a step.
    """

    coef: Annotated[Floats, "P"]
    origin: Annotated[Floats, "P"]
    level: float
    noise_first: float
    noise_last: float
    between: float
    variance: float
    crowd: float
    rows_first: float
    rows_last: float
    held_back: float


def advance_wide(past: Wide | None, step: WideFit, endless: tuple[bool, bool] = (False, False)) -> Wide:
    """Take a step; ``past`` is None for the first, else in the step's frame (see :func:`reframed_wide`).

    ``endless`` says of the numerator and of the denominator whether rows depend on each other beyond any lag: their
    number of rows, and the noise, are not known then.
    """
    found = step.discriminant
    rows = len(step.fit.log_num) + len(step.fit.log_den)
    crowd = found.dof * found.repetition / rows
    level = step.reverse + float(step.plain @ step.mean_den) + found.noise_den
    last = len(step.fit.log_den) / found.repetition
    held_back = 1.0 - found.dof / max(int((step.plain != 0.0).sum()), 1)
    variance = math.nan if any(endless) else found.variance + 4.0 * step.strong.variance
    if past is None:
        first = math.nan if endless[0] else len(step.fit.log_num) / found.repetition
        noises = found.noise_num, found.noise_den
        return Wide(step.plain, step.mean_num, level, *noises, 0.0, variance, crowd, first, last, max(held_back, 0.0))
    return past._replace(
        coef=past.coef + step.plain,
        level=past.level + level,
        noise_last=found.noise_den,
        between=past.between + _MISMATCH * crowd * found.noise_num,
        variance=variance,
        crowd=crowd,
        rows_last=last,
        held_back=max(past.held_back, held_back),
    )


def reframed_wide(of: Wide, coef: Floats, origin: Floats) -> Wide:
    """Express what is kept in other features that span the same functions.

    ``coef`` (p + 1,) is ``of.coef`` in terms of these, with the constant that is left, and ``origin`` (p,) are their
    means in the original.
    """
    return of._replace(coef=coef[:-1], origin=origin, level=of.level - float(coef[-1]))


def placed_wide(of: Wide, positions: Integers, origin: Floats) -> Wide:
    """Place what is kept at these positions among further features; ``origin`` (p,) are means of those that join."""
    coef, means = np.zeros(len(origin)), origin.copy()
    coef[positions], means[positions] = of.coef, of.origin
    return of._replace(coef=coef, origin=means)


def wide_divergence(
    of: Wide, scores: Floats, kind: str | Generator, level: float, *, own_window: bool = True
) -> Estimate:
    """Estimate a divergence between original and current.

    Other divergences than KL in both directions are taken on log-ratios that have the mean and the variance of the
    true ones, and the form of the noisy ones.

    Arguments:
        of: what the steps have left.
        scores: ``coef`` times the features of rows of current, without a constant, (n,).
        kind: name or function of the divergence.
        level: confidence level.
        own_window: whether the rows are the last window itself.
    """
    if math.isnan(of.variance + of.rows_first):
        return withheld(_plain(of, scores, kind, level, own_window=own_window))
    return _plain(of, scores, kind, level, own_window=own_window)


def _plain(of: Wide, scores: Floats, kind: str | Generator, level: float, *, own_window: bool) -> Estimate:
    """Return the estimate as if its errors were known."""
    own = of.noise_last if own_window else 0.0
    mean, spread = float(scores.mean()), float(scores.var())
    reverse = of.level - mean - own
    both = float(of.coef @ of.origin) - mean - of.noise_first - own
    signal = _signal(of, spread, both, own_window)
    if kind == "reverse_kl":
        found = _estimate(of, reverse, both, signal, level)
    elif kind == "kl":
        # the errors of the two directions are those of mean features seen through inverse covariances
        found = _estimate(of, both - reverse, both, max(both, 0.0) ** 2 / signal if signal > 0.0 else 0.0, level)
    else:
        found = _other(_estimate(of, reverse, both, signal, level), scores, signal, kind)
    if of.held_back <= _HELD_BACK:
        return found
    sentence = (
        f"rows are so few for the features that {of.held_back:.0%} of what these say had to be left out: the value "
        "may be too small by as much; enlarge the window, or use fewer columns"
    )
    found = replace(found, std_error=math.nan, doubts=(Doubt(DoubtCode.FEW_ROWS, sentence),))
    return opened(found, largest(kind))


def _signal(of: Wide, spread: float, both: float, own_window: bool) -> float:
    """Return the variance of the true log-ratio on current: that of the scores less their noise, at least as if normal.

    A window's own scores fit its rows, and so vary less than on others.
    """
    free = max(1.0 - of.crowd, 0.1)
    alone = of.between == 0.0 and own_window
    first = of.noise_first * free if alone else of.noise_first / free
    last = of.noise_last * free if own_window else of.noise_last / free
    return max(spread - first - last - of.between, both, 0.0)


def _estimate(of: Wide, value: float, both: float, signal: float, level: float) -> Estimate:
    """Return the estimate of KL in one direction, about half of the symmetric divergence ``both``.

    It errs by noise, by the mean features that were drawn and, as their squares, by the covariance.
    """
    noise = 0.5 * (of.noise_first + of.noise_last)
    noise_variance = 0.25 * of.variance + of.between / of.rows_last
    rates = 1.0 / of.rows_first + 1.0 / of.rows_last
    # as of Hotelling's statistic: the covariance is estimated too, from the rows that the features leave free
    apart, free = max(both, 0.0), max(1.0 - of.crowd, 0.1)
    squares = 0.5 * apart * (apart + 4.0 * noise) / (of.rows_first + of.rows_last)
    drawn = (signal * rates + squares) / free
    slope = drawn / value if value > 0.0 and drawn > 0.0 else 2.0 * rates
    shared = of.noise_first / (of.noise_first + of.noise_last)
    found = interval(value + noise, slope * max(value + noise, noise), noise, noise_variance, shared, level)
    if math.isfinite(found.noise):
        return found
    # too much noise for its law, which is nearly normal then: the noise is subtracted all the same, being known
    plain = normal_interval(value, math.sqrt(noise_variance + slope * max(value, 0.0)), level)
    return replace(plain, noise=noise, noise_std=math.sqrt(noise_variance), shared=shared, slope=slope)


def _other(reverse: Estimate, scores: Floats, signal: float, kind: str | Generator) -> Estimate:
    """Return a divergence from KL(current‖original), by log-ratios that have its mean and vary as the true ones do."""
    centred = scores - scores.mean()
    form = centred / max(float(centred.std()), 1e-300)

    def at(value: float) -> float:
        if value <= 0.0:
            return 0.0
        scale = math.sqrt(signal * value / reverse.value) if reverse.value > 0.0 else math.sqrt(2.0 * value)
        return float(terms(form * scale - value, kind).mean())

    base = max(reverse.value, reverse.std_error * _NUDGE, 1e-12)
    rate = (at(base * (1.0 + _NUDGE)) - at(base)) / (base * _NUDGE)
    value = at(reverse.value) if reverse.value > 0.0 else rate * reverse.value
    low, high = at(reverse.low), at(reverse.high)
    noise, deviation = abs(rate) * reverse.noise, abs(rate) * reverse.noise_std
    return replace(
        reverse,
        value=value,
        std_error=abs(rate) * reverse.std_error,
        low=min(low, value),
        high=max(high, value),
        noise=noise,
        noise_std=deviation,
        slope=abs(rate) * reverse.slope,
    )
