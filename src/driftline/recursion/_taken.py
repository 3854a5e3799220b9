"""What is made of a step whose rows lie in several places, once it is fitted: errors, doubts, and all readings."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from driftline import inference
from driftline._inputs import Floats
from driftline.fitting import LogLinear, Part, SumsFit, WindowSums, weigh
from driftline.inference import (
    NO_GAIN,
    Begun,
    Curves,
    Dependence,
    Doubt,
    DoubtCode,
    Estimate,
    Forward,
    Scored,
    Terms,
    Uncertainty,
)
from driftline.recursion._answers import Answer
from driftline.recursion._auditor import unseen
from driftline.recursion._by_sums import LARGE, with_doubts
from driftline.recursion._candidates import NOTHING, Candidates
from driftline.recursion._diagnostics import (
    OriginalInfo,
    apart,
    carries,
    constants_moved,
    describe,
    exponential,
    mean_off,
    missing,
    unvaried,
)
from driftline.recursion._doubts import WEAK, carried, heavy_of, on_few
from driftline.recursion._floor import floor_on
from driftline.recursion._kept import Readings, Sums, reading_keys
from driftline.recursion._looked import Asked, Look, Reading, hidden_in, looked, overlooked, reading_of, unjoined
from driftline.recursion._narrow import narrowed
from driftline.recursion._partitions import Partitions, Tally
from driftline.recursion._quantities import along, settled, with_own_doubts
from driftline.recursion._questions import Basis, Question
from driftline.recursion._rows import unsupported
from driftline.recursion._settings import StepSettings
from driftline.recursion._stand_in import told_of
from driftline.recursion._state import Anchor, Step, Track

__all__ = ["Taken", "arrived", "bare_sums", "tally"]


class Taken(NamedTuple):
    """A fitted step: the track before it, the anchor in its frame, the fit, sums of the new window at it."""

    track: Track
    anchor: Anchor
    fit: SumsFit
    part: Part
    den: WindowSums
    settings: StepSettings
    parameters: int

    @property
    def sums(self) -> Sums:
        """Sums of the numerator."""
        assert self.anchor.sums is not None
        return self.anchor.sums

    @property
    def total(self) -> Floats:
        """Coefficients of log original/current after the step, the constant's last."""
        assert isinstance(self.anchor.psi, LogLinear)
        normalizer = self.anchor.log_normalizer - float(self.fit.coef[-1])
        return np.append(self.anchor.psi.coef + self.fit.coef[:-1], -normalizer)

    def asked(self, kind: str, **given: Floats | float) -> Question:
        """Return a question at the coefficients of the step."""
        return self.about(kind, coef=self.fit.coef, c=self.fit.c, **given)

    @property
    def about(self) -> Asked:
        """What questions are about."""
        psi = self.anchor.psi
        assert isinstance(psi, LogLinear)
        return Asked(Basis(psi.standardizer, psi.features), self.total, self.parameters, self.settings.lag)


def arrived(
    ask: Callable[[Question], Answer],
    taken: Taken,
    t: int,
    dependent: bool,
    changed: Floats,
    candidates: Floats,
    events: Floats,
    further: Sequence[Doubt],
    places: Sequence[str],
) -> tuple[Track, OriginalInfo, Answer]:
    """Ask for all that the step's errors and readings need; return the track, diagnostics and the scores' answer."""
    scores = _scores(ask, taken, candidates)
    begun, uncertainty = _errors(ask, taken, scores, dependent, events)
    depend = Dependence(endless=dependent)
    psi = taken.anchor.psi
    assert isinstance(psi, LogLinear)
    coef, normalizer = taken.total[:-1], -float(taken.total[-1])
    forward = Forward(
        float(coef @ uncertainty.mean) - normalizer,
        float(coef @ uncertainty.origin_spread[:-1, :-1] @ coef),
        taken.anchor.forward.rows,
    )
    auditor = None if taken.anchor.auditor is None else unseen(taken.anchor.auditor)
    current = Anchor(
        psi._replace(coef=coef), normalizer, np.zeros((0, psi.features.columns)), uncertainty, forward=forward
    )._replace(auditor=auditor, sums=_kept(taken, scores, dependent), rows=depend)
    info = _diagnosed(taken, current, scores, depend, changed, further, places, begun)
    look = None
    if taken.settings.model == "auto":
        look = looked(ask, taken.about, psi, taken.sums.candidates, uncertainty)
        if look is not None and (info.step_divergence > LARGE or not info.fit.converged):
            look = look._replace(found=None)  # as where rows are at hand
        info = info._replace(doubts=unjoined(look, info.doubts))
    held = dependent and not _depended(taken.sums)
    now = taken.track._replace(
        current=current,
        held=taken.track.held + 1 if held else 0,
        gain=NO_GAIN,
        partitions=_counted(taken.track.partitions, scores, depend),
        doubts=info.doubts,
    )
    weak = any(doubt.code in WEAK for doubt in carried(now, of_step=True))
    large = any(doubt.code == DoubtCode.LARGE_STEP for doubt in info.doubts)
    now = now._replace(weak=taken.track.weak or t * weak, large=taken.track.large or t * large)
    readings = _read(ask, taken, now, scores, begun, look, large=info.step_divergence > LARGE)
    kept = _kept(taken, scores, dependent)._replace(hidden=hidden_in(look))
    bare = current._replace(uncertainty=inference.without_rows(uncertainty), sums=kept, rows=None)
    return now._replace(current=bare, step_log_ratio=np.zeros(0), readings=readings), info, scores


