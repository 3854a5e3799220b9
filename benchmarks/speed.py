"""How fast: ratios within one run, since machines are noisy."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression

from benchmarks.results import Result
from driftline import ContinualDensityRatio, DensityRatio, Training, UntrustedEstimateWarning
from driftline.streams import GaussianStream

ROWS = 50_000


def _seconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def steps(seeds: int) -> Iterator[Result]:
    """Seconds per step on the Gaussian stream, beside one epoch of the plain 2x256 network on the same windows."""
    stream = GaussianStream()
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        windows = [stream.sample(t, ROWS, rng) for t in range(8)]
        epoch = ContinualDensityRatio(model="mlp", training=Training(epochs=1), polish=False, random_state=seed)
        plain = _stepper(epoch, windows)
        for model, bar in (("quadratic", 0.5), ("auto", 8.0)):
            median = _stepper(ContinualDensityRatio(model=model, random_state=seed), windows)
            yield Result(f"step, {model}, 50,000 x 64: seconds (median)", seed, median, bar)
            yield Result(f"step, {model} / one epoch of the plain network", seed, median / plain, None)


def _stepper(estimator: ContinualDensityRatio, windows: list[np.ndarray]) -> float:
    estimator.fit(windows[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UntrustedEstimateWarning)
        return float(np.median([_seconds(lambda w=w: estimator.partial_fit(w)) for w in windows[1:]]))


def static(seeds: int) -> Iterator[Result]:
    """One static fit far away (t=12) against scikit-learn's logistic regression on [x, x^2], and a warning at t=20."""
    stream = GaussianStream()
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        original, current = stream.sample(0, ROWS, rng), stream.sample(12, ROWS, rng)
        fresh = stream.sample(12, 20_000, rng)
        truth = stream.log_ratio(fresh, 12)
        ours = DensityRatio(model="quadratic", random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UntrustedEstimateWarning)
            own_seconds = _seconds(lambda: ours.fit(original, current))
        own_error = float(np.abs(ours.log_ratio(fresh) - truth).mean())

        def expand(x: np.ndarray) -> np.ndarray:
            return np.hstack([x, x**2])

        rows, labels = expand(np.vstack([original, current])), np.repeat([1, 0], ROWS)
        peer = LogisticRegression(C=1e3, max_iter=1000)
        peer_seconds = _seconds(lambda: peer.fit(rows, labels))
        peer_error = float(np.abs(peer.decision_function(expand(fresh)) - truth).mean())
        yield Result("static t=12: log-ratio MAE, driftline", seed, own_error, None)
        yield Result("static t=12: log-ratio MAE, scikit-learn", seed, peer_error, None)
        yield Result("static t=12: MAE, driftline / scikit-learn", seed, own_error / peer_error, 1.0)
        yield Result("static t=12: seconds, driftline / scikit-learn", seed, own_seconds / peer_seconds, 0.5)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            DensityRatio(model="quadratic", random_state=seed).fit(original, stream.sample(20, ROWS, rng))
        warned = any(issubclass(w.category, UntrustedEstimateWarning) for w in caught)
        yield Result("static t=20: warnings missing (0 is good)", seed, float(not warned), 0.0)


def scoring(seeds: int) -> Iterator[Result]:
    """Scoring 1e6 x 64 rows against the bare matrix products of the same model."""
    stream, rng = GaussianStream(), np.random.default_rng(0)
    big = stream.sample(3, 1_000_000, rng)
    rows = torch.from_numpy(big)
    for model in ("quadratic", "mlp"):
        training = Training(epochs=1)
        estimator = DensityRatio(model=model, training=training, random_state=0)
        estimator.fit(stream.sample(0, ROWS, rng), stream.sample(3, ROWS, rng))
        weights = [torch.randn(a, b) for a, b in ((64, 256), (256, 256), (256, 1))]
        pair = torch.randn(64, dtype=torch.float64), torch.randn(64, dtype=torch.float64)

        def bare_quadratic(pair: tuple[torch.Tensor, torch.Tensor] = pair) -> torch.Tensor:
            return torch.cat([part @ pair[0] + (part * part) @ pair[1] for part in rows.split(8192)])

        def bare_network(weights: list[torch.Tensor] = weights) -> torch.Tensor:
            parts = []
            for part in rows.split(8192):
                part = part.float()
                for weight in weights:
                    part = part @ weight
                parts.append(part)
            return torch.cat(parts)

        bare = bare_quadratic if model == "quadratic" else bare_network
        for seed in range(seeds):
            floor = min(_seconds(bare) for _ in range(3))
            own = min(_seconds(lambda e=estimator: e.log_ratio(big)) for _ in range(3))
            yield Result(f"scoring 1e6 x 64, {model}: seconds", seed, own, None)
            yield Result(f"scoring 1e6 x 64, {model} / bare matrix products", seed, own / floor, 2.0)
