"""Actions: what a person may do after a verdict, the first step first."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from driftline._wording import counted, joined, named, number, percent
from driftline.alarms import Cause
from driftline.monitor import Record, Without, brought
from driftline.report._histories import History
from driftline.report._remedies import Action, adds, drops, file_of, larger, measurable, new_values, remedy, told
from driftline.report._trust import Trust
from driftline.report._verdicts import Outcome, Verdict, columns_first

__all__ = ["Action", "Worth", "actions", "worth"]

_FEW = 0.1  # least share of effective rows to retrain with weights
_LEAST = 100.0  # least number of effective rows to do so
_MISSED = 0.4  # most that the weights' mean may differ from 1: beyond it, they miss too much of the original
_IDLE = ("Wait", "Nothing")  # titles of steps that are none
_BY_CHANCE = {Cause.ABOVE_WARNING, Cause.STEP_ABOVE_WARNING, Cause.STREAK, Cause.INTERVAL_REACHES}


class Worth(StrEnum):
    """Worth of the weights for retraining."""

    GOOD = "good"
    POOR = "poor"
    UNKNOWN = "unknown"


def worth(record: Record) -> Worth:
    """Rate the weights for retraining."""
    size, ratio = record.effective_sample_size, record.diagnostics.get("mean_ratio", math.nan)
    if not math.isfinite(size) or record.rows == 0:
        return Worth.UNKNOWN
    if size < max(_LEAST, _FEW * record.rows) or abs(ratio - 1.0) > _MISSED:
        return Worth.POOR
    return Worth.GOOD


def actions(history: History, found: Verdict, path: str, now: Mapping[str, Any]) -> list[Action]:
    """Return the steps to take, the first step first."""
    steps = _steps(history, found, path, now)
    if not history.unmeasured:
        return steps
    missed = measurable(history)
    if found.outcome in (Outcome.ALARM, Outcome.WARNING):
        return [*steps, missed]
    return [missed, *(step for step in steps if step.title not in _IDLE)]


def _steps(history: History, found: Verdict, path: str, now: Mapping[str, Any]) -> list[Action]:
    last = history.last
    if last is None:
        return [Action("Wait", "The first verdict comes with the next complete window.")]
    doubted = bool(found.doubts) if history.unmeasured else found.trust != Trust.GOOD
    steps = [remedy(history, found, path)] if doubted else []
    look, causes, first = _look(last, found, now), set(last.causes), None
    if causes & {Cause.SHARE_MOVED, Cause.COLUMN_MOVED}:
        first = look
    elif Cause.NEW_VALUES in causes:
        first = new_values(last) or look
    elif columns_first(last) and found.carriers and not history.single:
        first = look
    if first is not None:
        steps = [first, *(step for step in steps if step.title != first.title)]
    if history.single and found.outcome in (Outcome.ALARM, Outcome.WARNING):
        wide = [larger(history, "The interval reaches across the tolerance. ")]
        return steps or (wide if Cause.INTERVAL_REACHES in causes else [look])
    if found.outcome == Outcome.BLIND:
        return steps
    if Cause.WIDE_INTERVAL in causes or (found.outcome == Outcome.UNSURE and found.trust == Trust.GOOD):
        steps.append(larger(history, "The interval is too wide to tell drift from none. "))
    if found.outcome in (Outcome.NORMAL, Outcome.UNSURE):
        return steps or [Action("Nothing", "Go on watching; the model and the original can stay as they are.")]
    if first is None and (found.carriers or found.trust not in (Trust.POOR, Trust.BOUND)):
        steps.insert(0 if found.trust == Trust.BOUND else len(steps), look)
    if last.without is not None and last.without.new:
        steps.append(_drop(last.without))
    if found.outcome == Outcome.WARNING:
        if not _BY_CHANCE & causes:
            return steps
        wait = "A warning is ten times as frequent by chance as an alarm: wait for the next windows before acting."
        if history.settings.warning is not None:
            wait = "Warnings come more often by chance than alarms: wait for the next windows before acting."
        return [*steps, Action("Then wait", wait)]
    renew = [] if any(step.command == adds(path) for step in steps) else [_renew(path)]
    return [*steps, _retrain(history, last, path), *renew]


def _look(last: Record, found: Verdict, now: Mapping[str, Any]) -> Action:
    parts = found.carriers
    if not parts:
        return _look_elsewhere(last)
    names = joined([named(p.column) for p in parts])
    missing = [p.column for p in parts if float((now.get(p.column) or {}).get("missing") or 0.0) > 0.05]
    verb = "has" if len(missing) == 1 else "have"
    hint = f" {joined([named(name) for name in missing])} {verb} missing values now." if missing else ""
    text = (
        f"{told(parts)}Compare then and now. A changed unit, a broken sensor or join, or a new category is mended at "
        f"the source; the divergence falls again by itself once the data is as it was.{hint}"
    )
    outside = [p.column for p in parts if last.marginals and p.column not in last.marginals]
    if not outside:
        return Action(f"Look at {names}", text)
    them = "it" if len(outside) == 1 else "them"
    left = f" The drift leaves {joined([named(name) for name in outside])} out: another run can watch or drop {them}."
    return Action(f"Look at {names}", text + left, drops(outside))


def _look_elsewhere(last: Record) -> Action:
    """Advise where to look if no column moved by itself."""
    if last.pairs:
        pair, names = last.pairs[0], joined([named(column) for column in last.pairs[0].columns])
        return Action(f"Look at {names}", f"They relate otherwise: {pair.cause}. Compare then and now.")
    if why := brought(last):
        return Action("Look at the last window", f"The signal is about this: {why}. Compare it with the one before.")
    none = "No column moved by itself: many moved a little, or how they go together did."
    return Action("Look at the columns", "Which of them moved was not tested." if last.unexplained is None else none)


def _drop(hiding: Without) -> Action:
    name = named(hiding.column)
    return Action(
        f"Perhaps leave {name} out",
        f"Most rows have values of {name} that no row had at first, and that hides the rest: about "
        f"{number(hiding.drift)} nats without it, by columns and pairs. If it only says when or by what the rows were "
        "written (a year, a version), begin another run without it.",
        f"driftline watch SOURCE --drop {shlex.quote(hiding.column)} --tracker another.driftline",
    )


def _retrain(history: History, last: Record, path: str) -> Action:
    size, rows = last.effective_sample_size, last.rows
    state, option = worth(last), "" if history.alone else f" --original {shlex.quote(history.original.name)}"
    command = f"driftline weights {file_of(path)} current.csv --out weighted.csv{option}"
    text = (
        "Current rows are the ones to learn from. If the model must keep serving the population of the original as "
        "well, pass the weights as sample_weight: they make current rows count as the original's would. "
    )
    if state == Worth.UNKNOWN:
        return Action("Retrain if the change is real", text, command)
    valued = f"{counted(rows, 'row')} of the last window are worth {number(size, 0)} that way ({percent(size / rows)})"
    if state == Worth.POOR:
        text += f"But the {valued}: too few, or the original lies too far away. Collect rows that resemble it instead."
        return Action("Retrain without weights if the change is real", text)
    return Action("Retrain if the change is real", f"{text}The {valued}.", command)


def _renew(path: str) -> Action:
    return Action(
        "Then take a new original",
        "Once the new state is the one to compare with (a model retrained on it, a new season), add it as a further "
        "original: alarms against it start afresh, the old one stays.",
        adds(path),
    )
