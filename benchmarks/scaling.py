"""Scaling: the cost of a step against rows, columns and originals; Newton's method against L-BFGS."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from multiprocessing import get_context
from statistics import median
from typing import Any
from unittest.mock import patch

import numpy as np
from scipy.signal import lfilter

from benchmarks.child import peak_memory
from benchmarks.results import Result
from driftline import ContinualDensityRatio
from driftline.fitting import (
    LogLinearDesign,
    Standardizer,
    fit_convex,
    fit_features,
    fit_lbfgs,
    fit_standardizer,
    logistic,
    loss_of,
)
from driftline.recursion import _log_linear as log_linear
from driftline.synthetic import GaussianStream

ROWS = (1_000, 3_000, 10_000, 30_000, 100_000, 200_000)
COLUMNS = (5, 20, 64, 200, 500, 1_000, 2_000)
ORIGINALS = (1, 2, 4, 8, 16)
SHARED = (4, 16)
WIDE = (1_500, 2_000, 3_000, 4_000)
FEATURES = (50, 100, 200, 400, 800, 1_200, 1_600, 2_400)
CORRELATION = 0.9
REPEATS = 3
LINEAR = 1.1  # slope on a log-log scale; caches and noise account for the tenth


def run(seeds: int) -> Iterator[Result]:
    """Measure CPU seconds of a step and their slopes on a log-log scale; medians of three steps, one seed."""
    cases: tuple[tuple[str, Sequence[int], Callable[[int], float], float | None], ...] = (
        ("rows, 20 columns", ROWS, lambda n: _step(n, 20, 1), LINEAR),
        ("columns, 5,000 rows", COLUMNS, lambda d: _step(5_000, d, 1), None),
        ("originals, 5,000 x 20", ORIGINALS, lambda k: _step(5_000, 20, k), LINEAR),
        ("originals with one window, 5,000 x 20", ORIGINALS, lambda k: _step(5_000, 20, k, shared=True), LINEAR),
    )
    for what, sizes, cost, bar in cases:
        seconds = []
        for size in sizes:
            seconds.append(cost(size))
            yield Result(f"a step against {what}: CPU seconds at {size:,}", 0, seconds[-1], None)
        yield Result(f"a step against {what}: slope", 0, _slope(sizes, seconds), None)
        half = len(sizes) // 2  # small sizes show the fixed cost, large ones how it grows
        yield Result(f"a step against {what}: slope of the larger half", 0, _slope(sizes[half:], seconds[half:]), bar)


def newton(seeds: int) -> Iterator[Result]:
    """Measure both methods on the same features, for 5,000 and 20,000 rows, and where they cost the same.

    Fits are compared alone, and as steps: a step by Newton's method has error bars, one by L-BFGS has none. The columns
    are independent, which suits L-BFGS, or each is correlated with its neighbours, as in tables.
    """
    cases = [(rows, what, rho) for rows in (5_000, 20_000) for what in ("fit", "step") for rho in (0.0, CORRELATION)]
    for rows, what, rho in cases:
        measured, ratios = {"fit": _fits, "step": _steps}[what], []
        case = f"{what}, {rows:,} rows, correlation {rho:g}"
        for features in FEATURES:
            exact, gradient = measured(rows, features // 2, rho)
            ratios.append(exact / gradient)
            label = f"{case}, {features:,} features"
            yield Result(f"{label}: CPU seconds, Newton", 0, exact, None)
            yield Result(f"{label}: CPU seconds, L-BFGS", 0, gradient, None)
            yield Result(f"{label}: Newton / L-BFGS", 0, ratios[-1], None)
        yield Result(f"{case}: features from which L-BFGS costs less", 0, _crossing(FEATURES, ratios), None)


def sharing(seeds: int) -> Iterator[Result]:
    """Measure what originals with one window could save at most by sharing its design: all but one would cost nothing.

    Counted is everything that depends on the window alone: standardising its rows, and the design's matrices.
    """
    for rows, columns in ((5_000, 20), (10_000, 64)):
        for originals in SHARED:
            share = _design_share(rows, columns, originals) * (1.0 - 1.0 / originals)
            label = f"{originals} originals with one window, {rows:,} x {columns}"
            yield Result(f"{label}: part of a step that shared designs could save at most", 0, share, None)


def _design_share(rows: int, columns: int, originals: int) -> float:
    """Return the part of a step's CPU time that goes into standardising rows and making designs."""
    spent = 0.0

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*arguments: Any) -> Any:
            nonlocal spent
            began = time.process_time()
            found = call(*arguments)
            spent += time.process_time() - began
            return found

        return counting

    made = cached_property(counted(LogLinearDesign.__dict__["single"].func))
    made.__set_name__(LogLinearDesign, "single")
    with (
        patch.object(Standardizer, "__call__", counted(Standardizer.__call__)),
        patch.object(LogLinearDesign, "__init__", counted(LogLinearDesign.__init__)),
        patch.object(LogLinearDesign, "single", made),
    ):
        parts = []
        for step in _stepped(rows, columns, originals, shared=True):
            spent = 0.0
            whole = _cpu(step)
            parts.append(spent / whole)
    return median(parts)


