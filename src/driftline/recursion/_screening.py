r"""Which further features does the drift need? Score tests on what a log-linear fit leaves over.

A feature outside the model has score :math:`s = \sum_i g_i f(x_i)`, zero on average where the model is right. Scores
and their variances are added up over the steps, so that a slow drift is found as surely as a fast one, and a feature
joins when its sum leaves the noise by more than repeated looks at all candidates explain. Candidates are:

* products of two columns (drift of a correlation),
* hinges on one column (drift in the shape of a marginal),
* a subspace: eigenvectors of the score matrix of all products, whitened, beyond the edge that noise alone would reach;
  in it, random ridge units (drift of mixtures, of clusters, of anything that lives in few directions).

Once joined, features are frozen: the fit stays convex, and sampling errors keep cancelling from step to step.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple

import torch
from torch import Tensor

from driftline.fitting import Dense, Features

__all__ = ["PAIR_COLUMNS", "Evidence", "Proposal", "capacity", "propose", "start"]

PAIR_COLUMNS = 512  # with more columns than this the products alone would cost more than the fit
_LEVEL = 1e-4  # chance of a false feature per window, over all candidates
_QUANTILES = (0.1, 0.3, 0.5, 0.7, 0.9)
_UNITS_PER_DIRECTION = 16
_UNITS = 64  # ridge units a block, at most
_BLOCKS = 3
_DIRECTIONS = 8
_ROWS_PER_FEATURE = 20


class Evidence(NamedTuple):
    """Sums of scores over the steps so far, and of their variances over the windows that are done with.

    Shapes: knots (D, 5), trend (D, 5, 3), pair_score and pair_variance (D, D), hinge_score and hinge_variance (D, 5),
    row_variance () and row_spread (D, D), the sum of squared scores and their second moments of the rows, shared ():
    whether the last window's scores as denominator are among the sums.
    """

    knots: Tensor
    trend: Tensor
    pair_score: Tensor
    pair_variance: Tensor
    hinge_score: Tensor
    hinge_variance: Tensor
    row_variance: Tensor
    row_spread: Tensor
    shared: Tensor


class Proposal(NamedTuple):
    """Features to add (possibly none) and the evidence with this step's scores in it.

    ``forget`` says that what was summed up before is void, since the features explain it differently.
    """

    pairs: Tensor
    weight: Tensor
    bias: Tensor
    evidence: Evidence
    reason: str
    forget: bool = False


def capacity(columns: int) -> tuple[int, int]:
    """How many pairs and units may ever join a model of that many columns."""
    return max(32, 2 * columns), _UNITS * (_BLOCKS + 1)


def start(z: Tensor) -> Evidence:
    """No evidence yet; knots of the hinges at quantiles of the standardised original (n, D)."""
    d = z.shape[1]
    rows = z[torch.linspace(0, z.shape[0] - 1, min(z.shape[0], 20_000)).long()]
    knots = _coarse(torch.quantile(rows, z.new_tensor(_QUANTILES), dim=0).T.contiguous())
    square, hinge = z.new_zeros(d, d), z.new_zeros(d, len(_QUANTILES))
    return Evidence(
        knots, _trend(rows, knots), square, square.clone(), hinge, hinge.clone(), z.new_zeros(()), square.clone(),
        z.new_zeros(()),
    )  # fmt: skip


def _coarse(values: Tensor) -> Tensor:
    """Rounded to 1/64 of a standard deviation: a knot must not be the value of a row, which would then be kept."""
    return torch.round(64.0 * values) / 64.0


def _trend(z: Tensor, knots: Tensor) -> Tensor:
    """Coefficients (D, 5, 3) of each hinge on 1, z, z^2, which the model has: a hinge's score is that of the rest."""
    out = z.new_empty(*knots.shape, 3)
    for j, column in enumerate(z.T):
        basis = torch.stack([torch.ones_like(column), column, column * column], 1)
        hinges = torch.relu(column[:, None] - knots[j])
        out[j] = (torch.linalg.pinv(basis.T @ basis, hermitian=True) @ (basis.T @ hinges)).T
    return out


class _Sums(NamedTuple):
    """Scores of the candidates on one window and the variances of those scores."""

    pair_score: Tensor
    pair_variance: Tensor
    hinge_score: Tensor
    hinge_variance: Tensor
    row_variance: Tensor
    row_spread: Tensor


_VARIANCES = ("pair_variance", "hinge_variance", "row_variance", "row_spread")


