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
from driftline.fitting import Design, LogLinear, LogLinearDesign, Psi, design_of, find_repeats, log_mean_exp, softmax
from driftline.inference import Attribution, Doubt, DoubtCode, Estimate, Generator, Wide, attribute, members
from driftline.recursion._diagnostics import missing
from driftline.recursion._floor import floor_on, recounted
from driftline.recursion._rows import Curved, own_rows, reach, unsupported
from driftline.recursion._settings import StepSettings
from driftline.recursion._state import Anchor, Track, has_past

__all__ = ["Attributions", "Weights", "attribution", "divergence", "has_attribution", "log_ratio", "weights"]

_BEYOND = 5.0  # times the logarithm of the rows: a divergence beyond which no interval is worth its name
_AS_FOUND = StepSettings()  # the lag is known, and was found or set by then
_HEAVY = ("kl", "pearson")  # divergences dominated by the few rows with the largest ratios


class Weights(NamedTuple):
    """Importance weights of rows, (n,), and the reasons not to trust them."""

    values: Floats
    doubts: tuple[Doubt, ...]


class Attributions(NamedTuple):
    """Parts of columns in a divergence, largest first, and the reasons not to trust them."""

    parts: list[Attribution]
    doubts: tuple[Doubt, ...]


def _few(rows: float, log_r: Floats) -> bool:
    """Say whether averages of ratios rest on so few effective rows that they cannot be trusted."""
    return rows < min(50.0, 0.1 * len(log_r))


def _doubt_few(
    log_r: Floats, code: DoubtCode, what: str, advice: str, concerns: tuple[str, ...] = ()
) -> tuple[Doubt, ...]:
    """Return the doubt that averages of these ratios rest on few rows, if they do."""
    size = inference.effective_sample_size(log_r)
    if not _few(size, log_r):
        return ()
    sentence = f"{what} {size:.1f} of the {len(log_r)} rows (effective sample size): {advice}"
    return (Doubt(code, sentence, concerns),)


def _own_design(current: Anchor) -> Design | None:
    """Return the design of the current window."""
    return current.own_design() if isinstance(current.psi, LogLinear) else design_of(current.psi, current.window)


@limited_threads()
@quiet_overflow()
def log_ratio(current: Anchor, rows: Floats, return_std: bool) -> Floats | tuple[Floats, Floats]:
    """Return log original/current of rows, (n,), and with ``return_std`` its standard errors, nan if unknown."""
    values = current.log_ratio(rows)
    if not return_std:
        return values
    design = None if current.uncertainty is None else design_of(current.psi, rows)
    if current.uncertainty is None or design is None or current.uncertainty.slack <= inference.UNSUPPORTED:
        return values, np.full_like(values, np.nan)
    return values, inference.log_ratio_std(current.uncertainty, design)


@limited_threads()
@quiet_overflow()
def weights(current: Anchor, rows: Floats) -> Weights:
    """Return importance weights of rows, with mean 1 on the current window."""
    on_window = current.on_window()
    advice = "the original has moved too far away for reweighting"
    doubts = _doubt_few(on_window, DoubtCode.FEW_FOR_WEIGHTS, "the weights rest on", advice)
    values = current.log_ratio(rows) - log_mean_exp(on_window)
    return Weights(np.exp(np.minimum(values, 700.0)), (*doubts, *missing(current)))


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
) -> Estimate:
    """Return an f-divergence between original and current or, with ``of_step``, between the windows of the last step.

    Arguments:
        rows: further rows of current, instead of its window.
        settings: settings of the lag of these rows.
    """
    estimate = _estimated(track, kind, level, of_step, rows, settings)
    if track.weak and (track.weak_now or not of_step):
        estimate = replace(estimate, doubts=(*estimate.doubts, _weak(track, of_step)))
    if kind != "reverse_kl":
        return estimate
    if of_step:
        return _with_floor(estimate, track.gain.floor(level))
    counts = track.partitions
    if rows is not None and settings is not None:
        counts = recounted(counts, rows, _further(track.current.psi, rows, settings))
    return _with_floor(estimate, floor_on(counts, level))


