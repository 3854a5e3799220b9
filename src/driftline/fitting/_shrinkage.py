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
from driftline.fitting._derivatives import Loss
from driftline.fitting._designs import Design
from driftline.fitting._features import Integers
from driftline.fitting._fits import ConvexFit
from driftline.fitting._lbfgs import fit_lbfgs
from driftline.fitting._newton import bridge_constant
from driftline.fitting._objectives import logistic
from driftline.fitting._wide import Moments

__all__ = ["Shrunk", "Strengths", "choose_strengths", "fit_shrunk"]

_STRENGTHS = np.geomspace(1e-3, 1e3, 61)  # in variances of a feature: from practically none to practically all
_LANCZOS = 48  # products; more change the chosen strength by less than a step of the path
_PROBES = 3  # random vectors for degrees of freedom: with thousands of features each knows them to a few per cent
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


def choose_strengths(of: Moments, kinds: Integers, strong: Integers) -> Strengths:
    """Choose the ridge of each feature by generalised cross-validation.

    Arguments:
        of: moments of both windows.
        kinds: kind of each feature (columns 0, squares 1, ...), (p,); one kind may be held back less than the others.
        strong: places of features that stand out by themselves and are hardly held back, (k,).
    """
    present = np.unique(kinds)
    favours: Sequence[int] = [-1, *present.tolist()] if len(present) > 1 else [-1]
    best = Strengths(np.full(len(kinds), np.inf), np.zeros(len(kinds)), 0.0, 0.0, -1)
    for favoured in favours:
        prior = np.where(kinds == favoured, _FAVOUR, 1.0)
        prior[strong] *= _OUTSTANDING
        found = _along(of, prior, favoured)
        if found.gain > best.gain:
            best = found
    return best


def _along(of: Moments, prior: Floats, favoured: int) -> Strengths:
    """Return the best strength for given prior variances of the features, (p,)."""
    rng = np.random.default_rng(0)
    root = np.sqrt(prior)
    starts = np.concatenate([(root * of.shift)[:, None], rng.choice([-1.0, 1.0], (len(prior), _PROBES))], axis=1)
    single = root.astype(np.float32)[:, None]
    runs = _lanczos(lambda v: single * (of.pooled @ (single * v)), starts)
    weight = of.share * (1.0 - of.share)
    nodes, masses = runs[0].spectrum()
    shrunk = 1.0 / (nodes + _STRENGTHS[:, None])
    explained = weight * (2.0 * (shrunk @ masses) - (shrunk**2 * nodes) @ masses)
    spectra = [run.spectrum() for run in runs[1:]]
    dof = np.mean([(values / (values + _STRENGTHS[:, None])) @ mass for values, mass in spectra], axis=0)
    loss = (1.0 - explained) / np.maximum(1.0 - dof / of.rows, 1e-3) ** 2
    at = int(loss.argmin())
    gain = float(1.0 - loss[at])
    beta = weight * root * runs[0].solution(_STRENGTHS[at])
    coef = beta / (weight * max(1.0 - max(gain, 0.0), 1e-3)) / of.scale
    return Strengths(_STRENGTHS[at] / prior, coef, float(dof[at]), gain, favoured)


class _Run(NamedTuple):
    """Lanczos' method from one vector: its length, the basis (k, p) and the tridiagonal matrix in it (k, k)."""

    size: float
    basis: Floats
    inner: Floats

    def spectrum(self) -> tuple[Floats, Floats]:
        """Return nodes and masses that stand for the spectrum of the matrix as the vector sees it."""
        values, vectors = np.linalg.eigh(self.inner)
        return np.maximum(values, 0.0), (self.size * vectors[0]) ** 2

    def solution(self, ridge: float) -> Floats:
        """Return the solution of (matrix + ridge) x = vector, (p,)."""
        unit = np.zeros(len(self.inner))
        unit[0] = self.size
        return np.asarray(np.linalg.solve(self.inner + ridge * np.eye(len(unit)), unit) @ self.basis)


def _lanczos(product, starts: Floats) -> list[_Run]:  # type: ignore[no-untyped-def]
    """Run Lanczos' method from several vectors (p, b) at once, with full orthogonalisation."""
    p, b = starts.shape
    steps = min(_LANCZOS, p)
    sizes = np.linalg.norm(starts, axis=0)
    basis, inner = np.zeros((b, steps, p)), np.zeros((b, steps, steps))
    q = starts / np.maximum(sizes, 1e-300)
    for k in range(steps):
        basis[:, k] = q.T
        w = product(q.astype(np.float32)).astype(np.float64)
        for j in range(b):
            for _ in range(2):  # once leaves rounding errors that grow
                along = basis[j, : k + 1] @ w[:, j]
                w[:, j] -= along @ basis[j, : k + 1]
                inner[j, k, k] += along[k]
            if k + 1 < steps:
                length = float(np.linalg.norm(w[:, j]))
                enough = length > 1e-5  # below it the vectors so far span all that the start sees
                inner[j, k, k + 1] = inner[j, k + 1, k] = length if enough else 0.0
                q[:, j] = w[:, j] / length if enough else 0.0
    return [_Run(float(sizes[j]), basis[j], inner[j]) for j in range(b)]


class Shrunk(NamedTuple):
    """A log-ratio held back by the ridge that suits new rows: the fit, its constant last among the coefficients."""

    fit: ConvexFit
    strengths: Strengths


def fit_shrunk(num: Design, den: Design, loss: Loss, of: Moments, kinds: Integers, strong: Integers) -> Shrunk:
    """Fit a log-ratio of many features with a ridge chosen by generalised cross-validation.

    Its ``info.held_out`` is the loss expected on new rows. Without a drift that new rows would confirm all coefficients
    are 0.

    Arguments:
        num, den: designs of both windows, ending in a column of ones.
        loss: loss of the log-ratios.
        of, kinds, strong: as in :func:`choose_strengths`.
    """
    chosen = choose_strengths(of, kinds, strong)
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
    return Shrunk(fit._replace(info=fit.info._replace(loss=rows.loss, held_out=held_out)), chosen)
