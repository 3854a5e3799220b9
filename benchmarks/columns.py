"""Columns that moved: how often one is named that stands still, and how often one that moved; mixed tables.

Windows are encoded and counted as the monitor does; the fit, which has no say in it, is left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
from scipy.special import ndtr
from scipy.stats import chi2_contingency, ks_2samp

from benchmarks.hold_or_doubt import bound_of
from benchmarks.public import regimes
from benchmarks.results import INF, Result
from driftline.inference import marginal
from driftline.monitor import Moves, Pool, Seen, compare, moves
from driftline.tables import TableEncoder, count, open_ledger, recount

Floats = npt.NDArray[np.float64]
Table = dict[str, npt.NDArray[np.generic]]

LEVEL, STRICT = 0.05, 0.001
_QUIET_WINDOWS, _BEFORE = 10, 6  # windows of a quiet stream; of a stream before its break
_ZIPF = 1.0 / np.arange(1, 31)
_FIVE = np.array([0.4, 0.25, 0.2, 0.1, 0.05])


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
        "five": rng.choice(list("abcde"), n, p=_FIVE),
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
        if found.pairs:
            found = found.confirmed(recount(ledger, encoder, values, found.pairs, found.named), level)
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


def related(rng: np.random.Generator, n: int, moved: bool) -> Table:
    """Draw columns that tell the same (a pair that is nearly equal, four flags of one category) and columns that don't.

    ``moved`` shifts the equal ones, and takes rows from the first flag to the second.
    """
    x = rng.standard_normal(n) + 0.4 * moved
    kind = rng.choice(4, n, p=[0.3, 0.3, 0.2, 0.2] if moved else [0.4, 0.2, 0.2, 0.2])
    beside = rng.standard_normal((n, 3))
    return {
        "x": x,
        "copy": x + 0.1 * rng.standard_normal(n),
        **{f"is {k}": kind == k for k in range(4)},
        **{f"beside {k}": beside[:, k] for k in range(3)},
        "near": x - 0.4 * moved + rng.standard_normal(n),
    }


_RELATED = frozenset({"x", "copy", "is 0", "is 1"})


def told_apart(streams: int, first_seed: int, n: int = 2000) -> tuple[float, float]:
    """Return how often exactly those of related columns are named that moved, and how often a column that did not."""
    right = wrong = 0
    for seed in range(first_seed, first_seed + streams):
        rng = np.random.default_rng([seed, 2])
        *_, found = watch((related(rng, n, moved=t > 2) for t in range(4)), STRICT)
        right += found.columns == _RELATED
        wrong += not found.columns <= _RELATED
    return right / streams, wrong / streams


def held(streams: int, first_seed: int, n: int = 2000) -> dict[str, float]:
    """Return how often the interval of a column's own drift holds the truth, by what moved."""
    inside: dict[str, list[bool]] = {}
    for seed in range(first_seed, first_seed + streams):
        rng = np.random.default_rng([seed, 3])
        then = {"x": rng.standard_normal(n), "c": rng.choice(5, n, p=_FIVE).astype(str)}
        encoder = TableEncoder.fit(pa.table(then))
        ledger = open_ledger(encoder, encoder.transform(pa.table(then)).values, float(n))
        number, names = encoder.columns[0], ledger.columns[1].names
        edges = np.array([number.raw(edge) for edge in ledger.columns[0].edges])
        for shift in (0.0, 0.2, 0.5):
            share = _FIVE * np.exp(shift * np.arange(5))
            share /= share.sum()
            now = {"x": rng.standard_normal(n) + shift, "c": rng.choice(5, n, p=share).astype(str)}
            seen = Seen(count(ledger, encoder, encoder.transform(pa.table(now)).values), n, float(n))
            found = moves(ledger, seen, Pool(), 1.0, 0.95)
            order = [int(name) for name in names]
            after, before = (np.diff(ndtr([-np.inf, *(edges - by), np.inf])) for by in (shift, 0.0))
            for k, truth in enumerate((_kl(after, before), _kl(share[order], _FIVE[order]))):
                estimate = marginal(found.cells, k, 0.95)
                what = f"{('normal', 'category')[k]} by {shift:g}"
                inside.setdefault(what, []).append(bool(estimate.low <= truth <= estimate.high))
    return {what: float(np.mean(all_)) for what, all_ in inside.items()}


