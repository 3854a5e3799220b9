"""Steps that keep sums instead of rows, and all that must be read while a window is at hand."""

from __future__ import annotations

import numpy as np

from driftline import inference
from driftline._inputs import Floats
from driftline._wording import counted as tally
from driftline.fitting import (
    LogLinear,
    LogLinearDesign,
    SumsFit,
    log_mean_exp,
)
from driftline.inference import (
    NO_GAIN,
    UNSUPPORTED,
    Dependence,
    Doubt,
    DoubtCode,
    largest,
)
from driftline.recursion._auditor import renewed
from driftline.recursion._diagnostics import OriginalInfo, diagnose
from driftline.recursion._doubts import WEAK, carried, doubted
from driftline.recursion._floor import counted
from driftline.recursion._frames import follow_sums
from driftline.recursion._joining import Joined, joined
from driftline.recursion._kept import Readings, Sums, between, reading_keys
from driftline.recursion._log_linear import check_extremes, same_kind
from driftline.recursion._narrow import narrowed
from driftline.recursion._quantities import Known, divergence, weights
from driftline.recursion._reading import moderated
from driftline.recursion._rows import Curved
from driftline.recursion._settings import StepSettings
from driftline.recursion._stand_in import fitted, forward_of, of_numerator, taken_by
from driftline.recursion._state import Anchor, Step, Track
from driftline.recursion._summed import check_rows, depends_of, kept_sums

__all__ = ["LARGE", "step_sums", "with_doubts"]

LARGE = 1.5
"""Nats of a step beyond which it is not measured."""
_WIDE = 1.2  # standard deviation of a step's log-ratio in the numerator: beyond, the ratio begins to be biased
_WITHOUT = (
    "features joined after this step was fitted: what they have moved by in it is not read; the divergence from the "
    "original has all of it"
)
_LEFT = (
    "products or hinges of columns have moved since the original and could not join: if they moved in this step, that "
    "is not read"
)


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
    check_rows(len(window), psi.features.size + 1, "the window")
    den = LogLinearDesign(psi.features, z_den)
    fit = fitted(sums, den, psi.features, window, settings)
    depend = depends_of(window, Curved(den.live, len(psi.features.squares) if psi.features.curved else None), settings)
    seen = None if anchor.auditor is None else anchor.auditor(psi.standardizer.original(den.z))
    taken, stand_in = taken_by(anchor, window, den, fit, depend, settings, seen)
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
    kept = kept_sums(taken.anchor, window, depend, fit, anchor, seen)._replace(
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
    arrived = arrived._replace(forward=forward_of(arrived))
    return taken._replace(anchor=arrived, telescoped=arrived.log_normalizer, note=further.note)


def _holds(sums: Sums, depend: Dependence, taken: Step) -> bool:
    """Say whether a window's rows are too few or dependent for a step to start from, and those before it are not."""
    errors, before = taken.anchor.uncertainty, of_numerator(sums)
    assert errors is not None
    if errors.slack > UNSUPPORTED:
        return False
    size = len(errors.bias)
    return before.supports(int(sums.moments.rows), size) and not depend.supports(taken.anchor.size, size)


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
