r"""Sums over rows that depend on their neighbours: the reach of dependence, and long-run covariances.

The variance of a sum of autocorrelated rows includes their cross products, :math:`\sum_{|k|\le 2L} w_k \Gamma_k`, with
a flat-top kernel: weight 1 up to lag L, falling to 0 at 2L. It is computed from sums over short blocks of rows, so
its cost does not grow with L. Windows are treated as independent of each other, which is right up to L/rows.

Reference: Politis and Romano, *Bias-corrected nonparametric spectral estimation*, 1995.
"""

from __future__ import annotations

import math

import numpy as np

from driftline._inputs import Floats
from driftline.fitting import Design

__all__ = ["choose_lag", "long_run", "long_run_variance", "positive"]

_ROWS = 8192  # enough rows to find the reach of dependence; also the rows multiplied at a time
_QUIET = 3  # lags in a row without correlation that end the search
_PARTS = 4  # blocks per lag


def choose_lag(z: Floats, curved: int | None = None) -> int:
    """Return the lag beyond which standardised rows (n, D) and their squares are uncorrelated; 0 for independent rows.

    Only the first ``curved`` columns are squared, if given: the squares of others say what the columns say.

    >>> choose_lag(np.random.default_rng(0).normal(size=(2000, 3)))
    0
    """
    rows = np.clip(z[:_ROWS], -4.0, 4.0).astype(np.float32)
    n = rows.shape[0]
    series = np.concatenate([rows, np.square(rows[:, :curved])], 1)
    series -= series.mean(0)
    power = np.square(series).sum(0)
    kept = power > 1e-6 * n
    if n < 50 or not kept.any():
        return 0
    series, power = np.ascontiguousarray(series[:, kept].T), power[kept]
    count = len(series)
    # under independence the sum of n rho^2 has mean `count`; columns may be copies of each other, so its spread is
    # taken as that of a few independent ones
    enough = count * (1.0 + 12.0 / math.sqrt(min(count, 8)))
    lag, quiet = 0, 0
    for k in range(1, n // 20 + 1):
        rho = np.einsum("ji,ji->j", series[:, k:], series[:, :-k]) / power
        if n * float(rho @ rho) > enough:
            lag, quiet = k, 0
        else:
            quiet += 1
            if quiet == _QUIET:
                break
    # correlations too weak to be seen one by one still add up
    return min(math.ceil(1.5 * lag) + 1, n // 20) if lag else 0


def long_run(left: Design, left_values: Floats, right: Design, right_values: Floats, lag: int) -> Floats:
    """Return the covariance of the sums over rows of ``left_values * T`` and ``right_values * T'``, (p, q)."""
    n = left.shape[0]
    if lag == 0:
        product = left_values * right_values
        mean = left.tally(left_values)
        same = right is left and right_values is left_values
        means = np.outer(mean, mean if same else right.tally(right_values)) / n
        if left is right:
            return left.gram(product) - means
        total = np.zeros_like(means)
        for k in range(0, n, _ROWS):
            total += left.take(k, k + _ROWS, 1).T @ (right.take(k, k + _ROWS, 1) * product[k : k + _ROWS, None])
        return total - means
    size = max(1, math.ceil(lag / _PARTS))
    a = _centred(left.sums(left_values, size))
    b = a if right is left and right_values is left_values else _centred(right.sums(right_values, size))
    return _flat_top(a, b)


def long_run_variance(values: Floats, lag: int) -> float:
    """Return the variance of the sum of values (n,)."""
    values = values - values.mean()
    if lag == 0:
        return float(values @ values)
    size = max(1, math.ceil(lag / _PARTS))
    blocks = np.add.reduceat(values, np.arange(0, len(values), size))[:, None]
    variance = float(_flat_top(blocks, blocks)[0, 0])
    return variance if variance > 0.0 else float(values @ values)


def _centred(blocks: Floats) -> Floats:
    return np.asarray(blocks - blocks.mean(0))


def _flat_top(a: Floats, b: Floats) -> Floats:
    """Return twice the Bartlett sum of 2L minus that of L: weight 1 up to L. Moving sums over all shifts give both."""

    def bartlett(parts: int) -> Floats:
        left = _moving(a, parts)
        return np.asarray(left.T @ (left if b is a else _moving(b, parts)) / parts)

    return 2.0 * bartlett(2 * _PARTS) - bartlett(_PARTS)


def _moving(blocks: Floats, parts: int) -> Floats:
    total = np.pad(blocks, ((parts, parts - 1), (0, 0))).cumsum(0)
    return np.asarray(total[parts:] - total[:-parts])


def positive(matrix: Floats) -> Floats:
    """Return the nearest covariance: eigenvalues that a flat-top kernel leaves below 0 are set to 0."""
    values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)