def _scores(ask: Callable[[Question], Answer], taken: Taken, candidates: Floats) -> Answer:
    """Ask for the sums of scores and ratios."""
    sums, partitions = taken.sums, taken.track.partitions
    cells: dict[str, Floats] = {}
    if partitions is not None:
        names = ("live", "edges", "groups", "pairs")
        cells = {name: np.asarray(getattr(partitions, name), dtype=np.float64) for name in names}
    odds = math.log(sums.moments.rows / taken.den.rows)
    past: dict[str, Floats | float] = {"past": sums.coef, "past_c": sums.c, "odds": odds}
    return ask(taken.asked("scores", all=taken.total, heaps=candidates, **past, **cells))


def _errors(
    ask: Callable[[Question], Answer], taken: Taken, scores: Answer, dependent: bool, events: Floats
) -> tuple[Begun, Uncertainty]:
    """Return what is known of the errors of the ratio after the step."""
    scored, sums = _scored(scores), taken.sums
    begun = inference.begin_pooled(taken.fit, scored, sums.moments.rows, taken.den.rows)
    bends = ask(taken.asked("bends", spread_num=begun.spread_num, spread_den=begun.spread_den))
    uncertainty = inference.advance_pooled(
        taken.anchor.uncertainty,
        begun,
        scored,
        bends.sums,
        taken.part.gram,
        sums.moments,
        taken.den,
        None if taken.anchor.uncertainty is None else told_of(sums, weigh(sums.moments.rows, taken.den.rows)),
        (_depended(sums), dependent),
        events,
    )
    return begun, uncertainty


def _scored(scores: Answer) -> Scored:
    return Scored(*(scores[name] for name in Scored._fields))


def _kept(taken: Taken, scores: Answer, dependent: bool) -> Sums:
    """Return the sums that are kept of the window; its place and its most common values follow."""
    d = len(taken.sums.heap)
    unknown = np.full(d, np.nan), np.zeros(d), np.zeros(d), np.ones(d)
    kappa = weigh(taken.sums.moments.rows, taken.den.rows)
    found = bare_sums(taken.den, taken.fit.coef, taken.fit.c, kappa, unknown, dependent, taken.sums.candidates)
    scored, squared = ((scores[part] / taken.den.rows).astype(np.float32) for part in ("plain", "square"))
    return found._replace(scored=scored, squared=squared)


def bare_sums(
    window: WindowSums,
    coef: Floats,
    c: float,
    kappa: float,
    place: tuple[Floats, Floats, Floats, Floats],
    dependent: bool,
    candidates: Candidates = NOTHING,
) -> Sums:
    """Return the sums of a window that no auditor has seen; of rows that depend on each other, no more is known."""
    q = len(coef)
    nothing = np.zeros(0), np.zeros((0, q), dtype=np.float32)
    scores = np.zeros((q, q), dtype=np.float32)
    known = window, coef, c, kappa, scores, scores
    return Sums(*known, *place, *nothing, dependent, 1.0, 1.0, np.ones(q), candidates, np.zeros(2))


def _counted(partitions: Partitions | None, scores: Answer, depend: Dependence) -> Partitions | None:
    """Return the partitions with the counts of the window."""
    if partitions is None:
        return None
    rows = 0.0 if depend.endless else float(scores.rows)
    return partitions._replace(current=tally(partitions, scores["counts"]), rows=np.array([partitions.rows[0], rows]))


def tally(partitions: Partitions, counts: Floats) -> Tally:
    """Return counts in cells of columns and pairs of columns, in a row (counts,), as partitions keep them."""
    cut = partitions.edges.size
    columns = counts[:cut].reshape(partitions.edges.shape).astype(np.int32)
    pairs = counts[cut:].reshape(len(partitions.pairs), 16).astype(np.int32)
    contrast = np.zeros((1, len(partitions.levels) + 1), dtype=np.int32)
    contrast[0, 0] = int(columns[0].sum())
    return Tally(contrast, columns, pairs)


