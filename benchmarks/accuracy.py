"""Accuracy: errors of log-ratios and divergences on streams whose truth is known."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.results import Result
from driftline import ContinualDensityRatio
from driftline.synthetic import CorrelationStream, GaussianStream, MixtureStream

ROWS = 50_000
LAST = 20


@dataclass(frozen=True)
class Case:
    """A stream, a model and a step size d; ``bar`` bounds the mean absolute error of the log-ratio at t=20."""

    name: str
    stream: Any
    model: str
    every: int
    bar: float
    kl_bar: float | None = None


CASES = [
    Case("gaussian-auto", GaussianStream(), "auto", 4, 0.20, 0.02),
    Case("gaussian-auto-d1", GaussianStream(), "auto", 1, 0.20, 0.02),
    Case("gaussian-quadratic", GaussianStream(), "quadratic", 1, 0.10),
    Case("gaussian-mlp", GaussianStream(), "mlp", 4, 1.5, 0.08),
    Case("gaussian-slow", GaussianStream(delta=0.01), "auto", 1, 0.15),
    Case("correlation", CorrelationStream(), "auto", 4, 0.8),
    Case("correlation-d1", CorrelationStream(), "auto", 1, 0.8),
    Case("mixture", MixtureStream(), "auto", 4, 0.33),
    Case("mixture-d1", MixtureStream(), "auto", 1, 0.33),
]


def run(case: Case, seeds: int) -> Iterator[Result]:
    """Measure errors at t=20 for each seed and, for the quadratic model, their ratio to the error at t=4."""
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        estimator = ContinualDensityRatio(model=case.model, random_state=seed)
        estimator.fit(case.stream.sample(0, ROWS, rng))
        errors, seconds = {}, []
        for t in range(case.every, LAST + 1, case.every):
            window = case.stream.sample(t, ROWS, rng)
            began = time.perf_counter()
            estimator.partial_fit(window)
            seconds.append(time.perf_counter() - began)
            fresh = case.stream.sample(t, 20_000, rng)
            truth = case.stream.log_ratio(fresh, t)
            errors[t] = float(np.abs(estimator.log_ratio(fresh) - truth).mean())
        yield Result(f"{case.name}: log-ratio MAE, t=20", seed, errors[LAST], case.bar)
        if case.model == "quadratic":
            yield Result(f"{case.name}: MAE at t=20 / at t=4", seed, errors[LAST] / errors[4], 1.5)
        true_kl = case.stream.reverse_kl(LAST) if hasattr(case.stream, "reverse_kl") else float(-truth.mean())
        off = abs(estimator.divergence("reverse_kl").value / true_kl - 1.0)
        yield Result(f"{case.name}: reverse KL off by, t=20", seed, off, case.kl_bar)
        yield Result(f"{case.name}: seconds per step (median)", seed, float(np.median(seconds)), None)


def null(seeds: int, windows: int = 200, rows: int = 5000) -> Iterator[Result]:
    """Compare the divergence of late windows without drift, in 16 dimensions, to the spread of the first over seeds."""
    stream = GaussianStream(dim=16, delta=0.0)
    for model in ("quadratic", "auto"):
        paths = []
        for seed in range(max(seeds, 8)):
            rng = np.random.default_rng(1000 + seed)
            estimator = ContinualDensityRatio(model=model, random_state=seed).fit(stream.sample(0, rows, rng))
            path = []
            for _ in range(windows):
                estimator.partial_fit(stream.sample(0, rows, rng))
                path.append(estimator.divergence("reverse_kl").value)
            paths.append(path)
        kl = np.array(paths)
        center, spread = kl[:, 0].mean(), kl[:, 0].std(ddof=1)
        late = np.abs(kl[:, -1] - center) / spread
        yield Result(f"no drift, {model}: |KL_200 - mean KL_1| / sd KL_1, worst seed", -1, float(late.max()), 3.0)
        outside = float((np.abs(kl - center) > 3.0 * spread).mean())
        yield Result(f"no drift, {model}: share of all windows beyond 3 sd", -1, outside, None)
        yield Result(
            f"no drift, {model}: sd of last 20 windows / sd of first 20", -1, kl[:, -20:].std() / kl[:, :20].std(), None
        )


def originals(seeds: int, count: int = 10) -> Iterator[Result]:
    """Repeat the paper's Sec. 4.2: originals at mean 2 tau join one by one, each drifting by 0.01 a step."""
    streams = [GaussianStream(delta=0.01, mean=2.0 * (k + 1)) for k in range(count)]
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        estimator = ContinualDensityRatio(random_state=seed).fit(streams[0].sample(0, ROWS, rng), name="1")
        seconds = []
        for t in range(1, count + 1):
            windows = {str(k + 1): streams[k].sample(t - k, ROWS, rng) for k in range(t)}
            began = time.perf_counter()
            estimator.partial_fit(windows)
            seconds.append(time.perf_counter() - began)
            if t < count:
                estimator.add_original(streams[t].sample(0, ROWS, rng), name=str(t + 1))
        value = np.mean([estimator.divergence("reverse_kl", original=name).value for name in estimator.originals_])
        truth = np.mean([s.reverse_kl(count - k) for k, s in enumerate(streams)])
        yield Result("10 originals: averaged reverse KL off by, t=10", seed, abs(float(value / truth) - 1.0), 0.05)
        per_original = np.array(seconds) / np.arange(1, count + 1)
        growth = float(per_original[-3:].mean() / per_original[:3].mean())
        yield Result("10 originals: seconds per original, last step / first steps", seed, growth, None)
