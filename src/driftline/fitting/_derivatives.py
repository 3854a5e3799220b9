"""Derivatives of a loss with respect to the log-ratio of each row: what solvers ask for, and differences of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from driftline._inputs import Floats

__all__ = ["Loss", "Rows", "second_differences"]


class Rows(NamedTuple):
    """A loss and its first and second derivatives with respect to the log-ratio of each row, (n,) and (m,)."""

    loss: float
    first_num: Floats
    first_den: Floats
    second_num: Floats
    second_den: Floats


class Loss(Protocol):
    """A loss of log-ratios (n,) and (m,), as solvers see it."""

    @property
    def separable(self) -> bool:
        """Whether it is a sum over rows, so that Newton's method and influence values apply."""
        ...

    def slopes(self, num: Floats, den: Floats) -> tuple[float, Floats, Floats]:
        """Return the loss and its first derivatives."""
        ...

    def rows(self, num: Floats, den: Floats) -> Rows:
        """Return the loss, its first and its second derivatives; the latter assume that it is separable."""
        ...

    def third(self, num: Floats, den: Floats) -> tuple[Floats, Floats]:
        """Return the third derivatives, if it is separable."""
        ...


def second_differences(
    rows: Callable[[Floats, Floats], Rows], num: Floats, den: Floats, width: float = 1e-3
) -> tuple[Floats, Floats]:
    """Return third derivatives by central differences of the second ones."""
    upper, lower = rows(num + width, den + width), rows(num - width, den - width)
    third_num = (upper.second_num - lower.second_num) / (2.0 * width)
    return third_num, (upper.second_den - lower.second_den) / (2.0 * width)
