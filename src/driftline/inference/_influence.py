r"""Error bars that survive the recursion: influence values of each window and their accumulated covariance.

A step is an M-estimator: :math:`\hat\theta - \theta \approx -H^{-1}\sum_i g_i T(x_i)` with ``g_i`` the derivative of
the loss with respect to the log-ratio of row i. Window t is used twice, as denominator of step t and as numerator of
step t+1; its two influences are added before the covariance is taken, and windows are independent of each other. Only
the covariance of all closed windows and the last window's share are kept, so memory does not depend on t.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from driftline._inputs import Floats
from driftline.fitting import ConvexFit, Design, Scores, chunks, half_inverse
from driftline.inference._dependence import Dependence, long_run, mean_products, positive
from driftline.inference._uncertainty import UNSUPPORTED, UNSUPPORTED_ORIGINAL, Quiet, Uncertainty, mirrored

__all__ = ["Told", "advance", "quiet_of", "told_beyond"]

_CARRIES = 20.0  # times the mean square: a squared score this large means that few rows matter
_KNOWN = 6000  # enough rows to estimate a variance to two percent, which suffices for a standard error
_THIN = 3000  # enough rows to estimate a mean curvature
_SINGLE = 1e-6  # relative error of Gram matrices, which are made in single precision
_DRAWS = 6  # draws of errors where rows depend on each other and there is no formula
_NONE: Floats = np.zeros(0)
_STRETCH = 100  # rows whose pairs with others stay in the cache
_PAIRS = 400  # enough rows of each window to estimate the effects of pairs of rows


class Told(NamedTuple):
    """What sums over its own rows say of a numerator that other rows stand in for.

    Means over its rows: ``gram`` of T T', ``scored`` of g T T' and ``squared`` of g² T T', g the derivative of the loss
    as the denominator of the step before, all (p+1, p+1). ``rows`` is their number, ``before`` the weight of one in
    the step before, ``now`` its score in this one where the log-ratio is 0.
    """

    gram: Floats
    scored: npt.NDArray[np.floating[Any]]
    squared: npt.NDArray[np.floating[Any]]
    rows: float
    before: float
    now: float


def told_beyond(
    told: Told,
    gram: Floats,
    scored: Floats,
    squared: Floats,
    then: Floats,
    inverse: Floats,
    swell: Floats | None = None,
) -> Floats:
    r"""Return what a numerator's own sums add to the covariance that the rows that stand in for it show.

    These rows are few where the step is large, and miss the far rows that moved the step before most. Known exactly is
    the scatter of :math:`H_-^{-1} g T - b H^{-1} T`, b the score in this step where its log-ratio is 0: the influence
    itself where nothing moves. What the stand-in gets wrong of it is added.

    Arguments:
        gram, scored, squared: the same means as in ``told``, of the rows that stand in.
        then, inverse: inverse Hessians of the step before and of this one.
        swell: as in :class:`~driftline.inference.Dependence`.
    """
    root = np.ones(len(gram)) if swell is None else np.sqrt(swell)

    def covariances(gram: Floats, scored: Floats, squared: Floats) -> Floats:
        mean, pull = gram[-1], scored[-1]
        found = [gram - np.outer(mean, mean), scored - np.outer(pull, mean), squared - np.outer(pull, pull)]
        return np.array(found) * root * root[:, None]

    own = covariances(told.gram, told.scored.astype(np.float64), told.squared.astype(np.float64))
    beside, between, before = told.rows * (own - covariances(gram, scored, squared))
    cross = told.before * told.now * (then @ between @ inverse)
    both = told.before**2 * (then @ before @ then.T) + told.now**2 * (inverse @ beside @ inverse)
    return np.asarray(both - cross - cross.T)


def advance(
    past: Uncertainty | None,
    design_past: Design,
    design_num: Design,
    design_den: Design,
    fit: ConvexFit,
    rows_num: Dependence,
    rows_den: Dependence,
    events: Floats = _NONE,
    *,
    same: bool = False,
    centred: bool = False,
    told: Told | None = None,
) -> Uncertainty:
    """Close the numerator window of a step and open its denominator window.

    Arguments:
        past: uncertainty of the anchor of the step, in the present coordinates (:func:`placed`, :func:`transported`);
            None for an original, which has only this one role.
        design_past: design of the numerator window in the features that ``past.score`` belongs to, (n, q+1).
        design_num, design_den: designs of both windows with their column of ones, (n, p+1) and (m, p+1).
        fit: fit of the step.
        rows_num, rows_den: dependence between the rows of each window.
        events: counts of events in columns with rare ones, over both windows.
        same: whether the numerator has the features that it had as the denominator of the last step.
        centred: whether the bias takes scores about their mean in each window; a loss that treats windows of the same
            size alike does not need it, since the means then cancel.
        told: what sums of the numerator's own rows say, where other rows stand in for it.
    """
    num, den = _role(design_num, fit.score_num, rows_num), _role(design_den, fit.score_den, rows_den)
    before = num
    if past is not None and design_past is design_num:
        before = num._replace(score=rows_num.merged(past.score))
    elif past is not None:
        before = _role(design_past, past.score, rows_num)
    every = _thinning(num, before)  # the same for both roles, so that their errors cancel
    meat_num, meat = _meat(num, num, every), _meat(den, den, _thinning(den))
    meat = positive(meat) if den.lag else meat
    inverse, slack, parameters = _inverse_hessian(num, den, fit, meat_num + meat)
    side_num = _side(num, rows_num.merged_scores(fit.num), meat_num, inverse)
    step = _Step(side_num, _side(den, rows_den.merged_scores(fit.den), meat, inverse), inverse)
    supported = [
        rows.supports(len(score), parameters) for rows, score in ((rows_num, fit.score_num), (rows_den, fit.score_den))
    ]
    if not all(supported):
        slack = UNSUPPORTED
    if past.slack == UNSUPPORTED_ORIGINAL if past is not None else not supported[0]:
        slack = UNSUPPORTED_ORIGINAL
    bias = _bias(step, centred)
    if past is None:
        closed = first = step.num.spread
        origin, origin_spread = _origin(num, inverse)
        mean = num.design.pull(num.share)[:-1]
        known = np.ones(len(mean), dtype=np.bool_)
    else:
        kept = same and not num.lag and _thinning(before) == every
        alone = past.meat if kept else _meat(before, before, every)
        both = _between(before, now=num, alone=alone, meat=meat_num, every=every)
        beyond = 0.0 if told is None else _beyond(told, before, past.inverse_hessian, inverse)
        closed = _closed(past, alone, both, step, beyond)
        first, origin, origin_spread = past.first, past.origin, past.origin_spread
        mean, known = past.mean, past.known
    return Uncertainty(
        covariance=mirrored(closed),
        inverse_hessian=inverse,
        meat=mirrored(meat),
        meat_num=mirrored(meat_num),
        score=fit.score_den,
        bias=bias if past is None else bias + past.bias,
        step_bias=bias,
        first=mirrored(first),
        origin=origin,
        origin_spread=mirrored(origin_spread),
        mean=mean,
        known=known,
        slack=slack,
        quiet=quiet_of(past, parameters, events, len(fit.score_num), rows_num, rows_den),
    )


def quiet_of(
    past: Uncertainty | None, parameters: float, events: Floats, rows: int, num: Dependence, den: Dependence
) -> Quiet:
    """Return what is known of readings without drift from counts, where some columns have rare events."""
    size = num.effective(rows)
    first = size if past is None else past.quiet.first
    if not len(events):
        return Quiet(first=first, before=size)
    each = 0.5 * events / max(num.worth * num.time, den.worth * den.time)  # independent ones, in a window
    return Quiet(max(parameters - 1.0, 1.0), float((4.0 * each / (each * each + 9.0)).sum()), first, size)


class _Role(NamedTuple):
    r"""A window in one role of a step, as the sum :math:`\sum_i g_i T(x_i)`; ``lag`` is the reach of dependence.

    Copies of a row are one row, with their scores summed up. ``share`` is the share of all rows that each row has,
    ``rows`` the number of rows, copies counted in part. ``swell`` is by how much more each sum scatters than that of
    independent rows, (p+1,): with a lag the rows show it themselves, without one they stand in for others. ``uneven``
    are the shares where some rows have copies.
    """

    design: Design
    score: Floats
    lag: int
    share: Floats
    rows: float
    swell: Floats | None = None
    uneven: Floats | None = None

    def thinned(self, every: int) -> _Role:
        """Return every ``every``-th row."""
        if every == 1:
            return self
        uneven = None if self.uneven is None else self.uneven[::every] / self.uneven[::every].sum()
        return self._replace(design=self.design.thin(every), score=self.score[::every], uneven=uneven)


def _role(design: Design, score: Floats, rows: Dependence) -> _Role:
    n, uneven = len(score), rows.shares
    share = np.full(n, 1.0 / n) if uneven is None else uneven
    return _Role(rows.distinct(design), rows.merged(score), rows.lag, share, n / rows.worth, rows.swell, uneven)


def _thinning(*roles: _Role) -> int:
    """Return the thinning factor of a window's covariances: one row in this many is used, in all its roles.

    All rows are needed where they depend on each other or where a few of them carry the score.
    """
    squares = [np.square(role.score) for role in roles]
    if roles[0].lag or any(float(s.max()) > _CARRIES * float(s.mean()) for s in squares):
        return 1
    rows, columns = roles[0].design.shape
    return max(1, rows // max(_KNOWN, 40 * columns))


def _meat(left: _Role, right: _Role, every: int) -> Floats:
    r"""Return the covariance of :math:`\sum_i g_i T(x_i)` in two roles of a window, from every ``every``-th row."""
    thin = left.thinned(every)
    other = thin if right is left else right.thinned(every)
    if right.design is left.design:
        other = other._replace(design=thin.design)
    found = long_run(thin.design, thin.score, other.design, other.score, left.lag, thin.uneven)
    return _swollen(left, found if every == 1 else found * (left.design.shape[0] / thin.design.shape[0]))


def _swollen(role: _Role | _Side, covariance: Floats) -> Floats:
    """Return the covariance of sums over the rows that those of a window stand in for."""
    if role.swell is None or role.lag:
        return covariance
    root = np.sqrt(role.swell)
    return covariance * root * root[:, None]


def _inverse_hessian(num: _Role, den: _Role, fit: ConvexFit, meat: Floats) -> tuple[Floats, float, float]:
    r"""Return :math:`H^{-1}` divided by the slack, the slack, and the number of parameters that the rows inform."""
    half = half_inverse(fit.hessian) if fit.weight.min() > 0.0 else None
    if half is not None:
        inverse = mirrored(half.T @ half)
    else:  # without a prior, what collinear columns leave undetermined has the rounding errors of a Gram matrix
        inverse = mirrored(np.linalg.pinv(fit.hessian, rcond=_SINGLE, hermitian=True))
    # constant or collinear columns do not count as parameters: the prior determines them, not the rows
    size = num.design.shape[1] - float(fit.weight @ inverse.diagonal())
    slack = _slack(num, den, size, inverse, meat)
    return inverse / slack, slack, size


def _slack(num: _Role, den: _Role, size: float, inverse: Floats, meat: Floats) -> float:
    """Return 1 - parameters/rows, by which a fit shrinks residuals: the jackknife's correction, on average."""
    rows = num.rows + den.rows
    if num.lag or den.lag or num.swell is not None or den.swell is not None:  # fewer effective rows
        free = num.design.gram(num.score**2) + den.design.gram(den.score**2)
        rows *= min(1.0, float((inverse * free).sum()) / max(float((inverse * meat).sum()), 1e-300))
    return 1.0 - min(size / rows, 0.5)


