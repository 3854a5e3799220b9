"""Where a run stands, and how a window moves it on: pure functions, ``state, window -> state, Records``."""

from __future__ import annotations

import copy
import hashlib
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from driftline._inputs import MIN_ROWS
from driftline.alarms import AlarmMemory
from driftline.estimators import ContinualDensityRatio, UntrustedEstimateWarning
from driftline.fitting import FitDivergedError
from driftline.monitor._judgement import judge
from driftline.monitor._novelty import Novelty, constants, novelty
from driftline.monitor._records import Original, Record, Summaries
from driftline.monitor._settings import Settings
from driftline.sources import Batch, Cursor, Window
from driftline.tables import TableEncoder

__all__ = [
    "FIRST",
    "RunState",
    "TooFewRowsError",
    "add_original",
    "advance",
    "begin",
    "complete",
    "digest",
    "grouped",
    "named",
    "too_few",
]

Floats = npt.NDArray[np.float64]
FIRST = "original"


class TooFewRowsError(ValueError):
    """A first window that columns cannot be watched from."""


@dataclass(frozen=True)
class RunState:
    """All that the next window needs.

    Attributes:
        windows: windows so far, skipped ones counted.
        cursor: where to go on reading.
        now: histograms of the last measured window.
    """

    settings: Settings
    encoder: TableEncoder
    estimator: ContinualDensityRatio
    originals: tuple[Original, ...]
    alarms: Mapping[str, AlarmMemory]
    windows: int = 1
    cursor: Cursor | None = None
    now: Summaries = field(default_factory=dict)


class _Named(NamedTuple):
    values: Floats
    columns: Sequence[str]

    def to_numpy(self) -> Floats:
        return self.values


def named(encoder: TableEncoder, values: Floats) -> Any:
    """Encoded rows with the names of their columns, as estimators take them from data frames."""
    return _Named(values, encoder.names)


def grouped(encoder: TableEncoder) -> dict[str, list[str]]:
    """Names of the encoded columns that belong together, by raw column."""
    names = encoder.names
    return {raw: [names[j] for j in at] for raw, at in encoder.groups.items()}


def digest(values: Floats) -> str:
    """Of encoded rows: tells windows apart without telling anything of their rows."""
    return hashlib.blake2b(np.ascontiguousarray(values).tobytes(), digest_size=16).hexdigest()


def too_few(rows: int, settings: Settings, encoder: TableEncoder, constant: Mapping[str, float]) -> str:
    """Why so many rows cannot be a window; empty if they can.

    A step through a window with fewer than five rows for a parameter would spoil all that come after it.
    """
    columns = sum(name not in constant for name in encoder.names)
    least = max(MIN_ROWS, 5 * columns * (2 if settings.model in ("auto", "quadratic") else 1))
    told = f"{rows} rows are too few, at least {least} are needed for {columns} encoded columns that vary"
    return told if rows < least else ""


def begin(window: Window, settings: Settings, notes: Sequence[str] = ()) -> tuple[RunState, Record]:
    """The first window: columns are encoded as it has them from now on, and drift is measured from it."""
    began = time.perf_counter()
    if window.table.num_rows < MIN_ROWS:  # nothing can be told about columns from so few
        raise TooFewRowsError(f"the first window has {window.table.num_rows} rows, at least {MIN_ROWS} are needed")
    encoder = TableEncoder.fit(
        window.table, columns=settings.columns, drop=settings.drop, numeric=settings.numeric,
        categorical=settings.categorical, datetime=settings.datetime, time_column=settings.time_column,
        schema=settings.schema, untyped=window.untyped,
    )  # fmt: skip
    encoded = encoder.transform(window.table, untyped=window.untyped)
    constant = constants(encoder.names, encoded.values)
    reason = too_few(len(encoded.values), settings, encoder, constant)
    if reason:
        raise TooFewRowsError(f"the first window: {reason}")
    estimator = ContinualDensityRatio(model=settings.model, random_state=settings.seed)
    estimator.fit(named(encoder, encoded.values), name=FIRST)
    then = encoder.summarise(window.table, untyped=window.untyped) if settings.summaries else {}
    original = Original(FIRST, 0, window.table.num_rows, window.end, then, constant)
    state = RunState(settings, encoder, estimator, (original,), {FIRST: AlarmMemory()}, cursor=window.cursor, now=then)
    record = _record(
        window, 0, FIRST, "original", (*notes, *_remarks(window), *encoded.notes), time.perf_counter() - began,
        digest=digest(encoded.values), reason="drift is measured from this window on",
    )  # fmt: skip
    return state, record


