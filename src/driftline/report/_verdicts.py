"""Verdict: a run in one sentence: whether to worry, since when, how far, by which columns, and how sure that is."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from driftline._causes import OF_COLUMNS
from driftline._wording import (
    between,
    counted,
    joined,
    measure,
    named,
    number,
    precise,
    qualifier,
    shift,
    shown,
    unit,
)
from driftline.alarms import Cause, Signal
from driftline.inference import Doubt, DoubtCode, Estimate
from driftline.monitor import FIRST, LOST, Moved, Original, Record, Run, Settings, Status, beside, beyond, brought
from driftline.report._histories import History, histories, not_measured, window_name
from driftline.report._trust import Trust, new_values, rated

__all__ = [
    "Findings",
    "Outcome",
    "Verdict",
    "carriers",
    "compared",
    "distance",
    "findings",
    "level",
    "verdict",
    "whence",
]

_APART = 6.0  # shift of one normal column, in standard deviations, at which hardly any row could come from both times
_MOST_NAMED = 3
_ROUGH = 5.0  # tolerances (warning limits if the tolerance is 0) beyond which an interval around 0 is too rough
_LEAST_ROUGH = 0.5  # the same in nats, at least: one standard deviation of one column


class Outcome(StrEnum):
    """Outcome of a run so far."""

    WAITING = "waiting"  # nothing measured yet
    BLIND = "blind"  # nothing could be decided, or the last windows were not measured
    NORMAL = "normal"
    UNSURE = "unsure"  # no alarm, but the estimate is in doubt or too rough to rule drift out
    WARNING = "warning"
    ALARM = "alarm"


_LABELS = {
    Outcome.WAITING: "Waiting",
    Outcome.BLIND: "Undecided",
    Outcome.NORMAL: "No alarm",
    Outcome.UNSURE: "No alarm, but unsure",
    Outcome.WARNING: "Warning",
    Outcome.ALARM: "Alarm",
}


@dataclass(frozen=True)
class Verdict:
    """Everything that a person needs who reads nothing else.

    Attributes:
        outcome: outcome of the run so far.
        label: outcome in a word or two.
        short: title.
        sentence: outcome, distance, columns and trust in one sentence.
        trust: trust in the last estimate.
        trust_sentence: reason for that trust.
        carriers: columns that moved furthest by themselves.
        doubts: doubts behind that trust, the gravest first.
    """

    outcome: Outcome
    label: str
    short: str
    sentence: str
    trust: Trust
    trust_sentence: str
    carriers: tuple[Moved, ...] = ()
    doubts: tuple[Doubt, ...] = ()


def verdict(history: History) -> Verdict:
    """Judge the history of one original."""
    last = history.last
    if last is None or last.drift is None:
        return _waiting(history)
    rating = rated(history, last)
    trust, why = rating.trust, rating.sentence
    parts, rough = carriers(last), _rough(history, last)
    blind = not math.isfinite(last.drift.std_error) and history.signal == Signal.NORMAL
    empty = any(doubt.code == DoubtCode.NOTHING_VARIES for doubt in last.doubts) and history.signal != Signal.ALARM
    lost = len(history.unmeasured) >= LOST and history.signal == Signal.NORMAL
    outcome = Outcome.BLIND if blind or empty or lost else Outcome(history.signal)
    if outcome == Outcome.NORMAL and (trust != Trust.GOOD or rough):
        outcome = Outcome.UNSURE
    if lost:
        return _lost(history, last, rough, Verdict(outcome, _LABELS[outcome], "", "", trust, why, parts, rating.doubts))
    opening, since = _opening(history, outcome)
    doubt = " (not to be trusted)" if trust == Trust.POOR else " (unsure)" if outcome == Outcome.UNSURE else ""
    short = _short(history, last, opening, parts) + doubt
    sentence = f"{opening}{since}: {_sentence(history, last, rough, why, parts)}"
    return Verdict(outcome, _LABELS[outcome], short, sentence, trust, why, parts, rating.doubts)


def _lost(history: History, last: Record, rough: bool, found: Verdict) -> Verdict:
    """Say first that the last windows were not measured, and what was known before them after that."""
    why = found.trust_sentence
    sentence = f"{found.label}: {why[0].lower()}{why[1:]} As of then, {_how_far(history, last, rough)}."
    return replace(found, short=f"{found.label}: {not_measured(history)}", sentence=sentence)


def compared(record: Record, settings: Settings) -> tuple[History, Verdict]:
    """Judge one comparison of two tables, in the words of a run."""
    original = Original(record.original, 0, record.first_row, None, {})
    history = History(original, (record,), settings, alone=True, single=True)
    return history, verdict(history)


class Findings(NamedTuple):
    """A run, and the verdict on each of its originals: worked out once for page, figure and terminal."""

    run: Run
    verdicts: tuple[tuple[History, Verdict], ...]


def findings(run: Run | Findings, original: str | None = None) -> Findings:
    """Judge all originals of a run, or only the one named; findings are returned as they are."""
    if isinstance(run, Findings):
        return run
    return Findings(run, tuple((history, verdict(history)) for history in histories(run, original)))


def whence(history: History) -> str:
    """Name the original that drift is measured from, in a sentence."""
    name = history.original.name
    return "its original" if history.alone or name == FIRST else f"the original {named(name)}"


def level(estimate: Estimate) -> str:
    """Format the confidence level: ``95 %``, on one line."""
    return f"{100.0 * estimate.level:.4g}\xa0%"


def distance(estimate: Estimate, kind: str) -> str:
    """Describe a divergence in plain words; empty if there are none for it."""
    moved = shift(shown(estimate).value, kind)
    if math.isnan(moved):
        return ""
    if moved >= _APART:
        far = "so far that hardly any row could come from both times"
        return (
            far
            if math.isinf(moved)
            else f"{far} (one normal column would have moved by {number(moved, 0)} standard deviations)"
        )
    digits = 2 if moved < 0.995 else 1
    return f"as far as if one normal column had moved by {number(moved, digits)} standard deviations"


def carriers(record: Record) -> tuple[Moved, ...]:
    """Return the columns that moved furthest by themselves, at most three."""
    return record.columns[:_MOST_NAMED]


def _speaks(record: Record) -> bool:
    """Say whether a column or a pair has moved by its own test."""
    return bool(record.columns or record.pairs)


def _waiting(history: History) -> Verdict:
    records = history.records
    skipped = [r for r in records if r.status == Status.SKIPPED]
    if not records:
        text, short = "No window is complete yet, so there is nothing to compare.", "no window yet"
    elif skipped:
        short = "nothing measured yet"
        text = (
            f"Nothing has been measured yet: since tracing began with {window_name(records[0], history.settings)}, "
            f"{_all(len(skipped))} held no rows or too few, so it is not known whether the data has drifted."
        )
    else:
        short = "the original is in, nothing to compare yet"
        text = (
            f"Tracing began with {window_name(records[0], history.settings)} of {counted(records[0].rows, 'row')}; "
            "no later window is complete yet, so there is nothing to compare."
        )
    lost = len(history.unmeasured) >= LOST
    outcome, trust = (Outcome.BLIND, Trust.POOR) if lost else (Outcome.WAITING, Trust.GOOD)
    why = f"There is no estimate: {not_measured(history)}." if lost else "There is no estimate to judge yet."
    return Verdict(outcome, _LABELS[outcome], f"{_LABELS[outcome]}: {short}", text, trust, why)


def _all(skipped: int) -> str:
    return "the one window that followed" if skipped == 1 else f"all {skipped:,} windows that followed"


def _opening(history: History, outcome: Outcome) -> tuple[str, str]:
    """Say the outcome and since when it stands; the second part is left out where space is short."""
    since, settings = history.since, history.settings
    if history.single and outcome != Outcome.BLIND:
        return _LABELS[outcome], ""
    if outcome in (Outcome.ALARM, Outcome.WARNING) and since is not None:
        return f"{_LABELS[outcome]} since {window_name(since, settings)}", ""
    if outcome == Outcome.BLIND:
        return "Nothing can be decided", ""
    past = history.runs(Signal.ALARM)
    if past:
        ended = window_name(past[-1][1], settings)
        many = "an earlier alarm" if len(past) == 1 else f"the last of {len(past):,}"
        return "No alarm now", f", {many} ended with {ended}"
    return f"No alarm in {counted(len(history.measured), 'window')}", ""


def _rough(history: History, last: Record) -> bool:
    """Say whether the interval holds no drift as well as far more than is tolerated."""
    drift, limit = last.drift, last.warning_limit
    assert drift is not None
    quiet = limit if math.isfinite(limit) and history.settings.tolerance <= 0.0 else history.settings.tolerance
    return drift.low <= 0.0 and drift.high > max(_ROUGH * quiet, _LEAST_ROUGH)


def _columns(record: Record, parts: tuple[Moved, ...]) -> str:
    """Say which columns moved, which pairs relate otherwise, and what is in neither, for the sentence."""
    if not record.columns and not record.pairs:
        if record.unexplained is None:
            return "which columns moved is not known"
        return "no column moved by itself and no two relate otherwise: it is in more columns together, or thin in many"
    said = []
    if parts:
        more = len(record.columns) - len(parts)
        names = [f"{named(p.column)} ({qualifier(p.drift)}{precise(p.drift)}: {p.cause})" for p in parts]
        said.append(joined(names + ([counted(more, "more column")] if more else [])) + " moved")
    if record.pairs:
        first, more = record.pairs[0], len(record.pairs) - 1
        others = f", as {'does' if more == 1 else 'do'} {counted(more, 'other pair')}" if more else ""
        said.append(f"{joined([named(c) for c in first.columns])} relate otherwise ({first.cause}){others}")
    return "; ".join([*said, *filter(None, [beyond(record), beside(record)])])


def _first(last: Record, parts: tuple[Moved, ...]) -> str:
    """Say which columns, pairs or step brought the signal; empty if the drift of all columns together did."""
    if Cause.BACK_BELOW in last.causes:
        return ""
    return _columns(last, parts) if OF_COLUMNS & set(last.causes) and _speaks(last) else brought(last)


def _how_far(history: History, last: Record, rough: bool, *, whole: bool = False) -> str:
    """Say how far the data is, with interval and plain words; with ``whole``, after what is about a part of it."""
    drift, kind, bound = last.drift, history.kind, history.settings.tolerance
    assert drift is not None
    least, span = qualifier(drift), between(drift)
    span, tolerance = f"{level(drift)} interval {span}", f"the tolerance of {number(bound)}{unit(kind)}"
    floor = f"; at least {number(drift.floor)} whatever the model" if drift.has_floor and least != "about " else ""
    span = f" ({span}{floor})"
    data = "the watched data as a whole" if whole else "the data"
    reading = f"{data} is {least}{precise(drift)}{unit(kind)}{span} from {whence(history)}"
    if not math.isfinite(drift.std_error):
        if any(doubt.code == DoubtCode.NOTHING_VARIES for doubt in last.doubts):
            return "nothing was measured"
        hint = "has no interval, and is a hint at most"
        return f"the reading of {precise(drift)}{unit(kind)} from {whence(history)} {hint}"
    if least and shown(drift).value <= 0.0:
        return f"the data is further from {whence(history)} than the model can say"
    if not least and math.isfinite(drift.low) and drift.low <= 0.0 and drift.value <= max(bound, 0.0):
        if rough:
            return f"{reading}, which says little: it may lie up to {number(drift.high)}{unit(kind)} away"
        beside = whole or _speaks(last)  # what a column shows is not chance
        return f"{reading}, {_place(drift, bound, tolerance) if beside else 'which chance alone can explain'}"
    place = _place(drift, bound, tolerance) if history.signal == Signal.NORMAL else ""
    return ", ".join(filter(None, [reading, place, distance(drift, kind)]))


def _place(drift: Estimate, bound: float, tolerance: str) -> str:
    """Compare the interval with the tolerance, for a drift that raised no alarm."""
    if drift.value <= bound:
        return f"within {tolerance}"
    if drift.low > bound:  # the alarm's limits are higher than those of one look
        return f"beyond {tolerance}, but not beyond the limits of the alarm, which allow for a look at every window"
    return f"beyond {tolerance}, but its interval reaches down to it"


def _sentence(history: History, last: Record, rough: bool, trust: str, carried: tuple[Moved, ...]) -> str:
    drift, first = last.drift, _first(last, carried)
    assert drift is not None
    parts = [*filter(None, [first]), _how_far(history, last, rough, whole=bool(first))]
    if history.signal == Signal.ALARM and Cause.BACK_BELOW in last.causes:
        parts[0] += ", and back below the limits in the last window"
    elif history.signal == Signal.ALARM and not (first or drift.value > last.alarm_limit):
        parts.append(f"the alarm is about this: {last.reason}")
    # of a drift that is not known, nothing is said but what the columns' own tests say
    named_before = first and OF_COLUMNS & set(last.causes)
    if not named_before and (_speaks(last) or (drift.low > 0.0 and math.isfinite(drift.std_error))):
        parts.append(_columns(last, carried))
    if Cause.NEW_VALUES not in last.causes or not math.isnan(last.diagnostics.get("without_new_values", math.nan)):
        parts += filter(None, [new_values(last)])
    after = [r for r in history.records if r.window > last.window]
    if after and not history.unmeasured:  # else the trust says so
        known = window_name(last, history.settings)
        parts.append(f"this is as of {known}, {counted(len(after), 'later window')} had too few rows or none")
    return f"{'; '.join(parts)}; {trust[0].lower()}{trust[1:]}"


def _short(history: History, last: Record, opening: str, carried: tuple[Moved, ...]) -> str:
    drift = last.drift
    assert drift is not None
    least = qualifier(drift)
    far = f"{least}{precise(drift)}{unit(history.kind) or ' ' + measure(history.kind)} from {whence(history)}"
    if carried and OF_COLUMNS & set(last.causes):
        names = [named(p.column, 24) for p in carried]
        return f"{opening}: {joined([f'{names[0]} ({carried[0].cause})', *names[1:]])} moved; {far}"
    text = f"{opening}: {far}"
    if carried:
        return f"{text}; moved: {joined([named(p.column, 24) for p in carried])}"
    if last.pairs:
        return f"{text}; {joined([named(c, 24) for c in last.pairs[0].columns])} relate otherwise"
    return text
