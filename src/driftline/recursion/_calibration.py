r"""Calibration: among rows with log-ratio u, the odds of the two windows are :math:`e^u` if the fit is right.

A feature with the right columns may have the wrong shape: a product grows without bounds where the truth is a sign. No
function of the columns need show it, as the product itself was all that did; functions of u do. Their scores are zero
on average where the model is right, as those of the auditor's functions are.
"""

from __future__ import annotations

import math

import numpy as np

from driftline._inputs import Floats
from driftline.fitting import ConvexFit, LogLinearDesign, Scores
from driftline.inference import Dependence
from driftline.recursion._chance import LEVEL, chance
from driftline.recursion._sides import Window, half_of, left_over, seen_of

__all__ = ["miscalibrated"]

_ROWS = 8_000  # of a window; more would only cost time
_SIGNAL = 0.03  # nats beyond noise; in smaller steps u is noise itself
_OVERLAP = 0.25  # share of rows that both windows might hold; with less, u is steeper than the truth by its own noise
_ROWS_PER_PARAMETER = 40  # with fewer, too: of 13 runs on a mixture of 64 columns and 4,000 rows one was doubted
_KNOTS = (0.1, 0.3, 0.5, 0.7, 0.9)  # shares of the rows below them
_ENDS = (0.005, 0.995)  # beyond these, functions are constant: no row decides alone


def miscalibrated(
    fit: ConvexFit, designs: tuple[LogLinearDesign, LogLinearDesign], depend: tuple[Dependence, Dependence], rows: float
) -> bool:
    """Say whether hinges of the log-ratio would predict the windows better than chance explains.

    Arguments:
        fit: fit of the step.
        designs: designs of numerator and denominator.
        depend: how rows of both windows depend on each other.
        rows: number of effective rows of the window that has fewer.
    """
    if rows < _ROWS_PER_PARAMETER * len(fit.coef):
        return False
    if float(-fit.log_den.mean()) - len(fit.coef) / rows < _SIGNAL:
        return False
    both = np.concatenate([fit.log_num, fit.log_den])
    odds = np.exp(-np.abs(both))
    if float((4.0 * odds / np.square(1.0 + odds)).mean()) < _OVERLAP:
        return False
    shape = np.quantile(both, _ENDS), np.quantile(both, _KNOTS)
    parts = zip(designs, (fit.log_num, fit.log_den), (fit.num, fit.den), depend, strict=True)
    windows = [_window(*part, *shape) for part in parts]
    half = half_of(fit, windows[0], windows[1])
    if half is None:
        return False
    (one, other), live = left_over(windows[0], windows[1], half, windows[0].score)
    return chance(one.score + other.score, one.variance + other.variance, live, [one.side, other.side]) < LEVEL


def _window(
    design: LogLinearDesign, logs: Floats, scores: Scores, depend: Dependence, ends: Floats, knots: Floats
) -> Window:
    """Return some rows of a window, copies merged, with hinges of their log-ratios.

    These are of the fit itself: a function that is linear in them then has no score at all, however few rows there are.
    """
    design, first, bend = depend.distinct(design), depend.merged(scores.first), depend.merged(scores.second)
    logs = logs if depend.repeats is None else logs[depend.repeats.first]
    every = max(1, math.ceil(len(logs) / _ROWS))
    values = np.maximum(np.clip(logs[::every], *ends)[:, None] - knots, 0.0)
    seen, lag = seen_of(values.astype(np.float32)), math.ceil(depend.lag / every)
    score, bend = first[::every] * every, bend[::every] * every
    return Window(design.single[::every], seen, score, bend, lag, every)
