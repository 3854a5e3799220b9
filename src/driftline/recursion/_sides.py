r"""Sides: what the model's features leave of functions on the rows of a window, times the rows' scores, and its sums.

A function f less its regression on the model's features, :math:`\tilde f`, has a score :math:`\sum_i g_i \tilde f(x_i)`
that is zero on average where the model is right. Here are these sums, and their covariance.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from driftline._inputs import Floats
from driftline.fitting import ConvexFit, Dense, Integers, chunks, half_inverse
from driftline.inference import long_run, mirrored, positive

__all__ = [
    "CHUNK",
    "LEFT",
    "Seen",
    "Side",
    "SideSums",
    "Singles",
    "Window",
    "half_of",
    "left_over",
    "light_of",
    "seen_of",
    "side_of",
    "squares_of",
    "sum_of",
    "variance_of",
]

Singles = npt.NDArray[np.float32]

CHUNK = 2048  # rows at a time, whose functions stay in the cache
_STRETCH = 512  # rows of which the first some are taken: a window in which rows change has many of them
LEFT = 1e-2  # share of a function's variance that the model's features leave, at least


class Seen(NamedTuple):
    """Values of the auditor's functions for rows of a window, copies and some others left out, (n, m).

    ``spread`` is the sum of their squares about the mean, (m,). The next step needs the same, where the window is its
    numerator.
    """

    values: Singles
    spread: Floats


class Window(NamedTuple):
    """Rows of a window that the auditor looks at: features and a one (n, p + 1), functions, scores, curvatures.

    One row in ``every`` of the window is among them; squares of scores are taken of one in ``thin`` of these.
    """

    rows: Singles
    seen: Seen
    score: Floats
    bend: Floats
    lag: int
    every: int
    thin: int = 1


class Side(NamedTuple):
    """Functions of rows less the model's features, times the rows' scores, (n, m), in units of ``size``.

    They are ``(values - rows @ slopes) * light``, and made for a stretch of rows at a time: all of them together take
    room that the system has to clear first. ``lag`` is the reach of dependence.
    """

    values: Singles
    light: Singles
    size: float
    lag: int
    rows: Singles | None = None
    slopes: Singles | None = None

    def rest(self, at: slice) -> Singles:
        """Return the functions of some rows less the model's features."""
        values = self.values[at]
        return self.rest_to(np.empty(values.T.shape, dtype=np.float32), at).T

    def rest_to(self, out: Singles, at: slice) -> Singles:
        """Write the same to an array, (m, rows), and return it."""
        values = self.values[at].T
        if self.rows is None or self.slopes is None:
            np.copyto(out, values)
            return out
        np.matmul(self.slopes.T, self.rows[at].T, out=out)
        return np.subtract(values, out, out=out)

    def pulled(self, at: slice) -> Singles:
        """Return what is left of functions of some rows, times the rows' scores."""
        out = self.rest(at)
        out *= self.light[at, None]
        return out


class SideSums(NamedTuple):
    """Sums over the rows of a window: of scores (m,), their covariance (m, m), and squares of what is left (m,)."""

    side: Side
    score: Floats
    variance: Floats
    left: Floats


def half_of(fit: ConvexFit, num: Window, den: Window) -> Floats | None:
    """Return half of the inverse of a fit's second derivatives; None if it has none.

    Where rows are left out, it is that of the others. With that of all rows, functions that the features nearly hold
    would keep an error that is large beside what is left of them, and adds up over the steps.
    """
    if num.every == 1 and den.every == 1:
        return half_inverse(fit.hessian)
    bends = ((window.rows, *light_of(window.bend)) for window in (num, den))
    gram = sum(np.asarray((rows.T * bend) @ rows, dtype=np.float64) * size for rows, bend, size in bends)
    return half_inverse(gram + np.diag(fit.weight))


def left_over(num: Window, den: Window, half: Floats, twice: Floats) -> tuple[tuple[SideSums, SideSums], Integers]:
    """Return sums of what the model's features leave of functions on both windows, and those of which enough is left.

    ``half`` is half of the inverse of the fit's second derivatives, ``twice`` the scores of the numerator's rows in
    both of their roles, whose covariance counts. Functions that the features all but hold have scores of rounding
    errors.
    """
    slopes = (half.T @ (half @ (_cross(num) + _cross(den)))).astype(np.float32)
    before, now = (_summed(window, score, slopes) for window, score in ((num, twice), (den, den.score)))
    left = (before.left + now.left) / (num.seen.spread + den.seen.spread)
    return (before, now), np.flatnonzero(left > LEFT)


