"""Judges of kept samples: estimators of density ratios in some features, and measures that keep the real images."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from driftline import ContinualDensityRatio, DensityRatio, FitDivergedError
from driftline.inference import Estimate
from driftline.recursion import OriginalInfo
from experiments.experiment import Report, Row, Unit
from experiments.gans import features, samples
from experiments.gans.measures import AGREEMENT, DIVERGENCES, KEEPING, MEASURES
from experiments.labelled import Data, Images, load
from experiments.methods import PAPER_RATE, ckliep
from experiments.resuming import state_path, task_by_task

__all__ = [
    "ESTIMATORS",
    "METRICS",
    "TRUTH",
    "Estimator",
    "Judge",
    "averages",
    "judge",
    "label",
    "leading",
    "out_of_range",
]

Floats = npt.NDArray[np.float64]
Ratio = ContinualDensityRatio | DensityRatio

METRICS = "metrics"
"""The judge by measures that keep real images, on the classifier's features; it has no seeds."""
TRUTH = "static"
"""The estimator that the others are compared with: it has all real images."""


class Estimator(NamedTuple):
    """An estimator of density ratios.

    Attributes:
        label: how figures name it.
        make: the estimator from arguments, seed and Report. A ContinualDensityRatio follows the samples from task to
            task and sees each real image once; a DensityRatio is fitted anew to all real images after each task.
        encoder: the autoencoder in which it is usually run, one of :data:`~experiments.gans.features.ENCODERS`.
        fields: arguments that only this one depends on.
    """

    label: str
    make: Callable[[Any, int, Report], Ratio]
    encoder: str = "own"
    fields: tuple[str, ...] = ()


def _ckliep(args: Any, seed: int, report: Report, **params: Any) -> ContinualDensityRatio:
    found = ckliep(args.ckliep_epochs, PAPER_RATE, seed, report, device=args.device, **params)
    assert found.training is not None
    found.training = found.training._replace(batch=args.ckliep_batch)
    return found


ESTIMATORS = {
    "paper": Estimator(
        "CKLIEP",
        lambda args, seed, report: _ckliep(args, seed, report),
        encoder="latest",
        fields=("ckliep_epochs", "ckliep_batch"),
    ),
    "code": Estimator(
        "CKLIEP of the authors' code",
        lambda args, seed, report: _ckliep(args, seed, report, variant="code"),
        encoder="latest",
        fields=("ckliep_epochs", "ckliep_batch"),
    ),
    "default": Estimator(
        "driftline",
        lambda args, seed, report: ContinualDensityRatio(device=args.device, random_state=seed),
    ),
    TRUTH: Estimator("static", lambda args, seed, report: DensityRatio(device=args.device, random_state=seed)),
}


