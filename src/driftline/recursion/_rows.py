"""Rows of a window: how they repeat or depend on each other, and the doubt where too few are left."""

from __future__ import annotations

import math
from typing import NamedTuple

from driftline._inputs import Floats
from driftline.fitting import LogLinear, Repeats, find_repeats
from driftline.inference import (
    UNSUPPORTED,
    UNSUPPORTED_ORIGINAL,
    Dependence,
    Doubt,
    DoubtCode,
    choose_lag,
    correlation_time,
)
from driftline.recursion._settings import StepSettings
from driftline.recursion._state import Anchor

__all__ = ["Curved", "depends", "own_rows", "reach", "unsupported"]


class Curved(NamedTuple):
    """Standardised rows (n, D), and the number of columns, the first ones, whose squares say more; None for all."""

    z: Floats
    squares: int | None = None

    def distinct(self, repeats: Repeats | None) -> Curved:
        """Return the rows without their copies."""
        return self if repeats is None else self._replace(z=self.z[repeats.first])


def reach(rows: Curved, settings: StepSettings, repeats: Repeats | None) -> int:
    """Return the lag over which distinct rows depend on each other: as set, or chosen from the rows."""
    if settings.lag is None:
        return choose_lag(*rows.distinct(repeats))
    n = len(rows.z)
    if settings.lag > n // 8:
        raise ValueError(
            f"lag={settings.lag} is too long for {n} rows: choose at most {n // 8}, so that there "
            "are independent stretches to compare"
        )
    return settings.lag if repeats is None else math.ceil(settings.lag * len(repeats.first) / n)


def depends(rows: Curved, lag: int, repeats: Repeats | None, settings: StepSettings) -> Dependence:
    """Return how rows depend on each other, given their lag; one that is set is taken as long enough."""
    if lag == 0:
        return Dependence(0, repeats)
    time, endless = correlation_time(*rows.distinct(repeats), lag)
    return Dependence(lag, repeats, time, endless and settings.lag is None)


def own_rows(anchor: Anchor, settings: StepSettings) -> Dependence:
    """Return how the rows of an anchor's window depend on each other: as its step has found, or again after loading."""
    if anchor.rows is not None:
        return anchor.rows
    if anchor.sums is not None:
        sums = anchor.sums
        return Dependence(anchor.lag, None, sums.time, sums.dependent, copies=sums.copies)
    repeats, psi = find_repeats(anchor.window), anchor.psi
    if anchor.lag == 0:
        return Dependence(0, repeats)
    if not isinstance(psi, LogLinear):
        return depends(Curved(psi.standardizer(anchor.window)), anchor.lag, repeats, settings)
    features = psi.features
    rows = Curved(anchor.own_design().live, len(features.squares) if features.curved else None)
    return depends(rows, anchor.lag, repeats, settings)


def unsupported(current: Anchor, rows: Dependence) -> tuple[Doubt, ...]:
    """Return the doubt that rows, less those that repeat or depend on others, are too few for error bars, if so."""
    n, size = current.size, 0
    if current.uncertainty is not None:
        slack, size = current.uncertainty.slack, len(current.uncertainty.bias)
    elif current.wide is not None and current.wide_step is not None:
        slack = UNSUPPORTED if math.isnan(current.wide_step.variance) else 1.0
        slack = UNSUPPORTED_ORIGINAL if math.isnan(current.wide.rows_first) else slack
    else:
        return ()
    if slack not in (UNSUPPORTED, UNSUPPORTED_ORIGINAL):
        return ()
    remedy = "enlarge the windows, or set lag= if it is known; rows without an order can be shuffled"
    if rows.supports(n, size):
        which = "the original" if slack == UNSUPPORTED_ORIGINAL else "the window before"
        found = f"rows of {which} are too few for {size} parameters, or repeat or depend on each other too much"
    elif rows.independent and rows.worth == 1.0:
        few = f"{n} rows are few for {size} parameters, so there is no interval: enlarge the window"
        return (Doubt(DoubtCode.FEW_ROWS, few),)
    elif rows.endless:
        found = (
            f"rows look sorted, or depend on each other over {rows.lag} rows or more: about "
            f"{_count(rows.effective(n))} effective rows"
        )
    else:
        kinds = [f"repeat {rows.worth:.3g} times"] * (rows.worth > 1.0)
        kinds += [f"depend on each other over {rows.lag} rows"] * (rows.lag > 0)
        found = f"rows {' and '.join(kinds)}: about {_count(rows.effective(n))} effective rows for {size} parameters"
    return (Doubt(DoubtCode.DEPENDENT_ROWS, f"{found}, so there is no interval; {remedy}"),)


def _count(rows: float) -> str:
    return f"{max(rows, 1.0):,.0f}"