def _summed(window: Window, score: Floats, slopes: Singles) -> SideSums:
    """Return the sums of a window; their covariance is that of these scores."""
    side = Side(window.seen.values, *light_of(score), window.lag, window.rows, slopes)
    # of a roughly summed window, errors of single precision are a millionth of the noise
    add = _exact if window.thin == 1 else sum_of
    total = add(window.seen.values, window.score) - add(window.rows, window.score) @ slopes
    return SideSums(side, total, *_squares(side, window.thin))


def _squares(side: Side, thin: int = 1) -> tuple[Floats, Floats]:
    """Return the covariance of the scores' sum over a window (m, m), and the squares of what is left (m,).

    Of each stretch of rows the first one in ``thin`` are taken: passes over neighbours are faster.
    """
    n, m = side.values.shape
    left, gram, taken = np.zeros(m), np.zeros((m + 1, m + 1)), 0
    size = CHUNK if thin == 1 else _STRETCH
    work = np.empty((m + 1, min(size, n)), dtype=np.float32)
    for chunk in chunks(n, size):
        at = slice(chunk.start, chunk.start + -(-(min(chunk.stop, n) - chunk.start) // thin))
        light = side.light[at]
        whole = work[:, : len(light)]
        part = side.rest_to(whole[:-1], at)
        left += squares_of(part)
        taken += len(light)
        if not side.lag:
            part *= light
            whole[-1] = 1.0  # products with it are the sums
            gram += whole @ whole.T
    mean, share = gram[-1, :-1], n / taken
    variance = _blocked(side) if side.lag else (gram[:-1, :-1] - np.outer(mean, mean) / taken) * (share * side.size**2)
    return variance, share * left


def _exact(values: Singles, score: Floats) -> Floats:
    """Return sums of scores that mostly cancel, (m,): products and sums are in double precision."""
    return np.asarray(sum(score[at] @ values[at].astype(np.float64) for at in chunks(len(values), CHUNK)))


def _blocked(side: Side) -> Floats:
    """Return the covariance of the scores' sum over a window whose rows depend on each other, (m, m)."""
    pulled = side.pulled(slice(None))
    dense, ones = Dense(pulled.astype(np.float64, order="C")), np.ones(len(pulled))  # rows by rows: blocks of rows
    return mirrored(positive(long_run(dense, ones, dense, ones, side.lag)) * side.size**2)


def _cross(window: Window) -> Floats:
    """Return the sum of products of features and functions, weighted by curvature, (p + 1, m)."""
    bend, size = light_of(window.bend)
    rows, values = window.rows, window.seen.values
    if rows.shape[1] < values.shape[1]:  # weights go to the narrower one
        return np.asarray(values.T @ (rows * bend[:, None]), dtype=np.float64).T * size
    return np.asarray((values.T * bend) @ rows, dtype=np.float64).T * size


def seen_of(values: Singles) -> Seen:
    total, square = sum_of(values, np.ones(len(values))), squares_of(values.T).astype(np.float64)
    # of a function that is constant, rounding errors are all there is
    return Seen(values, np.maximum(square - np.square(total) / len(values), 1e-6 * square + 1e-30))


def side_of(rest: Singles, score: Floats, lag: int) -> Side:
    return Side(rest, *light_of(score), lag)


def sum_of(rest: Singles, score: Floats) -> Floats:
    """Return the sums of scores, (m,)."""
    light, size = light_of(score)
    return np.asarray(light @ rest, dtype=np.float64) * size


def variance_of(side: Side) -> Floats:
    """Return the covariance of the scores' sum over a window, (m, m)."""
    return _blocked(side) if side.lag else _squares(side)[0]


def squares_of(rows: Singles) -> Singles:
    """Return the sum of squares of each row (m, n), (m,): products of two vectors take half the time of einsum."""
    return np.asarray(np.matmul(rows[:, None, :], rows[:, :, None])[:, 0, 0])


def light_of(values: Floats) -> tuple[Singles, float]:
    """Return values (n,) in single precision, and the unit that keeps them within its range."""
    size = max(float(np.abs(values).max(initial=0.0)), 1e-300)
    return (values / size).astype(np.float32), size
