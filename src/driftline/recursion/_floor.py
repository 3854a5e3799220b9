"""The floor of a step and of all steps: bounds from below that hold whatever the model.

Both rest on rows that nothing was learned from. A step has two windows at hand: a contrast learned from a part of each
is judged on the rest. Of the original only counts are left later, on partitions that were fixed at the first step:
partitions learned later would favour the rows they were learned from, and bounds of steps do not add up.
"""

from __future__ import annotations

import math

import numpy as np

from driftline._inputs import Floats
from driftline.inference import NO_GAIN, Gain, held_out_gain, inflation
from driftline.recursion._contrast import Contrast, learn, split
from driftline.recursion._partitions import Partitions, count, fix, floor_of
from driftline.recursion._settings import StepSettings
from driftline.recursion._state import Anchor, Track

__all__ = ["floor_on", "measured"]


def measured(
    track: Track, anchor: Anchor, arrived: Anchor, settings: StepSettings, factor: float = 1.0
) -> tuple[Gain, Partitions | None]:
    """Return the floor of a step from an anchor, and the partitions with the counts of the window it arrives at.

    Arguments:
        track: the original's track before the step.
        factor: rows of which one is worth one independent row, for other reasons than their order (repeats).
    """
    width = arrived.psi.standardizer.mean.shape[0]
    num, den = anchor.window[:, :width], arrived.window[:, :width]
    lag_num, lag_den = anchor.lag, arrived.lag
    (known, held), (seen, unseen) = split(num), split(den)
    learned = learn(known, seen)
    first, kept = track.step_log_ratio.size == 0, track.partitions
    gain = NO_GAIN
    if learned is not None and not _lost(lag_num, len(num), settings) and not _lost(lag_den, len(den), settings):
        u = [learned.share * learned.contrast(*x) for x in (held, unseen)]
        gain = held_out_gain(u[0], u[1], lag_num, lag_den, factor)
    if first:
        held, unseen = [np.concatenate(held)], [np.concatenate(unseen)]
        kept = fix(learned, known, seen, held[0])
        if kept is not None:
            rows = _effective(kept.contrast, held[0], lag_num, len(num), settings)
            kept = kept._replace(rows=np.array([rows / factor, 0.0]))
    if kept is not None:  # pairs and the contrast were chosen with the help of a part of the first window
        fresh = unseen[0] if first else den
        rows = _effective(kept.contrast, fresh, lag_den, len(den), settings)
        kept = kept._replace(current=count(kept, fresh), rows=np.array([kept.rows[0], rows / factor]))
    return gain, kept


def floor_on(partitions: Partitions | None, level: float, rows: Floats | None = None, lag: int = 0) -> float:
    """Return the floor of KL(current‖original) over the current window, or over further rows; nan if there is none."""
    if partitions is None:
        return math.nan
    if rows is None:
        return floor_of(partitions, partitions.current, float(partitions.rows[1]), level)
    worth = len(rows) / inflation(partitions.contrast.marks(rows), lag)
    return floor_of(partitions, count(partitions, rows), worth, level)


def _lost(lag: int, rows: int, settings: StepSettings) -> bool:
    """Say whether rows depend on each other for longer than can be measured: the search for it ends there."""
    return settings.lag is None and lag > 0 and lag >= rows // 20


def _effective(contrast: Contrast, rows: Floats, lag: int, of: int, settings: StepSettings) -> float:
    """Return how many independent rows these rows, of a window of so many, are worth; 0 if that is unknown."""
    return 0.0 if _lost(lag, of, settings) else len(rows) / inflation(contrast.marks(rows), lag)
