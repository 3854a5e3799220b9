"""Summaries of columns for people: shares of rows in bins that were frozen on the first window.

Exactly this is kept of the original, for each watched column:

* numeric: shares of rows in about 20 bins (edges are round numbers that cover the 1 % to 99 % quantiles, the outer bins
  are open), the share of missing rows, mean and standard deviation (of ten values or more), all rounded. No minimum,
  no maximum, no value.
* categorical: shares of the frequent values (at least 10 rows and 1 %, at most 20 values), of all others together, and
  of missing rows. No rare value.
* boolean: shares of true, false and missing; parts of dates (hour, weekday, ...) as numeric columns.

Shares are fractions of all rows: over bins or values, ``other`` and ``missing`` they add up to 1 except for rounding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from driftline.tables._cells import Floats

__all__ = ["bin_edges", "category_summary", "numeric_summary", "rounded"]

_BINS = 20
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_SHARE = 4  # decimals of a share
_FEW = 10  # values; the mean and spread of fewer would nearly be values
_WHOLE = 2.0**53
_LARGEST = float(np.finfo(np.float64).max)


def rounded(value: float, digits: int = 6) -> float:
    """Round a number to ``digits`` significant digits.

    >>> rounded(1234567.0), rounded(0.1 + 0.2)
    (1234570.0, 0.3)
    """
    return float(f"{value:.{digits}g}")


def bin_edges(ordered: Floats, scale: float) -> tuple[float, ...]:
    """Return round edges of about 20 equal bins over the middle 98 % of values; for whole numbers, edges between them.

    Arguments:
        ordered: finite values in ascending order, at least one, (n,).
        scale: spread of the values, positive; sets the bins if the middle 98 % are one value.

    >>> bin_edges(np.linspace(0.0, 10.0, 1001), 1.0)[:4]
    (0.0, 0.5, 1.0, 1.5)
    >>> bin_edges(np.array([0.0, 1.0, 1.0, 2.0]), 1.0)
    (-0.5, 0.5, 1.5, 2.5)
    """
    last = len(ordered) - 1
    low, high = float(ordered[math.floor(0.01 * last)]), float(ordered[math.ceil(0.99 * last)])
    whole = bool(abs(ordered[0]) < _WHOLE and abs(ordered[-1]) < _WHOLE and (ordered == np.floor(ordered)).all())
    if low == high:
        low, high = (max(-_LARGEST, min(_LARGEST, low + side * 5.0 * min(scale, 1e307))) for side in (-1.0, 1.0))
    half = 0.5 * high - 0.5 * low  # the whole range may overflow
    step = _nice(half / (0.5 * _BINS))
    if whole:
        step = max(1.0, math.ceil(step))
    if max(abs(low), abs(high)) >= 1e14 * step or step < 1e-300:
        edges = _binary_edges(ordered, low, high)  # too narrow for round numbers
    else:
        count = np.arange(math.floor(low / step), math.ceil(high / step) + 1 + whole)
        edges = np.array([rounded(float(k) * step, 15) for k in count]) - (0.5 if whole else 0.0)
    edges = np.unique(np.clip(edges, -_LARGEST, _LARGEST))
    return tuple(edges.tolist())


def _binary_edges(ordered: Floats, low: float, high: float) -> Floats:
    """Return edges halfway between multiples of a power of 2: none of them is a value, and none gives a value away."""
    # half of the least step must still be representable; the spacing of the largest number overflows
    least = 2.0 * float(np.spacing(min(max(abs(low), abs(high)), 0.5 * _LARGEST)))
    step = 2.0 ** math.ceil(math.log2(max((0.5 * high - 0.5 * low) / (0.5 * _BINS), least)))
    while True:
        count = np.arange(math.floor(low / step) - 1, math.ceil(high / step) + 1)
        with np.errstate(over="ignore"):  # the caller clips edges that overflow
            edges = np.asarray((count + 0.5) * step, dtype=np.float64)
        if step >= 1e307 or not np.isin(edges, ordered).any():
            return edges
        step *= 2.0


def _nice(width: float) -> float:
    """Return the round number nearest to a width, by ratio."""
    if not width > 1e-300:
        return 0.0
    power = 10.0 ** math.floor(math.log10(width))
    return min((power * step for step in _STEPS), key=lambda step: abs(math.log(step / width)))


def numeric_summary(values: Floats, edges: Sequence[float]) -> dict[str, Any]:
    """Return shares of values (nan if missing) below the first edge, from each edge to the next, from the last edge on.

    >>> numeric_summary(np.array([0.5, 1.5, 1.0, np.nan]), [0.0, 1.0, 2.0])["shares"]
    [0.0, 0.25, 0.5, 0.0]
    """
    missing = np.isnan(values)
    present = values[~missing] if missing.any() else values
    # comparing all values with each of a few edges is many times faster than searching for the place of each value
    from_edge_on = [len(present), *(int(np.count_nonzero(present >= edge)) for edge in edges), 0]
    mean, std = _moments(present)
    rows = max(1, len(values))
    return {
        "kind": "numeric",
        "edges": list(edges),
        "shares": [round((a - b) / rows, _SHARE) for a, b in pairwise(from_edge_on)],
        "missing": round((len(values) - len(present)) / rows, _SHARE),
        "mean": mean,
        "std": std,
    }


def _moments(values: Floats) -> tuple[float | None, float | None]:
    """Return mean and standard deviation, rounded; None of few values, and for a result that overflows."""
    size = float(np.abs(values).max(initial=0.0))
    if len(values) < _FEW or size == 0.0:
        return (None, None) if len(values) < _FEW else (0.0, 0.0)
    scaled = values / size  # squares of large numbers overflow, those of tiny ones vanish
    found = [rounded(float(m) * size) for m in (scaled.mean(), scaled.std())]
    mean, std = (m if math.isfinite(m) else None for m in found)
    return mean, std


def category_summary(
    kind: str, values: Sequence[str], counts: Sequence[int], missing: int, rows: int
) -> dict[str, Any]:
    """Return the shares of the listed values, of all others together, and of missing rows.

    >>> category_summary("categorical", ["red", "blue"], [5, 3], missing=1, rows=10)["other"]
    0.1
    """
    other = rows - missing - sum(counts)
    rows = max(1, rows)
    return {
        "kind": kind,
        "values": list(values),
        "shares": [round(c / rows, _SHARE) for c in counts],
        "other": round(other / rows, _SHARE),
        "missing": round(missing / rows, _SHARE),
    }
