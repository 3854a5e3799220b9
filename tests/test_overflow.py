"""Overflow far from the original: in the numbers, not in warnings of NumPy's."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from driftline import ContinualDensityRatio, FitDivergedError

KINDS = ("reverse_kl", "kl", "js", "hellinger", "pearson", "neyman", "total_variation")


def apart(rng):
    return [rng.normal(8.0 * t, 1.0, (1500, 4)) for t in range(3)]


def heavy(rng):
    return [np.exp(3.0 * rng.normal(0.1 * t, 1.0, (1500, 4))) for t in range(6)]


@pytest.mark.parametrize("objective", ["logistic", "kliep", "nwj"])
@pytest.mark.parametrize("windows", [apart, heavy])
def test_numbers_that_overflow_leave_no_warning_of_numpy(windows, objective):
    first, *rest = windows(np.random.default_rng(13))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", RuntimeWarning)
        est = ContinualDensityRatio(objective, random_state=0).fit(first)
        try:
            for window in rest:
                est.partial_fit(window)
        except FitDivergedError:  # KLIEP and NWJ have no minimum where windows are apart, and say so
            assert objective != "logistic"
            return
        for kind in KINDS:
            est.divergence(kind)
            est.step_divergence(kind)
        est.log_ratio(first, return_std=True)
        est.weights(first)
        est.attribution()
