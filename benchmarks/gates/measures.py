"""Measures of a gate from the rows of a side, their bars, and the table of both sides."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks import floors
from benchmarks.gates.cases import CURVED, GATES, PAPER, Drawn
from benchmarks.results import INF
from benchmarks.untidy import PROMISE, UNTIDY

Row = dict[str, Any]
Rows = dict[str, list[Row]]
"""Rows of a side by case."""
Numbers = dict[tuple[str, str], float]
"""Numbers of a side by case and measure."""

FAILED = "runs without a result"
CPU = "CPU s a step"
_MAE = "log-ratio MAE"


class Bar(NamedTuple):
    """What is asked of the new side, or of new / old."""

    least: float
    most: float
    of_ratio: bool = False


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


def _holds(look: Row) -> bool:
    low, high = (-INF if look.get("low") is None else look["low"]), (INF if look.get("high") is None else look["high"])
    return bool(low <= look["truth"] <= high)


def _doubted(look: Row) -> bool:
    """Whether an estimate has a doubt, or no interval with two ends."""
    return bool(look["doubts"]) or look.get("low") is None or look.get("high") is None


def _mean(values: Any) -> float:
    found = [math.nan if value is None else float(value) for value in values]
    return float(np.mean(found)) if found else math.nan


def _of_truth(looks: Sequence[Row], what: Callable[[Row], float]) -> float:
    return _mean(what(look) / look["truth"] for look in looks)


def _value(look: Row) -> float:
    return math.nan if look.get("value") is None else float(look["value"])


def _width(look: Row) -> float:
    return float(look["high"] - look["low"])


def _intervals(looks: Sequence[Row]) -> Iterator[tuple[str, float]]:
    """Yield what intervals are like: how many are undoubted, hold, and how wide they are."""
    sure = [look for look in looks if not _doubted(look)]
    yield "undoubted", len(sure) / len(looks)
    yield "undoubted intervals that hold", _mean(map(_holds, sure))
    yield "held or doubted", _mean(_doubted(look) or _holds(look) for look in looks)
    if sure and all(look["truth"] > 0.0 for look in sure):
        yield "width / truth", float(np.median([_width(look) / look["truth"] for look in sure]))


def _streams(rows: Rows) -> Numbers:
    found: Numbers = {}
    for case, runs in rows.items():
        times = list(runs[0]["looks"])
        errors = {t: _mean(run["looks"][t]["mae"] for run in runs) for t in times}
        shown = times if len(times) == 3 else [times[0], times[4], times[-1]]
        found |= {(case, f"{_MAE}, t={t}"): errors[t] for t in shown}
        if len(times) > 3:
            found[case, f"{_MAE}, largest of all t"] = max(errors.values())
        last = [run["looks"][times[-1]] for run in runs]
        if last[0]["truth"] > 0.0:
            found[case, "value / truth at the end"] = _of_truth(last, _value)
        else:
            found[case, "value at the end (truth: 0)"] = _mean(map(_value, last))
        looks = [look for run in runs for look in run["looks"].values()]
        found |= {(case, what): value for what, value in _intervals(looks)}
        found[case, CPU], found[case, "bytes"] = (_mean(run[what] for run in runs) for what in ("cpu", "bytes"))
        base = case.removesuffix(", sums")
        if base != case and (base, what := f"{_MAE}, t={times[-1]}") in found:
            found[case, "MAE at the end, sums / rows"] = found[case, what] / found[base, what]
    return found


def _real(rows: Rows) -> Numbers:
    """Pool tables: by what leans, how and in windows of how many rows; then by table; then all."""
    cases: dict[str, Drawn] = GATES["real"].cases("full") | GATES["real"].cases("quick")
    found: Numbers = {}
    pools: dict[str, list[tuple[Drawn, Row]]] = {}
    for name, runs in rows.items():
        case = cases[name]
        by_table = f"{case.table}, {case.keep}"
        for pool in (name.removeprefix(f"{case.table}, "), by_table, f"all, {case.keep}"):
            pools.setdefault(pool, []).extend((case, run) for run in runs)
    for pool in sorted(pools, key=lambda pool: (pool.startswith("all"), pool.count(", ") == 1)):
        runs = [run for _, run in pools[pool]]
        looks = [look for run in runs for look in run["looks"].values()]
        ends = [list(run["looks"].values())[-1] for run in runs]
        moved, quiet = ([look for look in ends if (look["truth"] > 1e-9) is wanted] for wanted in (True, False))
        found |= {(pool, what): value for what, value in _intervals(looks)}
        if moved:
            statics = [run["static"] for run in runs if run["static"]["truth"] > 1e-9]
            found[pool, "value / truth at the end"] = _of_truth(moved, _value)
            found[pool, "static value / truth"] = _of_truth(statics, _value)
            found[pool, "value / static value"] = _mean(map(_value, moved)) / _mean(map(_value, statics))
            above = _mean(look.get("low") is not None and look["low"] > 0.0 for look in looks if look["truth"] > 1e-9)
            found[pool, "lower end above 0"] = above
        if quiet:
            still = [look for look in looks if look["truth"] <= 1e-9]
            found[pool, "value where nothing moves"] = _mean(map(_value, still))
            found[pool, "lower end above 0 where nothing moves"] = _mean((look.get("low") or 0) > 0 for look in still)
    return found


def _coverage(rows: Rows) -> Numbers:
    found: Numbers = {}
    for case, runs in rows.items():
        for t in runs[0]["looks"]:
            looks = [run["looks"][t] for run in runs]
            found[case, f"intervals that hold, t={t}"] = _mean(map(_holds, looks))
            found[case, f"undoubted, t={t}"] = _mean(not _doubted(look) for look in looks)
            found[case, f"median width / truth, t={t}"] = float(
                np.median([INF if _doubted(look) else _width(look) / look["truth"] for look in looks])
            )
    return found


def _auditor(rows: Rows) -> Numbers:
    return {(case, "speaks"): _mean("model_misses" in run["said"] for run in runs) for case, runs in rows.items()}


def _floors(rows: Rows) -> Numbers:
    found: Numbers = {}
    for case, runs in rows.items():
        looks = [look for run in runs for look in run["looks"].values()]
        found[case, "floors below the truth"] = _mean((look["floor"] or 0.0) <= look["truth"] for look in looks)
        last = [run["looks"]["20"] for run in runs]
        if last[0]["truth"] > 0.0:
            found[case, "median floor / truth, t=20"] = (
                float(np.median([x["floor"] or 0.0 for x in last])) / last[0]["truth"]
            )
    return found


def _runs(rows: Rows) -> Numbers:
    found: Numbers = {}
    for case, runs in rows.items():
        measured, alarms, doubted = (sum(run[what] for run in runs) for what in ("measured", "alarms", "doubted"))
        if measured and next(u for u in UNTIDY if u.key == case).bar is not None:
            found[case, "run length / promise"] = measured / max(alarms, 1) / PROMISE
        found[case, "undoubted alarms"], found[case, "doubted alarms"] = float(alarms), float(doubted)
        found[case, "windows measured"] = float(measured)
    return found


def _cost(rows: Rows) -> Numbers:
    """Take medians over rounds."""
    found: Numbers = {}
    for case, runs in rows.items():
        if case.startswith("state"):
            found[case, "bytes"] = float(np.median([run["bytes"] for run in runs]))
        else:
            found[case, "CPU s" if case.startswith("watch") else CPU] = float(np.median([run["cpu"] for run in runs]))
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


def bar_of(gate: str, case: str, measure: str) -> Bar | None:
    """Return what the rebuilt engine has to reach."""
    if measure == FAILED:
        return Bar(0.0, 0.0)
    if gate == "streams":
        return _bar_of_stream(case.removesuffix(", sums"), measure)
    if gate == "real":
        return _bar_of_real(case, measure)
    if gate == "coverage":
        return Bar(0.90, 0.985) if measure.startswith("intervals") else None
    if gate == "auditor":
        return Bar(0.9, 1.0) if case.startswith("banana") else Bar(0.0, 0.01)
    if gate == "floors":
        return Bar(1.0, 1.0) if "below" in measure else Bar(floors.LEAST[case], 1.0) if case in floors.LEAST else None
    if gate == "runs":
        bar = {"run length / promise": Bar(0.5, 2.0)}.get(measure)
        return Bar(0.0, 0.0) if case == "ar-98" and measure == "undoubted alarms" else bar
    return Bar(0.0, 0.2 if "low-rank" in case else 1.0, of_ratio=True)


def _bar_of_stream(name: str, measure: str) -> Bar | None:
    if measure.startswith(f"{_MAE}, largest"):
        return Bar(0.0, 0.06) if name == PAPER["full"][0] else None
    if measure.startswith(f"{_MAE}, "):
        return Bar(0.0, 0.4 if name == "low-rank-40" else 1.25, of_ratio=True)
    if name in CURVED and measure == "held or doubted":
        return Bar(0.9, 1.0)
    if name in CURVED and measure == "MAE at the end, sums / rows":
        return Bar(0.0, 1.15)
    return Bar(0.9, 1.1) if name == "embedding-384" and measure == "value / truth at the end" else None


def _bar_of_real(pool: str, measure: str) -> Bar | None:
    kind, _, rest = pool.partition(", ")
    if kind == "all":
        return {
            "undoubted": Bar(0.6, 1.0),
            "undoubted intervals that hold": Bar(0.93, 1.0),
            "value where nothing moves": Bar(-0.005, 0.005),
            "lower end above 0": Bar(1.0, INF, of_ratio=True),
        }.get(measure)
    if measure == "value / static value" and rest.startswith("slow"):
        return Bar(0.95, 1.05)
    if measure == "static value / truth" and rest.endswith(", 3000"):
        wide = {"smooth": 0.15, "categories": 0.15, "threshold": 0.3, "interaction": 0.3}.get(kind)
        return None if wide is None else Bar(1.0 - wide, 1.0 + wide)
    return None


def lines(gate: str, old: Rows, new: Rows) -> list[Line]:
    """Return the lines of a gate; rows of both sides that saw other data are refused."""
    _check(gate, old, new)
    sides = [_numbers(gate, rows) for rows in (old, new)]
    found = []
    for case, measure in dict.fromkeys([*sides[0], *sides[1]]):
        before, after = (side.get((case, measure), math.nan) for side in sides)
        comparable = before and (measure != CPU or gate == "cost")  # elsewhere both sides did not run in turn
        ratio = after / before if comparable else math.nan
        found.append(Line(gate, case, measure, before, after, ratio, bar_of(gate, case, measure)))
    if gate == "streams" and old and new:
        errors = [line.ratio for line in found if line.measure.startswith(f"{_MAE}, t=") and line.ratio > 0.0]
        found.append(
            Line(gate, "all", f"{_MAE}, mean of new / old", math.nan, math.nan, _mean(errors), Bar(0.0, 1.1, True))
        )
    return found


def _check(gate: str, old: Rows, new: Rows) -> None:
    digests = [{(c, r["seed"]): r.get("digest") for c, rows in side.items() for r in rows} for side in (old, new)]
    for key in digests[0].keys() & digests[1].keys():
        both = digests[0][key], digests[1][key]
        if None not in both and both[0] != both[1]:
            raise SystemExit(
                f"{gate}, {key[0]}, seed {key[1]}: the sides have seen different rows, {both[0]} and {both[1]}"
            )


def _numbers(gate: str, rows: Rows) -> Numbers:
    good = {case: [run for run in runs if "error" not in run] for case, runs in rows.items()}
    found = _MEASURES[gate]({case: runs for case, runs in good.items() if runs})
    failed = {case: len(runs) - len(good[case]) for case, runs in rows.items()}
    return found | {(case, FAILED): float(count) for case, count in failed.items() if count}
