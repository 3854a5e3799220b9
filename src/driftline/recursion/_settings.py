"""Settings of a step: the estimators' parameters, checked and resolved."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from driftline._errors import Option
from driftline._extras import needs
from driftline.fitting import ModuleFactory, Objective, Progress, Training, logistic

__all__ = ["NEWTON_FEATURES", "Policy", "StepSettings", "is_network", "penalty_for"]

NEWTON_FEATURES = 1500  # with more, a factorisation costs more than L-BFGS


@dataclass(frozen=True)
class StepSettings:
    """Settings of a step."""

    objective: Objective = logistic
    model: str | ModuleFactory = "auto"
    hidden: tuple[int, ...] = (256, 256)
    normalizer: str = "telescoped"
    penalty: float = 0.0
    penalty_shrinks: bool = False
    ridge: float = 1.0
    lag: int | None = None
    training: Training = field(default_factory=Training)
    device: str = "auto"
    warm_start: bool = True
    polish: bool = True
    seed: int = 0
    progress: Progress | None = None
    names: tuple[str, ...] | None = None
    keep: str = "rows"

    def __post_init__(self) -> None:
        if is_network(self.model):
            needs("torch", Option("model", self.model) if isinstance(self.model, str) else "a model that is a network")


@dataclass(frozen=True)
class Policy:
    """Rule for moving the anchor to the current window; ``enough`` and ``too_much`` are nats of KL(current‖anchor)."""

    kind: str = "every"
    enough: float = 0.3
    too_much: float = 3.0
    max_hold: int = 20


def penalty_for(settings: StepSettings, rows: int) -> float:
    """Return lambda_c for windows of this many rows: as set, or A / sqrt(n), for which the paper's Theorem 1 holds."""
    return settings.penalty / math.sqrt(rows) if settings.penalty_shrinks else settings.penalty


def is_network(model: str | ModuleFactory) -> bool:
    """Say whether the model is fitted by the mini-batch loop."""
    return callable(model) or model == "mlp"