def wide(seeds: int) -> Iterator[Result]:
    """Measure what error bars of many features would cost: the second step by both methods, and its peak memory.

    Each in a process of its own, since memory counts; half an hour in all.
    """
    for rows in (5_000, 20_000):
        for features in WIDE:
            for method, limit in (("Newton", 1_000_000), ("L-BFGS", 0)):
                with get_context("spawn").Pool(1) as pool:
                    seconds, peak, barred = pool.apply(_wide_step, (rows, features // 2, limit))
                label = f"wide step, {rows:,} rows, {features:,} features, {method}"
                yield Result(f"{label}: CPU seconds", 0, seconds, None)
                yield Result(f"{label}: peak MB", 0, peak, None)
                yield Result(f"{label}: has error bars", 0, float(barred), None)


def _wide_step(rows: int, columns: int, limit: int) -> tuple[float, float, bool]:
    """Return CPU seconds of a second step, peak MB, and whether its divergence has an error bar."""
    first, *windows = _windows(rows, columns, 3, CORRELATION)
    estimator = ContinualDensityRatio(model="quadratic", random_state=0).fit(first)
    with patch.object(log_linear, "NEWTON_FEATURES", limit):
        seconds = [_cpu(partial(estimator.partial_fit, window)) for window in windows]
    return seconds[-1], peak_memory(), bool(np.isfinite(estimator.divergence().std_error))


def _step(rows: int, columns: int, originals: int, shared: bool = False) -> float:
    """Return CPU seconds of a step of all originals, with one window for all or one for each."""
    return median(_cpu(step) for step in _stepped(rows, columns, originals, shared))


def _stepped(rows: int, columns: int, originals: int, shared: bool) -> Iterator[Callable[[], object]]:
    """Yield steps of all originals, to be taken one after the other."""
    stream, rng = GaussianStream(dim=columns), np.random.default_rng(0)
    names = ["original", *(f"further {i}" for i in range(1, originals))]
    estimator = ContinualDensityRatio(random_state=0).fit(stream.sample(0, rows, rng))
    for name in names[1:]:
        estimator.add_original(stream.sample(0, rows, rng), name=name)
    for t in range(1, REPEATS + 1):
        window = stream.sample(t, rows, rng)
        windows = {name: window if shared else stream.sample(t, rows, rng) for name in names}
        yield partial(estimator.partial_fit, windows)


def _windows(rows: int, columns: int, count: int, rho: float) -> list[np.ndarray]:
    """Draw windows of the paper's stream, its drift spread so that a step has one size whatever the columns.

    With ``rho``, the columns follow an AR(1) process with that coefficient.
    """
    stream = GaussianStream(dim=columns, delta=0.02 * (64 / columns) ** 0.5)
    rng = np.random.default_rng(0)
    windows = [stream.sample(t, rows, rng) for t in range(count)]
    return [lfilter([(1.0 - rho**2) ** 0.5], [1.0, -rho], window, axis=1) for window in windows]


def _fits(rows: int, columns: int, rho: float) -> tuple[float, float]:
    """Return CPU seconds of a fit of columns and their squares, by Newton's method and by L-BFGS, in turn."""
    first, second = _windows(rows, columns, 2, rho)
    standardizer, loss = fit_standardizer(first), loss_of(logistic)
    z_num, z_den = standardizer(first), standardizer(second)
    features = fit_features(z_num)
    costs: dict[Callable[..., object], list[float]] = {fit_convex: [], fit_lbfgs: []}
    for _ in range(REPEATS):
        for fit, found in costs.items():
            # new designs each time: they keep their matrices
            num, den = LogLinearDesign(features, z_num), LogLinearDesign(features, z_den)
            found.append(_cpu(lambda f=fit, a=num, b=den: f(a, b, loss, ridge=1.0 * features.prior)))
    return median(costs[fit_convex]), median(costs[fit_lbfgs])


def _steps(rows: int, columns: int, rho: float) -> tuple[float, float]:
    """Return CPU seconds of a step of the quadratic model, by Newton's method and by L-BFGS, in turn."""
    first, *windows = _windows(rows, columns, REPEATS + 1, rho)
    allowed = (1_000_000, 0)
    estimators = [ContinualDensityRatio(model="quadratic", random_state=0).fit(first) for _ in allowed]
    costs: list[list[float]] = [[], []]
    for window in windows:
        for estimator, limit, found in zip(estimators, allowed, costs, strict=True):
            with patch.object(log_linear, "NEWTON_FEATURES", limit):
                found.append(_cpu(lambda e=estimator, w=window: e.partial_fit(w)))
    return median(costs[0]), median(costs[1])


def _cpu(call: Callable[[], object]) -> float:
    began = time.process_time()
    call()
    return time.process_time() - began


def _slope(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def _crossing(sizes: Sequence[int], ratios: Sequence[float]) -> float:
    """Return the size from which on the ratio exceeds 1, between sizes on a log-log scale; inf if it never does."""
    below = [i for i, ratio in enumerate(ratios) if ratio <= 1.0]
    last = below[-1] if below else -1
    if last == len(sizes) - 1:
        return float("inf")
    if last < 0:
        return 0.0
    near = np.log(ratios[last : last + 2])
    return float(np.exp(np.interp(0.0, near, np.log(sizes[last : last + 2]))))
