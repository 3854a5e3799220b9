"""Judgement of a window from one original: estimates, the alarm's decision, the columns that moved."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from driftline._causes import reason
from driftline.alarms import AlarmMemory, Cause, Decision, Look, Signal, decide
from driftline.estimators import ContinualDensityRatio
from driftline.inference import Attribution, Estimate
from driftline.monitor._novelty import Novelty
from driftline.monitor._records import Moved
from driftline.monitor._settings import Settings

__all__ = ["Judgement", "judge", "moved", "noting", "plain"]

T = TypeVar("T")


@dataclass(frozen=True)
class Judgement:
    """Parts of a Record, and the alarm's memory after it."""

    parts: Mapping[str, Any]
    alarm: AlarmMemory


def judge(
    estimator: ContinualDensityRatio,
    original: str,
    settings: Settings,
    alarm: AlarmMemory,
    groups: Mapping[str, Sequence[str]],
    novelty: Novelty | None = None,
) -> Judgement:
    """Ask the estimator for everything a Record holds about an original, after its step to the window."""
    about = estimator.info_.originals[original]
    doubts = list(about.warnings)
    divergences = {
        kind: noting(doubts, partial(estimator.divergence, kind, original=original, level=settings.level))
        for kind in settings.divergences
    }
    first = settings.divergences[0]
    step = noting(doubts, partial(estimator.step_divergence, first, original=original, level=settings.level))
    alarm, decision = _decide(alarm, settings, divergences[first], step)
    if novelty is not None and novelty.least > settings.tolerance and alarm.seen > settings.warm_up:
        alarm, decision = _certain(alarm, decision, novelty)
    parts = {
        "divergences": {kind: plain(estimate) for kind, estimate in divergences.items()},
        "step": plain(step),
        "signal": decision.signal,
        "causes": decision.causes,
        "reason": decision.reason,
        "warning_limit": _number(decision.drift.warning),
        "alarm_limit": _number(decision.drift.limit),
        "step_limit": math.nan if decision.change is None else _number(decision.change.limit),
        "columns": noting(doubts, partial(moved, partial(estimator.attribution, original), settings, groups)),
        "effective_sample_size": about.effective_sample_size,
        "diagnostics": {
            "overlap": _number(about.overlap),
            "lag": float(about.lag),
            "mean_ratio": _number(about.mean_ratio),
            "step_mean_ratio": _number(about.step_mean_ratio),
        },
        "doubts": tuple(dict.fromkeys(doubts)),
    }
    return Judgement(parts, alarm)


def noting(doubts: list[str], ask: Callable[[], T]) -> T:
    """Return the answer, and add its warnings to the doubts."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        answer = ask()
    doubts.extend(str(warning.message) for warning in caught)
    return answer


def _decide(alarm: AlarmMemory, settings: Settings, drift: Estimate, step: Estimate) -> tuple[AlarmMemory, Decision]:
    """Let the alarm decide; without error bars it cannot, but an estimate beyond the tolerance is a warning."""
    if math.isfinite(drift.std_error + step.std_error):
        return decide(alarm, settings.policy(), drift, step)
    alarm = alarm._replace(seen=alarm.seen + 1)
    stands, beyond = Signal(alarm.signal), drift.value > settings.tolerance and alarm.seen > settings.warm_up
    signal = Signal.WARNING if beyond and stands == Signal.NORMAL else stands
    causes = (Cause.UNSURE if beyond else Cause.NO_ERROR_BAR,)
    blind = Look(drift.value, math.nan, math.nan)
    return alarm, Decision(signal, causes, reason(causes, drift=drift.value), blind, None)


def _certain(alarm: AlarmMemory, decision: Decision, novelty: Novelty) -> tuple[AlarmMemory, Decision]:
    """Raise the alarm, whatever the noise of the divergence."""
    why = reason((Cause.NEW_VALUES,), **novelty._asdict())
    raised = decision._replace(signal=Signal.ALARM, causes=(Cause.NEW_VALUES,), reason=why)
    if decision.signal == Signal.ALARM:
        raised = raised._replace(causes=(*decision.causes, Cause.NEW_VALUES), reason=f"{decision.reason}; {why}")
    return alarm._replace(signal=Signal.ALARM, calm=0), raised


def moved(
    attribution: Callable[..., list[Attribution]], settings: Settings, groups: Mapping[str, Sequence[str]]
) -> tuple[Moved, ...]:
    """Return the columns that an estimator's attribution names first."""
    try:
        parts = attribution(level=settings.level, groups=groups)
    except ValueError:  # networks have no parts by column
        return ()
    return tuple(Moved(str(p.column), float(p.share), plain(p.contribution)) for p in parts[: settings.top])


def _number(value: float) -> float:
    return float(value) if math.isfinite(value) else math.nan


def plain(estimate: Estimate) -> Estimate:
    """Return an estimate as Records keep it, so that it equals the one read back."""
    numbers = (estimate.value, estimate.std_error, estimate.low, estimate.high, estimate.level)
    return Estimate(*(_number(number) for number in numbers))
