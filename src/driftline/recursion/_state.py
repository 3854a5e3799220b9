"""The state that the recursion carries: for each original its anchor, psi and window, and nothing that grows with t."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from driftline.fitting import FitInfo, LogLinear, Network, Psi, Stacked, Standardizer, log_mean_exp
from driftline.inference import Forward, Uncertainty, choose_lag
from driftline.recursion._screening import Evidence
from driftline.recursion._settings import StepSettings

__all__ = ["Anchor", "State", "Step", "Track", "arrive", "has_past", "reach", "standardizer_of"]


class Anchor(NamedTuple):
    """What a step starts from: psi, its normaliser c, and the window they belong to. log r = psi - c.

    ``lag`` is the reach of dependence between rows of the window.
    """

    psi: Psi
    log_normalizer: float
    window: Tensor
    uncertainty: Uncertainty | None = None
    evidence: Evidence | None = None
    lag: int = 0
    forward: Forward = Forward()

    def log_ratio(self, x: Tensor) -> Tensor:
        """log original/current of raw rows (n, D)."""
        return self.psi(x) - self.log_normalizer


class Step(NamedTuple):
    """The anchor a step arrives at, how its fit went, and the normalised log step ratio on both windows."""

    anchor: Anchor
    fit: FitInfo
    log_num: Tensor
    log_den: Tensor
    parameters: int
    note: str = ""

    @property
    def divergence(self) -> float:
        """KL(window‖window of the anchor before) in nats, as the step ratio has it."""
        return float(-self.log_den.mean())


class Track(NamedTuple):
    """One original: the anchor its next step starts from, and where it is now, which users ask about.

    ``step_log_ratio`` is the last step's normalised log-ratio on the current window, (n,), empty before the first.
    ``held`` counts the windows for which the anchor has stayed.
    """

    tau: int
    anchor: Anchor
    current: Anchor
    step_log_ratio: Tensor
    held: int


class State(NamedTuple):
    """All tracks by name, and the time t. Nothing in it grows with t."""

    tracks: dict[str, Track]
    t: int


def arrive(anchor: Anchor, window: Tensor, psi: Psi, constant: float, settings: StepSettings, lag: int = 0) -> Anchor:
    """Make the anchor after a step, its normaliser telescoped (c_t = c_{t-1} - constant) or taken on the window."""
    if settings.normalizer == "self":
        return Anchor(psi, float(log_mean_exp(psi(window))), window, lag=lag)
    return Anchor(psi, anchor.log_normalizer - constant, window, lag=lag)


def reach(z: Tensor, settings: StepSettings) -> int:
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
    """Return the frozen standardisation that is part of psi."""
    assert isinstance(psi, LogLinear | Network | Stacked)
    return psi.standardizer
