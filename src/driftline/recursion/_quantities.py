"""Quantities of a fitted ratio, with their errors and doubts: log-ratios, weights, divergences, attribution."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from driftline import inference
from driftline._inputs import Floats
from driftline._overflow import quiet_overflow
from driftline._threads import limited_threads
from driftline.fitting import Design, LogLinear, Psi, design_of, find_repeats, log_mean_exp
from driftline.inference import (
    Attribution,
    Contributions,
    Doubt,
    DoubtCode,
    Estimate,
    Generator,
    Wide,
    attribute,
    attributed,
    members,
)
from driftline.recursion._doubts import (
    bounding,
    carried,
    doubted,
    few,
    heavy,
    of_divergence,
    of_way,
    on_few_rows,
    rests_on_weak,
    without_error_bars,
)
from driftline.recursion._floor import floor_on, recounted
from driftline.recursion._kept import LEVELS
from driftline.recursion._reading import expressed
from driftline.recursion._rows import Curved, own_rows, reach, unsupported
from driftline.recursion._settings import StepSettings
from driftline.recursion._state import Anchor, Track, has_past

__all__ = [
    "Attributions",
    "Known",
    "LogRatios",
    "Weights",
    "along",
    "as_read",
    "attribution",
    "divergence",
    "effective_rows",
    "has_attribution",
    "log_ratio",
    "settled",
    "weights",
    "with_own_doubts",
]

Known = dict[tuple[str | Generator, bool], inference.Reading]
"""Readings of a window by the kind of divergence, and whether they are of the last step alone."""
_AS_FOUND = StepSettings()  # the lag is known, and was found or set by then
_FEWEST = 50  # rows passed in, for an interval


def effective_rows(anchor: Anchor) -> float:
    """Return how many independent rows the window of an anchor is worth; 0 if nobody knows."""
    rows = own_rows(anchor, _AS_FOUND)
    return 0.0 if rows.endless else rows.effective(anchor.size)


class LogRatios(NamedTuple):
    """Log-ratios of rows and their standard errors, nan if unknown, both (n,), and the reasons not to trust them."""

    values: Floats
    errors: Floats
    doubts: tuple[Doubt, ...]


class Weights(NamedTuple):
    """Importance weights of rows, (n,), and the reasons not to trust them."""

    values: Floats
    doubts: tuple[Doubt, ...]


class Attributions(NamedTuple):
    """Parts of columns in a divergence, largest first, and the reasons not to trust them."""

    parts: list[Attribution]
    doubts: tuple[Doubt, ...]


def _own_design(current: Anchor) -> Design | None:
    """Return the design of the current window."""
    return current.own_design() if isinstance(current.psi, LogLinear) else design_of(current.psi, current.window)


def as_read(track: Track) -> Track:
    """Return a track whose current psi is the one that was read while rows were at hand, if they no longer are."""
    current, readings = track.current, track.readings
    if readings is None or current.sums is None or not isinstance(current.psi, LogLinear):
        return track
    psi = current.psi._replace(coef=readings.coef)
    return track._replace(current=current._replace(psi=psi, log_normalizer=readings.log_normalizer))


@limited_threads()
@quiet_overflow()
def log_ratio(track: Track, rows: Floats, *, errors: bool = False) -> LogRatios:
    """Return log original/current of rows; its standard errors only if asked for."""
    current = track.current
    values, doubts = current.log_ratio(rows), carried(track, of_ratio=True)
    design = None if current.uncertainty is None or not errors else design_of(current.psi, rows)
    if current.uncertainty is None or design is None or current.uncertainty.slack <= inference.UNSUPPORTED:
        return LogRatios(values, np.full_like(values, np.nan), doubts)
    return LogRatios(values, inference.log_ratio_std(current.uncertainty, design), doubts)


@limited_threads()
@quiet_overflow()
def weights(track: Track, rows: Floats) -> Weights:
    """Return importance weights of rows, with mean 1 on the current window."""
    current, readings = track.current, track.readings
    if current.sums is not None:
        log_mean, doubts = (0.0, ()) if readings is None else (readings.log_mean, readings.doubts)
        values, doubts = current.log_ratio(rows) - log_mean, (*doubts, *carried(track, of_ratio=True))
        return Weights(np.exp(np.minimum(values, 700.0)), doubts)
    on_window = current.on_window()
    advice = "the original has moved too far away for reweighting"
    doubts = on_few_rows(on_window, DoubtCode.FEW_FOR_WEIGHTS, "the weights rest on", advice)
    values = current.log_ratio(rows) - log_mean_exp(on_window)
    return Weights(np.exp(np.minimum(values, 700.0)), (*doubts, *carried(track, of_ratio=True)))


@limited_threads()
@quiet_overflow()
def divergence(
    track: Track,
    kind: str | Generator,
    level: float,
    *,
    of_step: bool,
    rows: Floats | None = None,
    settings: StepSettings | None = None,
    known: Known | None = None,
) -> Estimate:
    """Return an f-divergence between original and current or, with ``of_step``, between the windows of the last step.

    Arguments:
        rows: further rows of current, instead of its window.
        settings: settings of the lag of these rows.
        known: readings of the window that have been made, which are the same at all levels; this one is added.
    """
    if rows is None and track.current.sums is not None:
        return _as_read(track, kind, level, of_step)
    found = _estimated(track, kind, level, of_step, rows, settings, known)
    floor = _floor(track, level, of_step, rows, settings) if kind == "reverse_kl" else math.nan
    return settled(track, found, kind, of_step, floor)


def settled(track: Track, found: Estimate, kind: str | Generator, of_step: bool, floor: float) -> Estimate:
    """Return an estimate by the model with the doubts of all that it builds upon, within its bounds."""
    estimate = doubted(found, carried(track, of_step=of_step))
    evidence = track.current.evidence
    if evidence is not None:
        hidden = evidence.step_hidden if of_step else evidence.hidden[:2]
        estimate = inference.overlooked(estimate, kind, *hidden.tolist())
    if not of_step and bounding(estimate.doubts):
        estimate = inference.opened(estimate, inference.largest(kind))
    estimate = without_error_bars(track.current, _withheld(track.current, estimate))
    if kind == "reverse_kl":
        estimate = _with_floor(estimate, floor)
    if of_step or not math.isfinite(estimate.std_error) or not rests_on_weak(estimate.doubts):
        return estimate
    return inference.unsettled(estimate, inference.largest(kind))


def _as_read(track: Track, kind: str | Generator, level: float, of_step: bool) -> Estimate:
    """Return an estimate that was read while the window's rows were at hand."""
    if callable(kind) or kind not in inference.DIVERGENCES:
        name = _name(kind)
        raise ValueError(
            f"{name} was not read while the window's rows were at hand, and keep='sums' keeps none of them: pass rows "
            f"of current as X=, choose one of {list(inference.DIVERGENCES)}, or keep='rows'"
        )
    if not any(math.isclose(level, known) for known in LEVELS):
        raise ValueError(
            f"level={level} was not read while the window's rows were at hand, and keep='sums' keeps none of them: "
            f"choose one of {LEVELS}, pass rows of current as X=, or keep='rows'"
        )
    if track.readings is None:
        raise ValueError("no step has been taken yet: call partial_fit with a window first")
    return track.readings.estimates[of_step, kind, min(LEVELS, key=lambda known: abs(known - level))]


