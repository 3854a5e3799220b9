"""Answers after a step: log-ratios of rows, and divergences with their errors."""

from __future__ import annotations

import math

import numpy as np

from driftline._engine._blocks import Columns, Products
from driftline._engine._groups import FEWEST
from driftline._engine._ledger import hotelling, sum_of
from driftline._engine._mixtures import mixture_ratio
from driftline._engine._step import State
from driftline._engine._window import Window
from driftline._inputs import Floats, as_rows
from driftline._roots import root
from driftline.fitting import softmax
from driftline.inference import (
    WITHHOLDING,
    Doubt,
    DoubtCode,
    Estimate,
    Generator,
    curvature,
    largest,
    opened,
    posterior_means,
    terms,
    withheld,
)
from driftline.inference import slope as slope_of

__all__ = ["divergence", "doubts", "hidden", "log_ratio", "moderated", "on_window"]

ROWS_EACH = 5.0  # effective rows for each parameter: with fewer, expansions around the truth no longer hold

_NEAR = 0.99  # share of rows, by the size of their functions, that make the units in which coefficients are compared
_BEYOND = 2.0  # nats beyond the log-ratios seen so far, where those of far rows end


def _window(state: State) -> Window:
    """Return the current window, whose rows must be at hand."""
    if not isinstance(state.window, Window):
        raise ValueError("the rows of the current window are gone: ask before they are forgotten")
    return state.window


def on_window(state: State) -> Floats:
    """Return the log-ratio of the current window's rows as the recursion carries it, (n,)."""
    return _log_ratio(state, _window(state).z, state.coef, state.constant)


def log_ratio(state: State, x: Floats) -> Floats:
    """Return log original/current of rows (n, D), no further out than a margin beyond those of the current window."""
    coef, constant = moderated(state)
    seen = on_window(state)
    x = as_rows(x, "X", width=len(state.basis.heaps), min_rows=1, copy=False)
    found = _log_ratio(state, state.basis.standardizer(x), coef, constant)
    return np.clip(found, seen.min() - _BEYOND, seen.max() + _BEYOND)


def _log_ratio(state: State, z: Floats, coef: Floats, constant: float) -> Floats:
    out = state.basis.some(z, state.active) @ coef[state.active] - constant
    mixture = _mixtures(state, z)
    return out if mixture is None else out + mixture


def _mixtures(state: State, z: Floats) -> Floats | None:
    if state.density is None or state.basis.density is None:
        return None
    return mixture_ratio(state.basis.density, state.density, z)


def moderated(state: State) -> tuple[Floats, float]:
    """Return the coefficients (P,) and the constant that log-ratios are read from.

    Coefficients within their noise are drawn towards zero: functions are orthogonalised in the order of the blocks, and
    each kind of function has its own prior (:func:`driftline.inference.posterior_means`).
    """
    window = _window(state)
    values = window.functions(state.active)
    coef, factors = state.coef[state.active], state.factors[:-1][state.active]
    log_r = values @ coef - state.constant
    mixture = _mixtures(state, window.z)
    if mixture is not None:
        log_r = log_r + mixture
    size = np.einsum("ij,ij->i", values, values)
    near = size <= np.quantile(size, _NEAR)
    weights = np.where(near, 0.5 * (softmax(log_r) + 1.0 / len(log_r)), 0.0)
    weights /= weights.sum()
    mean = weights @ values
    spread = (values * weights[:, None]).T @ values - np.outer(mean, mean)
    spread[np.diag_indices(len(coef))] += 1e-6 * float(spread.diagonal().mean())
    lower = np.linalg.cholesky(spread)
    whole = coef if mixture is None else coef + np.linalg.solve(spread, (values - mean).T @ (weights * mixture))
    along, noise = lower.T @ whole, np.square(lower.T @ factors).sum(1)
    kind, drawn = state.basis.kind[state.active], along.copy()
    for one in np.unique(kind):
        drawn[kind == one] = posterior_means(along[kind == one], noise[kind == one])
    change = np.linalg.solve(lower.T, drawn) - whole
    shift = _level(log_r[near], values[near] @ change)
    out = state.coef.copy()
    out[state.active] += change
    return out, state.constant + shift


def _level(log_r: Floats, change: Floats) -> float:
    r"""Return the constant that keeps the mean of :math:`r/(1+r)` over rows (n,) when log-ratios change."""
    from scipy.special import expit

    def excess(constant: float) -> float:
        return float((expit(log_r + change - constant) - expit(log_r)).sum())

    low, high = float(change.min()), float(change.max())
    return root(excess, low, high, 1e-9) if high > low else low


