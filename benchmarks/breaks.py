"""Abrupt breaks in mixed tables: what a log-ratio says, and what its function is worth on rows it has not seen.

The worth is Donsker and Varadhan's bound of KL(current‖original), E_current[u] - log E_original[exp u] for u = -log r,
on 20,000 other rows of each regime: no function is worth more than the truth.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from benchmarks.results import INF, Result
from benchmarks.tables import Flights, Floats, Made, Table
from driftline import DensityRatio
from driftline.fitting import (
    Dense,
    Features,
    fit_convex,
    fit_crossed,
    fit_features,
    fit_standardizer,
    helps,
    log_mean_exp,
    logistic,
    loss_of,
    row_losses,
)
from driftline.tables import TableEncoder

ROWS, OTHERS = 5000, 20_000
_GRID = [(leaves, rate) for leaves in (8, 16, 31) for rate in (0.05, 0.1)]  # of the boosted classifier
_ROUNDS = (25, 50, 75, 100, 150, 200)
_FOLDS = 4


class Windows(NamedTuple):
    """Encoded and standardised rows: two windows to fit, and others of the same regimes to judge."""

    original: Floats
    current: Floats
    others: tuple[Floats, Floats]


class Found(NamedTuple):
    """Log-ratios of the other rows, the value said, and CPU seconds."""

    original: Floats
    current: Floats
    said: float
    seconds: float

    @property
    def worth(self) -> float:
        return float(-self.current.mean() - log_mean_exp(-self.original))


def windows(table: Table, seed: int, *, quiet: bool = False) -> Windows:
    """Draw and encode rows of both regimes; of the first alone if ``quiet``."""
    rng = np.random.default_rng(seed)
    size = ROWS + OTHERS
    if quiet:
        both = table.draw(2 * size, False, rng)
        original, current = both.slice(0, size), both.slice(size)
    else:
        original, current = table.draw(size, False, rng), table.draw(size, True, rng)
    encoder = TableEncoder.fit(original.slice(0, ROWS))
    before, after = encoder.transform(original).values, encoder.transform(current).values
    scaled = fit_standardizer(before[:ROWS])
    before, after = scaled(before), scaled(after)
    return Windows(before[:ROWS], after[:ROWS], (before[ROWS:], after[ROWS:]))


def automatic(rows: Windows, seed: int) -> Found:
    """Fit ``DensityRatio`` as it is."""
    began = time.process_time()
    model = DensityRatio(random_state=seed).fit(rows.original, rows.current)
    seconds = time.process_time() - began
    return Found(*(model.log_ratio(z) for z in rows.others), model.divergence().value, seconds)


def with_trees(rows: Windows, seed: int, *, residual: bool = False) -> Found:
    """Fit columns, squares and the cross-fitted trees, boosted from zero or from the fit without them."""
    began = time.process_time()
    features = _features(rows)
    designs = [features.design(z) for z in rows[:2]]
    plain = fit_convex(Dense(designs[0]), Dense(designs[1]), loss_of(logistic), ridge=features.prior)
    offsets = {"offset_num": plain.log_num, "offset_den": plain.log_den} if residual else {}
    crossed = fit_crossed(*rows[:2], seed=seed, **offsets)
    num, den = (Dense(_beside(d, v)) for d, v in zip(designs, (crossed.num, crossed.den), strict=True))
    fit = fit_convex(num, den, loss_of(logistic), ridge=np.append(features.prior, 1.0))
    seconds = time.process_time() - began
    judged = [_beside(features.design(z), crossed.trees(z)[:, 0]) @ fit.coef for z in rows.others]
    return Found(*judged, float(-fit.log_den.mean()), seconds)


def _features(rows: Windows) -> Features:
    features = fit_features(rows.original, sparing=True)
    linear, squares = features.awake(*rows[:2])
    return features.extend(rows.original, linear=linear, squares=squares)


def _beside(design: Floats, values: Floats) -> Floats:
    """Put a column before the last one, which is the constant."""
    return np.insert(design, design.shape[1] - 1, values, axis=1)


def classifier(rows: Windows, seed: int) -> Found:
    """Tune scikit-learn's boosted classifier by cross-validation; it says what it predicts out of fold."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    began = time.process_time()
    z, label = np.concatenate(rows[:2]), np.repeat([1, 0], ROWS)
    fold = np.random.default_rng(seed).permutation(2 * ROWS) % _FOLDS
    held_out = {}
    for leaves, rate in _GRID:
        kept = np.zeros((len(_ROUNDS), 2 * ROWS))
        for k in range(_FOLDS):
            model = HistGradientBoostingClassifier(
                max_leaf_nodes=leaves, learning_rate=rate, max_iter=_ROUNDS[-1], early_stopping=False, random_state=seed
            ).fit(z[fold != k], label[fold != k])
            for done, values in enumerate(model.staged_decision_function(z[fold == k]), 1):
                if done in _ROUNDS:
                    kept[_ROUNDS.index(done), fold == k] = np.ravel(values)
        held_out |= {(leaves, rate, rounds): values for rounds, values in zip(_ROUNDS, kept, strict=True)}
    best = min(held_out, key=lambda key: row_losses(held_out[key][:ROWS], held_out[key][ROWS:]).mean())
    model = HistGradientBoostingClassifier(
        max_leaf_nodes=best[0], learning_rate=best[1], max_iter=best[2], early_stopping=False, random_state=seed
    ).fit(z, label)
    seconds = time.process_time() - began
    return Found(*(model.decision_function(z) for z in rows.others), float(-held_out[best][ROWS:].mean()), seconds)


