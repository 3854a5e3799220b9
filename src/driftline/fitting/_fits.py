"""What a fit gives: coefficients, the derivatives that inference needs, and how it went."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

__all__ = ["ConvexFit", "FitDivergedError", "FitInfo", "Scores"]


class FitDivergedError(RuntimeError):
    """The fit ran away: the loss or the weights are no longer finite numbers."""


class FitInfo(NamedTuple):
    """How a fit went. ``held_out`` is the loss expected on new rows (nan for L-BFGS), in the units of ``loss``.

    For networks ``loss`` is the mean over the last epoch's batches, ``held_out`` that of the best epoch, which is kept.
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
    """Derivatives of the loss in the log-ratio of each row of a window: first, second, third; (n,) each."""

    first: Tensor
    second: Tensor
    third: Tensor


class ConvexFit(NamedTuple):
    """Coefficients (p,) (the constant is the last if the design has one) and what inference needs at the solution.

    ``num`` and ``den`` hold the derivatives of the loss in the log-ratio of each row, ``hessian`` (p, p) is that in the
    coefficients; they are empty where the loss is not a sum over rows. ``weight`` is the prior's part in its diagonal.
    """

    coef: Tensor
    hessian: Tensor
    num: Scores
    den: Scores
    info: FitInfo
    weight: float = 0.0

    @property
    def score_num(self) -> Tensor:
        """First derivatives on the numerator, (n,)."""
        return self.num.first

    @property
    def score_den(self) -> Tensor:
        """First derivatives on the denominator, (m,)."""
        return self.den.first