def divergence(state: State, kind: str | Generator = "reverse_kl", *, level: float = 0.95) -> Estimate:
    r"""Return an f-divergence, :math:`\frac1n\sum_i f(r(x_i))` over the current window, with its interval.

    The error has two parts: that of the log-ratio, whose factors the recursion carries, and that of the mean over the
    window, by its groups; the signs of these are the same in both. What the errors add on average is subtracted: half
    of the curvature, and what the window's own rows add to its log-ratio and to the mean alike.

    The upper end allows for the family of functions outside the model that may have moved most without standing out.
    """
    if state.t == 0:
        raise ValueError("no window has been compared with the original yet: take a step first")
    window, active = _window(state), state.active
    groups, n = window.groups, len(window)
    values, log_r = window.functions(active), on_window(state)
    each, slope, bend = terms(log_r, kind), slope_of(log_r, kind), curvature(log_r, kind)
    factors = state.factors[:-1][active], state.factors[-1]
    row = np.append(slope @ values, -slope.sum()) / n
    along = np.append(factors[0], [factors[1]], axis=0).T @ row
    along += groups.placed(groups.sums((each - each.mean())[:, None] / n))[0]
    # errors of log-ratios, and what rows of this window have in common with them
    off = values @ factors[0] - factors[1]
    sums = groups.sums(np.append(values, -np.ones((n, 1)), axis=1) * (slope / n)[:, None])
    own = float((groups.placed(sums) * state.own[np.append(active, True)]).sum())
    noise = own + float(slope.mean()) * -state.lift + 0.5 * float((bend * np.square(off).sum(1)).mean())
    still = off - off.mean(0)
    quiet = _quiet_variance(still.T @ still / n, state.freedom)
    variance = max(float(along @ along) - quiet, quiet)
    value, reach = float(each.mean()) - noise, _quantile(level, state.freedom) * math.sqrt(variance)
    high = value + reach + hidden(state, level)
    estimate = Estimate(
        value,
        math.sqrt(variance),
        value - reach,
        min(high, max(largest(kind), value)),
        level,
        noise=noise,
        noise_std=math.sqrt(quiet),
        doubts=tuple(doubts(state)),
    )
    codes = {doubt.code for doubt in estimate.doubts}
    if codes & {*WITHHOLDING, DoubtCode.LARGE_STEP}:
        return withheld(estimate)
    lower = codes & {DoubtCode.MODEL_MISSES, DoubtCode.DRIFT_MISSED}
    return opened(estimate, largest(kind)) if lower else estimate


def hidden(state: State, level: float = 0.95) -> float:
    r"""Return the largest divergence that functions outside the model may hold without standing out.

    A family with the Hotelling statistic :math:`T^2` has a log-ratio whose half variance is at most
    :math:`\frac12 (T + z)^2` times the variance of a mean difference, in units of the function; a kind of
    functions that all moved a little, half of the sum of their squares beyond what noise gives.
    """
    outside = np.flatnonzero(state.basis.joins & ~state.active)
    if not len(outside):
        return 0.0
    spread, far = 1.0 / state.first_rows + 1.0 / state.window.effective, _quantile(level, state.freedom)
    family = np.unique(state.basis.family[outside], return_inverse=True)[1]
    square = [(math.sqrt(float(hotelling(state.ledger, outside, family).max())) + far) ** 2]
    for kind in np.unique(state.basis.kind[outside]):
        own = outside[state.basis.kind[outside] == kind]
        total, degrees = sum_of(state.ledger, own, state.freedom)
        if degrees and isinstance(state.basis.blocks[state.basis.block[own[0]]], Columns | Products):
            square.append(len(own) / degrees * (total - degrees + far * math.sqrt(2.0 * degrees)))
    return 0.5 * spread * max(square)


def doubts(state: State) -> list[Doubt]:
    """Return the reasons not to trust a divergence."""
    found = []
    if state.support < ROWS_EACH or state.freedom < FEWEST - 1:
        code = DoubtCode.FEW_ROWS if state.window.groups.worth < 1.5 else DoubtCode.DEPENDENT_ROWS
        said = f"the windows of a step have {state.support:.1f} effective rows in common for each parameter"
        found.append(Doubt(code, f"{said}, {ROWS_EACH:.0f} are needed: enlarge the windows, or take smaller steps"))
    if state.large:
        said = "a step was too large for sums of the window before"
        found.append(Doubt(DoubtCode.LARGE_STEP, f"{said}: keep rows, or take smaller steps"))
    if state.unmet:
        said = "drift stands out in functions that the rows cannot pay for"
        found.append(Doubt(DoubtCode.DRIFT_MISSED, f"{said}: enlarge the windows"))
    if state.misses:
        said = "random functions show that the model leaves a part of the drift out"
        found.append(Doubt(DoubtCode.MODEL_MISSES, f"{said}: the truth may be larger"))
    return found


def _quantile(level: float, freedom: int) -> float:
    from scipy.stats import t as student

    return float(student.ppf(0.5 + 0.5 * level, max(freedom - 1, 1)))


def _quiet_variance(inner: Floats, freedom: int) -> float:
    r"""Return the variance of :math:`\frac12 e^\top S e` for errors e whose factors have these products, (k, k).

    It is :math:`\frac12\operatorname{tr}(SC)^2`, corrected for the noise of a covariance made of so many factors.
    """
    trace, square = float(inner.trace()), float(np.square(inner).sum())
    return 0.5 * max((square - trace**2 / freedom) / (1.0 + 1.0 / freedom), square / freedom)
