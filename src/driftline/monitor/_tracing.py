"""One of many streams, as a pure step: ``bytes, rows -> bytes, Records``. A bad window never ends its stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from driftline._wording import counted
from driftline.files import StateFileError, pack, unpack
from driftline.monitor._advance import RunState, advance, begin, fail
from driftline.monitor._freezing import freeze, thaw
from driftline.monitor._given import begin_from
from driftline.monitor._records import Record
from driftline.monitor._settings import Settings, remark_on_model
from driftline.monitor._sizes import TooFewRowsError
from driftline.monitor._storage import with_settings
from driftline.sources import Cursor, Held, LeftOut, Pending, SourceError, Window, closed_to, cut, due, rows_of_frame
from driftline.tables import Rows

__all__ = ["Plan", "Trace", "begin_trace", "next_due", "read_trace", "take", "too_short", "trace_bytes"]

VERSION = 2
_FORMAT = "driftline-trace"
_NUMBERS = ("passed", "last_window", "seen", "timer")
_TEXTS = ("unsaid", "refused", "signal")
_OF_PENDING = ("newest", "next_window", "total")
Order = tuple[tuple[str, str], ...]  # columns, and what they hold
_FEW = 20  # rows left out that are not worth a Record of their own, with windows by time


@dataclass(frozen=True)
class Plan:
    """How streams are traced; the same for all of them.

    Attributes:
        given: settings of the monitor, as a user gives them.
        order: columns that the rows of a stream are ordered by.
        watched: columns that are watched, the order's only if they are among them; those of the settings if empty.
        settings: all settings.

    >>> Plan({"window": 100, "columns": ["x"]}, ("number",)).settings.window
    100
    """

    given: Mapping[str, Any]
    order: tuple[str, ...]
    watched: tuple[str, ...] = ()
    settings: Settings = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "settings", Settings.from_dict(self.given))


@dataclass(frozen=True)
class Trace:
    """What is kept of one stream between two batches of its rows; its size does not depend on how many there were.

    Attributes:
        run: the run, frozen; None before the first window.
        pending: rows of open windows, and where the last closed one ended.
        passed: number of windows before the first that could not be measured.
        unsaid: Record of the original, if it is a table of its own, until rows of the stream come.
        refused: reason why the original cannot be used; then nothing is measured.
        last_window: index of the last window; None before the first.
        signal: signal that stands; empty before the first window.
        seen: time of the last rows, as whoever keeps the stream counts it; None before.
        silent: whether it has been said that no more rows come.
        timer: time at which whoever keeps the stream has to look at it again; None if that was not asked for.
        order: columns that rows are ordered by, and what each of them holds; empty before the first rows.
    """

    run: bytes | None = None
    pending: Pending = field(default_factory=Pending)
    passed: int = 0
    unsaid: str = ""
    refused: str = ""
    last_window: int | None = None
    signal: str = ""
    seen: int | None = None
    silent: bool = False
    timer: int | None = None
    order: Order = ()


def take(
    trace: Trace,
    table: pa.Table | None,
    plan: Plan,
    *,
    until: int | None = None,
    flush: bool = False,
    whole: bool = False,
) -> tuple[Trace, list[Record]]:
    """Take the next rows of a stream, and return the Records of the windows that they complete.

    An error in a window becomes a Record with the doubt ``not_measured``. Bytes of another version, another order, or
    settings that a run cannot change, are errors: nothing would be measured any more, and the rows would be lost. Once
    as many rows as a window has were left out and no window is complete, a Record says so: else the stream would fall
    silent.

    Arguments:
        trace: stream before.
        table: rows, in any order; None if there are none, and only time has passed.
        plan: how it is traced.
        until: time (ns since 1970) up to which all rows have come, with windows by time.
        flush: whether to close all windows, full or not.
        whole: whether these are all rows there are, so that none is held back because its order is far ahead.
    """
    records = [Record.from_json(trace.unsaid)] if trace.unsaid and table is not None else []
    trace = replace(trace, unsaid="" if records else trace.unsaid)
    if table is None:
        if trace.pending.rows is None:
            return trace, records
        table = trace.pending.rows.slice(0, 0)
    trace = replace(trace, order=_same_order(trace.order, table, plan.order))
    rule = plan.settings.window_rule()
    pending, windows = _windows(trace.pending, table, plan, until, flush, whole)
    if not windows and _muted(replace(trace, pending=pending), plan):
        pending, window = _without_left_out(pending, table)
        windows = [(window, TooFewRowsError(_why_muted(window.left_out, closed_to(pending, rule, until))))]
    trace = replace(trace, pending=pending)
    if not windows:
        return trace, records
    run, remarks = _thawed(trace, plan)
    for window, error in windows:
        trace, run, found = _next(trace, run, window, plan, remarks, error)
        records, remarks = [*records, *found], []
    trace = replace(trace, last_window=records[-1].window, signal=str(records[-1].signal))
    return replace(trace, run=None if run is None else freeze(run)), records


def _same_order(before: Order, table: pa.Table, names: Sequence[str]) -> Order:
    """Return what rows are ordered by; raise a ValueError if it is not what those before were ordered by."""
    types = dict(zip(table.schema.names, table.schema.types, strict=True))
    now = tuple((name, _kind(types[name]) if name in types else "not there") for name in names)
    if not before or before == now:
        return now
    then, new = (", ".join(f"{name!r} ({kind})" for name, kind in parts) for parts in (before, now))
    raise ValueError(
        f"the rows so far were ordered by {then}, not by {new}: name the same order= columns, cast to what they held, "
        "or begin anew, with another checkpoint and without initial="
    )


def _kind(kind: pa.DataType) -> str:
    """Return what a column of an order holds; values of one such kind can be compared."""
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "numbers"
    if pa.types.is_timestamp(kind):
        return "times" if kind.tz is None else "times with a zone"
    return "text" if pa.types.is_string(kind) or pa.types.is_large_string(kind) else str(kind)


def _windows(
    pending: Pending, table: pa.Table, plan: Plan, until: int | None, flush: bool, whole: bool
) -> tuple[Pending, list[tuple[Window, Exception | None]]]:
    """Cut off complete windows; rows that cannot be ordered, or do not fit those that wait, are one with an error."""
    rule = plan.settings.window_rule()

    def cut_from(pending: Pending) -> tuple[Pending, list[tuple[Window, Exception | None]]]:
        after, windows = cut(pending, table, rule, plan.order, until=until, flush=flush, whole=whole)
        return after, [(window, None) for window in windows]

    try:
        return cut_from(pending)
    except (SourceError, pa.ArrowException) as error:
        alone, old = _without_rows(pending)
        try:
            after, windows = cut_from(alone)
        except (SourceError, pa.ArrowException):
            after, new = _without_rows(replace(pending, rows=table))
            return replace(after, rows=pending.rows), [(new, error)]
        return after, [(old, error), *windows]


def _without_rows(pending: Pending) -> tuple[Pending, Window]:
    """Return what waits without its rows, and these as a window."""
    rows, left = pending.rows if pending.rows is not None else pa.table({}), pending.left_out
    total = pending.total + rows.num_rows
    window = Window(Rows(rows), pending.total, Cursor(None, total, total, ""), late_rows=left.late, left_out=left)
    return replace(pending, rows=None, total=total, left_out=LeftOut()), window


def _muted(trace: Trace, plan: Plan) -> bool:
    """Say whether as many rows as a window has were left out since the last Record.

    With windows by time, that is the mean so far, and more must be left out than wait: some late rows are usual.
    """
    pending, size = trace.pending, plan.settings.window
    left = pending.left_out.total
    if size is not None:
        return left >= size
    windows = 1 if trace.last_window is None else trace.last_window + 1
    return left >= max(_FEW, pending.total // windows) and left > pending.waiting


def _without_left_out(pending: Pending, table: pa.Table) -> tuple[Pending, Window]:
    """Return what waits without its count of rows left out, and a window without rows that accounts for these."""
    left, total = pending.left_out, pending.total
    cursor = Cursor(None, total, total, "", next_window=pending.next_window)
    window = Window(Rows(table.slice(0, 0)), total, cursor, late_rows=left.late, left_out=left)
    return replace(pending, left_out=LeftOut()), window


def _why_muted(left: LeftOut, closed: str) -> str:
    """Say why rows of a stream do not become windows, and what to do about it."""
    late = f"{counted(left.late, 'row')} came too late (windows are closed up to {closed})" if left.late else ""
    without = f"{counted(left.untimed, 'row')} had no order or time" if left.untimed else ""
    wild = f"{counted(left.wild, 'row')} had an order or time far ahead of the others" if left.wild else ""
    far = (
        "an order or time far ahead closes all windows before it: if it is wrong, correct it, and begin the key anew, "
    )
    far += "with initial= states without it or another checkpoint"
    remedies = [*([far] if left.late else []), *(["fill in the order or time of each row"] if left.untimed else [])]
    remedies += ["correct these"] if left.wild else []
    return (
        f"{' and '.join(filter(None, (late, without, wild)))}, and no window was complete since; {'; '.join(remedies)}"
    )


def _thawed(trace: Trace, plan: Plan) -> tuple[RunState | None, list[str]]:
    if trace.run is None:
        return None, [remark for remark in [remark_on_model(plan.given)] if remark]
    return with_settings(thaw(trace.run), plan.given, "the stream")


def _next(
    trace: Trace, run: RunState | None, window: Window, plan: Plan, notes: Sequence[str], known: Exception | None
) -> tuple[Trace, RunState | None, list[Record]]:
    """Measure a window, or say in its Record why that was not possible; an error may be known before."""
    watched = _watched(window, plan)
    try:
        if known is not None:
            raise known
        if trace.refused:
            raise ValueError(trace.refused)
        if run is not None:
            run, records = advance(run, watched, notes)
            return trace, run, records
        run, record = _begun(*begin(watched, plan.settings, notes), trace.passed)
        return trace, run, [record]
    except MemoryError:
        raise  # another try may have more of it
    except Exception as error:  # a bad window must not end its stream, nor the others
        after, records = fail(run, watched, error, notes, trace.passed)
        return replace(trace, passed=trace.passed + (run is None)), after, records


def _begun(run: RunState, record: Record, before: int) -> tuple[RunState, Record]:
    """Count the windows before the first that could be measured, so that no two have one number."""
    originals = tuple(replace(original, window=before) for original in run.originals)
    return replace(run, windows=before + 1, originals=originals), replace(record, window=before)


def _watched(window: Window, plan: Plan) -> Window:
    """Leave out columns that are there for the order alone."""
    chosen = {*(plan.watched or plan.settings.columns), plan.settings.time_column}
    names = [name for name in window.table.column_names if name in chosen]
    return replace(window, rows=Rows(window.table.select(names)))


def begin_trace(table: pa.Table, plan: Plan) -> Trace:
    """Begin a stream from an original that is a table of its own; its Record is said with the first rows.

    An original that cannot be used is not replaced by another one: then no window is measured, and each says why.
    """
    settings = plan.settings
    try:
        run, record = begin_from(rows_of_frame(table), settings, [r for r in [remark_on_model(plan.given)] if r])
    except MemoryError:
        raise
    except Exception as error:  # as in _next
        return Trace(refused=f"the original cannot be used: {error}")
    return Trace(run=freeze(run), unsaid=record.to_json(), last_window=record.window, signal=str(record.signal))


def too_short(trace: Trace, plan: Plan) -> Record | None:
    """Return a Record for a stream that has ended without a single window; None if it had one."""
    if trace.last_window is not None or not (trace.pending.waiting or trace.pending.left_out):
        return None
    _, window = _without_rows(trace.pending)
    wanted = f" of {plan.settings.window:,}" if plan.settings.window is not None else ""
    few = f"{counted(window.table.num_rows, 'row')} are too few for a first window{wanted}"
    return fail(None, _watched(window, plan), TooFewRowsError(few), before=trace.passed)[1][0]


def next_due(trace: Trace, plan: Plan) -> int | None:
    """Return the time (ns since 1970) at which the next open window ends; None if it ends with its last row."""
    return due(trace.pending, plan.settings.window_rule())


def trace_bytes(trace: Trace) -> bytes:
    """Return a stream as bytes, in the form that ``files`` writes; its rows are those of open windows alone."""
    pending = trace.pending
    tables = {"rows": pending.rows, "last": pending.last}
    arrays = {name: _ipc(table) for name, table in tables.items() if table is not None}
    if trace.run is not None:
        arrays["run"] = np.frombuffer(trace.run, np.uint8)
    meta = {
        "format": _FORMAT,
        "version": VERSION,
        **{name: getattr(trace, name) for name in (*_NUMBERS, *_TEXTS, "silent")},
        **{name: getattr(pending, name) for name in _OF_PENDING},
        "left_out": asdict(pending.left_out),
        "held": pending.held,
        "order": trace.order,
    }
    return pack(arrays, meta)


def read_trace(data: bytes | None, what: str = "the state of a stream") -> Trace:
    """Return the stream that :func:`trace_bytes` wrote; a new one if there is none."""
    if data is None:
        return Trace()
    arrays, meta = unpack(data, _FORMAT, VERSION, what)
    try:
        parts: dict[str, Any] = {name: meta[name] for name in (*_NUMBERS, *_TEXTS, "silent")}
        inside: dict[str, Any] = {name: meta[name] for name in _OF_PENDING}
        inside.update({name: _table(arrays[name]) for name in ("rows", "last") if name in arrays})
        for name in (*_NUMBERS, *_OF_PENDING):
            if not isinstance(meta[name], int | None) or isinstance(meta[name], bool):
                raise ValueError(f"{name} is not a number")
        held, order = meta["held"], tuple((str(name), str(kind)) for name, kind in meta["order"])
        pending = Pending(**inside, left_out=LeftOut(**meta["left_out"]), held=None if held is None else Held(*held))
        run = arrays["run"].tobytes() if "run" in arrays else None
        return Trace(run=run, pending=pending, order=order, **parts)
    except (pa.ArrowException, LookupError, TypeError, ValueError) as error:
        raise StateFileError(f"{what}: damaged, its parts do not fit together ({error})") from None


def _ipc(table: pa.Table) -> Any:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return np.frombuffer(sink.getvalue(), np.uint8)


def _table(data: Any) -> pa.Table:
    with pa.ipc.open_stream(pa.py_buffer(data.tobytes())) as reader:
        return reader.read_all()
