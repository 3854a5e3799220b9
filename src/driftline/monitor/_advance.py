"""The state of a run, and how a window advances it: pure functions, ``state, window -> state, Records``."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from driftline import recursion
from driftline._causes import reason as said
from driftline._errors import Option, OptionError
from driftline._inputs import MIN_ROWS, as_rows
from driftline._wording import counted
from driftline.alarms import AlarmMemory, Cause, Signal
from driftline.fitting import FitDivergedError
from driftline.inference import Doubt, DoubtCode, Estimate
from driftline.monitor._certainty import certainties
from driftline.monitor._judgement import Judgement, judge
from driftline.monitor._moves import Pool
from driftline.monitor._naming import NOTHING, Naming, name_moves
from driftline.monitor._novelty import constants, new_rows
from driftline.monitor._record_parts import Status
from driftline.monitor._records import FIRST, Original, Record, Summaries
from driftline.monitor._settings import Settings
from driftline.monitor._sizes import TooFewRowsError, need
from driftline.monitor._skips import after_skips, while_skipped
from driftline.recursion import FewForSumsError, Info, Policy, State, StepSettings, Track
from driftline.sources import Cursor, Window
from driftline.tables import Encoded, Evidence, Ledger, Rows, TableEncoder, open_ledger

__all__ = [
    "RunState",
    "add_original",
    "advance",
    "begin",
    "digest",
    "fail",
    "fit_encoder",
    "naming_of",
    "remarks_on",
    "rows_of",
    "step_settings",
]

Floats = npt.NDArray[np.float64]

_UNKEPT = "no counts of the original are kept without summaries: columns and pairs that move are not named"
_LISTED = 5  # most names in a note


@dataclass(frozen=True)
class RunState:
    """Everything the next window needs.

    Attributes:
        settings: settings of the run.
        encoder: encoder of the columns, frozen at the first window.
        recursion: state of the recursion, with a track for each original.
        originals: originals, in the order they joined.
        alarms: memory of each original's alarm, by name.
        windows: number of windows so far, including skipped ones.
        cursor: cursor of the first unread row.
        now: histograms of the last measured window.
        skipped: number of windows since then, which were skipped.
        pools: counts of the last windows in the cells of each original, by name.
    """

    settings: Settings
    encoder: TableEncoder
    recursion: State
    originals: tuple[Original, ...]
    alarms: Mapping[str, AlarmMemory]
    windows: int = 1
    cursor: Cursor | None = None
    now: Summaries = field(default_factory=dict)
    skipped: int = 0
    pools: Mapping[str, Pool] = field(default_factory=dict)


class _Named(NamedTuple):
    values: Floats
    columns: Sequence[str]

    def to_numpy(self) -> Floats:
        return self.values


def rows_of(
    encoder: TableEncoder,
    values: Floats,
    what: str,
    *,
    min_rows: int = MIN_ROWS,
    copy: bool = True,
) -> Floats:
    """Return encoded rows (n, D) after checks; ``what`` names them in errors, which also name the column."""
    return as_rows(_Named(values, encoder.names), what, min_rows=min_rows, copy=copy)


def step_settings(settings: Settings, encoder: TableEncoder) -> StepSettings:
    """Return the settings of a step; what a run does not set is as it is in an estimator."""
    return StepSettings(model=settings.model, seed=settings.seed, names=tuple(encoder.names), keep=settings.keep)


def naming_of(
    ledger: Ledger | None,
    encoder: TableEncoder,
    encoded: Encoded,
    track: Track,
    pool: Pool,
    settings: Settings,
    joint: Estimate,
) -> Naming:
    """Name what moved from the original of a ledger; nothing where rows depend on each other too far."""
    if ledger is None:
        return NOTHING
    withheld = any(doubt.code == DoubtCode.DEPENDENT_ROWS for doubt in joint.doubts)
    worth = 0.0 if withheld else recursion.effective_rows(track.current)
    return name_moves(ledger, encoder, encoded, worth, pool, joint, 1.0 / settings.run_length, settings.level)


def digest(values: Floats) -> str:
    """Return a digest of encoded rows: it identifies a window without revealing any of its rows."""
    return hashlib.blake2b(np.ascontiguousarray(values).data, digest_size=16).hexdigest()


def fit_encoder(rows: Rows, settings: Settings, time_column: str | None = None) -> TableEncoder:
    """Decide from the first rows, and from the settings, how columns are encoded from now on."""
    return TableEncoder.fit(
        rows,
        columns=settings.columns,
        drop=settings.drop,
        numeric=settings.numeric,
        categorical=settings.categorical,
        datetime=settings.datetime,
        time_column=time_column,
        schema=settings.schema,
    )


def begin(
    window: Window, settings: Settings, notes: Sequence[str] = (), what: str = "the first window"
) -> tuple[RunState, Record]:
    """Begin a run: the first window decides how columns are encoded, and drift is measured from it."""
    began = time.perf_counter()
    if window.table.num_rows < MIN_ROWS:  # so few rows do not even show what kind a column is
        raise TooFewRowsError(f"{what} has {window.table.num_rows} rows, at least {MIN_ROWS} are needed")
    encoder = fit_encoder(window.rows, settings, settings.time_column)
    encoded = encoder.transform(window.rows, summaries=settings.summaries)
    constant = constants(encoder.names, encoded.values)
    least = need(settings, encoder, constant)
    if len(encoded.values) < least.rows:
        raise least.error(what, len(encoded.values), settings)
    rows = rows_of(encoder, encoded.values, "original")
    try:
        start = recursion.start(rows, step_settings(settings, encoder), FIRST)
    except FewForSumsError as error:
        raise TooFewRowsError("{what}: {error}", what=what, error=error) from None
    then = encoded.summaries
    ledger = _ledger(settings, encoder, rows, start, FIRST)
    original = Original(FIRST, 0, window.table.num_rows, window.end, then, constant, ledger)
    state = RunState(
        settings=settings,
        encoder=encoder,
        recursion=start,
        originals=(original,),
        alarms={FIRST: AlarmMemory()},
        cursor=window.cursor,
        now=then,
        pools={FIRST: Pool()},
    )
    record = _record(
        window,
        0,
        FIRST,
        Status.ORIGINAL,
        notes=(
            *notes,
            *remarks_on(window),
            *encoder.notes,
            *encoded.notes,
            *(() if settings.summaries else (_UNKEPT,)),
        ),
        seconds=time.perf_counter() - began,
        digest=digest(encoded.values),
        causes=(Cause.BEGAN,),
        reason=said((Cause.BEGAN,)),
    )
    return state, record


def _ledger(settings: Settings, encoder: TableEncoder, rows: Floats, state: State, name: str) -> Ledger | None:
    """Count an original's rows, while they are at hand."""
    if not settings.summaries:
        return None
    return open_ledger(encoder, rows, recursion.effective_rows(state.tracks[name].current))


