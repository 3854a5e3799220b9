"""Screening: score tests that find the further features a drift needs, on what a log-linear fit leaves over.

A feature joins when its sum of scores (:class:`Evidence`) leaves the noise by more than repeated looks at all
candidates explain. Candidates are:

* products of two columns (drift of a correlation), each by itself or, where many move a little, all of them,
* hinges on one column (drift in the shape of a marginal),
* curved products of two or three columns (drift of a dependence that no correlation shows),
* the lesser and the greater of two columns, four functions at once (drift of a dependence that is stronger at one end),
* random ridge units in a subspace (drift of mixtures, of clusters, of anything that lives in few directions).

Once joined, features are frozen: the fit stays convex, and sampling errors keep cancelling from step to step.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from driftline._inputs import Floats
from driftline.fitting import (
    LESSER,
    Features,
    Integers,
    Lessers,
    LogLinearDesign,
    Monomials,
    companions,
    lesser_of,
    lessers,
    monomials,
    place_of,
)
from driftline.recursion._evidence import PAIR_COLUMNS, Evidence, collect, forget
from driftline.recursion._settings import NEWTON_FEATURES
from driftline.recursion._subspace import (
    UNITS,
    halves_agree,
    is_round,
    ridge_units,
    score_directions,
    spread_directions,
    spread_helps,
    spread_of,
    whitened,
)

__all__ = ["Proposal", "capacity", "propose"]

_LEVEL = 1e-4  # chance of a false feature per window, over all candidates
_BLOCKS = 3
_ROWS_PER_FEATURE = 20
_ROWS_PER_PRODUCT = 5  # fewer will do for all products at once, which are there or not by one test
_FEW = 4  # columns; with fewer, products are tested one by one
_CURVES = 16  # curved products, or as many as there are columns
_LESSERS = 8  # pairs by their lesser, or as many as there are columns
_RIDGE = 1e-4  # added to correlations of a pair's functions, of which one may all but follow from the others
_SUSPECT = 13.3  # square of a pair's scores that chance exceeds once in a hundred
_MEDIAN = 3.357  # of a square with four degrees of freedom
_CONSTANT = 1e-9  # variance of a column that does not vary, in units of its scale
_DENSE = 4.5  # standard deviations; the F distribution is only near, so the level is stricter than for one feature


class Proposal(NamedTuple):
    """Features to add (possibly none) and the evidence including this step's scores.

    ``forget`` says that the sums from before are void, since the new features explain the drift differently.
    """

    pairs: Integers
    weight: Floats
    bias: Floats
    curves: Integers
    lessers: Integers
    evidence: Evidence
    reason: str
    forget: bool = False


def capacity(columns: int) -> tuple[int, tuple[int, ...]]:
    """Return the most pairs that may ever join a model with this many columns, and numbers of units, ever larger.

    The first number leaves room for hinges on a few columns, the others for blocks of ridge units beside them.
    """
    return max(32, 2 * columns), (16, *(UNITS * block for block in range(1, _BLOCKS + 2)))


def propose(
    evidence: Evidence,
    num: LogLinearDesign,
    den: LogLinearDesign,
    s_num: Floats,
    s_den: Floats,
    past: Floats | None,
    *,
    rows: float,
    times: tuple[float, float] = (1.0, 1.0),
    seed: int,
) -> Proposal:
    """Test all candidates against the scores that a fit leaves on both windows.

    Arguments:
        num, den: designs of both windows, with the features of the fit.
        s_num, s_den: scores of their rows, (n,) and (m,).
        past: scores of the numerator's rows when they were the denominator of the last step, (n,), if known.
        rows: number of effective rows of the window that has fewer.
        times: number of neighbouring rows that are worth one, in each window.
        seed: seed of random units.
    """
    features, z_num, z_den = num.features, num.z, den.z
    kept, total, step = collect(evidence, num, den, s_num, s_den, past, times)
    kept = kept._replace(hidden=_hidden(features, total, rows), step_hidden=_hidden(features, step, rows)[:2])
    d, room = z_num.shape[1], _room(features, rows)
    none = Proposal(
        features.pairs[:0], features.weight[:, :0], features.bias[:0], monomials(d)[:0], lessers(d)[:0], kept, ""
    )
    candidates = d * (d - 1) // 2 * (d <= PAIR_COLUMNS) + total.knots.size + total.curve_score.size
    candidates += len(total.lesser_score)
    threshold = NormalDist().inv_cdf(1.0 - 0.5 * _LEVEL / candidates)

    strong = _strong_pairs(features, total, threshold)
    if _is_dense(features, total, strong) and _all_fit(features, rows):
        pairs = _other_pairs(features)
        return none._replace(pairs=pairs, evidence=kept, reason=f"all {len(pairs)} other products")
    pairs = strong[: max(0, min(room.pairs, room.features))]
    # the last blocks are reserved for ridge units
    hinges = min(room.units - UNITS * _BLOCKS, room.features - len(pairs))
    weight, bias, far = _top_hinges(features, total, threshold, hinges)
    if not len(pairs):
        joint = _top_lessers(features, total, _LEVEL / candidates, min(room.lessers, room.features // (LESSER + 1)))
        curves, strong_curve = _top_curves(features, total, threshold, min(room.curves, room.features))
        if len(joint.of) and joint.far >= max(far, strong_curve):
            return none._replace(pairs=joint.pairs, lessers=joint.of, reason=f"{len(joint.of)} pairs' lessers")
    if len(pairs) or len(bias):
        return none._replace(pairs=pairs, weight=weight, bias=bias, reason=f"{len(pairs)} products, {len(bias)} hinges")

    if len(curves):
        return none._replace(curves=curves, reason=f"{len(curves)} curved products")

    if min(room.units, room.features) < UNITS:
        return none
    directions = features.weight[:, :0]
    if not is_round(num, den):
        spread = spread_of(z_num, z_den)
        directions = spread_directions(spread.covariance())
        if directions.shape[1] and not spread_helps(
            spread, num, den, s_num, s_den, time=max(times), level=_LEVEL, seed=seed
        ):
            directions = directions[:, :0]
    if directions.shape[1] == 0:
        directions = score_directions(features, total)
        if directions.shape[1] == 0 or not halves_agree(total, (num, s_num), (den, s_den)):
            return none
    weight, bias = ridge_units(directions, z_num, z_den, seed)
    reason = f"{len(bias)} units in {directions.shape[1]} directions"
    return none._replace(weight=weight, bias=bias, evidence=forget(kept), reason=reason, forget=True)


class _Room(NamedTuple):
    """Numbers of pairs, units, curved products, pairs' lessers, and of features of any kind, that may still join."""

    pairs: int
    units: int
    curves: int
    lessers: int
    features: int


