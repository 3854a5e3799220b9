r"""The auditor: a fixed dictionary of functions on which a fit must leave nothing, whatever its own features are.

A function f outside the model has the score :math:`\sum_i g_i \tilde f(x_i)`, zero on average where the model is right,
with :math:`\tilde f` what is left of f after regression on the model's features. Scores are added up over the steps, as
is their covariance, window by window. If the sums are larger than chance explains, the drift has a part that the model
does not hold, and what it reads is too low.

Functions are drawn at random: directions found in the rows of the first window would speak of that window's noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Annotated, NamedTuple

import numpy as np
import numpy.typing as npt

from driftline._inputs import Floats
from driftline.fitting import ConvexFit, Density, Integers, LogLinearDesign, Scores, chunks
from driftline.inference import Dependence
from driftline.recursion._chance import LEVEL, chance, rough_chance
from driftline.recursion._evidence import coarse
from driftline.recursion._sides import (
    CHUNK,
    LEFT,
    Seen,
    Singles,
    Window,
    half_of,
    left_over,
    light_of,
    seen_of,
    side_of,
    sum_of,
    variance_of,
)

__all__ = ["Auditor", "Singles", "audited", "doubting", "renewed", "start_auditor", "to_digits", "unseen"]

Bools = npt.NDArray[np.bool_]

_SETTLED = 0.01  # chance at one look below which features that joined have not mended what was missing
_UNITS, _CORNERS, _CENTRES = 64, 16, 16
_STEEP = 4.0  # slope of a corner's sides, in standard deviations of the original
_FAR = 5.0  # standard deviations of the original, beyond which functions are constant
_NEAR = 100.0  # times the level: a chance above that is no reason to speak, whatever is behind it
_ROUGH = 1_250  # rows of a window, more or less, that a rough covariance takes: ten for each function
_ROWS = 3_500  # of a window, more or less: as many hear a bend by 0.05 nats, and a step may cost a third more


class Auditor(NamedTuple):
    """The dictionary, and what it has seen since the original.

    Shapes for D columns, U units, K corners and C centres, with m = U + K + C - 1: weight (D, U), bias (U,), columns
    and ends (K, 3), centres (C, D), width (), mean and score (m,), variance (m, m), rows, steps, since and gaps ().

    Attributes:
        weight, bias: of units :math:`(w^\\top z + b)_+`, some of all columns, most of two or three.
        columns, ends: of corners, products of three columns' signs about these ends: an interaction that no two of them
            show.
        centres, width: of soft assignments, of which the first is left out: they add up to 1.
        mean, rows: the original's means of all functions, and the effective rows that they rest on.
        score: sum of scores over the steps.
        variance: covariance of these, from the windows that are done with.
        shared: whether the scores include the last window's as a denominator.
        steps: number of steps since the original.
        since: step at which it began to speak, 0 as long as it is silent.
        gaps: number of steps that it could not look at.
    """

    weight: Annotated[Floats, "D units"]
    bias: Annotated[Floats, "units"]
    columns: Annotated[Integers, "corners 3 <D"]
    ends: Annotated[Floats, "corners 3"]
    centres: Annotated[Floats, "centres D"]
    width: float
    mean: Annotated[Floats, "m"]
    rows: float
    score: Annotated[Floats, "m"]
    variance: Annotated[Floats, "m m half single"]
    shared: bool = False
    steps: int = 0
    since: int = 0
    gaps: int = 0

    def check(self) -> None:
        """Refuse a wrong number of means."""
        functions = len(self.bias) + len(self.columns) + len(self.centres) - 1
        if len(self.mean) != functions:
            raise ValueError(f"it has {len(self.mean)} means of {functions} functions")

    def __call__(self, z: Floats) -> Singles:
        """Return the functions of standardised rows (n, D), (n, m).

        The values of a function lie side by side: each kind of function is then one stretch of a chunk.
        """
        units, count = len(self.bias), len(self.columns)
        corners, size = units + count, min(CHUNK, len(z))
        out = np.empty((corners + len(self.centres) - 1, len(z)), dtype=np.float32)
        lines, ones = self._lines(), np.ones(len(self.centres), dtype=np.float32)
        work, rows = np.empty((len(lines) - units, size), dtype=np.float32), np.ones((size, lines.shape[1]), np.float32)
        for at in chunks(len(z), CHUNK):
            part = rows[: len(z[at])]
            part[:, :-1] = z[at]  # the last column is a one, for biases
            np.clip(part, -_FAR, _FAR, out=part)
            unit = np.matmul(lines[:units], part.T, out=out[:units, at])
            np.maximum(unit, 0.0, out=unit)
            found = np.matmul(lines[units:], part.T, out=work[:, : len(part)])
            sides, shares = found[: 3 * count], found[3 * count :]
            np.clip(sides, -1.0, 1.0, out=sides)
            corner = np.multiply(sides[:count], sides[count : 2 * count], out=out[units:corners, at])
            corner *= sides[2 * count :]
            np.exp(shares, out=shares)  # rows and centres are clipped: this does not overflow
            np.divide(shares[1:], ones @ shares, out=out[corners:, at])
        return out.T

    def _lines(self) -> Singles:
        """Return weights and the bias of units, of the three sides of corners, and of soft assignments, (k, D + 1)."""
        places = self.columns.T.ravel()
        sides = np.zeros((len(places), len(self.weight)))
        sides[np.arange(len(places)), places] = _STEEP
        weight = np.concatenate([self.weight.T, sides, self.centres / self.width**2])
        levels = -0.5 * np.square(self.centres).sum(1) / self.width**2
        bias = np.concatenate([self.bias, -_STEEP * self.ends.T.ravel(), levels])
        return np.concatenate([weight, bias[:, None]], 1, dtype=np.float32, casting="same_kind")


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
    size, centres = _UNITS + _CORNERS + _CENTRES - 1, np.clip(_drawn(z, density, rng), -_FAR, _FAR)
    columns = np.array([rng.choice(d, 3, replace=d < 3) for _ in range(_CORNERS)])
    ends = coarse(0.5 * rng.normal(size=columns.shape))
    nothing = np.zeros(size), np.zeros((size, size))
    bias = coarse(rng.normal(size=_UNITS))
    bare = Auditor(weight, bias, columns, ends, centres, math.sqrt(d), nothing[0], 0.0, *nothing)
    return bare._replace(mean=bare(z).mean(0, dtype=np.float64), rows=depend.effective(len(z)))


def _drawn(z: Floats, density: Density | None, rng: np.random.Generator) -> Floats:
    """Draw centres (C, D): normal ones with the columns' moments, around the means of clusters if there are any."""
    centre, spread = np.tile(z.mean(0), (_CENTRES, 1)), np.tile(z.std(0), (_CENTRES, 1))
    if density is not None:
        of = rng.choice(density.components, _CENTRES, p=density.weights)
        centre[:, density.gaussian], spread[:, density.gaussian] = density.means[of], density.spreads[of]
    return centre + spread * rng.normal(size=centre.shape)