def _sums(evidence: Evidence, z: Tensor, center: Tensor, score: Tensor, total: Tensor) -> _Sums:
    """Sums over a window: of this step's scores, and of the variances of its rows' scores in both roles together."""
    d = z.shape[1]
    out = _Sums(*(torch.zeros_like(t) for t in evidence[2:8]))
    for rows, g, h in zip(z.split(16384), score.split(16384), total.split(16384), strict=True):
        if d <= PAIR_COLUMNS:
            # centring changes a product by terms the model has, whose score is zero: only the variance gets smaller
            c = (rows - center).float()
            size, spread = g.abs().max().clamp_min(1e-300), h.abs().max().clamp_min(1e-300)
            out.pair_score.add_((c.T @ (c * (g / size).float()[:, None])).double() * size)
            weight = (h / spread).float().square()[:, None]
            out.row_spread.add_((c.T @ (c * weight)).double() * spread**2)
            c *= c
            out.pair_variance.add_((c.T @ (c * weight)).double() * spread**2)
        squares = rows * rows
        for k in range(evidence.knots.shape[1]):
            a, b, c2 = evidence.trend[:, k].T
            rest = torch.relu(rows - evidence.knots[:, k]) - a - b * rows - c2 * squares
            out.hinge_score[:, k].add_(g @ rest)
            out.hinge_variance[:, k].add_((h * h) @ (rest * rest))
        out.row_variance.add_(h @ h)
    return out


def _collect(
    evidence: Evidence, z_num: Tensor, z_den: Tensor, s_num: Tensor, s_den: Tensor, past: Tensor | None
) -> tuple[Evidence, Evidence]:
    """The evidence to keep, with the numerator window closed, and the evidence to test, with the open one's variance.

    A window's rows count once as denominator (``past``) and once as numerator: the two scores nearly cancel.
    """
    center = z_num.mean(0)
    both = s_num if past is None or not bool(evidence.shared) else s_num + past
    num, den = _sums(evidence, z_num, center, s_num, both), _sums(evidence, z_den, center, s_den, s_den)
    kept = evidence._replace(
        pair_score=evidence.pair_score + num.pair_score + den.pair_score,
        hinge_score=evidence.hinge_score + num.hinge_score + den.hinge_score,
        shared=torch.ones_like(evidence.shared),
        **{name: getattr(evidence, name) + getattr(num, name) for name in _VARIANCES},
    )
    return kept, kept._replace(**{name: getattr(kept, name) + getattr(den, name) for name in _VARIANCES})


def propose(
    features: Features,
    evidence: Evidence,
    z_num: Tensor,
    z_den: Tensor,
    s_num: Tensor,
    s_den: Tensor,
    past: Tensor | None,
    *,
    seed: int,
) -> Proposal:
    """Test all candidates against the scores a fit with ``features`` leaves on both windows.

    Arguments:
        past: scores of the numerator's rows when they were the denominator of the last step, (n,), if known.
    """
    kept, total = _collect(evidence, z_num, z_den, s_num, s_den, past)
    d, room = z_num.shape[1], _room(features, z_num, z_den)
    none = Proposal(features.pairs[:0], features.weight[:, :0], features.bias[:0], kept, "")
    candidates = d * (d - 1) // 2 * (d <= PAIR_COLUMNS) + total.knots.numel()
    threshold = NormalDist().inv_cdf(1.0 - 0.5 * _LEVEL / candidates)

    pairs = _top_pairs(features, total, threshold, min(room[0], room[2]))
    weight, bias = _top_hinges(features, total, threshold, min(room[1] - _UNITS * _BLOCKS, room[2] - len(pairs)))
    if len(pairs) or len(bias):
        return none._replace(pairs=pairs, weight=weight, bias=bias, reason=f"{len(pairs)} products, {len(bias)} hinges")

    if min(room[1], room[2]) < _UNITS:
        return none
    pool = torch.cat([z_num, z_den])
    directions = _spread_directions(pool)
    if directions.shape[1] and not _spread_helps(features, z_num, z_den, s_num, s_den, seed):
        directions = directions[:, :0]
    if directions.shape[1] == 0:
        directions = _score_directions(features, total)
        if directions.shape[1] == 0:
            return none
    weight, bias = _ridge_units(directions, pool, seed)
    return none._replace(
        weight=weight,
        bias=bias,
        evidence=_forget(kept),
        reason=f"{len(bias)} units in {directions.shape[1]} directions",
        forget=True,
    )


