"""Decisions: an alarm's policy and memory, and what it makes of the estimates of a window.

The user says how much drift does not matter (``tolerance``, nats) and how long a quiet stream should run between false
alarms (``run_length``, windows). The cumulative divergence finds slow drift, the step's divergence abrupt change; where
both are used, they share the false alarms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from numbers import Real
from typing import NamedTuple

import numpy as np

from driftline._causes import Cause, Signal, reason
from driftline._errors import Option, OptionError
from driftline._markup import card
from driftline._wording import against, bounds, is_bound, number, precise
from driftline.alarms._caution import caution, is_withheld
from driftline.alarms._limits import has_law, limit, quiet_law
from driftline.inference import Estimate

__all__ = [
    "AlarmMemory",
    "AlarmPolicy",
    "Cause",
    "Decision",
    "DriftAlarm",
    "Look",
    "Signal",
    "decide",
]

_TOGETHER = 1.7  # factor on the run length of each of two looks: 2 if they were independent, but they share a window


@dataclass(frozen=True, slots=True)
class AlarmPolicy:
    """Promises of an alarm: the drift that it tolerates and how rarely it is false.

    Arguments:
        tolerance: drift in nats that does not matter; may be 0.
        run_length: expected number of windows between false alarms.
        warning: expected number of windows between false warnings; a tenth of ``run_length`` by default.
        persistence: windows in a row that must exceed the limit to raise an alarm, and that must be calm to end it.
        warm_up: windows at the start that are watched but give no signal.
    """

    tolerance: float = 0.0
    run_length: float = 1000.0
    warning: float | None = None
    persistence: int = 1
    warm_up: int = 0

    def __post_init__(self) -> None:
        given = {each.name: Option(each.name, getattr(self, each.name)) for each in fields(self)}
        for name in ("tolerance", "run_length", "warning"):
            value = getattr(self, name)
            if not (isinstance(value, Real) or (name == "warning" and value is None)) or isinstance(value, bool):
                raise OptionError("{option} must be a number", option=given[name])
        if not (self.tolerance >= 0.0 and math.isfinite(self.tolerance)):
            raise OptionError("{tolerance} must be a number of nats, at least 0", **given)
        if not 1.0 < self.run_length <= 1e12:
            raise OptionError("{run_length} must be more than 1 window, and at most 1e12", **given)
        if self.warning is not None and not 1.0 < self.warning <= self.run_length:
            raise OptionError("{warning} must lie between 1 and {run_length}", **given)
        for name, least in (("persistence", 1), ("warm_up", 0)):
            value = getattr(self, name)
            if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
                message = "{option} must be a whole number of windows, at least {least}"
                raise OptionError(message, option=given[name], least=least)
        if self.persistence >= self.run_length:
            raise OptionError("{persistence} must be less than {run_length}", **given)

    @property
    def warning_length(self) -> float:
        """Expected number of windows between false warnings."""
        return max(1.5, self.run_length / 10.0) if self.warning is None else self.warning


class AlarmMemory(NamedTuple):
    """Memory of an alarm: everything that it keeps between windows.

    Attributes:
        seen: windows seen.
        streak: windows in a row beyond the limit.
        calm: windows in a row that were calm.
        signal: signal that stands.
        weights: log-chances of how far the original's sample lies from its own distribution; empty before the first
            look.
    """

    seen: int = 0
    streak: int = 0
    calm: int = 0
    signal: Signal = Signal.NORMAL
    weights: tuple[float, ...] = ()


class Look(NamedTuple):
    """A divergence and its limits, in nats."""

    value: float
    warning: float
    limit: float

    @property
    def signal(self) -> Signal:
        """Signal that this look alone would give."""
        return (
            Signal.ALARM if self.value > self.limit else Signal.WARNING if self.value > self.warning else Signal.NORMAL
        )

    @property
    def bound(self) -> float:
        """Limit that the signal is about: the higher one if it is exceeded, otherwise the warning's."""
        return self.limit if self.signal == Signal.ALARM else self.warning


class Decision(NamedTuple):
    """Signal after a window, the reason for it and the looks behind it (``change`` is None if no step was given).

    ``reason`` says ``causes`` in words.
    """

    signal: Signal
    causes: tuple[Cause, ...]
    reason: str
    drift: Look
    change: Look | None


def _estimate(given: object, name: str) -> None:
    """Raise if this is not an estimate: a bare number has no error bar to keep a false-alarm rate with."""
    if not isinstance(given, Estimate):
        raise TypeError(
            f"{name} must be an Estimate, not {type(given).__name__}: pass what est.divergence() and "
            "est.step_divergence() return, since limits need their error bars; a number of your own needs its standard "
            "error and interval: driftline.Estimate(value, std_error, low, high, 0.95)"
        )


