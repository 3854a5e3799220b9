"""Measures that compare generated samples with real ones that were kept."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import numpy.typing as npt

from driftline.evaluation.metrics import fid, kid, neighbours, prd

__all__ = ["compare"]

Floats = npt.NDArray[np.float64]


def compare(real: Floats, generated: Floats, measures: Collection[str], random_state: int) -> dict[str, float]:
    """Compute those of the measures that need both samples, rows of features (n, D).

    >>> rows = np.random.default_rng(0).normal(size=(100, 2))
    >>> {measure: round(value, 6) for measure, value in compare(rows, rows, ("js", "recall"), 0).items()}
    {'recall': 1.0}
    """
    found: dict[str, float] = {}
    if "fid" in measures:
        found["fid"] = fid(real, generated)
    if "kid" in measures:
        found["kid"] = kid(real, generated, random_state=random_state).mean
    if {"prd_f8", "prd_f1_8"} & set(measures):
        curve = prd(real, generated, random_state=random_state)
        found.update(prd_f8=curve.f_8, prd_f1_8=curve.f_1_8)
    if {"precision", "recall", "density", "coverage"} & set(measures):
        found.update(neighbours(real, generated)._asdict())
    return {measure: value for measure, value in found.items() if measure in measures}
