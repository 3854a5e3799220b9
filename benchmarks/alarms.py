"""Alarms and their promise: run lengths without drift and delays after a change, beside those of alibi-detect.

``make bench-peers`` runs alibi-detect in an environment of its own and writes ``benchmarks/peers.json``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.results import Bar, Result
from benchmarks.scenarios import RUN_LENGTH, SCENARIOS, Scenario
from driftline import ContinualDensityRatio, DriftAlarm, Signal

RUNS = 150
LIMIT = 10  # promised run lengths after which a run is given up
PEERS = Path(__file__).parent / "peers.json"


def first_alarm(
    scenario: Scenario, seed: int, promise: float, *, step: bool, model: str = "quadratic"
) -> tuple[int, bool]:
    """Return the number of windows until the first alarm, and whether there was one."""
    original, windows = scenario.stream(seed)
    estimator = ContinualDensityRatio(model=model, random_state=0).fit(original)
    alarm = DriftAlarm(run_length=promise)
    for look in range(1, math.ceil(LIMIT * promise) + 1):
        estimator.partial_fit(next(windows))
        change = estimator.step_divergence() if step else None
        if alarm.update(estimator.divergence(), change).signal is Signal.ALARM:
            return look, True
    return look, False


def run_lengths(seeds: int) -> Iterator[Result]:
    """Measure realised over promised run lengths, with seeds from 100,000 on, unused while the method was built."""
    cases: list[tuple[str, Scenario, bool, Bar, int]] = [
        ("iid, drift alone", SCENARIOS["iid"], False, (0.7, 1.5), RUNS),
        ("iid, drift and change", SCENARIOS["iid"], True, (0.7, 1.5), RUNS),
        ("iid, original no larger than a window", replace(SCENARIOS["iid"], reference=500), True, (0.7, 1.5), RUNS),
        ("AR(1), drift and change", SCENARIOS["ar1"], True, (0.5, 2.0), RUNS),
        ("iid, 64 columns, windows of 1000", replace(SCENARIOS["clean"], rows=1000), True, None, RUNS // 10),
        ("iid, 64 columns, windows of 500", SCENARIOS["clean"], True, None, RUNS // 10),
    ]
    for name, scenario, step, bar, runs in cases:
        found = [first_alarm(scenario, 100_000 + seed, RUN_LENGTH, step=step) for seed in range(runs)]
        looks, alarms = (np.array(column) for column in zip(*found, strict=True))
        mean = looks.sum() / max(alarms.sum(), 1) / RUN_LENGTH
        yield Result(f"run length / promise, {name}", -1, float(mean), bar)
        yield Result(f"run length / promise, {name}: standard error", -1, float(mean / math.sqrt(alarms.sum())), None)
        yield Result(f"run length / promise, {name}: median", -1, float(np.median(looks) / RUN_LENGTH), None)
    yield from _peers("over_promise", "run length / promise", ("iid", "ar1", "clean"))


def delays(seeds: int) -> Iterator[Result]:
    """Measure windows and rows from a change (0.2 sd in 8 of 64 columns) to the alarm, at the same promise."""
    scenario = SCENARIOS["shift"]
    looks = [first_alarm(scenario, 100_000 + seed, RUN_LENGTH, step=True)[0] for seed in range(RUNS // 4)]
    late = np.array([look - scenario.change for look in looks if look > scenario.change])
    yield Result("delay after a change, driftline: windows", -1, float(late.mean()), None)
    yield Result("delay after a change, driftline: rows", -1, float(late.mean() * scenario.rows), None)
    yield Result("delay after a change, driftline: share that alarmed before", -1, 1 - len(late) / len(looks), None)
    yield from _peers("mean_delay_windows", "delay after a change, windows of 500 rows", ("shift",))
    yield from _peers("mean_delay_rows", "delay after a change, rows", ("shift",))


def run(seeds: int) -> Iterator[Result]:
    """Measure run lengths, then delays."""
    yield from run_lengths(seeds)
    yield from delays(seeds)


def _peers(measure: str, what: str, scenarios: tuple[str, ...]) -> Iterator[Result]:
    if PEERS.exists():
        summary = json.loads(PEERS.read_text())["summary"]
        for detector in ("lsdd", "mmd"):
            for name in scenarios:
                value = summary[f"{detector} {name}"][measure]
                yield Result(f"{what}: alibi-detect {detector}, {name}", -1, value, None)
