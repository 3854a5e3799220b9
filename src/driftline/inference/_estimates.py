"""Estimate: a value with its error bar, and the reasons not to trust it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from driftline.inference._doubts import Doubt

__all__ = ["Estimate", "withheld"]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its standard error and the interval ``[low, high]`` of the stated level.

    Attributes:
        noise: mean reading of the same rows with no drift at all; it is subtracted, so that without drift ``value``
            scatters around 0 on both sides. ``nan`` if unknown.
        noise_std: standard deviation of ``value`` with no drift.
        shared: share of this noise that comes from the original, and so is the same in all later windows.
        slope: rate at which the variance of ``value`` grows with the truth.
        doubts: reasons not to trust it; empty if there are none.

    >>> print(Estimate(1.25, 0.1, 1.054, 1.446, 0.95))
    1.25 ± 0.1 (95% interval 1.054 to 1.446)
    """

    value: float
    std_error: float
    low: float
    high: float
    level: float
    noise: float = math.nan
    noise_std: float = math.nan
    shared: float = math.nan
    slope: float = math.nan
    doubts: tuple[Doubt, ...] = ()

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        if not math.isfinite(self.std_error):
            return f"{self.value:.4g} (no interval)"
        level = f"{100 * self.level:.4g}%"
        return f"{self.value:.4g} ± {self.std_error:.2g} ({level} interval {self.low:.4g} to {self.high:.4g})"


def withheld(estimate: Estimate) -> Estimate:
    """Return an estimate without its interval, where nothing is known about its error."""
    return replace(
        estimate,
        std_error=math.nan,
        low=-math.inf,
        high=math.inf,
        noise=math.nan,
        noise_std=math.nan,
        shared=math.nan,
        slope=math.nan,
    )
