"""Honesty: what the auditor says where a model is right and where it is not, and alarms on untidy rows.

Seeds begin at 500,000, unused while the method was built.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.results import INF, Result
from benchmarks.streams import BananaStream, StillStream
from benchmarks.untidy import PROMISE, Untidy, watched
from driftline import ContinualDensityRatio, DoubtCode
from driftline.synthetic import GaussianStream, MixtureStream

FIRST_SEED = 500_000
WINDOWS = 20
LOOKS = 5_000  # windows of each kind of rows

RIGHT: dict[str, Any] = {
    "still": StillStream(GaussianStream(dim=5)),
    "gaussian": GaussianStream(dim=5),
    "mixture": MixtureStream(dim=5),
}
"""Streams that the model holds, by name; 5 columns."""
RUNS = 170


def auditor(name: str, seeds: int) -> Iterator[Result]:
    """Measure the share of runs of 20 windows in which the auditor speaks though the model is right."""
    spoke = [heard(RIGHT[name], FIRST_SEED + i, 2_000, WINDOWS) <= WINDOWS for i in range(RUNS)]
    yield Result(f"auditor speaks, {name}, 5 columns: share of {RUNS} runs", -1, float(np.mean(spoke)), 0.01)


def large(seeds: int) -> Iterator[Result]:
    """Measure the same on quiet windows of which the auditor looks at every third row."""
    spoke = [heard(RIGHT["still"], FIRST_SEED + i, 10_000, WINDOWS) <= WINDOWS for i in range(60)]
    yield Result("auditor speaks, still, 5 columns, 10,000 rows: share of 60 runs", -1, float(np.mean(spoke)), 0.02)


BENT = ((4_000, 40), (6_000, 20), (10_000, 20))
"""Rows of a window and runs: of the larger ones the auditor looks at every second or third row."""


def bent(seeds: int) -> Iterator[Result]:
    """Measure when the auditor hears a bend; it is asked about a model that does not follow it, as 'auto' does."""
    stream = BananaStream()
    at = next(t for t in range(1, WINDOWS + 1) if stream.reverse_kl(t) >= 0.1)
    for rows, runs in BENT:
        what = f"auditor speaks, banana, 6 columns, quadratic, {rows:,} rows"
        when = np.array([heard(stream, FIRST_SEED + i, rows, WINDOWS, "quadratic") for i in range(runs)])
        yield Result(f"{what}: share of {runs} runs at 0.1 nats", -1, float((when <= at).mean()), (0.9, INF))
        yield Result(f"{what}: median nats at which", -1, stream.reverse_kl(float(np.median(when))), None)


def heard(stream: Any, seed: int, rows: int, windows: int, model: str = "auto") -> int:
    """Return the window at which the model is first said to miss drift; one more than there are if it never is."""
    rng = np.random.default_rng(seed)
    estimator = ContinualDensityRatio(model=model, random_state=seed).fit(stream.sample(0, rows, rng))
    for t in range(1, windows + 1):
        estimator.partial_fit(stream.sample(t, rows, rng))
        if any(doubt.code == DoubtCode.MODEL_MISSES for doubt in estimator.info_.originals["original"].doubts):
            return t
    return windows + 1


def run_length(case: Untidy, seeds: int) -> Iterator[Result]:
    """Measure realised over promised run length, restarted after each alarm from a new original."""
    found = watched(case, LOOKS, np.random.default_rng(FIRST_SEED))
    mean = found.measured / max(found.alarms, 1) / PROMISE
    what = f"untidy rows, {case.name}"
    if case.bar is None:
        yield Result(f"{what}: undoubted alarms", -1, float(found.alarms), 0.0)
    else:
        yield Result(f"{what}: run length / promise", -1, mean, case.bar)
        yield Result(f"{what}: its standard error", -1, mean / math.sqrt(max(found.alarms, 1)), None)
    yield Result(f"{what}: share of windows withheld", -1, 1.0 - found.measured / LOOKS, None)
    yield Result(f"{what}: alarms that were doubted", -1, float(found.doubted), None)
