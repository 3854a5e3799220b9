"""Expectation-maximisation for the summary density: rows in single precision, one pass over them an iteration.

With one covariance for all components their log-densities differ by terms that are linear in a row, and the scatter
inside them is the scatter of all rows less that of the means. So an iteration needs two products with K columns.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from driftline._inputs import MIN_ROWS, Floats
from driftline.fitting._chunks import Integers, chunks, rows_in_cache
from driftline.fitting._covariances import (
    WIDEST,
    Covariance,
    choose_covariance,
    diagonal_covariance,
    update_covariance,
)
from driftline.fitting._mixtures import Mixture, logits_of

__all__ = [
    "LEAST",
    "Columns",
    "Fit",
    "Sample",
    "describe_columns",
    "iterate",
    "make_sample",
    "mark_gap",
    "one",
    "refit_mixture",
    "spread_marks",
]

LEAST = 50.0  # effective rows of a component, so that none is a row
_COMMON = 0.1  # share of rows with the rarer value, at least, for a column to tell components apart
_VALUES = 20  # different values of a column, at most, that are taken for marks on a scale
_ITERATIONS, _TOLERANCE = 25, 2e-5  # of a warm start; nats a row

Singles = npt.NDArray[np.float32]


class Columns(NamedTuple):
    """Which columns a mixture covers, and how; see :class:`Mixture`."""

    gaussian: Integers
    binary: Integers
    group: Integers
    levels: Floats


class Sample(NamedTuple):
    """A window as the iterations see it: Gaussian columns in its own mean and scale, then two-valued ones as 0 and 1.

    Shapes: rows (n, G + B), scatter (G, G) or (G,) for wide windows, on (B,) the smoothed shares of ones, center and
    scale (G,).
    """

    columns: Columns
    rows: Singles
    scatter: Floats
    on: Floats
    center: Floats
    scale: Floats


class Fit(NamedTuple):
    """A mixture in the coordinates of a sample, with its log-likelihood for a row and its smallest effective rows."""

    weights: Floats
    means: Floats
    chances: Floats
    covariance: Covariance
    log_likelihood: float = -np.inf
    least: float = np.inf

    def parameters(self) -> int:
        """Number of free parameters."""
        k, columns = len(self.weights), len(self.means[0]) + len(self.chances[0])
        return k - 1 + k * columns + self.covariance.parameters

    def mixture(self, sample: Sample) -> Mixture:
        """Return the density of standardised rows, the heaviest component first."""
        order = np.argsort(-self.weights, kind="stable")
        means = sample.center + self.means[order] * sample.scale
        covariance = self.covariance.scaled(sample.scale)
        return Mixture(*sample.columns, self.weights[order], means, self.chances[order], *covariance)


def describe_columns(z: Floats) -> Columns:
    """Say which columns of rows (n, D) vary, which of them have two values, and which exclude each other."""
    low, high = z.min(0), z.max(0)
    inside = np.array([bool(((z[:, j] != low[j]) & (z[:, j] != high[j])).any()) for j in range(z.shape[1])], dtype=bool)
    binary = np.flatnonzero(~inside & (low != high))
    levels = np.stack([low[binary], high[binary]], 1)
    on = (z[:, binary] == levels[:, 1]).astype(np.float32)
    share = on.mean(0)
    # of a rare value there are too few rows in a component to tell its chances: the ratio's own features have it
    common = (share >= _COMMON) & (share <= 1.0 - _COMMON)
    binary, levels, on = binary[common], levels[common], on[:, common]
    return Columns(np.flatnonzero(inside), binary, _groups(on), levels)


def spread_marks(z: Floats, columns: Integers, rng: np.random.Generator) -> Floats:
    """Return rows (n, D) whose columns with few values are spread evenly to half way to the next value, (n, D).

    On the marks of a scale any mixture would take the marks for clusters.
    """
    out = z
    for j in columns:
        if not mark_gap(z[:, j]):
            continue
        marks, at = np.unique(z[:, j], return_inverse=True)
        half = 0.5 * np.diff(marks)
        below, above = np.append(half[:1], half), np.append(half, half[-1:])
        share = rng.uniform(-1.0, 1.0, len(z))
        out = out.copy() if out is z else out
        out[:, j] += np.where(share < 0.0, share * below[at], share * above[at])
    return out


def mark_gap(column: Floats) -> float:
    """Return the least distance of a column's values (n,), if they are so few that they are marks on a scale; or 0.

    >>> mark_gap(np.array([1.0, 2.0, 4.0, 1.0])), mark_gap(np.arange(100.0))
    (1.0, 0.0)
    """
    marks = np.unique(column[: 100 * _VALUES])
    return float(np.diff(marks).min()) if 1 < len(marks) <= _VALUES else 0.0


def _groups(on: Singles) -> Integers:
    """Return group numbers (B,) of two-valued columns that are never on together, although chance would have it so."""
    together = on.T @ on
    counts = np.diag(together)
    expected = counts[:, None] * counts / max(len(on), 1)
    groups: list[list[int]] = []
    out = np.zeros(len(counts), dtype=np.int64)
    for j in np.argsort(-counts, kind="stable"):
        number = len(groups)
        for g, members in enumerate(groups):
            # 12 expected and none seen: by chance once in 160,000
            if not together[j, members].any() and expected[j, members].sum() > 12.0:
                number = g
                break
        if number == len(groups):
            groups.append([])
        groups[number].append(int(j))
        out[j] = number
    return out


def make_sample(z: Floats, columns: Columns) -> Sample:
    """Prepare standardised rows (n, D) for the iterations."""
    if len(z) < MIN_ROWS:
        raise ValueError(f"a summary needs at least {MIN_ROWS} rows, got {len(z)}")
    g, b = len(columns.gaussian), len(columns.binary)
    center, scale = _moments(z, columns.gaussian)
    low, high = columns.levels[:, 0], columns.levels[:, 1]
    rows = np.empty((len(z), g + b), dtype=np.float32)
    scatter = np.zeros((g, g) if 1 < g <= WIDEST else g)
    for at in chunks(len(z), rows_in_cache(z.shape[1])):
        part = _taken(z[at], columns.gaussian) - center
        part /= scale
        rows[at, :g] = part
        scatter += part.T @ part if scatter.ndim == 2 else np.einsum("ij,ij->j", part, part)
        if b:
            rows[at, g:] = np.clip((z[at][:, columns.binary] - low) / (high - low), 0.0, 1.0)
    counts = rows[:, g:].sum(0, dtype=np.float64)
    members = np.bincount(columns.group, minlength=1)[columns.group] if b else np.zeros(0)
    on = (counts + 0.5) / (len(z) + 0.5 * (members + 1.0))  # half a row for each outcome: never 0, never 1
    return Sample(columns, rows, scatter / len(z), on, center, scale)


def _taken(z: Floats, columns: Integers) -> Floats:
    """Return columns of rows (n, D), in order: the rows themselves if that is all of them."""
    return z if len(columns) == z.shape[1] else z.take(columns, 1)


def _moments(z: Floats, gaussian: Integers) -> tuple[Floats, Floats]:
    """Return means and standard deviations of columns, 1 for constant ones."""
    total = np.zeros(len(gaussian))
    for at in chunks(len(z), rows_in_cache(z.shape[1])):
        total += _taken(z[at], gaussian).sum(0)
    center, square = total / len(z), np.zeros(len(gaussian))
    for at in chunks(len(z), rows_in_cache(z.shape[1])):
        part = _taken(z[at], gaussian) - center
        square += np.einsum("ij,ij->j", part, part)
    spread = np.sqrt(square / len(z))
    return center, np.where(spread <= 1e-12 * (1.0 + np.abs(center)), 1.0, spread)


def one(sample: Sample) -> Fit:
    """Return the single component, whose form is chosen by BIC."""
    n, g = len(sample.rows), len(sample.columns.gaussian)
    bare = Fit(np.ones(1), np.zeros((1, g)), sample.on[None], choose_covariance(sample.scatter, n))
    return bare._replace(log_likelihood=_pass(sample, bare)[2])


def iterate(sample: Sample, fit: Fit, *, iterations: int, free: bool, tolerance: float = _TOLERANCE) -> Fit:
    """Improve a fit until its log-likelihood for a row gains less than the tolerance.

    ``free`` chooses the form of the covariance at first and again when the iterations have settled; otherwise it is
    diagonal.
    """
    last = -np.inf
    for count in range(iterations):
        sizes, sums, value = _pass(sample, fit)
        settled = value - last < tolerance and count > 1
        last = value
        choose = free and (settled or count == 0)
        fit = _maximise(sample, fit, sizes, sums, choose=choose, free=free)
        if settled:
            break
    sizes, _, value = _pass(sample, fit)
    return fit._replace(log_likelihood=value, least=float(sizes.min()))


def _pass(sample: Sample, fit: Fit) -> tuple[Floats, Floats, float]:
    """Return effective rows (K,) and sums of rows (K, G + B) of each component, and the log-likelihood for a row."""
    weight, bias = logits_of(fit.weights, fit.means, fit.chances, sample.columns.group, fit.covariance)
    weight32, bias32 = weight.astype(np.float32), bias.astype(np.float32)[:, None]
    n, k = len(sample.rows), len(bias)
    sizes, sums, total = np.zeros(k), np.zeros(weight.shape), 0.0
    for at in chunks(n, rows_in_cache(weight.shape[1])):
        rows = sample.rows[at]
        logits = weight32 @ rows.T
        logits += bias32
        top = logits.max(0)
        logits -= top
        np.exp(logits, out=logits)
        norm = logits.sum(0)
        logits /= norm
        np.log(norm, out=norm)
        total += float(top.sum(dtype=np.float64) + norm.sum(dtype=np.float64))
        sizes += logits.sum(1, dtype=np.float64)
        sums += logits @ rows
    g = len(sample.columns.gaussian)
    constant = 0.5 * g * np.log(2.0 * np.pi) + float(np.log(sample.scale).sum())
    return sizes, sums, total / n + fit.covariance.log_likelihood(sample.scatter) - constant


def _maximise(sample: Sample, fit: Fit, sizes: Floats, sums: Floats, *, choose: bool, free: bool) -> Fit:
    """Return the parameters that fit the components' rows; one with few rows stays near where it was."""
    n, k, g = len(sample.rows), len(sizes), fit.means.shape[1]
    enough = np.maximum(sizes, least_rows(n, k))
    missing = (enough - sizes)[:, None]
    means = (sums[:, :g] + missing * fit.means) / enough[:, None]
    chances = (sums[:, g:] + sample.on + missing * fit.chances) / (enough[:, None] + 1.0)
    scatter = _inside(sample.scatter, sizes, sums[:, :g], means, n)
    if choose:
        covariance = choose_covariance(scatter, n)
    else:
        covariance = update_covariance(fit.covariance, scatter, n) if free else diagonal_covariance(scatter)
    return Fit(enough / enough.sum(), means, chances, covariance)


