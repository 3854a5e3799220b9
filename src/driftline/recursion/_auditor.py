r"""The auditor: a fixed dictionary of functions on which a fit must leave nothing, whatever its own features are.

A function f outside the model has the score :math:`\sum_i g_i \tilde f(x_i)`, zero on average where the model is right,
with :math:`\tilde f` what is left of f after regression on the model's features. Scores are added up over the steps, as
is their covariance, window by window. If the sums are larger than chance explains, the drift has a part that the model
does not hold, and what it reads is too low.

Functions are drawn at random: directions found in the rows of the first window would speak of that window's noise.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from driftline._inputs import Floats
from driftline.fitting import ConvexFit, Dense, Density, Design, Integers, Scores, chunks, half_inverse
from driftline.inference import Dependence, long_run, positive
from driftline.recursion._evidence import coarse

__all__ = ["Auditor", "audited", "renewed", "start_auditor", "unseen"]

Bools = npt.NDArray[np.bool_]

_LEVEL = 1e-4  # chance that a right model is doubted, at one look: once in some thousand windows
_SETTLED = 0.01  # chance at one look below which features that joined have not mended what was missing
_UNITS, _CENTRES = 64, 16
_FAR = 5.0  # standard deviations of the original, beyond which functions are constant
_ROWS = 8_000  # of a window; more would only cost time
_SUPPORT = 50.0  # effective rows behind a direction, at least
_LEFT = 1e-2  # share of a function's variance that the model's features leave, at least


class Auditor(NamedTuple):
    """The dictionary, and what it has seen since the original.

    Shapes for D columns, U units and C centres, with m = U + C - 1: weight (D, U), bias (U,), centres (C, D), width (),
    mean and score (m,), variance (m, m), rows, steps and since ().

    Attributes:
        weight, bias: of units :math:`(w^\\top z + b)_+`, some of all columns, most of two or three.
        centres, width: of soft assignments, of which the first is left out: they add up to 1.
        mean, rows: the original's means of all functions, and the effective rows that they rest on.
        score: sum of scores over the steps.
        variance: covariance of these, from the windows that are done with.
        shared: whether the scores include the last window's as a denominator.
        steps: number of steps that are in it.
        since: step at which it began to speak, 0 as long as it is silent.
    """

    weight: Floats
    bias: Floats
    centres: Floats
    width: float
    mean: Floats
    rows: float
    score: Floats
    variance: Floats
    shared: bool = False
    steps: int = 0
    since: int = 0

    def __call__(self, z: Floats) -> Floats:
        """Return the functions of standardised rows (n, D), (n, m)."""
        out = np.empty((len(z), len(self.bias) + len(self.centres) - 1))
        square = np.square(self.centres).sum(1)
        for at in chunks(len(z)):
            rows = np.clip(z[at], -_FAR, _FAR)
            np.maximum(rows @ self.weight + self.bias, 0.0, out=out[at, : len(self.bias)])
            logits = (rows @ self.centres.T - 0.5 * square) / self.width**2
            logits -= logits.max(1)[:, None]
            np.exp(logits, out=logits)
            logits /= logits.sum(1)[:, None]
            out[at, len(self.bias) :] = logits[:, 1:]
        return out


def start_auditor(z: Floats, density: Density | None, depend: Dependence, *, seed: int) -> Auditor:
    """Draw a dictionary for an original's standardised rows (n, D); centres come from a density of them, if any.

    ``depend`` says how rows depend on each other.
    """
    rng, d = np.random.default_rng([seed, 7]), z.shape[1]
    weight = np.zeros((d, _UNITS))
    for k in range(_UNITS):
        columns = np.arange(d) if k < _UNITS // 3 else rng.choice(d, min(d, 2 + k % 2), replace=False)
        draw = rng.normal(size=len(columns))
        weight[columns, k] = draw / np.linalg.norm(draw)
    size, centres = _UNITS + _CENTRES - 1, np.clip(_drawn(z, density, rng), -_FAR, _FAR)
    nothing = np.zeros(size), np.zeros((size, size))
    bare = Auditor(weight, coarse(rng.normal(size=_UNITS)), centres, math.sqrt(d), nothing[0], 0.0, *nothing)
    return bare._replace(mean=bare(z).mean(0), rows=depend.effective(len(z)))


def _drawn(z: Floats, density: Density | None, rng: np.random.Generator) -> Floats:
    """Draw centres (C, D): normal ones with the columns' moments, around the means of clusters if there are any."""
    centre, spread = np.tile(z.mean(0), (_CENTRES, 1)), np.tile(z.std(0), (_CENTRES, 1))
    if density is not None:
        of = rng.choice(density.components, _CENTRES, p=density.weights)
        centre[:, density.gaussian], spread[:, density.gaussian] = density.means[of], density.spreads[of]
    return centre + spread * rng.normal(size=centre.shape)


