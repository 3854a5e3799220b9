"""Smooth drift: log-ratios, divergences and their intervals on streams that end where their truth is known.

Numbers stand beside those of the first edition (``first_edition.json``), which some bars are made of. The foreign
streams are for reports alone: whoever tunes on them has nothing left to report.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.results import INF, Bar, Result
from benchmarks.streams import (
    BananaStream,
    HeavyClustersStream,
    LatentClassStream,
    MoveStream,
    RotatedStream,
    ShrinkStream,
    SkewedStream,
    StillStream,
    ThreeWayStream,
    truth,
)
from driftline import ContinualDensityRatio, FitDivergedError
from driftline.synthetic import (
    ClaytonStream,
    CompositionStream,
    CorrelationStream,
    GaussianStream,
    MixtureStream,
    RushHourStream,
)

FRESH = 20_000
"""Rows of the current regime on which log-ratios are judged."""
FIRST_EDITION = Path(__file__).with_name("first_edition.json")


@dataclass(frozen=True)
class Case:
    """A stream, how it is followed, and what is asked of its estimates.

    Arguments:
        stream: with ``sample``, ``log_ratio`` and, if it has a closed form, ``reverse_kl``.
        rows: rows of each window.
        model: of the estimator.
        every: windows per step.
        times: when it is judged; the last one ends the stream.
        mae: largest mean absolute error of the log-ratio at the end.
        of_first: largest mean absolute error as a multiple of the first edition's, at all times but t=1.
        off: largest relative error of reverse_kl, of its mean over seeds, at all times but t=1.
        off_each: the same for every seed, at the end.
        errors: largest distance of the truth in standard errors, at the end.
        covered: smallest share of 95 % intervals that hold the truth.
        honest: smallest share of looks whose interval holds the truth or that carry a doubt.
        doubt_will_do: whether a doubt excuses a wrong value.
    """

    name: str
    stream: Any
    rows: int
    model: str = "auto"
    every: int = 1
    times: tuple[int, ...] = (1, 5, 20)
    mae: float | None = None
    of_first: float | None = None
    off: float | None = None
    off_each: float | None = None
    errors: float | None = None
    covered: float | None = None
    honest: float | None = None
    doubt_will_do: bool = False


def _shrinking(model: str) -> Iterator[Case]:
    for factor, last in ((10, 7), (1000, 14)):
        for dim, place in ((1, "alone"), (8, "of-8")):
            yield Case(
                f"smooth-shrink-{factor}-{place}-{model}",
                ShrinkStream(dim, float(factor), last),
                8_000,
                model,
                times=(5, last),
                off_each=0.03,
                errors=3.0,
            )


def _table(name: str, stream: Any) -> Case:
    return Case(name, stream, 5_000, of_first=0.5, off=0.10, covered=0.85, honest=0.9)


CASES = [
    *_shrinking("quadratic"),
    *_shrinking("auto"),
    *(
        Case(f"smooth-move-{model}", MoveStream(), 10_000, model, times=(40,), off_each=0.03, doubt_will_do=True)
        for model in ("quadratic", "auto")
    ),
    *(Case(f"smooth-rotated-{dim}", RotatedStream(dim), 10_000, times=(4, 8), off_each=0.04) for dim in (20, 40)),
    *(
        Case(f"smooth-mixture-{rows}-d{every}", MixtureStream(), rows, every=every, times=(20,), mae=mae, off=0.04)
        for rows, mae in ((4_000, 0.29), (20_000, 0.13))
        for every in (1, 4)
    ),
    Case("smooth-mixture-5", MixtureStream(dim=5), 2_000, covered=0.90, honest=0.9),
    _table("smooth-latent", LatentClassStream()),
    _table("smooth-heavy", HeavyClustersStream()),
    _table("smooth-skewed", SkewedStream()),
    # what was right must stay so: a tenth is left to chance
    Case("smooth-gaussian", GaussianStream(), 4_000, every=4, times=(4, 20), of_first=1.1, off=0.03),
    Case("smooth-gaussian-5", GaussianStream(dim=5), 2_000, of_first=1.1, covered=0.92, honest=0.9),
    Case("smooth-pairs-6", CorrelationStream(dim=6), 2_000, times=(5, 20), honest=0.9),
    Case("smooth-banana", BananaStream(), 4_000, times=(5, 12, 20), honest=0.9),
    Case("smooth-three", ThreeWayStream(), 4_000, times=(5, 12, 20), honest=0.9),
    Case("smooth-correlation", CorrelationStream(), 20_000, every=4, times=(20,), of_first=1.1),
    Case("smooth-still-5", StillStream(GaussianStream(dim=5)), 2_000, of_first=1.1),
    Case("smooth-still-latent", StillStream(LatentClassStream()), 5_000, of_first=1.1),
]
FOREIGN = [
    _table("foreign-clayton", ClaytonStream()),
    _table("foreign-composition", CompositionStream()),
    _table("foreign-rush-hour", RushHourStream()),
]


class Look(NamedTuple):
    """What a seed shows at one time."""

    mae: float
    value: float
    std_error: float
    low: float
    high: float
    doubts: int


def run(case: Case, seeds: int, *, first_seed: int = 0, replicates: int = 0) -> Iterator[Result]:
    """Measure a case on seeds from ``first_seed`` on and, if it has a bar, the coverage over ``replicates`` of them."""
    for result in _measured(case, seeds, first_seed, replicates if case.covered or case.honest else 0):
        yield result._replace(first=first_edition().get(result.what))


def _measured(case: Case, seeds: int, first_seed: int, replicates: int) -> Iterator[Result]:
    kept, failed = {}, 0
    for seed in range(first_seed, first_seed + max(seeds, replicates)):
        try:
            kept[seed] = follow(case, seed)
        except FitDivergedError:
            failed += 1
    # one window after the original there is hardly a drift: only the intervals are worth a look
    for t in [t for t in case.times if kept and t % case.every == 0 and (t > 1 or replicates)]:
        looks = {seed: found[t] for seed, found in kept.items()}
        yield from _by_seed(case, t, {seed: look for seed, look in looks.items() if seed < first_seed + seeds})
        yield from _together(case, t, list(looks.values()))
        if replicates:
            yield from _intervals(case, t, list(looks.values()))
    if failed:
        yield Result(f"{case.name}: seeds without a fit", -1, float(failed), 0.0)


def follow(case: Case, seed: int) -> dict[int, Look]:
    """Return what is seen of a stream at the times of a case."""
    rng, other = np.random.default_rng([seed, 0]), np.random.default_rng([seed, 1])
    estimator = ContinualDensityRatio(model=case.model, random_state=seed)
    estimator.fit(case.stream.sample(0, case.rows, rng))
    found = {}
    for t in range(case.every, case.times[-1] + 1, case.every):
        estimator.partial_fit(case.stream.sample(t, case.rows, rng))
        if t in case.times:
            e = estimator.divergence("reverse_kl")
            fresh = case.stream.sample(t, FRESH, other)
            mae = float(np.abs(estimator.log_ratio(fresh) - case.stream.log_ratio(fresh, t)).mean())
            found[t] = Look(mae, e.value, e.std_error, e.low, e.high, len(e.doubts))
    return found


def _by_seed(case: Case, t: int, looks: dict[int, Look]) -> Iterator[Result]:
    """Yield what each seed shows at time t."""
    true, end = truth(case.stream, t), t == case.times[-1]
    for seed, look in looks.items():
        what = f"{case.name}, t={t}"
        yield Result(f"{what}: log-ratio MAE", seed, look.mae, case.mae if end else None)
        off, errors = _off(look, true), _over(true - look.value, look.std_error)
        wanted = _within(case.off_each) if end else None
        excused = case.doubt_will_do and look.doubts > 0
        yield Result(f"{what}: {_kl(true)}", seed, off, None if excused else wanted)
        wanted = _within(case.errors) if end else None
        yield Result(f"{what}: (truth - value) / standard error", seed, errors, wanted)


def _together(case: Case, t: int, looks: list[Look]) -> Iterator[Result]:
    """Yield means over all seeds at time t where they are asked for: the noise of one seed may exceed what is asked."""
    true, what = truth(case.stream, t), f"{case.name}, t={t}, all seeds"
    if case.of_first is not None:
        name = f"{what}: log-ratio MAE"
        first = first_edition().get(name)
        bar = case.of_first * first if first and t > 1 else None
        yield Result(name, -1, float(np.mean([look.mae for look in looks])), bar)
    if case.off is not None:
        bar = case.off if t > 1 else None
        yield Result(f"{what}: {_kl(true)}", -1, float(np.mean([_off(look, true) for look in looks])), _within(bar))
    doubted = float(np.mean([look.doubts > 0 for look in looks]))
    if doubted or case.doubt_will_do:
        yield Result(f"{what}: share doubted", -1, doubted, None)


def _intervals(case: Case, t: int, looks: list[Look]) -> Iterator[Result]:
    """Yield how intervals of replicates at time t hold the truth, and how they come to it."""
    true, what = truth(case.stream, t), f"{case.name}, t={t}, all seeds"
    inside = float(np.mean([look.low <= true <= look.high for look in looks]))
    wanted = (case.covered, INF) if case.covered else None
    yield Result(f"{what}: share of intervals that hold the truth", -1, inside, wanted)
    held = float(np.mean([look.low <= true <= look.high or look.doubts > 0 for look in looks]))
    yield Result(f"{what}: share that hold or doubt", -1, held, (case.honest, INF) if case.honest else None)
    withheld = float(np.mean([not math.isfinite(look.high - look.low) for look in looks]))
    yield Result(f"{what}: share of intervals withheld", -1, withheld, None)
    values = np.array([look.value for look in looks])
    spread = float(values.std(ddof=1))
    yield Result(f"{what}: bias / spread", -1, _over(float(values.mean()) - true, spread), None)
    ratio = _over(float(np.median([look.std_error for look in looks])), spread)
    yield Result(f"{what}: standard error / spread", -1, ratio, None)


def _kl(true: float) -> str:
    return "reverse KL off by" if true else "reverse KL (truth: 0)"


def _off(look: Look, true: float) -> float:
    """Return the relative error of the value, or the value where the truth is 0."""
    return look.value / true - 1.0 if true else look.value


def _within(most: float | None) -> Bar:
    return None if most is None else (-most, most)


def _over(one: float, other: float) -> float:
    return one / other if other else math.nan


@lru_cache
def first_edition() -> dict[str, float]:
    """Return means over seeds of what the first edition measured, by name."""
    if not FIRST_EDITION.exists():
        return {}
    numbers: dict[str, list[float | None]] = json.loads(FIRST_EDITION.read_text(encoding="utf-8"))["numbers"]
    found = {what: [value for value in values if value is not None] for what, values in numbers.items()}
    return {what: float(np.mean(values)) for what, values in found.items() if values}
