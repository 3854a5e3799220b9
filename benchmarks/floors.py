"""Floors: below the truth whatever the model, and how far below.

Seeds begin at 800,000, unused while the method was built.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.results import INF, Bar, Result
from benchmarks.streams import (
    ColumnStream,
    HeavyClustersStream,
    LatentClassStream,
    PairStream,
    SkewedStream,
    StillStream,
    truth,
)
from driftline import ContinualDensityRatio
from driftline.synthetic import GaussianStream, MixtureStream

FIRST_SEED = 800_000
REPLICATES = 200
ROWS = 4_000
_BELOW: Bar = (0.97, INF)
_TIMES = (0, 1, 5, 20)  # the original, the window that cells are fixed with, and two that are judged

CASES: dict[str, Any] = {
    "gaussian": GaussianStream(dim=5, delta=0.025),
    "still": StillStream(GaussianStream(dim=5, delta=0.025)),
    "mixture": MixtureStream(dim=5),
    "latent": LatentClassStream(),
    "heavy": HeavyClustersStream(),
    "skewed": SkewedStream(),
    "column": ColumnStream(),
    "pair": PairStream(),
}
"""Streams by name; the last two are those whose drift one column or pair carries."""

LEAST = {"column": 0.2, "pair": 0.2}
"""Smallest median share of the truth at t=20 that is asked for."""


def run(name: str, seeds: int) -> Iterator[Result]:
    """Measure the share of floors below the truth, and the median floor as a share of it."""
    stream = CASES[name]
    found = np.array([_floors(stream, FIRST_SEED + i) for i in range(REPLICATES)])
    what = f"floor, {name}, {REPLICATES} replicates"
    for t, floors in zip(_TIMES[2:], found.T, strict=True):
        yield Result(f"{what}, t={t}: share below the truth", -1, float((floors <= truth(stream, t)).mean()), _BELOW)
    if (last := truth(stream, _TIMES[-1])) > 0.0:
        share = float(np.median(found[:, 1])) / last
        yield Result(f"{what}, t=20: median / truth", -1, share, (LEAST[name], INF) if name in LEAST else None)


def _floors(stream: Any, seed: int) -> list[float]:
    """Return the floors at t=5 and t=20; a coarse model will do, since they do not depend on it."""
    rng = np.random.default_rng(seed)
    x = {t: stream.sample(t, ROWS, rng) for t in _TIMES}
    estimator = ContinualDensityRatio(model="linear", random_state=seed).fit(x[0]).partial_fit(x[1])
    return [estimator.partial_fit(x[t]).divergence().floor for t in _TIMES[2:]]