FITS: dict[str, Callable[[Windows, int], Found]] = {
    "auto": automatic,
    "trees": with_trees,
    "trees on the residual": lambda rows, seed: with_trees(rows, seed, residual=True),
}


def run(seeds: int) -> Iterator[Result]:
    """Compare fits with a tuned classifier, on a public table and on a made one."""
    for table in (Flights(), Made()):
        for seed in range(seeds):
            rows = windows(table, seed)
            peer = classifier(rows, seed)
            yield Result(f"{table.name}, tuned classifier: worth, nats", seed, peer.worth, None)
            yield Result(f"{table.name}, tuned classifier: says, of its worth", seed, peer.said / peer.worth, None)
            yield Result(f"{table.name}, tuned classifier: CPU seconds", seed, peer.seconds, None)
            for name, fit in FITS.items():
                found, bars = fit(rows, seed), name == "trees"
                yield Result(
                    f"{table.name}, {name}: worth, of the classifier's",
                    seed,
                    found.worth / peer.worth,
                    (0.95, INF) if bars else None,
                )
                yield Result(
                    f"{table.name}, {name}: says, of the classifier's worth",
                    seed,
                    found.said / peer.worth,
                    (0.92, 1.08) if bars else None,
                )
                yield Result(f"{table.name}, {name}: CPU seconds", seed, found.seconds, None)


def quiet(seeds: int) -> Iterator[Result]:
    """Count how often trees would join where nothing moved, by their held-out gain over columns and squares."""
    for table in (Flights(), Made()):
        drawn = [(windows(table, 1000 + seed, quiet=True), seed) for seed in range(max(seeds, 25))]
        for name, residual in (("trees", False), ("trees on the residual", True)):
            scores = np.array([_gain(rows, seed, residual=residual) for rows, seed in drawn])
            what = f"{table.name}, like samples: z of the gain by {name}"
            yield Result(f"{what}, largest", -1, float(scores.max()), 3.0)
            yield Result(f"{what}, mean", -1, float(scores.mean()), None)


def _gain(rows: Windows, seed: int, *, residual: bool = False) -> float:
    """Return the mean gain of a row in its standard errors; trees join where it exceeds 3 or 4."""
    features = _features(rows)
    designs = [features.design(z) for z in rows[:2]]
    plain = fit_convex(Dense(designs[0]), Dense(designs[1]), loss_of(logistic), ridge=features.prior)
    offsets = {"offset_num": plain.log_num, "offset_den": plain.log_den} if residual else {}
    crossed = fit_crossed(*rows[:2], seed=seed, **offsets)
    num, den = (Dense(_beside(d, v)) for d, v in zip(designs, (crossed.num, crossed.den), strict=True))
    fit = fit_convex(num, den, loss_of(logistic), ridge=np.append(features.prior, 1.0))
    without, within = row_losses(plain.log_num, plain.log_den), row_losses(fit.log_num, fit.log_den)
    gained = without - within
    z = float(gained.mean() / max(float(gained.std()), 1e-300) * np.sqrt(len(gained)))
    assert helps(without, within, z=3.0) == (z > 3.0)
    return z
