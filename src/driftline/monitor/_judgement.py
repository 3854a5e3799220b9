"""Judgement of a window from one original: estimates, the alarm's decision, the columns that moved."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from driftline._causes import reason
from driftline.alarms import AlarmMemory, Cause, Decision, Look, Signal, decide, is_withheld
from driftline.inference import Doubt, Estimate
from driftline.monitor._certainty import Certainty
from driftline.monitor._novelty import Novelty
from driftline.monitor._records import Moved, kept_estimate
from driftline.monitor._settings import Settings
from driftline.recursion import OriginalInfo, Track, attribution, divergence, has_attribution

__all__ = ["Judgement", "Moves", "judge", "moved", "plain", "sentences"]


@dataclass(frozen=True)
class Judgement:
    """Parts of a Record, and the alarm's memory after it."""

    parts: Mapping[str, Any]
    alarm: AlarmMemory


class Moves(NamedTuple):
    """Columns that moved most, and the reasons not to trust that."""

    columns: tuple[Moved, ...]
    doubts: tuple[Doubt, ...]


def judge(
    track: Track,
    about: OriginalInfo,
    settings: Settings,
    alarm: AlarmMemory,
    names: Sequence[str],
    groups: Mapping[str, Sequence[str]],
    novelty: Novelty | None = None,
    certain: Certainty | None = None,
    unheld: Sequence[str] = (),
) -> Judgement:
    """Compute everything a Record holds about an original, after its step to the window.

    Arguments:
        track: the original's track after the step.
        about: diagnostics of that step.
        alarm: memory of the original's alarm.
        names: names of the encoded columns.
        groups: names of those that belong together, by raw column.
        novelty: values that the original did not have, if there are any.
        certain: evidence of drift beside the encoded columns, if there is any.
        unheld: doubts about columns whose drift the estimates do not hold.
    """
    divergences = {kind: divergence(track, kind, settings.level, of_step=False) for kind in settings.divergences}
    first = settings.divergences[0]
    step = divergence(track, first, settings.level, of_step=True)
    moves = moved(track, names, settings, groups)
    doubts = [*about.doubts, *(d for e in (*divergences.values(), step) for d in e.doubts), *moves.doubts]
    alarm, decision = _decide(alarm, settings, divergences[first], step)
    if novelty is not None and novelty.least > settings.tolerance and alarm.seen > settings.warm_up:
        alarm, decision = _certain(alarm, decision, Cause.NEW_VALUES, novelty)
    if certain is not None and certain.least > settings.tolerance and alarm.seen > settings.warm_up:
        alarm, decision = _certain(alarm, decision, Cause.SHARE_MOVED, certain)
    parts = {
        "divergences": {kind: plain(estimate) for kind, estimate in divergences.items()},
        "step": plain(step),
        "signal": decision.signal,
        "causes": decision.causes,
        "reason": decision.reason,
        "warning_limit": _number(decision.drift.warning),
        "alarm_limit": _number(decision.drift.limit),
        "step_limit": math.nan if decision.change is None else _number(decision.change.limit),
        "columns": moves.columns,
        "effective_sample_size": about.effective_sample_size,
        "diagnostics": {
            "overlap": _number(about.overlap),
            "lag": float(about.lag),
            "mean_ratio": _number(about.mean_ratio),
            "step_mean_ratio": _number(about.step_mean_ratio),
        },
        "doubts": tuple(dict.fromkeys([*unheld, *sentences(doubts)])),
    }
    return Judgement(parts, alarm)


def sentences(doubts: Iterable[Doubt]) -> tuple[str, ...]:
    """Return doubts as Records keep them: in words, in their order, each once."""
    return tuple(dict.fromkeys(str(doubt) for doubt in doubts))


def _decide(alarm: AlarmMemory, settings: Settings, drift: Estimate, step: Estimate) -> tuple[AlarmMemory, Decision]:
    """Let the alarm decide; without error bars it cannot, but an estimate beyond the tolerance is a warning.

    So is one without an interval: nothing says that all is well.
    """
    if math.isfinite(drift.std_error + step.std_error):
        return decide(alarm, settings.policy(), drift, step)
    alarm = alarm._replace(seen=alarm.seen + 1)
    stands, warm = Signal(alarm.signal), alarm.seen > settings.warm_up
    beyond, withheld = warm and drift.value > settings.tolerance, warm and (is_withheld(drift) or is_withheld(step))
    signal = Signal.WARNING if (beyond or withheld) and stands == Signal.NORMAL else stands
    causes = (Cause.UNSURE if beyond else Cause.NO_ERROR_BAR,)
    blind = Look(drift.value, math.nan, math.nan)
    return alarm, Decision(signal, causes, reason(causes, drift=drift.value), blind, None)


def _certain(
    alarm: AlarmMemory, decision: Decision, cause: Cause, found: Novelty | Certainty
) -> tuple[AlarmMemory, Decision]:
    """Raise the alarm, whatever the noise of the divergence."""
    why = reason((cause,), **found._asdict())
    raised = decision._replace(signal=Signal.ALARM, causes=(cause,), reason=why)
    if decision.signal == Signal.ALARM:
        raised = raised._replace(causes=(*decision.causes, cause), reason=f"{decision.reason}; {why}")
    return alarm._replace(signal=Signal.ALARM, calm=0), raised


def moved(track: Track, names: Sequence[str], settings: Settings, groups: Mapping[str, Sequence[str]]) -> Moves:
    """Return the columns that have the largest parts in the divergence: none for a network, or before a step."""
    if not has_attribution(track.current):
        return Moves((), ())
    parts, doubts = attribution(track, names, settings.level, groups, settings.top)
    columns = tuple(Moved(str(p.column), float(p.share), plain(p.contribution)) for p in parts)
    return Moves(columns, doubts)


def _number(value: float) -> float:
    return float(value) if math.isfinite(value) else math.nan


def plain(estimate: Estimate) -> Estimate:
    """Return an estimate as Records keep it, so that it equals the one read back: a lower bound has no upper end."""
    high = math.inf if estimate.lower_bound else estimate.high
    parts = (estimate.value, estimate.std_error, estimate.low, high, estimate.level, estimate.floor)
    return kept_estimate(*map(_number, parts))