def audited(
    auditor: Auditor,
    fit: ConvexFit,
    designs: tuple[LogLinearDesign, LogLinearDesign],
    original: Callable[[Floats], Floats],
    depend: tuple[Dependence, Dependence],
    past: Floats | None,
    seen: Seen | None = None,
) -> tuple[Auditor, Seen | None]:
    """Add a step to what has been seen; also return what the next step needs of the denominator's window.

    Arguments:
        fit: fit of the step.
        designs: designs of numerator and denominator.
        original: map of a design's rows to the coordinates of the original.
        depend: how rows of both windows depend on each other.
        past: scores of the numerator's rows when they were the denominator of the last step, if known.
        seen: values of the functions for the numerator's rows, if known.
    """
    parts = zip(designs, (fit.num, fit.den), depend, (seen, None), strict=True)
    num, den = (_window(auditor, original, *part) for part in parts)
    half = half_of(fit, num, den)
    if half is None:
        return unseen(auditor), None
    twice = num.score
    if past is not None and auditor.shared:
        # most of a row's scores in both of its roles cancels, so their covariance is a small part of all of it
        twice, num = num.score + depend[0].merged(past)[:: num.every] * num.every, _roughly(num)
    closed, found = _tested(auditor, num, _roughly(den), half, twice, rough_chance)
    if not found > _NEAR * LEVEL:  # all rows of the new window are asked only where they may decide
        closed, found = _tested(auditor, num, den, half, twice, partial(chance, unlikely=_NEAR * LEVEL))
    since = auditor.since or (closed.steps if found < LEVEL else 0)
    return closed._replace(since=since), den.seen


def _roughly(window: Window) -> Window:
    """Return a window of which some rows are enough for covariances, unless its rows depend on each other."""
    return window if window.lag else window._replace(thin=max(1, round(len(window.rows) / _ROUGH)))


def _tested(
    auditor: Auditor, num: Window, den: Window, half: Floats, twice: Floats, judge: Callable[..., float]
) -> tuple[Auditor, float]:
    """Return the auditor with the sums of a step, and what ``judge`` says is the chance of these if the model is right.

    Other arguments are those of :func:`left_over`. Once the auditor has spoken, it is not asked again: 1.
    """
    (before, now), live = left_over(num, den, half, twice)
    closed = auditor._replace(
        score=auditor.score + before.score + now.score,
        variance=to_digits(auditor.variance + before.variance),
        shared=True,
        steps=auditor.steps + 1,
    )
    if closed.since:
        return closed, 1.0
    return closed, judge(closed.score, closed.variance + now.variance, live, [before.side, now.side])


