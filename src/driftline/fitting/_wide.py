"""A step where rows are few for the features: two estimates of one log-ratio, each good for what it is for.

* ``fit`` is held back as much as new rows advise: the log-ratio to report. Its coefficients are too small on average.
* ``plain`` is not held back: noisy, yet right on average, so that values and sums of steps are right when the noise,
  which is known, has been subtracted.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from driftline._inputs import Floats
from driftline.fitting._chunks import Integers
from driftline.fitting._derivatives import Loss
from driftline.fitting._designs import Design
from driftline.fitting._discriminant import Discriminant, Strong, discriminant, strong_part
from driftline.fitting._features import Features
from driftline.fitting._fits import ConvexFit
from driftline.fitting._moments import block_sums, moments
from driftline.fitting._repeats import Repeats
from driftline.fitting._shrinkage import Strengths, choose_strengths, fit_shrunk

__all__ = ["WideFit", "feature_kinds", "fit_wide"]


class WideFit(NamedTuple):
    """A step of many features.

    Attributes:
        fit: the log-ratio held back, constant last; ``fit.info.held_out`` is its loss expected on new rows.
        strengths: the ridge that was chosen for it.
        plain: coefficients that are not held back, without a constant, (p,).
        reverse, forward: KL(denominator‖numerator) and KL(numerator‖denominator), noise subtracted.
        mean_num, mean_den: mean features of both windows, (p,).
        discriminant, strong: where they come from.
    """

    fit: ConvexFit
    strengths: Strengths
    plain: Floats
    reverse: float
    forward: float
    mean_num: Floats
    mean_den: Floats
    discriminant: Discriminant
    strong: Strong


def feature_kinds(features: Features) -> Integers:
    """Return the kind of each feature: 0 for columns, 1 for squares, 2 for the rest, (p,)."""
    counts = (len(features.linear), len(features.squares), features.size - features.base)
    return np.repeat(np.arange(3), counts)


def fit_wide(
    num: Design,
    den: Design,
    loss: Loss,
    kinds: Integers,
    *,
    lag_num: int = 0,
    lag_den: int = 0,
    repeats_num: Repeats | None = None,
    repeats_den: Repeats | None = None,
    gram_num: Floats | None = None,
    gram_den: Floats | None = None,
) -> WideFit:
    """Fit the log-ratio of two windows with many features.

    Arguments:
        num, den: designs of both windows, ending in a column of ones; features centred somewhere near their means.
        loss: a loss that is a sum over rows.
        kinds: kind of each feature (p,), see :func:`feature_kinds`.
        lag_num, lag_den: distinct rows over which neighbours depend on each other.
        repeats_num, repeats_den: rows that are copies of each other, if there are any.
        gram_num, gram_den: those of :func:`~driftline.fitting.window_gram` where they are known: two thirds of the
            time of a step.
    """
    of = moments(num, den, gram_num, gram_den)
    sums = None
    if lag_num > 0 or lag_den > 0 or repeats_num is not None or repeats_den is not None:
        sums = block_sums(num, of, lag_num, repeats_num), block_sums(den, of, lag_den, repeats_den)
    found = discriminant(of, sums)
    strong = strong_part(num, den, loss, of, found.repetition)
    chosen = choose_strengths(of, kinds, strong.at, found.repetition)
    plain = found.coef.copy()
    plain[strong.at] += strong.coef
    half = 0.5 * found.divergence
    shift = of.shift * of.scale
    mean_num, mean_den = of.center + (1.0 - of.share) * shift, of.center - of.share * shift
    fit = fit_shrunk(num, den, loss, of, chosen)
    return WideFit(fit, chosen, plain, half + strong.reverse, half + strong.forward, mean_num, mean_den, found, strong)
