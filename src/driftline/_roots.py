"""Roots of functions of one number, without the half second of CPU that SciPy's package of optimisers takes to load."""

from __future__ import annotations

import sys
from collections.abc import Callable

__all__ = ["root"]

_RELATIVE = 4.0 * sys.float_info.epsilon
_MOST = 100  # steps; bisection alone would need about 60


def root(function: Callable[[float], float], low: float, high: float, tolerance: float = 2e-12) -> float:
    """Return a root between two points where the signs of a function differ, by Brent's method, as SciPy's ``brentq``.

    Reference: Brent, *Algorithms for Minimization without Derivatives*, 1973, chapter 4.

    >>> round(root(lambda x: x * x - 2.0, 0.0, 2.0), 9)
    1.414213562
    """
    before, here = low, high
    f_before, f_here = function(before), function(here)
    if f_before == 0.0 or f_here == 0.0:
        return before if f_before == 0.0 else here
    if (f_before < 0.0) == (f_here < 0.0):
        raise ValueError(f"the function has the same sign at {low:.6g} and {high:.6g}")
    other, f_other, last, step = before, f_before, here - before, here - before  # the root is between here and other
    for _ in range(_MOST):
        if f_before != 0.0 and (f_before < 0.0) != (f_here < 0.0):
            other, f_other = before, f_before
            last = step = here - before
        if abs(f_other) < abs(f_here):  # the better end is here
            before, here, other = here, other, here
            f_before, f_here, f_other = f_here, f_other, f_here
        least, half = 0.5 * (tolerance + _RELATIVE * abs(here)), 0.5 * (other - here)
        if f_here == 0.0 or abs(half) < least:
            return here
        trial = None
        if abs(last) > least and abs(f_here) < abs(f_before):
            trial = _interpolated(before, here, other, f_before, f_here, f_other)
        if trial is not None and 2.0 * abs(trial) < min(abs(last), 3.0 * abs(half) - least):
            last, step = step, trial
        else:
            last = step = half
        before, f_before = here, f_here
        here += step if abs(step) > least else least if half > 0.0 else -least
        f_here = function(here)
    raise ValueError(f"no root found between {low:.6g} and {high:.6g} in {_MOST} steps")


def _interpolated(
    before: float, here: float, other: float, f_before: float, f_here: float, f_other: float
) -> float | None:
    """Return the step to the root of a line through two points or, if there are three, of an inverse parabola."""
    if before == other:
        return -f_here * (here - before) / (f_here - f_before)
    d_before, d_other = (f_before - f_here) / (before - here), (f_other - f_here) / (other - here)
    below = d_other * d_before * (f_other - f_before)
    return -f_here * (f_other * d_other - f_before * d_before) / below if below != 0.0 else None
