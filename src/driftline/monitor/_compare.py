"""Comparison of two tables by static estimation, as a Record."""

from __future__ import annotations

import math
import time
from typing import Any

from driftline import recursion
from driftline._causes import reason
from driftline._wording import is_bound
from driftline.alarms import Cause, Signal, is_withheld
from driftline.inference import Estimate
from driftline.monitor._advance import fit_encoder, grouped, rows_of, step_settings
from driftline.monitor._certainty import certainty
from driftline.monitor._judgement import moved, plain, sentences
from driftline.monitor._records import FIRST, Record, Status
from driftline.monitor._settings import Settings
from driftline.recursion import Policy
from driftline.tables import Rows

__all__ = ["compare"]


def compare(original: Rows, current: Rows, settings: Settings, name: str = "original") -> Record:
    """Measure how far current rows are from original ones; alarm if the whole interval lies beyond the tolerance."""
    began = time.perf_counter()
    encoder = fit_encoder(original, settings)
    then, now = encoder.transform(original), encoder.transform(current)
    how = step_settings(settings, encoder)
    start = recursion.start(rows_of(encoder, then.values, "original"), how, FIRST)
    window = rows_of(encoder, now.values, "current")
    state, info = recursion.step(start, {FIRST: window}, how, Policy())
    track, about = state.tracks[FIRST], info.originals[FIRST]
    found = {kind: recursion.divergence(track, kind, settings.level, of_step=False) for kind in settings.divergences}
    kept = {kind: plain(estimate) for kind, estimate in found.items()}
    moves = moved(track, encoder.names, settings, grouped(encoder))
    drift = kept[settings.divergences[0]]
    signal, cause = _judged(drift, settings.tolerance, is_withheld(found[settings.divergences[0]]))
    numbers: dict[str, Any] = {"drift": drift.value, "low": drift.low, "high": drift.high}
    numbers |= {"percent": 100.0 * drift.level, "tolerance": settings.tolerance}
    certain = certainty(now.evidence, settings.divergences[0])
    if certain is not None and certain.least > settings.tolerance and signal != Signal.ALARM:
        signal, cause = Signal.ALARM, Cause.SHARE_MOVED
        numbers |= certain._asdict()
    return Record(
        window=1,
        original=name,
        status=Status.MEASURED,
        rows=len(now.values),
        first_row=len(then.values),
        divergences=kept,
        signal=signal,
        causes=(cause,),
        reason=reason((cause,), **numbers),
        warning_limit=settings.tolerance,
        alarm_limit=settings.tolerance,
        columns=moves.columns,
        effective_sample_size=about.effective_sample_size,
        doubts=(
            *now.doubts,
            *sentences([*about.doubts, *(d for e in found.values() for d in e.doubts), *moves.doubts]),
        ),
        notes=(*encoder.notes, *now.notes),
        seconds=time.perf_counter() - began,
    )


def _judged(drift: Estimate, tolerance: float, withheld: bool) -> tuple[Signal, Cause]:
    """Compare the interval with the tolerance: this is a single look, not a stream."""
    if is_bound(drift):  # nobody knows whether it is within the tolerance
        return (Signal.ALARM if drift.low > tolerance else Signal.WARNING), Cause.LOWER_BOUND
    if not math.isfinite(drift.low + drift.high):
        return Signal.WARNING if withheld or drift.value > tolerance else Signal.NORMAL, Cause.NO_INTERVAL
    if drift.low > tolerance:
        return Signal.ALARM, Cause.INTERVAL_BEYOND
    if drift.high > tolerance:
        return Signal.WARNING, Cause.INTERVAL_REACHES
    return Signal.NORMAL, Cause.INTERVAL_WITHIN