def advance(state: RunState, window: Window, notes: Sequence[str] = ()) -> tuple[RunState, list[Record]]:
    """Take the next window, and measure how far it is from every original."""
    began, remarks = time.perf_counter(), [*notes, *remarks_on(window)]
    after = replace(state, windows=state.windows + 1, cursor=window.cursor, skipped=state.skipped + 1)
    if window.table.num_rows == 0:
        return after, _skipped(state, window, Cause.NO_ROWS, remarks or ["no rows"], began)
    encoded = state.encoder.transform(window.rows, summaries=state.settings.summaries)
    remarks += [*_absent(window.rows, state.encoder), *encoded.notes]
    missed = need(state.settings, state.encoder, state.originals[0].constant).missed(len(encoded.values))
    if missed:
        remarks.append(f"{missed}: the next window is compared with the one before")
        return after, _skipped(state, window, Cause.TOO_FEW_ROWS, remarks, began, encoded)
    try:
        arrived, info = _stepped(state, encoded.values)
    except FewForSumsError as error:
        remarks.append(f"{error}: the next window is compared with the one before")
        return after, _skipped(state, window, Cause.TOO_FEW_ROWS, remarks, began, encoded)
    except FitDivergedError as error:
        remarks.append(f"the fit failed, the next window is compared with the one before: {error}")
        return after, _skipped(state, window, Cause.FIT_FAILED, remarks, began, encoded)
    judged = {original.name: _judged(state, original, arrived, info, encoded) for original in state.originals}
    remarks += after_skips(state.skipped)
    common: dict[str, Any] = {
        "seconds": time.perf_counter() - began,
        "digest": digest(encoded.values),
    }
    records = [
        _record(
            window,
            state.windows,
            name,
            Status.MEASURED,
            notes=[*_about(name, remarks, encoded), *_uncompared(name, state.encoder, encoded.evidence), *found.notes],
            **common,
            **found.parts,
        )
        for name, found in judged.items()
    ]
    return replace(
        after,
        recursion=arrived,
        alarms={name: found.alarm for name, found in judged.items()},
        now=encoded.summaries,
        skipped=0,
        pools={name: found.pool for name, found in judged.items()},
    ), records