def _weak(track: Track, of_step: bool) -> Doubt:
    """Return the doubt that a step could not be measured."""
    if of_step:
        return Doubt(DoubtCode.WEAK_STEP, "this step could not be measured (see info_): take smaller steps")
    sentence = (
        f"the step at t={track.weak} could not be measured, and later values build upon it: begin from a new original"
    )
    return Doubt(DoubtCode.WEAK_STEP, sentence)


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
    return replace(estimate, high=math.inf, floor=floor, doubts=doubts)


def _estimated(
    track: Track,
    kind: str | Generator,
    level: float,
    of_step: bool,
    rows: Floats | None,
    settings: StepSettings | None,
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
        return _withheld(current, _wide(wide, own, log_r, kind, level, own_window))
    design = None if uncertainty is None else _own_design(current) if own_window else design_of(psi, rows)
    if kind == "kl" and own_window and not of_step and isinstance(psi, LogLinear):
        return _withheld(current, _bounded(_forward_kl(current, log_r, design, level), current))
    concerns = _concerns(kind)
    doubts = _doubt_heavy(log_r, kind)
    if of_step and uncertainty is not None:
        uncertainty = inference.of_step(uncertainty)
    estimate = inference.divergence_estimate(
        log_r,
        kind,
        level,
        uncertainty,
        design,
        own_window=own_window,
        dependence=own_rows(current, _AS_FOUND) if settings is None else _further(psi, rows, settings),
        shared=not of_step,
    )
    if not of_step and kind == "reverse_kl" and estimate.value > _BEYOND * math.log(len(log_r)):
        sentence = (
            f"{estimate.value:.3g} nats are far more than {len(log_r)} rows can show without the model's form "
            f"(about {math.log(len(log_r)):.2g}): the ratio is extrapolated; take a nearer original"
        )
        doubts = (*doubts, Doubt(DoubtCode.EXTRAPOLATED, sentence, concerns))
    if not isinstance(psi, LogLinear) and np.isfinite(estimate.std_error):
        sentence = "error bars of a network take its hidden layers as given: the interval is too short"
        doubts = (*doubts, Doubt(DoubtCode.NETWORK_ERRORS, sentence, concerns))
    measured = np.isfinite(estimate.std_error) or not np.isfinite(estimate.value)
    if measured and np.isnan(estimate.noise) and kind != "total_variation":
        sentence = (
            f"the noise of {kind!r} cannot be estimated, so it is not subtracted and the interval is rough: heavy "
            "tails, or too few rows"
        )
        doubts = (*doubts, Doubt(DoubtCode.NOISE_UNKNOWN, sentence, concerns))
    estimate = replace(estimate, doubts=doubts) if doubts else estimate
    return _withheld(current, estimate if of_step else _bounded(estimate, current))


def _bounded(estimate: Estimate, current: Anchor) -> Estimate:
    """Return an estimate without an upper end if the model is known not to hold all of the drift."""
    found = missing(current)
    return replace(estimate, high=math.inf, doubts=(*estimate.doubts, *found)) if found else estimate


def _further(psi: Psi, rows: Floats, settings: StepSettings) -> inference.Dependence:
    """Return how further rows depend on each other."""
    repeats = find_repeats(rows)
    return inference.Dependence(reach(Curved(psi.standardizer(rows)), settings, repeats), repeats)


def _withheld(current: Anchor, estimate: Estimate) -> Estimate:
    """Return the estimate without its interval, with the doubt, where rows depend on each other too much for one."""
    doubts = unsupported(current, own_rows(current, _AS_FOUND))
    return replace(inference.withheld(estimate), doubts=(*doubts, *estimate.doubts)) if doubts else estimate


def _concerns(kind: str | Generator) -> tuple[str, ...]:
    return (getattr(kind, "__name__", repr(kind)) if callable(kind) else kind,)


def _doubt_heavy(log_r: Floats, kind: str | Generator) -> tuple[Doubt, ...]:
    """Return the doubt that a divergence rests on the few rows with the largest ratios, if it does."""
    if not callable(kind) and kind not in _HEAVY:
        return ()
    advice = "too small in all likelihood; reverse_kl, js and hellinger do not depend on the largest ratios"
    return _doubt_few(log_r, DoubtCode.FEW_FOR_DIVERGENCE, "this divergence rests on", advice, _concerns(kind))


def _wide(of: Wide, design: Design, log_r: Floats, kind: str | Generator, level: float, own_window: bool) -> Estimate:
    """Return a divergence where rows are few for the features; KL in both directions rests on no ratios."""
    scores = design.dot(np.append(of.coef, 0.0))
    found = inference.wide_divergence(of, scores, kind, level, own_window=own_window)
    doubts = () if kind == "kl" else _doubt_heavy(log_r, kind)
    return replace(found, doubts=(*found.doubts, *doubts)) if doubts else found


def _forward_kl(current: Anchor, log_r: Floats, design: Design | None, level: float) -> Estimate:
    """Return KL(original‖current) of a log-linear ratio: from its constant if it can be, else summed over the steps."""
    psi, uncertainty, forward = current.psi, current.uncertainty, current.forward
    assert isinstance(psi, LogLinear)
    if uncertainty is not None and design is not None and psi.summaries is None:
        constant = -current.log_normalizer
        exact = inference.forward_kl(
            psi.coef, constant, log_r, level, uncertainty, design, own_rows(current, _AS_FOUND)
        )
        if exact is not None:
            return exact
    rows = min(forward.rows, inference.effective_sample_size(log_r))
    estimate = inference.forward_along(forward, log_r, level, uncertainty, design)
    if not _few(rows, log_r):
        return estimate
    sentence = (
        f"'kl' rests on {rows:.1f} rows (effective sample size): the original is too far away; reverse_kl, js "
        "and hellinger do not depend on the largest ratios"
    )
    return replace(estimate, doubts=(Doubt(DoubtCode.FEW_FOR_KL, sentence, ("kl",)),))


def _expressed(psi: LogLinear, design: Design, log_r: Floats) -> Floats:
    """Return coefficients (p,) of features that come closest to the summaries' log-ratio, over original and current."""
    assert psi.summaries is not None
    assert isinstance(design, LogLinearDesign)
    weights = 0.5 * (softmax(log_r) + 1.0 / len(log_r))
    gram = design.gram(weights)
    gram[np.diag_indices_from(gram)] += 1e-6
    wanted = design.pull(weights * psi.summaries(psi.standardizer.original(design.z)))
    return np.asarray(np.linalg.solve(gram, wanted)[:-1])


def has_attribution(current: Anchor) -> bool:
    """Say whether :func:`attribution` can be asked: after a step of a log-linear model with error bars."""
    return isinstance(current.psi, LogLinear) and current.uncertainty is not None


@limited_threads()
@quiet_overflow()
def attribution(
    current: Anchor,
    columns: Sequence[str | int],
    level: float,
    groups: Mapping[str, Sequence[str | int]] | None,
    top: int | None = None,
) -> Attributions:
    """Return the parts of columns, or of groups of them, in the symmetric divergence; the ``top`` largest first."""
    if not has_attribution(current):
        why = "no step has been taken yet" if not has_past(current) else "this model has no such parts"
        if current.wide is not None:
            why = "rows are too few for its features"
        raise ValueError(
            f"the divergence cannot be attributed to columns: {why} (it needs a log-linear model, 'auto', "
            "'quadratic' or 'linear', with the telescoped normaliser, throughout)"
        )
    psi, uncertainty, design = current.psi, current.uncertainty, _own_design(current)
    assert isinstance(psi, LogLinear)
    assert uncertainty is not None
    assert design is not None
    log_r = current.on_window()
    doubts = unsupported(current, own_rows(current, _AS_FOUND))
    if inference.joined_later(psi.coef, uncertainty).any():
        what, advice = "features that joined later rest on", "their parts cannot be trusted"
        doubts = (*doubts, *_doubt_few(log_r, DoubtCode.FEW_FOR_ATTRIBUTION, what, advice))
    names = columns if groups is None else list(groups)
    belong = None if groups is None else members(groups, columns)
    coef = psi.coef if psi.summaries is None else psi.coef + _expressed(psi, design, log_r)
    found = attribute(psi.features, coef, uncertainty, design, log_r, own_rows(current, _AS_FOUND), level, belong, top)
    total = float(np.maximum(found.values, 0.0).sum())
    parts = [
        Attribution(names[i], max(e.value, 0.0) / total if total > 0.0 else 0.0, e) for i, e in found.estimates.items()
    ]
    return Attributions(parts, (*doubts, *missing(current)))
