"""Certainty: what evidence beside the encoded columns is worth in nats, whatever the noise of the rest."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from driftline.inference import terms
from driftline.tables import Evidence

__all__ = ["Certainty", "certainty"]


class Certainty(NamedTuple):
    """A column, what of its rows has moved, and the least divergence that this takes."""

    column: str
    event: str
    least: float


def certainty(evidence: Iterable[Evidence], kind: str) -> Certainty | None:
    """Return the evidence that takes the largest divergence; None without any.

    Looking at a few events alone cannot increase a divergence, so that between their shares is the least.

    >>> found = certainty([Evidence("x", "most rows are below 3", (0.1, 0.9), (0.9, 0.1))], "reverse_kl")
    >>> found.column, round(found.least, 2)
    ('x', 1.76)
    """
    found = [Certainty(each.column, each.event, _least(each, kind)) for each in evidence]
    return max(found, key=lambda each: each.least, default=None)


def _least(evidence: Evidence, kind: str) -> float:
    then, now = (np.clip(shares, 1e-12, 1.0) for shares in (evidence.then, evidence.now))
    return float(now @ terms(np.log(then) - np.log(now), kind))
