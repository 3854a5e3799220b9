"""Readings of a continual GAN after each task: by CDRE, by measures that keep the real images, by a classifier."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from driftline import DensityRatio, Training
from driftline.evaluation import ContinualEvaluation
from driftline.features import ClassifierFeatures, ContinualVAE
from experiments.experiment import Row
from experiments.labelled import Data, Images
from experiments.methods import untrusted

__all__ = ["AGREEMENT", "DIVERGENCES", "KEEPING", "STATIC", "WARNED", "Judge", "averages"]

DIVERGENCES = ("kl", "reverse_kl", "js", "hellinger")
KEEPING = ("fid", "kid")
STATIC = "static_"
"""Prefix of a divergence estimated from kept real images, in the same features."""
AGREEMENT = "agreement"
WARNED = "warned"
"""Number of CDRE's doubts about its estimates after a task; not of one original, so ``original`` is 0."""


class Judge:
    """Readings after each task, as rows.

    Arguments:
        net: features for FID and KID, and labels for the agreement.
        epochs: of the autoencoder, each task.
        real: how many real images of a task are compared with.
        encoder: "own", a task's images are encoded as when it began, or "latest", as in the paper.
    """

    def __init__(
        self, data: Data, net: ClassifierFeatures, *, epochs: int, real: int, seed: int, encoder: str = "own"
    ) -> None:
        if encoder not in ("own", "latest"):
            raise ValueError(f"encoder={encoder!r} is unknown: choose 'own' or 'latest'")
        training = Training(epochs=epochs, min_epochs=epochs, batch=128)
        self._data, self._net, self._count, self._seed = data, net, real, seed
        vae = ContinualVAE(training=training, likelihood="bernoulli", output="draw", random_state=seed)
        self._judge = ContinualEvaluation(
            vae,
            measures=(*DIVERGENCES, *KEEPING),
            hold_features=encoder == "own",
            keep_real=True,
            metric_features=net,
            random_state=seed,
        )

    def save(self, path: Path) -> None:
        """Save all it needs to go on; real images are in there, as features, since FID keeps them."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._judge.save(path)

    def load(self, path: Path) -> None:
        """Go on from a file."""
        self._judge = ContinualEvaluation.load(path)

    def begin(self, task: int) -> None:
        """Take a task's real images: the autoencoder learns, the original joins."""
        with untrusted():
            self._judge.task(str(task), self._real(task))

    def read(self, generated: dict[int, Images]) -> Iterator[Row]:
        """Rows of all measures, for each task's generated images."""
        with untrusted():
            self._judge.update({str(task): images for task, images in generated.items()})
        task = max(generated)
        yield _row(task, -1, WARNED, float(len(self._judge.doubts)))
        floors: dict[tuple[str, str], float] = {}
        for reading in self._judge.readings:
            if reading.after == str(task):
                floors[reading.task, reading.measure] = reading.floor
                yield _row(
                    task, int(reading.task), reading.measure, reading.value, reading.low, reading.high, reading.floor
                )
        for original, images in generated.items():
            yield from self._static(task, original, images, floors)
            yield _row(task, original, AGREEMENT, self._agreement(images, original), floor=self._recall(original))

    def _static(self, task: int, original: int, images: Images, floors: dict[tuple[str, str], float]) -> Iterator[Row]:
        """Ratio estimation between kept real and generated images, in the same features as CDRE."""
        with untrusted():
            ratio = DensityRatio(random_state=self._seed)
            ratio.fit(*(self._judge.encode(str(original), x) for x in (self._real(original), images)))
            found = {measure: ratio.divergence(measure) for measure in DIVERGENCES}
        for measure, e in found.items():
            yield _row(task, original, STATIC + measure, e.value, e.low, e.high, floors[str(original), measure])

    def _real(self, task: int) -> Images:
        return self._data.of(task)[: self._count]

    def _agreement(self, images: Images, task: int) -> float:
        return float((self._net.predict(images) == task).mean())

    def _recall(self, task: int) -> float:
        """The agreement of real images that the classifier has not seen."""
        return self._agreement(self._data.test[self._data.test_labels == task], task)


def _row(
    task: int,
    original: int,
    measure: str,
    value: float,
    low: float = np.nan,
    high: float = np.nan,
    floor: float = np.nan,
) -> Row:
    """Tasks and originals count from 1, as in the paper's figures."""
    return {
        "task": task + 1,
        "original": original + 1,
        "measure": measure,
        "value": value,
        "low": low,
        "high": high,
        "floor": floor,
    }


def averages(frame: pd.DataFrame) -> pd.DataFrame:
    """Means over the tasks learned: a row for each model, seed and task, a column for each measure."""
    means = frame.groupby(["case", "seed", "task", "measure"])["value"].mean().unstack()
    return means.reset_index()
