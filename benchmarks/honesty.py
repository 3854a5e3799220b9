"""Honesty: what the auditor says where a model is right and where it is not, and alarms on untidy rows.

Seeds begin at 500,000, unused while the method was built.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from benchmarks.results import INF, Bar, Result
from benchmarks.streams import BananaStream, StillStream
from driftline import ContinualDensityRatio, DriftAlarm, FitDivergedError, Signal
from driftline._inputs import Floats
from driftline.inference import DoubtCode
from driftline.synthetic import GaussianStream, MixtureStream

FIRST_SEED = 500_000
WINDOWS = 20
PROMISE = 100.0
LOOKS = 5_000  # windows of each kind of rows

Draw = Callable[[int, np.random.Generator], Floats]


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


class Untidy(NamedTuple):
    """Rows that are hard for normal theory, and the run length over its promise that is asked for; None: withheld."""

    key: str
    name: str
    draw: Draw
    rows: int
    bar: Bar = (0.5, 2.0)


def _chain(rho: float, n: int, rng: np.random.Generator, columns: int = 5) -> Floats:
    noise = math.sqrt(1.0 - rho * rho) * rng.standard_normal((n, columns))
    out = np.empty((n, columns))
    out[0] = rng.standard_normal(columns)
    for i in range(1, n):
        out[i] = rho * out[i - 1] + noise[i]
    return out


def _zeros(n: int, rng: np.random.Generator) -> Floats:
    x = rng.lognormal(0.0, 1.0, (n, 5))
    x[rng.random((n, 5)) < 0.7] = 0.0
    return x


def _uneven(n: int, rng: np.random.Generator) -> Floats:
    copies = np.repeat(rng.standard_normal((n, 5)), 1 + rng.poisson(1.0, n), axis=0)
    return rng.permutation(copies[:n])


def _rare(n: int, rng: np.random.Generator) -> Floats:
    x = rng.standard_normal((n, 5))
    x[:, :3] = rng.random((n, 3)) < 0.005
    return x


UNTIDY = [
    Untidy("normal", "independent normal", lambda n, rng: rng.standard_normal((n, 5)), 1_000),
    Untidy("ar-6", "AR(1) .6", lambda n, rng: _chain(0.6, n, rng), 2_000),
    Untidy("ar-9", "AR(1) .9", lambda n, rng: _chain(0.9, n, rng), 2_000),
    Untidy(
        "copies",
        "every row five times",
        lambda n, rng: rng.permutation(np.repeat(rng.standard_normal((n // 5, 5)), 5, 0)),
        1_000,
    ),
    Untidy("uneven", "rows copied unevenly", _uneven, 1_000),
    Untidy("zeros", "zero-inflated", _zeros, 1_000),
    Untidy("lognormal", "lognormal, sigma 2", lambda n, rng: rng.lognormal(0.0, 2.0, (n, 5)), 1_000),
    Untidy("pareto", "Pareto 1.5", lambda n, rng: rng.pareto(1.5, (n, 5)), 1_000),
    Untidy("rare", "three rare-event columns", _rare, 1_000),
    Untidy("ar-98", "AR(1) .98, 300 rows", lambda n, rng: _chain(0.98, n, rng), 300, None),
]


def run_length(case: Untidy, seeds: int) -> Iterator[Result]:
    """Measure realised over promised run length, restarted after each alarm from a new original."""
    found = _watched(case)
    mean = found.measured / max(found.alarms, 1) / PROMISE
    what = f"untidy rows, {case.name}"
    if case.bar is None:
        yield Result(f"{what}: undoubted alarms", -1, float(found.alarms), 0.0)
    else:
        yield Result(f"{what}: run length / promise", -1, mean, case.bar)
        yield Result(f"{what}: its standard error", -1, mean / math.sqrt(max(found.alarms, 1)), None)
    yield Result(f"{what}: share of windows withheld", -1, 1.0 - found.measured / LOOKS, None)
    yield Result(f"{what}: alarms that were doubted", -1, float(found.doubted), None)


class _Found(NamedTuple):
    """Windows with an interval, alarms without a doubt, and alarms with one."""

    measured: int
    alarms: int
    doubted: int


def _watched(case: Untidy) -> _Found:
    rng = np.random.default_rng(FIRST_SEED)
    measured = alarms = doubted = 0
    estimator = alarm = None
    for look in range(LOOKS):
        if estimator is None or alarm is None:
            estimator = ContinualDensityRatio(random_state=look).fit(case.draw(case.rows, rng))
            alarm = DriftAlarm(tolerance=0.0, run_length=PROMISE)
        try:
            estimator.partial_fit(case.draw(case.rows, rng))
            drift, step = estimator.divergence(), estimator.step_divergence()
        except FitDivergedError:
            estimator = None
            continue
        measured += math.isfinite(drift.std_error)
        if alarm.update(drift, step).signal is Signal.ALARM:
            doubts = [*drift.doubts, *step.doubts, *estimator.info_.originals["original"].doubts]
            alarms, doubted, estimator = alarms + (not doubts), doubted + bool(doubts), None
    return _Found(measured, alarms, doubted)
