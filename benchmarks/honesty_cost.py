"""What auditor, floor and effective rows add to a step: the same steps with and without them, in turn.

They are switched off by replacing functions here: nobody should run without them, so there is no option for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any
from unittest import mock

import numpy as np

from benchmarks.results import Result
from benchmarks.streams import LatentClassStream
from driftline import ContinualDensityRatio
from driftline.inference import NO_GAIN, Dependence
from driftline.recursion import _log_linear, _rows, _steps, _wide
from driftline.synthetic import GaussianStream, MixtureStream

_STEPS = 12
_MOST = 1.35


class _Dependent:
    """A Gaussian stream whose rows are AR(1): effective rows are fewer than rows."""

    def __init__(self, dim: int, rho: float) -> None:
        self.stream, self.rho = GaussianStream(dim=dim), rho

    def sample(self, t: int, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draw rows (n, dim) at time t."""
        noise = rng.standard_normal((n, self.stream.dim))
        for i in range(1, n):
            noise[i] = self.rho * noise[i - 1] + np.sqrt(1.0 - self.rho**2) * noise[i]
        return self.stream.delta * t + (1.0 - self.stream.delta * t) * noise


CASES: tuple[tuple[str, Any, int, float | None], ...] = (
    ("Gaussian, 4,000 x 20", GaussianStream(dim=20), 4_000, _MOST),
    ("Gaussian, 10,000 x 20", GaussianStream(dim=20), 10_000, _MOST),
    ("Gaussian, 10,000 x 64", GaussianStream(), 10_000, _MOST),
    ("mixture, 2,000 x 5", MixtureStream(dim=5), 2_000, _MOST),
    ("mixture, 10,000 x 5", MixtureStream(dim=5), 10_000, _MOST),
    ("mixture, 4,000 x 64", MixtureStream(), 4_000, _MOST),
    ("latent classes, 5,000 x 10", LatentClassStream(), 5_000, _MOST),
    ("AR(1) 0.5, 5,000 x 8", _Dependent(8, 0.5), 5_000, None),
)
"""Streams, rows of a window, and the largest ratio of CPU times with and without."""


@contextmanager
def _without() -> Iterator[None]:
    """Switch auditor, floor and effective rows off; a lag is still chosen, as error bars have always needed it."""
    with ExitStack() as stack:

        def replace(module: Any, name: str, by: Callable[..., object]) -> None:
            stack.enter_context(mock.patch.object(module, name, by))

        replace(_steps, "start_auditor", lambda *parts, **options: None)
        replace(_steps, "measured", lambda *parts: (NO_GAIN, None))
        for module in (_steps, _rows, _log_linear):
            replace(module, "find_repeats", lambda rows: None)
        for module in (_log_linear, _rows, _wide):
            replace(module, "depends", lambda rows, lag, repeats, settings: Dependence(lag))
        yield


def run(seeds: int) -> Iterator[Result]:
    """Measure CPU seconds of steps that are each asked for a divergence; ratios of medians over the steps."""
    for what, stream, rows, bar in CASES:
        for seed in range(seeds):
            times = _follow(stream, rows, seed)
            ratio = float(np.median(times[True]) / np.median(times[False]))
            yield Result(f"{what}: a step with auditor, floor and effective rows / without", seed, ratio, bar)


def _follow(stream: Any, rows: int, seed: int) -> dict[bool, list[float]]:
    """Return CPU seconds of the steps with all parts (True) and without them (False), after one that warms up."""
    rng = np.random.default_rng(seed)
    windows = [stream.sample(t, rows, rng) for t in range(_STEPS + 2)]
    estimators, times = {}, {True: [], False: []}
    for whole in times:
        with _parts(whole):
            estimators[whole] = ContinualDensityRatio(random_state=seed).fit(windows[0]).partial_fit(windows[1])
    for t, window in enumerate(windows[2:]):
        for whole in (True, False) if t % 2 else (False, True):
            with _parts(whole):
                times[whole].append(_seconds(partial(_asked, estimators[whole], window)))
    return times


def _parts(whole: bool) -> Any:
    return ExitStack() if whole else _without()


def _asked(estimator: ContinualDensityRatio, window: np.ndarray) -> object:
    return estimator.partial_fit(window).divergence()


def _seconds(call: Callable[[], object]) -> float:
    began = time.process_time()
    call()
    return time.process_time() - began
