"""Precision and recall for distributions: the share of one that could come from the other."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.cluster import MiniBatchKMeans

from driftline._inputs import as_rows

__all__ = ["PRD", "curve", "prd"]

Floats = npt.NDArray[np.float64]


class PRD(NamedTuple):
    """Precision and recall along the curve, (angles,) each, and two summaries of it.

    Attributes:
        precision, recall: pairs attainable at once; recall falls as precision grows.
        f_8: largest F-score that weighs recall eight times, near 1 when all real samples are covered.
        f_1_8: largest F-score that weighs precision eight times, near 1 when all generated samples are realistic.
    """

    precision: Floats
    recall: Floats
    f_8: float
    f_1_8: float


def prd(
    real: Any, generated: Any, *, clusters: int = 20, angles: int = 1001, runs: int = 10, random_state: int = 0
) -> PRD:
    """Compute the curve from the shares of both samples in their joint clusters, averaged over runs of k-means.

    Reference: Sajjadi et al., *Assessing generative models via precision and recall*, 2018. The larger
    sample is cut to the size of the smaller, at random, since clusters would otherwise follow it.

    Arguments:
        real, generated: features (n, D) and (m, D).

    >>> import numpy as np
    >>> x = np.random.default_rng(0).standard_normal((1000, 2))
    >>> same, half = prd(x, x), prd(x, x[x[:, 0] > 0])
    >>> round(same.f_8, 2), half.f_8 < 0.8 < half.f_1_8
    (1.0, True)
    """
    rows = as_rows(real, "real", copy=False)
    fakes = as_rows(generated, "generated", width=rows.shape[1], of="real", copy=False)
    size = min(len(rows), len(fakes))
    if not 2 <= clusters <= 2 * size:
        raise ValueError(f"clusters={clusters} must be between 2 and the {2 * size} rows of both samples")
    if angles < 3 or runs < 1:
        raise ValueError(f"angles={angles} and runs={runs}: need at least 3 angles and 1 run")
    rng = np.random.default_rng(random_state)
    rows, fakes = (x if len(x) == size else x[rng.choice(len(x), size, replace=False)] for x in (rows, fakes))
    both = np.concatenate([rows, fakes])
    found = []
    for _ in range(runs):
        means = MiniBatchKMeans(clusters, n_init=3, random_state=int(rng.integers(2**31)))
        labels = means.fit(both).labels_
        shares = [np.bincount(part, minlength=clusters) / size for part in (labels[:size], labels[size:])]
        found.append(curve(shares[0], shares[1], angles))
    precision, recall = np.mean(found, axis=0)
    return PRD(precision, recall, _best_f(precision, recall, 8.0), _best_f(precision, recall, 1.0 / 8.0))


def curve(real: Floats, generated: Floats, angles: int = 1001) -> tuple[Floats, Floats]:
    r"""Compute precision and recall of two discrete distributions for slopes from 0 to infinity.

    .. math::
        \alpha(\lambda) = \sum_\omega \min(\lambda p(\omega), q(\omega)), \quad \beta(\lambda) = \alpha(\lambda)/\lambda

    >>> precision, recall = curve(np.array([0.5, 0.5]), np.array([1.0, 0.0]))
    >>> float(precision.max()), float(recall.max())
    (1.0, 0.5)
    """
    slopes = np.tan(np.linspace(1e-6, np.pi / 2 - 1e-6, angles))[:, None]
    precision = np.minimum(slopes * real, generated).sum(1)
    return np.clip(precision, 0.0, 1.0), np.clip(precision / slopes[:, 0], 0.0, 1.0)


def _best_f(precision: Floats, recall: Floats, beta: float) -> float:
    weighed = (1.0 + beta**2) * precision * recall / np.maximum(beta**2 * precision + recall, 1e-300)
    return float(weighed.max())
