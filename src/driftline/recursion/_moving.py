r"""Features that are replaced: the ratio so far in terms of the new ones.

The anchor's window is at hand in the previous features x and in the new ones y. What is left of the ratio in y is
:math:`p(y)/q(y) = E_q[r(x) \mid y]`, so each of its rows counts as :math:`r_i` rows of the original and as one of the
window: the logistic fit of such weighted rows is that ratio. If the new features can express the previous log-ratio,
it is met row by row, and nothing is lost; if they cannot, what they show is less, by an amount that is known.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from driftline import inference
from driftline._inputs import Floats
from driftline.fitting import (
    Features,
    Integers,
    Learned,
    LogLinear,
    LogLinearDesign,
    Monomials,
    Summaries,
    half_inverse,
    monomials,
    refit_density,
    softmax,
)
from driftline.inference import Dependence, Forward, Uncertainty, effective_sample_size, long_run, long_run_variance
from driftline.recursion._auditor import LEVEL, Auditor, chance, seen_of, side_of, sum_of, variance_of
from driftline.recursion._evidence import start_evidence
from driftline.recursion._problem import prior
from driftline.recursion._rare import off_heap
from driftline.recursion._recall import recalled
from driftline.recursion._rows import own_rows
from driftline.recursion._settings import NEWTON_FEATURES, StepSettings
from driftline.recursion._state import Anchor

__all__ = ["Moved", "moved"]

_ROWS = 4000  # of the window, on which candidates are tested
_PRODUCTS = 40  # columns with at most so many of which all products are candidates
_ROWS_PER_PRODUCT = 40.0  # effective rows for each feature from which on all products join
_HINTS = 3.0  # standard errors beyond which a candidate may hold drift
_ERRORS = 4.0  # the same, but hardly by chance
_WORTH = 2e-4  # nats that a candidate adds, at least
_SHOWN = 2e-3  # nats of misfit below which nobody asks what is missing
_LOST = 0.01  # nats below which a loss does not matter
_LOST_SHARE = 0.05  # nor below this share of the drift
_SURE = 3.0  # standard errors of a loss that is more than chance
_ROWS_PER_FEATURE = 3.0  # rows that original and window share, for each feature, at least
_CLUSTERED = 200.0  # effective rows of the weighted window from which it shows where clusters have been
_FARTHEST = 300.0  # nats; beyond, exponentials overflow
_ITERATIONS = 60
_TOLERANCE = 1e-9


class Moved(NamedTuple):
    """An anchor in new features, and what is not known of it.

    Attributes:
        anchor: the anchor.
        hidden: drift in nats that the new features do not show, 0 if not notable.
        weak: whether that is a guess.
        missed: whether there was drift in functions of the previous features that could not be carried over.
    """

    anchor: Anchor
    hidden: float
    weak: bool
    missed: bool


class _Fit(NamedTuple):
    """Log-ratios of the window's rows in the new features, (n,), their coefficients and constant, (p + 1,).

    ``pull`` are the rows' weights as rows of the original, less what the fit explains of them, ``gain`` (n,) their
    weight in how the fit follows the previous log-ratio, ``inverse`` that of the curvature, ``gram`` the curvature
    without a prior.
    """

    log_r: Floats
    coef: Floats
    pull: Floats
    gain: Floats
    inverse: Floats
    gram: Floats


def moved(before: Anchor, first: Anchor, settings: StepSettings, t: int) -> Moved | None:
    """Express an anchor in new features; None if that cannot be solved.

    Arguments:
        before: anchor in the previous features, with error bars.
        first: what tracing would begin with if its window, in the new features, were an original.
        settings: settings of steps.
        t: number of steps so far.
    """
    before, missed = _with_candidates(before, settings)
    psi, past = first.psi, before.uncertainty
    assert isinstance(psi, LogLinear)
    assert past is not None
    old, z = before.own_design(), psi.standardizer(first.window)
    log_r = np.clip(before.on_window(), -_FARTHEST, _FARTHEST)
    rows = own_rows(before, settings)
    errors = inference.covariance(past)
    psi, offset = _summarised(psi, z, log_r)
    features = psi.features
    if settings.model == "auto" and features.size < NEWTON_FEATURES:
        features = _widened(features, z, log_r - offset, old, errors, rows.effective(len(z)))
    design = LogLinearDesign(features, z)
    fit = _projected(design, log_r, offset, settings.ridge * prior(design, design, off_heap(design.z, design.z)))
    if fit is None:
        return None
    onto = _onto(design, old, fit)
    uncertainty = _uncertainty(past, design, old, onto, fit, rows)
    hidden = _hidden(log_r, fit.log_r, old, errors, rows)
    overlap = float(fit.gain.sum()) / (rows.worth * rows.time)
    weak = hidden > 0.0 and overlap < _ROWS_PER_FEATURE * features.size
    drawn, worth = _drawn(fit.log_r), effective_sample_size(fit.log_r) / (rows.worth * rows.time)
    shows = not weak and worth > _ROWS_PER_FEATURE * features.size
    anchor = first._replace(
        psi=psi._replace(features=features, coef=fit.coef[:-1]),
        log_normalizer=-float(fit.coef[-1]),
        uncertainty=_with_means(uncertainty, design, drawn, worth) if shows else uncertainty,
        evidence=None if first.evidence is None else start_evidence(z[drawn] if shows else z, original=shows),
        lag=before.lag,
        rows=rows,
        forward=_forward(before.forward, log_r, fit.log_r, rows),
    )
    if anchor.auditor is not None:
        shown = 0.5 * float(np.square(fit.log_r - log_r).mean())
        speaks = shown > _SHOWN and _misses(anchor.auditor, design, old, fit, errors, rows, psi)
        auditor = _followed(anchor.auditor, before.auditor, t, speaks)
        mean = auditor(z[drawn]).mean(0, dtype=np.float64)
        anchor = anchor._replace(auditor=auditor._replace(mean=mean, rows=worth))
    return Moved(anchor, hidden, weak, missed)


def _with_candidates(before: Anchor, settings: StepSettings) -> tuple[Anchor, bool]:
    """Let candidates join, with their drift so far, as long as the original's means of them are known; else say so.

    In the new features these means will be gone. All products join if there are rows enough, of the others those whose
    scores look like drift, long before they would be sure of it.
    """
    psi, evidence = before.psi, before.evidence
    assert isinstance(psi, LogLinear)
    if evidence is None or settings.model != "auto" or psi.features.size >= NEWTON_FEATURES:
        return before, False
    features, z = psi.features, before.own_design().z
    rows = own_rows(before, settings).effective(len(z))
    pairs = _other_pairs(features)
    likely = _likely(evidence.pair_score, evidence.pair_variance)[pairs[:, 0], pairs[:, 1]]
    every = _affordable(features, pairs, rows)
    bent = _likely(evidence.curve_score, evidence.curve_variance)
    curves, top = np.flatnonzero(bent > _HINTS), max(float(part.max(initial=0.0)) for part in (likely, bent))
    others: tuple[Learned, ...] = ()
    if before.crossed is None and len(curves):  # values of trees for their own rows are those of the last features
        others = (Learned(Monomials(monomials(z.shape[1])[curves]), evidence.shift, evidence.rate),)
    wider = features.extend(z, pairs=pairs if every else pairs[likely > _HINTS], others=others)
    if wider.size == features.size:
        return before, False
    found = recalled(before, LogLinearDesign(wider, z, before.crossed), evidence, settings.ridge)
    if found is None:
        return before, top > _ERRORS
    return found._replace(uncertainty=_placed(before.uncertainty, found.uncertainty, features.positions(wider))), False


def _placed(before: Uncertainty | None, after: Uncertainty | None, at: Integers) -> Uncertainty:
    """Return the uncertainty after features have joined, with what belongs to the last step alone in place, too."""
    assert before is not None
    assert after is not None
    size = len(after.bias)
    places = np.append(at, size - 1)
    meats = []
    for part in (before.meat, before.meat_num):
        meats.append(np.zeros((size, size)))
        meats[-1][np.ix_(places, places)] = part
    bias = np.zeros(size)
    bias[places] = before.step_bias
    return after._replace(meat=meats[0], meat_num=meats[1], step_bias=bias)


def _likely(score: Floats, variance: Floats) -> Floats:
    """Return sums of scores in units of their noise."""
    return np.asarray(np.abs(score) / np.sqrt(np.maximum(variance, 1e-300)) * (variance > 0.0))


def _other_pairs(features: Features) -> Integers:
    """Return all pairs of columns whose products are not features, (k, 2)."""
    known = {tuple(sorted(pair)) for pair in features.pairs.tolist()}
    columns = np.sort(features.linear)
    found = [(a, b) for i, a in enumerate(columns) for b in columns[i + 1 :] if (a, b) not in known]
    return np.array(found, dtype=np.int64).reshape(-1, 2)


def _affordable(features: Features, pairs: Integers, rows: float) -> bool:
    """Say whether there are rows enough for all of these pairs."""
    return rows >= _ROWS_PER_PRODUCT * (features.size + len(pairs))


def _summarised(psi: LogLinear, z: Floats, log_r: Floats) -> tuple[LogLinear, Floats]:
    """Let clusters have been elsewhere in the original, if that explains more of the log-ratio; also return that part.

    The window's rows, drawn by their ratio, are rows of the original; so its clusters are fitted to these.
    """
    nothing = np.zeros(len(z))
    if psi.summaries is None or effective_sample_size(log_r) < _CLUSTERED:
        return psi, nothing
    rows = z[_drawn(log_r)]
    summaries = Summaries(refit_density(psi.summaries.start, rows), psi.summaries.now)
    offset = summaries(z)
    design = LogLinearDesign(psi.features, z)
    if _unexplained(design, log_r - offset) < _unexplained(design, log_r):
        return psi._replace(summaries=summaries), offset
    return psi, nothing


def _drawn(log_r: Floats) -> Integers:
    """Return as many places of rows as there are, each as often as its ratio says (systematic resampling)."""
    places = (np.arange(len(log_r)) + 0.5) / len(log_r)
    return np.minimum(np.searchsorted(np.cumsum(softmax(log_r)), places), len(log_r) - 1)


def _unexplained(design: LogLinearDesign, values: Floats) -> float:
    rows = design.take(0, design.shape[0], 1)
    return float(np.square(values - rows @ inference.projection(rows, values[:, None])[:, 0]).mean())


def _widened(
    features: Features, z: Floats, values: Floats, old: LogLinearDesign, errors: Floats, rows: float
) -> Features:
    """Add products and curved products that the previous log-ratio needs in the new features.

    All products join if there are ``rows`` enough: a turned square is a sum of these. Otherwise a candidate joins if
    its coefficient, alone, is larger than the errors of that log-ratio explain.
    """
    d, every = z.shape[1], max(1, len(z) // _ROWS)
    some, target, past = z[::every], values[::every], old.take(0, old.shape[0], every)
    pairs = _other_pairs(features)
    if _affordable(features, pairs, rows):
        features = features.extend(z, pairs=pairs)
    elif d <= _PRODUCTS and len(pairs):
        found = _needed(features, some, some[:, pairs[:, 0]] * some[:, pairs[:, 1]], target, past, errors)
        features = features.extend(z, pairs=pairs[found]) if len(found) else features
    factors = monomials(d)
    if len(factors):
        found = _needed(features, some, Monomials(factors)(some), target, past, errors)
        if len(found):
            learned = Learned(Monomials(factors[found]), np.zeros(d), np.ones(d))
            features = features.extend(z, others=(learned,))
    return features


def _needed(
    features: Features, z: Floats, candidates: Floats, values: Floats, past: Floats, errors: Floats
) -> Integers:
    """Return the candidates (n, k) that hold a part of the log-ratio which the features do not, beyond its errors."""
    rows = features.design(z)
    if len(z) < 5 * rows.shape[1]:
        return np.zeros(0, dtype=np.int64)
    rest = candidates - rows @ inference.projection(rows, candidates)
    square = np.einsum("ij,ij->j", rest, rest)
    real = square > 1e-6 * np.einsum("ij,ij->j", candidates, candidates)
    square = np.where(real, square, np.inf)
    left = values - rows @ inference.projection(rows, values[:, None])[:, 0]
    coef, by = (rest.T @ left) / square, (rest.T @ past) / square[:, None]
    noise = np.einsum("ij,ij->i", by @ errors, by)
    worth = 0.5 * coef**2 * square / len(z)
    return np.flatnonzero(real & (coef**2 > _HINTS**2 * noise) & (worth > _WORTH))


def _projected(design: LogLinearDesign, log_r: Floats, offset: Floats, ridge: Floats) -> _Fit | None:
    """Fit the ratio of the weighted rows; what too few rows tell stays at the least-squares fit of the log-ratio."""
    rows = design.take(0, design.shape[0], 1)
    start = inference.projection(rows, (log_r - offset)[:, None])[:, 0]
    base, coef = offset + rows @ start, np.zeros(len(start))
    value = _loss(base, log_r, coef, ridge)
    for _ in range(_ITERATIONS):
        u = base + rows @ coef
        share, pull, bend = _scores(u, log_r)
        gram = design.gram(bend)
        half = half_inverse(gram + np.diag(ridge))
        if half is None:
            return None
        gradient = -(pull @ rows) + ridge * coef
        inverse = half.T @ half
        step = -inverse @ gradient
        if float(-gradient @ step) < _TOLERANCE * len(u):
            return _Fit(u, start + coef, pull, share, inverse, gram)
        rate, found = 1.0, value
        for _ in range(30):
            found = _loss(base + rows @ (coef + rate * step), log_r, coef + rate * step, ridge)
            if found <= value + 1e-4 * rate * float(gradient @ step):
                break
            rate *= 0.5
        coef, value = coef + rate * step, found
    return None


def _loss(u: Floats, log_r: Floats, coef: Floats, ridge: Floats) -> float:
    """Return the logistic loss of rows that count r times as the original's and once as the window's."""
    return float((np.exp(log_r) * np.logaddexp(0.0, -u) + np.logaddexp(0.0, u)).sum() + 0.5 * ridge @ coef**2)


def _scores(u: Floats, log_r: Floats) -> tuple[Floats, Floats, Floats]:
    """Return r (1 - s), its difference to s, and the curvature (1 + r) s (1 - s), with s the logistic function of u."""
    share = np.exp(-np.logaddexp(0.0, -u))
    gain = np.exp(log_r - np.logaddexp(0.0, u))
    return gain, gain - share, share * (np.exp(-np.logaddexp(0.0, u)) + gain)


def _onto(design: LogLinearDesign, old: LogLinearDesign, fit: _Fit) -> Floats:
    """Return how coefficients follow those in the previous features, (p + 1, q + 1)."""
    now, then = design.take(0, design.shape[0], 1), old.take(0, old.shape[0], 1)
    plain = inference.projection(now, then)
    followed = (now * fit.gain[:, None]).T @ then
    return np.asarray(plain + fit.inverse @ (followed - fit.gram @ plain))


def _uncertainty(
    past: Uncertainty, design: LogLinearDesign, old: LogLinearDesign, onto: Floats, fit: _Fit, rows: Dependence
) -> Uncertainty:
    """Return the errors in the new features: those so far, carried over, and those of the fit to the window's rows.

    The window will be used again, as the numerator of the next step; its influence on the last one is kept in terms of
    the new features as far as these express it, and the rest is taken as independent of what follows.
    """
    now, then = design.take(0, design.shape[0], 1), old.take(0, old.shape[0], 1)
    thin, score, own = rows.distinct(design), rows.merged(past.score), rows.merged(fit.pull)
    bread = inference.mirrored(onto @ past.inverse_hessian @ onto.T)
    meat = inference.mirrored(long_run(thin, score, thin, score, rows.lag))
    moving = fit.inverse @ long_run(thin, own, thin, own, rows.lag) @ fit.inverse
    back = inference.projection(then, now).T
    size = design.shape[1]
    whole = onto @ inference.covariance(past) @ onto.T + moving
    unknown = np.zeros((size, size))
    return past._replace(
        covariance=inference.mirrored(inference.positive(whole - bread @ meat @ bread)),
        inverse_hessian=bread,
        meat=meat,
        meat_num=inference.mirrored(back @ past.meat_num @ back.T),
        bias=onto @ past.bias,
        step_bias=onto @ past.step_bias,
        first=inference.mirrored(onto @ past.first @ onto.T),
        origin=unknown,  # until it is estimated
        origin_spread=unknown,
        mean=np.zeros(size - 1),
        known=np.zeros(size - 1, dtype=np.bool_),
    )


def _with_means(past: Uncertainty, design: LogLinearDesign, drawn: Integers, worth: float) -> Uncertainty:
    r"""Return the uncertainty with the original's means of features: those of the window's rows drawn by their ratio.

    Their errors are those of as many rows as the weights are ``worth``, and those of the ratio itself: a mean weighted
    by :math:`e^{\theta^\top T}` changes by the covariance of features times the error of coefficients. They serve
    features that join later; as the original's own means, from which KL would follow, they do not count as known.
    """
    shares = np.bincount(drawn, minlength=design.shape[0]) / len(drawn)
    mean = design.pull(shares)
    spread = design.gram(shares) - np.outer(mean, mean)
    return past._replace(
        origin=past.covariance @ spread,
        origin_spread=inference.mirrored(spread / worth + spread @ inference.covariance(past) @ spread),
        mean=mean[:-1],
    )


def _forward(before: Forward, log_r: Floats, now: Floats, rows: Dependence) -> Forward:
    """Return KL(original‖current) in the new features: less what the original's rows lose."""
    weights = softmax(log_r)
    lost = float(weights @ (log_r - now))
    spread = long_run_variance(rows.merged(weights * (log_r - now - lost)), rows.lag)
    return Forward(before.value - lost, before.variance + spread, before.rows)