class Judge(NamedTuple):
    """A judge of one model's samples; ``run`` is the seed of its estimator, ``seed`` that of the model's training."""

    model: str
    seed: int
    estimator: str = METRICS
    features: str = "classifier"
    encoder: str = ""
    output: str = ""
    run: int = 0

    def unit(self, args: Any) -> Unit:
        """Return the unit that judges all tasks."""
        where = " ".join(filter(None, (self.features, self.encoder, self.output)))
        kept = features.VAE_FIELDS if self.features == "vae" else features.CLASSIFIER_FIELDS
        fields: tuple[str, ...] = (*samples.FIELDS, "rows", *kept)
        measures = len(KEEPING) + 1
        if self.estimator != METRICS:
            fields, measures = (*fields, *ESTIMATORS[self.estimator].fields), len(DIVERGENCES)
        case = f"{self.model}: {self.estimator} on {where}, {self.run}"
        return Unit(case, self.seed, measures * args.tasks * (args.tasks + 1) // 2, stage=2, fields=fields)


def judge(args: Any, about: Judge, report: Report, work: Path) -> Iterator[Row]:
    """Judge the samples after each task: one row for each class and measure.

    Rows are without a value where the model's training diverged or the estimator's fit did; ``note`` says which.
    """
    folder, data = work.parent.parent, load(args.dataset)
    keeping = about.estimator == METRICS
    measures = (*KEEPING, AGREEMENT) if keeping else DIVERGENCES
    read = _metrics(args, data, folder) if keeping else _ratios(args, about, data, report, work)

    def step(task: int) -> Iterator[Row]:
        began, note = time.perf_counter(), ""
        found: dict[tuple[int, str], dict[str, float]] = {}
        generated = samples.read(folder, args, about.model, about.seed, task)
        if generated is None:
            note = "the training diverged"
        else:
            report(f"task {task + 1}")
            try:
                found = read(task, {k: images[: args.rows] for k, images in generated.items()})
            except FitDivergedError:
                note = "the fit diverged"
        seconds = time.perf_counter() - began
        for original in range(task + 1):
            for measure in measures:
                yield {
                    "case": about.model,
                    "estimator": about.estimator,
                    "features": about.features,
                    "encoder": about.encoder,
                    "output": about.output,
                    "estimator_seed": about.run,
                    "task": task + 1,
                    "original": original + 1,
                    "measure": measure,
                    **found.get((original, measure), _NOTHING),
                    "seconds": seconds,
                    "note": note,
                }
                seconds = float("nan")  # of the whole task, and said once: sums of rows are the unit's

    yield from task_by_task(work, args.tasks, step)


def averages(frame: pd.DataFrame) -> pd.DataFrame:
    """Return means over the classes learned: one row for each judge, its seed, model, task and measure.

    The column ``judge`` says who judges in which features, in the words of :func:`label`.
    """
    if "estimator" not in frame:
        return pd.DataFrame(columns=[*_WHO, "judge", "case", "seed", "estimator_seed", "task", "measure", "value"])
    judged = frame.assign(value=frame.value.mask(out_of_range(frame)))
    judged = judged[frame.estimator.notna()].fillna(dict.fromkeys(_WHO, ""))
    by = [*_WHO, "case", "seed", "estimator_seed", "task", "measure"]
    # a class without a number leaves the mean without one: the others' would be that of fewer classes
    means = judged.groupby(by, sort=False).value.agg(lambda values: values.mean(skipna=False)).reset_index()
    return means.assign(judge=["/".join(filter(None, who)) for who in means[_WHO].itertuples(index=False)])


def out_of_range(frame: pd.DataFrame) -> pd.Series:
    """Mark values that no such divergence has: of samples that hardly overlap, the ratio's tail may give any number."""
    bounds = frame.measure.map({name: measure.bound for name, measure in MEASURES.items()})
    return frame.value.abs() > (1.0 + _SLACK) * bounds


def leading(frame: pd.DataFrame) -> str:
    """Return the judge whose divergences the first figure shows: CKLIEP if it was run, empty if there is none."""
    judges = list(dict.fromkeys(averages(frame).judge))
    return next((judge for name in ESTIMATORS for judge in judges if judge.startswith(f"{name}/")), "")


def label(judge: str) -> str:
    """Put a judge into words: ``paper/vae/latest/draw`` is CKLIEP on VAE (latest, draw)."""
    name, kind, *how = judge.split("/")
    where = f"VAE ({', '.join(how)})" if kind == "vae" else kind
    return f"{ESTIMATORS[name].label} on {where}"


_SLACK = 0.05  # an estimate at a bound scatters to both sides of it
_WHO = ["estimator", "features", "encoder", "output"]
_NOTHING = dict.fromkeys(("value", "std_error", "low", "high", "doubts", "iterations"), float("nan"))
Found = dict[tuple[int, str], dict[str, float]]
Read = Callable[[int, dict[int, Images]], Found]


def _metrics(args: Any, data: Data, folder: Path) -> Read:
    net = features.classified(args, data, folder)

    def read(task: int, generated: dict[int, Images]) -> Found:
        found: Found = {}
        for k, images in generated.items():
            real, made = net.transform(data.of(k)[: args.rows]), net.transform(images)
            for name in KEEPING:
                compare = MEASURES[name].compare
                assert compare is not None
                found[k, name] = {**_NOTHING, "value": compare(real, made)}
            found[k, AGREEMENT] = {**_NOTHING, "value": float((net.predict(images) == k).mean())}
        return found

    return read


def _ratios(args: Any, about: Judge, data: Data, report: Report, work: Path) -> Read:
    folder = work.parent.parent
    view = features.look(
        folder, args, data, about.model, about.seed, about.features, about.encoder, about.output, about.run
    )
    made = ESTIMATORS[about.estimator].make(args, about.run, report)
    static = made if isinstance(made, DensityRatio) else None

    def afresh(task: int, generated: dict[int, Images]) -> Found:
        found: Found = {}
        assert static is not None
        for k, images in generated.items():
            static.fit(view.encode(task, k, data.of(k)[: args.rows]), view.encode(task, k, images))
            found |= {(k, name): _numbers(static.divergence, name, static.info_) for name in DIVERGENCES}
        return found

    def onwards(task: int, generated: dict[int, Images]) -> Found:
        ratio = made
        if task:
            if not state_path(work, task - 1).exists():
                raise FitDivergedError("an earlier step did")
            ratio = ContinualDensityRatio.load(state_path(work, task - 1), device=args.device, progress=made.progress)
        assert isinstance(ratio, ContinualDensityRatio)
        last = samples.read(folder, args, about.model, about.seed, task - 1) if task else {}
        assert last is not None
        _advance(ratio, task, data.of(task)[: args.rows], generated, {k: x[: args.rows] for k, x in last.items()}, view)
        ratio.save(state_path(work, task))
        return {
            (k, name): _numbers(partial(ratio.divergence, original=str(k)), name, ratio.info_.originals[str(k)])
            for k in generated
            for name in DIVERGENCES
        }

    return onwards if static is None else afresh


def _advance(
    ratio: ContinualDensityRatio,
    task: int,
    real: Images,
    generated: dict[int, Images],
    last: dict[int, Images],
    view: features.View,
) -> None:
    """Let the new class join as an original, then step from the ``last`` samples of all classes to those after it."""
    windows, before = {str(k): view.encode(task, k, images) for k, images in generated.items()}, None
    if not task:
        ratio.fit(view.encode(0, 0, real), name="0")
    else:
        if view.moves:
            ratio.change_features({str(k): view.encode(task, k, images) for k, images in last.items()})
            before = {str(k): view.encode(task - 1, k, generated[k]) for k in last}
        ratio.add_original(view.encode(task, task, real), name=str(task))
    ratio.partial_fit(windows, before=before)


def _numbers(divergence: Callable[[str], Estimate], measure: str, about: OriginalInfo) -> dict[str, float]:
    try:
        estimate = divergence(measure)
    except ValueError:  # samples that share nothing with the real images have no finite ratio
        return _NOTHING
    return {
        "value": estimate.value,
        "std_error": estimate.std_error,
        "low": estimate.low,
        "high": estimate.high,
        "doubts": len({doubt.code for doubt in (*estimate.doubts, *about.doubts)}),
        "iterations": about.fit.iterations,
    }
