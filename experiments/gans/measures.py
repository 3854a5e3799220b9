"""Measures of generated images, each named once: how it is computed, titled and drawn."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, log
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from driftline import inference
from driftline.evaluation.metrics import fid, kid, prd

__all__ = ["AGREEMENT", "DIVERGENCES", "KEEPING", "MEASURES", "Measure"]

Floats = npt.NDArray[np.float64]


class Measure(NamedTuple):
    """How figures name a measure, and how it is computed if it is not one of driftline's divergences.

    Attributes:
        title: name in figures and tables.
        compare: function of the features of real and of generated images, for a measure that keeps real ones.
        unit: unit of its axis.
        log: whether its axis is logarithmic: the worst model may be far from the others.
        higher: whether higher is better.
        bound: the largest value there is.
    """

    title: str
    compare: Callable[[Floats, Floats], float] | None = None
    unit: str = ""
    log: bool = False
    higher: bool = False
    bound: float = inf


AGREEMENT = "agreement"
"""Share of a class's images that a classifier of real images gives that class."""

MEASURES = {
    "fid": Measure("FID", fid, log=True),
    "kid": Measure("KID", lambda real, made: kid(real, made, random_state=0).mean, log=True),
    "prd_f8": Measure("PRD recall (F8)", lambda real, made: prd(real, made, random_state=0).f_8, higher=True),
    "prd_f1_8": Measure("PRD precision (F1/8)", lambda real, made: prd(real, made, random_state=0).f_1_8, higher=True),
    AGREEMENT: Measure("classifier agrees", higher=True),
    "reverse_kl": Measure("reverse KL", unit="nats", log=True),
    "kl": Measure("KL", unit="nats", log=True),
    "js": Measure("Jensen-Shannon", unit="nats", bound=log(2.0)),
    "hellinger": Measure("squared Hellinger", bound=1.0),
}
DIVERGENCES = tuple(name for name in MEASURES if name in inference.DIVERGENCES)
KEEPING = tuple(name for name, measure in MEASURES.items() if measure.compare is not None)