def _name(kind: str | Generator) -> str:
    return f"the divergence {kind!r}" if isinstance(kind, str) else "a divergence of your own"


def _floor(track: Track, level: float, of_step: bool, rows: Floats | None, settings: StepSettings | None) -> float:
    """Return the floor of the last step or of all steps."""
    if of_step:
        return track.gain.floor(level)
    counts = track.partitions
    if rows is not None and settings is not None:
        counts = recounted(counts, rows, _further(track.current.psi, rows, settings))
    return floor_on(counts, level)


def _with_floor(estimate: Estimate, floor: float) -> Estimate:
    """Attach a floor; an interval that lies below it is doubted."""
    top = estimate.high if math.isfinite(estimate.high) else estimate.value
    if not floor > max(top, 0.0):
        return replace(estimate, floor=floor)
    sentence = (
        f"at least {floor:.3g} nats of drift show in plain counts of rows, the model finds {top:.3g} at most: it "
        "misses drift; try model='auto' or 'mlp', or begin from a new original"
    )
    doubts = (*estimate.doubts, Doubt(DoubtCode.BELOW_FLOOR, sentence, ("reverse_kl",)))
    return inference.opened(replace(estimate, floor=floor, doubts=doubts))


def _estimated(
    track: Track,
    kind: str | Generator,
    level: float,
    of_step: bool,
    rows: Floats | None,
    settings: StepSettings | None,
    known: Known | None,
) -> Estimate:
    """Return the estimate of a divergence by the model."""
    current, own_window = track.current, rows is None
    rows = current.window if rows is None else rows
    if of_step and track.step_log_ratio.size == 0:
        raise ValueError("no step has been taken yet: call partial_fit with a window first")
    log_r = track.step_log_ratio if of_step else current.on_window() if own_window else current.log_ratio(rows)
    psi, uncertainty = current.psi, current.uncertainty
    wide = current.wide_step if of_step else current.wide
    if wide is not None:
        own = current.own_design() if own_window else design_of(psi, rows)
        assert own is not None  # psi is log-linear
        return _wide(wide, own, log_r, kind, level, own_window)
    design = None if uncertainty is None else _own_design(current) if own_window else design_of(psi, rows)
    if kind == "kl" and own_window and not of_step and isinstance(psi, LogLinear):
        return _forward_kl(track, log_r, design, level)
    if of_step and uncertainty is not None:
        uncertainty = inference.of_step(uncertainty)
    key, readings = (kind, of_step), {} if known is None else known
    if key not in readings:
        readings[key] = inference.read_divergence(
            log_r,
            kind,
            uncertainty,
            design,
            own_window=own_window,
            dependence=own_rows(current, _AS_FOUND) if settings is None else _further(psi, rows, settings),
            shared=not of_step,
        )
    estimate = inference.estimate_at(readings[key], level)
    if not own_window and len(log_r) < _FEWEST and np.isfinite(estimate.std_error):
        sentence = f"{len(log_r)} rows are few for a mean over them: pass {_FEWEST} or more"
        return replace(inference.withheld(estimate), doubts=(Doubt(DoubtCode.FEW_ROWS, sentence),))
    return with_own_doubts(track, estimate, kind, heavy(log_r, kind), len(log_r), of_step=of_step)


