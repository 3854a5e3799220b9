"""Covariances of a small density: diagonal, diagonal with factors, or full, whichever the rows can pay for."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from driftline._inputs import Floats
from driftline.fitting._chunks import Integers

__all__ = [
    "WIDEST",
    "Covariance",
    "choose_covariance",
    "diagonal_covariance",
    "independent_columns",
    "update_covariance",
]

WIDEST = 256  # columns; beyond, an eigendecomposition would cost more than the rest of a step: diagonal only
_FLOOR = 1e-4  # smallest variance inside components, relative to the window's own: no component is a point
_FLATTEST = 1e-7  # smallest eigenvalue of correlations; single precision tells rows apart down to about there
_COLLINEAR = 1e-5  # share of a column's variance that other columns do not determine, at least
_ROUNDS = 12  # of Newton, twice as many as it takes


class Covariance(NamedTuple):
    r"""A covariance :math:`\Psi^{1/2}(I + \sum_j (\eta_j - 1) u_j u_j^\top)\Psi^{1/2}`.

    Without axes it is diagonal; with as many axes as columns it is any covariance.

    Shapes: variance (G,), axes u (r, G) with orthonormal rows, stretch eta (r,).
    """

    variance: Floats
    axes: Floats
    stretch: Floats

    @property
    def parameters(self) -> int:
        """Number of free parameters."""
        columns, r = len(self.variance), len(self.stretch)
        return columns * (columns + 1) // 2 if r == columns else columns + r * columns - r * (r - 1) // 2

    @property
    def log_determinant(self) -> float:
        """Logarithm of the determinant."""
        return float(np.log(self.variance).sum() + np.log(self.stretch).sum())

    def solve(self, vectors: Floats) -> Floats:
        """Return vectors (k, G) times the inverse, (k, G)."""
        root = np.sqrt(self.variance)
        scaled = vectors / root
        if len(self.stretch):
            scaled = scaled + (scaled @ self.axes.T * (1.0 / self.stretch - 1.0)) @ self.axes
        return np.asarray(scaled / root)

    def forms(self, rows: Floats) -> Floats:
        """Return the quadratic form of the inverse for each row (n, G), (n,)."""
        scaled = rows * (1.0 / np.sqrt(self.variance))
        out = np.einsum("ij,ij->i", scaled, scaled)
        if len(self.stretch):
            along = scaled @ self.axes.T
            out += (along * along) @ (1.0 / self.stretch - 1.0)
        return np.asarray(out)

    def scaled(self, scale: Floats) -> Covariance:
        """Return the covariance of columns that are multiplied by ``scale`` (G,)."""
        return self._replace(variance=self.variance * scale * scale)

    def log_likelihood(self, scatter: Floats) -> float:
        """Return the mean log-density, without its constant, of rows with this scatter: (G, G), or (G,) diagonal."""
        if scatter.ndim == 1:
            return -0.5 * (self.log_determinant + float((scatter / self.variance).sum()))
        root = np.sqrt(self.variance)
        trace = float((np.diag(scatter) / self.variance).sum())
        if len(self.stretch):
            turned = self.axes / root
            along = np.einsum("ij,ij->i", turned @ scatter, turned)
            trace += float(along @ (1.0 / self.stretch - 1.0))
        return -0.5 * (self.log_determinant + trace)


def diagonal_covariance(scatter: Floats) -> Covariance:
    """Return the diagonal covariance of rows with this scatter, (G, G) or (G,), in units of the window's variances."""
    variance = np.maximum(np.diag(scatter) if scatter.ndim == 2 else scatter, _FLOOR)
    return Covariance(variance, np.zeros((0, len(variance))), np.zeros(0))


def update_covariance(old: Covariance, scatter: Floats, rows: float) -> Covariance:
    """Return the covariance of another scatter in the form of an old one: two rounds, for use inside a loop."""
    r, columns = len(old.stretch), len(old.variance)
    if r == 0 or scatter.ndim == 1:
        return diagonal_covariance(scatter)
    if r == columns:
        return _full(scatter)
    return _settle(scatter, rows, old.variance, narrow=bool(old.stretch.min() < 1.0), rounds=2)


def choose_covariance(scatter: Floats, rows: float) -> Covariance:
    """Return the form with the best BIC: diagonal, factors, or full.

    A full one is tried where there are five rows for each of its entries, or where factors would cost nearly as much.

    Arguments:
        scatter: mean squares and products of centred rows, (G, G), in units of the window's variances; (G,) if only a
            diagonal covariance is asked for.
        rows: number of rows behind it.
    """
    plain = diagonal_covariance(scatter)
    columns = len(plain.variance)
    if scatter.ndim == 1 or columns < 2:
        return plain
    found, entries = [plain, _factors(scatter, rows)], columns * (columns + 1) / 2
    dense = found[1].parameters > 0.75 * entries and rows > 2 * columns  # so many factors: full costs no more
    if entries <= rows / 5 or dense:
        found.append(_full(scatter))
    return max(found, key=lambda form: _worth(form, scatter, rows))


