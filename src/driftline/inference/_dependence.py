r"""Sums over rows that depend on their neighbours: the reach of dependence, and long-run covariances.

The variance of a sum of autocorrelated rows includes their cross products, :math:`\sum_{|k|\le 2L} w_k \Gamma_k`, with
a flat-top kernel: weight 1 up to lag L, falling to 0 at 2L. It is computed from sums over short blocks of rows, so
its cost does not grow with L. Windows are treated as independent of each other, which is right up to L/rows.

Reference: Politis and Romano, *Bias-corrected nonparametric spectral estimation*, 1995.
"""

from __future__ import annotations

import math
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from driftline._inputs import Floats
from driftline.fitting import Design, Repeats, Scores

__all__ = [
    "Dependence",
    "choose_lag",
    "correlation_time",
    "long_run",
    "long_run_variance",
    "mean_products",
    "positive",
    "swelling",
]

_ROWS = 8192  # enough rows to find the reach of dependence; also the rows multiplied at a time
ROWS_EACH = 5.0  # effective rows for each parameter: with fewer, expansions around the truth no longer hold
_QUIET = 3  # lags in a row without correlation that end the search
_PARTS = 4  # blocks per lag
_LASTING = 0.2  # mean correlation over the longer half of all lags: much more than noise shows


_Design = TypeVar("_Design", bound=Design)


class Dependence(NamedTuple):
    """How the rows of a window depend on each other: as copies, and then as neighbours.

    Attributes:
        lag: number of rows, each distinct one counted once, over which neighbours depend on each other; 0 for none.
        repeats: which rows are copies of each other; None if none are.
        time: number of neighbours that are worth one, see :func:`correlation_time`.
        endless: whether neighbours still depend on each other at the longest lag there is.
        swell: by how much sums over rows of each feature and of a one scatter more than over independent ones, (p+1,),
            see :func:`swelling`: for rows that are no longer at hand, and where errors of second order need it.
        copies: of rows that are no longer at hand, number of them that are worth one as copies of each other.
    """

    lag: int = 0
    repeats: Repeats | None = None
    time: float = 1.0
    endless: bool = False
    swell: Floats | None = None
    copies: float = 1.0

    @property
    def independent(self) -> bool:
        """Whether no row depends on another."""
        return self.lag == 0 and self.repeats is None and self.swell is None

    @property
    def worth(self) -> float:
        """Number of rows that are worth one as copies of each other."""
        return self.copies if self.repeats is None else self.repeats.worth

    @property
    def shares(self) -> Floats | None:
        """Share of all rows that each distinct one has, (k,); None if no row has a copy."""
        return None if self.repeats is None else self.repeats.counts / len(self.repeats.place)

    def effective(self, rows: int) -> float:
        """Return the number of independent rows that say as much as these."""
        return rows / (self.worth * self.time)

    def supports(self, rows: int, parameters: float) -> bool:
        """Say whether so many rows suffice for error bars of a fit."""
        return not self.endless and self.effective(rows) >= ROWS_EACH * parameters

    def merged(self, values: Floats) -> Floats:
        """Return values (n,) summed over copies, (k,)."""
        return values if self.repeats is None else self.repeats.sums(values)

    def spread(self, values: Floats) -> float:
        """Return the variance of the sum of values (n,) over so many rows."""
        return long_run_variance(self.merged(values - values.mean()), self.lag)

    def merged_scores(self, scores: Scores) -> Scores:
        """Return derivatives of rows summed over copies."""
        return scores if self.repeats is None else Scores(*(self.repeats.sums(part) for part in scores))

    def distinct(self, design: _Design) -> _Design:
        """Return the distinct rows of a design."""
        return design if self.repeats is None else design.pick(self.repeats.first)


