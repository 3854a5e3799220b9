"""State of an evaluation: a value that is replaced as a whole, once a task or an update has succeeded."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from driftline.estimators import ContinualDensityRatio
from driftline.evaluation._samples import Form, encoded
from driftline.evaluation._scores import Reading
from driftline.features import as_features
from driftline.inference import Doubt

__all__ = ["EvaluationState", "independent"]

Floats = npt.NDArray[np.float64]
_NONE: Mapping[str, Any] = {}


class EvaluationState(NamedTuple):
    """Everything that the next task needs; nothing in it is changed, so a state from before an error still holds.

    Attributes:
        features: features as they are now.
        ratio: ratio of all tasks; None before the first.
        readings: all readings so far.
        floors: each measure between two halves of a task's real samples.
        form: shape and columns of one sample.
        last: last generated samples of each task, if features move.
        real: real rows of each task, if they are kept.
        held: features as they were when a task began, if they move and are held.
        waiting: the task that has begun and not been measured.
        doubts: doubts about the last numbers.
    """

    features: Any
    ratio: ContinualDensityRatio | None = None
    readings: tuple[Reading, ...] = ()
    floors: Mapping[str, Mapping[str, float]] = _NONE
    form: Form = Form()
    last: Mapping[str, Any] = _NONE
    real: Mapping[str, Floats] = _NONE
    held: Mapping[str, Any] = _NONE
    waiting: str | None = None
    doubts: tuple[Doubt, ...] = ()

    def encoded(self, task: str, samples: Any, what: str) -> Floats:
        """Encode samples in the features of a task's ratio, (n, D)."""
        return encoded(as_features(self.held.get(task, self.features)), samples, what)


def independent(features: Any) -> Any:
    """Return features that are equal now, and that do not change these when they are trained."""
    if hasattr(features, "snapshot"):
        return features.snapshot()
    try:
        return copy.deepcopy(features)
    except Exception as error:
        name = type(features).__name__
        message = f"features by {name} are copied before they are trained, and cannot be ({error}): give {name} a "
        raise TypeError(message + "method snapshot() that returns an independent copy") from error
