"""Features in which images are judged: encoders of a continual VAE, trained once for all judges, or a classifier."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from driftline import Training
from driftline.features import ClassifierFeatures, ContinualVAE
from experiments.experiment import Report, Row, Unit
from experiments.gans import samples
from experiments.labelled import Data, Images, classifier, classifier_path, load
from experiments.parts import unit_folder
from experiments.resuming import task_by_task

__all__ = ["ENCODERS", "FEATURES", "MEASURES", "OUTPUTS", "View", "classified", "encoders_unit", "learn", "look"]

Floats = npt.NDArray[np.float64]

FEATURES, ENCODERS, OUTPUTS = ("vae", "classifier"), ("latest", "own"), ("draw", "mean")
LOSS, SECONDS = MEASURES = "vae_loss", "vae_seconds"
"""Measures of an autoencoder's training, which are not of one class: their ``original`` is 0."""

VAE_FIELDS = (*samples.FIELDS, "rows", "vae_epochs", "vae_likelihood", "vae_prior", "vaes")
CLASSIFIER_FIELDS = ("classifier_width", "classifier_epochs")
_BATCH, _RATE = 200, 1e-3  # the authors'


class View(NamedTuple):
    """Features by task and class.

    Attributes:
        encode: rows of a class's images as seen after a task, ``encode(task, class, images)``.
        moves: whether they change from task to task.
    """

    encode: Callable[[int, int, Images], Floats]
    moves: bool


def encoders_unit(args: Any, model: str, seed: int, number: int) -> Unit:
    """Return the unit that trains the ``number``-th autoencoder along with a model's tasks."""
    return Unit(f"{model}: vae {number}", seed, 2 * args.tasks, stage=1, fields=VAE_FIELDS)


def learn(args: Any, unit: Unit, report: Report, work: Path) -> Iterator[Row]:
    """Train an autoencoder task by task, on the new class's real images and samples of the others; keep all encoders.

    The samples are those from before the task, as many of each class as there are real images.
    """
    model, _, number = unit.case.partition(": vae ")
    data, folder = load(args.dataset), work.parent.parent

    def step(task: int) -> Iterator[Row]:
        began, real = time.perf_counter(), data.of(task)[: args.rows]
        last = samples.read(folder, args, model, unit.seed, task - 1) if task else {}
        loss = float("nan")
        if last is not None:
            rng = np.random.default_rng((unit.seed, int(number), task))
            replay = [images[rng.permutation(len(images))[: len(real)]] for images in last.values()]
            vae = ContinualVAE.load(_encoder(work, task - 1), device=args.device) if task else _vae(args, int(number))
            vae.set_params(progress=lambda epoch, epochs, *rest: report(f"task {task + 1}: {epoch}/{epochs}"))
            loss = vae.partial_fit(np.concatenate([*replay, real])).info_.held_out
            vae.save(_encoder(work, task))
        for measure, value in ((LOSS, loss), (SECONDS, time.perf_counter() - began)):
            yield {"case": model, "task": task + 1, "original": 0, "measure": measure, "value": value}

    yield from task_by_task(work, args.tasks, step)


def _vae(args: Any, seed: int) -> ContinualVAE:
    epochs = args.vae_epochs
    return ContinualVAE(
        likelihood=args.vae_likelihood,
        prior=args.vae_prior,
        training=Training(epochs=epochs, min_epochs=epochs, batch=_BATCH, lr=_RATE, schedule="constant"),
        device=args.device,
        random_state=seed,
    )


def _encoder(work: Path, task: int) -> Path:
    return work / f"encoder-{task + 1}.safetensors"


def classified(args: Any, data: Data, folder: Path) -> ClassifierFeatures:
    """Return the classifier of real images, which all units of a data set share."""
    width, epochs = args.classifier_width, args.classifier_epochs
    path = classifier_path(folder / "parts", args.dataset, width, epochs)
    return classifier(data, path, width=width, epochs=epochs)


def look(
    folder: Path, args: Any, data: Data, model: str, seed: int, kind: str, encoder: str, output: str, run: int
) -> View:
    """Return the view of a judge: a class's images by the newest encoder, by that of its own task, by the classifier.

    Arguments:
        kind: one of :data:`FEATURES`.
        encoder: one of :data:`ENCODERS`, for autoencoders.
        output: one of :data:`OUTPUTS`, for autoencoders.
        run: seed of the judge, which chooses among ``args.vaes`` autoencoders.
    """
    if kind == "classifier":
        net = classified(args, data, folder)
        return View(lambda task, original, images: net.transform(images), moves=False)
    work = unit_folder(folder, args, encoders_unit(args, model, seed, run % args.vaes))

    @cache
    def vae(task: int) -> ContinualVAE:
        found = ContinualVAE.load(_encoder(work, task), device=args.device)
        found.set_params(output=output)
        return found

    latest = encoder == "latest"
    return View(lambda task, original, images: vae(task if latest else original).transform(images), moves=latest)
