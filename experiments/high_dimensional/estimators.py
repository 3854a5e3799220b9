"""Estimators of f-divergences between samples with very many columns, read on their own rows and on new ones."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import log
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from driftline import ContinualDensityRatio, DensityRatio
from driftline.inference import Doubt
from experiments.experiment import Report, Row
from experiments.methods import ckliep

__all__ = ["BOUNDS", "ESTIMATORS", "HELD_OUT", "OF_FIT", "PLUG_IN", "Pair", "Recipe", "held_out", "read"]

Floats = npt.NDArray[np.floating[Any]]

_MOST = 1.0  # times a log-ratio: new rows that lack the tail would let any larger one look good

PLUG_IN, HELD_OUT, OF_FIT = "plug-in", "held-out", "fit"
ESTIMATORS = {"auto": "driftline (auto)", "printed": "CKLIEP (paper)", "code": "CKLIEP (code)"}
"""Names of the estimators and how figures call them."""


class Pair(NamedTuple):
    """Rows (n, D) of original and current to fit, and new ones of each."""

    original: Floats
    current: Floats
    new_original: Floats
    new_current: Floats


@dataclass(frozen=True)
class Recipe:
    """The training of the paper's networks."""

    epochs: int
    rate: float

    def fit(self, name: str, pair: Pair, seed: int, report: Report) -> DensityRatio | ContinualDensityRatio:
        """A fitted estimator; one step of CKLIEP is static KLIEP."""
        if name == "auto":
            return DensityRatio(random_state=seed).fit(pair.original, pair.current)
        return ckliep(self.epochs, self.rate, seed, report, variant=name).fit(pair.original).partial_fit(pair.current)


def _doubts_of_fit(ratio: Any) -> Sequence[Doubt]:
    if isinstance(ratio, ContinualDensityRatio):
        return [doubt for about in ratio.info_.originals.values() for doubt in about.doubts]
    doubts: Sequence[Doubt] = ratio.info_.doubts
    return doubts


def read(recipe: Recipe, name: str, pair: Pair, seed: int, report: Report) -> Iterator[Row]:
    """Divergences over the rows fitted and over new ones; the log-ratio's factor for JS, warnings, seconds."""
    began = time.perf_counter()
    ratio = recipe.fit(name, pair, seed, report)
    plugged = {measure: ratio.divergence(measure) for measure in BOUNDS}
    doubts = [*_doubts_of_fit(ratio), *(doubt for estimate in plugged.values() for doubt in estimate.doubts)]
    on_original, on_current = (np.asarray(ratio.log_ratio(x)) for x in (pair.new_original, pair.new_current))
    for measure in BOUNDS:
        value, factor = held_out(measure, on_original, on_current)
        yield _row(name, measure, PLUG_IN, plugged[measure].value)
        yield _row(name, measure, HELD_OUT, value)
        if measure == "js":
            yield _row(name, "factor", OF_FIT, factor)
    yield _row(name, "warned", OF_FIT, float(len(doubts)))
    yield _row(name, "seconds", OF_FIT, time.perf_counter() - began)


def _row(estimator: str, measure: str, way: str, value: float) -> Row:
    return {"estimator": estimator, "measure": measure, "way": way, "value": value}


def _kl(p: Floats, q: Floats) -> float:
    return float(p.mean() - np.exp(_log_mean_exp(q)) + 1.0)


def _reverse_kl(p: Floats, q: Floats) -> float:
    return _kl(-q, -p)


def _js(p: Floats, q: Floats) -> float:
    return float(log(2.0) - 0.5 * (np.logaddexp(0.0, -p).mean() + np.logaddexp(0.0, q).mean()))


def _hellinger(p: Floats, q: Floats) -> float:
    return float(1.0 - 0.5 * (np.exp(_log_mean_exp(-0.5 * p)) + np.exp(_log_mean_exp(0.5 * q))))


def _log_mean_exp(values: Floats) -> float:
    return float(logsumexp(values) - log(len(values)))


BOUNDS: dict[str, Callable[[Floats, Floats], float]] = {
    "kl": _kl,
    "reverse_kl": _reverse_kl,
    "js": _js,
    "hellinger": _hellinger,
}
"""Lower bounds of the divergences by any function: from its values on rows of the original and of the current sample.

They are reached by log original/current, and in expectation they are below the divergence. Where that is large, the few
rows with the largest ratios are not among the new ones, and those of both KL may be too high by up to 1. A plain mean
of f(r) over new rows is not a bound: where an overfitted ratio scatters by s around a true 1, it reads s²/2 nats for
reverse KL, the bound -s²/2.
"""


def held_out(measure: str, on_original: Floats, on_current: Floats) -> tuple[float, float]:
    """A lower bound from log-ratios on new rows, and the factor that they are multiplied by, mean of two halves.

    Overfitted log-ratios are too large: a factor of at most 1 is found on one half of the rows and used on the other.
    """
    bound, found = BOUNDS[measure], []
    with np.errstate(over="ignore"):  # a log-ratio of 700 nats: its bound is minus infinity
        for here, there in ((0, 1), (1, 0)):
            p, q = on_original[here::2], on_current[here::2]
            best = minimize_scalar(lambda a, p=p, q=q: -bound(a * p, a * q), bounds=(0.0, _MOST), method="bounded")
            found.append((bound(best.x * on_original[there::2], best.x * on_current[there::2]), best.x))
    value, factor = np.mean(found, axis=0)
    return float(value), float(factor)
