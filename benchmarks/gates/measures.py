"""Measures of a gate from the rows of both sides, their bars, and the lines of the table."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatch
from typing import Any, NamedTuple

import numpy as np

from benchmarks import floors
from benchmarks.gates.cases import case_of
from benchmarks.results import INF
from benchmarks.untidy import PROMISE

Row = dict[str, Any]
Rows = dict[str, list[Row]]
"""Rows of a side by case."""
Numbers = dict[tuple[str, str], float]
"""Numbers of a side by case and measure."""

CPU = "CPU s a step"
_ERROR = "log-ratio MAE"
_FAILED = "runs without a result"


class Bar(NamedTuple):
    """What is asked of the new side or, if ``of_ratio``, of new / old."""

    least: float
    most: float
    of_ratio: bool = False


_BARS: list[tuple[str, str, str, Bar | None]] = [
    ("*", "*", _FAILED, Bar(0.0, 0.0)),
    ("streams", "paper-50k*", f"{_ERROR}, largest of all t", Bar(0.0, 0.06)),
    ("streams", "low-rank-40*", f"{_ERROR}, t=10", Bar(0.0, 0.4, True)),
    ("streams", "all", f"{_ERROR}*", Bar(0.0, 1.1, True)),
    ("streams", "still*", f"{_ERROR}*", None),  # ratios of what is next to nothing
    ("streams", "*", f"{_ERROR}, t=*", Bar(0.0, 1.25, True)),
    ("streams", "embedding-384", "value / truth at the end", Bar(0.9, 1.1)),
    *(("streams", f"{name}*", "held or doubted", Bar(0.9, 1.0)) for name in ("curved-pair", "parity", "ring")),
    *(("streams", f"{name}*", "* sums / rows", Bar(0.0, 1.15)) for name in ("curved-pair", "parity", "ring")),
    ("real", "all*", "undoubted", Bar(0.6, 1.0)),
    ("real", "all*", "undoubted intervals that hold", Bar(0.93, 1.0)),
    ("real", "all*", "value where nothing moves", Bar(-0.005, 0.005)),
    ("real", "all*", "lower end above 0", Bar(0.98, INF, True)),
    ("real", "* slow, *", "value / static value", Bar(0.95, 1.05)),
    *(("real", f"{name}, *, 3000", "static value / truth", Bar(0.85, 1.15)) for name in ("smooth", "categories")),
    *(("real", f"{name}, *, 3000", "static value / truth", Bar(0.7, 1.3)) for name in ("threshold", "interaction")),
    ("coverage", "all", "intervals that hold*", Bar(0.90, 0.985)),
    ("coverage", "*", "intervals that hold*", Bar(0.85, 1.0)),  # so few replicates scatter
    ("auditor", "banana*", "speaks", Bar(0.9, 1.0)),
    ("auditor", "*", "speaks", Bar(0.0, 0.01)),
    ("floors", "*", "floors below the truth", Bar(1.0, 1.0)),
    *(("floors", name, "median floor / truth*", Bar(least, 1.0)) for name, least in floors.LEAST.items()),
    ("runs", "ar-98", "undoubted alarms", Bar(0.0, 0.0)),
    ("runs", "*", "run length / promise", Bar(0.5, 2.0)),
    ("cost", "step, low-rank-40", "*", Bar(0.0, 0.2, True)),
    ("cost", "state*", "*", Bar(0.0, 0.999, True)),
    ("cost", "*", "*", Bar(0.0, 1.05, True)),  # the same engine twice: 0.98 to 1.05 on a busy machine
]
"""Bars by patterns of gate, case and measure; the first that fits counts."""


class Line(NamedTuple):
    """A measure on both sides; nan where a side has not been measured."""

    gate: str
    case: str
    measure: str
    old: float
    new: float
    ratio: float
    bar: Bar | None

    @property
    def met(self) -> bool | None:
        """Whether the new side meets the bar; the old one, where there is no new one; None if nobody can say."""
        if self.bar is None:
            return None
        value = self.ratio if self.bar.of_ratio else self.old if math.isnan(self.new) else self.new
        return None if math.isnan(value) else bool(self.bar.least <= value <= self.bar.most)


def lines(gate: str, old: Rows, new: Rows) -> list[Line]:
    """Return the lines of a gate; rows of both sides that saw other data are refused."""
    _check(gate, old, new)
    before, after = _numbers(gate, old), _numbers(gate, new)
    found = []
    for case, measure in dict.fromkeys([*before, *after]):
        values = [side.get((case, measure), math.nan) for side in (before, after)]
        in_turn = gate == "cost" or measure != CPU
        found.append(_line(gate, case, measure, *values, values[1] / values[0] if values[0] and in_turn else math.nan))
    if gate == "streams" and old and new:
        ratios = [line.ratio for line in found if line.bar and line.measure.startswith(f"{_ERROR}, t=")]
        found.append(_line(gate, "all", f"{_ERROR}, mean of new / old", math.nan, math.nan, float(np.nanmean(ratios))))
    return found


def _line(gate: str, case: str, measure: str, old: float, new: float, ratio: float) -> Line:
    names = (gate, case, measure)
    fits = (bar for *patterns, bar in _BARS if all(map(fnmatch, names, patterns)))
    return Line(gate, case, measure, old, new, ratio, next(fits, None))


def _check(gate: str, old: Rows, new: Rows) -> None:
    seen: dict[tuple[str, Any], str] = {}
    for case, row in ((case, row) for side in (old, new) for case, rows in side.items() for row in rows):
        digest = row.get("digest")
        if digest is not None and seen.setdefault((case, row["seed"]), digest) != digest:
            raise SystemExit(f"{gate}, {case}, seed {row['seed']}: the sides have seen different rows: run both again")


def _numbers(gate: str, rows: Rows) -> Numbers:
    good = {case: [run for run in runs if "error" not in run] for case, runs in rows.items()}
    found = _MEASURES[gate]({case: runs for case, runs in good.items() if runs})
    return found | {(case, _FAILED): float(n) for case, runs in rows.items() if (n := len(runs) - len(good[case]))}


def _holds(look: Row) -> bool:
    """Whether an interval holds the truth; an end that is missing is open."""
    low, high = look["low"], look["high"]
    return (low is None or low <= look["truth"]) and (high is None or look["truth"] <= high)


def _sure(look: Row) -> bool:
    """Whether an estimate has an interval with two ends, and no doubt."""
    return not look["doubts"] and look["low"] is not None and look["high"] is not None


def _share(these: Iterable[Row], what: Callable[[Row], bool]) -> float:
    found = [what(look) for look in these]
    return float(np.mean(found)) if found else math.nan


def _median(values: Iterable[float]) -> float:
    """Return the median of those that are known."""
    found = [value for value in values if not math.isnan(value)]
    return float(np.median(found)) if found else math.nan


def _over(look: Row, other: float | None, what: str = "value") -> float:
    """Return what a look reads over another number; nan if one of them is not known."""
    return math.nan if look[what] is None or other is None else look[what] / other


def _intervals(case: str, looks: Sequence[Row]) -> Numbers:
    """Return how many intervals are undoubted, hold, and how wide they are."""
    sure = [look for look in looks if _sure(look)]
    return {
        (case, "undoubted"): len(sure) / len(looks),
        (case, "undoubted intervals that hold"): _share(sure, _holds),
        (case, "held or doubted"): _share(looks, lambda look: not _sure(look) or _holds(look)),
        (case, "width / truth"): _median((x["high"] - x["low"]) / x["truth"] for x in sure if x["truth"] > 0.0),
    }


def _streams(rows: Rows) -> Numbers:
    found: Numbers = {}
    for case, runs in rows.items():
        errors = {t: float(np.mean([run["looks"][t]["mae"] for run in runs])) for t in runs[0]["looks"]}
        times = list(errors)
        shown = dict.fromkeys([times[0], times[len(times) // 2], times[-1]])
        found |= {(case, f"{_ERROR}, t={t}"): errors[t] for t in shown}
        if len(times) > 3:
            found[case, f"{_ERROR}, largest of all t"] = max(errors.values())
        ends = [run["looks"][times[-1]] for run in runs]
        moved = ends[0]["truth"] > 0.0
        what = "value / truth at the end" if moved else "value at the end (truth: 0)"
        found[case, what] = float(np.mean([_over(end, end["truth"] if moved else 1.0) for end in ends]))
        found |= _intervals(case, [look for run in runs for look in run["looks"].values()])
        found |= {
            (case, what): float(np.mean([run[key] for run in runs])) for what, key in ((CPU, "cpu"), ("bytes", "bytes"))
        }
        rows_error = found.get((case.removesuffix(", sums"), f"{_ERROR}, t={times[-1]}"), math.nan)
        if case.endswith(", sums"):
            found[case, f"{_ERROR} at the end, sums / rows"] = errors[times[-1]] / rows_error
    return found


def _real(rows: Rows) -> Numbers:
    """Pool tables: by what leans, how fast, and in windows of how many rows; then by table; then all."""
    pools: tuple[dict[str, list[Row]], ...] = ({}, {}, {})
    for name, runs in rows.items():
        case = case_of("real", name)
        names = name.removeprefix(f"{case.table}, "), f"{case.table}, {case.keep}", f"all, {case.keep}"
        for pooled, key in zip(pools, names, strict=True):
            pooled.setdefault(key, []).extend(runs)
    found: Numbers = {}
    for pool, runs in {**pools[0], **pools[1], **pools[2]}.items():
        looks = [look for run in runs for look in run["looks"].values()]
        found |= _intervals(pool, looks)
        moved = [run for run in runs if run["static"]["truth"] > 0.0]
        if moved:
            ends = [(list(run["looks"].values())[-1], run["static"]) for run in moved]
            found[pool, "value / truth at the end"] = _median(_over(end, end["truth"]) for end, _ in ends)
            found[pool, "static value / truth"] = _median(_over(static, static["truth"]) for _, static in ends)
            found[pool, "value / static value"] = _median(_over(end, static["value"]) for end, static in ends)
            found[pool, "lower end above 0"] = _share((x for x in looks if x["truth"] > 0.0), _above)
        if still := [look for run in runs if not run["static"]["truth"] for look in run["looks"].values()]:
            found[pool, "value where nothing moves"] = float(np.mean([_over(look, 1.0) for look in still]))
            found[pool, "lower end above 0 where nothing moves"] = _share(still, _above)
    return found


def _above(look: Row) -> bool:
    return look["low"] is not None and look["low"] > 0.0


def _coverage(rows: Rows) -> Numbers:
    found: Numbers = {}
    together = [run for runs in rows.values() for run in runs]
    for case, runs in [*rows.items(), ("all", together)]:
        for t in runs[0]["looks"] if runs else ():
            looks = [run["looks"][t] for run in runs]
            found[case, f"intervals that hold, t={t}"] = _share(looks, _holds)
            found[case, f"undoubted, t={t}"] = _share(looks, _sure)
    return found


def _auditor(rows: Rows) -> Numbers:
    return {(case, "speaks"): _share(runs, lambda run: "model_misses" in run["said"]) for case, runs in rows.items()}


def _floors(rows: Rows) -> Numbers:
    found: Numbers = {}
    for case, runs in rows.items():
        looks = [look for run in runs for look in run["looks"].values()]
        found[case, "floors below the truth"] = _share(looks, lambda look: (look["floor"] or 0.0) <= look["truth"])
        ends = [run["looks"]["20"] for run in runs if run["looks"]["20"]["truth"] > 0.0]
        if ends:
            found[case, "median floor / truth, t=20"] = _median(_over(end, end["truth"], "floor") for end in ends)
    return found


def _runs(rows: Rows) -> Numbers:
    found: Numbers = {}
    for case, runs in rows.items():
        measured, alarms, doubted = (sum(run[what] for run in runs) for what in ("measured", "alarms", "doubted"))
        if measured:
            found[case, "run length / promise"] = measured / max(alarms, 1) / PROMISE
        found |= {(case, "windows measured"): measured, (case, "undoubted alarms"): alarms}
        found[case, "doubted alarms"] = doubted
    return found


def _cost(rows: Rows) -> Numbers:
    found: Numbers = {}
    for case, runs in rows.items():
        measure, key = ("bytes", "bytes") if case.startswith("state") else (CPU, "cpu")
        found[case, "CPU s" if case.startswith("watch") else measure] = _median(run[key] for run in runs)
    return found


_MEASURES = {
    "streams": _streams,
    "real": _real,
    "coverage": _coverage,
    "auditor": _auditor,
    "floors": _floors,
    "runs": _runs,
    "cost": _cost,
}
