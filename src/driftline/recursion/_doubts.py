"""Doubts of a quantity: its own, those of the steps that it builds upon, and of what nobody has looked at."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from driftline import inference
from driftline._inputs import Floats
from driftline.fitting import LogLinear
from driftline.inference import Doubt, DoubtCode, Estimate, Generator
from driftline.recursion._settings import NEWTON_FEATURES
from driftline.recursion._state import Anchor, Track, has_past

__all__ = [
    "WEAK",
    "bounding",
    "carried",
    "doubted",
    "few",
    "heavy",
    "heavy_of",
    "of_divergence",
    "of_way",
    "on_few",
    "on_few_rows",
    "rests_on_weak",
    "unaudited",
    "without_error_bars",
]

WEAK = (DoubtCode.NOT_CONVERGED, DoubtCode.LITTLE_OVERLAP, DoubtCode.STEP_MEAN_OFF)
"""Doubts of a step that concern all later values, which build upon it."""
_OF_ALL_STEPS = (DoubtCode.MODEL_MISSES, DoubtCode.DRIFT_MISSED)  # doubts of a step that say nothing of it alone
_BOUNDING = (DoubtCode.MODEL_MISSES, DoubtCode.DRIFT_MISSED, DoubtCode.LARGE_STEP)
_BEYOND = 5.0  # times the logarithm of the rows: a divergence beyond which no interval is worth its name
_APART = (DoubtCode.LITTLE_OVERLAP, DoubtCode.CONSTANT_MOVED)  # no noise of quiet windows is known so far away
_LONG_WAY = 0.25  # of the standard error, that the way makes up: 0.1 at most on plain drift, 0.4 to 0.9 on ways back
_HEAVY = ("kl", "pearson")  # divergences dominated by the few rows with the largest ratios


def doubted(estimate: Estimate, doubts: Iterable[Doubt]) -> Estimate:
    """Return an estimate with further doubts, each code once: what it says itself goes first."""
    known = {doubt.code for doubt in estimate.doubts}
    further = {doubt.code: doubt for doubt in reversed(list(doubts)) if doubt.code not in known}
    return replace(estimate, doubts=(*estimate.doubts, *reversed(further.values()))) if further else estimate


def carried(track: Track, *, of_step: bool = False, of_ratio: bool = False) -> tuple[Doubt, ...]:
    """Return the doubts of the steps that a quantity builds upon.

    Arguments:
        of_step: whether it is one of the last step alone.
        of_ratio: whether it is the ratio itself, not a divergence: where rows are few for the features, these differ.
    """
    left_out = _OF_ALL_STEPS if of_step else ()
    if not of_ratio and track.current.wide is not None:
        left_out = (*left_out, DoubtCode.STEP_MEAN_OFF)  # divergences do not rest on the ratio that is held back
    found = [doubt for doubt in track.doubts if doubt.code not in left_out]
    if any(doubt.code in WEAK for doubt in found) and of_step:
        found.append(Doubt(DoubtCode.WEAK_STEP, "this step could not be measured (see info_): take smaller steps"))
    if not of_step:
        found += _earlier(track)
    return (*found, *unaudited(track.current))


def _earlier(track: Track) -> list[Doubt]:
    """Return the doubts of earlier steps that stay."""
    found = []
    if track.weak:
        sentence = (
            f"the step at t={track.weak} could not be measured, and later values build upon it; begin from a new "
            "original"
        )
        found.append(Doubt(DoubtCode.WEAK_STEP, sentence))
    if track.missed:
        sentence = (
            f"features joined at t={track.missed} whose drift before that is not known: the estimate is too low by as "
            "much as they had moved; begin from a new original"
        )
        found.append(Doubt(DoubtCode.DRIFT_MISSED, sentence))
    if track.hidden:
        sentence = (
            f"the features were changed (last at t={track.moved}), and the new ones do not show {track.hidden:.2g} "
            "nats of the drift that the previous ones had shown: what is read is the drift in the new ones"
        )
        found.append(Doubt(DoubtCode.DRIFT_HIDDEN, sentence))
    if track.large:
        sentence = (
            f"the step at t={track.large} was large for keep='sums' and is read too low, and later values build upon "
            "it: begin from a new original, take smaller steps, or keep='rows'"
        )
        found.append(Doubt(DoubtCode.LARGE_STEP, sentence))
    return found


def bounding(doubts: Iterable[Doubt]) -> bool:
    """Say whether some of these doubts make a divergence from the original a lower bound."""
    return any(doubt.code in _BOUNDING for doubt in doubts)


def rests_on_weak(doubts: Iterable[Doubt]) -> bool:
    """Say whether some of these doubts are of a step that could not be measured."""
    return any(doubt.code == DoubtCode.WEAK_STEP for doubt in doubts)


def unaudited(current: Anchor) -> tuple[Doubt, ...]:
    """Return the doubt that the auditor has not looked at the drift, or at some step of it."""
    auditor, psi = current.auditor, current.psi
    if not has_past(current) or (auditor is not None and not auditor.gaps):
        return ()
    if not isinstance(psi, LogLinear):
        why = "there is no auditor for networks"
    elif current.wide is not None:
        why = "rows are too few for an auditor"
    elif psi.features.size >= NEWTON_FEATURES:
        why = "features are too many for an auditor"
    elif auditor is not None:
        why = f"the auditor could not look at {auditor.gaps} of the steps"
    else:
        why = "there is no auditor, for want of rows at the start or since the features were changed"
    return (Doubt(DoubtCode.NOT_AUDITED, f"{why}: drift that the model does not hold would not be noticed"),)


def without_error_bars(current: Anchor, estimate: Estimate) -> Estimate:
    """Return an estimate with the doubt that its error is not known, unless it has an error bar or says so already."""
    known = current.uncertainty is not None or current.wide is not None or not has_past(current)
    said = known and any(doubt.code in inference.WITHHOLDING for doubt in estimate.doubts)
    if np.isfinite(estimate.std_error) or said:
        return estimate
    if not has_past(current):
        why = "no step has been taken yet"
    elif isinstance(current.psi, LogLinear):
        why = (
            "the normaliser is taken on the window, a penalty is set, the loss couples rows, the kind of model has "
            f"changed, or there are {NEWTON_FEATURES:,} features or more"
        )
    else:
        why = "of a network they need the telescoped normaliser, polish=True and the package's own MLP, throughout"
    sentence = f"no error is known, nor is noise subtracted ({why}): the value is a hint, perhaps far off"
    return doubted(estimate, (Doubt(DoubtCode.NO_ERROR_BARS, sentence),))


def few(rows: float, of: int) -> bool:
    """Say whether averages of so many ratios rest on so few effective rows that they cannot be trusted."""
    return rows < min(50.0, 0.1 * of)


def on_few_rows(
    log_r: Floats, code: DoubtCode, what: str, advice: str, concerns: tuple[str, ...] = ()
) -> tuple[Doubt, ...]:
    """Return the doubt that averages of these ratios rest on few rows, if they do."""
    return on_few(inference.effective_sample_size(log_r), len(log_r), code, what, advice, concerns)


def on_few(
    size: float, of: int, code: DoubtCode, what: str, advice: str, concerns: tuple[str, ...] = ()
) -> tuple[Doubt, ...]:
    """Return the doubt that averages of so many ratios rest on few rows, by their effective size, if they do."""
    if not few(size, of):
        return ()
    sentence = f"{what} {size:.1f} of the {of} rows (effective sample size): {advice}"
    return (Doubt(code, sentence, concerns),)


def _concerns(kind: str | Generator) -> tuple[str, ...]:
    return (getattr(kind, "__name__", repr(kind)) if callable(kind) else kind,)


def heavy(log_r: Floats, kind: str | Generator) -> tuple[Doubt, ...]:
    """Return the doubt that a divergence rests on the few rows with the largest ratios, if it does."""
    return heavy_of(inference.effective_sample_size(log_r), len(log_r), kind, inference.tail_of(log_r, kind))


def heavy_of(size: float, of: int, kind: str | Generator, tail: inference.Tail) -> tuple[Doubt, ...]:
    """Return the same for so many ratios, by their effective size and the tail of the divergence's terms."""
    rests = callable(kind) or kind in _HEAVY
    if not (rests and few(size, of)) and not tail.decides:
        return ()
    what = f"rests on {size:.1f} of the {of} rows (effective sample size)"
    if tail.decides:
        extreme = "smallest" if kind == "neyman" else "largest"
        what = f"rests on the {extreme} ratios, and rows that the window does not show would decide it"
    sentence = (
        f"this divergence {what}: too small in all likelihood; reverse_kl, js and hellinger do not depend on them"
    )
    return (Doubt(DoubtCode.FEW_FOR_DIVERGENCE, sentence, _concerns(kind)),)


