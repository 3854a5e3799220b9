r"""Attribution of drift to columns: the symmetric divergence of a log-linear ratio by feature, with error bars.

For :math:`\log r = \theta^\top T - c` the sum of both Kullback-Leibler divergences needs no constant and splits,

.. math:: \mathrm{KL}(p\|q) + \mathrm{KL}(q\|p) = \sum_j \theta_j \big(E_p T_j - E_q T_j\big),

with :math:`E_p T_j` known from the first step; for features that joined later (``auto``) it is estimated by importance
weights, whose error the bars do not include. A column gets the contributions of its features; a product of two columns
is split evenly between them, a ridge unit in proportion to its squared weights.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, NamedTuple

import numpy as np

from driftline._inputs import Floats
from driftline.fitting import Design, Features, softmax
from driftline.inference._dependence import Dependence, long_run
from driftline.inference._estimates import Estimate
from driftline.inference._intervals import interval, is_noise_known, normal_interval
from driftline.inference._uncertainty import LEAST_SLACK, Uncertainty, covariance, joined_later, mirrored

__all__ = [
    "Attribution",
    "Contributions",
    "Own",
    "Parts",
    "attribute",
    "attributed",
    "members",
    "own_part",
    "parts_of",
    "shares",
]

_THIN = 4000  # enough rows to estimate the covariances of feature means


class Attribution(NamedTuple):
    """Contribution of a column to KL(original‖current) + KL(current‖original), in nats and as a share of the sum."""

    column: str | int
    share: float
    contribution: Estimate


class Contributions(NamedTuple):
    """Contributions of all columns, and estimates of some of them by their place, largest first."""

    values: Floats
    estimates: dict[int, Estimate]


class Own(NamedTuple):
    """What attribution needs of the current window, for p features.

    Attributes:
        moved: means of features in the original less those in the window, (p,).
        spread: covariance of the latter, (p, p).
        cross: that of coefficients with them, by the window's own rows, (p, p).
    """

    moved: Floats
    spread: Floats
    cross: Floats


class Parts(NamedTuple):
    """What is left of coefficients, means and their errors when features are summed up by columns, for D columns.

    Attributes:
        reading: contribution of each column with its noise, (D,).
        linear: covariance of contributions by errors of coefficients or means alone, (D, D).
        noise: mean of what products of errors add to contributions, (D,).
        curved: covariance of these products, (D, D).
        closed: the original's part in ``noise``, (D,).
    """

    reading: Annotated[Floats, "D"]
    linear: Annotated[Floats, "D D half"]
    noise: Annotated[Floats, "D"]
    curved: Annotated[Floats, "D D half"]
    closed: Annotated[Floats, "D"]


def shares(features: Features) -> Floats:
    """Return the share of each column in each feature, (D, p); the shares in a feature sum to 1."""
    eye = np.eye(features.columns)
    pairs = 0.5 * (eye[:, features.pairs[:, 0]] + eye[:, features.pairs[:, 1]])
    squared = np.square(features.weight)
    units = squared / np.maximum(squared.sum(0), 1e-300)
    others = [other.map.shares(features.columns) for other in features.others]
    return np.concatenate([eye[:, features.linear], eye[:, features.squares], pairs, units, *others], 1)


def attribute(
    features: Features,
    coef: Floats,
    uncertainty: Uncertainty,
    design: Design,
    log_r: Floats,
    dependence: Dependence,
    level: float,
    groups: Floats | None = None,
    top: int | None = None,
) -> Contributions:
    """Estimate the contributions of columns.

    Arguments:
        coef: coefficients of the features, (p,).
        design: design of the current window, with its column of ones, (n, p+1).
        log_r: log-ratios of its rows, (n,).
        dependence: dependence between its rows.
        level: confidence level.
        groups: columns that belong together, as ones in (groups, D), to get the contribution of each group instead.
        top: number of contributions, the largest ones, to estimate with their intervals; None for all.
    """
    own = own_part(coef, uncertainty, design, log_r, dependence)
    share = shares(features) if groups is None else groups @ shares(features)
    return _estimated(_parts(share, coef, uncertainty, own, _forms), float(uncertainty.slack), level, top)


def own_part(coef: Floats, uncertainty: Uncertainty, design: Design, log_r: Floats, dependence: Dependence) -> Own:
    """Return what attribution needs of the current window; arguments as in :func:`attribute`."""
    n = design.shape[0]
    means = design.pull(np.full(n, 1.0 / n))[:-1]
    # E_p T - E_q T; the former is known, or estimated by importance weights for features that joined later
    late, moved = joined_later(coef, uncertainty), uncertainty.mean - means
    if late.any():
        moved[late] = design.pull(softmax(log_r))[:-1][late] - means[late]
    every = max(1, n // max(_THIN, 10 * design.shape[1])) if dependence.independent else 1
    part = design.thin(every) if every > 1 else dependence.distinct(design)
    score, one = uncertainty.score[::every], np.full_like(uncertainty.score[::every], 1.0 / n)
    scale = n / len(score)
    score, one = dependence.merged(score), dependence.merged(one)
    uneven = dependence.shares
    own_spread = long_run(part, one, part, one, dependence.lag, uneven)[:-1, :-1] * scale
    own_cross = uncertainty.inverse_hessian @ long_run(part, score, part, one, dependence.lag, uneven) * scale
    return Own(moved, mirrored(own_spread), own_cross[:-1, :-1])


def parts_of(features: Features, coef: Floats, uncertainty: Uncertainty, own: Own) -> Parts:
    """Return all that attribution to columns and to groups of them needs; arguments as in :func:`attribute`."""
    found = _parts(shares(features), coef, uncertainty, own, lambda left, matrix, right: left @ matrix @ right.T)
    linear, curved = (mirrored(0.5 * (form + form.T)) for form in (found.linear, found.curved))
    return found._replace(linear=linear, curved=curved)


def attributed(
    parts: Parts, slack: float, level: float, groups: Floats | None = None, top: int | None = None
) -> Contributions:
    """Estimate the contributions of columns from what was kept of them; arguments as in :func:`attribute`.

    ``slack`` is that of the uncertainty.
    """
    share = np.eye(len(parts.reading)) if groups is None else groups
    sums = (share @ part for part in (parts.reading, parts.noise, parts.closed))
    forms = (_forms(share, part, share) for part in (parts.linear, parts.curved))
    (reading, noise, closed), (linear, curved) = sums, forms
    return _estimated(Parts(reading, linear, noise, curved, closed), slack, level, top)


def _forms(left: Floats, matrix: Floats, right: Floats) -> Floats:
    """Return the form of each row on the left with the same one on the right, (k,)."""
    return np.asarray(((left @ matrix) * right).sum(1))


def _parts(
    share: Floats,
    coef: Floats,
    uncertainty: Uncertainty,
    own: Own,
    form: Callable[[Floats, Floats, Floats], Floats],
) -> Parts:
    """Return the parts of columns or groups with these shares in features, (k, p); ``form`` makes forms of two."""
    moved, spread_coef = own.moved, covariance(uncertainty)[:-1, :-1]
    spread_moved = uncertainty.origin_spread[:-1, :-1] + own.spread
    cross = uncertainty.origin[:-1, :-1] + own.cross
    by_coef, by_moved = share * moved, share * coef
    linear = (
        form(by_coef, spread_coef, by_coef)
        + form(by_moved, spread_moved, by_moved)
        + 2.0 * form(by_coef, cross, by_moved)
    )
    return Parts(
        reading=by_moved @ moved - by_coef @ uncertainty.bias[:-1],
        linear=linear,
        noise=share @ cross.diagonal(),
        curved=form(share, cross * cross.T + spread_moved * spread_coef, share),
        closed=share @ uncertainty.origin[:-1, :-1].diagonal(),
    )


def _estimated(found: Parts, slack: float, level: float, top: int | None) -> Contributions:
    """Return the contributions with intervals, where there are any; forms are those of each with itself, (k,)."""
    shared = found.closed / np.maximum(found.noise, 1e-300)
    each = (found.reading, found.linear, found.noise, found.curved, shared)
    parts = list(zip(*(part.tolist() for part in each), strict=True))
    if slack < LEAST_SLACK:
        return _largest(found.reading, top, lambda i: normal_interval(parts[i][0], float("nan"), level))
    values = np.array([a - c if is_noise_known(a, b, c, d) else a for a, b, c, d, _ in parts])

    def estimate(i: int) -> Estimate:
        reading, variance, offset, spread, share = parts[i]
        return interval(reading, variance, offset, spread, share, level)

    return _largest(values, top, estimate)


def _largest(values: Floats, top: int | None, estimate: Callable[[int], Estimate]) -> Contributions:
    order = np.argsort(-values, kind="stable")[:top].tolist()
    return Contributions(values, {i: estimate(i) for i in order})


def members(groups: Mapping[str, Sequence[str | int]], columns: Sequence[str | int]) -> Floats:
    """Return the columns of each group, as ones in (groups, D)."""
    out = np.zeros((len(groups), len(columns)))
    for i, (name, wanted) in enumerate(groups.items()):
        for column in wanted:
            if column not in columns:
                shown = ", ".join(map(repr, columns[:5])) + (", ..." if len(columns) > 5 else "")
                raise ValueError(f"group {name!r} holds the unknown column {column!r}: known ones are {shown}")
            out[i, columns.index(column)] = 1.0
    return out