class _Side(NamedTuple):
    """A window of a step: design, derivatives, reach of dependence, its part in the covariance of the fit.

    ``thin`` and ``few`` are a sample of its rows and their derivatives, each of which stands for ``every`` rows.
    """

    design: Design
    scores: Scores
    lag: int
    spread: Floats
    thin: Design
    few: Scores
    every: float
    swell: Floats | None


class _Step(NamedTuple):
    """Both windows of a step and the inverse Hessian of its fit."""

    num: _Side
    den: _Side
    inverse: Floats


def _side(role: _Role, scores: Scores, meat: Floats, inverse: Floats) -> _Side:
    r"""Return a window of a step, with its part :math:`H^{-1} J H^{-1}` in the covariance of the fit."""
    design, rows = role.design, role.design.shape[0]
    every = max(1, rows // max(_THIN, 4 * design.shape[1]))
    thin = design.thin(every) if every > 1 else design
    few = Scores(*(part[::every] for part in scores))
    return _Side(design, scores, role.lag, inverse @ meat @ inverse, thin, few, rows / thin.shape[0], role.swell)


def _between(before: _Role, now: _Role, alone: Floats, meat: Floats, every: int) -> Floats:
    """Return the covariance of a window's sums in its two roles, given that in each of them alone."""
    if now.lag or before.design is not now.design:
        return _meat(before, now, every)
    # half of what the variance of the sum has beyond both: where weights are squares, half of a Gram matrix is enough
    both, thin = now._replace(score=before.score + now.score), now.thinned(every)
    means = mean_products(thin.design, before.score[::every], thin.design, thin.score, thin.uneven)
    order = (means.T - means) * (now.design.shape[0] / thin.design.shape[0])
    return 0.5 * (_meat(both, both, every) - alone - meat + _swollen(now, order))


def _beyond(told: Told, stand_in: _Role, then: Floats, inverse: Floats) -> Floats:
    """Return what a numerator's own sums add to the covariance that its stand-in shows."""
    n, score = len(stand_in.score), stand_in.score / told.before
    gram, scored, squared = (stand_in.design.gram(values / n) for values in (np.ones(n), score, score * score))
    return told_beyond(told, gram, scored, squared, then, inverse, stand_in.swell)


def _closed(past: Uncertainty, alone: Floats, both: Floats, step: _Step, beyond: Floats | float) -> Floats:
    r"""Return the covariance of all closed windows, to which the numerator of this step now belongs.

    Its influence is the sum of that in its two roles, before as a denominator and now as a numerator:

    .. math:: \operatorname{Var}(H_-^{-1} \textstyle\sum_i g^-_i T^-_i + H^{-1} \sum_i g_i T_i)

    ``beyond`` is what is known of it that the rows at hand do not show.
    """
    cross = past.inverse_hessian @ both @ step.inverse
    closed = step.num.spread + cross + cross.T + past.inverse_hessian @ alone @ past.inverse_hessian.T
    return positive(closed + beyond + past.covariance - step.inverse @ _bilinear(step) @ step.inverse)


def _origin(num: _Role, inverse: Floats) -> tuple[Floats, Floats]:
    """Return the covariance of (coefficients, constant) with the original's feature means, and that of the means."""
    design, share, lag = num.design, num.share, num.lag
    origin = -inverse @ _swollen(num, long_run(design, num.score, design, share, lag, num.uneven))
    spread = long_run(design, share, design, share, lag, num.uneven)
    return origin, spread


def _bilinear(step: _Step) -> Floats:
    r"""Return the variance of the windows' joint effect, :math:`\delta H_a H^{-1} g_b + \delta H_b H^{-1} g_a`.

    Curvatures have sampling errors, so a window's two roles do not cancel completely. The remainder is a product of
    both windows' errors, which the influence of each window contains in full: summed over windows it counts twice, as
    in the jackknife (Efron and Stein, *The jackknife estimate of variance*, 1981). It has to be subtracted once.
    """
    num, den, inverse = step
    rows_a, score_a, bend_a = _paired(num)
    rows_b, score_b, bend_b = _paired(den)
    both, bent = np.zeros_like(inverse), rows_b * bend_b[:, None]
    right_a, left_a = inverse @ score_a.T, inverse @ rows_a.T
    for at in chunks(len(rows_b), _STRETCH):  # effects of all pairs at once take room that the system has to clear
        kernel = rows_b[at] @ right_a
        kernel *= score_b[at] @ left_a
        both += (bent[at].T @ kernel) @ (rows_a * bend_a[:, None])
    return _bent(num, den.spread) + _bent(den, num.spread) + both + both.T


def _bent(side: _Side, spread: Floats) -> Floats:
    """Return the covariance of a window's curvature times errors whose covariance is ``spread``."""
    if side.lag == 0:
        bend, thin = side.few.second, side.thin
        mean = thin.gram(bend)
        total = thin.gram(bend**2 * thin.forms(spread)) - mean @ spread @ mean / thin.shape[0]
        return _swollen(side, total * side.every)
    values, vectors = np.linalg.eigh(0.5 * (spread + spread.T))
    noise = np.random.default_rng(0).normal(size=(len(spread), _DRAWS))
    draws = (vectors * np.sqrt(np.maximum(values, 0.0))) @ noise
    errors = [side.scores.second * side.design.dot(draw) for draw in draws.T]
    return np.asarray(np.mean([long_run(side.design, e, side.design, e, side.lag) for e in errors], axis=0))


def _paired(side: _Side) -> tuple[Floats, Floats, Floats]:
    """Return some rows T, their scores g (T - mean) added to those of dependent rows, and curvatures, scaled up."""
    n, lag = side.design.shape[0], side.lag
    every = 1 if lag else max(1, n // _PAIRS)
    stop = min(n, 2 * _PAIRS + 4 * lag) if lag else n
    rows = side.design.take(0, stop, every)
    pulled = (rows - rows.mean(0)) * side.scores.first[:stop:every, None]
    if lag:
        near = np.pad(pulled, ((lag + 1, lag), (0, 0))).cumsum(0)
        pulled = near[2 * lag + 1 :] - near[: -2 * lag - 1]
    elif side.swell is not None:
        pulled *= side.swell
    return rows, pulled, side.scores.second[:stop:every] * (n / rows.shape[0])


def _bias(step: _Step, centred: bool) -> Floats:
    r"""Return the mean error of a step's coefficients to second order: :math:`H^{-1}` times both windows' parts."""
    spread = step.num.spread + step.den.spread
    sides = (step.num, step.den)
    return np.asarray(step.inverse @ sum(_pull(side, step.inverse, spread, centred) for side in sides))


def _pull(side: _Side, inverse: Floats, spread: Floats, centred: bool) -> Floats:
    r"""Return a window's part in the bias of an M-estimator, before :math:`H^{-1}`.

    .. math:: \sum_i g_i g_i' (T_i^\top H^{-1} T_i) T_i - \tfrac12 \sum_i g_i'' (T_i^\top \Sigma T_i) T_i

    Reference: Rilstone, Srivastava, Ullah, *The second-order bias and mean squared error of nonlinear estimators*,
    1996. ``centred`` takes the first sum as a covariance, less the product of the means of both factors.
    """
    first, second, third = side.few
    pairs, bent = first * second * side.thin.forms(inverse), 0.5 * third * side.thin.forms(spread)
    if side.swell is None and not centred:
        return side.thin.pull(pairs - bent) * side.every
    own = side.thin.pull(pairs)
    if centred:
        own = own - side.thin.gram(second) @ inverse @ side.thin.pull(first) / len(first)
    return ((1.0 if side.swell is None else side.swell) * own - side.thin.pull(bent)) * side.every