def independent_columns(scatter: Floats) -> Integers:
    """Return the columns, in order, that are left when those that others determine are dropped.

    ``scatter`` is (G, G) in units of the window's variances; with a diagonal one, (G,), all columns are left.
    """
    if scatter.ndim == 1:
        return np.arange(len(scatter))
    left = np.array(scatter)
    kept: list[int] = []
    while len(kept) < len(left):
        rest = np.diag(left)
        at = int(np.argmax(rest))
        if rest[at] < _COLLINEAR:
            break
        kept.append(at)
        left -= np.outer(left[:, at], left[at] / rest[at])
        left[at] = left[:, at] = 0.0
    return np.array(sorted(kept), dtype=np.int64)


def _full(scatter: Floats) -> Covariance:
    variance = diagonal_covariance(scatter).variance
    values, vectors = np.linalg.eigh(_correlation(scatter, variance))
    return Covariance(variance, vectors.T, np.maximum(values, _FLATTEST))


def _correlation(scatter: Floats, variance: Floats) -> Floats:
    root = np.sqrt(variance)
    return np.asarray(scatter / root / root[:, None])


def _factors(scatter: Floats, rows: float) -> Covariance:
    """Return the eigenvectors of the correlations that stand out of the noise, and a diagonal that keeps variances.

    Directions that are narrow beside the diagonal count only once the wide ones are known: before, all seem narrow.
    """
    start = _specific(scatter, rows)
    wide = _settle(scatter, rows, start, narrow=False, rounds=_ROUNDS)
    both = _settle(scatter, rows, wide.variance, narrow=True, rounds=_ROUNDS)
    return max((wide, both), key=lambda form: _worth(form, scatter, rows))


def _specific(scatter: Floats, rows: float) -> Floats:
    """Return each column's variance given all others, where there are rows enough to say, (G,)."""
    total = diagonal_covariance(scatter).variance
    left = 1.0 - len(total) / rows  # of the variance, after regression on all other columns
    if left < 0.5:
        return total
    values, vectors = np.linalg.eigh(_correlation(scatter, total))
    inverse = (vectors * vectors) @ (1.0 / np.maximum(values, _FLATTEST))
    return np.asarray(np.clip(total / inverse / left, _FLOOR, total))


def _settle(scatter: Floats, rows: float, variance: Floats, *, narrow: bool, rounds: int) -> Covariance:
    """Find factors and diagonal in turns, from a diagonal on, until the covariance has the variances of the scatter.

    The diagonal moves by Newton's steps on its logarithm, with the second derivatives that Clarke (1970) gives for
    factor analysis; plain turns would need hundreds of rounds where factors are strong.
    """
    total = diagonal_covariance(scatter).variance
    columns = len(total)
    axes, stretch = np.zeros((0, columns)), np.zeros(0)
    for _ in range(rounds):
        values, vectors = np.linalg.eigh(_correlation(scatter, variance))
        kept, stretch = _spikes(values, rows, narrow=narrow)
        axes = vectors[:, kept].T
        slope = 1.0 + (stretch - 1.0) @ (axes * axes) - total / variance
        curvature = (np.eye(columns) - axes.T @ axes) ** 2 + 1e-4 * np.eye(columns)
        step = np.clip(np.linalg.solve(curvature, slope), -1.0, 1.0)
        variance = np.maximum(variance * np.exp(-step), _FLOOR)
        if np.abs(step).max() < 1e-3:
            break
    # variances are kept whether or not it has settled
    return Covariance(np.maximum(total / (1.0 + (stretch - 1.0) @ (axes * axes)), _FLOOR), axes, stretch)


def _worth(form: Covariance, scatter: Floats, rows: float) -> float:
    """Return BIC in nats."""
    return rows * form.log_likelihood(scatter) - 0.5 * form.parameters * math.log(rows)


def _spikes(values: Floats, rows: float, *, narrow: bool) -> tuple[Integers, Floats]:
    """Return which eigenvalues stand out of the noise, as indices, and their shrunken sizes.

    The edges are those of Marchenko and Pastur and three standard deviations of Tracy and Widom; a factor must also be
    worth its parameters by BIC. Sizes are shrunk as in Donoho, Gavish and Johnstone (2018) for Frobenius' loss:
    new rows are predicted better than with Stein's.
    """
    columns = len(values)
    ratio = columns / rows
    root, width = math.sqrt(ratio), 3.0 * ratio ** (-1.0 / 6.0) * rows ** (-2.0 / 3.0)
    values = np.maximum(values, _FLATTEST)
    above = values > (1.0 + root) ** 2 + (1.0 + root) ** (4.0 / 3.0) * width
    below = np.zeros(columns, dtype=bool)
    if narrow and root < 1.0:
        below = values < (1.0 - root) ** 2 - (1.0 - root) ** (4.0 / 3.0) * width
    gain = 0.5 * rows * (values - 1.0 - np.log(values))
    kept = np.flatnonzero((above | below) & (gain > 0.5 * columns * math.log(rows)))
    if len(kept) == columns:  # full covariances have a form of their own
        kept = np.delete(kept, np.argmin(gain))
    seen, middle = values[kept], values[kept] + 1.0 - ratio
    gap = np.sqrt(np.maximum(middle * middle - 4.0 * seen, 0.0))
    spike = 0.5 * np.where(seen > 1.0, middle + gap, middle - gap)
    far = np.maximum((spike - 1.0) ** 2, 1e-12)
    aligned = np.clip((1.0 - ratio / far) / (1.0 + ratio / (spike - 1.0)), 0.0, 1.0)
    return kept, np.maximum(aligned * spike + 1.0 - aligned, _FLATTEST)
