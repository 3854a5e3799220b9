r"""Evidence for further features: scores of candidates outside the model, added up over the steps.

A feature outside the model has score :math:`s = \sum_i g_i f(x_i)`, zero on average where the model is right. Scores
and their variances are added up over the steps, so that a slow drift is found as surely as a fast one.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np
import numpy.typing as npt

from driftline._inputs import Floats
from driftline.fitting import Integers, LogLinearDesign, chunks, lessers, monomials, rows_in_cache
from driftline.recursion._curves import CurveSums, curve_means, heaps_of
from driftline.recursion._lessers import LesserSums, lesser_means

__all__ = ["PAIR_COLUMNS", "Evidence", "coarse", "collect", "forget", "reframed", "settled", "start_evidence"]

Singles = npt.NDArray[np.float32]

PAIR_COLUMNS = 512  # with more columns than this the products alone would cost more than the fit
_MEANS = ("mean", "pair_mean", "hinge_mean", "curve_mean", "lesser_mean")
_QUANTILES = (0.1, 0.3, 0.5, 0.7, 0.9)


class Evidence(NamedTuple):
    """Sums of scores over the steps so far, and of their variances over the windows that are done with.

    Attributes:
        knots: knots of the hinges on each column, (D, 5).
        trend: coefficients of each hinge on 1, z, z^2, (D, 5, 3).
        pair_scores: sums for the products of two columns, over the first and the second halves of windows, (2, D, D).
        pair_variance: the same for variances, over whole windows, (D, D).
        hinge_score, hinge_variance: sums for the hinges, (D, 5).
        curve_score, curve_variance: sums for the curved products, (m,).
        lesser_trend: coefficients of functions of two columns' lesser on what the model has of both, (g, 4, 6).
        lesser_score: sums for these functions less their trend, (g, 4).
        lesser_variance: covariance of these, (g, 4, 4).
        row_variance: sum of the rows' squared scores.
        row_spread: second moments of the rows, weighted by their squared scores, (D, D).
        shared: whether the sums include the last window's scores as denominator.
        mean, pair_mean, hinge_mean, curve_mean, lesser_mean: the original's means of columns (D,), of products (D, D),
            of hinges (D, 5), of curved products (m,) and of lessers (g, 4), so that a candidate that joins later has
            all of its drift.
        hidden: nats by which products and lessers outside the model may have moved without standing out; the standard
            deviation of these; and the fewest effective rows of a window so far, on which both rest; (3,).
        step_hidden: the first two of these for the last step alone, (2,).
        shift, rate: place and spread of the present frame, (D,): ``shift + rate * z`` are rows in the coordinates of
            the original, which curved products are made of.
    """

    knots: Annotated[Floats, "D 5"]
    trend: Annotated[Floats, "D 5 3"]
    pair_scores: Annotated[Floats, "2 D D"]
    pair_variance: Annotated[Floats, "D D"]
    hinge_score: Annotated[Floats, "D 5"]
    hinge_variance: Annotated[Floats, "D 5"]
    curve_score: Annotated[Floats, "curves"]
    curve_variance: Annotated[Floats, "curves"]
    lesser_trend: Annotated[Floats, "lessers 4 6"]
    lesser_score: Annotated[Floats, "lessers 4"]
    lesser_variance: Annotated[Floats, "lessers 4 4"]
    row_variance: float
    row_spread: Annotated[Floats, "D D"]
    shared: bool
    mean: Annotated[Floats, "D"]
    pair_mean: Annotated[Floats, "D D"]
    hinge_mean: Annotated[Floats, "D 5"]
    curve_mean: Annotated[Floats, "curves"]
    lesser_mean: Annotated[Floats, "lessers 4"]
    hidden: Annotated[Floats, "3"]
    step_hidden: Annotated[Floats, "2"]
    shift: Annotated[Floats, "D"]
    rate: Annotated[Floats, "D"]

    def check(self) -> None:
        """Refuse sums of other candidates than ours."""
        d = len(self.mean)
        if len(self.curve_mean) != len(monomials(d)) or len(self.lesser_mean) != len(lessers(d)):
            raise ValueError(f"it does not have the curved products and lessers of {d} columns")

    @property
    def pair_score(self) -> Floats:
        """Sums for the products of two columns, over whole windows, (D, D)."""
        return np.asarray(self.pair_scores.sum(0))


def start_evidence(z: Floats, *, original: bool = True) -> Evidence:
    """Return empty evidence, with knots of the hinges at quantiles of standardised rows (n, D).

    If these are not rows of the original, its means are not known: what joins later has lost its drift so far.
    """
    d = z.shape[1]
    rows = z[np.linspace(0, z.shape[0] - 1, min(z.shape[0], 20_000)).astype(np.int64)]
    knots = coarse(np.ascontiguousarray(np.quantile(rows, _QUANTILES, axis=0).T))
    square, hinge, curves = np.zeros((d, d)), np.zeros((d, len(_QUANTILES))), curve_means(z)
    lesser, trend = lesser_means(z)
    found = Evidence(
        knots=knots,
        trend=_trend(rows, knots),
        pair_scores=np.zeros((2, d, d)),
        pair_variance=square,
        hinge_score=hinge,
        hinge_variance=hinge,
        curve_score=np.zeros_like(curves),
        curve_variance=np.zeros_like(curves),
        lesser_trend=trend,
        lesser_score=np.zeros(trend.shape[:2]),
        lesser_variance=np.zeros((*trend.shape[:2], trend.shape[1])),
        row_variance=0.0,
        row_spread=square,
        shared=False,
        mean=z.mean(0),
        pair_mean=z.T @ z / len(z) if d <= PAIR_COLUMNS else square,
        hinge_mean=_hinge_means(z, knots),
        curve_mean=curves,
        lesser_mean=lesser,
        hidden=np.array([0.0, 0.0, np.inf]),
        step_hidden=np.zeros(2),
        shift=np.zeros(d),
        rate=np.ones(d),
    )
    return (
        found if original else found._replace(**{name: np.full_like(getattr(found, name), np.nan) for name in _MEANS})
    )


def forget(evidence: Evidence) -> Evidence:
    """Drop all sums: the scores of a model that was too small say nothing about the larger one."""
    pairs, hinges = np.zeros_like(evidence.pair_variance), np.zeros_like(evidence.hinge_score)
    halves, curves = np.zeros_like(evidence.pair_scores), np.zeros_like(evidence.curve_score)
    return evidence._replace(
        pair_scores=halves,
        pair_variance=pairs,
        hinge_score=hinges,
        hinge_variance=hinges,
        curve_score=curves,
        curve_variance=curves,
        lesser_score=np.zeros_like(evidence.lesser_score),
        lesser_variance=np.zeros_like(evidence.lesser_variance),
        row_variance=0.0,
        row_spread=pairs,
        shared=False,
    )


def settled(evidence: Evidence, of: Integers) -> Evidence:
    """Drop the scores of what is like the functions of pairs (k, 3) that join, as these explain them.

    Those are the hinges on both columns, their curved products, and the same pair with one column turned round. Their
    variances stay: they stand for that of the window at which the sums begin anew.
    """
    d = len(evidence.mean)
    hinges, curves, pairs = (getattr(evidence, name).copy() for name in ("hinge_score", "curve_score", "lesser_score"))
    factors = monomials(d)
    for i, j, _ in of.tolist():
        hinges[[i, j]] = 0.0
        mine = [(factors < 3 * d) & (factors % d == column) for column in (i, j)]
        curves[mine[0].any(1) & mine[1].any(1)] = 0.0
        pairs[(lessers(d)[:, :2] == (i, j)).all(1)] = 0.0
    return evidence._replace(hinge_score=hinges, curve_score=curves, lesser_score=pairs)


def reframed(evidence: Evidence, shift: Floats, rate: Floats) -> Evidence:
    """Return the same evidence for columns in the frame around ``shift`` with spread ``rate``."""
    m, s, both = shift[:, None], rate[:, None], np.outer(rate, rate)
    apart, mean = evidence.mean - shift, evidence.mean
    about = evidence.pair_mean - np.outer(mean, mean) + np.outer(apart, apart)
    level, slope, bend = np.moveaxis(evidence.trend, -1, 0)
    trend = np.stack([(level + slope * m + bend * m**2) / s, slope + 2.0 * bend * m, bend * s], -1)
    return evidence._replace(
        knots=(evidence.knots - m) / s,
        trend=trend,
        pair_scores=evidence.pair_scores / both,
        pair_variance=evidence.pair_variance / both**2,
        hinge_score=evidence.hinge_score / s,
        hinge_variance=evidence.hinge_variance / s**2,
        row_spread=evidence.row_spread / both,
        mean=apart / rate,
        pair_mean=about / both,
        hinge_mean=evidence.hinge_mean / s,
        shift=evidence.shift + evidence.rate * shift,
        rate=evidence.rate * rate,
    )


def coarse(values: Floats) -> Floats:
    """Round to 1/64 of a standard deviation: a knot at the very value of a row would keep that value in the state."""
    return np.round(64.0 * values) / 64.0


def _hinge_means(z: Floats, knots: Floats) -> Floats:
    """Return the mean of each hinge over rows (n, D), (D, 5)."""
    total = np.zeros(knots.shape)
    for at in chunks(len(z), rows_in_cache(z.shape[1])):
        columns = np.ascontiguousarray(z[at].T)
        for k in range(knots.shape[1]):
            total[:, k] += np.maximum(columns - knots[:, k, None], 0.0).sum(1)
    return total / len(z)


def _trend(z: Floats, knots: Floats) -> Floats:
    """Regress each hinge on 1, z, z^2, which the model has, (D, 5, 3): only the residual of a hinge is scored."""
    out = np.empty((*knots.shape, 3))
    for j, column in enumerate(z.T):
        basis = np.stack([np.ones_like(column), column, column * column], 1)
        hinges = np.maximum(column[:, None] - knots[j], 0.0)
        out[j] = (np.linalg.pinv(basis.T @ basis, hermitian=True) @ (basis.T @ hinges)).T
    return out


class _Sums(NamedTuple):
    """Scores of the candidates on one window and the variances of those scores."""

    pair_scores: Floats
    pair_variance: Floats
    hinge_score: Floats
    hinge_variance: Floats
    curve_score: Floats
    curve_variance: Floats
    lesser_score: Floats
    lesser_variance: Floats
    row_variance: float
    row_spread: Floats


_SCORES = ("pair_scores", "hinge_score", "curve_score", "lesser_score")
_VARIANCES = ("pair_variance", "hinge_variance", "curve_variance", "lesser_variance", "row_variance", "row_spread")


def _sums(evidence: Evidence, design: LogLinearDesign, center: Floats, score: Floats, total: Floats) -> _Sums:
    """Sum over a window this step's scores, and the variances of its rows' scores in both roles together.

    Columns that are not in the model are 0, and hinges on columns with two values say what the model says: both are
    left out, and their sums stay 0. Rows and scores are in single precision, and columns in contiguous memory.
    """
    live, order, s, d = design.live, design.order, len(design.features.squares), design.z.shape[1]
    size, spread = max(float(np.abs(score).max()), 1e-300), max(float(np.abs(total).max()), 1e-300)
    light, heavy = (score / size).astype(np.float32), (total / spread).astype(np.float32)
    root = np.abs(heavy)
    heavy *= heavy
    pairs, middle = np.zeros((4, len(order), len(order))), center[order].astype(np.float32)[:, None]
    hinges = _Hinges(evidence, order[:s])
    curves = CurveSums(order, s, evidence.shift, evidence.rate, len(live), heaps_of(live))
    lesser = LesserSums(order[:s], evidence.lesser_trend, evidence.shift, evidence.rate, len(live))
    for half, at in _halves(len(live), rows_in_cache(len(order))):
        columns, g, h = np.ascontiguousarray(live[at].astype(np.float32).T), light[at], heavy[at]
        if d <= PAIR_COLUMNS:
            # centring changes a product by terms the model has, whose score is zero: only the variance gets smaller
            c = columns - middle
            weighted = c * g
            pairs[half] += c @ weighted.T
            np.multiply(c, root[at], out=weighted)
            pairs[2] += weighted @ weighted.T
            weighted *= c
            pairs[3] += weighted @ weighted.T
        hinges.add(columns[:s], g, h)
        curves.add(columns, g, h)
        lesser.add(columns, g, h)
    placed, wide = np.zeros((4, d, d)), np.zeros((2, *evidence.knots.shape))
    placed[:, order[:, None], order] = pairs
    wide[:, order[:s]] = hinges.sums
    curved, (lesser_score, lesser_variance) = curves.sums, lesser.sums
    return _Sums(
        pair_scores=placed[:2] * size,
        pair_variance=placed[3] * spread**2,
        hinge_score=wide[0] * size,
        hinge_variance=wide[1] * spread**2,
        curve_score=curved[0] * size,
        curve_variance=curved[1] * spread**2,
        lesser_score=lesser_score * size,
        lesser_variance=lesser_variance * spread**2,
        row_variance=float(total @ total),
        row_spread=placed[2] * spread**2,
    )


def _halves(rows: int, size: int) -> list[tuple[int, slice]]:
    """Return slices of at most ``size`` rows, each with the half of the rows that it lies in, 0 or 1."""
    middle = rows // 2
    first = [(0, slice(at.start, min(at.stop, middle))) for at in chunks(middle, size)]
    return first + [(1, slice(middle + at.start, middle + at.stop)) for at in chunks(rows - middle, size)]


class _Hinges:
    """Sums of scores and of their squares over hinges less their trend, for some of the columns; (2, k, 5)."""

    def __init__(self, evidence: Evidence, columns: Integers) -> None:
        knots, trend = evidence.knots[columns], evidence.trend[columns]
        line = np.stack([-knots, np.ones_like(knots), np.zeros_like(knots)], -1)
        # a hinge is the larger of 0 and a line, and so is what its trend leaves of it: both are quadratic, (k, 10, 3)
        self._sides = np.concatenate([-trend, line - trend], 1).astype(np.float32)
        self.sums = np.zeros((2, *knots.shape))
        self._work = np.empty((len(knots), self._sides.shape[1] + 3, 0), dtype=np.float32)

    def add(self, columns: Singles, score: Singles, variance: Singles) -> None:
        """Add the sums over rows, given by columns (k, n)."""
        if self._work.shape[2] != columns.shape[1]:  # stretches are alike, and share what takes most room
            self._work = np.empty((*self._work.shape[:2], columns.shape[1]), dtype=np.float32)
        basis, sides, knots = self._work[:, :3], self._work[:, 3:], self.sums.shape[2]
        basis[:, 0], basis[:, 1] = 1.0, columns
        np.multiply(columns, columns, out=basis[:, 2])
        np.matmul(self._sides, basis, out=sides)
        rest = np.maximum(sides[:, :knots], sides[:, knots:], out=sides[:, :knots])
        self.sums[0] += rest @ score
        rest *= rest
        self.sums[1] += rest @ variance


def collect(
    evidence: Evidence,
    num: LogLinearDesign,
    den: LogLinearDesign,
    s_num: Floats,
    s_den: Floats,
    past: Floats | None,
    times: tuple[float, float] = (1.0, 1.0),
) -> tuple[Evidence, Evidence, Evidence]:
    """Return the evidence to keep, that to test, which includes the variance of the open window, and the step's own.

    The kept evidence has closed the numerator window. A window's rows count once as denominator (``past``) and once as
    numerator: the two scores nearly cancel. ``times`` are the numbers of neighbouring rows that are worth one, by which
    variances are larger than those of independent rows.
    """
    center = num.z.mean(0)
    both = s_num if past is None or not evidence.shared else s_num + past
    first = _sums(evidence, num, center, s_num, both * math.sqrt(times[0]))
    last = _sums(evidence, den, center, s_den, s_den * math.sqrt(times[1]))
    kept = evidence._replace(
        shared=True,
        **{name: getattr(evidence, name) + getattr(first, name) + getattr(last, name) for name in _SCORES},
        **{name: getattr(evidence, name) + getattr(first, name) for name in _VARIANCES},
    )
    tested = kept._replace(**{name: getattr(kept, name) + getattr(last, name) for name in _VARIANCES})
    if both is not s_num:
        first = _alone(first, last, num, center, s_num * math.sqrt(times[0]))
    step = {name: getattr(first, name) + getattr(last, name) for name in (*_SCORES, *_VARIANCES)}
    return kept, tested, kept._replace(**step, hidden=np.array([0.0, 0.0, np.inf]))


def _alone(first: _Sums, last: _Sums, design: LogLinearDesign, center: Floats, score: Floats) -> _Sums:
    """Return a numerator's sums with the variances of its scores in this role alone, of candidates of two columns.

    Those of products are summed. Those of lessers would take too long: they are in proportion to the denominator's.
    """
    rows = float(score @ score)
    share, pairs = rows / max(last.row_variance, 1e-300), np.zeros_like(first.pair_variance)
    if len(first.lesser_score):
        squares = np.square(design.live - center[design.order])
        pairs[design.order[:, None], design.order] = (squares * np.square(score)[:, None]).T @ squares
    return first._replace(pair_variance=pairs, lesser_variance=share * last.lesser_variance, row_variance=rows)