def _about(name: str, notes: Sequence[str], encoded: Encoded | None) -> list[str]:
    """Return the notes that concern an original: those that compare with the first window concern no other."""
    other = () if name == FIRST or encoded is None else encoded.compared
    return [note for note in notes if note not in other]


def _uncompared(name: str, encoder: TableEncoder, evidence: Sequence[Evidence] = ()) -> list[str]:
    """Note the columns that are not watched: how many of their rows hold a value is only known of the first window."""
    late = (found.column for found in evidence if found.column not in encoder.groups)  # keys of JSON lines
    every = dict.fromkeys([*encoder.held, *(counter.name for counter in encoder.counters), *late])
    columns = [] if name == FIRST else list(every)
    more = f" and {counted(len(columns) - _LISTED, 'more column')}" if len(columns) > _LISTED else ""
    shown = f"{', '.join(map(repr, columns[:_LISTED]))}{more}"
    return [f"not watched, and compared with the first window only: {shown}"] if columns else []


def fail(
    state: RunState | None, window: Window, error: Exception, notes: Sequence[str] = (), before: int = 0
) -> tuple[RunState | None, list[Record]]:
    """Pass over a window that cannot be measured: its Records carry the error as a doubt, and the signals stand.

    Before a run has begun (``state`` is None, ``before`` windows have come) there is no signal that could stand: it is
    a warning, since nothing is known.
    """
    began, why = time.perf_counter(), str(error) or type(error).__name__
    few = isinstance(error, TooFewRowsError | FewForSumsError)
    cause = Cause.TOO_FEW_ROWS if few else Cause.FIT_FAILED
    doubt = Doubt(DoubtCode.NOT_MEASURED, f"nothing was measured: {why}")
    remarks = [*notes, *remarks_on(window), why]
    if state is not None:
        after = replace(state, windows=state.windows + 1, cursor=window.cursor, skipped=state.skipped + 1)
        return after, [replace(record, doubts=(doubt,)) for record in _skipped(state, window, cause, remarks, began)]
    record = _record(
        window,
        before,
        FIRST,
        Status.SKIPPED,
        notes=remarks,
        seconds=time.perf_counter() - began,
        signal=Signal.WARNING,
        causes=(cause,),
        reason=said((cause,)),
        doubts=(doubt,),
    )
    return None, [record]


def _skipped(
    state: RunState, window: Window, cause: Cause, notes: Sequence[str], began: float, encoded: Encoded | None = None
) -> list[Record]:
    causes = (cause, Cause.SIGNAL_STANDS)
    seconds = time.perf_counter() - began
    signals = {original.name: state.alarms[original.name].signal for original in state.originals}
    notes = [*while_skipped(state.skipped), *notes]
    return [
        _record(
            window,
            state.windows,
            name,
            Status.SKIPPED,
            notes=_about(name, notes, encoded),
            seconds=seconds,
            signal=signal,
            causes=causes,
            reason=said(causes, signal=signal),
        )
        for name, signal in signals.items()
    ]


