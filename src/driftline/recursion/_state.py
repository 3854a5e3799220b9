"""What a step starts from and arrives at: settings, positions, steps."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

from torch import Tensor

from driftline import inference
from driftline.fitting import (
    FitInfo,
    LogLinear,
    ModuleFactory,
    Network,
    Objective,
    Progress,
    Psi,
    Stacked,
    Standardizer,
    Training,
    log_mean_exp,
    logistic,
)
from driftline.inference import choose_lag
from driftline.recursion import _screening as screening

__all__ = [
    "MODELS",
    "Position",
    "Settings",
    "Step",
    "arrive",
    "has_past",
    "is_network",
    "penalty_for",
    "reach",
    "standardizer_of",
]

MODELS = ("auto", "linear", "mlp", "quadratic", "quadratic-full")


@dataclass(frozen=True)
class Settings:
    """How steps are taken; the estimators' parameters, resolved."""

    objective: Objective = logistic
    model: str | ModuleFactory = "auto"
    hidden: tuple[int, ...] = (256, 256)
    normalizer: str = "telescoped"
    penalty: float = 0.0
    penalty_shrinks: bool = False
    ridge: float = 1.0
    lag: int | None = None
    training: Training = field(default_factory=Training)
    warm_start: bool = True
    polish: bool = True
    seed: int = 0
    progress: Progress | None = None
    names: tuple[str, ...] | None = None


class Position(NamedTuple):
    """Where an original has got to: psi, its normaliser c, the window it stands on. log r = psi - c.

    ``lag`` is the reach of dependence between rows of the window.
    """

    psi: Psi
    log_normalizer: float
    window: Tensor
    uncertainty: inference.Uncertainty | None = None
    evidence: screening.Evidence | None = None
    lag: int = 0
    forward: inference.Forward = inference.Forward()

    def log_ratio(self, x: Tensor) -> Tensor:
        """log original/current of raw rows (n, D)."""
        return self.psi(x) - self.log_normalizer


class Step(NamedTuple):
    """A new position, how its fit went, and the normalised log step ratio on both windows."""

    position: Position
    fit: FitInfo
    log_num: Tensor
    log_den: Tensor
    parameters: int
    note: str = ""


def penalty_for(settings: Settings, rows: int) -> float:
    """lambda_c for windows of that many rows: as set, or A / sqrt(n), with which the paper's Theorem 1 holds."""
    return settings.penalty / math.sqrt(rows) if settings.penalty_shrinks else settings.penalty


def is_network(model: str | ModuleFactory) -> bool:
    """Whether the model is fitted by the mini-batch loop."""
    return callable(model) or model == "mlp"


def arrive(position: Position, window: Tensor, psi: Psi, constant: float, settings: Settings, lag: int = 0) -> Position:
    """The position after a step, its normaliser telescoped (c_t = c_{t-1} - constant) or taken on the window."""
    if settings.normalizer == "self":
        return Position(psi, float(log_mean_exp(psi(window))), window, lag=lag)
    return Position(psi, position.log_normalizer - constant, window, lag=lag)


def reach(z: Tensor, settings: Settings) -> int:
    """How far standardised rows depend on each other: as set, or as they show."""
    if settings.lag is None:
        return choose_lag(z)
    if settings.lag > z.shape[0] // 8:
        raise ValueError(
            f"lag={settings.lag} is too long for {z.shape[0]} rows: at most {z.shape[0] // 8}, so that there are "
            "independent stretches to compare"
        )
    return settings.lag


def has_past(psi: Psi) -> bool:
    """Whether a step has been taken: psi is no longer the zero it started as."""
    return not isinstance(psi, LogLinear) or bool(psi.coef.any())


def standardizer_of(psi: Psi) -> Standardizer:
    """The frozen standardisation that is part of psi."""
    assert isinstance(psi, LogLinear | Network | Stacked)
    return psi.standardizer
