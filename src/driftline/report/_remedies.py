"""Remedies: what to do about a doubt, as it fits the case, with the command to type where there is one."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import PurePath

from driftline._wording import joined, named
from driftline.alarms import Cause
from driftline.inference import Doubt, DoubtCode
from driftline.monitor import Moved, Record, Status, is_near
from driftline.report._histories import History, is_abrupt, not_measured, weak_step, window_name
from driftline.report._trust import brief, in_order, raw_name
from driftline.report._verdicts import Verdict, brought_back

__all__ = ["Action", "adds", "drops", "file_of", "larger", "measurable", "new_values", "remedy", "told"]

_WEAK = (DoubtCode.WEAK_STEP, DoubtCode.LITTLE_OVERLAP, DoubtCode.STEP_MEAN_OFF, DoubtCode.NOT_CONVERGED)
_ROWS = (DoubtCode.FEW_ROWS, DoubtCode.NOISE_UNKNOWN, DoubtCode.FEW_FOR_WEIGHTS)
_MEASURES = (DoubtCode.FEW_FOR_DIVERGENCE, DoubtCode.FEW_FOR_KL)
_NETWORKS = (DoubtCode.NETWORK_ERRORS, DoubtCode.SMALL_STEP)


@dataclass(frozen=True)
class Action:
    """Step to take: what, why, and the command if there is one."""

    title: str
    text: str
    command: str = ""


def remedy(history: History, found: Verdict, path: str) -> Action:
    """Return what to do about the gravest doubt of a verdict."""
    doubt = next(iter(found.doubts), None)
    if doubt is None:
        return Action("Mind the doubt first", found.trust_sentence)
    why = "" if brief(doubt) in found.trust_sentence else f"{_said(doubt)} "  # what has been said is not repeated
    if doubt.code in _WEAK:
        return _after_a_weak_step(history, doubt, path, why)
    if doubt.code in _ROWS:
        return larger(history, why)
    if doubt.code in _MEASURES:
        return Action("Read another measure", f"{why}A run with --divergences reverse_kl judges by one that holds.")
    if doubt.code in _NETWORKS:
        return Action("Compare with the model auto", f"{why}Another run with --model auto shows how much it matters.")
    made = _REMEDIES.get(doubt.code)
    return Action("Mind the doubt first", found.trust_sentence) if made is None else made(history, doubt, path, why)


def larger(history: History, why: str) -> Action:
    """Advise larger windows: a run cannot change its own, so this is another one."""
    settings = history.settings
    if history.single:
        return Action("Take more rows", f"{why}More rows make it surer, and so do fewer columns (--columns, --drop).")
    how = f"Another run with a --window of {2 * (settings.window or 0):,} rows or more"
    if settings.every is not None:
        how = f"Another run with an --every longer than {settings.every}"
    return Action("Take larger windows", f"{why}{how} makes it surer; fewer columns (--columns, --drop) do so, too.")


def measurable(history: History) -> Action:
    """Advise windows that can be measured, where the last ones could not be."""
    last = history.unmeasured[-1]
    missed = not_measured(history)
    why = f"{missed[0].upper()}{missed[1:]}."
    if Cause.FIT_FAILED in last.causes:
        text = "What is written to the columns may be broken: the notes of these windows say what failed."
        return Action("Look at the last windows", f"{why} {text}")
    need = next((note.partition(": the next window")[0] for note in last.notes if "needed" in note), "")
    need = f" In the last one, {need}." if need else ""
    if len(history.unmeasured) == 1:
        text = "One such window may be a holiday: the next one is compared with the one before it."
        return Action("Wait for the next window", f"{why}{need} {text}")
    how = "a larger --window" if history.settings.every is None else f"an --every longer than {history.settings.every}"
    text = f"Another run with {how}, or with fewer columns (--columns, --drop), can measure them."
    title = "Take larger windows" if history.settings.every is None else "Take longer windows"
    return Action(title, f"{why}{need} {text}")


def _after_a_weak_step(history: History, doubt: Doubt, path: str, why: str) -> Action:
    """Advise a new original after an abrupt change; closer windows only where windows lie apart."""
    if history.single:
        text = "The two tables share hardly any rows: that they differ is certain, how far is not. Read the columns."
        return Action("Read it as a yes", text)
    weak = weak_step(history)
    at = None if weak is None else history.records.index(weak)
    apart = at is not None and at > 0 and history.records[at - 1].status == Status.SKIPPED
    if doubt.code == DoubtCode.NOT_CONVERGED and not (weak is not None and is_abrupt(weak)):
        text = "The fit did not reach its minimum: look for columns that are copies of each other, and --drop one."
        return Action("Look at the columns first", text)
    if apart:
        text = "Windows without enough rows lie before that step: let windows follow each other more closely."
        return Action("Close the gap", f"{why}{text}")
    if history.last is not None and is_near(history.last):
        return _returned(history, weak, path)
    when = "the last step" if weak is None else f"the step to {window_name(weak, history.settings)}"
    text = (
        f"{when[0].upper()}{when[1:]} was too large to be measured, and all later values build upon it. Closer windows "
        "do not help, since the step itself is the change: begin a new original, and read drift from there."
    )
    return Action("Begin a new original", text, adds(path))


def _returned(history: History, weak: Record | None, path: str) -> Action:
    """Advise a look at the step where nothing differs from the original any more."""
    at = "that step" if weak is None else window_name(weak, history.settings)
    back = () if weak is None else brought_back(history, weak)
    before = "".join(f"Before it, {named(each.column)} was different: {each.cause}. " for each in back[:3])
    text = (
        f"{before}Now no column and no pair differs from the original. The warning stays since later values build upon "
        "that step; a new original begins without it."
    )
    return Action(f"Check what changed with {at}", text, adds(path))


def _lower_bound(history: History, doubt: Doubt, path: str, why: str) -> Action:
    text = (
        "More may have changed than the value says, and the lower end holds: act on an alarm, but take no comfort from "
        "a small value. A new original near to now, or a column that shows the change (a product, a ratio), tells how "
        "far it is."
    )
    return Action("Read it as a lower bound", text, adds(path))


def _dependent(history: History, doubt: Doubt, path: str, why: str) -> Action:
    text = (
        f"{why}Windows that hold many whole periods (weeks instead of hours) make an interval possible. In "
        "Python, lag= says how far rows depend on each other."
    )
    return Action("Take longer windows", text)


def _broken(history: History, doubt: Doubt, path: str, why: str) -> Action:
    return Action("Look at what is written to the columns", f"{why}Nothing can be said until one of them varies.")


def _one_row(history: History, doubt: Doubt, path: str, why: str) -> Action:
    text = f"{why}Often a wrong unit or a typing error: mend it, or leave the column out."
    return Action("Look at that row", text, drops(map(raw_name, doubt.concerns)))


def new_values(record: Record) -> Action | None:
    """Return what to do about values that the original did not have; None if there are none."""
    doubt = next((d for d in record.doubts if d.code == DoubtCode.CONSTANT_MOVED), None)
    return None if doubt is None else _fresh(record, doubt)


def _new_values(history: History, doubt: Doubt, path: str, why: str) -> Action:
    return _fresh(history.last, doubt)


def _fresh(record: Record | None, doubt: Doubt) -> Action:
    moved = () if record is None else record.columns
    columns = list(dict.fromkeys(map(raw_name, in_order(moved, doubt.concerns))))
    more = [f"{len(columns) - 3:,} more"] if len(columns) > 3 else []
    names = joined([named(column) for column in columns[:3]] + more) or "the column"
    found = told(each for each in moved if each.column in columns[:3]) or f"{names}: values that no row had at first. "
    text = (
        f"{found}Is that right? If not, fix it at the source. If so, add the current window as an original. If the "
        "column only tells the time, such as a year or a version, leave it out of another run."
    )
    return Action(f"Look at {names}", text, drops(columns))


def told(moved: Iterable[Moved]) -> str:
    """Say of columns what of them moved, a sentence each."""
    return "".join(f"{named(each.column)}: {each.cause}. " for each in moved)


def _counter(history: History, doubt: Doubt, path: str, why: str) -> Action:
    name = doubt.sentence.partition(":")[0]
    text = f"{why}If it is no counter, another run with --numeric watches it."
    return Action(f"Look at {named(name)}", text)


def _extrapolated(history: History, doubt: Doubt, path: str, why: str) -> Action:
    return Action("Begin a new original", f"{why}How far it is no longer matters then.", adds(path))


def _unaudited(history: History, doubt: Doubt, path: str, why: str) -> Action:
    return larger(history, why)


_REMEDIES: dict[DoubtCode, Callable[[History, Doubt, str, str], Action]] = {
    DoubtCode.MODEL_MISSES: _lower_bound,
    DoubtCode.DRIFT_MISSED: _lower_bound,
    DoubtCode.BELOW_FLOOR: _lower_bound,
    DoubtCode.DEPENDENT_ROWS: _dependent,
    DoubtCode.NOTHING_VARIES: _broken,
    DoubtCode.OUTLIER: _one_row,
    DoubtCode.CONSTANT_MOVED: _new_values,
    DoubtCode.COUNTER_FELL: _counter,
    DoubtCode.EXTRAPOLATED: _extrapolated,
    DoubtCode.NOT_AUDITED: _unaudited,
}


def _said(doubt: Doubt) -> str:
    """Return a doubt as a sentence of its own; a column that it begins with keeps its name."""
    said = doubt.sentence.rstrip(".")
    begins = doubt.code == DoubtCode.COUNTER_FELL or said.startswith(tuple(filter(None, doubt.concerns)))
    return f"{said}." if begins else f"{said[:1].upper()}{said[1:]}."


def drops(columns: Iterable[str]) -> str:
    """Return the command that watches without some columns."""
    names = list(dict.fromkeys(columns))
    return f"driftline watch ... --drop {shlex.quote(','.join(names))}" if names else ""


def adds(path: str) -> str:
    """Return the command that adds the current window as an original."""
    return f"driftline original add {file_of(path)} --name NAME"


def file_of(path: str) -> str:
    """Return the tracker file's name, to be typed."""
    return shlex.quote(PurePath(path).name or "run.driftline")
