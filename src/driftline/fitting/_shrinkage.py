r"""How much to hold back a log-ratio of many features: the strength of the ridge by the loss expected on new rows.

The strengths are compared by generalised cross-validation of least squares on the labels of the windows, which is the
loss to second order in the drift. Lanczos' method sees the covariance only through products with vectors, and gives
the whole path of strengths at once: the solutions, and by random probes the degrees of freedom.

References: Golub, Heath and Wahba, *Generalized cross-validation as a method for choosing a good ridge parameter*,
1979; Golub and Meurant, *Matrices, Moments and Quadrature*, 2010.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from driftline._inputs import Floats
from driftline.fitting._chunks import Integers
from driftline.fitting._derivatives import Loss
from driftline.fitting._designs import Design
from driftline.fitting._fits import ConvexFit
from driftline.fitting._lanczos import freedoms, lanczos, signs
from driftline.fitting._lbfgs import fit_lbfgs
from driftline.fitting._moments import Moments
from driftline.fitting._newton import bridge_constant
from driftline.fitting._objectives import logistic

__all__ = ["Strengths", "choose_strengths", "fit_shrunk"]

_STRENGTHS = np.geomspace(1e-3, 1e3, 61)  # in variances of a feature: from practically none to practically all
_FAVOUR = 10.0  # prior variance of features of one kind over that of the others, where one kind moves
_OUTSTANDING = 30.0  # and of features that stand out by themselves: next to free, yet still a quick fit


class Strengths(NamedTuple):
    """Ridge of each feature, in variances of it, (p,); infinite if new rows are better off without any.

    ``coef`` (p,) are the coefficients of least squares as log-ratios, in units of the designs, ``dof`` their degrees of
    freedom, ``gain`` the share of the labels' variance that they are expected to explain on new rows, and ``favoured``
    the kind of features that is held back less, -1 for none.
    """

    ridge: Floats
    coef: Floats
    dof: float
    gain: float
    favoured: int


def choose_strengths(of: Moments, kinds: Integers, strong: Integers, repetition: float = 1.0) -> Strengths:
    """Choose the ridge of each feature by generalised cross-validation.

    Arguments:
        of: moments of both windows.
        kinds: kind of each feature (columns 0, squares 1, ...), (p,); one kind may be held back less than the others.
        strong: places of features that stand out by themselves and are hardly held back, (k,).
        repetition: number of rows that are worth one, where neighbours depend on each other.
    """
    present = np.unique(kinds)
    favours: Sequence[int] = [-1, *present.tolist()] if len(present) > 1 else [-1]
    best = Strengths(np.full(len(kinds), np.inf), np.zeros(len(kinds)), 0.0, 0.0, -1)
    for favoured in favours:
        prior = np.where(kinds == favoured, _FAVOUR, 1.0)
        prior[strong] *= _OUTSTANDING
        found = _along(of, prior, favoured, repetition)
        if found.gain > best.gain:
            best = found
    return best


def _along(of: Moments, prior: Floats, favoured: int, repetition: float) -> Strengths:
    """Return the best strength for given prior variances of the features, (p,)."""
    root = np.sqrt(prior)
    runs = lanczos(of.pooled, root, np.concatenate([(root * of.shift)[:, None], signs(len(prior))], axis=1))
    weight = of.share * (1.0 - of.share)
    nodes, masses = runs[0].spectrum()
    shrunk = 1.0 / (nodes + _STRENGTHS[:, None])
    explained = weight * (2.0 * (shrunk @ masses) - (shrunk**2 * nodes) @ masses)
    dof = freedoms(runs[1:], _STRENGTHS)
    loss = (1.0 - explained) / np.maximum(1.0 - repetition * dof / of.rows, 1e-3) ** 2
    at = int(loss.argmin())
    gain = float(1.0 - loss[at])
    beta = weight * root * runs[0].solution(_STRENGTHS[at])
    coef = beta / (weight * max(1.0 - max(gain, 0.0), 1e-3)) / of.scale
    return Strengths(_STRENGTHS[at] / prior, coef, float(dof[at]), gain, favoured)


def fit_shrunk(num: Design, den: Design, loss: Loss, of: Moments, chosen: Strengths) -> ConvexFit:
    """Fit a log-ratio of many features, held back by a ridge of the chosen strengths.

    Its ``info.held_out`` is the loss expected on new rows. Without a drift that new rows would confirm all coefficients
    are 0.

    Arguments:
        num, den: designs of both windows, ending in a column of ones.
        loss: loss of the log-ratios.
        of: their moments.
        chosen: strengths of the ridge.
    """
    n, m = of.rows_num, of.rows_den
    level = loss.rows(np.zeros(n), np.zeros(m))
    steepness = float(level.second_num.sum() + level.second_den.sum())
    # a feature that is held back altogether still needs a finite weight: a million times its curvature
    ridge = np.minimum(chosen.ridge, 1e6) * steepness * of.scale**2 * of.rows
    constant = bridge_constant(num.dot(np.append(chosen.coef, 0.0)), den.dot(np.append(chosen.coef, 0.0)), logistic)
    start = np.append(chosen.coef, constant)
    fit = fit_lbfgs(num, den, loss, ridge=np.append(ridge, 0.0), start=start, tol=1e-5)
    if not chosen.coef.any():
        coef = np.append(np.zeros(len(ridge)), fit.coef[-1])
        fit = fit._replace(coef=coef, log_num=num.dot(coef), log_den=den.dot(coef))
    rows = loss.rows(fit.log_num, fit.log_den)
    squares = float(rows.first_num @ rows.first_num + rows.first_den @ rows.first_den)
    bend = float(rows.second_num.sum() + rows.second_den.sum())
    held_out = rows.loss + (chosen.dof + 1.0) * squares / bend
    return fit._replace(info=fit.info._replace(loss=rows.loss, held_out=held_out))