def with_own_doubts(
    track: Track, estimate: Estimate, kind: str | Generator, tails: tuple[Doubt, ...], rows: int, *, of_step: bool
) -> Estimate:
    """Return a divergence by the model with its doubts; a lower bound where there is one of its tails or its way."""
    tails = tails or of_way(estimate, kind)
    doubts = (*tails, *of_divergence(track, estimate, kind, rows, of_step=of_step))
    if tails and np.isfinite(estimate.std_error):
        estimate = inference.opened(estimate, inference.largest(kind))
    return replace(estimate, doubts=doubts) if doubts else estimate


def _further(psi: Psi, rows: Floats, settings: StepSettings) -> inference.Dependence:
    """Return how further rows depend on each other."""
    repeats = find_repeats(rows)
    return inference.Dependence(reach(Curved(psi.standardizer(rows)), settings, repeats), repeats)


def _withheld(current: Anchor, estimate: Estimate) -> Estimate:
    """Return the estimate without its interval, with the doubt, where the rows suffice for none."""
    if any(doubt.code == DoubtCode.NOTHING_VARIES for doubt in estimate.doubts):
        doubts = tuple(doubt for doubt in estimate.doubts if doubt.code != DoubtCode.NOISE_UNKNOWN)
        return inference.withheld(replace(estimate, value=0.0, doubts=doubts))  # not what rounding errors add up to
    doubts = unsupported(current, own_rows(current, _AS_FOUND))
    if (
        doubts
        and not bounding(estimate.doubts)
        and any(d.code == DoubtCode.FEW_FOR_DIVERGENCE for d in estimate.doubts)
    ):
        estimate = replace(estimate, lower_bound=False)  # its tail is said to be too small, but all of it is a guess
    return doubted(replace(inference.withheld(estimate), doubts=doubts), estimate.doubts) if doubts else estimate


def _wide(of: Wide, design: Design, log_r: Floats, kind: str | Generator, level: float, own_window: bool) -> Estimate:
    """Return a divergence where rows are few for the features; KL in both directions rests on no ratios."""
    scores = design.dot(np.append(of.coef, 0.0))
    found = inference.wide_divergence(of, scores, kind, level, own_window=own_window)
    doubts = () if kind == "kl" else heavy(log_r, kind)
    if not doubts:
        return found
    return replace(inference.opened(found, inference.largest(kind)), doubts=(*found.doubts, *doubts))


