"""Comparison of two tables by static estimation, as a Record."""

from __future__ import annotations

import math
import time
from functools import partial

from driftline._causes import reason
from driftline.alarms import Cause, Signal
from driftline.estimators import DensityRatio
from driftline.inference import Estimate
from driftline.monitor._advance import complete, fit_encoder, grouped, named
from driftline.monitor._judgement import moved, noting, plain
from driftline.monitor._records import Record, Status
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
    drift = found[settings.divergences[0]]
    signal, cause = _judged(drift, settings.tolerance)
    percent = 100.0 * drift.level
    return Record(
        window=1,
        original=name,
        status=Status.MEASURED,
        rows=len(now.values),
        first_row=len(then.values),
        divergences=found,
        signal=signal,
        causes=(cause,),
        reason=reason(
            (cause,), drift=drift.value, low=drift.low, high=drift.high, percent=percent, tolerance=settings.tolerance
        ),
        warning_limit=settings.tolerance,
        alarm_limit=settings.tolerance,
        columns=columns,
        effective_sample_size=ratio.info_.effective_sample_size,
        doubts=tuple(dict.fromkeys(doubts)),
        notes=now.notes,
        seconds=time.perf_counter() - began,
    )


def _judged(drift: Estimate, tolerance: float) -> tuple[Signal, Cause]:
    """Compare the interval with the tolerance: this is a single look, not a stream."""
    if not math.isfinite(drift.low + drift.high):
        return Signal.WARNING if drift.value > tolerance else Signal.NORMAL, Cause.NO_INTERVAL
    if drift.low > tolerance:
        return Signal.ALARM, Cause.INTERVAL_BEYOND
    if drift.high > tolerance:
        return Signal.WARNING, Cause.INTERVAL_REACHES
    return Signal.NORMAL, Cause.INTERVAL_WITHIN
