"""Columns that moved: how often one is named that stands still, and how often one that moved; mixed tables.

Windows are encoded and counted as the monitor does; the fit, which has no say in it, is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from driftline.monitor import Moves, Pool, Seen, moves
from driftline.tables import TableEncoder, count, open_ledger

Floats = npt.NDArray[np.float64]
Table = dict[str, npt.NDArray[np.generic]]

LEVEL, STRICT = 0.05, 0.001
_QUIET_WINDOWS, _BEFORE = 10, 6  # windows of a quiet stream; of a stream before its break
_ZIPF = 1.0 / np.arange(1, 31)


def mixed(rng: np.random.Generator, n: int) -> Table:
    """Draw a table of twelve columns: numbers of all shapes, categories of 2 to 30 values, flags, missing values."""
    joint = rng.standard_normal((n, 2))
    return {
        "normal": rng.standard_normal(n),
        "one": joint[:, 0],
        "other": 0.3 * joint[:, 0] + np.sqrt(1 - 0.3**2) * joint[:, 1],
        "lognormal": np.exp(rng.standard_normal(n)),
        "count": rng.poisson(3.0, n).astype(float),
        "spiked": np.where(rng.random(n) < 0.4, 0.0, rng.gamma(3.0, 1.0, n)),
        "two": rng.choice(["yes", "no"], n, p=[0.7, 0.3]),
        "five": rng.choice(list("abcde"), n, p=[0.4, 0.25, 0.2, 0.1, 0.05]),
        "thirty": rng.choice([f"v{k}" for k in range(30)], n, p=_ZIPF / _ZIPF.sum()),
        "flag": rng.random(n) < 0.2,
        "rare": rng.random(n) < 0.002,
        "gaps": np.where(rng.random(n) < 0.02, np.nan, rng.standard_normal(n)),
    }


class Named(NamedTuple):
    """Columns and pairs that were named in a window, and the moves themselves."""

    columns: frozenset[str]
    pairs: frozenset[tuple[str, str]]
    found: Moves


def watch(tables: Iterator[Table], level: float) -> Iterator[Named]:
    """Watch a stream of tables, the first of which is the original."""
    first = pa.table(next(tables))
    encoder = TableEncoder.fit(first)
    values = encoder.transform(first).values
    ledger, pool = open_ledger(encoder, values, float(len(values))), Pool()
    names = [column.column for column in ledger.columns]
    for table in tables:
        values = encoder.transform(pa.table(table)).values
        seen = Seen(count(ledger, encoder, values), len(values), float(len(values)))
        found = moves(ledger, seen, pool, level, 0.95)
        pool = found.pool
        pairs = frozenset((names[i], names[j]) for i, j in (ledger.pairs[k] for k in found.pairs))
        yield Named(frozenset(names[k] for k in found.named), pairs, found)


@dataclass(frozen=True)
class Shift:
    """A change of a table, and what is to be named."""

    name: str
    change: Callable[[np.random.Generator, Table], None]
    columns: frozenset[str]
    pairs: frozenset[tuple[str, str]] = frozenset()
    bar: float = 0.0


def _mean(by: float) -> Callable[[np.random.Generator, Table], None]:
    def change(rng: np.random.Generator, table: Table) -> None:
        table["normal"] = table["normal"] + by

    return change


def _correlated(rng: np.random.Generator, table: Table) -> None:
    n = len(table["one"])
    table["other"] = 0.5 * table["one"] + np.sqrt(1 - 0.5**2) * rng.standard_normal(n)


def _new_category(rng: np.random.Generator, table: Table) -> None:
    values = table["five"].astype("U8")
    values[rng.random(len(values)) < 0.01] = "new"
    table["five"] = values


def _missing(rng: np.random.Generator, table: Table) -> None:
    n = len(table["gaps"])
    table["gaps"] = np.where(rng.random(n) < 0.05, np.nan, rng.standard_normal(n))


def _rare(rng: np.random.Generator, table: Table) -> None:
    table["rare"] = rng.random(len(table["rare"])) < 0.01


def _scaled(rng: np.random.Generator, table: Table) -> None:
    table["spiked"] = 1.15 * table["spiked"]


SHIFTS = (
    Shift("mean +0.2 sd", _mean(0.2), frozenset({"normal"}), bar=0.95),
    Shift("correlation 0.3 to 0.5", _correlated, frozenset(), frozenset({("one", "other")}), bar=0.95),
    Shift("new category 1 %", _new_category, frozenset({"five"}), bar=0.8),
    Shift("missing 2 to 5 %", _missing, frozenset({"gaps"}), bar=0.8),
    Shift("rare 0.2 to 1 %", _rare, frozenset({"rare"}), bar=0.6),
    Shift("scale x1.15 of a spiked column", _scaled, frozenset({"spiked"}), bar=0.5),
    Shift("mean +0.1 sd", _mean(0.1), frozenset({"normal"})),
)


def quiet_rate(n: int, streams: int, first_seed: int, level: float = LEVEL) -> tuple[float, float, int]:
    """Return the shares of quiet windows in which a column, and in which a pair is named, and the number of windows."""
    columns, pairs, windows = 0, 0, 0
    for seed in range(first_seed, first_seed + streams):
        rng = np.random.default_rng([seed, n])
        for found in watch((mixed(rng, n) for _ in range(_QUIET_WINDOWS + 1)), level):
            columns, pairs, windows = columns + bool(found.columns), pairs + bool(found.pairs), windows + 1
    return columns / windows, pairs / windows, windows


def power(shift: Shift, n: int, streams: int, first_seed: int, before: int, after: int) -> tuple[Floats, float]:
    """Return how often what moved is named, in each window after the break, and how often something else is."""
    hits, false = np.zeros(after), 0
    for seed in range(first_seed, first_seed + streams):
        rng = np.random.default_rng([seed, n, 1])

        def tables(rng: np.random.Generator = rng) -> Iterator[Table]:
            for t in range(1 + before + after):
                table = mixed(rng, n)
                if t > before:
                    shift.change(rng, table)
                yield table

        for t, found in enumerate(watch(tables(), STRICT)):
            if t >= before:
                hits[t - before] += shift.columns <= found.columns and shift.pairs <= found.pairs
            false += not (found.columns <= shift.columns and found.pairs <= shift.pairs)
    return hits / streams, false / (streams * (before + after))
