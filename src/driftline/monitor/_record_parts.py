"""Parts of Records, as frozen values: status of a window, columns and pairs that moved, estimates as Records keep."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from driftline._wording import is_bound, qualifier
from driftline.inference import Doubt, Estimate

__all__ = ["Marginal", "Moved", "MovedPair", "RecordError", "Status", "Without", "kept_estimate", "plain"]


class Status(StrEnum):
    """Status of a window."""

    ORIGINAL = "original"
    MEASURED = "measured"
    SKIPPED = "skipped"


class RecordError(ValueError):
    """The line is not a Record."""


@dataclass(frozen=True, slots=True)
class Moved:
    """A column whose own distribution moved.

    Attributes:
        column: name of the column.
        drift: KL(current‖original) of the column alone, in cells that were fixed on the original; of the last windows
            together, where only these show it.
        chance: chance of counts that differ this much in a column that has not moved.
        cause: what of it moved most, in words.
    """

    column: str
    drift: Estimate
    chance: float
    cause: str


class Marginal(NamedTuple):
    """A column in one window, whether its test speaks or not: a point of its history.

    Attributes:
        drift: KL(current‖original) of the column alone in this window; noise is subtracted, so it may be below 0.
        chance: chance of counts that differ this much in a column that has not moved, by all its tests.
        missing: share of rows without a value.
        new: share of rows in cells that no row of the original was in.
    """

    drift: float
    chance: float
    missing: float
    new: float


@dataclass(frozen=True, slots=True)
class MovedPair:
    """Two columns whose relation to each other changed, whatever each of them did alone.

    Attributes:
        columns: names of both.
        dependence: nats of KL(current‖original) of both that are in their dependence, in coarse cells; noise is
            subtracted. Those of several pairs do not add up.
        chance: chance of counts that differ this much if they relate as before.
        cause: how, in words.
    """

    columns: tuple[str, str]
    dependence: float
    chance: float
    cause: str


@dataclass(frozen=True, slots=True)
class Without:
    """Drift beside a column that hides all others.

    Attributes:
        column: name of the column.
        drift: nats that the other columns and a tree of their pairs explain, by counts; no interval.
        new: whether most of its rows have values that no row had at first: such a column (a year, a version) says
            nothing that the calendar does not, and can be dropped.
    """

    column: str
    drift: float
    new: bool


def kept_estimate(
    value: float,
    std_error: float,
    low: float,
    high: float,
    level: float,
    floor: float,
    *,
    doubts: tuple[Doubt, ...] = (),
) -> Estimate:
    """Return an estimate as Records keep it; numbers that were not finite are nan.

    One without an upper end is open above, and a lower bound unless it rests on a step that could not be measured.
    """
    estimate = Estimate(value, std_error, low, high, level, floor=floor, doubts=doubts)
    if not is_bound(estimate):
        return estimate
    return replace(estimate, high=math.inf, lower_bound=qualifier(estimate) == "at least ")


def plain(estimate: Estimate, doubts: tuple[Doubt, ...] = ()) -> Estimate:
    """Return an estimate as Records keep it, so that it equals the one read back: a lower bound has no upper end.

    Of its doubts, only the given ones stay: those of all estimates are the Record's.
    """
    high = math.inf if estimate.lower_bound else estimate.high
    parts = (estimate.value, estimate.std_error, estimate.low, high, estimate.level, estimate.floor)
    return kept_estimate(*(v if math.isfinite(v) else math.nan for v in parts), doubts=doubts)
