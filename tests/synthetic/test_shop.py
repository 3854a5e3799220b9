"""The web shop: its weeks can be repeated, and hold the drift built into them."""

from datetime import date

import numpy as np
import pytest

from driftline import DensityRatio
from driftline.synthetic import Shop
from driftline.tables import TableEncoder


def test_weeks_are_the_same_each_time_and_calendar_weeks():
    shop = Shop(orders=700, seed=1000)
    week = shop.week(2)
    assert week.equals(shop.week(2))
    assert not week.equals(Shop(orders=700, seed=1001).week(2))
    days = np.unique(week["ordered_at"].to_numpy().astype("datetime64[D]"))
    assert days[0] == np.datetime64("2025-01-20")
    assert len(days) == 7
    assert date(2025, 4, 30) == Shop().break_day
    assert week["age"].null_count > 0
    assert "wallet" not in week["payment"].to_pylist()
    assert "wallet" in shop.week(20)["payment"].to_pylist()


@pytest.mark.parametrize("seed", [1000, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1001, 1002))])
def test_the_drift_that_is_built_in_is_there(seed):
    """Compare the closed form with a static estimate that sees both weeks; the model can express this ratio."""
    shop = Shop(orders=8000, seed=seed)
    first, last = shop.week(0), shop.week(25)
    encoder = TableEncoder.fit(first, time_column="ordered_at")
    found = DensityRatio(random_state=0).fit(encoder.transform(first).values, encoder.transform(last).values)
    estimate = found.divergence("reverse_kl")
    assert abs(estimate.value - shop.drift(25)) < 4.0 * estimate.std_error, (estimate, shop.drift(25))