def _stepped(state: RunState, values: Floats) -> tuple[State, Info]:
    rows = rows_of(state.encoder, values, "window")  # one copy for all originals: windows are never changed
    windows = dict.fromkeys(state.recursion.tracks, rows)
    return recursion.step(state.recursion, windows, step_settings(state.settings, state.encoder), Policy())


def _judged(state: RunState, original: Original, arrived: State, info: Info, encoded: Encoded) -> Judgement:
    settings, about, values = state.settings, info.originals[original.name], encoded.values
    first = original.name == FIRST
    certain = certainties(original.constant, original.rows, state.encoder, encoded, settings, first=first)
    track, alarm = arrived.tracks[original.name], state.alarms[original.name]
    pool = state.pools.get(original.name, Pool())
    name = partial(naming_of, original.ledger, state.encoder, encoded, track, pool, settings)
    fresh = new_rows(original.constant, state.encoder.names, values)
    return judge(track, about, settings, values, alarm, name, certain, encoded.doubts, fresh)


def add_original(state: RunState, name: str, given: Rows | None) -> tuple[RunState, Record]:
    """Add an original: the given rows, or those of the current window if None."""
    if not name or not isinstance(name, str):
        raise OptionError("{option} must be a non-empty string", option=Option("name", name))
    if name in state.alarms:
        raise ValueError(f"an original {name!r} is traced already: choose another name")
    notes: tuple[str, ...] = ()
    if given is None:
        if state.settings.keep == "sums":
            raise OptionError(
                "the rows of the current window are gone, since {keep} keeps none: give original {name!r} a file or "
                "frame with its rows",
                keep=Option("keep", "sums"),
                name=name,
            )
        values, then = state.recursion.tracks[FIRST].current.window, state.now
    else:
        encoded = state.encoder.transform(given, summaries=state.settings.summaries)
        values, then, notes = encoded.values, encoded.summaries, tuple(_about(name, encoded.notes, encoded))
    constant = constants(state.encoder.names, values)
    missed = need(state.settings, state.encoder, constant).missed(len(values))
    if missed:
        raise ValueError(f"original {name!r}: {missed}")
    rows = rows_of(state.encoder, values, f"original {name!r}")
    joined = recursion.add_original(state.recursion, name, rows, step_settings(state.settings, state.encoder))
    index = state.windows - 1
    record = Record(
        window=index,
        original=name,
        status=Status.ORIGINAL,
        rows=len(values),
        first_row=0,
        notes=(*notes, *_uncompared(name, state.encoder)),
        causes=(Cause.JOINED,),
        reason=said((Cause.JOINED,)),
        digest=digest(values),
    )
    ledger = _ledger(state.settings, state.encoder, rows, joined, name)
    original = Original(name, index, len(values), None, then, constant, ledger)
    alarms, pools = {**state.alarms, name: AlarmMemory()}, {**state.pools, name: Pool()}
    originals = (*state.originals, original)
    return replace(state, recursion=joined, originals=originals, alarms=alarms, pools=pools), record


def _absent(rows: Rows, encoder: TableEncoder) -> list[str]:
    """Note columns that no row has, where that is not an error."""
    names = rows.absent(column.name for column in encoder.columns) if rows.sparse else []
    return [f"no row has {', '.join(map(repr, names[:5]))}: counted as missing values"] if names else []


def remarks_on(window: Window) -> list[str]:
    """Return remarks on a window: what its source notes, and rows that came too late for theirs."""
    remarks = [window.note] if window.note else []
    if window.late_rows:
        remarks.append(f"{counted(window.late_rows, 'row')} came after their window was closed, and were left out")
    return remarks


def _record(
    window: Window, index: int, original: str, status: Status, *, notes: Sequence[str], seconds: float, **parts: Any
) -> Record:
    return Record(
        window=index,
        original=original,
        status=status,
        rows=window.table.num_rows,
        first_row=window.first_row,
        start=window.start,
        end=window.end,
        late_rows=window.late_rows,
        notes=tuple(notes),
        seconds=seconds,
        **parts,
    )