def _room(features: Features, z_num: Tensor, z_den: Tensor) -> tuple[int, int, int]:
    """Pairs, units and features of any kind that may still join."""
    most_pairs, most_units = capacity(features.columns)
    rows = min(z_num.shape[0], z_den.shape[0])
    return (
        most_pairs - features.pairs.shape[0],
        most_units - features.bias.shape[0],
        max(0, rows // _ROWS_PER_FEATURE - features.size),
    )


def _forget(evidence: Evidence) -> Evidence:
    """The scores of a model that was too small say nothing about the larger one."""
    return Evidence(*evidence[:2], *(torch.zeros_like(t) for t in evidence[2:]))


def _z(score: Tensor, variance: Tensor, rows: Tensor) -> Tensor:
    """Absolute scores in units of their noise; larger units where the bulk of them is larger than noise would be."""
    real = variance > 1e-10 * rows
    z = torch.where(real, score / variance.clamp_min(1e-300).sqrt(), torch.zeros_like(score)).abs()
    bulk = z[real]
    return z if bulk.numel() < 100 else z / (bulk.median() / 0.6745).clamp_min(1.0)


def _top_pairs(features: Features, total: Evidence, threshold: float, most: int) -> Tensor:
    d = total.pair_score.shape[0]
    if d > PAIR_COLUMNS or most <= 0:
        return features.pairs[:0]
    z = _z(total.pair_score, total.pair_variance, total.row_variance).triu(1)
    z[features.pairs[:, 0], features.pairs[:, 1]] = 0.0
    values, order = z.flatten().topk(min(most, z.numel()))
    chosen = order[values > threshold]
    return torch.stack([chosen // d, chosen % d], 1)


def _top_hinges(features: Features, total: Evidence, threshold: float, most: int) -> tuple[Tensor, Tensor]:
    """The best knot of each column that needs one; knots of a column are too alike to take two at once."""
    z = _z(total.hinge_score, total.hinge_variance, total.row_variance)
    for column, bias in zip(features.weight.T, features.bias, strict=True):
        j = int(column.abs().argmax())
        if column[j] == 1.0 and column.abs().sum() == 1.0:
            z[j, torch.isclose(total.knots[j], -bias)] = 0.0
    best, knot = z.max(1)
    columns = torch.nonzero(best > threshold).flatten()
    columns = columns[best[columns].argsort(descending=True)][: max(0, most)]
    weight = features.weight.new_zeros(features.columns, len(columns))
    weight[columns, torch.arange(len(columns), device=columns.device)] = 1.0
    return weight, -total.knots[columns, knot[columns]]


def _whitener(covariance: Tensor) -> tuple[Tensor, Tensor]:
    """Principal directions (D, k) scaled to unit variance, and the variances along them, leaving out those without."""
    values, vectors = torch.linalg.eigh(covariance)
    keep = values > 1e-4 * values.max().clamp_min(1e-300)  # single-precision sums make up what is smaller
    return vectors[:, keep] / values[keep].sqrt(), values[keep]


def _spread_directions(z: Tensor) -> Tensor:
    """Directions (D, k) in which the columns vary together, scaled to unit variance: where clusters and factors live.

    All directions for few columns; otherwise the largest principal components that stand out of the bulk.
    """
    whitener, values = _whitener(torch.cov(z.T, correction=0).reshape(z.shape[1], z.shape[1]))
    if z.shape[1] <= _DIRECTIONS:
        return whitener
    order = values.argsort(descending=True)
    return whitener[:, order[values[order] > 1.3 * values.median()][:_DIRECTIONS]]


def _score_directions(features: Features, total: Evidence) -> Tensor:
    """Directions (D, k) in which the fit leaves structure, scaled to unit variance; none where it leaves noise."""
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
    # earlier directions stay in view: structure often involves old and new ones together
    dense = features.weight[:, (features.weight != 0).sum(0) > 1]
    basis = vectors[:, strong]
    if dense.shape[1] and len(strong) < _DIRECTIONS:
        inside = torch.linalg.pinv(whitener) @ dense
        inside = inside - basis @ (basis.T @ inside)
        left, size, _ = torch.linalg.svd(inside, full_matrices=False)
        old = left[:, size > 0.3 * size.max().clamp_min(1e-300)]
        basis = torch.cat([basis, old], 1)[:, :_DIRECTIONS]
    return torch.matmul(whitener, basis)


def _ridge_units(directions: Tensor, pool: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    """Random ridge units in a subspace, their kinks where the data are."""
    generator = torch.Generator().manual_seed(seed)
    count = min(_UNITS, _UNITS_PER_DIRECTION * directions.shape[1])
    mix = torch.randn(directions.shape[1], count, generator=generator, dtype=directions.dtype)
    weight = directions @ (mix / mix.norm(dim=0)).to(directions.device)
    rows = torch.randint(0, pool.shape[0], (count,), generator=generator)
    return weight, _coarse(-(pool[rows] * weight.T).sum(1))


def _spread_helps(features: Features, z_num: Tensor, z_den: Tensor, s_num: Tensor, s_den: Tensor, seed: int) -> bool:
    """A joint score test of units in the spread's directions, against its chi-square law.

    Directions come from one half of the rows and are tested on the other, then the halves change places: picked and
    tested on the same rows they would look like drift by themselves.
    """
    statistic, freedom = 0.0, 0
    for half in (0, 1):
        directions = _spread_directions(torch.cat([z_num[half::2], z_den[half::2]]))
        if directions.shape[1] == 0:
            continue
        weight, bias = _ridge_units(directions, torch.cat([z_num[half::2], z_den[half::2]]), seed)
        other = slice(1 - half, None, 2)
        value, count = _score_test(features, weight, bias, ((z_num[other], s_num[other]), (z_den[other], s_den[other])))
        statistic, freedom = statistic + value, freedom + count
    if freedom == 0:
        return False
    # Wilson-Hilferty: the cube root of a chi-square is nearly normal
    z = ((statistic / freedom) ** (1 / 3) - (1 - 2 / (9 * freedom))) / math.sqrt(2 / (9 * freedom))
    return bool(z > NormalDist().inv_cdf(1.0 - _LEVEL))


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
    keep = values > 1e-3 * moments[p:, p:].diagonal().max()  # what single-precision products resolve
    return float(((vectors[:, keep].T @ score) ** 2 / values[keep]).sum()), int(keep.sum())
