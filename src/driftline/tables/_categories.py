"""Categorical columns: the frequent values of the first window one-hot encoded, all other values as "other"."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from driftline.tables._cells import Floats, TableError, Unreadable, counted, example, pa, pc, quoted, read_labels
from driftline.tables._columns import Column, is_finite, is_text
from driftline.tables._summaries import category_summary

__all__ = ["CategoricalColumn"]

_LEAST_ROWS, _LEAST_SHARE, _MOST = 10, 0.01, 20
_NOTED_ROWS, _NOTED_ERRORS = 10, 3.0  # least rows with other values, and standard errors above the first window


class _Labels(NamedTuple):
    """Values as text, null where missing, and as codes: the index among the frequent values, or one of two above."""

    texts: Any
    codes: npt.NDArray[np.int64]
    bad: Unreadable | None = None


@dataclass(frozen=True)
class CategoricalColumn(Column):
    """Values as columns of 0 and 1: one for each frequent value but the first, one for all others, one for missing.

    Attributes:
        values: frequent values, each with at least 10 rows and 1 % of the first window; at most 20, the most frequent
            first.
        other: share of the first window's rows with other values, to 4 decimals; the values themselves are not kept.
        rows: number of rows in the first window.
    """

    kind: ClassVar[str] = "categorical"
    holds: ClassVar[str] = "a value"
    reads: ClassVar[tuple[str, ...]] = ("text", "number", "boolean", "null")

    values: tuple[str, ...]
    other: float
    rows: int

    @classmethod
    def fit(cls, name: str, families: tuple[str, ...], counts: dict[str, int], rows: int) -> Self:
        """Freeze the frequent values of the first window; ``counts`` begins with the most frequent."""
        least = max(_LEAST_ROWS, _LEAST_SHARE * rows)
        kept = [value for value, count in counts.items() if count >= least][:_MOST]
        other = sum(counts.values()) - sum(counts[value] for value in kept)
        return cls(name, families, tuple(kept), round(other / rows, 4), rows)

    def labels(self) -> list[tuple[str, str]]:
        """Name every value but the baseline, which is the most frequent one, or "other" where no value is frequent."""
        shown = [f"={value}" for value in self.values[1:]] + (["=other"] if self.values else []) + [" missing"]
        return [(self.name, self.name + end) for end in shown]

    def _codes(self, labels: Any) -> npt.NDArray[np.int64]:
        """Index among the values; the number of values for all others, one more for missing."""
        known = len(self.values)
        at = pc.index_in(labels, value_set=pa.array(self.values, labels.type))
        codes = np.array(pc.fill_null(at, known).to_numpy(), dtype=np.int64)
        codes[labels.is_null().to_numpy().astype(bool)] = known + 1
        return codes

    def parse(self, cells: Any, family: str) -> _Labels:
        """Read cells as text, and look them up among the frequent values."""
        labels = read_labels(cells, family)
        return _Labels(labels, self._codes(labels))

    def encode(self, parsed: _Labels, out: Floats) -> tuple[str, ...]:
        """Write the one-hot encoding; a row with the baseline value is all 0."""
        codes = parsed.codes
        # the baseline has code 0, so every other code is one above its column
        at = np.flatnonzero(codes > 0)
        out[at, codes[at] - 1] = 1.0
        return self._risen(parsed.texts, codes)

    def _risen(self, labels: Any, codes: npt.NDArray[np.int64]) -> tuple[str, ...]:
        """Note a share of other values that has risen more than chance explains."""
        others = codes == len(self.values)
        count, rows = int(others.sum()), len(codes)
        if count < _NOTED_ROWS:
            return ()
        now = count / rows
        both = (count + self.other * self.rows) / (rows + self.rows)
        error = math.sqrt(max(0.0, both * (1.0 - both)) * (1.0 / rows + 1.0 / self.rows))
        if now - self.other <= _NOTED_ERRORS * error:
            return ()
        shares = f"({_percent(self.other)} then, {_percent(now)} now)"
        shown = example(counted(labels.filter(pa.array(others))))
        return (f"{self.name}: {count} rows hold values that were rare or not there at first {shares}{shown}",)

    def summary(self, parsed: _Labels) -> dict[str, dict[str, Any]]:
        """Return the shares of the frequent values."""
        codes = parsed.codes
        counts = np.bincount(codes, minlength=len(self.values) + 2).tolist()
        found = category_summary(self.kind, self.values, counts[: len(self.values)], counts[-1], len(codes))
        return {self.name: found}

    def kept(self) -> str:
        """Name the frequent values, and the share of rows that held others."""
        rare = f"the share of rows with others, {_percent(self.other)}, and the number of rows, {self.rows}"
        if not self.values:
            return f"no value, since none had {_LEAST_ROWS} rows and {_LEAST_SHARE:.0%}; {rare}"
        return f"the frequent values {', '.join(quoted(v, 20) for v in self.values)}; {rare}"

    def check(self) -> None:
        """Check that values are distinct texts, ``other`` is a share and ``rows`` a number of rows."""
        super().check()
        values = self.values
        if not isinstance(values, tuple) or len(values) > _MOST or not all(is_text(v) for v in values):
            raise TableError(f"column {self.name!r}: its values are not a tuple of at most {_MOST} texts")
        if len(set(values)) < len(values):
            raise TableError(f"column {self.name!r}: a value occurs twice")
        if not is_finite(self.other) or not 0.0 <= self.other <= 1.0:
            raise TableError(f"column {self.name!r}: other={self.other!r} is not a share")
        if type(self.rows) is not int or not 1 <= self.rows < 1 << 63:
            raise TableError(f"column {self.name!r}: rows={self.rows!r} is not a number of rows")


def _percent(share: float) -> str:
    """Format a share: 0.2 %, 14 %."""
    return f"{100.0 * share:{'.2g' if share < 0.1 else '.0f'}} %"
