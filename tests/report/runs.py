"""Runs made by hand, as plausible as those of the monitor, for tests of the report."""

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np

from driftline.alarms import Cause, Signal
from driftline.inference import Doubt, DoubtCode, Estimate, normal_interval
from driftline.monitor import Marginal, Moved, MovedPair, Original, Record, Run, Settings

COLUMNS = ("nswprice", "vicprice", "nswdemand", "transfer", "holiday")
WEEKLY = Settings(time_column="ts", every="1w", tolerance=0.1)
ROWS = Settings(window=5000, tolerance=0.1)


MISSES = Doubt(DoubtCode.MODEL_MISSES, "the data have changed in a way that the model does not hold")


def estimate(value: float, error: float = 0.02) -> Estimate:
    """Return an estimate whose lower end is never negative, as in real estimates."""
    found = normal_interval(value, error, 0.95)
    return replace(found, low=min(max(found.low, 0.0), value))


def moved(total: float, shares: tuple[float, ...], names: tuple[str, ...] = COLUMNS) -> tuple[Moved, ...]:
    pairs = sorted(zip(names, shares, strict=False), key=lambda pair: -pair[1])
    return tuple(Moved(n, estimate(total * s, 0.01 + 0.05 * total * s), 1e-9, "median from 2 to 3") for n, s in pairs)


def times(window: int) -> tuple[str, str]:
    start = datetime(1996, 5, 6, tzinfo=UTC) + timedelta(weeks=window)
    return start.isoformat(), (start + timedelta(weeks=1)).isoformat()


def record(window: int, value: float, step: float = 0.01, *, settings: Settings = WEEKLY, **changes) -> Record:
    """Return a measured window with its alarm, as the monitor would decide it."""
    limit, warning = settings.tolerance + 0.05, settings.tolerance + 0.035
    signal = Signal.ALARM if value > limit else Signal.WARNING if value > warning else Signal.NORMAL
    bound = {Signal.ALARM: f"is beyond {limit:.3g}", Signal.WARNING: f"is beyond {warning:.3g}"}
    reason = f"drift of {value:.3g} nats {bound.get(signal, f'is within {warning:.3g}')}"
    cause = {Signal.ALARM: Cause.ABOVE_LIMIT, Signal.WARNING: Cause.ABOVE_WARNING}.get(signal, Cause.WITHIN)
    if step > 0.15:
        cause = Cause.ABRUPT_STEP
        signal, reason = Signal.ALARM, f"{reason}; abrupt change: step of {step:.3g} nats is beyond 0.13"
    rows = settings.window or 336
    start, end = times(window) if settings.every else (None, None)
    js, kl = estimate(min(value / 8, 0.6), 0.004), estimate(value, 0.03)
    base = Record(
        window=window,
        original="original",
        status="measured",
        rows=rows,
        first_row=window * rows,
        start=start,
        end=end,
        divergences={"reverse_kl": estimate(value), "js": js, "kl": kl},
        step=estimate(step, 0.012),
        step_limit=0.13,
        signal=signal,
        causes=(cause,),
        reason=reason,
        warning_limit=warning,
        alarm_limit=limit,
        columns=moved(value, (0.52, 0.27, 0.12, 0.06, 0.02)) if value > 0.05 else (),
        effective_sample_size=rows * math.exp(-max(value, 0.0)),
        digest=f"{window:08x}",
        seconds=0.1,
        diagnostics={"overlap": 600.0, "lag": 3.0, "mean_ratio": 1.0, "step_mean_ratio": 1.0},
    )
    return replace(base, **changes)


def original(settings: Settings = WEEKLY, window: int = 0, name: str = "original") -> Record:
    start, end = times(window) if settings.every else (None, None)
    rows = settings.window or 336
    return Record(window, name, "original", rows, window * rows, start, end)


def skipped(window: int, settings: Settings = WEEKLY, **changes) -> Record:
    start, end = times(window) if settings.every else (None, None)
    return replace(Record(window, "original", "skipped", 0, window * 336, start, end, notes=("no rows",)), **changes)


def histogram(mean: float, std: float, missing: float = 0.0) -> dict:
    edges = [round(-3.0 + 0.3 * k, 1) for k in range(21)]
    cdf = [0.5 * (1.0 + math.erf((e - mean) / (std * math.sqrt(2.0)))) for e in edges]
    shares = [cdf[0], *np.diff(cdf), 1.0 - cdf[-1]]
    rounded = [round(float(s) * (1.0 - missing), 4) for s in shares]
    return {"kind": "numeric", "edges": edges, "shares": rounded, "missing": missing, "mean": mean, "std": std}


