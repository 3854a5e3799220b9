"""Rows that are hard for normal theory, and the alarms that they raise though nothing moves."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from benchmarks.results import Bar
from benchmarks.streams import Floats
from driftline import ContinualDensityRatio, DriftAlarm, FitDivergedError

PROMISE = 100.0
"""Promised run length in windows."""

Draw = Callable[[int, np.random.Generator], Floats]


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


class Found(NamedTuple):
    """Windows with an interval, alarms without a doubt, and alarms with one."""

    measured: int
    alarms: int
    doubted: int


def watched(case: Untidy, looks: int, rng: np.random.Generator) -> Found:
    """Watch this many windows, restarted after each alarm from a new original."""
    measured = alarms = doubted = 0
    estimator = alarm = None
    for look in range(looks):
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
        if alarm.update(drift, step).signal == "alarm":
            doubts = [*drift.doubts, *step.doubts]
            alarms, doubted, estimator = alarms + (not doubts), doubted + bool(doubts), None
    return Found(measured, alarms, doubted)
