"""Judgement of a window from one original: estimates, the alarm's decision, and a warning where a column moved."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from driftline._causes import reason
from driftline._wording import precise
from driftline.alarms import AlarmMemory, Cause, Decision, Look, Signal, decide, is_withheld
from driftline.inference import Doubt, DoubtCode, Estimate, opened
from driftline.monitor._certainty import Certainty, beyond, certainly, named_first
from driftline.monitor._moves import Pool
from driftline.monitor._naming import Naming, said
from driftline.monitor._record_parts import plain
from driftline.monitor._settings import Settings
from driftline.recursion import OriginalInfo, Track, divergence

__all__ = ["Judgement", "Measured", "beside_columns", "judge", "matters", "measured", "named"]

Floats = npt.NDArray[np.float64]

_PART = 0.1  # of the tolerance, which is for all columns together: one that surely moved by less is no warning
_RAISE = {Cause.ABOVE_LIMIT, Cause.ABRUPT_STEP}  # causes that raise an alarm by themselves


@dataclass(frozen=True)
class Judgement:
    """Parts of a Record, the alarm's memory after it, the last windows' counts, and notes."""

    parts: Mapping[str, Any]
    alarm: AlarmMemory
    pool: Pool
    notes: tuple[str, ...]


class Measured(NamedTuple):
    """Drift and step with all that the alarm looks at, and the parts of a Record that no decision changes."""

    drift: Estimate
    step: Estimate
    parts: Mapping[str, Any]


def judge(
    track: Track,
    about: OriginalInfo,
    settings: Settings,
    values: Floats,
    alarm: AlarmMemory,
    name: Callable[[Estimate], Naming],
    certain: Sequence[Certainty] = (),
    unheld: Sequence[str] = (),
    fresh: npt.NDArray[np.bool_] | None = None,
) -> Judgement:
    """Compute everything a Record holds about an original, after its step to the window.

    Arguments:
        track: the original's track after the step.
        about: diagnostics of that step.
        values: encoded rows of the window, (n, D).
        alarm: memory of the original's alarm.
        name: says which columns moved, given the first divergence.
        certain: columns that have moved for certain, the furthest first.
        unheld: doubts about columns whose drift the estimates do not hold.
        fresh: which rows of the window hold a value that no row of the original had, (n,).
    """
    found = measured(track, about, settings, values, unheld, fresh)
    naming = name(found.drift)
    drift, step, measures = beside_columns(found, naming, settings.divergences[0])
    alarm, decision = _decide(alarm, settings, drift, step)
    far, warm = beyond(certain, settings.tolerance), alarm.seen > settings.warm_up
    if far and warm:
        alarm, decision = _certain(alarm, decision, far)
    warns = matters(naming, certain, settings.tolerance)
    naming = naming._replace(columns=named_first(naming.columns, certain, settings.level))
    if decision.signal == Signal.NORMAL and warm and warns:
        causes = (Cause.COLUMN_MOVED,)
        decision = decision._replace(signal=Signal.WARNING, causes=causes, reason=reason(causes, named=said(naming)))
        alarm = alarm._replace(signal=Signal.WARNING)
    decided = {
        "signal": decision.signal,
        "causes": decision.causes,
        "reason": decision.reason,
        "warning_limit": _number(decision.drift.warning),
        "alarm_limit": _number(decision.drift.limit),
        "step_limit": math.nan if decision.change is None else _number(decision.change.limit),
    }
    parts = {**measures, **decided, **named(naming, drift, settings.divergences[0], decision.signal)}
    return Judgement(parts, alarm, naming.pool, naming.notes)


def named(naming: Naming, drift: Estimate, kind: str, signal: Signal) -> dict[str, Any]:
    """Return the parts of a Record that name columns; what they do not explain is said if there is anything to say."""
    speaks = signal != Signal.NORMAL or bool(naming.columns or naming.pairs)
    return {
        "columns": naming.columns,
        "pairs": naming.pairs,
        "marginals": naming.marginals,
        "unexplained": naming.unexplained(drift) if speaks and kind == "reverse_kl" else None,
        "without": naming.hides,
    }


def beside_columns(found: Measured, naming: Naming, kind: str) -> Measured:
    """Open the drift above where a column alone has moved by more than its interval allows: so have all together."""
    columns = [moved for moved in naming.columns if moved.drift.value > found.drift.high]
    if kind != "reverse_kl" or not columns:
        return found
    most = max(columns, key=lambda moved: moved.drift.value)
    alone = f"column {most.column!r} alone has moved by {precise(most.drift)} nats"
    sentence = f"{alone}, by counts of rows: the model misses a part"
    doubts = (*found.drift.doubts, Doubt(DoubtCode.BELOW_FLOOR, sentence, (most.column,)))
    drift = replace(opened(found.drift), doubts=doubts)
    divergences = {**found.parts["divergences"], kind: plain(drift, own(drift, kind, drift))}
    parts = {**found.parts, "divergences": divergences, "doubts": (*found.parts["doubts"], doubts[-1])}
    return found._replace(drift=drift, parts=parts)


def measured(
    track: Track,
    about: OriginalInfo,
    settings: Settings,
    values: Floats,
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
    doubts = tuple(dict.fromkeys([*(Doubt(DoubtCode.COUNTER_FELL, text) for text in unheld), *drift.doubts]))
    parts = {
        "divergences": {kind: plain(estimate, own(estimate, kind, drift)) for kind, estimate in found.items()},
        "step": plain(step, own(step, "", drift)),
        "effective_sample_size": about.effective_sample_size,
        "diagnostics": {
            "overlap": _number(about.overlap),
            "lag": float(about.lag),
            "mean_ratio": _number(about.mean_ratio),
            "step_mean_ratio": _number(about.step_mean_ratio),
            "new_values": 0.0 if fresh is None else float(fresh.mean()),
            "without_new_values": _rest(track, drift, settings.divergences[0], values, fresh),
        },
        "doubts": doubts,
    }
    return Measured(drift, step, parts)


def _rest(track: Track, drift: Estimate, kind: str, values: Floats, fresh: npt.NDArray[np.bool_] | None) -> float:
    r"""Return the drift of the rows whose values the original had; nan if all have, or for other divergences.

    With a share s of new values, the ratio of the other rows is that of all rows times 1 - s: KL(current‖original) of
    them is the mean of their log-ratios, less log(1 - s). The noise is that of the drift: new values hardly change it.
    """
    if kind != "reverse_kl" or fresh is None or not fresh.any() or fresh.all():
        return math.nan
    current = track.current
    log_ratios = current.on_window() if current.sums is None else current.log_ratio(values)
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


def _certain(alarm: AlarmMemory, decision: Decision, certain: Sequence[Certainty]) -> tuple[AlarmMemory, Decision]:
    """Raise the alarm, whatever the noise of the divergence; what raised it besides is said after that."""
    causes, why = certainly(certain)
    if _RAISE & set(decision.causes):
        causes, why = (*causes, *decision.causes), f"{why}; {decision.reason}"
    decision = decision._replace(signal=Signal.ALARM, causes=causes, reason=why)
    return alarm._replace(signal=Signal.ALARM, calm=0), decision


def matters(naming: Naming, certain: Sequence[Certainty], tolerance: float) -> bool:
    """Say whether what moved is a warning: not if it stays within a tenth of the tolerance.

    That must be sure for columns with an interval. What is certain has only a lower end, which counts instead.
    """
    least = _PART * tolerance
    columns = any(not m.drift.high <= least for m in naming.columns) or any(c.least > least for c in certain)
    return columns or any(m.dependence > least for m in naming.pairs)


def _number(value: float) -> float:
    return float(value) if math.isfinite(value) else math.nan
