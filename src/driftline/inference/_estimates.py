"""Estimate: a value with its error bar, and the reasons not to trust it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from numbers import Real

from driftline._markup import card
from driftline._wording import qualifier
from driftline.inference._doubts import Doubt

__all__ = ["Estimate", "opened", "unsettled", "withheld"]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its standard error and the interval ``[low, high]`` of the stated level.

    It is ordered and formatted as its value is, ``est > 0.1``, ``f"{est:.3f}"``, ``float(est)``; two are equal only if
    everything about them is.

    Attributes:
        noise: mean reading of the same rows with no drift at all; it is subtracted, so that without drift ``value``
            scatters around 0 on both sides. ``nan`` if unknown.
        noise_std: standard deviation of ``value`` with no drift.
        shared: share of this noise that comes from the original, and so is the same in all later windows.
        slope: rate at which the variance of ``value`` grows with the truth.
        way: standard deviation of the part of its error that the windows in between have left: it is there even if the
            stream is back where it began.
        floor: bound that the truth falls below with chance (1 - ``level``) / 2 or less, whatever the model: from counts
            and held-out rows; of ``reverse_kl`` only, ``nan`` if unknown.
        doubts: reasons not to trust it; empty if there are none.
        lower_bound: whether it is known that the truth may be larger than the model can say; ``high`` is then the
            largest value there is, infinite but for bounded divergences. ``value`` and ``low`` are still the model's,
            and the truth is at least as large as the greater of ``low`` and ``floor``, which is what texts say.

    >>> print(Estimate(1.25, 0.1, 1.054, 1.446, 0.95))
    1.25 ± 0.1 (95% interval 1.054 to 1.446)
    >>> print(Estimate(1.25, 0.1, 1.054, 1.446, 0.95, floor=0.62))
    1.25 ± 0.1 (95% interval 1.054 to 1.446; at least 0.62 whatever the model)
    >>> print(opened(Estimate(0.25, 0.1, 0.054, 0.446, 0.95), most=1.0))
    at least 0.25 ± 0.1 (95% interval from 0.054)
    >>> print(opened(Estimate(-0.002, 0.0015, -0.004, 0.001, 0.95, floor=0.41)))
    at least 0.41 (95% interval from 0.41, whatever the model, which reads -0.002 ± 0.0015)
    >>> print(unsettled(Estimate(8.4, 0.3, 7.8, 9.0, 0.95, floor=0.62)))
    about 8.4 (not measured in all steps; at least 0.62 whatever the model)
    >>> estimate = Estimate(1.25, 0.1, 1.054, 1.446, 0.95)
    >>> estimate
    <Estimate 1.25 ± 0.1 (95% interval 1.054 to 1.446)>
    >>> f"{estimate:.3f}", estimate > 0.1, max(estimate, 0.0) is estimate, round(estimate, 1)
    ('1.250', True, True, 1.2)
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
    floor: float = math.nan
    lower_bound: bool = False
    way: float = 0.0

    @property
    def has_floor(self) -> bool:
        """Whether the floor says something: more than 0, and more than a twentieth of the value."""
        return self.floor > 0.05 * max(self.value, 0.0)

    def __float__(self) -> float:
        return self.value

    def __round__(self, digits: int | None = None) -> float:
        return round(self.value, digits)

    def __lt__(self, other: object) -> bool:
        number = _number(other)
        return NotImplemented if number is None else self.value < number

    def __le__(self, other: object) -> bool:
        number = _number(other)
        return NotImplemented if number is None else self.value <= number

    def __gt__(self, other: object) -> bool:
        number = _number(other)
        return NotImplemented if number is None else self.value > number

    def __ge__(self, other: object) -> bool:
        number = _number(other)
        return NotImplemented if number is None else self.value >= number

    def __format__(self, spec: str) -> str:
        """Format the value; without a specification, everything that :func:`str` says."""
        return format(self.value, spec) if spec else str(self)

    def __repr__(self) -> str:
        doubts = ", ".join(str(doubt.code) for doubt in self.doubts)
        return f"<Estimate {self}{'; doubts: ' + doubts if doubts else ''}>"

    def _repr_html_(self) -> str:
        """Return what notebooks show: the value with its interval, and every doubt."""
        return card(str(self), (), (f"{doubt.code}: {doubt}" for doubt in self.doubts))

    def __str__(self) -> str:
        least = f"; at least {self.floor:.4g} whatever the model" if self.has_floor else ""
        if not math.isfinite(self.std_error):
            return f"{self.value:.4g} (no interval{least})"
        if qualifier(replace(self, high=math.inf) if self.lower_bound else self) == "about ":
            return f"about {self.value:.4g} (not measured in all steps{least})"
        level = f"{100 * self.level:.4g}%"
        reading = f"{self.value:.4g} ± {self.std_error:.2g}"
        if not self.lower_bound and math.isfinite(self.high):  # Records keep no upper end of a lower bound
            return f"{reading} ({level} interval {self.low:.4g} to {self.high:.4g}{least})"
        low = f"{level} interval from {self.floor if self.floor > max(self.low, 0.0) else self.low:.4g}"
        if self.floor > max(self.value, 0.0):
            return f"at least {self.floor:.4g} ({low}, whatever the model, which reads {reading})"
        return f"at least {reading} ({low}{least})"


def _number(other: object) -> float | None:
    """Return the number that an estimate is compared with; None if it is not one."""
    if isinstance(other, Estimate):
        return other.value
    return float(other) if isinstance(other, Real) else None


def opened(estimate: Estimate, most: float = math.inf) -> Estimate:
    """Return an estimate as a lower bound: nothing but ``most``, the largest value there is, bounds it from above."""
    return replace(estimate, high=max(most, estimate.value), lower_bound=True)


def unsettled(estimate: Estimate, most: float = math.inf) -> Estimate:
    """Return an estimate that rests on a step which could not be measured: it may be too high as well as too low.

    Its lower end is what plain counts show, the floor, or 0, and it is no lower bound any more. One that is closed and
    promises no more than that stays as it is.
    """
    floor = estimate.floor if estimate.floor > 0.0 else 0.0
    lifts = estimate.lower_bound and estimate.low < floor < estimate.value
    if estimate.low > floor or lifts:
        return replace(estimate, low=floor, high=max(most, estimate.high), lower_bound=False)
    return estimate


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
