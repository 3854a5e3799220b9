"""Judgement of a window from one original: estimates, the alarm's decision, the columns that moved."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from driftline._causes import reason
from driftline._wording import number, percent, precise
from driftline.alarms import AlarmMemory, Cause, Decision, Look, Signal, decide, is_withheld
from driftline.inference import Doubt, DoubtCode, Estimate
from driftline.monitor._certainty import Certainty
from driftline.monitor._novelty import Novelty
from driftline.monitor._records import Moved, kept_estimate
from driftline.monitor._settings import Settings
from driftline.recursion import OriginalInfo, Track, attribution, divergence, has_attribution

__all__ = ["Judgement", "Measured", "Moves", "certainly", "judge", "measured", "moved", "plain"]

_UNMEASURED = (
    DoubtCode.NOT_CONVERGED,
    DoubtCode.LITTLE_OVERLAP,
    DoubtCode.STEP_MEAN_OFF,
    DoubtCode.WEAK_STEP,
    DoubtCode.NOTHING_VARIES,
)


@dataclass(frozen=True)
class Judgement:
    """Parts of a Record, and the alarm's memory after it."""

    parts: Mapping[str, Any]
    alarm: AlarmMemory


class Moves(NamedTuple):
    """Columns that moved most, and the reasons not to trust that."""

    columns: tuple[Moved, ...]
    doubts: tuple[Doubt, ...]


class Measured(NamedTuple):
    """Drift and step with all that the alarm looks at, and the parts of a Record that no decision changes."""

    drift: Estimate
    step: Estimate
    parts: Mapping[str, Any]


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
    fresh: npt.NDArray[np.bool_] | None = None,
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
        fresh: which rows of the window hold a value that no row of the original had, (n,).
    """
    drift, step, measures = measured(track, about, settings, names, groups, unheld, fresh)
    alarm, decision = _decide(alarm, settings, drift, step)
    if novelty is not None and novelty.least > settings.tolerance and alarm.seen > settings.warm_up:
        alarm, decision = _certain(alarm, decision, Cause.NEW_VALUES, novelty)
    if certain is not None and certain.least > settings.tolerance and alarm.seen > settings.warm_up:
        alarm, decision = _certain(alarm, decision, Cause.SHARE_MOVED, certain)
    decided = {
        "signal": decision.signal,
        "causes": decision.causes,
        "reason": decision.reason,
        "warning_limit": _number(decision.drift.warning),
        "alarm_limit": _number(decision.drift.limit),
        "step_limit": math.nan if decision.change is None else _number(decision.change.limit),
    }
    return Judgement({**measures, **decided}, alarm)


def measured(
    track: Track,
    about: OriginalInfo,
    settings: Settings,
    names: Sequence[str],
    groups: Mapping[str, Sequence[str]],
    unheld: Sequence[str],
    fresh: npt.NDArray[np.bool_] | None,
) -> Measured:
    """Measure a window from an original: all that does not depend on whether it is one of a stream.

    A doubt that concerns one measure stays with it; those of the first divergence, by which people and alarms judge,
    are those of the Record.
    """
    found = {kind: divergence(track, kind, settings.level, of_step=False) for kind in settings.divergences}
    drift = found[settings.divergences[0]]
    step = divergence(track, settings.divergences[0], settings.level, of_step=True)
    doubts = tuple(dict.fromkeys([*(Doubt(DoubtCode.COUNTER_FELL, said) for said in unheld), *drift.doubts]))
    parts = {
        "divergences": {kind: plain(estimate, own(estimate, kind, drift)) for kind, estimate in found.items()},
        "step": plain(step, own(step, "", drift)),
        "columns": moved(track, names, settings, groups).columns,
        "effective_sample_size": about.effective_sample_size,
        "diagnostics": {
            "overlap": _number(about.overlap),
            "lag": float(about.lag),
            "mean_ratio": _number(about.mean_ratio),
            "step_mean_ratio": _number(about.step_mean_ratio),
            "new_values": 0.0 if fresh is None else float(fresh.mean()),
            "without_new_values": _rest(track, drift, settings.divergences[0], fresh),
        },
        "doubts": doubts,
    }
    return Measured(drift, step, parts)


def _rest(track: Track, drift: Estimate, kind: str, fresh: npt.NDArray[np.bool_] | None) -> float:
    r"""Return the drift of the rows whose values the original had; nan if all have, or for other divergences.

    With a share s of new values, the ratio of the other rows is that of all rows times 1 - s: KL(current‖original) of
    them is the mean of their log-ratios, less log(1 - s). The noise is that of the drift: new values hardly change it.
    """
    if kind != "reverse_kl" or fresh is None or not fresh.any() or fresh.all():
        return math.nan
    log_ratios = track.current.on_window()
    return _number(-float(log_ratios[~fresh].mean()) - math.log1p(-float(fresh.mean())) - drift.noise)


def own(estimate: Estimate, kind: str, drift: Estimate) -> tuple[Doubt, ...]:
    """Return the doubts that concern a measure alone: by what they say, or since the drift has none of their kind."""
    shared = {doubt.code for doubt in drift.doubts}
    return tuple(d for d in estimate.doubts if d.concerns == (kind,) or d.code not in shared)


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
    why = reason(causes, drift=precise(drift))
    return alarm, Decision(signal, causes, why, blind, None)


def _certain(
    alarm: AlarmMemory, decision: Decision, cause: Cause, found: Novelty | Certainty
) -> tuple[AlarmMemory, Decision]:
    """Raise the alarm, whatever the noise of the divergence."""
    why = certainly(cause, found)
    raised = decision._replace(signal=Signal.ALARM, causes=(cause,), reason=why)
    if decision.signal == Signal.ALARM:
        raised = raised._replace(causes=(*decision.causes, cause), reason=f"{decision.reason}; {why}")
    return alarm._replace(signal=Signal.ALARM, calm=0), raised


def certainly(cause: Cause, found: Novelty | Certainty) -> str:
    """Say what is certain, whatever the noise of the divergence."""
    share = {"share": percent(found.share)} if isinstance(found, Novelty) else {}
    return reason((cause,), **{**found._asdict(), **share, "least": number(found.least)})


def moved(track: Track, names: Sequence[str], settings: Settings, groups: Mapping[str, Sequence[str]]) -> Moves:
    """Return the columns that have the largest parts in the divergence: none for a network, or before a step."""
    if not has_attribution(track.current):
        return Moves((), ())
    parts, doubts = attribution(track, names, settings.level, groups, settings.top)
    if any(doubt.code in _UNMEASURED for doubt in doubts):  # shares of a step that is not known would name anything
        return Moves((), doubts)
    columns = tuple(Moved(str(p.column), float(p.share), plain(p.contribution)) for p in parts)
    return Moves(columns, doubts)


def _number(value: float) -> float:
    return float(value) if math.isfinite(value) else math.nan


def plain(estimate: Estimate, doubts: tuple[Doubt, ...] = ()) -> Estimate:
    """Return an estimate as Records keep it, so that it equals the one read back: a lower bound has no upper end.

    Of its doubts, only the given ones stay: those of all estimates are the Record's.
    """
    high = math.inf if estimate.lower_bound else estimate.high
    parts = (estimate.value, estimate.std_error, estimate.low, high, estimate.level, estimate.floor)
    return kept_estimate(*map(_number, parts), doubts=doubts)
