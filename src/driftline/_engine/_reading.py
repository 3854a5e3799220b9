"""Answers after a step: log-ratios of rows, and divergences with their errors."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from driftline._engine._step import State
from driftline._inputs import Floats
from driftline._roots import root
from driftline.fitting import softmax
from driftline.inference import posterior_means

__all__ = ["Reading", "divergence", "log_ratio", "moderated", "on_window"]

_NEAR = 0.99  # share of rows, by the size of their functions, that make the units in which coefficients are compared
_BEYOND = 2.0  # nats beyond the log-ratios seen so far, where those of far rows end


class Reading(NamedTuple):
    """A divergence: its value, less the noise that is in it, and the standard error."""

    value: float
    std_error: float
    noise: float


def on_window(state: State) -> Floats:
    """Return the log-ratio of the current window's rows as the recursion carries it, (n,)."""
    return _log_ratio(state, state.window.z, state.coef, state.constant)


def log_ratio(state: State, x: Floats) -> Floats:
    """Return log original/current of rows (n, D), no further out than a margin beyond those of the current window."""
    coef, constant = moderated(state)
    seen = on_window(state)
    found = _log_ratio(state, state.basis.standardizer(x), coef, constant)
    return np.clip(found, seen.min() - _BEYOND, seen.max() + _BEYOND)


def _log_ratio(state: State, z: Floats, coef: Floats, constant: float) -> Floats:
    out = state.basis.some(z, state.active) @ coef[state.active] - constant
    mixture = _mixtures(state, z)
    return out if mixture is None else out + mixture


def _mixtures(state: State, z: Floats) -> Floats | None:
    if state.density is None or state.basis.density is None:
        return None
    return np.asarray(state.basis.density.log_density(z) - state.density.log_density(z))


def moderated(state: State) -> tuple[Floats, float]:
    """Return the coefficients (P,) and the constant that log-ratios are read from.

    Coefficients within their noise are drawn towards zero: functions are orthogonalised in the order of the blocks, and
    each kind of function has its own prior (:func:`driftline.inference.posterior_means`).
    """
    values = state.basis.some(state.window.z, state.active)
    coef, factors = state.coef[state.active], state.factors[:-1][state.active]
    log_r = values @ coef - state.constant
    mixture = _mixtures(state, state.window.z)
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


def divergence(state: State) -> Reading:
    r"""Return KL(current‖original), :math:`-\frac1n\sum_i\log r(x_i)` over the current window.

    The error has two parts: that of the log-ratio, whose factors the recursion carries, and that of the mean over the
    window, by its groups; the signs of these are the same in both. What the errors add
    on average, since they and the window's mean come from the same rows, is subtracted.
    """
    groups, z = state.window.groups, state.window.z
    values, factors = state.basis.some(z, state.active), state.factors[:-1][state.active]
    log_r = on_window(state)
    value, n = -float(log_r.mean()), len(log_r)
    own = groups.placed(groups.sums((log_r - log_r.mean())[:, None] / n))[0]
    mean = values.mean(0)
    along = -(mean @ factors - state.factors[-1]) - own
    noise = sum(state.noise)
    return Reading(value - noise, math.sqrt(float(along @ along)), noise)