def advance(state: RunState, window: Window, notes: Sequence[str] = ()) -> tuple[RunState, list[Record]]:
    """The next window, seen from every original."""
    began, names = time.perf_counter(), [original.name for original in state.originals]
    index, remarks = state.windows, [*notes, *_remarks(window)]
    moved_on = replace(state, windows=index + 1, cursor=window.cursor)

    def skip(why: Sequence[str]) -> tuple[RunState, list[Record]]:
        seconds = time.perf_counter() - began
        return moved_on, [
            _record(window, index, name, "skipped", (*remarks, *why), seconds, signal=state.alarms[name].signal,
                    reason=f"nothing was measured: {state.alarms[name].signal} stands")
            for name in names
        ]  # fmt: skip

    if window.table.num_rows == 0:
        return skip(() if remarks else ("no rows",))
    table = complete(window, state.encoder)
    absent = [c.name for c in state.encoder.columns if c.name not in window.table.column_names]
    if window.sparse and absent:
        remarks.append(f"no row has {', '.join(map(repr, absent[:5]))}: counted as missing values")
    encoded = state.encoder.transform(table, untyped=window.untyped)
    remarks += encoded.notes
    reason = too_few(len(encoded.values), state.settings, state.encoder, state.originals[0].constant)
    if reason:
        return skip((f"{reason}: the next window is compared with the one before",))
    estimator = copy.copy(state.estimator)  # shallow: a step replaces what it changes
    rows = named(state.encoder, encoded.values)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UntrustedEstimateWarning)  # they are in info_, and become doubts
            estimator.partial_fit(dict.fromkeys(names, rows))
    except FitDivergedError as error:
        return skip((f"the fit failed, the next window is compared with the one before: {error}",))
    groups = grouped(state.encoder)
    judged = {
        original.name: judge(
            estimator, original.name, state.settings, state.alarms[original.name], groups,
            _novelty(state, original, estimator, encoded.values),
        )
        for original in state.originals
    }  # fmt: skip
    now = state.encoder.summarise(table, untyped=window.untyped) if state.settings.summaries else {}
    seconds, mark = time.perf_counter() - began, digest(encoded.values)
    records = [
        _record(window, index, n, "measured", remarks, seconds, digest=mark, **found.parts)
        for n, found in judged.items()
    ]
    alarms = {n: found.alarm for n, found in judged.items()}
    return replace(moved_on, estimator=estimator, alarms=alarms, now=now), records


def _novelty(state: RunState, original: Original, estimator: ContinualDensityRatio, values: Floats) -> Novelty | None:
    settings, lag = state.settings, estimator.info_.originals[original.name].lag
    return novelty(
        original.constant, original.rows, state.encoder.names, values,
        kind=settings.divergences[0], run_length=settings.run_length, lag=lag,
    )  # fmt: skip


def add_original(
    state: RunState, name: str, table: pa.Table | None, *, untyped: bool = False
) -> tuple[RunState, Record]:
    """A further original: the rows of a table, or of the current window if there is none."""
    if not name or not isinstance(name, str):
        raise ValueError(f"name={name!r} must be a non-empty string")
    if name in state.alarms:
        raise ValueError(f"an original {name!r} is traced already: choose another name")
    estimator = copy.copy(state.estimator)
    notes: tuple[str, ...] = ()
    if table is None:
        values, then = estimator.current_window(FIRST), state.now
    else:
        encoded = state.encoder.transform(table, untyped=untyped)
        values, notes = encoded.values, encoded.notes
        then = state.encoder.summarise(table, untyped=untyped) if state.settings.summaries else {}
    constant = constants(state.encoder.names, values)
    reason = too_few(len(values), state.settings, state.encoder, constant)
    if reason:
        raise ValueError(f"original {name!r}: {reason}")
    estimator.add_original(named(state.encoder, values), name=name)
    index = state.windows - 1
    record = Record(
        window=index, original=name, status="original", rows=len(values), first_row=0, notes=notes,
        reason="drift is measured from these rows on", digest=digest(values),
    )  # fmt: skip
    original = Original(name, index, len(values), None, then, constant)
    alarms = {**state.alarms, name: AlarmMemory()}
    return replace(state, estimator=estimator, originals=(*state.originals, original), alarms=alarms), record


def complete(rows: Batch | Window, encoder: TableEncoder) -> pa.Table:
    """Where values are missing by their column not being there, as in JSON lines, a column without any is there."""
    table = rows.table
    if rows.sparse:
        for column in encoder.columns:
            if column.name not in table.column_names:
                table = table.append_column(column.name, pa.nulls(table.num_rows))
    return table


def _remarks(window: Window) -> list[str]:
    rows = "1 row" if window.late_rows == 1 else f"{window.late_rows:,} rows"
    late = f"{rows} came after their window was closed, and were left out" if window.late_rows else ""
    return [remark for remark in (window.note, late) if remark]


def _record(
    window: Window, index: int, original: str, status: str, notes: Sequence[str], seconds: float, **parts: Any
) -> Record:
    return Record(
        window=index, original=original, status=status, rows=window.table.num_rows, first_row=window.first_row,
        start=window.start, end=window.end, late_rows=window.late_rows, notes=tuple(notes), seconds=seconds, **parts,
    )  # fmt: skip
