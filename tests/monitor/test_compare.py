"""A single look at two tables: what an interval says, or the lack of one."""

import math

import pytest

from driftline.alarms import Cause, Signal
from driftline.inference import Estimate
from driftline.monitor._compare import _judged


@pytest.mark.parametrize(
    ("low", "high", "signal", "cause"),
    [
        (0.01, 0.05, Signal.NORMAL, Cause.INTERVAL_WITHIN),
        (0.01, math.nan, Signal.WARNING, Cause.LOWER_BOUND),  # below the tolerance, as far as one can see
        (0.20, math.nan, Signal.ALARM, Cause.LOWER_BOUND),
        (math.nan, math.nan, Signal.WARNING, Cause.NO_INTERVAL),
    ],
)
def test_nothing_but_an_interval_within_the_tolerance_is_normal(low, high, signal, cause):
    assert _judged(Estimate(0.03, 0.01, low, high, 0.95), 0.1, math.isnan(low)) == (signal, cause)