def transfer(shares: list[float], other: float) -> dict:
    names = ["north", "south", "none"]
    return {"kind": "categorical", "values": names, "shares": shares, "other": other, "missing": 0.0}


def holiday(share: float) -> dict:
    return {"kind": "boolean", "values": ["false", "true"], "shares": [round(1.0 - share, 2), share], "missing": 0.0}


THEN = {
    "nswprice": histogram(0.0, 1.0),
    "vicprice": histogram(0.1, 0.9),
    "nswdemand": histogram(0.0, 1.0),
    "transfer": transfer([0.5, 0.3, 0.15], 0.05),
    "holiday": holiday(0.03),
}
NOW = {
    "nswprice": histogram(1.1, 0.7),
    "vicprice": histogram(0.8, 0.6, 0.06),
    "nswdemand": histogram(0.2, 1.3),
    "transfer": transfer([0.2, 0.6, 0.12], 0.08),
    "holiday": holiday(0.07),
}


def run(records, settings: Settings = WEEKLY, then=THEN, now=NOW, originals=None, **changes) -> Run:
    records = tuple(records)
    if originals is None:
        originals = (Original("original", 0, records[0].rows if records else 0, times(0)[0], then),)
    base = Run(
        path="/data/run.driftline",
        created="1998-12-06T09:00:00+00:00",
        settings=settings,
        source="electricity.csv (one file, CSV)",
        encoder={},
        records=records,
        originals=tuple(originals),
        now=now,
    )
    return replace(base, **changes)


def weekly(windows: int = 134, seed: int = 1000) -> list[Record]:
    """Return windows like those of electricity: seasons, a gap, and a break after two thirds."""
    rng, found, before = np.random.default_rng(seed), [original()], 0.0
    broke = windows * 2 // 3
    for w in range(1, windows):
        if 40 <= w < 43 or w == 77:
            found.append(skipped(w, signal=found[-1].signal))
            continue
        season = 0.06 * (1.0 - math.cos(2.0 * math.pi * w / 52.0))
        value = season + 0.55 * (w >= broke) + 0.012 * rng.normal() - 0.004
        step = abs(value - before) * 0.8 + abs(0.01 * rng.normal())
        notes = ("price: 12 rows hold values that were rare or not there at first",) if w % 29 == 3 else ()
        found.append(record(w, value, step, notes=notes, late_rows=3 if w % 31 == 5 else 0))
        before = value
    return found


def wide(columns: int = 200, windows: int = 200, seed: int = 1000) -> Run:
    """Return a run with many columns, each tested: some move late, one has missing values, two relate otherwise."""
    rng, places = np.random.default_rng(seed), np.arange(columns)
    names, found = [f"feature_{k:03}" for k in places], [original(ROWS)]
    for w in range(1, windows):
        drift = np.maximum(1.0 - places / 12.0, 0.0) * max(0.0, w / windows - 0.4) * 0.3
        shown = np.maximum(drift + 0.002 * rng.normal(size=columns), 0.0)
        there = sorted(np.flatnonzero(drift > 0.02).tolist(), key=lambda k: -shown[k])
        chances = np.where(drift > 0.02, 1e-12, rng.uniform(0.01, 1.0, columns))
        missing = np.where(places == 20, 0.3 * w / windows, 0.0)
        numbers = zip(names, shown, chances, missing, strict=True)
        marginals = {name: Marginal(*(float(f"{v:.3g}") for v in (*each, 0.0))) for name, *each in numbers}
        own = tuple(Moved(names[k], estimate(float(shown[k]), 0.006), 1e-12, "median from 2 to 3") for k in there)
        pair = (names[10], names[11]) if w > 0.8 * windows else (names[14], names[15])
        pairs = (MovedPair(pair, 0.04, 1e-7, "rank correlation from 0.10 to 0.35"),)
        parts = {"columns": own, "marginals": marginals, "pairs": pairs if w > 0.8 * windows or w == 9 else ()}
        found.append(record(w, float(drift.sum()), 0.01, settings=ROWS, **parts))
    then = dict.fromkeys(names, histogram(0.0, 1.0))
    now = {name: histogram(0.9 if k < 12 else 0.02, 1.0, 0.3 if k == 20 else 0.0) for k, name in enumerate(names)}
    return run(found, ROWS, then, now)


