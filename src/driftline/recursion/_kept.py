"""What is kept instead of rows: sums of a window for the next step, and what was read while its rows were at hand."""

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from driftline._inputs import Floats
from driftline.fitting import WindowSums
from driftline.inference import DIVERGENCES, Doubt, Estimate, Parts
from driftline.recursion._candidates import Candidates

__all__ = ["LEVELS", "NUMBERS", "Readings", "Sums", "between", "moved_sums", "reading_keys"]

LEVELS = (0.9, 0.95)
"""Confidence levels of the estimates that are read while the rows are at hand."""

NUMBERS = (
    "value",
    "std_error",
    "low",
    "high",
    "level",
    "noise",
    "noise_std",
    "shared",
    "slope",
    "floor",
    "lower_bound",
    "way",
)
"""Fields of an estimate, but for its doubts, in the order in which they are stored."""


class Sums(NamedTuple):
    """Sums of a window, all that the next step needs of it, with D columns, p features, k functions of an auditor.

    Attributes:
        moments: means of features and a one, and of their products.
        coef: coefficients of the step that the window was the denominator of, (p+1,); zero for an original.
        c: its c.
        kappa: its factor, see :func:`~driftline.fitting.weigh`; 0 for an original.
        scored, squared: means of g T T' and g² T T', g the derivative of the loss as the denominator of that step, for
            features and a one, (p+1, p+1), in single precision; zero for an original.
        heap: value that more than half of the rows hold, nan if there is none, (D,).
        off: number of rows that do not hold it, (D,).
        center, spread: place and spread of the rows in units of the original, without what lies far out, (D,).
        watched: means of the auditor's functions, (k,).
        crossed: means of their products with features and a one, (k, p+1), in single precision as the functions are.
        dependent: whether rows depend on each other without end, or are too few for that they do.
        copies, time: numbers of rows that are worth one, as copies and as neighbours of each other.
        swell: by how much sums of features and of a one scatter more than those of independent rows, (p+1,).
        candidates: features that may still join, and the original's means of them.
        hidden: nats that these may have moved by since the original without standing out, and the standard deviation of
            that, (2,).
    """

    moments: WindowSums
    coef: Annotated[Floats, "P+1"]
    c: float
    kappa: float
    scored: Annotated[npt.NDArray[np.float32], "P+1 P+1 half"]
    squared: Annotated[npt.NDArray[np.float32], "P+1 P+1 half"]
    heap: Annotated[Floats, "D"]
    off: Annotated[Floats, "D"]
    center: Annotated[Floats, "D"]
    spread: Annotated[Floats, "D"]
    watched: Annotated[Floats, "m"]
    crossed: Annotated[npt.NDArray[np.float32], "m P+1"]
    dependent: bool
    copies: float
    time: float
    swell: Annotated[Floats, "P+1"]
    candidates: Candidates
    hidden: Annotated[Floats, "2"]

    @property
    def worth(self) -> float:
        """Number of rows that are worth one, whatever the reason."""
        return self.copies * self.time


class PackedReadings(NamedTuple):
    """:class:`Readings` as they are stored: numbers of each estimate, all doubts once, and which belong to which."""

    estimates: Annotated[Floats, "readings 12"]
    known: tuple[Doubt, ...]
    belong: Annotated[npt.NDArray[np.int64], "pairs 2"]
    log_mean: float
    doubts: tuple[Doubt, ...]
    parts: Parts
    large: bool
    coef: Annotated[Floats, "P"]
    log_normalizer: float


class Readings(NamedTuple):
    """What was read of a window while its rows were at hand.

    Attributes:
        estimates: divergences by (whether of the last step alone, kind, level).
        log_mean: logarithm of the mean of original/current.
        doubts: those of the weights.
        parts: what attribution needs.
        large: whether the last step was too large to be measured.
        coef, log_normalizer: coefficients (p,) and constant that log-ratios are read from, drawn towards zero where
            that is what the model does.
    """

    estimates: dict[tuple[bool, str, float], Estimate]
    log_mean: float
    doubts: tuple[Doubt, ...]
    parts: Parts
    large: bool
    coef: Annotated[Floats, "P"]
    log_normalizer: float

    def packed(self) -> PackedReadings:
        """Return the same with numbers of estimates in one array."""
        every = [self.estimates[part] for part in reading_keys()]
        numbers = np.array([[float(getattr(estimate, name)) for name in NUMBERS] for estimate in every])
        known = list(dict.fromkeys(doubt for estimate in every for doubt in estimate.doubts))
        belong = [[i, known.index(doubt)] for i, estimate in enumerate(every) for doubt in estimate.doubts]
        places = np.array(belong, dtype=np.int64).reshape(-1, 2)
        return PackedReadings(numbers, tuple(known), places, *self[1:])

    @classmethod
    def unpacked(cls, packed: PackedReadings) -> Readings:
        """Return what was packed."""
        estimates = {}
        if len(packed.estimates) != len(reading_keys()):
            raise ValueError(f"{len(packed.estimates)} estimates were read instead of {len(reading_keys())}")
        for i, (part, values) in enumerate(zip(reading_keys(), packed.estimates.tolist(), strict=True)):
            doubts = tuple(packed.known[k] for j, k in packed.belong.tolist() if j == i)
            fields: dict[str, Any] = dict(zip(NUMBERS, values, strict=True))
            estimates[part] = Estimate(**fields | {"lower_bound": bool(fields["lower_bound"]), "doubts": doubts})
        return cls(estimates, *packed[3:])


def reading_keys() -> list[tuple[bool, str, float]]:
    """Return what estimates are read of, in the order in which they are stored."""
    return [(of_step, kind, level) for of_step in (False, True) for kind in DIVERGENCES for level in LEVELS]


def moved_sums(sums: Sums, onto: Floats, back: Floats) -> Sums:
    """Return the same sums in other features that span the same functions, exactly.

    ``onto`` (p+1, p+1) maps coefficients to the new features, ``back`` is its inverse: ``T_now = T_past @ back``.
    """

    def products(matrix: npt.NDArray[Any]) -> Floats:
        found = back.T @ matrix @ back
        return np.asarray(0.5 * (found + found.T))

    moments = sums.moments._replace(mean=sums.moments.mean @ back, gram=products(sums.moments.gram))
    return sums._replace(
        moments=moments,
        coef=onto @ sums.coef,
        scored=products(sums.scored).astype(np.float32),
        squared=products(sums.squared).astype(np.float32),
        crossed=(sums.crossed @ back).astype(np.float32),
    )


def between(then: Floats, now: Floats) -> tuple[float, float]:
    """Return the nats that features outside the model may have moved by in a step, and their standard deviation.

    ``then`` and ``now`` are the same since the original, of both windows. Means that have moved by a and by b since the
    original are apart by a + b at most, and (a + b)² is at most 2 a² + 2 b².
    """
    nats, spread = float(then[0] + now[0]), math.hypot(float(then[1]), float(now[1]))
    return (2.0 * nats, 2.0 * spread) if then[1] > 0.0 else (nats, spread)
