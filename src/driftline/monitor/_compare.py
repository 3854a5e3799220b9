"""Comparison of two tables by static estimation, as a Record."""

from __future__ import annotations

import math
import time
from functools import partial

from driftline.alarms import Signal
from driftline.estimators import DensityRatio
from driftline.inference import Estimate
from driftline.monitor._advance import complete, fit_encoder, grouped, named
from driftline.monitor._judgement import moved, noting, plain
from driftline.monitor._records import Record
from driftline.monitor._settings import Settings
from driftline.sources import Batch

__all__ = ["compare"]


def compare(original: Batch, current: Batch, settings: Settings, name: str = "original") -> Record:
    """Measure how far current rows are from original ones; alarm if the whole interval lies beyond the tolerance."""
    began = time.perf_counter()
    encoder = fit_encoder(original, settings)
    then = encoder.transform(original.table, untyped=original.untyped)
    now = encoder.transform(complete(current, encoder), untyped=current.untyped)
    ratio, doubts = DensityRatio(model=settings.model, random_state=settings.seed), list[str]()
    noting(doubts, partial(ratio.fit, named(encoder, then.values), named(encoder, now.values)))
    found = {
        kind: plain(noting(doubts, partial(ratio.divergence, kind, level=settings.level)))
        for kind in settings.divergences
    }
    columns = noting(doubts, partial(moved, ratio.attribution, settings, grouped(encoder)))
    signal, reason = _judged(found[settings.divergences[0]], settings.tolerance)
    return Record(
        window=1,
        original=name,
        status="measured",
        rows=len(now.values),
        first_row=len(then.values),
        divergences=found,
        signal=signal,
        reason=reason,
        warning_limit=settings.tolerance,
        alarm_limit=settings.tolerance,
        columns=columns,
        effective_sample_size=ratio.info_.effective_sample_size,
        doubts=tuple(dict.fromkeys(doubts)),
        notes=now.notes,
        seconds=time.perf_counter() - began,
    )


def _judged(drift: Estimate, tolerance: float) -> tuple[Signal, str]:
    """Compare the interval with the tolerance: this is a single look, not a stream."""
    percent = f"{100 * drift.level:.4g}% interval"
    if not math.isfinite(drift.low + drift.high):
        signal = Signal.WARNING if drift.value > tolerance else Signal.NORMAL
        return signal, f"{drift.value:.3g} nats without an error bar: too few rows to decide"
    if drift.low > tolerance:
        return Signal.ALARM, f"the {percent}, {drift.low:.3g} to {drift.high:.3g}, lies beyond {tolerance:.3g}"
    if drift.high > tolerance:
        return Signal.WARNING, f"the {percent}, {drift.low:.3g} to {drift.high:.3g}, reaches beyond {tolerance:.3g}"
    return Signal.NORMAL, f"the {percent}, {drift.low:.3g} to {drift.high:.3g}, lies within {tolerance:.3g}"
