"""Results of a fit: coefficients, the derivatives that inference needs, and a report of how it went."""

from __future__ import annotations

from typing import NamedTuple

from driftline._inputs import Floats

__all__ = ["ConvexFit", "FitDivergedError", "FitInfo", "Scores"]


class FitDivergedError(RuntimeError):
    """Error raised when a fit diverges: its loss or weights are not finite, or grow without bound."""


class FitInfo(NamedTuple):
    """Report of a fit. ``held_out`` is the loss expected on new rows, in the units of ``loss``; nan if unknown.

    For networks ``loss`` is the mean over the last epoch's batches, ``held_out`` that of the epoch whose weights
    are kept.
    """

    solver: str
    converged: bool
    iterations: int
    loss: float
    held_out: float
    gradient: float
    seconds: float
    message: str = ""


class Scores(NamedTuple):
    """First, second and third derivatives of the loss with respect to the log-ratio of each row of a window, (n,)."""

    first: Floats
    second: Floats
    third: Floats


class ConvexFit(NamedTuple):
    """Coefficients (p,), with the constant last if the design has one, and the derivatives that inference needs.

    ``num`` and ``den`` hold the derivatives of the loss with respect to the log-ratio of each row, ``hessian`` (p, p)
    the second derivatives with respect to the coefficients; all are empty if the loss is not a sum over rows.
    ``weight`` is the prior's part in the diagonal of ``hessian``, (p,). ``log_num`` and ``log_den`` are the log-ratios.
    """

    coef: Floats
    hessian: Floats
    num: Scores
    den: Scores
    info: FitInfo
    weight: Floats
    log_num: Floats
    log_den: Floats

    @property
    def score_num(self) -> Floats:
        """First derivatives on the numerator, (n,)."""
        return self.num.first

    @property
    def score_den(self) -> Floats:
        """First derivatives on the denominator, (m,)."""
        return self.den.first
