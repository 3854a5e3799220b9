"""Categorical columns: the frequent values of the first window one-hot encoded, all others as one or in buckets."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from driftline.tables._buckets import BUCKETS, bucket_count, hashed, is_map, marked, marks
from driftline.tables._cells import (
    NOTED_ERRORS,
    NOTED_ROWS,
    Floats,
    TableError,
    Unreadable,
    counted,
    example,
    pa,
    pc,
    percent,
    quoted,
    read_labels,
)
from driftline.tables._columns import Coded, Column, is_finite, is_text
from driftline.tables._evidence import Evidence, closer
from driftline.tables._summaries import category_summary

__all__ = ["CategoricalColumn"]

_LEAST_ROWS, _LEAST_SHARE, _MOST = 10, 0.01, 20
_ALSO_ROWS, _ALSO_SHARE, _MOST_OF_ALL = 25, 0.002, 100  # where there are rows enough for more values
_TAIL = 0.05  # least share of rows with other values before these get buckets


class _Labels(NamedTuple):
    """Values as text, null where missing, and as codes: the index among the frequent values, or one above.

    ``missing`` is the code of missing values, ``unseen`` the rows of each value that no row had at first.
    """

    texts: Any
    codes: npt.NDArray[np.int64]
    missing: int
    unseen: tuple[int, ...] = ()
    bad: Unreadable | None = None

    @property
    def absent(self) -> int:
        """Number of cells without a value."""
        return int(np.count_nonzero(self.codes == self.missing))


@dataclass(frozen=True)
class CategoricalColumn(Column):
    """Values as columns of 0 and 1: one for each frequent value but the first, some for all others, one for missing.

    Attributes:
        values: frequent values, the most frequent first: up to 20, each with at least 10 rows and 1 % of the first
            window; where there are rows enough, up to 100 with 25 rows and 0.2 %.
        other: share of the first window's rows with other values, to 4 decimals; the values themselves are not kept.
        rows: number of rows in the first window.
        buckets: number of buckets that other values are hashed into; 0 if they are all one.
        unseen: share of rows that may have a value that no row had at first, though nothing has moved: as many as
            have, in one half of the first window, a value that the other half has not.
        marks: map of other values, to know those that no row had at first; see :mod:`~driftline.tables._buckets`.
    """

    kind: ClassVar[str] = "categorical"
    holds: ClassVar[str] = "a value"
    reads: ClassVar[tuple[str, ...]] = ("text", "number", "boolean", "null")

    values: tuple[str, ...]
    other: float
    rows: int
    buckets: int = 0
    unseen: float = 1.0
    marks: str = ""

    @classmethod
    def fit(cls, name: str, families: tuple[str, ...], labels: Any, counts: dict[str, int], room: int = 0) -> Self:
        """Freeze the frequent values of the first window.

        Arguments:
            labels: values of the first window as text, null where missing.
            counts: rows of each value, the most frequent first.
            room: number of encoded columns that there may be beyond the usual ones.
        """
        rows = len(labels)
        least, also = max(_LEAST_ROWS, _LEAST_SHARE * rows), max(_ALSO_ROWS, _ALSO_SHARE * rows)
        usual = [value for value, count in counts.items() if count >= least][:_MOST]
        present, known = sum(counts.values()), sum(counts[value] for value in usual)
        free = room + len(usual)
        if room and present - known >= _TAIL * rows and known <= _by_chance(len(usual), len(counts), present):
            usual, known = [], 0  # they stand out by chance, among many alike, and would fall back
        more = [value for value, count in counts.items() if count >= also][: min(free, _MOST_OF_ALL)]
        # for the same reason, most of the other rows must have one of those that join
        kept = more if sum(counts[value] for value in more) - known > 0.5 * (present - known) else usual
        named = set(kept)
        tail = {value: count for value, count in counts.items() if value not in named}
        other = sum(tail.values())
        missing, others = round(1.0 - present / rows, 4), round(other / rows, 4)
        if other < _TAIL * rows:
            return cls(name, families, tuple(kept), others, rows, missing=missing)
        buckets = bucket_count(tail, 1 + free - len(kept)) if room else 0
        return cls(name, families, tuple(kept), others, rows, buckets, _fresh(labels), marks(tail), missing=missing)

    @property
    def lumped(self) -> bool:
        """Whether many rows have values that are not told apart, so that more encoded columns would show more."""
        return self.other >= _TAIL and not self.buckets

    @property
    def watchable(self) -> bool:
        """Whether any value, or any bucket of values, is told apart from others."""
        return bool(self.values or self.buckets)

    def labels(self) -> list[tuple[str, str]]:
        """Name every value but the baseline, which is the most frequent one, or "other" where no value is frequent."""
        others = [f"=other {k + 1}" for k in range(self.buckets)] or ["=other"]
        _, *shown = [*(f"={value}" for value in self.values), *others]
        return [(self.name, self.name + end) for end in (*shown, " missing")]

    @property
    def _missing(self) -> int:
        """Code of missing values: above those of the frequent values, and of others or their buckets."""
        return len(self.values) + max(1, self.buckets)

    def parse(self, cells: Any, family: str) -> _Labels:
        """Read cells as text, and look them up among the frequent values."""
        labels = read_labels(cells, family)
        known = len(self.values)
        at = pc.index_in(labels, value_set=pa.array(self.values, labels.type))
        codes = np.array(pc.fill_null(at, known).to_numpy(), dtype=np.int64)
        codes[labels.is_null().to_numpy().astype(bool)] = self._missing
        others = np.flatnonzero(codes == known)
        if not len(others) or not (self.buckets or self.marks):
            return _Labels(labels, codes, self._missing)
        found = pc.dictionary_encode(labels.take(pa.array(others)).combine_chunks())
        hashes, which = hashed(found.dictionary.to_pylist()), found.indices.to_numpy()
        if self.buckets:
            codes[others] = known + (hashes % np.uint64(self.buckets)).astype(np.int64)[which]
        unseen: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        if self.marks:
            unseen = np.bincount(which, minlength=len(hashes))[~marked(hashes, self.marks)]
        return _Labels(labels, codes, self._missing, tuple(unseen.tolist()))

    def evidence(self, parsed: _Labels) -> Evidence | None:
        """Return that too many rows have values that no row had at first; None if so many are to be expected."""
        rows, count = len(parsed.codes), sum(parsed.unseen)
        if not self.marks or not rows or count < NOTED_ROWS:
            return None
        # rows with the same value come together: a value counts, not each of its rows
        now = (count - 3.0 * math.sqrt(sum(n * n for n in parsed.unseen))) / rows
        shares = ((share, 1.0 - share) for share in (self.unseen, now))
        certain = None if now <= self.unseen else closer(next(shares), self.rows, next(shares), rows)
        if certain is None:
            return None
        event = f"{percent(count / rows)} new values, up to {percent(self.unseen)} expected"
        return Evidence(self.name, event, *certain)

    def encode(self, parsed: _Labels, out: Floats) -> tuple[str, ...]:
        """Write the one-hot encoding; a row with the baseline value is all 0."""
        codes = parsed.codes
        # the baseline has code 0, so every other code is one above its column
        at = np.flatnonzero(codes > 0)
        out[at, codes[at] - 1] = 1.0
        return self._risen(parsed.texts, codes)

    def coded(self, block: Floats) -> list[Coded]:
        """Read codes off the columns of 0 and 1."""
        others = max(1, self.buckets)
        codes = block[:, :-1] @ np.arange(1.0, block.shape[1])
        labels = (*self.values, *("other",) * others)
        return [Coded(self.name, codes, block[:, -1] > 0.0, labels, others)]

    def unlisted(self, parsed: _Labels) -> tuple[str, int] | None:
        """Return the most frequent value beside the frequent ones of the first window, where these have become more."""
        codes, rows = parsed.codes, len(parsed.codes)
        others = (codes >= len(self.values)) & (codes < self._missing)
        count = int(others.sum())
        if count < NOTED_ROWS or count <= (self.other * rows) + math.sqrt(count):
            return None
        value, most = next(iter(counted(parsed.texts.filter(pa.array(others))).items()))
        return (quoted(value), most) if most >= NOTED_ROWS else None

    def _risen(self, labels: Any, codes: npt.NDArray[np.int64]) -> tuple[str, ...]:
        """Note a share of other values that has risen more than chance explains."""
        others = (codes >= len(self.values)) & (codes < self._missing)
        count, rows = int(others.sum()), len(codes)
        if count < NOTED_ROWS:
            return ()
        now = count / rows
        both = (count + self.other * self.rows) / (rows + self.rows)
        error = math.sqrt(max(0.0, both * (1.0 - both)) * (1.0 / rows + 1.0 / self.rows))
        if now - self.other <= NOTED_ERRORS * error:
            return ()
        shares = f"({percent(self.other)} then, {percent(now)} now)"
        shown = example(counted(labels.filter(pa.array(others))))
        return (f"{self.name}: {count} rows hold values that were rare or not there at first {shares}{shown}",)

    def summary(self, parsed: _Labels) -> dict[str, dict[str, Any]]:
        """Return the shares of the frequent values."""
        codes = parsed.codes
        counts = np.bincount(codes, minlength=self._missing + 1).tolist()
        found = category_summary(self.kind, self.values, counts[: len(self.values)], counts[-1], len(codes))
        return {self.name: found}

    def kept(self) -> str:
        """Name the frequent values, and the share of rows that held others."""
        rare = f"the share of rows with others, {percent(self.other)}, and the number of rows, {self.rows}"
        if self.buckets:
            rare += f"; others are watched in {self.buckets} buckets of their hashes"
        if self.marks:
            rare += f"; a map of {4 * len(self.marks)} cells marks where their hashes fell, by chance in half of them"
        if not self.values:
            return f"no value, since none had {_LEAST_ROWS} rows and {_LEAST_SHARE:.0%}; {rare}"
        return f"the frequent values {', '.join(quoted(v, 20) for v in self.values)}; {rare}"

    def check(self) -> None:
        """Check that values are distinct texts, ``other`` is a share and ``rows`` a number of rows."""
        super().check()
        values = self.values
        if not isinstance(values, tuple) or len(values) > _MOST_OF_ALL or not all(is_text(v) for v in values):
            raise TableError(f"column {self.name!r}: its values are not a tuple of at most {_MOST_OF_ALL} texts")
        if len(set(values)) < len(values):
            raise TableError(f"column {self.name!r}: a value occurs twice")
        if not is_finite(self.other) or not 0.0 <= self.other <= 1.0:
            raise TableError(f"column {self.name!r}: other={self.other!r} is not a share")
        if type(self.rows) is not int or not 1 <= self.rows < 1 << 63:
            raise TableError(f"column {self.name!r}: rows={self.rows!r} is not a number of rows")
        if type(self.buckets) is not int or self.buckets not in BUCKETS:
            raise TableError(f"column {self.name!r}: buckets={self.buckets!r} is not a number of buckets")
        if not is_finite(self.unseen) or not 0.0 <= self.unseen <= 1.0 or not is_map(self.marks):
            raise TableError(f"column {self.name!r}: its map of values is damaged")


def _by_chance(first: int, values: int, rows: int) -> float:
    """Return about the most rows that the first so many of values have together by chance, if all are alike."""
    mean, errors = rows / values, 1.0 + math.sqrt(2.0 * math.log(max(2.0, values / max(1, first))))
    return first * (mean + errors * math.sqrt(mean))


def _fresh(labels: Any) -> float:
    """Return the share of rows with a value that the other half has not; rows of one value may come together."""
    half = len(labels) // 2
    parts = labels.slice(0, half), labels.slice(half)
    new = [
        pc.sum(pc.invert(pc.is_in(part, value_set=pc.unique(other), skip_nulls=False))).as_py() or 0
        for part, other in (parts, parts[::-1])
    ]
    return min(1.0, round((max(new) + 8) / max(1, half), 4))