def choose_lag(z: Floats, curved: int | None = None) -> int:
    """Return the lag beyond which standardised rows (n, D) and their squares are uncorrelated; 0 for independent rows.

    Only the first ``curved`` columns are squared, if given: the squares of others say what the columns say.

    >>> choose_lag(np.random.default_rng(0).normal(size=(2000, 3)))
    0
    """
    series, power = _series(z, curved)
    n, count = series.shape
    if n < 50 or not count:
        return 0
    # under independence the sum of n rho^2 has mean `count`; columns may be copies of each other, so its spread is
    # taken as that of a few independent ones
    enough = count * (1.0 + 12.0 / math.sqrt(min(count, 8)))
    lag, quiet, spread = 0, 0, np.ones(count)
    for k in range(1, n // 20 + 1):
        rho = np.einsum("ij,ij->j", series[k:], series[:-k]) / power
        if n * float(np.sum(rho * rho / spread)) > enough:
            lag, quiet = k, 0
        else:
            quiet += 1
            if quiet == _QUIET:
                break
        spread += 2.0 * rho * rho  # Bartlett's formula: dependence so far makes later correlations more variable
    if lag and any(_is_endless(_correlations(values, size)) for values, size in zip(series.T, power, strict=True)):
        return int(n // 20)
    # correlations too weak to be seen one by one still add up
    return min(math.ceil(1.5 * lag) + 1, n // 20) if lag else 0


def correlation_time(z: Floats, curved: int | None, lag: int) -> tuple[float, bool]:
    r"""Return the number of standardised rows (n, D) that are worth one, and whether they depend beyond any lag.

    The former is :math:`1 + 2\sum_k\rho_k` by Geyer's initial monotone sequence: sums of two neighbouring correlations,
    which decrease for a reversible chain, up to the first that is not positive; the largest over columns and squares.
    Beyond twice the lag nothing counts as dependence, unless the lag is the longest there is and rows are still
    correlated there, as those of a sorted table are.

    Reference: Geyer, *Practical Markov chain Monte Carlo*, 1992.

    >>> rows = [0.0]
    >>> for step in np.random.default_rng(0).normal(size=20_000):
    ...     rows.append(0.8 * rows[-1] + 0.6 * step)
    >>> time, endless = correlation_time(np.array(rows)[:, None], None, 30)
    >>> bool(abs(time - 9.0) < 2.0), endless
    (True, False)
    """
    series, power = _series(z, curved)
    n, count = series.shape
    if not count:
        return 1.0, False
    most, times, endless = n // 20, [], False
    for values, size in zip(series.T, power, strict=True):  # one by one: the transforms of all take much room
        rho = _correlations(values, size)
        pairs = np.minimum.accumulate(rho[::2] + rho[1::2])
        endless |= lag >= most and _is_endless(rho)
        sums = np.cumsum(np.maximum(pairs, 0.0))
        times.append((sums[min(lag, len(sums) - 1)], sums[-1]))
    return max(1.0, 2.0 * float(np.max(times, 0)[int(endless)]) - 1.0), endless


def _correlations(values: npt.NDArray[np.float32], size: float) -> Floats:
    """Return autocorrelations of centred values (n,) whose squares sum up to ``size``; an even number of them."""
    n = len(values)
    return np.asarray(np.fft.irfft(np.square(np.abs(np.fft.rfft(values, 2 * n))), 2 * n)[: 2 * (n // 2)] / size)


def _is_endless(rho: Floats) -> bool:
    """Say whether correlations last to the longest lag there is."""
    most = len(rho) // 20
    return bool(rho[most // 2 : most + 1].mean() > _LASTING)


def _series(z: Floats, curved: int | None) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Return columns and squares that vary, centred, (n, k), and the sums of their squares, (k,)."""
    n, d = z[:_ROWS].shape
    s = d if curved is None else min(curved, d)
    series = np.empty((n, d + s), dtype=np.float32)
    np.clip(z[:n], -4.0, 4.0, out=series[:, :d], casting="same_kind")
    np.square(series[:, :s], out=series[:, d:])
    series -= np.full(n, 1.0 / n, dtype=np.float32) @ series  # faster than the mean along the longer axis
    power = np.einsum("ij,ij->j", series, series)
    kept = power > 1e-6 * n
    return (series, power) if kept.all() else (series[:, kept], power[kept])


def long_run(
    left: Design, left_values: Floats, right: Design, right_values: Floats, lag: int, share: Floats | None = None
) -> Floats:
    """Return the covariance of the sums over rows of ``left_values * T`` and ``right_values * T'``, (p, q).

    Where copies of a row have been added up, ``share`` is the share of all rows that each has, (n,): it also has this
    share of the mean. Otherwise that a row has more copies than another would count as scatter, though the number of
    all rows is given.
    """
    n = left.shape[0]
    same = right is left and right_values is left_values
    if lag == 0:
        product = left_values * right_values
        means = mean_products(left, left_values, right, right_values, share)
        if left is right:
            return left.gram(product) - means
        total = np.zeros_like(means)
        for k in range(0, n, _ROWS):
            total += left.take(k, k + _ROWS, 1).T @ (right.take(k, k + _ROWS, 1) * product[k : k + _ROWS, None])
        return total - means
    size = max(1, math.ceil(lag / _PARTS))
    parts = np.add.reduceat(np.full(n, 1.0 / n) if share is None else share, np.arange(0, n, size))
    a = _centred(left.sums(left_values, size), parts)
    return _flat_top(a, a if same else _centred(right.sums(right_values, size), parts))


def mean_products(
    left: Design, left_values: Floats, right: Design, right_values: Floats, share: Floats | None
) -> Floats:
    """Return what products of sums have beyond the covariance of independent rows; arguments as in :func:`long_run`."""
    mean = left.tally(left_values)
    same = right is left and right_values is left_values
    other = mean if same else right.tally(right_values)
    both = np.outer(mean, other)
    if share is None:
        return both / left.shape[0]
    cross = np.outer(left.tally(share * left_values), other)
    turned = cross.T if same else np.outer(mean, right.tally(share * right_values))
    return np.asarray(cross + turned - float(share @ share) * both)


def swelling(design: Design, rows: Dependence) -> Floats:
    """Return by how much sums of each feature, and of a one, scatter more than those of independent rows, (p+1,)."""
    n, p = design.shape
    if rows.independent:
        return np.ones(p)
    ones = np.ones(n)
    alone = long_run(design, ones, design, ones, 0).diagonal()
    distinct, counts = rows.distinct(design), rows.merged(ones)
    found = long_run(distinct, counts, distinct, counts, rows.lag, counts / n).diagonal()
    known = alone > 1e-9 * n
    out = np.where(known, np.maximum(found / np.where(known, alone, 1.0), 1.0), 1.0)
    out[-1] = float(out[known].mean()) if known.any() else 1.0  # the constant is the mean of what the others are
    return out


def long_run_variance(values: Floats, lag: int) -> float:
    """Return the variance of the sum of values (n,)."""
    values = values - values.mean()
    if lag == 0:
        return float(values @ values)
    size = max(1, math.ceil(lag / _PARTS))
    blocks = np.add.reduceat(values, np.arange(0, len(values), size))[:, None]
    variance = float(_flat_top(blocks, blocks)[0, 0])
    return variance if variance > 0.0 else float(values @ values)


def _centred(blocks: Floats, parts: Floats) -> Floats:
    """Return sums over blocks of rows less what each block has of the total, by its part of all rows."""
    return np.asarray(blocks - np.outer(parts, blocks.sum(0)))


def _flat_top(a: Floats, b: Floats) -> Floats:
    """Return twice the Bartlett sum of 2L minus that of L: weight 1 up to L. Moving sums over all shifts give both."""

    def bartlett(parts: int) -> Floats:
        left = _moving(a, parts)
        return np.asarray(left.T @ (left if b is a else _moving(b, parts)) / parts)

    return 2.0 * bartlett(2 * _PARTS) - bartlett(_PARTS)


def _moving(blocks: Floats, parts: int) -> Floats:
    total = np.pad(blocks, ((parts, parts - 1), (0, 0))).cumsum(0)
    return np.asarray(total[parts:] - total[:-parts])


def positive(matrix: Floats) -> Floats:
    """Return the nearest covariance: eigenvalues that a flat-top kernel leaves below 0 are set to 0."""
    values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)
