"""Improved precision and recall, density and coverage: shares of rows within reach of the other sample."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.distance import cdist

from driftline._inputs import as_rows

__all__ = ["Neighbours", "neighbours"]


class Neighbours(NamedTuple):
    """Four measures of generated against real samples; all are near 1 when the samples are alike.

    Attributes:
        precision: share of generated rows within reach of a real row; its reach is to the k-th nearest real row.
        recall: share of real rows within reach of a generated row.
        density: mean number of real rows within whose reach a generated row lies, over k; robust to a single outlier.
        coverage: share of real rows with a generated row within reach.
    """

    precision: float
    recall: float
    density: float
    coverage: float


def neighbours(real: Any, generated: Any, *, k: int = 5) -> Neighbours:
    """Compute precision and recall (Kynkäänniemi et al., 2019), density and coverage (Naeem et al., 2020).

    Arguments:
        real, generated: features (n, D) and (m, D).
        k: rank of the neighbour in its own sample to which a row reaches.

    >>> x, y = np.random.default_rng(0).standard_normal((2, 500, 3))
    >>> alike, apart = neighbours(x, y), neighbours(x, y + 9.0)
    >>> alike.coverage > 0.9, apart.coverage
    (True, 0.0)
    """
    rows = as_rows(real, "real", copy=False)
    fakes = as_rows(generated, "generated", width=rows.shape[1], of="real", copy=False)
    if not 1 <= k < min(len(rows), len(fakes)):
        raise ValueError(f"k={k} must be at least 1 and below the {min(len(rows), len(fakes))} rows of a sample")
    # one routine for all distances, so that equal rows are equally far apart in either sample
    reach_real, reach_fake = _reach(rows, k), _reach(fakes, k)
    inside, covered, recalled = np.zeros(len(fakes)), np.zeros(len(rows), bool), np.zeros(len(rows), bool)
    for start in range(0, len(rows), _BLOCK):
        block = slice(start, start + _BLOCK)
        distances = cdist(rows[block], fakes)
        within = distances <= reach_real[block, None]
        inside += within.sum(0)
        covered[block] = within.any(1)
        recalled[block] = (distances <= reach_fake).any(1)
    return Neighbours(
        float((inside > 0).mean()), float(recalled.mean()), float(inside.mean() / k), float(covered.mean())
    )


_BLOCK = 1024  # rows whose distances to all others are held at once


def _reach(rows: Any, k: int) -> Any:
    """Return the distance of each row to its k-th nearest other row; a duplicate counts, at distance 0."""
    parts = [cdist(rows[start : start + _BLOCK], rows) for start in range(0, len(rows), _BLOCK)]
    return np.concatenate([np.partition(part, k, axis=1)[:, k] for part in parts])
