"""The auditor where rows are not kept: the numerator's scores come from sums of its functions and their products.

Of the numerator a score needs :math:`E[f]` and :math:`E[fT^\\top]`, since the weight of its rows is linear in T. How
much scores scatter is asked of the rows that stand in for the numerator's.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from driftline._inputs import Floats
from driftline.fitting import ConvexFit, LogLinearDesign, SumsFit, chunks, half_inverse
from driftline.recursion._auditor import (
    LEVEL,
    Auditor,
    Side,
    Window,
    chance,
    left_over,
    seen_of,
    sum_of,
    unseen,
)
from driftline.recursion._kept import Sums

__all__ = ["affords", "watched", "watched_step"]

_SUPPORT = 100.0  # effective rows that carry the score of a function, at least
_EACH = 2.0  # numbers in a window's rows for each of its sums


def affords(auditor: Auditor, rows: Floats, parameters: int) -> bool:
    """Say whether a window's rows (n, D) hold so many more numbers than are kept that the sums do not reveal them."""
    kept = parameters * (0.5 * (parameters + 1) + len(auditor.mean))
    return rows.size >= _EACH * kept


def watched(
    auditor: Auditor | None, design: LogLinearDesign, original: Callable[[Floats], Floats]
) -> tuple[Floats, Floats]:
    """Return the means of the auditor's functions over a window (k,), and of their products with features (k, p+1).

    ``original`` maps a design's rows to the coordinates of the original. Both are empty where the rows are too few.
    """
    n, p = design.shape
    if auditor is None or not affords(auditor, design.z, p):
        return np.zeros(0), np.zeros((0, p))
    means, products = np.zeros(len(auditor.mean)), np.zeros((len(auditor.mean), p))
    for at in chunks(n):
        values = auditor(original(design.z[at])).astype(np.float64)
        means += values.sum(0)
        products += values.T @ design.take(at.start, min(at.stop, n), 1)
    return means / n, products / n


def watched_step(
    auditor: Auditor,
    sums: Sums,
    fit: SumsFit,
    convex: ConvexFit,
    den: LogLinearDesign,
    stand_in: LogLinearDesign,
    past: Floats,
    original: Callable[[Floats], Floats],
) -> Auditor:
    """Show the auditor a step.

    Arguments:
        sums: those of the numerator.
        fit: fit of the step.
        convex: the same with the derivatives of the rows that stand in for the numerator's, and of the denominator's.
        den, stand_in: designs of both.
        past: scores of the stand-in as the denominator of the step before.
        original: map of a design's rows to the coordinates of the original.
    """
    half = half_inverse(convex.hessian)
    if half is None or not len(sums.watched):
        return unseen(auditor)
    num = Window(stand_in.single, seen_of(auditor(original(stand_in.z))), convex.num.first, convex.num.second, 0, 1)
    here = Window(den.single, seen_of(auditor(original(den.z))), convex.den.first, convex.den.second, 0, 1)
    twice = num.score + past if auditor.shared else num.score
    (stood, own), live = left_over(num, here, half, twice)
    rate = float(convex.num.second.sum())  # kappa / 2c, of all rows together
    bent = rate * sums.crossed.T + np.asarray((here.rows * here.bend[:, None]).T @ here.seen.values, dtype=np.float64)
    slopes = half.T @ (half @ bent)
    means = sums.watched - sums.moments.mean @ slopes
    products = sums.crossed - slopes.T @ sums.moments.gram
    before = -rate * (fit.c * means - products @ fit.coef)
    now = sum_of(here.seen.values, here.score) - den.pull(here.score) @ slopes
    sides = [stood.side, own.side]
    live = live[np.min([_carriers(side) for side in sides], 0)[live] > _SUPPORT]
    closed = auditor._replace(
        score=auditor.score + before + now,
        variance=auditor.variance + stood.variance,
        shared=True,
        steps=auditor.steps + 1,
    )
    found = chance(closed.score, closed.variance + own.variance, live, sides)
    return closed._replace(since=closed.since or (closed.steps if found < LEVEL else 0))


def _carriers(side: Side) -> Floats:
    """Return the effective rows that carry the score of each function, (k,).

    A function that few rows of the new window show may be shown by many more of the numerator's, which are not at hand:
    its scatter is not known.
    """
    square = np.square(side.pulled(slice(None)), dtype=np.float64)
    return np.asarray(np.square(square.sum(0)) / np.maximum(np.square(square).sum(0), 1e-300))
