"""Categorical columns: one-hot of the frequent values of the first window, the rest together as "other"."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from driftline.features.cells import Floats, TableError, pa, pc, quoted, read_labels
from driftline.features.columns import Column, Reading, is_text
from driftline.features.summaries import category_summary

__all__ = ["CategoricalColumn", "counted"]

_LEAST_ROWS, _LEAST_SHARE, _MOST = 10, 0.01, 20
_PRINTS = 4096  # rare values whose fingerprints are kept; beyond, two bytes no longer tell values apart


def counted(labels: Any) -> dict[str, int]:
    """How often each value occurs, the most frequent first, equally frequent ones by name; missing ones left out."""
    found = pc.value_counts(labels.drop_null())
    values, counts = found.field("values").to_pylist(), found.field("counts").to_pylist()
    return dict(sorted(zip(values, counts, strict=True), key=lambda pair: (-pair[1], pair[0])))


def _fingerprint(value: str) -> int:
    """Two bytes: enough to know most values again, too few to tell which value it was."""
    return int.from_bytes(hashlib.blake2b(value.encode(), digest_size=2).digest())


@dataclass(frozen=True)
class CategoricalColumn(Column):
    """Values as columns of 0 and 1: one for each frequent value but the first, one for all others, one for missing.

    Attributes:
        values: those with at least 10 rows and 1 % of the first window, at most 20, the most frequent first.
        rare: two-byte fingerprints of its other values, so that new ones are noticed; None if there were too many.
    """

    kind: ClassVar[str] = "categorical"
    holds: ClassVar[str] = "a value"
    reads: ClassVar[tuple[str, ...]] = ("text", "number", "boolean", "null")

    values: tuple[str, ...]
    rare: tuple[int, ...] | None

    @classmethod
    def fit(cls, name: str, families: tuple[str, ...], counts: dict[str, int], rows: int) -> Self:
        """Freeze on the counts of the first window, the most frequent first."""
        least = max(_LEAST_ROWS, _LEAST_SHARE * rows)
        kept = [value for value, count in counts.items() if count >= least][:_MOST]
        others = [value for value in counts if value not in set(kept)]
        rare = tuple(sorted({_fingerprint(v) for v in others})) if len(others) <= _PRINTS else None
        return cls(name, families, tuple(kept), rare)

    def labels(self) -> list[tuple[str, str]]:
        """All but the baseline, which is the most frequent value, or "other" where no value is frequent."""
        shown = [f"={value}" for value in self.values[1:]] + (["=other"] if self.values else []) + [" missing"]
        return [(self.name, self.name + end) for end in shown]

    def _codes(self, labels: Any) -> npt.NDArray[np.int64]:
        """Position among the values; the number of values for all others, one more for missing."""
        known = len(self.values)
        at = pc.index_in(labels, value_set=pa.array(self.values, labels.type))
        codes = np.array(pc.fill_null(at, known).to_numpy(), dtype=np.int64)
        codes[labels.is_null().to_numpy().astype(bool)] = known + 1
        return codes

    def encode(self, column: Any, family: str, out: Floats) -> Reading:
        """One-hot; the baseline's row is 0."""
        labels = read_labels(column, family)
        codes = self._codes(labels)
        # the baseline takes the first code, so that the others are numbered as the columns are
        at = np.flatnonzero(codes > 0)
        out[at, codes[at] - 1] = 1.0
        return Reading(None, self._unseen(labels, codes))

    def _unseen(self, labels: Any, codes: npt.NDArray[np.int64]) -> tuple[str, ...]:
        others = codes == len(self.values)
        if self.rare is None or not others.any():
            return ()
        known = set(self.rare)
        new = {v: n for v, n in counted(labels.filter(pa.array(others))).items() if _fingerprint(v) not in known}
        if not new:
            return ()
        rows, example = sum(new.values()), quoted(next(iter(new)))
        held = "row holds a value" if rows == 1 else "rows hold values"
        return (f"{self.name}: {rows} {held} not seen at first, such as {example}",)

    def summary(self, column: Any, family: str) -> dict[str, dict[str, Any]]:
        """Shares of the kept values."""
        codes = self._codes(read_labels(column, family))
        counts = np.bincount(codes, minlength=len(self.values) + 2).tolist()
        found = category_summary(self.kind, self.values, counts[: len(self.values)], counts[-1], len(codes))
        return {self.name: found}

    def kept(self) -> str:
        """The frequent values."""
        rare = "too many other values to know them again" if self.rare is None else (
            f"two-byte fingerprints of {len(self.rare)} rarer ones" if self.rare else "no rarer ones"
        )  # fmt: skip
        if not self.values:
            return f"no value, since none had {_LEAST_ROWS} rows and {_LEAST_SHARE:.0%}: only missing ones; {rare}"
        return f"the frequent values {', '.join(quoted(v, 20) for v in self.values)}; {rare}"

    def check(self) -> None:
        """Texts that differ, two-byte numbers."""
        super().check()
        values, rare = self.values, self.rare
        if not isinstance(values, tuple) or len(values) > _MOST or not all(is_text(v) for v in values):
            raise TableError(f"column {self.name!r}: its values are not at most {_MOST} texts")
        if len(set(values)) < len(values):
            raise TableError(f"column {self.name!r}: a value occurs twice")
        if rare is not None and (
            not isinstance(rare, tuple) or not all(type(r) is int and 0 <= r < 1 << 16 for r in rare)
        ):
            raise TableError(f"column {self.name!r}: its fingerprints are not two-byte numbers")