def _hidden(log_r: Floats, now: Floats, old: LogLinearDesign, errors: Floats, rows: Dependence) -> float:
    """Return the nats of KL(current‖original) that the new features do not show; 0 if that may be noise, or is little.

    Without drift, a log-ratio is noise, half of whose variance is read as drift, and need not be shown.
    """
    apart = now - log_r
    lost, n = float(apart.mean()), len(apart)
    error = float(np.sqrt(long_run_variance(rows.merged(apart), rows.lag))) / n
    noise = 0.5 * float(old.forms(errors).mean())
    least = max(_LOST, _LOST_SHARE * float(-log_r.mean()), _SURE * error + 2.0 * noise)
    return lost if lost > least else 0.0


def _misses(
    auditor: Auditor,
    design: LogLinearDesign,
    old: LogLinearDesign,
    fit: _Fit,
    errors: Floats,
    rows: Dependence,
    psi: LogLinear,
) -> bool:
    """Say whether the ratio has a part in the new features that the model does not hold, as the auditor sees it.

    Rows weighted by the previous ratio and by the new one have the same means of all functions of the new features, up
    to the chance of these rows and the errors of the previous ratio.
    """
    first = slice(None) if rows.repeats is None else rows.repeats.first
    seen = seen_of(auditor(psi.standardizer.original(design.z[first])))
    thin, then = rows.distinct(design), rows.distinct(old).take(0, len(seen.values), 1)
    now, gain, pull = thin.take(0, len(seen.values), 1), rows.merged(fit.gain), rows.merged(fit.pull)
    bend = rows.merged(_bend(fit))
    slopes = fit.inverse @ ((now * bend[:, None]).T @ seen.values)
    rest = (seen.values - now @ slopes).astype(np.float32)
    live = np.flatnonzero(np.einsum("ij,ij->j", rest, rest) > 1e-2 * seen.spread)
    side = side_of(rest, pull, rows.lag)
    by = (rest * gain[:, None]).T @ then
    variance = variance_of(side) + by @ errors @ by.T
    return chance(sum_of(rest, pull), variance, live, [side]) < LEVEL


def _bend(fit: _Fit) -> Floats:
    """Return the curvature of each row."""
    share = np.exp(-np.logaddexp(0.0, -fit.log_r))
    return share * (1.0 - share + fit.gain)


def _followed(auditor: Auditor, before: Auditor | None, t: int, missed: bool) -> Auditor:
    """Return a new auditor that knows whether the one before had spoken, and what it could not look at."""
    since, gaps = (0, t) if before is None else (before.since, before.gaps)
    return auditor._replace(steps=t, since=since or (t if missed else 0), gaps=gaps)