def _effective(log_sum: Floats, log_square: Floats) -> float:
    """Return Kish's effective sample size, given logarithms of the sums of weights and of their squares."""
    return exponential(2.0 * float(log_sum) - float(log_square))


def _diagnosed(
    taken: Taken,
    current: Anchor,
    scores: Answer,
    depend: Dependence,
    changed: Floats,
    further: Sequence[Doubt],
    places: Sequence[str],
    begun: Begun,
) -> OriginalInfo:
    """Return the diagnostics of the step."""
    fit, sums, m, n = taken.fit, taken.sums, taken.den.rows, taken.sums.moments.rows
    size = -float(fit.coef @ taken.den.mean)
    overlap = float(scores["overlap"]) + n * float(scores["overlap_num"])
    mean_u, mean_v = (float(scores[name]) - math.log(m) for name in ("log_u", "log_v"))
    held = depend.endless and not _depended(sums)
    informed = int((fit.hessian.diagonal() > 2.0 * fit.weight).sum())
    doubts = _doubts(taken, current, scores, depend, changed, places, (size, overlap, float(informed), mean_u))
    assert current.uncertainty is not None
    bare_fit = fit.info._replace(held_out=fit.info.loss + inference.optimism(current.uncertainty))
    info = OriginalInfo(
        rows=int(m),
        step_divergence=size,
        mean_ratio=exponential(mean_v),
        step_mean_ratio=exponential(mean_u),
        constraint_residual=1.0,  # the numerator's mean ratio is taken over the same rows: it holds by construction
        effective_sample_size=_effective(scores["log_v"], scores["twice_v"]),
        overlap=overlap,
        lag=0,
        effective_rows=depend.effective(int(m)),
        held_out=bare_fit.held_out,
        fit=bare_fit,
        advanced=not held,
        reason="held: rows of this window depend on each other too much for a step to start from" if held else "",
        model=describe(current.psi, taken.settings.names),
        doubts=(*further, *doubts),
    )
    step = Step(current, bare_fit, np.zeros(0), np.array([-size]), current.log_normalizer, informed)
    assert isinstance(current.psi, LogLinear)
    narrow = narrowed(sums.moments, fit.coef, current.psi.features, taken.settings.names)
    info = with_doubts(info, step, fit, narrow)
    if not (depend.endless or _depended(sums) or current.uncertainty.slack < inference.UNSUPPORTED):
        return info
    rest = (doubt for doubt in info.doubts if doubt.code != DoubtCode.DEPENDENT_ROWS)
    return info._replace(doubts=(_dependent("of this window" if depend.endless else "of a window before"), *rest))


def _depended(sums: Sums) -> bool:
    """Say whether rows of the numerator depended on each other: how far is not carried over to several places."""
    return sums.dependent or sums.worth > 1.0 or bool((sums.swell != 1.0).any())


def _dependent(which: str) -> Doubt:
    """Return the doubt that rows depend on each other."""
    sentence = (
        f"rows {which} repeat or depend on each other at some place, and sums do not show how much, so there is no "
        "interval: shuffle rows that have no order, or set lag=0 if you know that they are independent"
    )
    return Doubt(DoubtCode.DEPENDENT_ROWS, sentence)


