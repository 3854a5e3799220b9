"""Clocks and counters: numbers that never fell in the first window. They are left out, and looked at in case they fall.

A counter goes on where it stopped. A column that was only sorted at first comes back to values it had before, or falls
again and again; from then on its values are compared with those of the first window, in bins.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from driftline.tables._cells import Floats, Read, TableError, percent, read_numbers
from driftline.tables._columns import Column, is_finite
from driftline.tables._evidence import Evidence, closer
from driftline.tables._numeric import NumericColumn
from driftline.tables._summaries import numeric_summary

__all__ = ["CounterColumn", "Fall"]

_BLOCKS, _BLOCK_ROWS = 20, 5
_MARGIN = 0.25  # standard deviations of the first window by which rows may be out of order
_FALLEN_ROWS, _FALLEN_SHARE = 10, 0.02


class Fall(NamedTuple):
    """A column that was taken for a counter and fell: a remark for people, and evidence if its values have moved."""

    remark: str
    evidence: Evidence | None


@dataclass(frozen=True)
class CounterColumn(Column):
    """Numbers that never fell in the first window: not encoded, but compared with that window once they fall.

    Attributes:
        scale: robust standard deviation of the first window, rounded to 6 digits.
        edges: edges of bins.
        shares: shares of the first window's values in these bins, the outer ones open, to 4 decimals.
        rows: number of values in the first window.
    """

    kind: ClassVar[str] = "counter"
    holds: ClassVar[str] = "a number"
    reads: ClassVar[tuple[str, ...]] = NumericColumn.reads

    scale: float
    edges: tuple[float, ...]
    shares: tuple[float, ...]
    rows: int

    @classmethod
    def of(cls, column: NumericColumn, values: Floats) -> Self:
        """Keep of a numeric column what a later comparison needs; ``values`` are those of the first window."""
        present = values[~np.isnan(values)]
        shares = _shares(present, column.edges)
        return cls(
            column.name, column.families, column.scale, column.edges, shares, len(present), missing=column.missing
        )

    def labels(self) -> list[tuple[str, str]]:
        """Return nothing: it is not encoded."""
        return []

    def parse(self, cells: Any, family: str) -> Read:
        """Read cells as numbers."""
        return read_numbers(cells, family)

    def kept(self) -> str:
        """Describe edges and shares."""
        return (
            f"shares of values in {len(self.shares)} bins with edges from {self.edges[0]:.6g} to {self.edges[-1]:.6g}"
        )

    def fall(self, values: Floats) -> Fall | None:
        """Say whether the values of a later window have fallen, and how they compare with the first; None if not."""
        present = values[~np.isnan(values)]
        gone = self._gone(len(present), len(values))
        if gone is not None:
            remark = f"{self.name}: taken for a clock or counter and left out; {gone.event}"
            return Fall(f"{remark}. To watch it, begin a run that names it in numeric, else in drop", gone)
        fallen = int(self._fallen(present).sum())
        if fallen < max(_FALLEN_ROWS, _FALLEN_SHARE * len(present)):
            return None
        evidence = self._moved(present)
        remark = (
            f"{self.name}: taken for a clock or counter, since it never fell in the first window, but {fallen} of "
            f"{len(present)} rows fall back now. The drift leaves it out; its values are compared with those of the "
            "first window in bins alone"
        )
        found = f" ({evidence.event})" if evidence else ""
        return Fall(f"{remark}{found}. To watch it, begin a run that names it in numeric, else in drop", evidence)

    def _gone(self, present: int, rows: int) -> Evidence | None:
        """Return evidence that more values are missing than at first, or fewer; None if chance may explain it."""
        now = 1.0 - present / max(1, rows)
        then_rows = self.rows / max(1e-9, 1.0 - self.missing)
        moved = closer([1.0 - self.missing, self.missing], then_rows, [1.0 - now, now], rows)
        if moved is None:
            return None
        return Evidence(self.name, f"{percent(now)} missing, {percent(self.missing)} at first", *moved)

    def _fallen(self, present: Floats) -> npt.NDArray[np.bool_]:
        """Say which values lie below what came before them: the first window's end, and the middle of earlier rows."""
        parts = np.array_split(present, max(1, min(_BLOCKS, len(present) // _BLOCK_ROWS)))
        before = np.maximum.accumulate([self.edges[-1], *(float(np.median(part)) for part in parts[:-1])])
        limits = before - _MARGIN * self.scale
        return np.concatenate([part < limit for part, limit in zip(parts, limits, strict=True)])

    def _moved(self, present: Floats) -> Evidence | None:
        """Return how far the values have moved for certain, in bins; None if not at all."""
        now = _shares(present, self.edges)
        worth = _worth(present)  # the first window was sorted: how its rows depend on each other is not known
        certain = closer(self.shares, self.rows * worth, now, len(present) * worth)
        if certain is None:
            return None
        below = np.cumsum(self.shares)[:-1], np.cumsum(now)[:-1]
        k = int(np.abs(below[1] - below[0]).argmax())
        event = f"{percent(below[1][k])} below {self.edges[k]:.6g}, {percent(below[0][k])} at first"
        return Evidence(self.name, event, *certain)

    def check(self) -> None:
        """Check that numbers are finite, edges in order and shares what they say."""
        super().check()
        NumericColumn(self.name, self.families, 0.0, self.scale, self.edges).check()
        shares = self.shares
        if not isinstance(shares, tuple) or len(shares) != len(self.edges) + 1 or not all(is_finite(s) for s in shares):
            raise TableError(f"column {self.name!r}: its shares are not one number for each bin")
        if any(not 0.0 <= s <= 1.0 for s in shares):
            raise TableError(f"column {self.name!r}: its shares are not between 0 and 1")
        if type(self.rows) is not int or not 1 <= self.rows < 1 << 63:
            raise TableError(f"column {self.name!r}: rows={self.rows!r} is not a number of rows")


def _worth(present: Floats) -> float:
    """Return what a row is worth among neighbours that resemble each other; sorted rows have lost their neighbours."""
    if len(present) < 3 or bool((np.diff(present) >= 0.0).all()):
        return 1.0
    ranks = np.argsort(np.argsort(present, kind="stable"), kind="stable")
    likeness = float(np.corrcoef(ranks[:-1], ranks[1:])[0, 1])
    least = 2.0 / math.sqrt(len(present))  # below that, chance
    return 1.0 if likeness < least else max(1.0 / len(present), (1.0 - likeness) / (1.0 + likeness))


def _shares(present: Floats, edges: tuple[float, ...]) -> tuple[float, ...]:
    """Return the shares of values below the first edge, from each to the next, and from the last on."""
    return tuple(numeric_summary(present, edges)["shares"])