def of_way(estimate: Estimate, kind: str | Generator) -> tuple[Doubt, ...]:
    """Return the doubt that the stream was far away before, if a divergence does not know what is left of that.

    A divergence without a slope at r = 1 (``pearson``) has the square of the way's errors alone, which is an error
    where the drift is 0 again. On the way there it reads too low, the more so the smaller its interval.
    """
    flat = inference.slope(np.zeros(1), kind)[0] == 0.0
    if not (flat and estimate.way > _LONG_WAY * estimate.std_error):
        return ()
    sentence = (
        "the stream was far from the original before, and what is left of that makes this divergence too small in all "
        "likelihood; reverse_kl, js and hellinger do not depend on it"
    )
    return (Doubt(DoubtCode.FEW_FOR_DIVERGENCE, sentence, _concerns(kind)),)


def of_divergence(
    track: Track, estimate: Estimate, kind: str | Generator, rows: int, *, of_step: bool
) -> tuple[Doubt, ...]:
    """Return the doubts of a divergence by the model: extrapolated, by a network, or of unknown noise."""
    doubts: tuple[Doubt, ...] = ()
    concerns = _concerns(kind)
    if not of_step and kind == "reverse_kl" and estimate.value > _BEYOND * math.log(rows):
        sentence = (
            f"{estimate.value:.3g} nats are far more than {rows} rows can show without the model's form "
            f"(about {math.log(rows):.2g}): the ratio is extrapolated; take a nearer original"
        )
        doubts = (*doubts, Doubt(DoubtCode.EXTRAPOLATED, sentence, concerns))
    if not isinstance(track.current.psi, LogLinear) and np.isfinite(estimate.std_error):
        sentence = "error bars of a network take its hidden layers as given: the interval is too short"
        doubts = (*doubts, Doubt(DoubtCode.NETWORK_ERRORS, sentence, concerns))
    measured = np.isfinite(estimate.std_error) or not np.isfinite(estimate.value)
    if measured and np.isnan(estimate.noise):
        far = any(doubt.code in _APART for doubt in track.doubts)
        why = "the windows lie too far apart" if far else "heavy tails, or too few rows"
        sentence = f"the noise of {concerns[0]!r} cannot be estimated, nor subtracted, and the interval is rough: {why}"
        doubts = (*doubts, Doubt(DoubtCode.NOISE_UNKNOWN, sentence, concerns))
    return doubts