def _room(features: Features, rows: float) -> _Room:
    most_pairs, (*_, most_units) = capacity(features.columns)
    return _Room(
        pairs=most_pairs - features.pairs.shape[0],
        units=most_units - features.bias.shape[0],
        curves=max(_CURVES, features.columns) - len(joined_curves(features)),
        lessers=max(_LESSERS, features.columns) - len(joined_lessers(features)),
        features=max(0, int(rows) // _ROWS_PER_FEATURE - features.size),
    )


def _z(score: Floats, variance: Floats, rows: float) -> Floats:
    """Absolute scores in units of their noise, and in larger units where the bulk exceeds what noise would give."""
    real = variance > 1e-10 * rows
    z = np.abs(np.where(real, score / np.sqrt(np.maximum(variance, 1e-300)), 0.0))
    bulk = z[real]
    return z if bulk.size < 100 else z / max(float(np.median(bulk)) / 0.6745, 1.0)


def _strong_pairs(features: Features, total: Evidence, threshold: float) -> Integers:
    """Return the products that stand out each by itself, strongest first, (k, 2)."""
    d = len(total.pair_variance)
    if d > PAIR_COLUMNS:
        return features.pairs[:0]
    z = _z(total.pair_score, total.pair_variance, total.row_variance)
    z = np.triu(z, 1)
    z[features.pairs[:, 0], features.pairs[:, 1]] = 0.0
    flat = z.ravel()
    order = np.argsort(-flat, kind="stable")[: np.count_nonzero(flat > threshold)]
    return np.stack([order // d, order % d], 1)


def _is_dense(features: Features, total: Evidence, strong: Integers) -> bool:
    """Say whether products move that do not stand out each by itself, such as correlations in no column's direction.

    The scores of both halves of the rows agree then: the sum of the two matrices is larger than their difference, which
    is noise alone and has the same size whatever the law of the columns. In coordinates in which that noise has no
    preferred direction, the ratio of squared norms has an F distribution.
    """
    live = features.squares
    if not _FEW <= len(live) <= PAIR_COLUMNS:
        return False
    halves = total.pair_scores.copy()
    for pairs in (features.pairs, strong):
        halves[:, pairs[:, 0], pairs[:, 1]] = halves[:, pairs[:, 1], pairs[:, 0]] = 0.0
    halves[:, np.arange(len(halves[0])), np.arange(len(halves[0]))] = 0.0
    at = np.ix_(live, live)
    whitener, _ = whitened(total.row_spread[at] / max(total.row_variance, 1e-300))
    one, other = (whitener.T @ half[at] @ whitener for half in halves)
    freedom = len(live) * (len(live) - 1) // 2 - len(strong)
    above, below = float(np.square(one + other).sum()), float(np.square(one - other).sum())
    if freedom < 1 or below <= 0.0:
        return False
    return math.log(max(above, 1e-300) / below) * math.sqrt(freedom) / 2.0 > _DENSE


def _all_fit(features: Features, rows: float) -> bool:
    """Say whether the windows have rows enough for all products of columns, and a factorisation time."""
    d = len(features.squares)
    size = features.size + d * (d - 1) // 2
    return size <= int(rows) // _ROWS_PER_PRODUCT and size < NEWTON_FEATURES


def _other_pairs(features: Features) -> Integers:
    """Return all products of columns with more than two values that are not features yet, (k, 2)."""
    live = np.sort(features.squares)
    i, j = np.triu_indices(len(live), 1)
    pairs = np.stack([live[i], live[j]], 1)
    here = {tuple(pair) for pair in features.pairs.tolist()}
    return pairs[[tuple(pair) not in here for pair in pairs.tolist()]]


def _top_hinges(features: Features, total: Evidence, threshold: float, most: int) -> tuple[Floats, Floats, float]:
    """Pick the best knot of each column that needs one, and say how far the best stands out.

    Knots of a column are too alike to take two at once.
    """
    z = _z(total.hinge_score, total.hinge_variance, total.row_variance)
    for column, bias in zip(features.weight.T, features.bias, strict=True):
        j = int(np.abs(column).argmax())
        if column[j] == 1.0 and np.abs(column).sum() == 1.0:
            z[j, np.isclose(total.knots[j], -bias)] = 0.0
    best, knot = z.max(1), z.argmax(1)
    columns = np.flatnonzero(best > threshold)
    columns = columns[np.argsort(-best[columns], kind="stable")][: max(0, most)]
    weight = np.zeros((features.columns, len(columns)))
    weight[columns, np.arange(len(columns))] = 1.0
    return weight, -total.knots[columns, knot[columns]], float(best.max(initial=0.0))


def joined_curves(features: Features) -> Integers:
    """Return the factors of curved products among the features, (k, 3)."""
    found = [other.map.factors for other in features.others if isinstance(other.map, Monomials)]
    return np.concatenate([monomials(features.columns)[:0], *found])


def _top_curves(features: Features, total: Evidence, threshold: float, most: int) -> tuple[Integers, float]:
    """Return the curved products that stand out, strongest first, then what comes with them, (k, 3), and how far."""
    z, d = _z(total.curve_score, total.curve_variance, total.row_variance), features.columns
    here = place_of(joined_curves(features), d)
    z[here] = 0.0
    # what a column that was constant in the original has in common with others, it has by its own drift
    constant = total.pair_mean.diagonal() - np.square(total.mean) < _CONSTANT
    if constant.any():
        z[np.append(np.tile(constant, 3), False)[monomials(d)].any(1)] = 0.0
    strong = int(np.count_nonzero(z > threshold))
    if not strong:
        return monomials(d)[:0], float(z.max(initial=0.0))
    found = np.argsort(-z, kind="stable")[: min(strong, max(0, most // 2))]
    also = np.setdiff1d(place_of(companions(monomials(d)[found], d), d), here)
    return np.asarray(monomials(d)[np.concatenate([found, also])]), float(z.max(initial=0.0))


def _hidden(features: Features, total: Evidence, rows: float) -> Floats:
    """Return what candidates of two columns may have moved by without standing out, see :class:`Evidence`.

    Squared scores of all products outside the model exceed their number by the drift that these hold, in units of the
    windows' noise. Of lessers only those count that are not a matter of chance, as all of them are many.
    """
    rows, of = min(rows, float(total.hidden[2])), lessers(features.columns)
    if not len(of):
        return np.array([0.0, 0.0, rows])
    z = _z(total.pair_score, total.pair_variance, total.row_variance)
    here = np.zeros_like(z, dtype=bool)
    here[features.pairs[:, 0], features.pairs[:, 1]] = here[features.pairs[:, 1], features.pairs[:, 0]] = True
    products = np.square(z[of[::2, 0], of[::2, 1]])[~here[of[::2, 0], of[::2, 1]]]
    products = products[products > 0.0]
    squares = _squares(total)
    squares[lesser_of(joined_lessers(features), features.columns)] = 0.0
    squares = squares.reshape(-1, 2).max(1)
    squares = squares[squares > _SUSPECT] - LESSER
    excess = max(float(products.sum()) - len(products), 0.0) + float(squares.sum())
    freedom = len(products) + LESSER * len(squares)
    return np.array([excess / rows, math.sqrt(2.0 * freedom + 4.0 * excess) / rows, rows])


class _Joint(NamedTuple):
    """Pairs whose lesser joins (k, 3), products that come with them (l, 2), and how far the first stands out."""

    of: Integers
    pairs: Integers
    far: float


def joined_lessers(features: Features) -> Integers:
    """Return the pairs whose lesser is among the features, (k, 3)."""
    found = [other.map.of for other in features.others if isinstance(other.map, Lessers)]
    return np.concatenate([lessers(features.columns)[:0], *found])


def _top_lessers(features: Features, total: Evidence, level: float, most: int) -> _Joint:
    """Return the pairs whose functions stand out together, strongest first, with each two columns once."""
    from scipy.special import chdtri  # not at the top: whoever only reads Records would wait for SciPy

    d = features.columns
    of = lessers(d)
    if not len(of):
        return _Joint(of, features.pairs[:0], 0.0)
    squares = _squares(total)
    squares[lesser_of(joined_lessers(features), d)] = 0.0
    # what a column that was constant in the original has in common with others, it has by its own drift
    constant = total.pair_mean.diagonal() - np.square(total.mean) < _CONSTANT
    squares[constant[of[:, :2]].any(1)] = 0.0
    best = squares.reshape(-1, 2).argmax(1) + 2 * np.arange(len(of) // 2)
    best = best[squares[best] > float(chdtri(LESSER, level))]
    best = best[np.argsort(-squares[best], kind="stable")][: max(0, most)]
    here = {tuple(sorted(pair)) for pair in features.pairs.tolist()}
    pairs = [pair for pair in of[best, :2].tolist() if tuple(pair) not in here]
    far = _normal(float(squares.max(initial=0.0)))
    return _Joint(of[best], np.array(pairs, dtype=np.int64).reshape(-1, 2), far)


def _squares(total: Evidence) -> Floats:
    """Return the squares of all pairs' scores in units of their noise, (g,): of four degrees of freedom by chance."""
    variance = total.lesser_variance
    scale = np.sqrt(np.maximum(np.einsum("gii->gi", variance), 1e-300))
    real = (scale**2 > 1e-10 * total.row_variance).all(1)
    spread = variance / scale[:, :, None] / scale[:, None] + _RIDGE * np.eye(LESSER)
    spread[~real] = np.eye(LESSER)
    score = (total.lesser_score / scale)[..., None]
    found = np.where(real, (score * np.linalg.solve(spread, score)).sum((1, 2)), 0.0)
    bulk = found[real]
    return np.asarray(found if bulk.size < 100 else found / max(float(np.median(bulk)) / _MEDIAN, 1.0))


def _normal(square: float) -> float:
    """Return the normal deviate that is as far out as a square of four degrees of freedom (Wilson and Hilferty)."""
    part = 2.0 / (9.0 * LESSER)
    return float(((square / LESSER) ** (1.0 / 3.0) - 1.0 + part) / math.sqrt(part))
