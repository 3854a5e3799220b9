"""Floors: below the truth whatever the model, and how far below.

Seeds begin at 800,000, unused while the method was built.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from benchmarks.results import INF, Bar, Result
from benchmarks.streams import HeavyClustersStream, LatentClassStream, SkewedStream, StillStream
from driftline import ContinualDensityRatio
from driftline._inputs import Floats
from driftline.synthetic import GaussianStream, MixtureStream

FIRST_SEED = 800_000
REPLICATES = 200
ROWS = 4_000
_BELOW: Bar = (0.97, INF)
_TIMES = (0, 1, 5, 20)  # the original, the window that cells are fixed with, and two that are judged

Draw = Callable[[int, np.random.Generator], Floats]


class Case(NamedTuple):
    """Windows by time, the truth at t=5 and t=20, and the smallest median share of it at t=20 that is asked for."""

    draw: Draw
    truths: tuple[float, float]
    least: float | None = None


def _stream(stream: Any) -> Case:
    rng = np.random.default_rng(99)
    found = (-float(stream.log_ratio(stream.sample(t, 200_000, rng), t).mean()) for t in _TIMES[2:])
    return Case(lambda t, rng: stream.sample(t, ROWS, rng), (max(next(found), 0.0), max(next(found), 0.0)))


def _column(columns: int) -> Case:
    """One normal column moves by its standard deviation."""

    def draw(t: int, rng: np.random.Generator) -> Floats:
        x = rng.standard_normal((ROWS, columns))
        x[:, 0] += t / 20.0
        return x

    return Case(draw, (0.5 * 0.25**2, 0.5), 0.2)


def _pair(columns: int) -> Case:
    """Two normal columns become correlated."""

    def draw(t: int, rng: np.random.Generator) -> Floats:
        x, rho = rng.standard_normal((ROWS, columns)), 0.8 * t / 20.0
        x[:, 1] = rho * x[:, 0] + np.sqrt(1.0 - rho * rho) * x[:, 1]
        return x

    def truth(t: int) -> float:
        return float(-0.5 * np.log1p(-((0.8 * t / 20.0) ** 2)))

    return Case(draw, (truth(5), truth(20)), 0.2)


CASES: dict[str, Callable[[], Case]] = {
    "gaussian": lambda: _stream(GaussianStream(dim=5, delta=0.025)),
    "still": lambda: _stream(StillStream(GaussianStream(dim=5, delta=0.025))),
    "mixture": lambda: _stream(MixtureStream(dim=5)),
    "latent": lambda: _stream(LatentClassStream()),
    "heavy": lambda: _stream(HeavyClustersStream()),
    "skewed": lambda: _stream(SkewedStream()),
    "column": lambda: _column(10),
    "pair": lambda: _pair(10),
}
"""Streams by name; the last two are those whose drift one column or pair carries."""


def run(name: str, seeds: int) -> Iterator[Result]:
    """Measure the share of floors below the truth, and the median floor as a share of it."""
    case = CASES[name]()
    found = np.array([_floors(case.draw, FIRST_SEED + i) for i in range(REPLICATES)])
    what = f"floor, {name}, {REPLICATES} replicates"
    for t, floors, truth in zip(_TIMES[2:], found.T, case.truths, strict=True):
        yield Result(f"{what}, t={t}: share below the truth", -1, float((floors <= truth).mean()), _BELOW)
    if case.truths[1] > 0.0:
        share = float(np.median(found[:, 1])) / case.truths[1]
        yield Result(f"{what}, t=20: median / truth", -1, share, None if case.least is None else (case.least, INF))


def _floors(draw: Draw, seed: int) -> list[float]:
    """Return the floors at t=5 and t=20; a coarse model will do, since they do not depend on it."""
    rng = np.random.default_rng(seed)
    x = {t: draw(t, rng) for t in _TIMES}
    estimator = ContinualDensityRatio(model="linear", random_state=seed).fit(x[0]).partial_fit(x[1])
    return [estimator.partial_fit(x[t]).divergence().floor for t in _TIMES[2:]]