def _look(
    estimate: Estimate, policy: AlarmPolicy, share: float, persistence: int, weights: tuple[float, ...] = ()
) -> Look:
    lengths = policy.warning_length * share, policy.run_length * share
    warning = limit(estimate, policy.tolerance, lengths[0], 1, weights)
    beyond = limit(estimate, policy.tolerance, lengths[1], persistence, weights)
    return Look(estimate.value, min(warning, beyond), beyond)


def _learn(memory: AlarmMemory, policy: AlarmPolicy, estimate: Estimate, look: Look) -> tuple[float, ...]:
    """Learn from a reading without alarm, at tolerance 0, how far the original lies from its own distribution.

    A tolerance allows any drift below it, which would be mistaken for this distance: then nothing is learned.
    """
    if policy.tolerance > 0.0 or not has_law(estimate) or look.signal == Signal.ALARM:
        return memory.weights
    law = quiet_law(estimate, 0.0, memory.weights)
    return law.learned(estimate.value + estimate.noise) if len(law.weights) > 1 else memory.weights


def decide(
    memory: AlarmMemory, policy: AlarmPolicy, divergence: Estimate, step: Estimate | None = None
) -> tuple[AlarmMemory, Decision]:
    """Return the new memory and the decision after a window, from its estimates alone.

    A window without error bars (too few rows for the model) leaves the signal as it is; the first look must have them.
    Where an interval was withheld, since rows depend on each other, nothing says that all is well: a warning.

    Arguments:
        divergence: divergence between original and current, the sum of all drift.
        step: divergence of the last step, for abrupt change. It is seen once, so with ``persistence`` above 1 it can
            only warn.
    """
    _estimate(divergence, "divergence")
    if step is not None:
        _estimate(step, "step")
    withheld = is_withheld(divergence) or (step is not None and is_withheld(step))
    finite = math.isfinite(divergence.std_error + (0.0 if step is None else step.std_error))
    if not finite and (memory.seen or withheld):
        blind = Look(divergence.value, math.nan, math.nan)
        unsure = withheld and memory.signal == Signal.NORMAL and memory.seen >= policy.warm_up
        unable = (Cause.NO_ERROR_BAR,) if unsure else (Cause.NO_ERROR_BAR, Cause.SIGNAL_STANDS)
        signal = Signal.WARNING if unsure else Signal(memory.signal)
        decision = Decision(signal, unable, reason(unable, signal=signal), blind, None)
        return memory._replace(seen=memory.seen + 1), decision
    both = step is not None and policy.persistence == 1
    drift = _look(divergence, policy, _TOGETHER if both else 1.0, policy.persistence, memory.weights)
    change = None if step is None else _look(step, policy, _TOGETHER, 1)
    seen, weights = memory.seen + 1, _learn(memory, policy, divergence, drift)
    if seen <= policy.warm_up:
        why = reason((Cause.WARM_UP,), seen=seen, warm_up=policy.warm_up)
        decision = Decision(Signal.NORMAL, (Cause.WARM_UP,), why, drift, change)
        return AlarmMemory(seen, 0, 0, Signal.NORMAL, weights), decision
    looks = [drift.signal] if change is None else [drift.signal, change.signal]
    streak = memory.streak + 1 if drift.signal == Signal.ALARM else 0
    calm = memory.calm + 1 if all(look == Signal.NORMAL for look in looks) else 0
    abrupt = both and change is not None and change.signal == Signal.ALARM
    stands = memory.signal == Signal.ALARM and calm < policy.persistence
    raised = streak >= policy.persistence or abrupt
    signal = Signal.ALARM if raised or stands else Signal.NORMAL if calm else Signal.WARNING
    causes = _exceeded(drift, change, policy)
    if stands and not raised:
        causes = (*(causes or (Cause.BACK_BELOW,)), Cause.ALARM_CONTINUES)
    elif not causes:
        causes = (Cause.WITHIN, Cause.ALARM_ENDED) if memory.signal == Signal.ALARM else (Cause.WITHIN,)
    seen_as = divergence, divergence if step is None else step
    why = _reason(causes, seen_as, (drift, change or drift), streak, policy)
    decision = Decision(signal, causes, why, drift, change)
    decision = _with_open_step(_cautious(decision, divergence, policy), divergence, step)
    return AlarmMemory(seen, streak, calm, signal, weights), decision