class _Window(NamedTuple):
    """Some rows of a window, copies merged: features and a one (n, p + 1), functions (n, m), scores, curvatures."""

    rows: Floats
    values: Floats
    score: Floats
    bend: Floats
    lag: int
    every: int


class _Side(NamedTuple):
    """Functions of a window's rows less the model's features (n, m), their scores, and the reach of dependence."""

    rest: Floats
    score: Floats
    lag: int


def audited(
    auditor: Auditor,
    fit: ConvexFit,
    designs: tuple[Design, Design],
    z: tuple[Floats, Floats],
    depend: tuple[Dependence, Dependence],
    past: Floats | None,
) -> Auditor:
    """Add a step to what has been seen.

    Arguments:
        fit: fit of the step.
        designs: designs of numerator and denominator.
        z: rows of both windows in the original's coordinates.
        depend: how rows of both windows depend on each other.
        past: scores of the numerator's rows when they were the denominator of the last step, if known.
    """
    half = half_inverse(fit.hessian)
    if half is None:
        return auditor._replace(shared=False)
    windows = [_window(auditor, *parts) for parts in zip(designs, z, (fit.num, fit.den), depend, strict=True)]
    cross = sum((w.rows * w.bend[:, None]).T @ w.values for w in windows)
    slopes = half.T @ (half @ cross)
    num, den = (_Side(w.values - w.rows @ slopes, w.score, w.lag) for w in windows)
    twice = num
    if past is not None and auditor.shared:
        every = windows[0].every
        twice = num._replace(score=num.score + depend[0].merged(past)[::every] * math.sqrt(every))
    # functions that the features all but hold have scores of rounding errors
    spread = sum(np.square(w.values - w.values.mean(0)).sum(0) for w in windows)
    left = sum(np.square(side.rest).sum(0) for side in (num, den)) / np.maximum(spread, 1e-300)
    closed = auditor._replace(
        score=auditor.score + num.score @ num.rest + den.score @ den.rest,
        variance=auditor.variance + _variance(twice),
        shared=True,
        steps=auditor.steps + 1,
    )
    live = np.flatnonzero(left > _LEFT)
    found = _chance(closed.score, closed.variance + _variance(den), live, [twice, den])
    return closed._replace(since=closed.since or (closed.steps if found < _LEVEL else 0))


def _window(auditor: Auditor, design: Design, z: Floats, scores: Scores, depend: Dependence) -> _Window:
    """Return what the auditor looks at of a window: rows without copies, and no more than it takes."""
    design, bend, score = depend.distinct(design), depend.merged(scores.second), depend.merged(scores.first)
    z = z if depend.repeats is None else z[depend.repeats.first]
    every = max(1, math.ceil(len(z) / _ROWS))
    rows = design.take(0, len(z), every)
    lag = math.ceil(depend.lag / every)
    return _Window(rows, auditor(z[::every]), score[::every] * math.sqrt(every), bend[::every] * every, lag, every)


def unseen(auditor: Auditor | None) -> Auditor | None:
    """Return the auditor after a step that it could not look at."""
    return None if auditor is None else auditor._replace(shared=False)