def several() -> Run:
    """Return a run with two originals, the second a season that joined later."""
    first = weekly(80)
    late = [replace(original(window=30), original="winter <1997>")]
    late += [replace(record(w, 0.02, 0.01), original="winter <1997>") for w in range(31, 80)]
    records = [r for w in range(80) for r in (*first, *late) if r.window == w]
    originals = (
        Original("original", 0, 336, times(0)[0], THEN),
        Original("winter <1997>", 30, 336, times(30)[0], THEN),
    )
    return run(records, originals=originals)


NASTY = '<script>alert("x")</script>&\x00' + "y" * 180


def no_bars(windows: int = 8) -> list[Record]:
    """Return windows too small for error bars, so that nothing was decided."""
    nan, found = math.nan, [original(ROWS)]
    for w in range(1, windows):
        bare = Estimate(0.05 * w, nan, nan, nan, 0.95)
        undecided = replace(
            record(w, 0.05 * w, settings=ROWS),
            divergences={"reverse_kl": bare},
            step=bare,
            signal=Signal.NORMAL,
            columns=(),
            alarm_limit=nan,
            warning_limit=nan,
            effective_sample_size=nan,
            reason="no error bar for this window, so nothing was decided: normal stands",
        )
        found.append(undecided)
    return found


def bounds(windows: int = 9) -> list[Record]:
    """Return windows of which the later ones are lower bounds, as Records keep them."""

    def opened(found: Estimate) -> Estimate:
        return replace(found, high=math.nan)

    def changed(each: Record) -> Record:
        columns = tuple(replace(m, drift=opened(m.drift)) for m in each.columns)
        divergences = {kind: opened(found) for kind, found in each.divergences.items()}
        return replace(each, divergences=divergences, columns=columns, doubts=(MISSES,))

    measured = [record(w, 0.02 * w) for w in range(1, windows)]
    return [original(), *measured[:4], *map(changed, measured[4:])]


def extreme() -> Run:
    """Return a run with a million nats, names that hardly are names, and a step that is not to be trusted."""
    found = [original(ROWS)]
    for w in range(1, 30):
        found.append(record(w, 0.05 if w < 20 else 1e6, 1e5 if w == 20 else 0.01, settings=ROWS))
    apart = "the two windows hardly overlap (3 of 10000 rows are informative, step of 12 nats): take smaller steps"
    doubt = Doubt(DoubtCode.LITTLE_OVERLAP, apart)
    names = (NASTY, "a b", "$x_1$")
    found[-1] = replace(
        found[-1],
        columns=moved(1e6, (0.5, 0.3, 0.1), names),
        doubts=(doubt,),
        notes=(NASTY,),
        effective_sample_size=1.3,
    )
    then, now = ({NASTY: side["transfer"], "a b": side["nswprice"]} for side in (THEN, NOW))
    return run(found, ROWS, then, now, source=NASTY)


def long(windows: int = 1000, seed: int = 1000) -> list[Record]:
    """Return more windows than pixels; window 503 alone is far away, and alarms stand in 600 to 699."""
    rng, found, level = np.random.default_rng(seed), [original(ROWS)], 0.0
    for w in range(1, windows):
        level = 0.97 * level + 0.01 * rng.normal()
        if w % 97 == 0:
            found.append(skipped(w, ROWS, signal=found[-1].signal))
        else:
            found.append(record(w, abs(level) + 0.3 * (600 <= w < 700) + 0.9 * (w == 503), 0.01, settings=ROWS))
    return found


def cases() -> dict[str, Run]:
    """Return runs that a report must be able to show, by name."""
    near = [record(w, 0.004 * math.sin(w), 0.003 * math.cos(w), settings=ROWS) for w in range(1, 30)]
    return {
        "wide": wide(24, 40),
        "weekly": run(weekly()),
        "several": several(),
        "nothing": run([], originals=()),
        "joined, no record": run([]),
        "only the original": run([original()]),
        "one window": run([original(ROWS), record(1, 0.003, settings=ROWS)], ROWS),
        "all skipped": run([original(), *(skipped(w) for w in range(1, 9))]),
        "no error bars": run(no_bars(), ROWS, then={}, now={}),
        "around zero": run([original(ROWS), *near], ROWS),
        "extreme": extreme(),
        "long": run(long(), ROWS),
        "skipped at the end": run([original(), record(1, 0.3), skipped(2, signal=Signal.ALARM)]),
        "not a number": run([original(), record(1, 0.02, divergences={"js": Estimate(*[math.nan] * 4, 0.95)})]),
    }