def _cautious(decision: Decision, divergence: Estimate, policy: AlarmPolicy) -> Decision:
    """Return a warning where nobody knows whether the drift is within the tolerance, though no limit is exceeded."""
    cause = caution(divergence, policy.tolerance) if decision.signal == Signal.NORMAL else None
    if cause is None:
        return decision
    low, high = bounds(divergence) or ("unknown", "unknown")
    limits = {"tolerance": number(policy.tolerance), "bound": against(divergence, decision.drift.bound)[1]}
    why = reason((cause,), drift=precise(divergence), low=low, high=high, **limits)
    return decision._replace(signal=Signal.WARNING, causes=(cause,), reason=why)


def _with_open_step(decision: Decision, divergence: Estimate, step: Estimate | None) -> Decision:
    """Say so where of the step alone nobody knows how large it is: below its limit, it is no reason for calm."""
    silent = step is None or Cause.ABRUPT_STEP in decision.causes or not _is_open(step) or _is_open(divergence)
    if step is None or silent:
        return decision
    signal = Signal.WARNING if decision.signal == Signal.NORMAL else decision.signal
    why = f"{decision.reason}; {reason((Cause.STEP_OPEN,), step=precise(step))}"
    return decision._replace(signal=signal, causes=(*decision.causes, Cause.STEP_OPEN), reason=why)


def _is_open(estimate: Estimate) -> bool:
    return estimate.lower_bound or is_bound(estimate)


def _exceeded(drift: Look, change: Look | None, policy: AlarmPolicy) -> tuple[Cause, ...]:
    """Return the limits that a window exceeds, as causes."""
    causes = []
    if drift.signal == Signal.ALARM:
        causes += [Cause.ABOVE_LIMIT] + ([Cause.STREAK] if policy.persistence > 1 else [])
    elif drift.signal == Signal.WARNING:
        causes.append(Cause.ABOVE_WARNING)
    if change is not None and change.signal != Signal.NORMAL:
        causes.append(Cause.ABRUPT_STEP if change.signal == Signal.ALARM else Cause.STEP_ABOVE_WARNING)
    return tuple(causes)


def _reason(
    causes: Sequence[Cause],
    estimates: tuple[Estimate, Estimate],
    looks: tuple[Look, Look],
    streak: int,
    policy: AlarmPolicy,
) -> str:
    """Say causes with the numbers of drift and step, rounded as everywhere."""
    (drift, bound), (step, step_bound) = (against(e, look.bound) for e, look in zip(estimates, looks, strict=True))
    numbers = {"drift": drift, "bound": bound, "step": step, "step_bound": step_bound}
    return reason(causes, **numbers, streak=streak, needed=policy.persistence)


class DriftAlarm:
    """An alarm, with its policy and memory: hand it each window's estimates, in order.

    Arguments:
        tolerance, run_length, warning, persistence, warm_up: see :class:`AlarmPolicy`.

    >>> import numpy as np
    >>> from driftline import ContinualDensityRatio
    >>> rng = np.random.default_rng(0)
    >>> est = ContinualDensityRatio(random_state=0).fit(rng.normal(size=(2000, 4)))
    >>> alarm = DriftAlarm(tolerance=0.01, run_length=500)
    >>> for t in range(1, 7):
    ...     est = est.partial_fit(rng.normal(0.1 * max(0, t - 3), 1.0, (2000, 4)))
    ...     print(alarm.update(est.divergence(), est.step_divergence()).signal)
    normal
    normal
    normal
    normal
    alarm
    alarm
    >>> alarm
    <DriftAlarm(tolerance=0.01, run_length=500, warning=None, persistence=1, warm_up=0): alarm after 6 windows>
    """

    def __init__(
        self,
        tolerance: float = 0.0,
        run_length: float = 1000.0,
        *,
        warning: float | None = None,
        persistence: int = 1,
        warm_up: int = 0,
    ) -> None:
        self.policy = AlarmPolicy(tolerance, run_length, warning, persistence, warm_up)
        self.memory = AlarmMemory()

    def __repr__(self) -> str:
        chosen = ", ".join(f"{each.name}={getattr(self.policy, each.name)!r}" for each in fields(self.policy))
        windows = "window" if self.memory.seen == 1 else "windows"
        return f"<DriftAlarm({chosen}): {self.memory.signal} after {self.memory.seen} {windows}>"

    def _repr_html_(self) -> str:
        """Return what notebooks show: the signal, and the policy."""
        windows = "window" if self.memory.seen == 1 else "windows"
        rows = [(each.name, str(getattr(self.policy, each.name))) for each in fields(self.policy)]
        return card(f"DriftAlarm: {self.memory.signal} after {self.memory.seen} {windows}", rows)

    def update(self, divergence: Estimate, step: Estimate | None = None) -> Decision:
        """Return the decision after a window."""
        self.memory, decision = decide(self.memory, self.policy, divergence, step)
        return decision

    def reset(self) -> None:
        """Forget everything, to start anew with a new original."""
        self.memory = AlarmMemory()
