"""Doubts: reasons not to trust a number, as values that travel with it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["WITHHOLDING", "Doubt", "DoubtCode"]


class DoubtCode(StrEnum):
    """Short names of the reasons: the first thirteen concern a step, the others a quantity computed after it."""

    NOT_CONVERGED = "not_converged"
    FEW_ROWS = "few_rows"
    LITTLE_OVERLAP = "little_overlap"
    STEP_MEAN_OFF = "step_mean_off"
    OUTLIER = "outlier"
    CONSTANT_MOVED = "constant_moved"
    DRIFT_MISSED = "drift_missed"
    SMALL_STEP = "small_step"
    MODEL_MISSES = "model_misses"
    DEPENDENT_ROWS = "dependent_rows"
    NOTHING_VARIES = "nothing_varies"
    LARGE_STEP = "large_step"
    SITE_MISSING = "site_missing"
    FEW_FOR_WEIGHTS = "few_for_weights"
    FEW_FOR_DIVERGENCE = "few_for_divergence"
    FEW_FOR_KL = "few_for_kl"
    FEW_FOR_ATTRIBUTION = "few_for_attribution"
    NOISE_UNKNOWN = "noise_unknown"
    EXTRAPOLATED = "extrapolated"
    NETWORK_ERRORS = "network_errors"
    BELOW_FLOOR = "below_floor"
    WEAK_STEP = "weak_step"
    NO_ERROR_BARS = "no_error_bars"
    NOT_AUDITED = "not_audited"
    DRIFT_HIDDEN = "drift_hidden"
    COUNTER_FELL = "counter_fell"
    NOT_MEASURED = "not_measured"


WITHHOLDING = (DoubtCode.FEW_ROWS, DoubtCode.DEPENDENT_ROWS, DoubtCode.NOTHING_VARIES)
"""Doubts that explain why an estimate has no interval."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """A reason not to trust a number.

    Attributes:
        code: short name of the reason, for programs.
        sentence: the reason in words a user can act on.
        concerns: name of the divergence, or names of the columns, that it is about; empty if it is about all.

    >>> doubt = Doubt(DoubtCode.FEW_ROWS, "30 rows are few for 11 parameters: enlarge the window")
    >>> print(doubt)
    30 rows are few for 11 parameters: enlarge the window
    >>> doubt.code == "few_rows"
    True
    """

    code: DoubtCode
    sentence: str
    concerns: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.sentence
