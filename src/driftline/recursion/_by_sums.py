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
from driftline._wording import counted as tally
from driftline.fitting import (
    ConvexFit,
    Features,
    Integers,
    LogLinear,
    LogLinearDesign,
    Scores,
    Summary,
    SumsFit,
    find_repeats,
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
    Told,
    Uncertainty,
    largest,
)
from driftline.recursion._auditor import Auditor, Singles, renewed, start_auditor
from driftline.recursion._candidates import NOTHING, Candidates, fixed
from driftline.recursion._diagnostics import OriginalInfo, diagnose
from driftline.recursion._doubts import WEAK, carried, doubted
from driftline.recursion._floor import counted, started
from driftline.recursion._frames import follow_sums, place_of
from driftline.recursion._joining import Joined, joined
from driftline.recursion._kept import Readings, Sums, between, reading_keys
from driftline.recursion._log_linear import check_extremes, informed, same_kind, start_features, summary_of
from driftline.recursion._narrow import narrowed
from driftline.recursion._problem import EFFECT, plain_prior
from driftline.recursion._quantities import Known, divergence, weights
from driftline.recursion._rare import few_of, heaps
from driftline.recursion._reading import moderated
from driftline.recursion._rows import Curved, depends, reach
from driftline.recursion._settings import NEWTON_FEATURES, StepSettings
from driftline.recursion._state import Anchor, Step, Track
from driftline.recursion._watched import Look, affords, watched, watched_step

__all__ = [
    "LARGE",
    "SUMMED",
    "FewForSumsError",
    "depends_of",
    "rows_for_sums",
    "start_sums",
    "step_sums",
    "told_of",
    "two_valued",
    "with_doubts",
]

SUMMED = ("auto", "linear", "quadratic", "quadratic-full")
"""Models that can do with sums."""
_EACH = 10  # rows for each parameter: sums of fewer would nearly be rows
_WIDE = 1.2  # standard deviation of a step's log-ratio in the numerator: beyond, the ratio begins to be biased
LARGE = 1.5
"""Nats of a step beyond which it is not measured."""
_AUDITED = 200  # rows of an original, as where rows are kept
_CLUSTERED = 6  # features for each column at the start, with those of clusters: a file grows with their square
_FEWER = (
    {"shapes": True, "clusters": True},
    {"shapes": False, "clusters": True},
    {"shapes": False, "clusters": False},
)
_WITHOUT = (
    "features joined after this step was fitted: what they have moved by in it is not read; the divergence from the "
    "original has all of it"
)
_LEFT = (
    "products or hinges of columns have moved since the original and could not join: if they moved in this step, that "
    "is not read"
)
_PAIRS = 400  # rows of each window that effects of pairs are estimated from


class FewForSumsError(ValueError):
    """A window has so few rows that their sums would nearly be the rows."""


