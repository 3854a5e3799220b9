"""What is kept of the errors of a ratio between steps, and the same in other features."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Annotated, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from driftline._inputs import Floats
from driftline.fitting import Design, Integers, chunks

__all__ = [
    "LEAST_SLACK",
    "UNSUPPORTED",
    "UNSUPPORTED_ORIGINAL",
    "Forward",
    "Quiet",
    "Uncertainty",
    "covariance",
    "joined_later",
    "log_ratio_std",
    "mirrored",
    "of_step",
    "optimism",
    "padded",
    "placed",
    "projection",
    "reframed",
    "transported",
    "without_rows",
]

UNSUPPORTED = 0.0  # slack of a step one of whose windows has too few effective rows for error bars
UNSUPPORTED_ORIGINAL = -1.0  # slack of all steps from an original that has too few
LEAST_SLACK = 0.8  # with more parameters than a fifth of the rows, expansions around the truth no longer hold


class Quiet(NamedTuple):
    """What counts of rows say of a reading with no drift, where columns have rare values.

    Attributes:
        dof: number of coefficients that the rows inform; 0 if no column has rare values.
        excess: variance, in squared chi-squares, that counts of rare events have beyond that of normal ones.
        first: effective rows of the original.
        before: effective rows of the last step's numerator.
    """

    dof: float = 0.0
    excess: float = 0.0
    first: float = 0.0
    before: float = 0.0


class Uncertainty(NamedTuple):
    """Covariance of (coefficients, constant) from the closed windows, and the last window's share as denominator.

    ``meat`` and ``meat_num`` are the scores' covariances in the last step, on its denominator and its numerator.
    ``bias`` is the mean error of (coefficients, constant), to second order, over all steps; ``step_bias`` that of the
    last step. ``first`` is the original's part in the covariance, ``origin_spread`` the covariance of its feature
    means, ``origin`` that of (coefficients, constant) with them, ``mean`` these means and ``known`` whether they are
    known, which they are not for features that joined later. ``slack`` is 1 - parameters/rows, by which
    inverse_hessian has been divided; where rows depend on each other too much for error bars, it says so instead
    (``UNSUPPORTED``, or ``UNSUPPORTED_ORIGINAL`` from then on). ``quiet`` is what is known of readings without drift
    from counts alone. Shapes for p features: score (n,), both biases (p+1,),
    mean and known (p,), all others (p+1, p+1); where rows are not kept, ``score`` and ``meat_num`` are empty once the
    last step has been read.
    """

    covariance: Annotated[Floats, "P+1 P+1 half"]
    inverse_hessian: Annotated[Floats, "P+1 P+1 half"]
    meat: Annotated[Floats, "P+1 P+1 half"]
    meat_num: Annotated[Floats, "m m half"]
    score: Annotated[Floats, "N"]
    bias: Annotated[Floats, "P+1"]
    step_bias: Annotated[Floats, "P+1"]
    first: Annotated[Floats, "P+1 P+1 half"]
    origin: Annotated[Floats, "P+1 u"]
    origin_spread: Annotated[Floats, "u u half"]
    mean: Annotated[Floats, "v"]
    known: Annotated[npt.NDArray[np.bool_], "v"]
    slack: float
    quiet: Quiet


class Forward(NamedTuple):
    """KL(original‖current), summed up along the way.

    Attributes:
        value: sum, over all steps, of the original's mean of the step's log-ratio.
        variance: variance of these means, as sums over rows.
        rows: smallest number of effective rows that one of them rests on.
    """

    value: float = 0.0
    variance: float = 0.0
    rows: float = math.inf


def placed(
    past: Uncertainty, positions: Integers, size: int, means: tuple[Integers, Floats] | None = None
) -> Uncertainty:
    """Return ``past`` with its features at these positions among ``size - 1`` present ones, then the constant.

    ``means`` are features whose mean in the original is known although they join only now, and these means.
    """
    if past.covariance.shape[0] == size:
        return past
    at = np.append(positions, size - 1)

    def place(matrix: Floats) -> Floats:
        out = np.zeros((size, size))
        out[np.ix_(at, at)] = matrix
        return out

    bias, mean, known = np.zeros(size), np.zeros(size - 1), np.zeros(size - 1, dtype=np.bool_)
    bias[at] = past.bias
    mean[positions], known[positions] = past.mean, past.known
    if means is not None:
        mean[means[0]], known[means[0]] = means[1], True
    return past._replace(
        covariance=place(past.covariance),
        inverse_hessian=place(past.inverse_hessian),
        bias=bias,
        first=place(past.first),
        origin=place(past.origin),
        origin_spread=place(past.origin_spread),
        mean=mean,
        known=known,
    )


def padded(last: Uncertainty, positions: Integers, size: int) -> Uncertainty:
    """Return what belongs to the last step alone at these positions among ``size - 1`` features, then the constant.

    Features that join after a step have no part in it.
    """
    at = np.append(positions, size - 1)
    meat, meat_num, bias = np.zeros((size, size)), np.zeros((size, size)), np.zeros(size)
    meat[np.ix_(at, at)], meat_num[np.ix_(at, at)], bias[at] = last.meat, last.meat_num, last.step_bias
    return last._replace(meat=meat, meat_num=meat_num, step_bias=bias)


def reframed(past: Uncertainty, onto: Floats, back: Floats) -> Uncertainty:
    """Return the same uncertainty in other features that span the same functions, for a step to start from.

    What belongs to the last step alone stays as it was: the next step replaces it. ``onto`` (p+1, p+1) maps
    coefficients to the new features, so ``T_past = T_now @ onto``; ``back`` is its inverse.
    """

    def of_coefficients(matrix: Floats) -> Floats:
        return mirrored(onto @ matrix @ onto.T)

    def of_features(matrix: Floats) -> Floats:
        return mirrored(back.T @ matrix @ back)

    return past._replace(
        covariance=of_coefficients(past.covariance),
        inverse_hessian=of_coefficients(past.inverse_hessian),
        bias=onto @ past.bias,
        first=of_coefficients(past.first),
        origin=onto @ past.origin @ back,
        origin_spread=of_features(past.origin_spread),
        mean=(np.append(past.mean, 1.0) @ back)[:-1],
    )


def mirrored(matrix: npt.NDArray[Any]) -> Floats:
    """Return a symmetric matrix whose halves agree to the last digit: files hold one of them."""
    return np.where(_lower(len(matrix)), matrix, matrix.T)


@lru_cache(maxsize=32)
def _lower(size: int) -> npt.NDArray[np.bool_]:
    """Return where the lower half of a matrix is, with its diagonal."""
    return np.tri(size, dtype=np.bool_)


def transported(past: Uncertainty, onto: Floats) -> Uncertainty:
    """Express ``past`` in present features, which ``onto`` (p+1, q+1) maps to the past ones: T_past ~ T_now @ onto."""
    return past._replace(
        covariance=onto @ past.covariance @ onto.T,
        inverse_hessian=onto @ past.inverse_hessian,
        bias=onto @ past.bias,
        first=onto @ past.first @ onto.T,
        origin=onto @ past.origin,
    )


def projection(now: Floats, before: Floats) -> Floats:
    """Fit past features as a linear map of present ones, by least squares over rows: ``before ~ now @ onto``."""
    gram = now.T @ now
    gram[np.diag_indices_from(gram)] += 1e-6 * float(gram.diagonal().mean()) + 1e-12
    return np.asarray(np.linalg.solve(gram, now.T @ before), dtype=np.float64)


def without_rows(uncertainty: Uncertainty) -> Uncertainty:
    """Return what later steps and new rows need once the last step has been read."""
    return uncertainty._replace(score=np.zeros(0), meat_num=np.zeros((0, 0)))


def optimism(uncertainty: Uncertainty) -> float:
    r"""Return the expected loss on new rows less that on fitted ones, :math:`\operatorname{tr}(H^{-1}J)` (Takeuchi)."""
    return float((uncertainty.inverse_hessian * (uncertainty.meat_num + uncertainty.meat)).sum())


def of_step(uncertainty: Uncertainty) -> Uncertainty:
    """Return the uncertainty of the last step's ratio alone, with its numerator as the original."""
    a = uncertainty.inverse_hessian
    alone = a @ uncertainty.meat_num @ a
    quiet = uncertainty.quiet._replace(first=uncertainty.quiet.before)
    return uncertainty._replace(covariance=alone, first=alone, bias=uncertainty.step_bias, quiet=quiet)


def joined_later(coef: Floats, uncertainty: Uncertainty) -> npt.NDArray[np.bool_]:
    """Say which features in use joined after the original, so that its mean of them is unknown; (p,)."""
    return np.asarray(~uncertainty.known & (coef != 0.0))


def covariance(uncertainty: Uncertainty) -> Floats:
    """Return the covariance of (coefficients, constant) from all windows, (p+1, p+1)."""
    a = uncertainty.inverse_hessian
    return uncertainty.covariance + a @ uncertainty.meat @ a


def log_ratio_std(uncertainty: Uncertainty, design: Design) -> Floats:
    """Return the pointwise standard error of the log-ratio, (n,).

    In double precision, which ``forms`` is not: singly, the last digit of a covariance that rows in several places add
    up to otherwise than in one shows up to 1e-7.
    """
    spread, out = covariance(uncertainty), np.empty(design.shape[0])
    for at in chunks(len(out)):
        rows = design.take(at.start, at.stop, 1)
        out[at] = np.einsum("ij,ij->i", rows @ spread, rows)
    return np.sqrt(np.maximum(out, 0.0))
