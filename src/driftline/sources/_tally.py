"""Counts of rows left out, by the oldest window that was open when they came."""

from __future__ import annotations

from collections import defaultdict

from driftline.sources._batches import LeftOut

__all__ = ["Tally"]


class Tally:
    """Counts of the rows left out that no window accounts for yet.

    Rows that an earlier Record has named come again when reading resumes; they are not counted twice.

    Arguments:
        noted: rows after the cursor that Records account for already.

    Attributes:
        noted: those of them that have not been passed again.

    >>> tally = Tally(LeftOut(late=1))
    >>> tally.add(7, LeftOut(late=3, wild=1), "row 9")
    >>> tally.take(8)
    (LeftOut(late=2, untimed=0, wild=1), '1 row far ahead of the times around it left out (row 9)')
    """

    def __init__(self, noted: LeftOut) -> None:
        self.noted = noted
        self._counts: defaultdict[int, LeftOut] = defaultdict(LeftOut)
        self._places: dict[int, str] = {}

    @property
    def unaccounted(self) -> LeftOut:
        """Rows left out that neither a window nor an earlier Record accounts for."""
        return sum(self._counts.values(), LeftOut()).without(self.noted)

    def add(self, floor: int, found: LeftOut, place: str) -> None:
        """Count rows that came when this window was the oldest one open; ``place`` names the first wild one."""
        if not found:
            return
        self._counts[floor] += found
        if place:
            self._places.setdefault(floor, place)

    def take(self, stop: int) -> tuple[LeftOut, str]:
        """Remove and return the counts of windows before this one, and a note on those that are not late."""
        due = sorted(index for index in self._counts if index < stop)
        found = sum((self._counts.pop(index) for index in due), LeftOut())
        places = [self._places.pop(index) for index in due if index in self._places]
        left = found.without(self.noted)
        self.noted = self.noted.without(found)
        return left, left.described(places[0] if places else "")

    def note(self) -> str:
        """Return a note on the rows, not late, that nothing accounts for."""
        places = [self._places[index] for index in sorted(self._places)]
        return self.unaccounted.described(places[0] if places else "")
