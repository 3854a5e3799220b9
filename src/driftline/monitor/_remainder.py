"""Remainder: what there is to say beside the columns that moved, in words for terminal and report."""

from __future__ import annotations

from driftline._causes import OF_COLUMNS, OF_STEPS
from driftline._wording import named, number
from driftline.alarms import Cause, Signal
from driftline.inference import DoubtCode
from driftline.monitor._record_parts import Moved
from driftline.monitor._records import Record

__all__ = ["beside", "beyond", "brought", "ended", "is_near"]

_SHARE, _ERRORS = 0.2, 2.0  # of the drift, and of its standard errors, below which nothing is left to speak of


def brought(record: Record) -> str:
    """Say what brought or keeps a signal if that is not the drift of all columns together; empty if it is."""
    causes = set(record.causes)
    limit = record.alarm_limit if record.signal == Signal.ALARM else record.warning_limit
    drifted = record.drift is None or record.drift.value > limit
    if OF_COLUMNS & causes or (not drifted and (OF_STEPS | {Cause.BACK_BELOW}) & causes):
        return record.reason
    return ""


def ended(record: Record, before: Record | None) -> tuple[Moved, ...]:
    """Return the columns that an abrupt step brought back: named in the window before, tested and silent now."""
    if before is None or not OF_STEPS & set(record.causes):
        return ()
    named_now = {m.column for m in record.columns}
    return tuple(m for m in before.columns if m.column in record.marginals and m.column not in named_now)


def is_near(record: Record) -> bool:
    """Say whether nothing differs from the original, though the drift rests on a step that could not be measured."""
    drift = record.drift
    if drift is None or record.columns or record.pairs or record.unexplained is None:
        return False
    weak = any(doubt.code == DoubtCode.WEAK_STEP for doubt in record.doubts)
    return weak and drift.low <= 0.0 and drift.value <= record.warning_limit


def beyond(record: Record) -> str:
    """Say how much of a drift is in no column and no pair; empty if that is little, or unknown."""
    drift, rest = record.drift, record.unexplained
    if drift is None or rest is None:
        return ""
    rest = min(rest, drift.value)  # noise is subtracted from both, which may leave more than there is
    if not rest > max(_SHARE * drift.value, _ERRORS * drift.std_error):
        return ""
    return f"about {number(rest)} nats are in no single column and no pair, as far as coarse counts show"


def beside(record: Record) -> str:
    """Say how far the other columns are, where one hides them; empty if none does."""
    found = record.without
    return (
        f"without {named(found.column)}, about {number(found.drift)} nats are left, by columns and pairs"
        if found
        else ""
    )
