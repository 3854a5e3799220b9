"""The floor of a step and of all steps: bounds from below that hold whatever the model.

Both rest on rows that nothing was learned from. A step has two windows at hand: a contrast learned from a part of each
is judged on the rest. Of the original only counts are left later, on partitions that were fixed at the first step:
partitions learned later would favour the rows they were learned from, and bounds of steps do not add up.
"""

from __future__ import annotations

import math

import numpy as np

from driftline._inputs import Floats
from driftline.inference import NO_GAIN, Dependence, Gain, held_out_gain, inflation
from driftline.recursion._contrast import COLUMNS, Contrast, learn, split, thinning
from driftline.recursion._partitions import Partitions, count, fix, floor_of
from driftline.recursion._settings import StepSettings
from driftline.recursion._state import Anchor, Step, Track

__all__ = ["counted", "floor_on", "measured", "recounted", "started"]


_COUNTED = 3000  # rows of a window, or half as many as of the original: its counts are the larger part of the noise
_ERRORS = 2.0  # standard errors beyond its noise below which a step has hardly any floor: 0.07 of its nats at most
_LEAST = 100  # rows of a window: half of them are held out, and counts of fewer say nothing


def measured(
    track: Track, anchor: Anchor, taken: Step, rows_num: Dependence, rows_den: Dependence, settings: StepSettings
) -> tuple[Gain, Partitions | None]:
    """Return the floor of a step from an anchor, and the partitions with the counts of the window it arrives at.

    Arguments:
        track: the original's track before the step.
        rows_num, rows_den: how the rows of the anchor's window, and of the new one, depend on each other. Copies of
            rows that were learned from lie among the held-out ones: nothing is then said of the step, and the contrast
            is not counted.
    """
    width = taken.anchor.psi.standardizer.mean.shape[0]
    num, den = anchor.window[:, :width], taken.anchor.window[:, :width]
    first, kept, repeated = track.step_log_ratio.size == 0, track.partitions, max(rows_num.worth, rows_den.worth) > 1.0
    few = min(len(num), len(den)) < _LEAST
    learned = None if few or (not first and (repeated or _is_quiet(taken, settings))) else learn(num, den)
    gain = Gain(0.0, 0.0)
    if few or repeated or rows_num.endless or rows_den.endless:
        gain = NO_GAIN
    elif learned is not None:
        lags = (-(-rows.lag // thinning(len(x))) for rows, x in ((rows_num, num), (rows_den, den)))
        gain = held_out_gain(*learned.values(), *lags)
    if first and learned is not None:
        kept = fix(learned, num, den, contrasted=not repeated)
        kept = kept._replace(rows=np.array([_effective(kept.contrast, split(num)[1], rows_num), 0.0]))
    if kept is not None:  # pairs and the contrast were chosen with the help of a part of the first window
        fresh = split(den)[1] if first else den
        some = _spread(fresh, max(_COUNTED, int(kept.original.contrast.sum()) // 2))
        rows = min(_effective(kept.contrast, fresh, rows_den), len(some))
        kept = kept._replace(current=count(kept, some), rows=np.array([kept.rows[0], rows]))
    return gain, kept


def started(samples: Floats, depend: Dependence) -> Partitions | None:
    """Return partitions fixed on an original alone, before there is a window; None for want of rows.

    Such cells are of columns and pairs of columns: all of a window's rows may be counted on them.
    """
    learned = learn(samples, samples) if len(samples) >= _LEAST else None
    if learned is None:
        return None
    kept = fix(learned, samples, samples, contrasted=False)
    return kept._replace(rows=np.array([_effective(kept.contrast, split(samples)[1], depend), 0.0]))


def counted(partitions: Partitions | None, window: Floats, depend: Dependence) -> Partitions | None:
    """Return the partitions with the counts of a window's rows; none of these was learned from."""
    if partitions is None:
        return None
    some = _spread(window, max(_COUNTED, int(partitions.original.contrast.sum()) // 2))
    rows = min(_effective(partitions.contrast, window, depend), len(some))
    return partitions._replace(current=count(partitions, some), rows=np.array([partitions.rows[0], rows]))


def _spread(rows: Floats, most: int) -> Floats:
    """Return so many rows at most, spread over all of them."""
    return rows if len(rows) <= most else rows.take(np.arange(most) * len(rows) // most, 0)


def _is_quiet(taken: Step, settings: StepSettings) -> bool:
    """Say whether a step is so small that held-out rows would not show it: the floor is then 0, which is never wrong.

    A small step of ``auto`` says so: it has the features of a contrast, and learns from all rows. A contrast that is
    learned from half of them loses as much as it has noise, and of the rest its bound leaves out some standard errors.
    """
    columns = min(taken.anchor.psi.standardizer.mean.shape[0], COLUMNS)
    scatter = 1.0 / len(taken.log_num) + 1.0 / len(taken.log_den)
    noise = 2 * columns * scatter
    least = noise + _ERRORS * math.sqrt(2.0 * noise * scatter)
    return settings.model == "auto" and taken.anchor.uncertainty is not None and taken.divergence < least


def floor_on(partitions: Partitions | None, level: float) -> float:
    """Return the floor of KL(current‖original); nan if there is none."""
    if partitions is None:
        return math.nan
    return floor_of(partitions, partitions.current, float(partitions.rows[1]), level)


def recounted(partitions: Partitions | None, rows: Floats, depend: Dependence) -> Partitions | None:
    """Return the partitions with counts of further rows of current, instead of its window."""
    if partitions is None:
        return None
    worth = _effective(partitions.contrast, rows, depend)
    return partitions._replace(current=count(partitions, rows), rows=np.array([partitions.rows[0], worth]))


def _effective(contrast: Contrast, rows: Floats, depend: Dependence) -> float:
    """Return how many independent rows these rows are worth; 0 if that is unknown."""
    if depend.endless:
        return 0.0
    worth = len(rows) / depend.worth
    return worth if depend.lag == 0 else worth / inflation(contrast.marks(rows).astype(np.float64), depend.lag)
