"""The fit of a step by sums, and its error bars.

The fit needs sums of the numerator alone. Whatever else a step asks of the numerator's rows, how much they scatter and
how far they overlap, is asked of the new window's rows, drawn in proportion to the step ratio, which have its law: a
*stand-in*. Far rows, which it lacks, are made up for by the numerator's own sums. What looks for drift that the model
misses must not be asked of it, since the model made it: the auditor takes the numerator's scores from sums, and the
floor counts rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from driftline import inference
from driftline._inputs import Floats
from driftline.fitting import (
    ConvexFit,
    Features,
    Integers,
    LogLinear,
    LogLinearDesign,
    Scores,
    SumsFit,
    fit_sums,
    linear_scores,
    part_of,
    weigh,
)
from driftline.inference import (
    Dependence,
    Forward,
    Told,
    Uncertainty,
)
from driftline.recursion._auditor import Singles
from driftline.recursion._kept import Sums
from driftline.recursion._log_linear import informed
from driftline.recursion._problem import EFFECT, plain_prior
from driftline.recursion._rare import few_of
from driftline.recursion._settings import StepSettings
from driftline.recursion._state import Anchor, Step
from driftline.recursion._watched import Look, watched_step

__all__ = ["fitted", "forward_of", "of_numerator", "taken_by", "told_of", "two_valued"]

_PAIRS = 400  # rows of each window that effects of pairs are estimated from


def fitted(sums: Sums, den: LogLinearDesign, features: Features, window: Floats, settings: StepSettings) -> SumsFit:
    """Fit the increment."""
    rows = sums.moments.rows + len(window)
    ridge, _ = plain_prior(features, off_heap(sums, window), rows)
    both = two_valued(sums, features)
    ridge[both] = np.where(ridge[both] > 1.0, 2.0 * ridge[both], ridge[both])
    learned = sum(other.size for other in features.others)
    if learned:  # of the numerator, the largest effect on a row is not known
        ridge[-1 - learned : -1] = np.maximum(1.0, np.square(den.top / EFFECT))
    return fit_sums(sums.moments, lambda *at: part_of(den, *at), float(len(window)), settings.ridge * ridge)


def two_valued(sums: Sums, features: Features) -> Integers:
    """Return the places of columns with two values in the numerator, or one, and of their squares.

    Where rows are kept, such a square is left out. Here the two share a coefficient, and a prior on the effect of an
    event is worth half: it is to be doubled.
    """
    spread = sums.moments.gram - np.outer(sums.moments.mean, sums.moments.mean)
    squares = len(features.linear) + np.arange(len(features.squares))
    lines = np.searchsorted(features.linear, features.squares)
    own = spread[lines, lines] * spread[squares, squares]
    same = np.square(spread[lines, squares]) >= (1.0 - 1e-9) * own
    return np.concatenate([lines[same], squares[same]])


def off_heap(sums: Sums, window: Floats) -> Floats:
    """Count the rows of both windows that do not hold the most common value of a column; (D,)."""
    rows = sums.moments.rows + len(window)
    other = np.asarray((window != sums.heap).sum(0), dtype=np.float64)
    both = sums.off + other
    return np.where(np.isfinite(sums.heap) & (both < 0.5 * rows), both, rows)


class _StandIn(NamedTuple):
    """Rows of the new window drawn in proportion to the step ratio: their design, log-ratios and derivatives."""

    design: LogLinearDesign
    places: Floats
    log_r: Floats
    scores: Scores
    past: Floats


def _stand_in(sums: Sums, den: LogLinearDesign, u: Floats, fit: SumsFit, kappa: float) -> _StandIn:
    """Draw as many rows as the numerator had, spread evenly over the shares that the rows of the new window have.

    ``past`` are the scores that they would have had as the denominator of the step before, (n,).
    """
    n = int(sums.moments.rows)
    share = np.cumsum(np.exp(u - u.max()))
    places = np.searchsorted(share, (np.arange(n) + 0.5) / n * share[-1])
    # effects of pairs are estimated from some rows of each window: these should not be the same ones
    places = np.roll(np.minimum(places, len(u) - 1), -(max(1, n // _PAIRS) // 2))
    log_r, rate = u[places], kappa / (2.0 * fit.c * n)
    design = den.pick(places)
    scores = Scores(-rate * (fit.c - log_r), np.full(n, rate), np.zeros(n))
    past = linear_scores(design.dot(sums.coef), sums.c).first * (sums.kappa / n)
    return _StandIn(design, places, log_r, scores, past)


def of_numerator(sums: Sums) -> Dependence:
    """Return how the rows of a window depended on each other, of which sums are left."""
    swell = sums.swell if sums.worth > 1.0 else None
    return Dependence(0, None, sums.time, sums.dependent, swell, sums.copies)


def told_of(sums: Sums, kappa: float) -> Told:
    """Return what sums say of a numerator's scores in both roles; ``kappa`` is the factor of the step that it is in."""
    n = sums.moments.rows
    return Told(sums.moments.gram, sums.scored, sums.squared, n, sums.kappa / n, kappa / (2.0 * n))


