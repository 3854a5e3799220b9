"""Judgement of a window from one original: estimates, the alarm's decision, and a warning where a column moved."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from driftline._causes import reason
from driftline.alarms import AlarmMemory, Cause, Decision, Look, Signal, decide, is_withheld
from driftline.inference import Doubt, Estimate
from driftline.monitor._certainty import Certainty
from driftline.monitor._moves import Pool
from driftline.monitor._naming import Naming, said
from driftline.monitor._novelty import Novelty
from driftline.monitor._records import plain
from driftline.monitor._settings import Settings
from driftline.recursion import OriginalInfo, Track, divergence

__all__ = ["Judgement", "judge", "matters", "sentences"]

_PART = 0.1  # of the tolerance, which is for all columns together: one that surely moved by less is no warning


@dataclass(frozen=True)
class Judgement:
    """Parts of a Record, the alarm's memory after it, the last windows' counts, and notes."""

    parts: Mapping[str, Any]
    alarm: AlarmMemory
    pool: Pool
    notes: tuple[str, ...]


def judge(
    track: Track,
    about: OriginalInfo,
    settings: Settings,
    alarm: AlarmMemory,
    name: Callable[[Estimate], Naming],
    novelty: Novelty | None = None,
    certain: Certainty | None = None,
    unheld: Sequence[str] = (),
) -> Judgement:
    """Compute everything a Record holds about an original, after its step to the window.

    Arguments:
        track: the original's track after the step.
        about: diagnostics of that step.
        alarm: memory of the original's alarm.
        name: says which columns moved, given the first divergence.
        novelty: values that the original did not have, if there are any.
        certain: evidence of drift beside the encoded columns, if there is any.
        unheld: doubts about columns whose drift the estimates do not hold.
    """
    divergences = {kind: divergence(track, kind, settings.level, of_step=False) for kind in settings.divergences}
    first = settings.divergences[0]
    step = divergence(track, first, settings.level, of_step=True)
    naming = name(divergences[first])
    doubts = [*about.doubts, *(d for e in (*divergences.values(), step) for d in e.doubts)]
    alarm, decision = _decide(alarm, settings, divergences[first], step)
    if novelty is not None and novelty.least > settings.tolerance and alarm.seen > settings.warm_up:
        alarm, decision = _certain(alarm, decision, Cause.NEW_VALUES, novelty)
    if certain is not None and certain.least > settings.tolerance and alarm.seen > settings.warm_up:
        alarm, decision = _certain(alarm, decision, Cause.SHARE_MOVED, certain)
    if decision.signal == Signal.NORMAL and alarm.seen > settings.warm_up and matters(naming, settings.tolerance):
        causes = (Cause.COLUMN_MOVED,)
        decision = decision._replace(signal=Signal.WARNING, causes=causes, reason=reason(causes, named=said(naming)))
        alarm = alarm._replace(signal=Signal.WARNING)
    speaks = decision.signal != Signal.NORMAL or bool(naming.columns or naming.pairs)
    parts = {
        "divergences": {kind: plain(estimate) for kind, estimate in divergences.items()},
        "step": plain(step),
        "signal": decision.signal,
        "causes": decision.causes,
        "reason": decision.reason,
        "warning_limit": _number(decision.drift.warning),
        "alarm_limit": _number(decision.drift.limit),
        "step_limit": math.nan if decision.change is None else _number(decision.change.limit),
        "columns": naming.columns,
        "pairs": naming.pairs,
        "unexplained": naming.unexplained(divergences[first]) if speaks and first == "reverse_kl" else None,
        "without": naming.hides,
        "effective_sample_size": about.effective_sample_size,
        "diagnostics": {
            "overlap": _number(about.overlap),
            "lag": float(about.lag),
            "mean_ratio": _number(about.mean_ratio),
            "step_mean_ratio": _number(about.step_mean_ratio),
        },
        "doubts": tuple(dict.fromkeys([*unheld, *sentences(doubts)])),
    }
    return Judgement(parts, alarm, naming.pool, naming.notes)


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


def matters(naming: Naming, tolerance: float) -> bool:
    """Say whether what moved is a warning: not if all of it surely stays within a tenth of the tolerance."""
    least = _PART * tolerance
    columns = any(not m.drift.high <= least for m in naming.columns)
    return columns or any(m.dependence > least for m in naming.pairs)


def _number(value: float) -> float:
    return float(value) if math.isfinite(value) else math.nan
