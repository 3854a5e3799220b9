"""The chance of sums of scores as large as these if the model is right, by directions that enough rows are behind."""

from __future__ import annotations

import math

import numpy as np

from driftline._inputs import Floats
from driftline.fitting import Integers, chunks, half_inverse
from driftline.recursion._sides import CHUNK, LEFT, Side, squares_of

__all__ = ["LEVEL", "chance", "rough_chance"]

LEVEL = 1e-4  # chance that a right model is doubted, at one look: once in some thousand windows
_SUPPORT = 50.0  # effective rows behind a direction, at least
_UNLIKELY = 0.05  # chance above which nothing is found


def rough_chance(score: Floats, variance: Floats, live: Integers, sides: list[Side]) -> float:
    """Return the chance of sums this large, whatever rows are behind each direction; nan if it cannot be said.

    Directions that all but vanish, and covariances of few rows, only make it smaller.
    """
    spread, scores, _, at = _in_units(score, variance, live)
    try:
        squares = scores @ np.linalg.solve(spread, scores)
    except np.linalg.LinAlgError:
        return math.nan
    return _exceeded(float(squares), len(at), _rows_of(sides))


def chance(score: Floats, variance: Floats, live: Integers, sides: list[Side], unlikely: float = _UNLIKELY) -> float:
    """Return the chance of sums this large under noise of this covariance alone; nan if there are rows for none.

    Above ``unlikely`` it is not asked how many rows are behind each direction: nothing is found.
    """
    spread, scores, scale, at = _in_units(score, variance, live)
    if not len(at):
        return math.nan
    rows = _rows_of(sides)
    if _is_above(spread, LEFT):  # all directions count, and need not be known
        half = half_inverse(spread)
        chance = math.nan if half is None else _exceeded(float(np.square(half @ scores).sum()), len(at), rows)
        if chance > unlikely:
            return chance
    values, vectors = np.linalg.eigh(spread)
    along = np.square(scores @ vectors)
    kept = values > LEFT
    chance = _exceeded(float((along[kept] / values[kept]).sum()), int(kept.sum()), rows)
    if chance > unlikely:
        return chance
    directions = np.zeros((len(score), int(kept.sum())))
    directions[at] = (vectors / scale[at, None])[:, kept]
    kept[kept] = np.min([_support(side, directions) for side in sides], 0) > _SUPPORT
    return _exceeded(float((along[kept] / values[kept]).sum()), int(kept.sum()), rows)


def _in_units(score: Floats, variance: Floats, live: Integers) -> tuple[Floats, Floats, Floats, Integers]:
    """Return correlations and scores of live functions in units of their noise, all units, and their places."""
    scale = np.sqrt(np.maximum(np.diag(variance), 1e-300))
    at = live[np.diag(variance)[live] > 0.0]
    spread = variance / scale
    spread /= scale[:, None]
    return spread if len(at) == len(score) else spread[np.ix_(at, at)], (score / scale)[at], scale, at


def _rows_of(sides: list[Side]) -> float:
    """Return the number of independent rows of the window that has fewer."""
    return float(np.min([len(side.light) / (1 + 2 * side.lag) for side in sides]))


def _is_above(matrix: Floats, least: float) -> bool:
    """Say whether no eigenvalue is below this, by a Cholesky factor: in a tenth of the time that these would take."""
    try:
        lower = matrix.copy()
        lower[np.diag_indices_from(lower)] -= least
        np.linalg.cholesky(lower)
    except np.linalg.LinAlgError:
        return False
    return True


def _exceeded(squares: float, k: int, rows: float) -> float:
    """Return the chance that k squared sums of rows, each in units of its noise, add up to more than ``squares``."""
    freedom = rows - k
    if k == 0 or freedom < 10.0:
        return math.nan
    from scipy.special import fdtrc

    return float(fdtrc(k, freedom, squares / k * freedom / (freedom + k)))


def _support(side: Side, directions: Floats) -> Floats:
    """Return the effective rows behind each direction (m, k): those that carry its score, (k,)."""
    along, k = np.ascontiguousarray((side.size * directions.T).astype(np.float32)), directions.shape[1]
    total, fourth, size = np.zeros(k), np.zeros(k), min(CHUNK, len(side.light))
    ones, work = np.ones(size, dtype=np.float32), np.empty((len(directions) + k, size), dtype=np.float32)
    for at in chunks(len(side.light), CHUNK):
        light = side.light[at]
        part = work[:, : len(light)]
        pulled, square = side.rest_to(part[k:], at), part[:k]
        pulled *= light
        np.matmul(along, pulled, out=square)
        np.square(square, out=square)
        total += square @ ones[: len(light)]
        fourth += squares_of(square)
    return np.asarray(np.square(total) / np.maximum(fourth, 1e-30))
