"""Scores of rows: log-ratios and weights back to an original, with reasons not to trust them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from driftline.inference import Doubt
from driftline.monitor._advance import RunState, rows_of
from driftline.recursion import LogRatios, Track, as_read, log_ratio, moderated, track_of, weights
from driftline.tables import Rows

__all__ = ["Scores", "log_ratios", "score"]

Floats = npt.NDArray[np.float64]


class Scores(NamedTuple):
    """Log-ratios and weights of rows, (n,), the original they lead back to, and reasons not to trust them."""

    original: str
    log_ratio: Floats
    weights: Floats
    doubts: tuple[Doubt, ...]


def log_ratios(state: RunState, rows: Rows, original: str | None) -> LogRatios:
    """Return log-ratios of rows alone, whose doubts are fewer than those of weights."""
    return log_ratio(*_asked(state, rows, state.originals[0].name if original is None else original))


def score(state: RunState, rows: Rows, original: str | None) -> Scores:
    """Score rows in the state of a run; ``original`` is the one that it began with if None."""
    name = state.originals[0].name if original is None else original
    track, values = _asked(state, rows, name)
    found = weights(track, values)
    return Scores(name, log_ratio(track, values).values, found.values, found.doubts)


def _asked(state: RunState, rows: Rows, original: str) -> tuple[Track, Floats]:
    encoded = state.encoder.transform(rows)
    track = track_of(state.recursion, original)
    if state.settings.model == "auto":
        track = as_read(track._replace(current=moderated(track.current)))
    return track, rows_of(state.encoder, encoded.values, "X", min_rows=0, copy=False)