def least_rows(rows: int, components: int) -> float:
    """Return the effective rows that each component has at least."""
    return min(LEAST, rows / (2.0 * components))


def _inside(scatter: Floats, sizes: Floats, sums: Floats, means: Floats, n: int) -> Floats:
    """Return the scatter inside components: mean squares and products of rows less their component's mean."""
    if scatter.ndim == 1:
        return np.asarray(scatter - (2.0 * sums * means - sizes[:, None] * means * means).sum(0) / n)
    cross = sums.T @ means
    return np.asarray(scatter - (cross + cross.T - (means.T * sizes) @ means) / n)


def refit_mixture(mixture: Mixture, z: Floats) -> Mixture:
    """Return the summary of a later window (n, D): the same columns and number of components, from a warm start.

    >>> from driftline.fitting import fit_mixture
    >>> rng = np.random.default_rng(0)
    >>> later = refit_mixture(fit_mixture(rng.normal(size=(200, 2)), seed=0), rng.normal(1.0, size=(300, 2)))
    >>> later.components
    1
    """
    sample = make_sample(z, Columns(*mixture[:4]))
    if mixture.components == 1:
        return one(sample).mixture(sample)
    start = Fit(
        mixture.weights,
        (mixture.means - sample.center) / sample.scale,
        mixture.chances,
        mixture.covariance.scaled(1.0 / sample.scale),
    )
    return iterate(sample, start, iterations=_ITERATIONS, free=True).mixture(sample)
