"""The auditor where rows are not kept: the numerator's scores come from sums of its functions and their products.

Of the numerator a score needs :math:`E[f]` and :math:`E[fT^\\top]`, since the weight of its rows is linear in T. How
much scores scatter is asked of the rows that stand in for the numerator's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from driftline._inputs import Floats
from driftline.fitting import ConvexFit, LogLinearDesign, SumsFit, chunks, half_inverse
from driftline.inference import Dependence
from driftline.recursion._auditor import Auditor, to_digits, unseen
from driftline.recursion._chance import LEVEL, chance
from driftline.recursion._kept import Sums
from driftline.recursion._sides import (
    Side,
    SideSums,
    Singles,
    Window,
    left_over,
    seen_of,
    side_of,
    sum_of,
    variance_of,
)

__all__ = ["Look", "affords", "watched", "watched_step"]

_SUPPORT = 100.0  # effective rows that carry the score of a function, at least
_EACH = 2.0  # numbers in a window's rows for each of its sums


def affords(auditor: Auditor, rows: Floats, parameters: int) -> bool:
    """Say whether a window's rows (n, D) hold so many more numbers than are kept that the sums do not reveal them."""
    kept = parameters * (0.5 * (parameters + 1) + len(auditor.mean))
    return rows.size >= _EACH * kept


def watched(
    auditor: Auditor | None,
    design: LogLinearDesign,
    original: Callable[[Floats], Floats],
    seen: Singles | None = None,
) -> tuple[Floats, Singles]:
    """Return the means of the auditor's functions over a window (k,), and of their products with features (k, p+1).

    ``original`` maps a design's rows to the coordinates of the original, ``seen`` are the functions' values if they
    have been made. Both are empty where the rows are too few.
    """
    n, p = design.shape
    if auditor is None or not affords(auditor, design.z, p):
        return np.zeros(0), np.zeros((0, p), dtype=np.float32)
    means, products = np.zeros(len(auditor.mean)), np.zeros((len(auditor.mean), p))
    for at in chunks(n):
        values = (auditor(original(design.z[at])) if seen is None else seen[at]).astype(np.float64)
        means += values.sum(0)
        products += values.T @ design.take(at.start, min(at.stop, n), 1)
    return means / n, (products / n).astype(np.float32)


class Look(NamedTuple):
    """What the auditor is shown of a step.

    Attributes:
        stand_in, den: designs of the rows that stand in for the numerator's, and of the denominator's.
        values_num, values_den: values of the auditor's functions for both.
        past: scores of the stand-in as the denominator of the step before.
        depend: how the denominator's rows depend on each other.
    """

    stand_in: LogLinearDesign
    den: LogLinearDesign
    values_num: Singles
    values_den: Singles
    past: Floats
    depend: Dependence


def watched_step(auditor: Auditor, sums: Sums, fit: SumsFit, convex: ConvexFit, look: Look) -> Auditor:
    """Show the auditor a step.

    Arguments:
        sums: those of the numerator.
        fit: fit of the step.
        convex: the same with the derivatives of the rows that stand in for the numerator's, and of the denominator's.
        look: designs and functions of both.
    """
    half = half_inverse(convex.hessian)
    if half is None or not len(sums.watched):
        return unseen(auditor)
    num = Window(look.stand_in.single, seen_of(look.values_num), convex.num.first, convex.num.second, 0, 1)
    here = Window(look.den.single, seen_of(look.values_den), convex.den.first, convex.den.second, 0, 1)
    twice = num.score + look.past if auditor.shared else num.score
    (stood, own), live = left_over(num, here, half, twice)
    rate = float(convex.num.second.sum())  # kappa / 2c, of all rows together
    bent = rate * sums.crossed.T + np.asarray((here.rows * here.bend[:, None]).T @ here.seen.values, dtype=np.float64)
    slopes = half.T @ (half @ bent)
    means = sums.watched - sums.moments.mean @ slopes
    products = sums.crossed - slopes.T @ sums.moments.gram
    before = -rate * (fit.c * means - products @ fit.coef)
    now = sum_of(here.seen.values, here.score) - look.den.pull(here.score) @ slopes
    own_side, own_variance = _own(own, here.score, look.depend)
    sides = [stood.side, own_side]
    live = live[np.min([_carriers(side) for side in sides], 0)[live] > _SUPPORT]
    closed = auditor._replace(
        score=auditor.score + before + now,
        variance=to_digits(auditor.variance + sums.worth * stood.variance),
        shared=True,
        steps=auditor.steps + 1,
    )
    found = chance(closed.score, closed.variance + own_variance, live, sides)
    return closed._replace(since=closed.since or (closed.steps if found < LEVEL else 0))


def _own(sums: SideSums, score: Floats, depend: Dependence) -> tuple[Side, Floats]:
    """Return the side of a window whose rows are at hand, and its covariance; copies of a row are one."""
    if depend.repeats is None and not depend.lag:
        return sums.side, sums.variance
    rest = sums.side.rest(slice(None))
    if depend.repeats is not None:
        rest, score = rest[depend.repeats.first], depend.merged(score)
    side = side_of(rest, score, depend.lag)
    return side, variance_of(side)


def _carriers(side: Side) -> Floats:
    """Return the effective rows that carry the score of each function, (k,).

    A function that few rows of the new window show may be shown by many more of the numerator's, which are not at hand:
    its scatter is not known.
    """
    square = np.square(side.pulled(slice(None)))
    total = np.ones(len(square), dtype=np.float32) @ square
    fourth = np.einsum("ij,ij->j", square, square)
    return np.asarray(np.square(total.astype(np.float64)) / np.maximum(fourth, 1e-30), dtype=np.float64)
