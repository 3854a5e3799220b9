"""Wide data: rows few for the features. Like windows must read nothing, and moved ones their closed form."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from benchmarks.results import Bar, Result
from driftline import ContinualDensityRatio, Estimate
from driftline._inputs import Floats

MOVED = 20  # columns that share a shift


@dataclass(frozen=True)
class Case:
    """Normal columns, or digits in random order if there are none, some of them shifted evenly over the steps.

    Arguments:
        nats: KL at the end, the same in both directions.
        most: largest distance of the value from it, in nats.
    """

    name: str
    columns: int
    rows: int
    steps: int = 1
    nats: float = 0.0
    most: float = 0.05


CASES = [
    *(Case(f"wide-like-{d}-{steps}", d, 8_000, steps) for d in (784, 2_048) for steps in (1, 2)),
    *(Case(f"wide-shift-{d}-{nats:g}", d, 8_000, 2, nats, 0.1 * nats) for d in (784, 2_048) for nats in (0.5, 2.0)),
    Case("wide-quiet-200", 200, 600, 12, most=0.3),
    Case("wide-digits", 0, 449, 3, most=0.15),
]


def run(case: Case, seeds: int) -> Iterator[Result]:
    """Measure both directions of KL after the last step, and count intervals that hold the truth."""
    held = 0
    for seed in range(seeds):
        windows = _digits(case, seed) if case.columns == 0 else _normal(case, seed)
        estimator = ContinualDensityRatio(random_state=seed)
        for window in windows:
            estimator.partial_fit(window)
        for kind in ("reverse_kl", "kl"):
            found: Estimate = estimator.divergence(kind)
            bar: Bar = (case.nats - case.most, case.nats + case.most)
            yield Result(f"{case.name}: {kind} (truth: {case.nats:g})", seed, found.value, bar)
            held += found.low <= case.nats <= found.high
    yield Result(f"{case.name}: share of intervals that hold the truth", -1, held / (2 * seeds), None)


def _normal(case: Case, seed: int) -> Iterator[Floats]:
    rng = np.random.default_rng(seed)
    for t in range(case.steps + 1):
        window = rng.normal(size=(case.rows, case.columns))
        window[:, :MOVED] += t / case.steps * np.sqrt(2.0 * case.nats / MOVED)
        yield window


def _digits(case: Case, seed: int) -> Iterator[Floats]:
    from sklearn.datasets import load_digits

    rows = np.random.default_rng(seed).permutation(load_digits().data)
    for t in range(case.steps + 1):
        yield rows[t * case.rows : (t + 1) * case.rows]