def _kl(q: Floats, p: Floats) -> float:
    live = (q > 0.0) & (p > 0.0)  # cells far out have no chance that a number can hold
    return float(q[live] @ np.log(q[live] / p[live]))


def run(seeds: int) -> Iterator[Result]:
    """Measure everything on made tables; ``seeds`` is multiplied to as many streams as the bars ask for."""
    streams = 17 * seeds
    for n in (500, 2000):
        columns, pairs, windows = quiet_rate(n, streams, 0)
        yield Result(f"quiet, {n} rows, {windows} windows: any name", -1, columns + pairs, 0.06)
        yield Result(f"quiet, {n} rows: a column", -1, columns, None)
        yield Result(f"quiet, {n} rows: a pair", -1, pairs, None)
    for shift in SHIFTS:
        bar = (shift.bar, INF) if shift.bar else None
        hits, false = power(shift, 2000, 2 * streams, 0, 0, 1)
        yield Result(f"{shift.name}: in the first window", -1, float(hits[0]), bar)
        hits, false = power(shift, 2000, streams, 500, _BEFORE, 8)
        yield Result(f"{shift.name}: after {_BEFORE} quiet windows", -1, float(hits[0]), bar)
        yield Result(f"{shift.name}: eight windows later", -1, float(hits[-1]), None)
        yield Result(f"{shift.name}: others named", -1, false, None)
    right, wrong = told_apart(2 * streams, 0)
    yield Result("related columns: those that moved, no others", -1, right, (0.95, INF))
    yield Result("related columns: one that did not", -1, wrong, 0.01)
    for what, share in held(5 * streams, 0).items():
        yield Result(f"interval of a {what} sd: holds the truth", -1, share, (0.93, 0.99))


def public(seeds: int) -> Iterator[Result]:
    """Compare names with plain tests of each column on public tables, and drift with a bound by boosted trees."""
    wanted = ("electricity, half-year 0 to 1", "electricity, half-year 0 to 2", "flights, winter to summer")
    for case in (case for case in regimes() if case.name in wanted):
        for seed in range(seeds):
            rng = np.random.default_rng(seed)
            pools = [pool.iloc[rng.permutation(len(pool))] for pool in (case.pools[0], case.pools[-1])]
            then, now = (pool.iloc[case.held : case.held + case.rows] for pool in pools)
            record = compare(then, now)
            named, plain = {m.column for m in record.columns}, _plain_tests(then, now)
            print(f"{case.name}, seed {seed}: only here {sorted(named - plain)}, only plain {sorted(plain - named)}")
            yield Result(f"{case.name}: columns named", seed, len(named), None)
            yield Result(f"{case.name}: columns told otherwise by plain tests", seed, len(named ^ plain), 1)
            encoder = TableEncoder.fit(pa.Table.from_pandas(then, preserve_index=False))
            z = [encoder.transform(pa.Table.from_pandas(part, preserve_index=False)).values for part in (then, now)]
            rest = [pool.iloc[: case.held] for pool in pools]
            held = [encoder.transform(pa.Table.from_pandas(part, preserve_index=False)).values for part in rest]
            bound = bound_of((z[0], z[1]), (held[0], held[1]), seed)
            drift = record.divergences["reverse_kl"]
            within = drift.high >= bound.value - 2.0 * bound.error or not math.isfinite(drift.high)
            yield Result(f"{case.name}: drift", seed, drift.value, None)
            yield Result(f"{case.name}: bound by trees", seed, bound.value, None)
            yield Result(f"{case.name}: bound within, or a doubt", seed, float(within or bool(record.doubts)), (1, 1))


def _plain_tests(then: pd.DataFrame, now: pd.DataFrame) -> set[str]:
    """Return the columns that Kolmogorov-Smirnov's test, or chi-square's for categories, finds moved."""
    found = set()
    for name in then.columns:
        a, b = then[name].dropna(), now[name].dropna()
        if pd.api.types.is_numeric_dtype(a) and a.nunique() > 10:
            chance = ks_2samp(a, b).pvalue
        else:
            table = pd.crosstab(np.repeat([0, 1], [len(a), len(b)]), pd.concat([a, b]).astype(str).to_numpy())
            chance = chi2_contingency(table.loc[:, table.sum() >= 10]).pvalue
        if chance < STRICT / then.shape[1]:
            found.add(name)
    return found
