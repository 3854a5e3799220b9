"""Numeric columns: robust z-scores, which no single wild value can dominate, and indicators of missing cells."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from driftline._wording import counted
from driftline.tables._cells import NOTED_ROWS, Floats, Read, TableError, read_numbers
from driftline.tables._columns import Coded, Column, is_finite
from driftline.tables._summaries import bin_edges, numeric_summary, rounded

__all__ = ["NumericColumn", "soft_limit"]

_LINEAR = 5.0  # robust standard deviations within which a z-score is left unchanged
_LOGARITHMIC = 15.0  # encoded value beyond which a second logarithm is taken
_IQR = 1.349  # interquartile range of the normal distribution, in standard deviations
_MAD = 1.4826  # one over the median absolute deviation of the standard normal distribution
_LARGEST, _SMALLEST = 1e308, 1e-308  # limits of a scale


def soft_limit(z: Floats) -> Floats:
    """Limit z-scores softly: linear within ±5, logarithmic beyond, and again beyond ±15, where z is 22,000.

    No encoded value is far away, and the map is invertible, so divergences do not change. Power-law tails become
    exponential, which the features of the ratio can express; a single row at 20 standard deviations no longer dominates
    a fit, as one at 70 would.

    >>> soft_limit(np.array([-3.0, 5.0, 1e3, -1e30])).round(1).tolist()
    [-3.0, 5.0, 11.9, -19.1]
    """
    return np.copysign(_bent(_bent(np.abs(z), _LINEAR), _LOGARITHMIC), z)


def _bent(size: Floats, limit: float) -> Floats:
    """Make sizes logarithmic beyond a limit, with the same slope there."""
    far = size > limit
    if far.any():
        size = size.copy()
        size[far] = limit + np.log1p(size[far] - limit)
    return size


@dataclass(frozen=True)
class NumericColumn(Column):
    """Numbers, robustly standardised and softly limited; missing ones are set to the median and marked by an indicator.

    A column with only one value has no ratio of densities: it is watched for other values.

    Attributes:
        median: center of the first window, rounded to a thousandth of the scale; exact if constant.
        scale: robust standard deviation of the first window, rounded to 6 digits. Of fewer than ten values both are
            coarse: a power of two, and the center to about that.
        edges: edges of the bins of its summaries.
        constant: whether the median is the only value in the first window, of ten rows or more.
    """

    kind: ClassVar[str] = "numeric"
    holds: ClassVar[str] = "a number"
    reads: ClassVar[tuple[str, ...]] = ("number", "text", "boolean", "null")

    median: float
    scale: float
    edges: tuple[float, ...]
    constant: bool = False

    @classmethod
    def fit(cls, name: str, families: tuple[str, ...], values: Floats) -> Self:
        """Freeze on values of the first window, nan where missing; at least one must be finite."""
        ordered = np.sort(values[~np.isnan(values)])  # so that sums do not depend on the order of rows
        median, scale = _center_and_scale(ordered)
        # of fewer rows the exact value would be one of few, perhaps of a single one, and is not kept
        constant = bool(ordered[0] == ordered[-1]) and len(ordered) >= NOTED_ROWS
        center = float(ordered[0]) if constant else median
        missing = round(1.0 - len(ordered) / len(values), 4)
        return cls(name, families, center, scale, bin_edges(ordered, scale), constant, missing=missing)

    def labels(self) -> list[tuple[str, str]]:
        """Name the number and the indicator."""
        number = f"{self.name} changed" if self.constant else self.name
        return [(self.name, number), (self.name, f"{self.name} missing")]

    def parse(self, cells: Any, family: str) -> Read:
        """Read cells as numbers."""
        return read_numbers(cells, family)

    def encode(self, parsed: Read, out: Floats) -> tuple[str, ...]:
        """Write softly limited robust z-scores, and the indicator."""
        values, infinite = parsed.values, parsed.infinite
        missing = np.isnan(values)
        out[:, 0] = (values != self.median) & ~missing if self.constant else self._limited(values, missing)
        if missing.any():  # out holds zeros
            out[:, 1] = missing
        notes = []
        if infinite:
            notes.append(f"{self.name}: {infinite} infinite value{'s' * (infinite > 1)} counted as missing")
        if parsed.inexact:
            notes.append(
                f"{self.name}: {counted(parsed.inexact, 'integer')} beyond 2^53, where numbers are rounded and "
                "neighbours may become one: name it in categorical if it holds codes, else in drop"
            )
        return tuple(notes)

    def _limited(self, values: Floats, missing: npt.NDArray[np.bool_]) -> Floats:
        """Return softly limited z-scores, 0 where missing."""
        with np.errstate(over="ignore"):
            z = (values - self.median) / self.scale
        z[missing] = 0.0
        limited = soft_limit(z)
        beyond = np.flatnonzero(~np.isfinite(limited))
        if len(beyond):  # the quotient overflows, its logarithm does not
            half = 0.5 * values[beyond] - 0.5 * self.median
            log_size = np.log(np.abs(half)) + math.log(2.0) - math.log(self.scale)
            limited[beyond] = np.copysign(_bent(_LINEAR + log_size, _LOGARITHMIC), half)
        return limited

    def coded(self, block: Floats) -> list[Coded]:
        """Return the encoded numbers; of a constant column, whether it has another value."""
        missing = block[:, 1] > 0.0
        if self.constant:
            return [Coded(self.name, block[:, 0], missing, (f"{self.median:.6g}", "other"), 1)]
        return [Coded(self.name, block[:, 0], missing)]

    def encoded(self, raw: float) -> float:
        """Return the encoded number, as :meth:`raw` takes it back.

        >>> column = NumericColumn("x", ("number",), 10.0, 2.0, (0.0,))
        >>> round(column.raw(column.encoded(1010.0)))
        1010
        """
        return float(soft_limit(np.array([(raw - self.median) / self.scale]))[0])

    def raw(self, encoded: float) -> float:
        """Return the number that an encoded one stands for; ``inf`` where that overflows.

        >>> column = NumericColumn("x", ("number",), 10.0, 2.0, (0.0,))
        >>> column.raw(0.5), round(column.raw(float(soft_limit(np.array([500.0]))[0])))
        (11.0, 1010)
        """
        size = abs(encoded)
        with np.errstate(over="ignore"):
            for limit in (_LOGARITHMIC, _LINEAR):
                if size > limit:
                    size = limit + float(np.expm1(size - limit))
        return self.median + self.scale * math.copysign(size, encoded)

    def unlisted(self, parsed: Read) -> tuple[str, int] | None:
        """Return the most frequent value of a column that was constant, beside its only one."""
        if not self.constant:
            return None
        values, counts = np.unique(parsed.values[~np.isnan(parsed.values)], return_counts=True)
        counts[values == self.median] = 0
        best = int(counts.argmax()) if len(counts) else 0
        return (f"{values[best]:.6g}", int(counts[best])) if len(counts) and counts[best] >= NOTED_ROWS else None

    def summary(self, parsed: Read) -> dict[str, dict[str, Any]]:
        """Return a histogram."""
        return {self.name: numeric_summary(parsed.values, self.edges)}

    def kept(self) -> str:
        """Describe center, scale and edges."""
        if self.constant:
            return f"its only value, {self.median:.6g}"
        return (
            f"median {self.median:.6g}, scale {self.scale:.6g}, {len(self.edges)} edges of bins from "
            f"{self.edges[0]:.6g} to {self.edges[-1]:.6g}"
        )

    def check(self) -> None:
        """Check that numbers are finite and edges are in order."""
        super().check()
        if not is_finite(self.median) or not is_finite(self.scale) or self.scale <= 0.0:
            raise TableError(f"column {self.name!r}: median={self.median!r} and scale={self.scale!r} are not valid")
        if not isinstance(self.constant, bool):
            raise TableError(f"column {self.name!r}: constant={self.constant!r} is not true or false")
        edges = self.edges
        if not isinstance(edges, tuple) or not edges or not all(is_finite(e) for e in edges):
            raise TableError(f"column {self.name!r}: its edges of bins are not numbers")
        if any(a >= b for a, b in pairwise(edges)):
            raise TableError(f"column {self.name!r}: its edges of bins are not in order")


def _center_and_scale(ordered: Floats) -> tuple[float, float]:
    """Return median and robust standard deviation: from the quartiles, or if they agree, from values off the median."""
    size = float(np.abs(ordered[[0, -1]]).max())
    scaled = ordered / size if size > 0.0 else ordered  # differences of very large numbers would overflow
    low, middle, high = np.quantile(scaled, [0.25, 0.5, 0.75])
    spread = float(high - low) / _IQR
    if spread <= 0.0:
        apart = np.abs(scaled - middle)
        apart = apart[apart > 0.0]
        spread = _MAD * float(np.median(apart)) if len(apart) else 0.0
    median = float(middle) * size
    # a constant column has no scale of its own: take 1, or its size if that is smaller
    scale = min(spread, _LARGEST / size) * size if spread > 0.0 else min(1.0, abs(median) or 1.0)
    scale = rounded(min(max(scale, _SMALLEST), _LARGEST))
    few = len(ordered) < NOTED_ROWS  # exact quantiles of so few would be their values
    if few:
        scale = 2.0 ** (math.frexp(scale)[1] - 1)
    try:
        center = round(median, (0 if few else 3) - math.floor(math.log10(scale)))
    except OverflowError:  # rounded up beyond the largest number
        center = median
    return center, scale