def renewed(
    auditor: Auditor, z: Floats, log_r: Floats, rows: Floats, means: Floats, known: Bools, depend: Dependence
) -> Auditor:
    r"""Begin anew after features have joined, silent if these have mended what was missing.

    What has been seen so far is of the model before. Whether the ratio is right now is asked of the window alone: its
    rows, weighted by the ratio, have the original's means, :math:`E_t[r f] = E_0[f]`. That is possible as long as the
    weights leave rows enough; otherwise a doubt stays.

    Arguments:
        z: the window's rows in the original's coordinates.
        log_r: their log-ratios.
        rows: their features and a one, (n, p + 1).
        means, known: the original's means of these, and whether these are known.
        depend: how rows depend on each other.
    """
    empty = auditor._replace(score=np.zeros_like(auditor.score), variance=np.zeros_like(auditor.variance), shared=False)
    if not auditor.since or (known.all() and _agrees(auditor, z, log_r, rows, means, depend)):
        return empty._replace(since=0)
    return empty


def _agrees(auditor: Auditor, z: Floats, log_r: Floats, rows: Floats, means: Floats, depend: Dependence) -> bool:
    """Say whether the weighted window has the original's means of all functions, up to chance."""
    values, weights, n = auditor(z), np.exp(np.minimum(log_r, 350.0)), len(z)
    gram = (rows * weights[:, None]).T @ rows / n
    gram[np.diag_indices_from(gram)] += 1e-8 * max(float(np.trace(gram)), 1e-300) / len(gram)
    slopes = np.linalg.solve(gram, (rows * weights[:, None]).T @ values / n)
    rest = values - rows @ slopes
    # errors of coefficients change means of functions as they change those of features
    apart = weights @ values / n - auditor.mean - (weights @ rows / n - means) @ slopes
    centred = rest - (weights @ rest) / weights.sum()
    side = _Side(centred, weights, depend.lag)
    if depend.repeats is not None:
        side = _Side(centred[depend.repeats.first], depend.merged(weights), depend.lag)
    single = (centred * weights[:, None]).T @ centred / weights.sum()
    variance = _variance(side) / n**2 + single / max(auditor.rows, 1.0)
    left = single.diagonal() / np.maximum(np.square(values - values.mean(0)).mean(0), 1e-300)
    return _chance(apart, variance, np.flatnonzero(left > _LEFT), [side]) > _SETTLED


def _variance(side: _Side) -> Floats:
    """Return the covariance of the scores' sum over a window, (m, m)."""
    dense = Dense(side.rest)
    found = long_run(dense, side.score, dense, side.score, side.lag)
    return np.asarray(positive(found) if side.lag else found)


def _chance(score: Floats, variance: Floats, live: Integers, sides: list[_Side]) -> float:
    """Return the chance of sums this large under noise of this covariance alone; nan if there are rows for none."""
    scale = np.sqrt(np.maximum(np.diag(variance), 1e-300))
    at = live[np.diag(variance)[live] > 0.0]
    if not len(at):
        return math.nan
    values, vectors = np.linalg.eigh((variance / scale / scale[:, None])[np.ix_(at, at)])
    along = (score / scale)[at] @ vectors
    rows = np.min([_support(side, vectors / scale[at, None], at) for side in sides], 0)
    kept = (values > _LEFT) & (rows > _SUPPORT)
    k = int(kept.sum())
    freedom = float(np.min([len(side.score) / (1 + 2 * side.lag) for side in sides])) - k
    if k == 0 or freedom < 10.0:
        return math.nan
    from scipy.special import fdtrc

    statistic = float((np.square(along[kept]) / values[kept]).sum())
    return float(fdtrc(k, freedom, statistic / k * freedom / (freedom + k)))


def _support(side: _Side, directions: Floats, at: Integers) -> Floats:
    """Return the effective rows behind each direction (m, k): those that carry its score, (k,)."""
    square = np.square(side.score[:, None] * (side.rest[:, at] @ directions))
    return np.asarray(np.square(square.sum(0)) / np.maximum(np.square(square).sum(0), 1e-300))