def _doubts(
    taken: Taken,
    current: Anchor,
    scores: Answer,
    depend: Dependence,
    changed: Floats,
    places: Sequence[str],
    sizes: tuple[float, float, float, float],
) -> list[Doubt]:
    """List reasons not to trust the step, as they are where rows are at hand."""
    size, overlap, informed, mean_u = sizes
    fit, names, m, n = taken.fit, taken.settings.names, int(taken.den.rows), int(taken.sums.moments.rows)
    still = current.psi.standardizer.still
    doubts = [unvaried()] if still.all() and not changed.any() else []
    doubts += unsupported(current, depend)
    if not fit.info.converged:
        doubts.append(Doubt(DoubtCode.NOT_CONVERGED, f"the fit did not converge ({fit.info.message})"))
    if overlap < min(10.0 * informed, 0.5 * min(n, m)):
        doubts.append(apart(overlap, n + m, size))
    else:
        mean, square = exponential(mean_u), exponential(float(scores["twice_u"]) - math.log(m))
        error = math.sqrt(max(square - mean * mean, 0.0) / depend.effective(m))
        doubts.extend(mean_off(mean, error, _effective(scores["log_u"], scores["twice_u"])))
    largest, row, column, distance, place = scores["outlier"].tolist()
    if m >= 50 and largest > 0.1 * float(scores["size"]):
        where = f"row {int(row)} of {places[int(place)]!r}" if places else "a row"
        doubts.append(carries(where, int(column), largest / float(scores["size"]), distance, names))
    doubts.extend(missing(current))
    doubts.extend(constants_moved(np.flatnonzero(changed > max(1, m // 1000)).tolist(), names))
    return doubts


def _read(
    ask: Callable[[Question], Answer],
    taken: Taken,
    now: Track,
    scores: Answer,
    begun: Begun,
    look: Look | None,
    *,
    large: bool,
) -> Readings:
    """Ask for the last sums, and read all that may be asked of the window later."""
    current = now.current
    assert current.uncertainty is not None
    ratios = {
        "all": (taken.total, current.uncertainty),
        "step": (taken.fit.coef, inference.of_step(current.uncertainty)),
    }
    given: dict[str, Floats | float] = {"inverse": begun.inverse, "all": taken.total}
    for of, (coef, uncertainty) in ratios.items():
        spread = inference.covariance(uncertainty)
        middle, variance = _spread(coef, taken.den)
        given[f"spread_{of}"], given[f"share_{of}"] = spread, _calm(variance, spread, taken.den)
        given[f"beyond_{of}"] = np.array(inference.beyond(middle, math.sqrt(variance)))
    curves, estimates = ask(taken.asked("curves", **given)), {}
    behind = _effective(scores["log_v"], scores["twice_v"])
    for of_step, kind, level in reading_keys():
        coef, uncertainty = ratios["step" if of_step else "all"]
        found = _estimated(now, kind, level, of_step, coef, uncertainty, scores, curves, begun, taken.den, behind)
        floor = (now.gain.floor(level) if of_step else floor_on(now.partitions, level)) if kind == "reverse_kl" else 0.0
        found = overlooked(look, taken.sums.hidden, settled(now, found, kind, of_step, floor), kind, of_step=of_step)
        estimates[of_step, kind, level] = inference.withheld(found) if large else found
    assert isinstance(current.psi, LogLinear)
    own = inference.own_pooled(current.uncertainty, _scored(scores), begun.share, taken.den)
    parts = inference.parts_of(current.psi.features, current.psi.coef, current.uncertainty, own)
    drawn = None
    if look is not None and current.uncertainty.slack > inference.UNSUPPORTED:
        drawn = reading_of(ask, taken.about, current.psi, look.limit, current.uncertainty)
    if drawn is None:
        log_mean = float(scores["log_v"]) - math.log(taken.den.rows)
        drawn = Reading(taken.total[:-1], -float(taken.total[-1]), log_mean, behind)
    advice = "the original has moved too far away for reweighting"
    doubts = on_few(drawn.behind, scores.rows, DoubtCode.FEW_FOR_WEIGHTS, "the weights rest on", advice)
    return Readings(estimates, drawn.log_mean, doubts, parts, large, drawn.coef, drawn.log_normalizer)


def _spread(coef: Floats, den: WindowSums) -> tuple[float, float]:
    """Return mean and variance of estimated log-ratios in a window."""
    middle = float(coef @ den.mean)
    return middle, max(float(coef @ den.gram @ coef) - middle * middle, 0.0)


def _calm(variance: float, spread: Floats, den: WindowSums) -> float:
    """Return the share of the variance of estimated log-ratios that is not their errors."""
    wobble = float((spread * den.gram).sum())
    return min(max(1.0 - wobble / max(variance, 1e-300), 0.0), 1.0)


def _estimated(
    now: Track,
    kind: str,
    level: float,
    of_step: bool,
    coef: Floats,
    uncertainty: Uncertainty,
    scores: Answer,
    curves: Answer,
    begun: Begun,
    den: WindowSums,
    behind: float,
) -> Estimate:
    """Return the estimate of a divergence by the model."""
    of, rows = "step" if of_step else "all", int(den.rows)
    found = Terms(*(scores[f"{of}_{name}"] for name in ("total", "squared", "crossed", "slopes")))
    bent = Curves(*(curves[f"{of}_{name}"] for name in Curves._fields))
    forward = None if of_step else (now.current.forward, scores["weighted"])
    estimate = inference.divergence_pooled(
        kind,
        level,
        coef,
        uncertainty,
        found,
        bent,
        _scored(scores),
        begun.share,
        den,
        of_step=of_step,
        forward=forward,
    )
    if kind == "kl" and not of_step:
        exact = not math.isnan(estimate.noise_std)  # from the ratio's constant
        return estimate if exact else along(now, estimate, min(now.current.forward.rows, behind), rows)
    size = _effective(scores["log_u"], scores["twice_u"]) if of_step else behind
    k = inference.KINDS.index(kind)
    tail = inference.tail_from(kind, curves[f"{of}_beyond"], float(found.total[k]), float(found.square[k]), rows)
    return with_own_doubts(now, estimate, kind, heavy_of(size, rows, kind, tail), rows, of_step=of_step)
