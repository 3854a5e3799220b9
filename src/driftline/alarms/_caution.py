"""Caution: estimates that are not to be called normal, though no limit is exceeded."""

from __future__ import annotations

import math

from driftline._causes import Cause
from driftline._wording import is_bound
from driftline.inference import WITHHOLDING, DoubtCode, Estimate

__all__ = ["caution", "is_withheld", "why_withheld"]

_ROUGH = (DoubtCode.OUTLIER, DoubtCode.NOISE_UNKNOWN, DoubtCode.EXTRAPOLATED)  # an error bar is rough with these
_LARGE = 0.1  # nats that are large whatever the tolerance: a column has moved by nearly half a standard deviation


def is_withheld(estimate: Estimate) -> bool:
    """Say whether an interval was withheld: rows are too few, repeat or depend on each other, or nothing varies."""
    return math.isnan(estimate.std_error) and any(doubt.code in WITHHOLDING for doubt in estimate.doubts)


def why_withheld(*estimates: Estimate) -> str:
    """Say why estimates have no error bar: the first doubt that explains it, or what usually does."""
    codes = (*WITHHOLDING, DoubtCode.NO_ERROR_BARS)
    found = (str(doubt) for e in estimates for doubt in e.doubts if doubt.code in codes)
    return next(found, "too few rows, or a model that has none")


def caution(divergence: Estimate, tolerance: float) -> Cause | None:
    """Return why nobody knows whether a drift with an error bar is within the tolerance; None if there is no reason.

    A lower bound may be of any drift, and so may what rests on a step that could not be measured; a floor beyond the
    tolerance needs no model to be right. An error bar that one
    row or one assumption makes is no reason for calm, nor is one so wide that a large drift stays below the limit.

    >>> caution(Estimate(1.4, 0.6, 0.4, 2.9, 0.95), tolerance=0.1)
    <Cause.WIDE_INTERVAL: 'wide_interval'>
    """
    if divergence.lower_bound:
        return Cause.LOWER_BOUND
    if is_bound(divergence) or any(doubt.code == DoubtCode.WEAK_STEP for doubt in divergence.doubts):
        return Cause.UNSETTLED
    if divergence.floor > tolerance > 0.0:
        return Cause.LOWER_BOUND
    if divergence.value > tolerance and any(doubt.code in _ROUGH for doubt in divergence.doubts):
        return Cause.DOUBTED
    return Cause.WIDE_INTERVAL if _is_large(divergence, tolerance) else None


def _is_large(divergence: Estimate, tolerance: float) -> bool:
    """Say whether a drift is too large to be called normal, however wide its interval.

    It is if it is twice the tolerance and all of its interval lies beyond that, three times the tolerance anyway, or
    beyond the tolerance with an interval that reaches ten times as far: nobody knows then how far it is. A stream that
    stays at the tolerance shows this rarely, and only where windows are so small that noise is as large as that.
    """
    unit = max(tolerance, _LARGE)
    beyond = divergence.value > max(2.0 * tolerance, _LARGE) and divergence.low > tolerance
    open_ended = divergence.value > unit and divergence.high > 10.0 * unit
    return beyond or open_ended or divergence.value > 3.0 * unit