def rows_for_sums(model: str, columns: int) -> int:
    """Return the least number of rows of a window of which sums are kept; ``columns`` are all, constant ones too.

    >>> rows_for_sums("linear", 4), rows_for_sums("quadratic", 4), rows_for_sums("quadratic-full", 4)
    (50, 90, 150)
    """
    features = {"linear": columns, "quadratic-full": columns * (columns + 3) // 2}.get(model, 2 * columns)
    return _EACH * (features + 1)


def start_sums(samples: Floats, settings: StepSettings, tau: int) -> Track:
    """Begin to trace an original, of whose rows nothing but sums is kept."""
    psi, summary = _first(samples, settings)
    z, features = psi.standardizer(samples), psi.features
    _check_rows(len(samples), features.size + 1, "the original")
    depend = depends_of(samples, Curved(z), settings)
    density = None if summary is None else summary.density
    auditor = start_auditor(z, density, depend, seed=settings.seed) if len(z) >= _AUDITED else None
    if auditor is not None and not affords(auditor, z, features.size + 1):
        auditor = None
    design = LogLinearDesign(features, z)
    candidates = fixed(z, features, depend) if settings.model == "auto" else NOTHING
    sums = _summed(design, samples, psi, auditor, depend, candidates)
    anchor = Anchor(psi, 0.0, samples[:0].copy(), lag=depend.lag, auditor=auditor, sums=sums)
    return Track(tau, anchor, anchor, np.zeros(0), 0, partitions=started(samples, depend))


def step_sums(track: Track, window: Floats, settings: StepSettings, t: int) -> tuple[Track, OriginalInfo]:
    """Advance to a window, read all that may be asked of it, and keep its sums alone."""
    if not _goes_on(track.anchor, settings):
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
    seen = None if anchor.auditor is None else anchor.auditor(psi.standardizer.original(den.z))
    taken, stand_in = _taken(anchor, window, den, fit, depend, settings, seen)
    large = taken.divergence > LARGE
    further = Joined(taken.anchor)
    if not large and taken.fit.converged:
        further = joined(taken.anchor, sums.candidates, depend, settings)
        taken = _after(anchor, taken, further, depend)
    held = _holds(sums, depend, taken)
    reason = "held: rows of this window are too few or too dependent for a step to start from" if held else ""
    reasons = "; ".join(filter(None, [reason, further.note]))
    info = diagnose(stand_in, taken, not held, reasons, depend, settings.names)
    info = with_doubts(info, taken, fit, narrowed(sums.moments, fit.coef, psi.features, settings.names))
    info = _with_left(info, further.left)
    now = track._replace(
        current=taken.anchor,
        step_log_ratio=taken.log_den,
        held=track.held + 1 if held else 0,
        gain=NO_GAIN,
        partitions=counted(track.partitions, window, depend),
        doubts=info.doubts,
    )
    weak = any(doubt.code in WEAK for doubt in carried(now, of_step=True))
    doubtful = any(doubt.code == DoubtCode.LARGE_STEP for doubt in info.doubts)
    now = now._replace(weak=track.weak or t * weak, large=track.large or t * doubtful)
    readings = _read(now, further, sums.hidden, depend, large=large, drawn=settings.model == "auto")
    kept = _kept(taken.anchor, window, depend, fit, anchor, seen)._replace(
        hidden=np.array([further.hidden, further.spread])
    )
    bare = _bare(taken.anchor, kept)
    return now._replace(
        anchor=track.anchor if held else bare, current=bare, step_log_ratio=np.zeros(0), readings=readings
    ), info


def _goes_on(anchor: Anchor, settings: StepSettings) -> bool:
    """Say whether sums are there, of the model that is asked for."""
    psi, sums = anchor.psi, anchor.sums
    if sums is None or not isinstance(psi, LogLinear):
        return False
    return (sums.candidates.rows > 0.0) == (settings.model == "auto") and (
        settings.model == "auto" or same_kind(psi.features, settings.model)
    )


def _after(anchor: Anchor, taken: Step, further: Joined, depend: Dependence) -> Step:
    """Return the step with features that have joined after it; the auditor looks at where they lead."""
    if not further.note:
        return taken
    arrived, auditor = further.anchor, anchor.auditor
    psi, errors, design = arrived.psi, arrived.uncertainty, arrived.own_design()
    assert isinstance(psi, LogLinear)
    assert errors is not None
    if auditor is not None:
        means, known = np.append(errors.mean, 1.0), np.append(errors.known, True)
        z = psi.standardizer.original(design.z)
        auditor = renewed(auditor, z, arrived.on_window(), design.single, means, known, depend)
    arrived = arrived._replace(auditor=auditor)
    arrived = arrived._replace(forward=_forward(arrived))
    return taken._replace(anchor=arrived, telescoped=arrived.log_normalizer, note=further.note)


def _holds(sums: Sums, depend: Dependence, taken: Step) -> bool:
    """Say whether a window's rows are too few or dependent for a step to start from, and those before it are not."""
    errors, before = taken.anchor.uncertainty, _of_numerator(sums)
    assert errors is not None
    if errors.slack > UNSUPPORTED:
        return False
    size = len(errors.bias)
    return before.supports(int(sums.moments.rows), size) and not depend.supports(taken.anchor.size, size)


def _first(samples: Floats, settings: StepSettings) -> tuple[LogLinear, Summary | None]:
    """Return psi where tracing begins, and the summary that its shapes of columns and features of clusters are from.

    Where features would be too many for the rows, or for a small file, shapes of clusters go first, then clusters, and
    shapes of columns last.
    """
    standardizer, repeats = fit_standardizer(samples), find_repeats(samples)
    rows = samples if repeats is None else samples[repeats.first]
    summary = summary_of(standardizer(rows), settings)
    for options in _FEWER if summary is not None else ():
        assert summary is not None
        mapped = standardizer._replace(scores=summary.scores)
        features = _features(mapped(rows), settings, summary, **options)
        small = not options["clusters"] or features.size <= _CLUSTERED * rows.shape[1]
        if small and len(samples) >= _EACH * (features.size + 1):
            return LogLinear(mapped, features, np.zeros(features.size)), summary
    features = _features(standardizer(rows), settings, None)
    return LogLinear(standardizer, features, np.zeros(features.size)), None


def _features(z: Floats, settings: StepSettings, summary: Summary | None, **options: bool) -> Features:
    """Return the features of a start: columns that do not vary yet are among them, since sums know of no new ones."""
    features = start_features(z, settings.model, summary, sparing=False, **options)
    if features.size >= NEWTON_FEATURES:
        raise ValueError(
            f"keep='sums' is for fewer than {NEWTON_FEATURES} features, model={settings.model!r} has {features.size} "
            "of them: take a smaller model or fewer columns, or keep='rows'"
        )
    return features


def _check_rows(rows: int, parameters: int, what: str) -> None:
    if rows < _EACH * parameters:
        raise FewForSumsError(
            f"{what} has {rows} rows, and keep='sums' needs {_EACH * parameters}, {_EACH} for each of {parameters} "
            "parameters, since sums of fewer rows would reveal them: enlarge the windows, take fewer columns or "
            "model='linear', or keep='rows'"
        )


def depends_of(x: Floats, rows: Curved, settings: StepSettings) -> Dependence:
    """Return whether rows, which are at hand, repeat or depend on each other."""
    repeats = find_repeats(x)
    return depends(rows, reach(rows, settings, repeats), repeats, settings)


def _kept(
    arrived: Anchor, window: Floats, depend: Dependence, fit: SumsFit, before: Anchor, seen: Singles | None
) -> Sums:
    """Return the sums of a window after a step from an anchor; ``seen`` are values of the auditor's functions."""
    psi, design, sums = arrived.psi, arrived.own_design(), before.sums
    assert isinstance(psi, LogLinear)
    assert isinstance(before.psi, LogLinear)
    assert sums is not None
    found = _summed(design, window, psi, arrived.auditor, depend, sums.candidates, seen)
    at, coef = before.psi.features.positions(psi.features), np.zeros(design.shape[1])
    coef[np.append(at, len(coef) - 1)] = fit.coef
    first = linear_scores(design.dot(coef), fit.c).first / len(window)
    return found._replace(
        coef=coef,
        c=fit.c,
        kappa=weigh(sums.moments.rows, len(window)),
        scored=design.gram(first).astype(np.float32),
        squared=design.gram(len(window) * first * first).astype(np.float32),
    )


def _summed(
    design: LogLinearDesign,
    x: Floats,
    psi: LogLinear,
    auditor: Auditor | None,
    depend: Dependence,
    candidates: Candidates,
    seen: Singles | None = None,
) -> Sums:
    """Return the sums of a window that has not been in a step; ``seen`` are values of the auditor's functions."""
    center, spread = place_of(design.z)
    shift, rate, heap = psi.standardizer.shift, psi.standardizer.rate, heaps(x)
    means, products = watched(auditor, design, psi.standardizer.original, seen)
    nothing = np.zeros((design.shape[1],) * 2, dtype=np.float32)
    return Sums(
        moments=sums_of_window(design),
        coef=np.zeros(design.shape[1]),
        c=3.0,
        kappa=0.0,
        scored=nothing,
        squared=nothing,
        heap=heap,
        off=np.asarray((x != heap).sum(0), dtype=np.float64),
        center=center * rate + shift,
        spread=spread * rate,
        watched=means,
        crossed=products,
        dependent=depend.endless,
        copies=depend.worth,
        time=depend.time,
        swell=inference.swelling(design, depend),
        candidates=candidates,
        hidden=np.zeros(2),
    )


def _fit(sums: Sums, den: LogLinearDesign, features: Features, window: Floats, settings: StepSettings) -> SumsFit:
    """Fit the increment."""
    rows = sums.moments.rows + len(window)
    ridge, _ = plain_prior(features, _off_heap(sums, window), rows)
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


def _of_numerator(sums: Sums) -> Dependence:
    """Return how the rows of a window depended on each other, of which sums are left."""
    swell = sums.swell if sums.worth > 1.0 else None
    return Dependence(0, None, sums.time, sums.dependent, swell, sums.copies)


def told_of(sums: Sums, kappa: float) -> Told:
    """Return what sums say of a numerator's scores in both roles; ``kappa`` is the factor of the step that it is in."""
    n = sums.moments.rows
    return Told(sums.moments.gram, sums.scored, sums.squared, n, sums.kappa / n, kappa / (2.0 * n))


def _forward(arrived: Anchor) -> Forward:
    """Return KL(original‖current) by the original's means of features."""
    psi, errors = arrived.psi, arrived.uncertainty
    assert isinstance(psi, LogLinear)
    assert errors is not None
    spread = float(psi.coef @ errors.origin_spread[:-1, :-1] @ psi.coef)
    return Forward(float(psi.coef @ errors.mean) - arrived.log_normalizer, spread, arrived.forward.rows)


def _taken(
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
    events = few_of(_off_heap(sums, window)[psi.features.linear], sums.moments.rows + m)
    before = _of_numerator(sums)
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
    arrived = arrived._replace(lag=depend.lag, rows=depend, forward=_forward(arrived))
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


def with_doubts(info: OriginalInfo, taken: Step, fit: SumsFit, narrow: tuple[Doubt, ...]) -> OriginalInfo:
    """Return diagnostics with the doubts that sums bring with them; ``narrow`` is that of columns made narrower."""
    size, doubts = taken.divergence, list(info.doubts)
    if size > LARGE:
        sentence = (
            f"the step of {size:.3g} nats is too large for keep='sums', which measures up to {LARGE}: take smaller "
            "steps, or keep='rows'"
        )
        doubts = [Doubt(DoubtCode.LITTLE_OVERLAP, sentence), *(d for d in doubts if d.code != DoubtCode.LITTLE_OVERLAP)]
    elif narrow:
        doubts.extend(narrow)
    elif fit.spread > _WIDE:
        sentence = (
            f"the step is large for keep='sums' and read too low (its log-ratio has a standard deviation of "
            f"{fit.spread:.3g}, {_WIDE} is the most that is measured well): take smaller steps, or keep='rows'"
        )
        doubts.append(Doubt(DoubtCode.LARGE_STEP, sentence))
    return info._replace(doubts=tuple(doubts))


def _with_left(info: OriginalInfo, left: int) -> OriginalInfo:
    """Return diagnostics with the doubt that candidates have moved and could not join."""
    if not left or any(doubt.code == DoubtCode.MODEL_MISSES for doubt in info.doubts):
        return info
    sentence = (
        f"{tally(left, 'product or hinge', 'products or hinges')} of columns moved too far, or on too few rows, to "
        "join with keep='sums', and the drift in them is not read: take smaller steps or larger "
        "windows, begin from a new original, or keep='rows'"
    )
    return info._replace(doubts=(*info.doubts, Doubt(DoubtCode.MODEL_MISSES, sentence)))


def _read(track: Track, further: Joined, then: Floats, depend: Dependence, *, large: bool, drawn: bool) -> Readings:
    """Read all that may be asked of the window later.

    Arguments:
        then: what was hidden in the numerator, see :class:`Sums`.
        drawn: whether log-ratios are drawn towards zero.
    """
    current, estimates, known = track.current, {}, Known()
    now = np.array([further.hidden, further.spread])
    for of_step, kind, level in reading_keys():
        found = divergence(track, kind, level, of_step=of_step, known=known)
        found = inference.overlooked(found, kind, *(between(then, now) if of_step else now.tolist()))
        if of_step and (further.note or further.left):
            without = Doubt(DoubtCode.MODEL_MISSES, _WITHOUT if further.note else _LEFT)
            found = inference.opened(doubted(found, (without,)), largest(kind))
        estimates[of_step, kind, level] = inference.withheld(found) if large else found  # the floor holds all the same
    assert isinstance(current.psi, LogLinear)
    assert current.uncertainty is not None
    log_r = current.on_window()
    own = inference.own_part(current.psi.coef, current.uncertainty, current.own_design(), log_r, depend)
    parts = inference.parts_of(current.psi.features, current.psi.coef, current.uncertainty, own)
    asked = moderated(current) if drawn else current
    assert isinstance(asked.psi, LogLinear)
    bare = track._replace(current=asked, doubts=(), weak=0, missed=0)
    carried_anyway = {doubt.code for doubt in carried(bare, of_ratio=True)}
    doubts = tuple(d for d in weights(bare, current.window[:1]).doubts if d.code not in carried_anyway)
    log_mean = float(log_mean_exp(asked.on_window()))
    return Readings(estimates, log_mean, doubts, parts, large, asked.psi.coef, asked.log_normalizer)


def _bare(anchor: Anchor, sums: Sums) -> Anchor:
    """Return the anchor without rows, and without anything that has an entry for each of them."""
    assert anchor.uncertainty is not None
    return anchor._replace(
        window=np.zeros((0, anchor.window.shape[1])),
        uncertainty=inference.without_rows(anchor.uncertainty),
        sums=sums,
        design=None,
        known=None,
        rows=None,
        seen=None,
    )
