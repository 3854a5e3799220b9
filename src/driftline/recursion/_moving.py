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
from driftline.fitting import Integers, LogLinear, LogLinearDesign, softmax
from driftline.inference import Dependence, Forward, Uncertainty, effective_sample_size, long_run
from driftline.recursion._auditor import Auditor
from driftline.recursion._chance import LEVEL, chance
from driftline.recursion._evidence import start_evidence
from driftline.recursion._problem import prior
from driftline.recursion._projection import Projection, bend_of, onto_new, projected
from driftline.recursion._rare import off_heap
from driftline.recursion._replacements import drawn_by, summarised, widened_for, with_candidates
from driftline.recursion._rows import own_rows
from driftline.recursion._settings import NEWTON_FEATURES, StepSettings
from driftline.recursion._sides import seen_of, side_of, sum_of, variance_of
from driftline.recursion._state import Anchor

__all__ = ["Moved", "moved"]

_SHOWN = 2e-3  # nats of misfit below which nobody asks what is missing
_LOST = 0.01  # nats below which a loss does not matter
_LOST_SHARE = 0.05  # nor below this share of the drift
_SURE = 3.0  # standard errors of a loss that is more than chance
_ROWS_PER_FEATURE = 3.0  # rows that original and window share, for each feature, at least
_FARTHEST = 300.0  # nats; beyond, exponentials overflow


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


def moved(before: Anchor, first: Anchor, settings: StepSettings, t: int) -> Moved | None:
    """Express an anchor in new features; None if that cannot be solved.

    Arguments:
        before: anchor in the previous features, with error bars.
        first: what tracing would begin with if its window, in the new features, were an original.
        settings: settings of steps.
        t: number of steps so far.
    """
    before, missed = with_candidates(before, settings)
    psi, past = first.psi, before.uncertainty
    assert isinstance(psi, LogLinear)
    assert past is not None
    old, z = before.own_design(), psi.standardizer(first.window)
    log_r = np.clip(before.on_window(), -_FARTHEST, _FARTHEST)
    rows = own_rows(before, settings)
    errors = inference.covariance(past)
    psi, offset = summarised(psi, z, log_r)
    features = psi.features
    if settings.model == "auto" and features.size < NEWTON_FEATURES:
        features = widened_for(features, z, log_r - offset, old, errors, rows.effective(len(z)))
    design = LogLinearDesign(features, z)
    fit = projected(design, log_r, offset, settings.ridge * prior(design, design, off_heap(design.z, design.z)))
    if fit is None:
        return None
    onto = onto_new(design, old, fit)
    uncertainty = _uncertainty(past, design, old, onto, fit, rows)
    hidden = _hidden(log_r, fit.log_r, old, errors, rows)
    overlap = float(fit.gain.sum()) / (rows.worth * rows.time)
    weak = hidden > 0.0 and overlap < _ROWS_PER_FEATURE * features.size
    drawn, worth = drawn_by(fit.log_r), effective_sample_size(fit.log_r) / (rows.worth * rows.time)
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


def _uncertainty(
    past: Uncertainty, design: LogLinearDesign, old: LogLinearDesign, onto: Floats, fit: Projection, rows: Dependence
) -> Uncertainty:
    """Return the errors in the new features: those so far, carried over, and those of the fit to the window's rows.

    The window will be used again, as the numerator of the next step; its influence on the last one is kept in terms of
    the new features as far as these express it, and the rest is taken as independent of what follows.
    """
    now, then = design.take(0, design.shape[0], 1), old.take(0, old.shape[0], 1)
    thin, score, own = rows.distinct(design), rows.merged(past.score), rows.merged(fit.pull)
    bread = inference.mirrored(onto @ past.inverse_hessian @ onto.T)
    meat = inference.mirrored(long_run(thin, score, thin, score, rows.lag, rows.shares))
    moving = fit.inverse @ long_run(thin, own, thin, own, rows.lag, rows.shares) @ fit.inverse
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
    spread = rows.spread(weights * (log_r - now - lost))
    return Forward(before.value - lost, before.variance + spread, before.rows)


def _hidden(log_r: Floats, now: Floats, old: LogLinearDesign, errors: Floats, rows: Dependence) -> float:
    """Return the nats of KL(current‖original) that the new features do not show; 0 if that may be noise, or is little.

    Without drift, a log-ratio is noise, half of whose variance is read as drift, and need not be shown.
    """
    apart = now - log_r
    lost, n = float(apart.mean()), len(apart)
    error = float(np.sqrt(rows.spread(apart))) / n
    noise = 0.5 * float(old.forms(errors).mean())
    least = max(_LOST, _LOST_SHARE * float(-log_r.mean()), _SURE * error + 2.0 * noise)
    return lost if lost > least else 0.0


def _misses(
    auditor: Auditor,
    design: LogLinearDesign,
    old: LogLinearDesign,
    fit: Projection,
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
    bend = rows.merged(bend_of(fit))
    slopes = fit.inverse @ ((now * bend[:, None]).T @ seen.values)
    rest = (seen.values - now @ slopes).astype(np.float32)
    live = np.flatnonzero(np.einsum("ij,ij->j", rest, rest) > 1e-2 * seen.spread)
    side = side_of(rest, pull, rows.lag)
    by = (rest * gain[:, None]).T @ then
    variance = variance_of(side) + by @ errors @ by.T
    return chance(sum_of(rest, pull), variance, live, [side]) < LEVEL


def _followed(auditor: Auditor, before: Auditor | None, t: int, missed: bool) -> Auditor:
    """Return a new auditor that knows whether the one before had spoken, and what it could not look at."""
    since, gaps = (0, t) if before is None else (before.since, before.gaps)
    return auditor._replace(steps=t, since=since or (t if missed else 0), gaps=gaps)
