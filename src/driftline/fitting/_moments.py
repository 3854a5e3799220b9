"""Moments of the features of two windows, all that least squares on their labels needs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from driftline._inputs import Floats
from driftline.fitting._chunks import Integers, chunks, rows_in_cache
from driftline.fitting._designs import Design, Singles, forms_of
from driftline.fitting._repeats import Repeats

__all__ = ["BlockSums", "Moments", "block_sums", "moments", "window_gram"]


class Moments(NamedTuple):
    """Moments of the features of two windows, in units of their pooled standard deviations.

    Shapes: ``shift`` (p,), the difference of means, numerator less denominator; ``center`` and ``scale`` (p,), the
    pooled mean and standard deviation; ``pooled`` and ``den`` (p, p), second moments around ``center`` of all rows and
    of the denominator's, in single precision.
    """

    rows_num: int
    rows_den: int
    shift: Floats
    center: Floats
    scale: Floats
    pooled: Singles
    den: Singles

    @property
    def share(self) -> float:
        """The numerator's share of the rows."""
        return self.rows_num / (self.rows_num + self.rows_den)

    @property
    def rows(self) -> int:
        """Number of rows of both windows."""
        return self.rows_num + self.rows_den

    def part(self, at: Integers) -> Moments:
        """Return the moments of some features."""
        inside = np.ix_(at, at)
        return self._replace(
            shift=self.shift[at],
            center=self.center[at],
            scale=self.scale[at],
            pooled=self.pooled[inside],
            den=self.den[inside],
        )


def window_gram(design: Design) -> Floats:
    """Return mean products of the features of a window and of their column of ones, (p + 1, p + 1)."""
    out = design.gram(np.ones(design.shape[0]))
    out /= design.shape[0]
    return out


def moments(num: Design, den: Design, gram_num: Floats | None = None, gram_den: Floats | None = None) -> Moments:
    """Return the moments of two windows whose designs end in a column of ones.

    ``gram_num`` and ``gram_den`` are those of :func:`window_gram` where they are known.
    """
    gram_num = window_gram(num) if gram_num is None else gram_num
    gram_den = window_gram(den) if gram_den is None else gram_den
    n, m = num.shape[0], den.shape[0]
    share = n / (n + m)
    # means by exact products: those in the Gram matrices are of single precision
    mean_num = num.pull(np.full(n, 1.0 / n))[:-1]
    mean_den = den.pull(np.full(m, 1.0 / m))[:-1]
    center = share * mean_num + (1.0 - share) * mean_den
    variance = share * gram_num.diagonal()[:-1] + (1.0 - share) * gram_den.diagonal()[:-1] - center * center
    still = variance <= 1e-10 * (1.0 + center * center)  # rounding of a constant column
    scale = np.sqrt(np.where(still, 1.0, variance))
    rate = np.where(still, 0.0, 1.0 / scale)
    pooled = np.empty((len(scale), len(scale)), dtype=np.float32)
    second = np.empty_like(pooled)
    for at in chunks(len(scale), rows_in_cache(len(scale))):  # by stretches: whole temporary matrices cost more
        both = _around(gram_den, mean_den, center, at)
        second[at] = both * (rate[at, None] * rate)
        both *= 1.0 - share
        both += share * _around(gram_num, mean_num, center, at)
        pooled[at] = both * (rate[at, None] * rate)
    return Moments(n, m, (mean_num - mean_den) * rate, center, scale, pooled, second)


def _around(gram: Floats, mean: Floats, center: Floats, at: slice) -> Floats:
    """Return some rows of the second moments around ``center``."""
    return np.asarray(gram[at, :-1] if at.stop < len(gram) else gram[at.start : -1, :-1]) - (
        np.outer(center[at], mean) + np.outer((mean - center)[at], center)
    )


class BlockSums(NamedTuple):
    """Sums of a window's features over blocks of rows, (k, p), and over blocks twice as long; of how many rows in all.

    They are centred on the window and in units of the pooled standard deviations.
    """

    short: Floats
    long: Floats
    rows: int

    def trace(self, inverse: Floats | Singles) -> float:
        """Return the trace of the inverse times the long-run covariance of the rows, by a flat-top kernel."""
        short, long = (float(forms_of(sums, np.asarray(inverse)).sum()) for sums in (self.short, self.long))
        return (2.0 * long - short) / self.rows


def block_sums(design: Design, of: Moments, lag: int, repeats: Repeats | None = None) -> BlockSums:
    """Return sums over blocks of rows that depend on their neighbours up to ``lag``, copies of a row in one block."""
    rows = design.shape[0]
    mean = design.pull(np.full(rows, 1.0 / rows))[:-1]
    counts = np.ones(rows)
    if repeats is not None:
        design, counts = design.pick(repeats.first), repeats.counts
    parts = []
    # without a lag, the other window has one: then blocks of 2 and 4 rows; copies alone need no blocks
    for size in (1, 1) if repeats is not None and lag == 0 else (2 * max(lag, 1), 4 * max(lag, 1)):
        sums = design.sums(counts, size)
        parts.append((sums[:, :-1] - sums[:, -1:] * mean) / of.scale)
    return BlockSums(parts[0], parts[1], rows)
