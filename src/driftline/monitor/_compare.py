"""Comparison of two tables by static estimation, as a Record."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from driftline import recursion
from driftline._causes import reason
from driftline._wording import bounds, is_bound, number, precise
from driftline.alarms import Cause, Signal, why_withheld
from driftline.inference import Estimate
from driftline.monitor._advance import fit_encoder, naming_of, rows_of, step_settings
from driftline.monitor._certainty import Certainty, beyond, certainly, certainties, named_first
from driftline.monitor._given import given_rows
from driftline.monitor._judgement import beside_columns, matters, measured, named
from driftline.monitor._moves import Pool
from driftline.monitor._naming import Naming, said
from driftline.monitor._novelty import constants, new_rows
from driftline.monitor._record_parts import Status, plain
from driftline.monitor._records import FIRST, Record
from driftline.monitor._settings import Settings
from driftline.monitor._sizes import TooFewRowsError, need
from driftline.recursion import Policy
from driftline.tables import Rows, TableError, open_ledger

__all__ = ["compare"]


def compare(original: Any, current: Any, *, name: str = "original", **settings: Any) -> Record:
    """Measure how far current rows are from original ones, as ``driftline compare`` does; nothing is kept.

    Estimates and doubts are those of a :class:`~driftline.Monitor` that watches these two windows. The signal is that
    of a single look: an alarm if the whole interval lies beyond the tolerance, or if so many rows hold values that no
    row of the original has; a warning if a part of the interval does, if it is open above, or if there is none.

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
    """Measure how far current rows are from original ones, by these settings: as a stream of these two windows is."""
    began = time.perf_counter()
    with _rows_of("the original"):
        encoder = fit_encoder(original, settings)
        then = encoder.transform(original)
    with _rows_of("the rows to compare with it"):
        now = encoder.transform(current)
    constant = constants(encoder.names, then.values)
    least = need(settings, encoder, constant)
    for what, values in (("the original", then.values), ("the rows to compare with it", now.values)):
        if missed := least.missed(len(values)):
            raise TooFewRowsError("{what}: {missed}: take more rows, or fewer columns", what=what, missed=missed)
    how = step_settings(settings, encoder)
    start = recursion.start(rows_of(encoder, then.values, "original"), how, FIRST)
    window = rows_of(encoder, now.values, "current")
    state, info = recursion.step(start, {FIRST: window}, how, Policy())
    track, about, first = state.tracks[FIRST], info.originals[FIRST], settings.divergences[0]
    fresh = new_rows(constant, encoder.names, now.values)
    found = measured(track, about, settings, now.values, now.doubts, fresh)
    ledger = open_ledger(encoder, then.values, recursion.effective_rows(start.tracks[FIRST].current))
    naming = naming_of(ledger, encoder, now, track, Pool(), settings, found.drift)
    drift, _, measures = beside_columns(found, naming, first)
    certain = certainties(constant, len(then.values), encoder, now, settings, first=True)
    warns = matters(naming, certain, settings.tolerance)
    naming = naming._replace(columns=named_first(naming.columns, certain, settings.level))
    far = beyond(certain, settings.tolerance)
    signal, causes, why = _judged(drift, settings.tolerance, far, naming, warns)
    record = Record(
        window=1,
        original=name,
        status=Status.MEASURED,
        rows=len(now.values),
        first_row=len(then.values),
        signal=signal,
        causes=causes,
        reason=why,
        warning_limit=settings.tolerance,
        alarm_limit=settings.tolerance,
        notes=(*encoder.notes, *now.notes, *naming.notes),
        seconds=time.perf_counter() - began,
    )
    measures = {**measures, **named(naming, drift, first, signal)}
    return replace(record, **{**measures, "step": None})  # the step is the drift itself


@contextmanager
def _rows_of(what: str) -> Iterator[None]:
    """Say in errors about a row whose row it is: there are no windows here."""
    try:
        yield
    except TableError as error:
        raise error.replaced(where=what) from None


def _rows(data: Any, what: str, settings: Settings) -> Rows:
    """Return the rows of a frame, or of an array, whose columns are named by their number."""
    if isinstance(data, Rows) or not hasattr(data, "__array__") or hasattr(data, "columns"):
        return given_rows(data, settings)
    values = np.asarray(data.detach().cpu() if hasattr(data, "detach") else data)
    if values.ndim != 2:
        raise ValueError(f"{what} must have two dimensions (rows, columns), got shape {values.shape}")
    return Rows(pa.table({str(j): values[:, j] for j in range(values.shape[1])}))


def _judged(
    estimate: Estimate, tolerance: float, far: Sequence[Certainty], naming: Naming, warns: bool
) -> tuple[Signal, tuple[Cause, ...], str]:
    """Compare the interval with the tolerance: this is a single look, not a stream.

    A column that is certainly beyond the tolerance is an alarm. One that moved less is a warning, though all columns
    together are within the tolerance.
    """
    drift = plain(estimate)
    signal, cause = _signal(drift, tolerance)
    low, high = bounds(drift) or ("", "")
    numbers = {"drift": precise(drift), "low": low, "high": high, "tolerance": number(tolerance)}
    level = f"{100.0 * drift.level:.4g}\xa0%"
    why = reason((cause,), **numbers, percent=level, why=why_withheld(estimate))
    if far:
        causes, sure = certainly(far)
        return Signal.ALARM, (*causes, cause), f"{sure}; {why}"
    if signal == Signal.NORMAL and warns:
        named = reason((Cause.COLUMN_MOVED,), named=said(naming))
        return Signal.WARNING, (Cause.COLUMN_MOVED, cause), f"{named}; {why}"
    return signal, (cause,), why


def _signal(drift: Estimate, tolerance: float) -> tuple[Signal, Cause]:
    """Decide by an interval. What is open above, or has none, is never normal: nobody knows where it ends."""
    if is_bound(drift):
        cause = Cause.LOWER_BOUND if drift.lower_bound else Cause.UNSETTLED
        return (Signal.ALARM if drift.low > tolerance else Signal.WARNING), cause
    if not math.isfinite(drift.low + drift.high):
        return Signal.WARNING, Cause.NO_INTERVAL
    if drift.low > tolerance:
        return Signal.ALARM, Cause.INTERVAL_BEYOND
    if drift.high > tolerance:
        return Signal.WARNING, Cause.INTERVAL_REACHES
    return Signal.NORMAL, Cause.INTERVAL_WITHIN
