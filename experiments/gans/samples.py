"""The GANs' samples, made once: after each task, images of all classes so far stay on disk for any judge."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from experiments.experiment import Report, Row, Unit
from experiments.files import write_arrays
from experiments.gans.training import ContinualGAN, Settings
from experiments.labelled import Images, load
from experiments.parts import unit_folder
from experiments.resuming import state_path, task_by_task

__all__ = [
    "DIVERGED",
    "FIELDS",
    "MEASURES",
    "SECONDS",
    "TRAININGS",
    "grid",
    "read",
    "train",
    "training_unit",
]

DIVERGED, SECONDS = MEASURES = "diverged", "training_seconds"
"""Measures of a training, which are not of one class: their ``original`` is 0."""

_SETTINGS = tuple(field.name for field in fields(Settings))
TRAININGS = {"guarded": False, "authors": True}
"""Ways to train, and whether it is the authors' plain one."""

FIELDS = ("dataset", "tasks", "generated", "training", *_SETTINGS)  # a change of one is another training


def training_unit(args: Any, model: str, seed: int) -> Unit:
    """Return the unit that trains a model."""
    return Unit(model, seed, 2 * args.tasks, fields=FIELDS)


def train(args: Any, unit: Unit, report: Report, work: Path) -> Iterator[Row]:
    """Learn task by task; keep samples in ``work``, and the last networks.

    A training that diverges is recorded: it has no samples from that task on, since replay comes from its generator.
    """
    data = load(args.dataset)
    shape = (data.train.shape[1], data.train.shape[2])
    gan = ContinualGAN(unit.case, shape, args.tasks, _settings(args), seed=unit.seed, device=args.device)

    def learn(task: int) -> Iterator[Row]:
        began = time.perf_counter()
        lost = task > 0 and not _path(work, task - 1).exists()
        if not lost:
            if gan.learned < task:
                gan.load(state_path(work, task - 1))
            try:
                gan.learn(data.of(task), lambda i, n: report(f"task {task + 1}: {i}/{n}"))
            except FloatingPointError as error:
                report(str(error))
                lost = True
            else:
                kept = {str(k): _bytes(gan.sample(k, args.generated)) for k in range(task + 1)}
                write_arrays(_path(work, task), **kept)
                gan.save(state_path(work, task))
        for measure, value in ((SECONDS, time.perf_counter() - began), (DIVERGED, float(lost))):
            yield {"task": task + 1, "original": 0, "measure": measure, "value": value}

    yield from task_by_task(work, args.tasks, learn)


def _settings(args: Any) -> Settings:
    """Return the GANs' settings: the arguments of the same names, and what ``training`` stands for."""
    given = {key: value for key, value in asdict(args).items() if key in _SETTINGS}
    plain = TRAININGS[args.training]
    return Settings(**given, safe=not plain, fresh=plain)


def read(folder: Path, args: Any, model: str, seed: int, task: int) -> dict[int, Images] | None:
    """Return the images of each class after a task, (n, height, width) in [0, 1]; None if the training had diverged."""
    found = _stored(folder, args, model, seed, task)
    return None if found is None else {k: images.astype(np.float32) / np.float32(255) for k, images in found.items()}


def grid(folder: Path, args: Any, model: str, seed: int, count: int) -> npt.NDArray[np.uint8] | None:
    """Return the first images, (tasks, classes, count, height, width); blank where there are none."""
    tasks = [_stored(folder, args, model, seed, task) for task in range(args.tasks)]
    if tasks[0] is None:
        return None
    found = np.zeros((args.tasks, args.tasks, count, *tasks[0][0].shape[1:]), np.uint8)
    for task, classes in enumerate(tasks):
        for k, images in (classes or {}).items():
            found[task, k] = images[:count]
    return found


def _stored(folder: Path, args: Any, model: str, seed: int, task: int) -> dict[int, npt.NDArray[np.uint8]] | None:
    path = _path(unit_folder(folder, args, training_unit(args, model, seed)), task)
    if not path.exists():
        return None
    with np.load(path) as kept:
        return {int(name): kept[name] for name in kept.files}


def _path(work: Path, task: int) -> Path:
    return work / f"samples-{task + 1}.npz"


def _bytes(images: Images) -> npt.NDArray[np.uint8]:
    return np.round(255 * images).astype(np.uint8)
