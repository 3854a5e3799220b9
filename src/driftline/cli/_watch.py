"""``driftline watch``: a monitor, a view, and closing remarks."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from driftline._errors import Option
from driftline._extras import needs
from driftline._wording import counted
from driftline.cli._begin import beginning
from driftline.cli._delivery import delivering
from driftline.cli._errors import BAD_INPUT, check_original, code_of, complain
from driftline.cli._options import FailOn, Plan, is_pipe
from driftline.cli._shortfall import shortfall
from driftline.monitor import FIRST, LOST, Monitor, Record, Status, unmeasured
from driftline.report import Findings, History, Verdict, actions, findings, write_report
from driftline.sources import Source, open_source
from driftline.tables import TableError
from driftline.terminal import Command, JsonLines, Lines, Screen, View, heading, say, show

__all__ = ["watch"]


def watch(plan: Plan, console: Console) -> int:
    """Watch as planned; return the exit code."""
    if _is_figure(plan.report):
        needs("matplotlib", Option("report", plan.report))
    if plan.tracker is None or not Path(plan.tracker).exists():  # before a file is created
        check_original(plan.original, [FIRST])
    begun = beginning(plan)
    with Monitor(plan.tracker, original=begun.original, **begun.settings) as monitor:
        begun.check(plan, monitor)
        past, stopped = monitor.records, 0
        check_original(plan.original, [original.name for original in monitor.originals] or [FIRST])
        nulls = monitor.settings.null_values
        source = open_source(
            plan.source, follow=plan.follow, poll=plan.poll, format=plan.format, replay=plan.replay, nulls=nulls
        )
        view, reading = _view(plan, monitor, source, console, past, begun.heading), _Reading(plan, monitor, source)
        try:
            with delivering(plan, past, source.name) as delivered, view, _logged(view):
                for remark in filter(None, (begun.remark, _only_in_memory(plan, monitor))):
                    (complain if plan.json else view.note)(remark)
                show(monitor, view, delivered(reading))
        except KeyboardInterrupt as interrupt:
            stopped = code_of(interrupt)
        except TableError as error:
            window = max((record.window + 1 for record in view.records), default=0)
            where = plan.original_file if monitor.encoder is None and begun.original else view.heading.source
            said = error.message
            raise TableError("{source}, window {window}: {said}", source=where, window=window, said=said) from None
        records, new = view.records, view.records[len(past) :]
        if not records and not stopped and monitor.too_few is not None:
            raise monitor.too_few
        found = _findings(plan, monitor) if records else None
        for line in _last_words(plan, monitor, records, found, bool(new), reading.ended):
            complain(line) if plan.json else say(console, line)
        if stopped:
            complain(_stopped(plan, records))
            return stopped
        once = _comes_once(plan)
        short = shortfall(monitor.coverage, monitor.settings, records, fresh=new, once=once)
        missed = list(short) if reading.ended else []
        for line in missed:
            complain(line)
        signals = [r.signal for r in new or _standing(records) if plan.original in (None, r.original)]
        lost = plan.fail_on == FailOn.WARNING and len(unmeasured(records)) >= LOST
        return 1 if lost or plan.fail_on.met(signals) else BAD_INPUT if missed else 0


class _Reading:
    """Records as they come; with ``--follow``, they end with the window that meets ``--fail-on``.

    Attributes:
        ended: whether the source was read to its end.
    """

    def __init__(self, plan: Plan, monitor: Monitor, source: Source) -> None:
        self._plan, self._monitor, self._source = plan, monitor, source
        self.ended = False

    def __iter__(self) -> Iterator[Record]:
        plan, met, missed = self._plan, False, unmeasured(self._monitor.records)
        for record in self._monitor.watch(self._source, flush=plan.flush):
            yield record
            missed = unmeasured([*missed, record])
            met = met or (plan.original in (None, record.original) and plan.fail_on.met([record.signal]))
            met = met or (plan.fail_on == FailOn.WARNING and record.status == Status.SKIPPED and len(missed) >= LOST)
            if plan.follow and met and record.original == self._monitor.originals[-1].name:
                return
        self.ended = True


def _view(
    plan: Plan, monitor: Monitor, source: Source, console: Console, past: tuple[Record, ...], original: str
) -> View:
    kind = JsonLines if plan.json else Screen if console.is_terminal else Lines
    total = source.rows if kind is Screen else None  # for its progress bar; the files' metadata are read for that
    return kind(heading(monitor.settings, source.name, plan.tracker, total, original), console, past)


def _findings(plan: Plan, monitor: Monitor) -> Findings | None:
    """Judge the run, and write the report; None if neither people nor a report ask for it."""
    if plan.json and plan.report is None:
        return None
    found = findings(monitor.run)
    if plan.report is not None:
        _write(plan.report, found)
    return found


def _is_figure(path: str | None) -> bool:
    return path is not None and path.lower().endswith(".png")


def _write(path: str, found: Findings) -> None:
    if not _is_figure(path):
        return write_report(path, found)
    from driftline.report import write_png  # not at the top: the page does not need matplotlib

    write_png(path, found)


@contextmanager
def _logged(view: View) -> Iterator[None]:
    """Turn the library's log into notes of the view, or lines on standard error if output is for machines."""

    class Notes(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if hasattr(record, "of_coverage"):
                return  # the last words say more about it
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
    """Return the last Record of every original: these stand if no window is new."""
    return list({record.original: record for record in records}.values())


def _last_words(
    plan: Plan, monitor: Monitor, records: list[Record], found: Findings | None, new: bool, ended: bool
) -> Iterator[str]:
    """Yield the sentences after the table; for machines, only what the Records do not hold."""
    if not records:
        yield "no window was complete, so nothing was measured"
    elif not new:
        yield f"nothing new: {plan.tracker} has seen {counted(records[-1].window + 1, 'window')}"
    if left := monitor.left_out:
        if late := left.late:
            were = "its window was closed and was" if late == 1 else "their window was closed and were"
            yield f"{counted(late, 'row')} came after {were} left out; no later window has been complete yet"
        if other := left.described():
            yield f"{other}; no later window has been complete yet"
    if ended and monitor.coverage.remark:
        yield monitor.coverage.remark
    if ended and monitor.waiting and _comes_once(plan):
        rows = f"{counted(monitor.waiting, 'row')} of standard input {'is' if monitor.waiting == 1 else 'are'}"
        again = "send all rows again with --replay" if plan.tracker is not None else "send all rows at once"
        yield f"{rows} in no window, and lost with this call: {again}, watch a file, or count them with --flush"
    elif ended and monitor.waiting:
        wait = "waits for its" if monitor.waiting == 1 else "wait for their"
        yield f"{counted(monitor.waiting, 'row')} {wait} window to be complete (--flush counts them at once)"
    if plan.json:
        return
    if found is not None:
        yield ""
        for history, verdict in found.verdicts:
            yield verdict.sentence
            yield from _advice(history, verdict, plan.tracker)
    if plan.report is not None and records:
        yield f"report: {plan.report}"
    elif plan.tracker is None:
        yield "nothing was kept: with --tracker run.driftline the same command goes on where this one ended"
    elif records:
        yield Command(f"for a report: driftline report {shlex.quote(plan.tracker)}")


def _advice(history: History, verdict: Verdict, tracker: str | None) -> Iterator[str]:
    """Yield the first step to take; none if there is nothing to do."""
    if verdict.outcome == "normal":
        return
    step = actions(history, verdict, tracker or "", {})[0]
    yield f"what to do: {step.title}. {step.text}"
    if step.command and tracker is not None:
        yield Command(f"  {step.command}")


def _comes_once(plan: Plan) -> bool:
    """Say whether rows that are in no window yet do not come again."""
    return is_pipe(plan.source) and not plan.replay


def _only_in_memory(plan: Plan, monitor: Monitor) -> str:
    """Say what a kill would lose, where no row is to be at rest; empty if the source has all rows."""
    if monitor.settings.keep != "sums" or plan.tracker is None or not _comes_once(plan):
        return ""
    lost = "if this command is killed, they are lost, since standard input brings them only once"
    return f"rows of an unfinished window are in memory alone: {lost} (send all rows again with --replay)"


def _stopped(plan: Plan, records: list[Record]) -> str:
    if plan.tracker is None:
        return "stopped; nothing was kept (no --tracker)"
    if _comes_once(plan):
        lost = "rows that had not filled a window are lost: send all rows again with --replay, or go on with new ones"
        return f"stopped after window {records[-1].window}; {lost}" if records else f"stopped before any window; {lost}"
    if not records:
        return "stopped before a window was complete; the same command begins anew"
    return f"stopped after window {records[-1].window}; the same command goes on from there"
