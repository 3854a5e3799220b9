"""Images in [0, 1] with labels, and a classifier of them that experiments share."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.datasets import load_digits

from driftline import Training
from driftline.features import ClassifierFeatures
from experiments.images import DATASETS as IDX
from experiments.images import load_images

__all__ = ["DATASETS", "Data", "Images", "classifier", "classifier_path", "load"]

Images = npt.NDArray[np.float32]


class Data(NamedTuple):
    """Images in [0, 1] and their labels, 0 to the number of classes - 1."""

    train: Images
    train_labels: npt.NDArray[np.int64]
    test: Images
    test_labels: npt.NDArray[np.int64]

    def of(self, label: int) -> Images:
        """Images to train on of one class."""
        found: Images = self.train[self.train_labels == label]
        return found


def _digits() -> Data:
    digits = load_digits()
    images, labels, held = (digits.images / 16.0).astype(np.float32), digits.target.astype(np.int64), 300
    return Data(images[held:], labels[held:], images[:held], labels[:held])


def _idx(dataset: str) -> Data:
    found = load_images(dataset)
    train, test = (part.astype(np.float32) / np.float32(255.0) for part in (found.train, found.test))
    return Data(train, found.train_labels.astype(np.int64), test, found.test_labels.astype(np.int64))


DATASETS: dict[str, Callable[[], Data]] = {
    **{name: partial(_idx, name) for name in IDX},
    "digits": _digits,  # 8 x 8, bundled with scikit-learn, for tests
}
"""Data sets by name, as all experiments on images know them."""


def load(dataset: str) -> Data:
    """Load a data set of :data:`DATASETS`."""
    if dataset not in DATASETS:
        raise ValueError(f"dataset={dataset!r} is unknown: choose one of {', '.join(DATASETS)}")
    return DATASETS[dataset]()


def classifier_path(folder: Path, dataset: str, width: float, epochs: int) -> Path:
    """The file in ``folder`` of the classifier with these settings."""
    kind = json.dumps([dataset, width, epochs])
    return folder / f"classifier-{hashlib.sha256(kind.encode()).hexdigest()[:10]}.safetensors"


def classifier(data: Data, path: Path, *, width: float, epochs: int) -> ClassifierFeatures:
    """A classifier of real images of all classes, with a seed of its own; kept in a file that all units share.

    Two units that begin together both train it, and write the same: to wait for each other would save no time.
    """
    if path.exists():
        return ClassifierFeatures.load(path)
    training = Training(epochs=epochs, min_epochs=epochs, batch=128)
    net = ClassifierFeatures(width=width, training=training, random_state=0).fit(data.train, data.train_labels)
    path.parent.mkdir(parents=True, exist_ok=True)
    net.save(path)
    return net
