"""Speed: mostly ratios within one run, since machines are noisy."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from sklearn.linear_model import LogisticRegression

from benchmarks.results import Result
from driftline import ContinualDensityRatio, DensityRatio, Training, inference
from driftline.fitting import logistic, loss_of
from driftline.recursion import _log_linear as log_linear
from driftline.synthetic import GaussianStream

ROWS = 50_000
CHUNK = 8192


def _seconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def steps(seeds: int) -> Iterator[Result]:
    """Measure seconds per step on a Gaussian stream, beside one epoch of a plain 2x256 network on the same windows."""
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
    return float(np.median([_seconds(lambda w=w: estimator.partial_fit(w)) for w in windows[1:]]))


def error_bars(seeds: int) -> Iterator[Result]:
    """Measure what error bars add to a step: the same steps with and without the uncertainty, in turn."""
    stream, empty, loss = GaussianStream(), np.zeros(0), type(loss_of(logistic))
    real = {
        "advance": inference.advance,
        "optimism": inference.optimism,
        "window_rows": log_linear.window_rows,
        "third": loss.third,
    }

    def switch(on: bool) -> None:
        inference.advance = real["advance"] if on else lambda *parts: None
        inference.optimism = real["optimism"] if on else lambda uncertainty: 0.0
        log_linear.window_rows = real["window_rows"] if on else lambda *parts: inference.Dependence()
        loss.third = real["third"] if on else lambda *parts: (empty, empty)

    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        windows = [stream.sample(t, ROWS, rng) for t in range(12)]
        estimators = {
            on: ContinualDensityRatio(model="quadratic", random_state=seed).fit(windows[0]) for on in (True, False)
        }
        times: dict[bool, list[float]] = {True: [], False: []}
        asked = []
        for window in windows[1:]:
            for on, estimator in estimators.items():
                switch(on)
                times[on].append(_seconds(partial(estimator.partial_fit, window)))
            asked.append(_seconds(estimators[True].divergence))
        switch(True)
        bare = float(np.median(times[False]))
        added = float(np.median(times[True])) / bare - 1.0
        yield Result("error bars, quadratic, 50,000 x 64: added to a step", seed, added, 0.3)
        yield Result(
            "error bars: seconds of a divergence / of a step without", seed, float(np.median(asked)) / bare, None
        )


def _expand(x: np.ndarray) -> np.ndarray:
    return np.hstack([x, x**2])


def static(seeds: int) -> Iterator[Result]:
    """Compare a static fit far away (t=12) with scikit-learn's logistic regression on [x, x^2]; see it warn at t=20.

    Errors and seconds are averaged over seeds before they are compared: a single pair of samples may favour either.
    """
    stream = GaussianStream()
    own_errors, peer_errors, own_times, peer_times, expand_times, silent = [], [], [], [], [], 0
    for seed in range(max(seeds, 5)):
        rng = np.random.default_rng(seed)
        original, current = stream.sample(0, ROWS, rng), stream.sample(12, ROWS, rng)
        fresh = stream.sample(12, 20_000, rng)
        truth = stream.log_ratio(fresh, 12)
        ours = DensityRatio(model="quadratic", random_state=seed)
        own_times.append(min(_seconds(partial(ours.fit, original, current)) for _ in range(2)))
        own_errors.append(np.abs(ours.log_ratio(fresh) - truth).mean())
        rows, labels = _expand(np.vstack([original, current])), np.repeat([1, 0], ROWS)
        peer = LogisticRegression(max_iter=1000)
        peer_times.append(min(_seconds(partial(peer.fit, rows, labels)) for _ in range(2)))
        expand_times.append(_seconds(lambda a=original, b=current: _expand(np.vstack([a, b]))))
        peer_errors.append(np.abs(peer.decision_function(_expand(fresh)) - truth).mean())
        far = DensityRatio(model="quadratic", random_state=seed)
        far.fit(original, stream.sample(20, ROWS, rng))
        silent += not far.info_.doubts
    own, peer_error = float(np.mean(own_errors)), float(np.mean(peer_errors))
    yield Result("static t=12: log-ratio MAE, driftline", -1, own, None)
    yield Result("static t=12: log-ratio MAE, scikit-learn", -1, peer_error, None)
    yield Result("static t=12: MAE, driftline / scikit-learn", -1, own / peer_error, 1.0)
    yield Result("static t=12: seconds, driftline", -1, float(np.median(own_times)), None)
    own_time, peer_time = float(np.median(own_times)), float(np.median(peer_times))
    yield Result("static t=12: seconds, driftline / scikit-learn's solver alone", -1, own_time / peer_time, None)
    # from the two samples to the ratio, since driftline builds its features within fit
    whole = peer_time + float(np.median(expand_times))
    yield Result("static t=12: seconds, driftline / building [x, x²] + scikit-learn", -1, own_time / whole, 0.5)
    yield Result("static t=20: fits without a warning", -1, float(silent), 0.0)


def scoring(seeds: int) -> Iterator[Result]:
    """Compare scoring 1e6 x 64 rows with the bare matrix products of the same model."""
    stream, rng = GaussianStream(), np.random.default_rng(0)
    big = stream.sample(3, 1_000_000, rng)
    for model, bare in (("quadratic", _bare_quadratic(big)), ("mlp", _bare_network(big))):
        estimator = DensityRatio(model=model, training=Training(epochs=1), random_state=0)
        estimator.fit(stream.sample(0, ROWS, rng), stream.sample(3, ROWS, rng))
        for seed in range(seeds):
            floor = min(_seconds(bare) for _ in range(3))
            own = min(_seconds(lambda e=estimator: e.log_ratio(big)) for _ in range(3))
            yield Result(f"scoring 1e6 x 64, {model}: seconds", seed, own, None)
            yield Result(f"scoring 1e6 x 64, {model} / bare matrix products", seed, own / floor, 2.0)


def _bare_quadratic(rows: np.ndarray) -> Callable[[], object]:
    """Return the products of a linear and a quadratic part, in parts that fit into the cache."""
    rng = np.random.default_rng(0)
    linear, square = rng.standard_normal((2, rows.shape[1]))
    parts = [rows[i : i + CHUNK] for i in range(0, len(rows), CHUNK)]
    return lambda: np.concatenate([part @ linear + (part * part) @ square for part in parts])


def _bare_network(rows: np.ndarray) -> Callable[[], object]:
    """Return the products of two hidden layers of 256 units, in single precision, with PyTorch."""
    import torch  # not at the top: only networks need it

    weights = [torch.randn(a, b) for a, b in ((rows.shape[1], 256), (256, 256), (256, 1))]

    def products() -> torch.Tensor:
        parts = []
        for part in torch.from_numpy(rows).split(CHUNK):
            part = part.float()
            for weight in weights:
                part = part @ weight
            parts.append(part)
        return torch.cat(parts)

    return products
