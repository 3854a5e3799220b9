"""Starts for the iterations: partitions of a sample whose averages, never rows, become components."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from driftline._inputs import Floats
from driftline.fitting._covariances import WIDEST, diagonal_covariance
from driftline.fitting._expectation import LEAST, Fit, Sample
from driftline.fitting._mixtures import logits_of

__all__ = ["divided", "nearest", "scaled", "seeded", "split"]

Labels = npt.NDArray[np.intp]


def divided(sample: Sample, fit: Fit) -> Fit:
    """Return a start with one component more: the heaviest in two, across the direction that looks most like two.

    Directions are columns and principal axes; that with the largest (skewness² + 1) / kurtosis (Sarle's coefficient of
    bimodality) is cut where the two parts are most alike inside.
    """
    weight, bias = logits_of(fit.weights, fit.means, fit.chances, sample.columns.group, fit.covariance)
    labels = np.argmax(sample.rows @ weight.T.astype(np.float32) + bias.astype(np.float32), 1)
    labels = split(scaled(sample), labels, int(np.argmax(fit.weights)), len(fit.weights))
    return _start(sample, labels, len(fit.weights) + 1)


def split(rows: Floats, labels: Labels, which: int, new: int) -> Labels:
    """Return labels (n,) in which a part of the rows (n, p) with label ``which`` has a new one."""
    inside = labels == which
    rows = rows[inside] - rows[inside].mean(0)
    if 1 < rows.shape[1] <= WIDEST:
        rows = np.concatenate([rows, rows @ np.linalg.eigh(rows.T @ rows)[1]], 1)
    square = rows * rows
    spread = square.mean(0)
    spread[spread < 1e-9] = np.inf
    skewness, kurtosis = (square * rows).mean(0) / spread**1.5, (square * square).mean(0) / spread**2
    two = (skewness * skewness + 1.0) / np.where(kurtosis > 0.0, kurtosis, np.inf)
    along = rows[:, int(np.argmax(two))]
    out = labels.copy()
    out[np.flatnonzero(inside)[along > _cut(along)]] = new
    return out


def seeded(sample: Sample, k: int, previous: Fit, *, free: bool, rng: np.random.Generator) -> Fit:
    """Return a start from k rows far from each other, after three rounds of averages of the rows nearest to each.

    ``free`` measures distances in the covariance of a previous fit.
    """
    g, covariance = len(sample.columns.gaussian), previous.covariance
    rows = scaled(sample)
    if free and len(covariance.stretch):
        rows[:, :g] /= np.sqrt(covariance.variance)
        rows[:, :g] += rows[:, :g] @ covariance.axes.T * (covariance.stretch**-0.5 - 1.0) @ covariance.axes
    return _start(sample, nearest(rows, k, rng), k)


def nearest(rows: Floats, k: int, rng: np.random.Generator) -> Labels:
    """Return the nearest of k places far from each other for each row (n, p), after three rounds of averages, (n,)."""
    seeds = rows[rng.integers(len(rows))][None]
    distance = np.full(len(rows), np.inf)
    while len(seeds) < k:
        distance = np.minimum(distance, ((rows - seeds[-1]) ** 2).sum(1))
        total = float(distance.sum())
        seed = rng.choice(len(rows), p=distance / total if total > 0.0 else None)  # all rows may be seeds already
        seeds = np.concatenate([seeds, rows[seed][None]])
    for _ in range(3):
        labels = np.argmax(rows @ seeds.T - 0.5 * (seeds * seeds).sum(1), 1)
        member = _member(labels, k)
        seeds = (member.T @ rows) / np.maximum(member.sum(0), 1.0)[:, None]
    return np.asarray(labels)


def scaled(sample: Sample) -> Floats:
    """Return all columns of a sample centred and scaled, (n, G + B)."""
    g = len(sample.columns.gaussian)
    rows = sample.rows.astype(np.float64)
    rows[:, g:] -= sample.on
    rows[:, g:] /= np.sqrt(sample.on * (1.0 - sample.on))
    return rows


def _cut(values: Floats) -> float:
    """Return where to cut a line so that squares inside the two parts are least."""
    ordered = np.sort(values)
    left = np.cumsum(ordered)[:-1]
    count = np.arange(1.0, len(ordered))
    right, others = left[-1] + ordered[-1] - left, len(ordered) - count
    between = np.where(ordered[1:] > ordered[:-1], left * left / count + right * right / others, -np.inf)
    return float(ordered[int(np.argmax(between))])


def _member(labels: Labels, k: int) -> Floats:
    """Return whether each row has each label, as 0 and 1, (n, k)."""
    return np.asarray(labels[:, None] == np.arange(k), dtype=np.float64)


def _start(sample: Sample, labels: Labels, k: int) -> Fit:
    """Return components for labelled rows; one with few rows starts near the middle of all."""
    g, member = len(sample.columns.gaussian), _member(labels, k)
    sizes = np.maximum(member.sum(0), LEAST)
    share = (member / sizes).astype(np.float32)
    sums = np.asarray(share.T @ sample.rows, dtype=np.float64)
    # shares are drawn towards all rows', since a partition by a flag would make it certain and never let it go
    chances = 0.9 * sums[:, g:] + (1.0 - 0.9 * member.sum(0) / sizes)[:, None] * sample.on
    weights, means = sizes / sizes.sum(), sums[:, :g]
    scatter = np.diag(sample.scatter) if sample.scatter.ndim == 2 else sample.scatter
    inside = np.maximum(scatter - weights @ (means * means), 0.1)
    return Fit(weights, means, chances, diagonal_covariance(inside))