def forward_of(arrived: Anchor) -> Forward:
    """Return KL(original‖current) by the original's means of features."""
    psi, errors = arrived.psi, arrived.uncertainty
    assert isinstance(psi, LogLinear)
    assert errors is not None
    spread = float(psi.coef @ errors.origin_spread[:-1, :-1] @ psi.coef)
    return Forward(float(psi.coef @ errors.mean) - arrived.log_normalizer, spread, arrived.forward.rows)


def taken_by(
    anchor: Anchor,
    window: Floats,
    den: LogLinearDesign,
    fit: SumsFit,
    depend: Dependence,
    settings: StepSettings,
    seen: Singles | None,
) -> tuple[Step, Anchor]:
    """Return the step, and its anchor with rows that stand in for those of its window.

    ``seen`` are values of the auditor's functions for the window's rows.
    """
    psi, sums, past = anchor.psi, anchor.sums, anchor.uncertainty
    assert isinstance(psi, LogLinear)
    assert sums is not None
    u, m = den.dot(fit.coef), len(window)
    kappa = weigh(sums.moments.rows, m)
    stand = _stand_in(sums, den, u, fit, kappa)
    scores = Scores(*(part * (kappa / m) for part in linear_scores(u, fit.c)))
    convex = ConvexFit(fit.coef, fit.hessian, stand.scores, scores, fit.info, fit.weight, stand.log_r, u)
    past = None if past is None else past._replace(score=stand.past)
    events = few_of(off_heap(sums, window)[psi.features.linear], sums.moments.rows + m)
    before = of_numerator(sums)
    here = depend
    if depend.lag:
        here = depend._replace(swell=inference.swelling(den, depend) / depend.worth)
    told = None if past is None else told_of(sums, kappa)
    errors = inference.advance(past, *(stand.design,) * 2, den, convex, before, here, events, centred=True, told=told)
    if past is None:
        errors = _from_original(errors, sums)
    info = fit.info._replace(held_out=fit.info.loss + inference.optimism(errors))
    coef, normalizer = psi.coef + fit.coef[:-1], anchor.log_normalizer - float(fit.coef[-1])
    arrived = Anchor(psi._replace(coef=coef), normalizer, window, errors, forward=anchor.forward, design=den)
    arrived = arrived._replace(lag=depend.lag, rows=depend, forward=forward_of(arrived))
    arrived = arrived._replace(known=arrived.on_window())
    if anchor.auditor is not None and seen is not None:
        look = Look(stand.design, den, seen[stand.places], seen, stand.past, depend)
        arrived = arrived._replace(auditor=watched_step(anchor.auditor, sums, fit, convex, look))
    taken = Step(arrived, info, stand.log_r, u, normalizer, informed(convex))
    return taken, anchor._replace(window=window[stand.places], design=stand.design, known=None, rows=before, sums=None)


def _from_original(errors: Uncertainty, sums: Sums) -> Uncertainty:
    """Return errors with what is known exactly of the original: its means, and their covariance."""
    mean, gram, rows = sums.moments.mean, sums.moments.gram, sums.moments.rows
    root = np.sqrt(sums.swell)
    spread = inference.mirrored((gram - np.outer(mean, mean)) / rows * root * root[:, None])
    return errors._replace(mean=mean[:-1].copy(), origin_spread=spread)