def _window(
    auditor: Auditor,
    original: Callable[[Floats], Floats],
    design: LogLinearDesign,
    scores: Scores,
    depend: Dependence,
    seen: Seen | None,
) -> Window:
    """Return what the auditor looks at of a window: rows without copies, and no more than it takes."""
    design, bend, score = depend.distinct(design), depend.merged(scores.second), depend.merged(scores.first)
    every = max(1, round(len(bend) / _ROWS))
    if seen is None:
        seen = seen_of(auditor(original(design.z[::every])))
    score, bend = score[::every] * every, bend[::every] * every
    return Window(design.single[::every], seen, score, bend, math.ceil(depend.lag / every), every)


def doubting(auditor: Auditor) -> Auditor:
    """Return the auditor after a step in which features joined that only approximate what moves: it speaks from now on.

    How near they come is not known: hardly any interval of such a step held the truth where it was known.
    """
    return auditor._replace(since=auditor.since or max(auditor.steps, 1))


def _rest(rows: Singles, values: Singles, slopes: Floats) -> Singles:
    """Return what is left of functions, (n, m)."""
    out = rows @ slopes.astype(np.float32)
    return np.subtract(values, out, out=out)


def to_digits(variance: Floats) -> Floats:
    """Return a covariance to the digits that a file keeps of it: those of the products that it is the sum of."""
    return variance.astype(np.float32).astype(np.float64)


def unseen(auditor: Auditor) -> Auditor:
    """Return the auditor after a step that it could not look at."""
    return auditor._replace(shared=False, steps=auditor.steps + 1, gaps=auditor.gaps + 1)


def renewed(
    auditor: Auditor, z: Floats, log_r: Floats, rows: Singles, means: Floats, known: Bools, depend: Dependence
) -> Auditor:
    r"""Begin anew after features have joined, silent if these have mended what was missing.

    What has been seen so far is of the model before. Whether the ratio is right now is asked of the window alone: its
    rows, weighted by the ratio, have the original's means, :math:`E_t[r f] = E_0[f]`. That is possible as long as the
    weights leave rows enough; otherwise a doubt stays. It is not asked as long as the auditor is silent: right after
    features have joined, others often still have to, and the doubt would outlast that.

    Arguments:
        z: the window's rows in the original's coordinates.
        log_r: their log-ratios.
        rows: their features and a one, (n, p + 1).
        means, known: the original's means of these, and whether these are known.
        depend: how rows depend on each other.
    """
    nothing = np.zeros_like(auditor.score), np.zeros_like(auditor.variance)
    empty = auditor._replace(score=nothing[0], variance=nothing[1], shared=False, steps=auditor.steps + 1)
    if not auditor.since or (known.all() and _agrees(auditor, z, log_r, rows, means, depend)):
        return empty._replace(since=0)
    return empty


def _agrees(auditor: Auditor, z: Floats, log_r: Floats, rows: Singles, means: Floats, depend: Dependence) -> bool:
    """Say whether the weighted window has the original's means of all functions, up to chance."""
    seen, weights, n = seen_of(auditor(z)), np.exp(np.minimum(log_r, 350.0)), len(z)
    values, total = seen.values, float(weights.sum())
    light, size = light_of(weights)
    weighted = rows * light[:, None]
    gram, cross = (np.asarray(weighted.T @ other, dtype=np.float64) * (size / n) for other in (rows, values))
    gram[np.diag_indices_from(gram)] += 1e-8 * max(float(np.trace(gram)), 1e-300) / len(gram)
    slopes = np.asarray(np.linalg.solve(gram, cross), dtype=np.float64)
    rest = _rest(rows, values, slopes)
    # errors of coefficients change means of functions as they change those of features
    apart = sum_of(values, weights) / n - auditor.mean - (sum_of(rows, weights) / n - means) @ slopes
    rest -= (sum_of(rest, weights) / total).astype(np.float32)
    side = side_of(rest, weights, depend.lag)
    single = np.asarray(side.pulled(slice(None)).T @ rest, dtype=np.float64) * (size / total)
    if depend.repeats is not None:
        side = side_of(rest[depend.repeats.first], depend.merged(weights), depend.lag)
    variance = variance_of(side) / n**2 + single / max(auditor.rows, 1.0)
    left = single.diagonal() / (seen.spread / n)
    return chance(apart, variance, np.flatnonzero(left > LEFT), [side]) > _SETTLED
