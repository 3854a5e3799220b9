"""Steps that keep sums instead of rows: the fit, its error bars, and all that must be read while a window is at hand.

The fit needs sums of the numerator alone. Whatever else a step asks of the numerator's rows, how much they scatter and
how far they overlap, is asked of the new window's rows, drawn in proportion to the step ratio, which have its law: a
*stand-in*. What looks for drift that the model misses must not be asked of it, since the model made it: the auditor
takes the numerator's scores from sums, and the floor counts rows.
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
    find_repeats,
    fit_features,
    fit_standardizer,
    fit_sums,
    linear_scores,
    log_mean_exp,
    part_of,
    sums_of_window,
    weigh,
)
from driftline.inference import (
    NO_GAIN,
    UNSUPPORTED,
    Dependence,
    Doubt,
    DoubtCode,
    Forward,
    Uncertainty,
)
from driftline.recursion._auditor import Auditor, start_auditor
from driftline.recursion._diagnostics import OriginalInfo, diagnose
from driftline.recursion._doubts import WEAK, carried
from driftline.recursion._floor import counted, started
from driftline.recursion._frames import follow_sums, place_of
from driftline.recursion._kept import Readings, Sums, reading_keys
from driftline.recursion._log_linear import check_extremes, informed, same_kind, start_features
from driftline.recursion._problem import plain_prior
from driftline.recursion._quantities import divergence, weights
from driftline.recursion._rare import few_of, heaps
from driftline.recursion._rows import Curved, depends, reach
from driftline.recursion._settings import NEWTON_FEATURES, StepSettings
from driftline.recursion._state import Anchor, Step, Track
from driftline.recursion._watched import affords, watched, watched_step

__all__ = ["LARGE", "SUMMED", "depends_of", "start_sums", "step_sums", "two_valued", "with_doubts"]

SUMMED = ("linear", "quadratic", "quadratic-full")
"""Models that can do with sums."""
_EACH = 10  # rows for each parameter: sums of fewer would nearly be rows
_WIDE = 1.2  # standard deviation of a step's log-ratio in the numerator: beyond, the ratio begins to be biased
LARGE = 1.5
"""Nats of a step beyond which it is not measured."""
_AUDITED = 200  # rows of an original, as where rows are kept
_PAIRS = 400  # rows of each window that effects of pairs are estimated from


def start_sums(samples: Floats, settings: StepSettings, tau: int) -> Track:
    """Begin to trace an original, of whose rows nothing but sums is kept."""
    standardizer = fit_standardizer(samples)
    z = standardizer(samples)
    features = _features(z, settings)
    _check_rows(len(samples), features.size + 1, "the original")
    psi = LogLinear(standardizer, features, np.zeros(features.size))
    depend = depends_of(samples, Curved(z), settings)
    auditor = start_auditor(z, None, depend, seed=settings.seed) if len(z) >= _AUDITED else None
    if auditor is not None and not affords(auditor, z, features.size + 1):
        auditor = None
    design = LogLinearDesign(features, z)
    sums = _summed(design, samples, psi, auditor, depend)
    anchor = Anchor(psi, 0.0, samples[:0].copy(), auditor=auditor, sums=sums)
    return Track(tau, anchor, anchor, np.zeros(0), 0, partitions=started(samples, depend))


def step_sums(track: Track, window: Floats, settings: StepSettings, t: int) -> tuple[Track, OriginalInfo]:
    """Advance to a window, read all that may be asked of it, and keep its sums alone."""
    before = track.anchor.psi
    if track.anchor.sums is None or not (isinstance(before, LogLinear) and same_kind(before.features, settings.model)):
        raise ValueError(
            "with keep='sums' the model stays as it was at the start, and rows cannot become sums on the way: begin "
            "again with fit"
        )
    check_extremes(track.anchor.psi.standardizer, window)
    anchor, z_den = follow_sums(track.anchor, window)
    psi, sums = anchor.psi, anchor.sums
    assert isinstance(psi, LogLinear)
    assert sums is not None
    _check_rows(len(window), psi.features.size + 1, "the window")
    den = LogLinearDesign(psi.features, z_den)
    fit = _fit(sums, den, psi.features, window, settings)
    depend = depends_of(window, Curved(den.live, len(psi.features.squares) if psi.features.curved else None), settings)
    taken, stand_in = _taken(anchor, window, den, fit, depend, settings)
    held = depend.endless and not sums.dependent
    reason = "held: rows of this window depend on each other too much for a step to start from" if held else ""
    info = with_doubts(diagnose(stand_in, taken, not held, reason, depend, settings.names), taken, fit, depend, sums)
    now = track._replace(
        current=taken.anchor,
        step_log_ratio=taken.log_den,
        held=track.held + 1 if held else 0,
        gain=NO_GAIN,
        partitions=counted(track.partitions, window, depend),
        doubts=info.doubts,
    )
    weak = any(doubt.code in WEAK for doubt in carried(now, of_step=True))
    large = any(doubt.code == DoubtCode.LARGE_STEP for doubt in info.doubts)
    now = now._replace(weak=track.weak or t * weak, large=track.large or t * large)
    readings = _read(now, den, depend, large=taken.divergence > LARGE)
    bare = _bare(taken.anchor, _summed(den, window, psi, taken.anchor.auditor, depend, fit, sums))
    return now._replace(
        anchor=track.anchor if held else bare, current=bare, step_log_ratio=np.zeros(0), readings=readings
    ), info


def _features(z: Floats, settings: StepSettings) -> Features:
    """Return the features, all of them from the start: sums of what joins later are not known."""
    if settings.model == "quadratic-full":
        features = start_features(z, settings.model)
    else:
        features = fit_features(z, squares=settings.model == "quadratic")
    if features.size >= NEWTON_FEATURES:
        raise ValueError(
            f"keep='sums' is for fewer than {NEWTON_FEATURES} features, model={settings.model!r} has {features.size} "
            "of them: take a smaller model or fewer columns, or keep='rows'"
        )
    return features


def _check_rows(rows: int, parameters: int, what: str) -> None:
    if rows < _EACH * parameters:
        raise ValueError(
            f"{what} has {rows} rows, and keep='sums' needs {_EACH * parameters}, {_EACH} for each of {parameters} "
            "parameters, since sums of fewer rows would reveal them: enlarge the windows, take fewer columns or "
            "model='linear', or keep='rows'"
        )


def depends_of(x: Floats, rows: Curved, settings: StepSettings) -> Dependence:
    """Return whether rows repeat or depend on each other, as a window without end: of sums, no error is then known."""
    repeats = find_repeats(x)
    lag = reach(rows, settings, repeats)
    if lag == 0 and repeats is None:
        return Dependence()
    found = depends(rows, lag, repeats, settings)
    return Dependence(0, None, found.time * found.worth, endless=True)


def _summed(
    design: LogLinearDesign,
    x: Floats,
    psi: LogLinear,
    auditor: Auditor | None,
    depend: Dependence,
    fit: SumsFit | None = None,
    before: Sums | None = None,
) -> Sums:
    """Return the sums of a window; ``fit`` is that of the step it was the denominator of, ``before`` its numerator."""
    center, spread = place_of(design.z)
    shift, rate, heap = psi.standardizer.shift, psi.standardizer.rate, heaps(x)
    means, products = watched(auditor, design, psi.standardizer.original)
    size = design.shape[1]
    return Sums(
        moments=sums_of_window(design),
        coef=np.zeros(size) if fit is None else fit.coef,
        c=3.0 if fit is None else fit.c,
        kappa=0.0 if before is None else weigh(before.moments.rows, len(x)),
        heap=heap,
        off=np.asarray((x != heap).sum(0), dtype=np.float64),
        center=center * rate + shift,
        spread=spread * rate,
        watched=means,
        crossed=products,
        dependent=depend.endless,
    )


def _fit(sums: Sums, den: LogLinearDesign, features: Features, window: Floats, settings: StepSettings) -> SumsFit:
    """Fit the increment."""
    rows = sums.moments.rows + len(window)
    ridge, _ = plain_prior(features, _off_heap(sums, window), rows)
    both = two_valued(sums, features)
    ridge[both] = np.where(ridge[both] > 1.0, 2.0 * ridge[both], ridge[both])
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


def _off_heap(sums: Sums, window: Floats) -> Floats:
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


def _taken(
    anchor: Anchor, window: Floats, den: LogLinearDesign, fit: SumsFit, depend: Dependence, settings: StepSettings
) -> tuple[Step, Anchor]:
    """Return the step, and its anchor with rows that stand in for those of its window."""
    psi, sums, past = anchor.psi, anchor.sums, anchor.uncertainty
    assert isinstance(psi, LogLinear)
    assert sums is not None
    u, m = den.dot(fit.coef), len(window)
    kappa = weigh(sums.moments.rows, m)
    stand = _stand_in(sums, den, u, fit, kappa)
    scores = Scores(*(part * (kappa / m) for part in linear_scores(u, fit.c)))
    convex = ConvexFit(fit.coef, fit.hessian, stand.scores, scores, fit.info, fit.weight, stand.log_r, u)
    past = None if past is None else past._replace(score=stand.past)
    events = few_of(_off_heap(sums, window)[psi.features.linear], sums.moments.rows + m)
    before = Dependence(endless=sums.dependent)
    errors = inference.advance(past, stand.design, stand.design, den, convex, before, depend, events)
    if past is None:
        errors = _from_original(errors, sums)
    info = fit.info._replace(held_out=fit.info.loss + inference.optimism(errors))
    coef, normalizer = psi.coef + fit.coef[:-1], anchor.log_normalizer - float(fit.coef[-1])
    forward = Forward(
        float(coef @ errors.mean) - normalizer, float(coef @ errors.origin_spread[:-1, :-1] @ coef), anchor.forward.rows
    )
    arrived = Anchor(psi._replace(coef=coef), normalizer, window, errors, forward=forward, design=den, rows=depend)
    arrived = arrived._replace(known=arrived.on_window())
    if anchor.auditor is not None:
        auditor = watched_step(
            anchor.auditor, sums, fit, convex, den, stand.design, stand.past, psi.standardizer.original
        )
        arrived = arrived._replace(auditor=auditor)
    taken = Step(arrived, info, stand.log_r, u, normalizer, informed(convex))
    return taken, anchor._replace(window=window[stand.places], design=stand.design, known=None, rows=before, sums=None)


def _from_original(errors: Uncertainty, sums: Sums) -> Uncertainty:
    """Return errors with what is known exactly of the original: its means, and their covariance."""
    mean, gram, rows = sums.moments.mean, sums.moments.gram, sums.moments.rows
    spread = inference.mirrored((gram - np.outer(mean, mean)) / rows)
    return errors._replace(mean=mean[:-1].copy(), origin_spread=spread)


def with_doubts(info: OriginalInfo, taken: Step, fit: SumsFit, depend: Dependence, before: Sums) -> OriginalInfo:
    """Return diagnostics with the doubts that sums bring with them."""
    size, doubts = taken.divergence, list(info.doubts)
    if size > LARGE:
        sentence = (
            f"the step of {size:.3g} nats is too large for keep='sums', which measures up to {LARGE}: take smaller "
            "steps, or keep='rows'"
        )
        doubts = [Doubt(DoubtCode.LITTLE_OVERLAP, sentence), *(d for d in doubts if d.code != DoubtCode.LITTLE_OVERLAP)]
    elif fit.spread > _WIDE:
        sentence = (
            f"the step is large for keep='sums' and read too low (its log-ratio has a standard deviation of "
            f"{fit.spread:.3g}, {_WIDE} is the most that is measured well): take smaller steps, or keep='rows'"
        )
        doubts.append(Doubt(DoubtCode.LARGE_STEP, sentence))
    if (
        depend.endless
        or before.dependent
        or (taken.anchor.uncertainty and taken.anchor.uncertainty.slack < UNSUPPORTED)
    ):
        which = "of this window" if depend.endless else "of the window before, or of the original,"
        sentence = (
            f"rows {which} repeat or depend on each other, and sums do not show how much, so there is no interval: "
            "shuffle rows that have no order, set lag=0 if you know that they are independent, or keep='rows'"
        )
        doubts = [d for d in doubts if d.code != DoubtCode.DEPENDENT_ROWS]
        doubts.insert(0, Doubt(DoubtCode.DEPENDENT_ROWS, sentence))
    return info._replace(doubts=tuple(doubts))


def _read(track: Track, den: LogLinearDesign, depend: Dependence, *, large: bool) -> Readings:
    """Read all that may be asked of the window later."""
    current, estimates = track.current, {}
    for of_step, kind, level in reading_keys():
        found = divergence(track, kind, level, of_step=of_step)
        estimates[of_step, kind, level] = inference.withheld(found) if large else found  # the floor holds all the same
    assert isinstance(current.psi, LogLinear)
    assert current.uncertainty is not None
    log_r = current.on_window()
    own = inference.own_part(current.psi.coef, current.uncertainty, den, log_r, depend)
    bare = track._replace(doubts=(), weak=0, missed=0)
    carried_anyway = {doubt.code for doubt in carried(bare, of_ratio=True)}
    doubts = tuple(d for d in weights(bare, current.window[:1]).doubts if d.code not in carried_anyway)
    return Readings(estimates, float(log_mean_exp(log_r)), doubts, own, large)


def _bare(anchor: Anchor, sums: Sums) -> Anchor:
    """Return the anchor without rows, and without anything that has an entry for each of them."""
    assert anchor.uncertainty is not None
    return anchor._replace(
        window=np.zeros((0, anchor.window.shape[1])),
        uncertainty=anchor.uncertainty._replace(score=np.zeros(0)),
        sums=sums,
        design=None,
        known=None,
        rows=None,
        seen=None,
    )
