"""Normal scores: frozen increasing maps for columns whose shape is far from normal."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from driftline._inputs import Floats
from driftline.fitting._chunks import Integers
from driftline.fitting._densities import Density

__all__ = ["NormalScores", "far_from_normal", "fit_scores", "spread_scores"]

KNOTS = 33
_BLOCK = 8  # rows behind a knot, at least: it is the mean of the middle half of them, so never a row
_QUANTILES = (0.05, 0.2, 0.4, 0.6, 0.8, 0.95)
_ERRORS, _EFFECT = 4.0, 0.05  # of a hinge: standard errors; standard deviations, as a feature worth about 0.001 nats
_STEEPEST = 2.0  # slope beyond the ends, in normal slopes of the middle half of the column


class NormalScores(NamedTuple):
    """Piecewise linear maps of columns to the normal scores of the first window; other columns stay as they are.

    Beyond its ends a map goes on as a logarithm: no value is lost, and none is so far out that it decides alone.

    Shapes: columns (m,), knots and values (m, 33), slopes (m, 2) before the first knot and after the last.
    """

    columns: Annotated[Integers, "m <D"]
    knots: Annotated[Floats, "m 33"]
    values: Annotated[Floats, "m 33"]
    slopes: Annotated[Floats, "m 2"]

    def check(self) -> None:
        """Refuse knots that do not increase."""
        if not (np.diff(self.knots, axis=1) > 0.0).all():
            raise ValueError("knots do not increase")

    @property
    def parameters(self) -> int:
        """Number of free parameters: the knots that were fitted, less location and scale."""
        inner = np.diff(self.values, axis=1) / np.diff(self.knots, axis=1)
        return int((np.abs(np.diff(inner, axis=1)) > 1e-9 * np.abs(inner[:, 1:])).sum())

    def __call__(self, z: Floats) -> Floats:
        """Return standardised rows (n, D) with their scores in place of the mapped columns, (n, D)."""
        out = np.array(z)
        for i, j in enumerate(self.columns):
            column, knots, values = z[:, j], self.knots[i], self.values[i]
            mapped = np.interp(column, knots, values)
            mapped -= np.log1p(self.slopes[i, 0] * np.maximum(knots[0] - column, 0.0))
            mapped += np.log1p(self.slopes[i, 1] * np.maximum(column - knots[-1], 0.0))
            out[:, j] = mapped
        return out

    def log_slopes(self, z: Floats) -> Floats:
        """Return the logarithm of the product of the maps' slopes at rows (n, D), (n,): scores' density to columns'.

        At a knot the slope is the geometric mean of those beside it: for counts, the width of a value's cell.
        """
        out = np.zeros(len(z))
        for i, j in enumerate(self.columns):
            inner = np.diff(self.values[i]) / np.diff(self.knots[i])
            logs = np.log(np.concatenate([self.slopes[i, :1], inner, self.slopes[i, 1:]]))
            before = np.searchsorted(self.knots[i], z[:, j], side="left")
            after = np.searchsorted(self.knots[i], z[:, j], side="right")
            out += 0.5 * (logs[before] + logs[after])
            for slope, beyond in zip(
                self.slopes[i], (self.knots[i, 0] - z[:, j], z[:, j] - self.knots[i, -1]), strict=True
            ):
                out -= np.log1p(slope * np.maximum(beyond, 0.0))
        return out


def fit_scores(z: Floats, columns: Integers) -> NormalScores | None:
    """Return maps of the given columns of standardised rows (n, D); None without columns.

    >>> rows = np.random.default_rng(0).lognormal(0.0, 2.0, size=(2000, 1))
    >>> scores = fit_scores(rows, np.array([0]))
    >>> bool(np.abs(scores(rows).mean()) < 0.05 and abs(scores(rows).std() - 1.0) < 0.05)
    True
    """
    if not len(columns):
        return None
    maps = [_map(z[:, j]) for j in columns]
    knots, values, slopes = (np.stack(part) for part in zip(*maps, strict=True))
    return NormalScores(np.asarray(columns, dtype=np.int64), knots, values, slopes)


def spread_scores(z: Floats, columns: Integers, *, seed: int) -> Floats:
    """Return rows (n, D) with normal scores of the given columns whose ties are broken at random, (n, D).

    What is left in them is dependence: a heap next to a continuum is not taken for a cluster.
    """
    from scipy.special import ndtri

    rng, n, out = np.random.default_rng(seed), len(z), np.array(z)
    places = ndtri((np.arange(n) + 0.5) / n)
    for j in columns:
        out[np.lexsort((rng.random(n), z[:, j])), j] = places
    return out


def far_from_normal(z: Floats, density: Density) -> Integers:
    r"""Return the columns (m,) of standardised rows whose shape the mixture misses.

    It misses one if the mean of a hinge :math:`(z-q)_+` at one of six quantiles q, regressed on 1, z and z², differs
    from the mixture's by 4 standard errors and by 0.05 standard deviations of the residual. Columns with three values
    or fewer are left: z and z² say all there is.
    """
    missed = [
        j
        for at, j in enumerate(density.gaussian)
        if not _matches(z[:, j], density.weights, density.means[:, at], density.spreads[:, at])
    ]
    return np.array(missed, dtype=np.int64)


def _matches(column: Floats, weights: Floats, means: Floats, spread: Floats) -> bool:
    """Say whether the hinges of a column have the means that a mixture of normals gives them."""
    from scipy.special import ndtr

    if not _has_four(column):
        return True
    n, places = len(column), np.quantile(column, _QUANTILES)
    center, scale = column.mean(), column.std()
    unit = (column - center) / scale
    powers = np.stack([np.ones(n), unit, unit * unit], 1)
    hinges = np.maximum(column[:, None] - places, 0.0)
    coef = np.linalg.solve(powers.T @ powers, powers.T @ hinges)
    residual = (hinges - powers @ coef).std(0)
    lift = (means[:, None] - places) / spread[:, None]
    expected = weights @ (spread[:, None] * (lift * ndtr(lift) + np.exp(-0.5 * lift * lift) / np.sqrt(2.0 * np.pi)))
    about = (means - center) / scale
    moments = np.array([1.0, weights @ about, weights @ (about * about + (spread / scale) ** 2)])
    differs = np.abs(expected - moments @ coef)
    return bool((differs <= np.maximum(_ERRORS / np.sqrt(n), _EFFECT) * np.maximum(residual, 1e-9)).all())


def _has_four(column: Floats) -> bool:
    """Say whether a column has at least four values."""
    for _ in range(3):
        column = column[column != column[0]]
        if not len(column):
            return False
    return True


def _map(column: Floats) -> tuple[Floats, Floats, Floats]:
    """Return knots (33,), values (33,) and end slopes (2,) of one column."""
    from scipy.special import ndtri

    ordered = np.sort(column)
    n = len(ordered)
    _, first, counts = np.unique(ordered, return_index=True, return_counts=True)
    score = np.repeat(ndtri((first + 0.5 * counts) / n), counts)
    knots, values = [], []
    for part in _blocks(n, first, counts):
        quarter = (part.stop - part.start) // 4
        middle = slice(part.start + quarter, part.stop - quarter)
        # of the middle half, since the ends of a tail's block are far apart; the value of a heap if all share it
        use = part if ordered[middle.start] == ordered[middle.stop - 1] else middle
        knots.append(_place(ordered[use]))
        values.append(float(score[use].mean()))
    return _finished(np.array(knots), np.array(values), ordered)


def _place(rows: Floats) -> float:
    """Return the value that sorted rows share, or else their mean, moved a little where it is a row: counts."""
    if rows[0] == rows[-1]:
        return float(rows[0])
    mean = rows.mean()
    return float(mean + 0.01 * (rows[-1] - rows[0]) * (rows == mean).any())


def _blocks(n: int, first: Integers, counts: Integers) -> list[slice]:
    """Cut sorted rows into 33 blocks at most, about even in normal scores; a heap is a block of its own.

    A heap is a value that many rows share. Where there are too many blocks, the grid gets wider, then the smallest
    heaps are given up.
    """
    from scipy.special import ndtr

    large = np.flatnonzero(counts > max(2 * _BLOCK, n // 64))
    heaps = [slice(int(first[i]), int(first[i] + counts[i])) for i in large[np.argsort(-counts[large], kind="stable")]]
    size = min(KNOTS, max(2, n // _BLOCK))
    while True:
        grid = np.round(n * ndtr(np.linspace(-4.0, 4.0, size + 1))).astype(np.int64)
        out = _cut_around(n, sorted(heaps, key=lambda heap: heap.start), grid)
        if len(out) <= KNOTS:
            return out
        if size > _BLOCK:
            size -= 1
        else:
            heaps.pop()


def _cut_around(n: int, heaps: list[slice], grid: Integers) -> list[slice]:
    """Return heaps and, between them, blocks that end where the grid says, none with few rows."""
    out: list[slice] = []
    last = 0
    for heap in [*heaps, slice(n, n)]:
        start = last
        for edge in [*(int(edge) for edge in grid if last < edge < heap.start), heap.start]:
            if edge - start >= _BLOCK and (edge == heap.start or heap.start - edge >= _BLOCK):
                out.append(slice(start, edge))
                start = edge
        if heap.start < n:
            out.append(heap)
        last = heap.stop
    return out


def _finished(knots: Floats, values: Floats, ordered: Floats) -> tuple[Floats, Floats, Floats]:
    """Make a map strictly increasing, with slopes beyond its ends; fill it up to 33 knots between the last two."""
    least = 1e-9 * (ordered[-1] - ordered[0])
    kept = np.concatenate([[True], np.diff(knots) > least])
    knots, values = knots[kept], values[kept]
    low, high = np.quantile(ordered, [0.25, 0.75])
    if len(knots) < 2:  # one heap and next to nothing else
        knots, values = np.array([knots[0], knots[0] + 1.0]), np.array([values[0], values[0] + 1.0])
    steps = np.diff(values) / np.diff(knots)
    usual = 1.349 / (high - low) if high > low else (values[-1] - values[0]) / (knots[-1] - knots[0])
    slopes = np.minimum(steps[[0, -1]], _STEEPEST * usual)
    share = np.linspace(0.0, 1.0, KNOTS - len(knots) + 2)[1:-1]
    between = [np.concatenate([v[:-1], v[-2] + share * (v[-1] - v[-2]), v[-1:]]) for v in (knots, values)]
    return between[0], between[1], slopes
