"""``driftline watch``: a monitor, a view, and what is said at the end."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

from driftline.cli.endings import INTERRUPTED, complain
from driftline.cli.options import Plan
from driftline.monitor.monitor import Monitor
from driftline.monitor.records import Record
from driftline.monitor.sources import open_source
from driftline.report import write_png, write_report
from driftline.report.histories import histories
from driftline.report.verdicts import verdict
from driftline.terminal import JsonLines, Lines, Screen, View, say, show
from driftline.wording import heading

__all__ = ["watch"]


def watch(plan: Plan, console: Console) -> int:
    """Watch as planned; the exit code."""
    with Monitor(plan.state, **plan.settings) as monitor:
        past, stopped = monitor.records, False
        if plan.original is not None and past:
            _check_original(monitor, plan.original)
        view = _view(plan, monitor, console, past)
        try:
            with view, _logged(view):
                show(monitor, view, _records(plan, monitor))
        except KeyboardInterrupt:
            stopped = True
        records, new = view.records, view.records[len(past) :]
        if records and plan.report is not None:
            (write_png if plan.report.lower().endswith(".png") else write_report)(plan.report, monitor.run)
        for line in _last_words(plan, monitor, records, bool(new)):
            complain(line) if plan.json else say(console, line)
        if stopped:
            complain(_stopped(plan, records))
            return INTERRUPTED
        signals = [r.signal for r in new or _standing(records) if plan.original in (None, r.original)]
        return int(plan.fail_on.met(signals))


def _records(plan: Plan, monitor: Monitor) -> Iterator[Record]:
    """As they come; a plan that follows ends with the window that meets ``--fail-on``."""
    met = False
    for record in monitor.watch(
        plan.source, follow=plan.follow, poll=plan.poll, format=plan.format, replay=plan.replay, flush=plan.flush
    ):
        yield record
        met = met or (plan.original in (None, record.original) and plan.fail_on.met([record.signal]))
        if plan.follow and met and record.original == monitor.references[-1].name:
            return


def _view(plan: Plan, monitor: Monitor, console: Console, past: tuple[Record, ...]) -> View:
    name, total = "standard input", None
    if plan.source != "-":
        opened = open_source(plan.source, follow=plan.follow, poll=plan.poll, format=plan.format, replay=plan.replay)
        name, total = opened.name, None if plan.follow else opened.rows
    kind = JsonLines if plan.json else Screen if console.is_terminal else Lines
    return kind(heading(monitor.settings, name, plan.state, total), console, past)


def _check_original(monitor: Monitor, original: str) -> None:
    names = [reference.name for reference in monitor.references]
    if original not in names:
        raise ValueError(f"--original {original!r} is unknown: there are {', '.join(names)}")


@contextmanager
def _logged(view: View) -> Iterator[None]:
    """What the library logs becomes notes of the view, or lines on standard error where output is for machines."""

    class Notes(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            (complain if isinstance(view, JsonLines) else view.note)(record.getMessage())

    handler, log = Notes(logging.WARNING), logging.getLogger("driftline")
    propagated, log.propagate = log.propagate, False
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.propagate = propagated


def _standing(records: list[Record]) -> list[Record]:
    """The last Record of every original: what stands if no window is new."""
    return list({record.original: record for record in records}.values())


def _last_words(plan: Plan, monitor: Monitor, records: list[Record], new: bool) -> Iterator[str]:
    """What is said after the table; for machines only what is not in the Records."""
    if not records:
        yield "no window was complete, so nothing was measured"
    elif not new:
        yield f"nothing new: {plan.state} has seen {records[-1].window + 1:,} windows"
    if monitor.waiting:
        yield f"{monitor.waiting:,} rows wait for their window to be complete (--flush counts them at once)"
    if plan.json:
        return
    if records:
        yield ""
        yield from (verdict(history).sentence for history in histories(monitor.run))
    if plan.report is not None and records:
        yield f"report: {plan.report}"
    elif plan.state is None:
        yield "nothing was kept: with --state run.driftline the same command goes on where this one ended"
    elif records:
        yield f"for a report: driftline report {plan.state}"


def _stopped(plan: Plan, records: list[Record]) -> str:
    if plan.state is None:
        return "stopped; nothing was kept (no --state)"
    if not records:
        return "stopped before a window was complete; the same command begins anew"
    return f"stopped after window {records[-1].window}; the same command goes on from there"
