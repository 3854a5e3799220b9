"""Comparison of two tables by static estimation, as a Record."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from driftline import recursion
from driftline._causes import reason
from driftline._wording import is_bound
from driftline.alarms import Cause, Signal, is_withheld
from driftline.inference import Estimate
from driftline.monitor._advance import fit_encoder, naming_of, rows_of, step_settings
from driftline.monitor._certainty import Certainty, certainty
from driftline.monitor._given import given_rows
from driftline.monitor._judgement import matters, sentences
from driftline.monitor._moves import Pool
from driftline.monitor._naming import Naming, said
from driftline.monitor._novelty import Novelty, constants, novelty
from driftline.monitor._records import FIRST, Record, Status, plain
from driftline.monitor._settings import Settings
from driftline.recursion import Policy
from driftline.tables import Rows, open_ledger

__all__ = ["compare"]


def compare(original: Any, current: Any, *, name: str = "original", **settings: Any) -> Record:
    """Measure how far current rows are from original ones, as ``driftline compare`` does; nothing is kept.

    The signal is an alarm if the whole interval lies beyond the tolerance, or if so many rows hold values that no row
    of the original has; it is a warning if a part of the interval does.

    Arguments:
        original, current: frames (pandas, polars, pyarrow), arrays (n, D), paths of files, or
            :class:`~driftline.tables.Rows`.
        name: name of the original in the Record.
        settings: settings as in :class:`~driftline.monitor.Settings`, such as ``tolerance=0.05`` or ``drop=["id"]``.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> record = compare(rng.normal(0, 1, (2000, 2)), rng.normal([0, 1], 1, (2000, 2)))  # the truth is 0.5
    >>> str(record.signal), f"{record.drift:.1f}", record.columns[0].column
    ('alarm', '0.5', '1')
    """
    chosen = Settings.uncut(settings)
    return _compared(_rows(original, "original", chosen), _rows(current, "current", chosen), chosen, name)


def _compared(original: Rows, current: Rows, settings: Settings, name: str = "original") -> Record:
    """Measure how far current rows are from original ones, by these settings."""
    began = time.perf_counter()
    encoder = fit_encoder(original, settings)
    then, now = encoder.transform(original), encoder.transform(current)
    how = step_settings(settings, encoder)
    start = recursion.start(rows_of(encoder, then.values, "original"), how, FIRST)
    window = rows_of(encoder, now.values, "current")
    state, info = recursion.step(start, {FIRST: window}, how, Policy())
    track, about = state.tracks[FIRST], info.originals[FIRST]
    found = {kind: recursion.divergence(track, kind, settings.level, of_step=False) for kind in settings.divergences}
    first = settings.divergences[0]
    ledger = open_ledger(encoder, then.values, recursion.effective_rows(start.tracks[FIRST].current))
    naming = naming_of(ledger, encoder, now, track, Pool(), settings, found[first])
    new_values = novelty(
        constants(encoder.names, then.values),
        len(then.values),
        encoder.names,
        now.values,
        kind=first,
        run_length=settings.run_length,
    )
    certain = {Cause.NEW_VALUES: new_values, Cause.SHARE_MOVED: certainty(now.evidence, first)}
    signal, causes, why = _judged(found[first], settings.tolerance, certain, naming)
    speaks = signal != Signal.NORMAL or bool(naming.columns or naming.pairs)
    return Record(
        window=1,
        original=name,
        status=Status.MEASURED,
        rows=len(now.values),
        first_row=len(then.values),
        divergences={kind: plain(estimate) for kind, estimate in found.items()},
        signal=signal,
        causes=causes,
        reason=why,
        warning_limit=settings.tolerance,
        alarm_limit=settings.tolerance,
        columns=naming.columns,
        pairs=naming.pairs,
        unexplained=naming.unexplained(found[first]) if speaks and first == "reverse_kl" else None,
        without=naming.hides,
        effective_sample_size=about.effective_sample_size,
        doubts=(
            *now.doubts,
            *sentences([*about.doubts, *(d for e in found.values() for d in e.doubts)]),
        ),
        notes=(*encoder.notes, *now.notes, *naming.notes),
        seconds=time.perf_counter() - began,
    )


def _rows(data: Any, what: str, settings: Settings) -> Rows:
    """Return the rows of a frame, or of an array, whose columns are named by their number."""
    if isinstance(data, Rows) or not hasattr(data, "__array__") or hasattr(data, "columns"):
        return given_rows(data, settings)
    values = np.asarray(data.detach().cpu() if hasattr(data, "detach") else data)
    if values.ndim != 2:
        raise ValueError(f"{what} must have two dimensions (rows, columns), got shape {values.shape}")
    return Rows(pa.table({str(j): values[:, j] for j in range(values.shape[1])}))


def _judged(
    estimate: Estimate, tolerance: float, certain: Mapping[Cause, Novelty | Certainty | None], naming: Naming
) -> tuple[Signal, tuple[Cause, ...], str]:
    """Compare the interval with the tolerance: this is a single look, not a stream. What is certain is an alarm.

    A column that moved is a warning, though all columns together are within the tolerance.
    """
    drift = plain(estimate)
    signal, cause = _signal(drift, tolerance, is_withheld(estimate))
    numbers = {"drift": drift.value, "low": drift.low, "high": drift.high, "tolerance": tolerance}
    causes, why = [cause], [reason((cause,), **numbers, percent=100.0 * drift.level)]
    for further, found in certain.items():
        if found is not None and found.least > tolerance:
            signal = Signal.ALARM
            causes.append(further)
            why.append(reason((further,), **found._asdict()))
    if signal == Signal.NORMAL and matters(naming, tolerance):
        signal = Signal.WARNING
        causes.append(Cause.COLUMN_MOVED)
        why.append(reason((Cause.COLUMN_MOVED,), named=said(naming)))
    return signal, tuple(causes), "; ".join(why)


def _signal(drift: Estimate, tolerance: float, withheld: bool) -> tuple[Signal, Cause]:
    if is_bound(drift):  # nobody knows whether it is within the tolerance
        return (Signal.ALARM if drift.low > tolerance else Signal.WARNING), Cause.LOWER_BOUND
    if not math.isfinite(drift.low + drift.high):
        return Signal.WARNING if withheld or drift.value > tolerance else Signal.NORMAL, Cause.NO_INTERVAL
    if drift.low > tolerance:
        return Signal.ALARM, Cause.INTERVAL_BEYOND
    if drift.high > tolerance:
        return Signal.WARNING, Cause.INTERVAL_REACHES
    return Signal.NORMAL, Cause.INTERVAL_WITHIN