def _forward_kl(track: Track, log_r: Floats, design: Design | None, level: float) -> Estimate:
    """Return KL(original‖current) of a log-linear ratio: from its constant if it can be, else summed over the steps."""
    current = track.current
    psi, uncertainty, forward = current.psi, current.uncertainty, current.forward
    assert isinstance(psi, LogLinear)
    depend = own_rows(current, _AS_FOUND)
    if uncertainty is not None and design is not None and psi.summaries is None:
        exact = inference.forward_kl(psi.coef, -current.log_normalizer, log_r, level, uncertainty, design, depend)
        if exact is not None:
            return exact
    estimate = inference.forward_along(forward, log_r, level, uncertainty, design, depend)
    return along(track, estimate, min(forward.rows, inference.effective_sample_size(log_r)), len(log_r))


def along(track: Track, estimate: Estimate, rows: float, of: int) -> Estimate:
    """Return KL(original‖current), summed up along the way, with its doubts: it may rest on few rows."""
    doubts = of_divergence(track, estimate, "kl", of, of_step=False)
    if few(rows, of):
        sentence = (
            f"'kl' rests on {rows:.1f} rows (effective sample size): the original is too far away; reverse_kl, js "
            "and hellinger do not depend on the largest ratios"
        )
        doubts = (Doubt(DoubtCode.FEW_FOR_KL, sentence, ("kl",)), *doubts)
    return replace(estimate, doubts=doubts) if doubts else estimate


def has_attribution(current: Anchor) -> bool:
    """Say whether :func:`attribution` can be asked: after a step of a log-linear model with error bars."""
    return isinstance(current.psi, LogLinear) and current.uncertainty is not None


@limited_threads()
@quiet_overflow()
def attribution(
    track: Track,
    columns: Sequence[str | int],
    level: float,
    groups: Mapping[str, Sequence[str | int]] | None,
    top: int | None = None,
) -> Attributions:
    """Return the parts of columns, or of groups of them, in the symmetric divergence; the ``top`` largest first."""
    current = track.current
    if not has_attribution(current):
        why = "no step has been taken yet" if not has_past(current) else "this model has no such parts"
        if current.wide is not None:
            why = "rows are too few for its features"
        raise ValueError(
            f"the divergence cannot be attributed to columns: {why} (it needs a log-linear model, 'auto', "
            "'quadratic' or 'linear', with the telescoped normaliser, throughout)"
        )
    psi, uncertainty = current.psi, current.uncertainty
    assert isinstance(psi, LogLinear)
    assert uncertainty is not None
    doubts = carried(track)
    names = columns if groups is None else list(groups)
    belong = None if groups is None else members(groups, columns)
    if track.readings is not None and current.sums is not None:
        found = attributed(track.readings.parts, float(uncertainty.slack), level, belong, top)
        return _parts(track, found, names, doubts)
    log_r, design = current.on_window(), _own_design(current)
    assert design is not None
    if inference.joined_later(psi.coef, uncertainty).any():
        what, advice = "features that joined later rest on", "their parts cannot be trusted"
        doubts = (*on_few_rows(log_r, DoubtCode.FEW_FOR_ATTRIBUTION, what, advice), *doubts)
    coef = psi.coef if psi.summaries is None else psi.coef + expressed(psi, current.own_design(), log_r)
    found = attribute(psi.features, coef, uncertainty, design, log_r, own_rows(current, _AS_FOUND), level, belong, top)
    return _parts(track, found, names, doubts)


def _parts(track: Track, found: Contributions, names: Sequence[str | int], doubts: tuple[Doubt, ...]) -> Attributions:
    """Return the parts of columns with their names, shares and doubts."""
    total = float(np.maximum(found.values, 0.0).sum())
    parts = [
        Attribution(names[i], max(e.value, 0.0) / total if total > 0.0 else 0.0, _part(track, e, doubts))
        for i, e in found.estimates.items()
    ]
    return Attributions(parts, doubts)


def _part(track: Track, estimate: Estimate, doubts: tuple[Doubt, ...]) -> Estimate:
    """Return a column's part with its doubts: open above or without an interval where the divergence would be."""
    current, estimate = track.current, doubted(estimate, doubts)
    if track.readings is not None and track.readings.large:
        return inference.withheld(estimate)
    if bounding(doubts):
        estimate = inference.opened(estimate)
    return without_error_bars(current, _withheld(current, estimate))
