"""Leaps in time: whether a row far ahead of those before it is a gap in the data or a wrong time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from driftline.sources._times import MISSING, Every

__all__ = ["Leaps"]

FEW = 3  # windows; a weekend fits in three of a day. A row further ahead is a leap
AGREED = 50  # rows by which those that agree must outnumber those that contradict, or the other way round
BEGUN = 10  # the same for the first time of all, which has nothing before it
AT_END = 9  # the same if no more rows are waited for: ten, together with the row itself
MOST = 2000  # rows that are asked
_LAST = np.iinfo(np.int64).max
_STRETCH = 64, 1 << 16  # rows looked through at once, after a leap and at most: leaps may be rare or in every row


class Leaps:
    """Judge of rows that are more than a few windows ahead of all rows before them.

    A leap counts once 50 more of the rows after it agree than contradict; it is left out once 50 more contradict than
    agree. A row agrees if it is not more than a few windows behind the leap. The first row of all is judged in the same
    way, by a majority of ten. This depends only on the rows after the leap and on the newest time before it, so neither
    batches nor interruptions matter.

    Arguments:
        every: length of the windows.
        lateness: length of time (ns) by which rows may be out of order; that much is not a leap.

    >>> day = 86400 * 10**9
    >>> times = np.array([1, 2, 2000, *[3] * 60]) * day
    >>> wild, decided = Leaps(Every("1d"), 0).judge(times, 0, final=False)
    >>> np.flatnonzero(wild).tolist(), decided
    ([2], 63)
    """

    def __init__(self, every: Every, lateness: int) -> None:
        self._every = every
        self._lateness = lateness

    def judge(self, times: NDArray[np.int64], newest: int, *, final: bool) -> tuple[NDArray[np.bool_], int]:
        """Mark the wrong times among these; also return the number of rows, from the first on, that are decided on.

        Arguments:
            times: times of the rows, or MISSING.
            newest: latest time before them, or MISSING.
            final: whether to decide on what is there, since no more rows are waited for.
        """
        wild = np.zeros(len(times), bool)
        start, stretch = 0, _STRETCH[1]
        while start < len(times):
            part = times[start : start + stretch]
            row, newest = self._next(part, newest)
            start += row
            if row == len(part):
                stretch = min(2 * stretch, _STRETCH[1])
                continue
            stretch = _STRETCH[0]
            right = self._right(times, start, first=newest == MISSING, final=final)
            if right is None:
                return wild, start
            if right:
                newest = int(times[start])
            wild[start] = not right
            start += 1
        return wild, len(times)

    def _next(self, times: NDArray[np.int64], newest: int) -> tuple[int, int]:
        """Return the first row that leaps, or the number of rows if none does, and the newest time before it."""
        if newest == MISSING:
            known = times != MISSING
            return (int(np.argmax(known)) if known.any() else len(times)), newest
        highest = int(times.max())
        if highest > newest:
            ahead = self.ahead(times, newest)
            if ahead.any():
                row = int(np.argmax(ahead))
                return row, int(times[:row].max(initial=newest))
        return len(times), max(newest, highest)

    def ahead(self, times: NDArray[np.int64], newest: int) -> NDArray[np.bool_]:
        """Mark the rows that are more than a few windows ahead of all rows before them, the newest from before too."""
        before = np.maximum.accumulate(np.concatenate([[newest], times]))[:-1]
        return np.asarray(self._every.index(times) > self._furthest(before))

    def _furthest(self, newest: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the last window that is not a leap after these times."""
        return self._every.index(np.minimum(newest, _LAST - self._lateness) + self._lateness) + FEW

    def _right(self, times: NDArray[np.int64], row: int, *, first: bool, final: bool) -> bool | None:
        """Say whether the time of a row is right, by the rows after it; None if too few have come."""
        time = max(int(times[row]), MISSING + 1 + self._lateness) - self._lateness
        index = int(self._every.index(np.array([time]))[0])
        least = max(self._every.start(index - FEW), MISSING + 1)
        enough = BEGUN if first else AGREED
        for most in (2 * enough, MOST):  # mostly the first of them decide
            asked = times[row + 1 : row + 1 + most]
            votes = np.cumsum(np.where(asked == MISSING, 0, np.where(asked < least, -1, 1)))
            decided = np.flatnonzero(np.abs(votes) >= enough)
            if decided.size:
                return bool(votes[decided[0]] > 0)
        net = int(votes[-1]) if votes.size else 0
        if len(asked) == MOST or final:
            return net >= (0 if first else AT_END)
        return None
