"""Remainder: what is left of a drift beside the columns that moved, in words for terminal and report."""

from __future__ import annotations

from driftline._wording import named, number
from driftline.monitor._records import Record

__all__ = ["beside", "beyond"]

_SHARE, _ERRORS = 0.2, 2.0  # of the drift, and of its standard errors, below which nothing is left to speak of


def beyond(record: Record) -> str:
    """Say how much of a drift is in no column and no pair; empty if that is little, or unknown."""
    drift, rest = record.drift, record.unexplained
    if drift is None or rest is None or not rest > max(_SHARE * drift.value, _ERRORS * drift.std_error):
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
