"""Directions in which a log-linear fit leaves structure, and random ridge units in the subspace they span.

Two kinds of subspace are tested: the one in which the columns vary together, and the eigenvectors of the score matrix
of all products, whitened, beyond the edge that noise alone would reach.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import torch
from torch import Tensor

from driftline.fitting import Dense, Features
from driftline.recursion._evidence import PAIR_COLUMNS, Evidence, coarse

__all__ = ["UNITS", "ridge_units", "score_directions", "spread_directions", "spread_helps"]

UNITS = 64  # ridge units in a block, at most
_UNITS_PER_DIRECTION = 16
_DIRECTIONS = 8


def ridge_units(directions: Tensor, pool: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    """Draw random ridge units in a subspace, with their kinks where the data are."""
    generator = torch.Generator().manual_seed(seed)
    count = min(UNITS, _UNITS_PER_DIRECTION * directions.shape[1])
    mix = torch.randn(directions.shape[1], count, generator=generator, dtype=directions.dtype)
    weight = directions @ (mix / mix.norm(dim=0)).to(directions.device)
    rows = torch.randint(0, pool.shape[0], (count,), generator=generator)
    return weight, coarse(-(pool[rows] * weight.T).sum(1))


def _whitener(covariance: Tensor) -> tuple[Tensor, Tensor]:
    """Principal directions (D, k) scaled to unit variance, and the variances along them; none for zero variance."""
    values, vectors = torch.linalg.eigh(covariance)
    keep = values > 1e-4 * values.max().clamp_min(1e-300)  # anything smaller is rounding of single-precision sums
    return vectors[:, keep] / values[keep].sqrt(), values[keep]


def spread_directions(z: Tensor) -> Tensor:
    """Directions (D, k) in which the columns vary together, scaled to unit variance: where clusters and factors live.

    All directions for few columns; otherwise the largest principal components that stand out from the bulk.
    """
    whitener, values = _whitener(torch.cov(z.T, correction=0).reshape(z.shape[1], z.shape[1]))
    if z.shape[1] <= _DIRECTIONS:
        return whitener
    order = values.argsort(descending=True)
    return whitener[:, order[values[order] > 1.3 * values.median()][:_DIRECTIONS]]


def score_directions(features: Features, total: Evidence) -> Tensor:
    """Directions (D, k) in which the fit leaves structure, scaled to unit variance; none where it leaves only noise."""
    # in the metric of the scores' own noise, so that noise alone has no preferred direction
    whitener, _ = _whitener(total.row_spread / total.row_variance.clamp_min(1e-300))
    k, none = whitener.shape[1], whitener[:, :0]
    if not _DIRECTIONS < features.columns <= PAIR_COLUMNS or k <= _DIRECTIONS:
        return none
    values, vectors = torch.linalg.eigh(whitener.T @ total.pair_score @ whitener)
    # noise is a symmetric Gaussian matrix: a semicircle of radius 2 sigma sqrt(k) whose edge fluctuates as k^(-1/6);
    # heavy tails widen it, which the median of the eigenvalues shows
    sigma = max(float(total.row_variance.sqrt()), float(values.abs().median()) / (0.404 * 2.0 * math.sqrt(k)))
    edge = sigma * (2.0 * math.sqrt(k) + 5.0 * k ** (-1.0 / 6.0))
    if float(values.abs().max()) <= edge:
        return none
    # the strongest direction is certain; those at the bulk's edge come along, since a needless one costs little
    strong = torch.nonzero(values.abs() > 2.0 * sigma * math.sqrt(k)).flatten()
    strong = strong[values[strong].abs().argsort(descending=True)][:_DIRECTIONS]
    basis = vectors[:, strong]
    # earlier directions stay in view: structure often involves old and new ones together
    dense = features.weight[:, (features.weight != 0).sum(0) > 1]
    if dense.shape[1] and len(strong) < _DIRECTIONS:
        inside = torch.linalg.pinv(whitener) @ dense
        inside = inside - basis @ (basis.T @ inside)
        left, size, _ = torch.linalg.svd(inside, full_matrices=False)
        old = left[:, size > 0.3 * size.max().clamp_min(1e-300)]
        basis = torch.cat([basis, old], 1)[:, :_DIRECTIONS]
    return torch.matmul(whitener, basis)


def spread_helps(
    features: Features, z_num: Tensor, z_den: Tensor, s_num: Tensor, s_den: Tensor, *, level: float, seed: int
) -> bool:
    """Test units in the spread's directions jointly, by their scores, against the chi-square law.

    Directions come from one half of the rows and are tested on the other, then the halves change places: chosen and
    tested on the same rows, they would look like drift by themselves.
    """
    statistic, freedom = 0.0, 0
    for half in (0, 1):
        pool = torch.cat([z_num[half::2], z_den[half::2]])
        directions = spread_directions(pool)
        if directions.shape[1] == 0:
            continue
        weight, bias = ridge_units(directions, pool, seed)
        other = slice(1 - half, None, 2)
        value, count = _score_test(features, weight, bias, ((z_num[other], s_num[other]), (z_den[other], s_den[other])))
        statistic, freedom = statistic + value, freedom + count
    if freedom == 0:
        return False
    # Wilson-Hilferty: the cube root of a chi-square is nearly normal
    z = ((statistic / freedom) ** (1 / 3) - (1 - 2 / (9 * freedom))) / math.sqrt(2 / (9 * freedom))
    return bool(z > NormalDist().inv_cdf(1.0 - level))


def _score_test(
    features: Features, weight: Tensor, bias: Tensor, sides: tuple[tuple[Tensor, Tensor], ...]
) -> tuple[float, int]:
    """Statistic and degrees of freedom of units given the features already there, on (rows, scores) of both windows."""
    moments, score = weight.new_zeros(()), weight.new_zeros(())
    for rows, s in sides:
        stacked = torch.cat([features.design(rows), torch.relu(rows @ weight + bias)], 1)
        moments = moments + Dense(stacked).gram(s * s)
        score = score + s @ stacked
    p = features.size + 1
    slope = moments[p:, :p] @ torch.linalg.pinv(moments[:p, :p], hermitian=True)
    outside, score = moments[p:, p:] - slope @ moments[:p, p:], score[p:] - slope @ score[:p]
    values, vectors = torch.linalg.eigh(outside)
    keep = values > 1e-3 * moments[p:, p:].diagonal().max()  # the resolution of single-precision products
    return float(((vectors[:, keep].T @ score) ** 2 / values[keep]).sum()), int(keep.sum())
