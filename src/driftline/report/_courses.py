"""Courses: each column over all windows, as the Records have it: its own divergence, its test, what was missing."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from driftline.monitor import Marginal, Moved, MovedPair, Record, Status
from driftline.report._histories import History
from driftline.report._scales import buckets

__all__ = ["Course", "PairCourse", "Point", "courses", "pair_courses", "points"]


@dataclass(frozen=True)
class Course:
    """Course of one column.

    Attributes:
        column: name of the column.
        seen: the column in each window; None where it was not tested, or where the run did not note it.
        moved: what each window says of it if it moved there; None elsewhere.
        last: place of the last measured window.
    """

    column: str
    seen: tuple[Marginal | None, ...]
    moved: tuple[Moved | None, ...]
    last: int

    @property
    def now(self) -> Moved | None:
        """What the last measured window says of it; None if its test is silent there."""
        return self.moved[self.last]

    @property
    def since(self) -> int | None:
        """Place of the first window of those in a row, up to now, in which it moved; None if it is silent now."""
        if self.now is None:
            return None
        place = found = self.last
        while place >= 0 and (self.moved[place] is not None or self.seen[place] is None):
            found = place if self.moved[place] is not None else found
            place -= 1
        return found

    @property
    def windows(self) -> list[int]:
        """Places of the windows in which it moved."""
        return [i for i, moved in enumerate(self.moved) if moved is not None]

    @property
    def drift(self) -> float:
        """Own divergence in the last measured window, in nats; nan if unknown."""
        if self.now is not None:
            return self.now.drift.value
        seen = self.seen[self.last]
        return math.nan if seen is None else seen.drift

    @property
    def chance(self) -> float:
        """Chance of its counts in the last measured window, had it not moved; nan if unknown."""
        if self.now is not None:
            return self.now.chance
        seen = self.seen[self.last]
        return math.nan if seen is None else seen.chance


@dataclass(frozen=True)
class PairCourse:
    """Two columns that related otherwise in some window, with what each window says of them."""

    columns: tuple[str, str]
    found: tuple[MovedPair | None, ...]

    @property
    def windows(self) -> list[int]:
        """Places of the windows in which their relation was another."""
        return [i for i, pair in enumerate(self.found) if pair is not None]


@dataclass(frozen=True)
class Point:
    """A column in one window, or in a group of neighbours: the largest divergence, its chance, and the widest shares.

    Attributes:
        first, last: places of the windows.
        value: own divergence, never below 0; nan if unknown.
        low, high: interval, where its test speaks; nan elsewhere, and an upper end that is open is infinite.
        chance, missing, new: as in :class:`driftline.monitor.Marginal`; nan if unknown.
        moved: whether its test speaks.
    """

    first: int
    last: int
    value: float
    low: float = math.nan
    high: float = math.nan
    chance: float = math.nan
    missing: float = math.nan
    new: float = math.nan
    moved: bool = False


def courses(history: History) -> list[Course]:
    """Return the course of each column that a window or the summaries name: moved ones first, the furthest first."""
    last = max((i for i, r in enumerate(history.records) if _measured(r)), default=-1)
    if last < 0:
        return []
    names = _names(history)
    moved: dict[str, list[Moved | None]] = {name: [None] * len(history.records) for name in names}
    seen: dict[str, list[Marginal | None]] = {name: [None] * len(history.records) for name in names}
    for i, record in enumerate(history.records):
        for each in record.columns:
            moved[each.column][i] = each
        for name, point in record.marginals.items():
            seen[name][i] = point
    found = [Course(name, tuple(seen[name]), tuple(moved[name]), last) for name in names]
    return sorted(found, key=_rank)


def _measured(record: Record) -> bool:
    return record.status == Status.MEASURED and record.drift is not None


def _names(history: History) -> list[str]:
    """Return all columns that are known: those of the summaries, of tests, and of windows."""
    names = dict.fromkeys(history.original.then)
    for record in history.records:
        names |= dict.fromkeys(record.marginals) | dict.fromkeys(m.column for m in record.columns)
    return list(names)


def _rank(course: Course) -> tuple[bool, float, float]:
    """Order: those that moved, by their drift; then the others, the least likely first."""
    silent = course.now is None
    drift = course.drift if math.isfinite(course.drift) else 0.0
    chance = course.chance if math.isfinite(course.chance) else 1.0
    return silent, chance if silent else -drift, -drift


def points(course: Course, most: int) -> list[Point]:
    """Return the course in at most ``most`` points."""
    return [_point(course, group) for group in buckets(len(course.seen), most)]


def _point(course: Course, group: range) -> Point:
    each = [_single(course, i) for i in group]
    known = [p for p in each if math.isfinite(p.value)]
    if not known:
        return Point(group[0], group[-1], math.nan)
    top = max(known, key=lambda p: (p.moved, p.value))
    missing, new = _most(p.missing for p in known), _most(p.new for p in known)
    return Point(group[0], group[-1], top.value, top.low, top.high, top.chance, missing, new, top.moved)


def _single(course: Course, i: int) -> Point:
    moved, seen = course.moved[i], course.seen[i]
    missing, new = (math.nan, math.nan) if seen is None else (seen.missing, seen.new)
    if moved is None:
        value, chance = (math.nan, math.nan) if seen is None else (max(seen.drift, 0.0), seen.chance)
        return Point(i, i, value, chance=chance, missing=missing, new=new)
    drift = moved.drift
    return Point(i, i, max(drift.value, 0.0), drift.low, drift.high, moved.chance, missing, new, True)


def _most(values: Iterable[float]) -> float:
    return max((v for v in values if math.isfinite(v)), default=math.nan)


def pair_courses(history: History) -> list[PairCourse]:
    """Return all pairs that related otherwise in any window: those of the last first, then the latest."""
    places: dict[tuple[str, str], list[MovedPair | None]] = {}
    for i, record in enumerate(history.records):
        for pair in record.pairs:
            places.setdefault(pair.columns, [None] * len(history.records))[i] = pair
    found = [PairCourse(columns, tuple(each)) for columns, each in places.items()]

    def rank(course: PairCourse) -> tuple[int, float]:
        at = course.windows[-1]
        pair = course.found[at]
        return -at, -(pair.dependence if pair is not None else 0.0)

    return sorted(found, key=rank)
