"""A made-up electricity table."""

import numpy as np
import pandas as pd
import pytest


@pytest.fixture(scope="session")
def market():
    """Make tables of whole weeks."""

    def make(weeks, rng, moved=0.0):
        """A table whose demand drifts up and whose price is a curve of it; with ``moved`` that curve drifts as well."""
        n = weeks * 336
        step = np.arange(n)
        way = step / n
        demand = np.clip(0.3 + 0.25 * way + 0.1 * rng.standard_normal(n), 0.0, 1.0)
        price = 0.02 + 0.3 * (demand - 0.4) ** 2 + 0.004 * rng.random(n) + moved * way
        return pd.DataFrame(
            {
                "date": way,
                "day": 1 + step // 48 % 7,
                "period": step % 48 / 47,
                "nswprice": price,
                "nswdemand": demand,
                "vicprice": 0.0,
                "vicdemand": 0.0,
                "transfer": 0.0,
                "class": np.where(price + 0.002 * rng.standard_normal(n) > np.median(price), "UP", "DOWN"),
            }
        )

    return make
