"""A step where rows are few for the features: the ratio is held back, its divergences are not."""

from __future__ import annotations

import math

import numpy as np

from driftline import inference
from driftline._inputs import Floats
from driftline.fitting import (
    LogLinear,
    LogLinearDesign,
    Loss,
    bridge_constant,
    feature_kinds,
    fit_wide,
    logistic,
    loss_of,
)
from driftline.inference import LEAST_SLACK
from driftline.recursion._auditor import unseen
from driftline.recursion._problem import Problem
from driftline.recursion._rows import Curved, depends, reach
from driftline.recursion._settings import NEWTON_FEATURES, StepSettings
from driftline.recursion._state import Anchor, Step, arrive

__all__ = ["crowded", "goes_wide", "is_convex", "wide_step", "window_rows"]

_MODELS = ("auto", "quadratic", "linear")
# Features that are rarely other than 0, such as pixels, upset Newton's error bars sooner; with so many, the noise that
# is subtracted here is known well, and it is worth the parts of columns, which this way has not.
_MANY = 100
_MANY_SHARE = 0.1  # parameters per row of both windows: there a step doubts that its rows suffice


def crowded(features: int, rows: float) -> bool:
    """Say whether rows of both windows are too few for Newton's error bars, or the features too many for it."""
    share = _MANY_SHARE if features >= _MANY else 1.0 - LEAST_SLACK
    return features >= NEWTON_FEATURES or features + 1 > share * rows


def goes_wide(anchor: Anchor, problem: Problem, loss: Loss, settings: StepSettings) -> bool:
    """Say whether a step is to be taken by :func:`wide_step`: the first one decides, and the others follow it."""
    plain = settings.model in _MODELS and settings.normalizer == "telescoped" and loss.separable
    if not plain or not problem.continues or problem.offset_num is not None or problem.features.others:
        return False
    if not problem.first:
        return anchor.wide is not None
    return crowded(
        problem.features.size,
        len(problem.z_num) / problem.rows_num.worth + len(problem.z_den) / problem.rows_den.worth,
    )


def window_rows(den: LogLinearDesign, problem: Problem, settings: StepSettings) -> inference.Dependence:
    """Return how the rows of the new window depend on each other; copies are known already."""
    features, repeats = problem.features, problem.rows_den.repeats
    rows = Curved(den.live, len(features.squares) if features.curved else None)
    return depends(rows, reach(rows, settings, repeats), repeats, settings)


def wide_step(anchor: Anchor, window: Floats, problem: Problem, loss: Loss, settings: StepSettings) -> Step:
    """Fit the increment to the next window, held back by as much as new rows advise."""
    features, known = problem.features, anchor.design
    num = known if isinstance(known, LogLinearDesign) and known.features is features else None
    num = LogLinearDesign(features, problem.z_num) if num is None else num
    den = LogLinearDesign(features, problem.z_den)
    rows_num, rows_den = problem.rows_num, window_rows(den, problem, settings)
    loss, note = (loss, "") if is_convex(loss) else (loss_of(logistic), "fitted by the logistic loss, as rows are few")
    found = fit_wide(
        num,
        den,
        loss,
        feature_kinds(features),
        lag_num=rows_num.lag,
        lag_den=rows_den.lag,
        repeats_num=rows_num.repeats,
        repeats_den=rows_den.repeats,
    )
    fit = found.fit
    log_num, log_den = fit.log_num - fit.coef[-1], fit.log_den - fit.coef[-1]
    constant = bridge_constant(log_num, log_den, settings.objective)
    psi = LogLinear(anchor.psi.standardizer, features, problem.coef + fit.coef[:-1])
    arrived = arrive(anchor, window, psi, constant, settings, rows_den)._replace(
        design=den,
        wide=inference.advance_wide(anchor.wide, found, (rows_num.endless, rows_den.endless)),
        wide_step=inference.advance_wide(None, found, (rows_num.endless, rows_den.endless)),
        auditor=anchor.auditor and unseen(anchor.auditor),
    )
    parameters = math.ceil(found.strengths.dof) + 1  # those that are left free
    telescoped = anchor.log_normalizer - constant
    return Step(arrived, fit.info, log_num + constant, log_den + constant, telescoped, parameters, note)


def is_convex(loss: Loss) -> bool:
    """Say whether a loss is convex in log-ratios near 0; others have no minimum where features tell rows apart."""
    bends = loss.rows(np.zeros(1), np.zeros(1))
    return bool(bends.second_num.min() >= 0.0 and bends.second_den.min() >= 0.0)
