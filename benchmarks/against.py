"""This version against an earlier one: processes of both in turn, on one thread; ratios of medians.

**A warm bare read**, with which watching a file is compared, is the CPU time of a whole process that imports PyArrow,
reads the same Parquet file in batches, and keeps them in memory; the system holds the file in its page cache. Nothing
is subtracted: a process that watches starts and imports too. Watching 300,000 x 20 rows took 18 times that much, with
and without a tracker on disk (6.2 and 4.8 s; a read 0.27 to 0.34 s). The other reading, a second read inside a process
that has read the file before, has neither start nor imports (0.06 s); by it the ratios were 101 and 82. It is printed
without a bar.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.results import INF, Result
from benchmarks.versions import Version, build, this_version

ROWS, WINDOW = 300_000, 10_000
REPEATS = {"quick": 5, "paper": 11}
STEPS = {"quick": 3, "paper": 7}
STATE_ROWS, STATE_COLUMNS = 5_000, 8
STREAMS = (
    ("gaussian-64", 1.0),
    ("gaussian-20", 1.0),
    ("mixture-64", 1 / 1.6),
    ("mixture-5", 1 / 1.6),
    ("rotated-20", None),
    ("latent", None),
)
"""Streams of ``child.py`` and the least ratio of CPU times, earlier over this: what mixtures need may cost more."""

BARE_READ = "import sys, pyarrow.parquet as pq; kept = list(pq.ParquetFile(sys.argv[1]).iter_batches())"
"""Program of a warm bare read."""

Say = Callable[[str], None]
Costs = dict[str, list[dict[str, float]]]
"""Measurements of each version, by its name."""


def run(
    seeds: int,
    *,
    commit: str,
    part: str = "speed",
    scale: str = "quick",
    cache: Path | None = None,
    say: Say = lambda text: None,
) -> Iterator[Result]:
    """Compare with the version of a commit; rows are the same in all runs, so ``seeds`` does not matter."""
    with tempfile.TemporaryDirectory() as scratch, nullcontext(cache) if cache else _temporary() as home:
        say(f"building {commit}")
        versions = this_version(Path(home)), build(commit, Path(home))
        names = versions[0].name, versions[1].name

        def measure(what: str, call: Callable[[Version], dict[str, float]], repeats: int = REPEATS[scale]) -> Costs:
            return _in_turn(versions, call, repeats, lambda text: say(f"{what}: {text}"))

        yield from PARTS[part](Path(scratch), names, measure, scale)


Measure = Callable[..., Costs]
Names = tuple[str, str]


def _temporary() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="driftline-versions-")


def _in_turn(
    versions: tuple[Version, Version], call: Callable[[Version], dict[str, float]], repeats: int, say: Say
) -> Costs:
    """Measure both in turn, each first every other time, after a run that does not count: it fills caches."""
    found: Costs = {version.name: [] for version in versions}
    for repeat in range(-1, repeats):
        for version in versions if repeat % 2 else versions[::-1]:
            say(f"{version.name}, {'warming up' if repeat < 0 else f'{repeat + 1} of {repeats}'}")
            cost = call(version)
            if repeat >= 0:
                found[version.name].append(cost)
    return found


def _middle(costs: Costs, name: str, what: str) -> float:
    return median(cost[what] for cost in costs[name])


def _compared(what: str, costs: Costs, names: Names, least: float | None = None) -> Iterator[Result]:
    """Yield CPU seconds of both, and the ratios of CPU and of wall-clock seconds."""
    for name in names:
        yield Result(f"{what}: CPU seconds, {name}", -1, _middle(costs, name, "cpu"), None)
    for kind, bar in (("cpu", None if least is None else (least, INF)), ("wall", None)):
        ratio = _middle(costs, names[1], kind) / _middle(costs, names[0], kind)
        label = "CPU" if kind == "cpu" else "wall clock"
        yield Result(f"{what}: {label}, {names[1]} / {names[0]}", -1, ratio, bar)


def _speed(folder: Path, names: Names, measure: Measure, scale: str) -> Iterator[Result]:
    """Compare what a user waits for."""
    yield from _watch(folder, names, measure)
    yield from _steps(folder, names, STEPS[scale], measure)
    yield from _start_up(folder, names, measure)
    yield from _state(folder, names, measure)
    yield from _memory(folder, names, measure)


def _watch(folder: Path, names: Names, measure: Measure) -> Iterator[Result]:
    """Compare watching a Parquet file; the trackers stay for the commands that read them."""
    table = folder / "rows.parquet"
    write_rows(table, np.random.default_rng(0))

    def call(version: Version, kept: bool) -> dict[str, float]:
        tracker = _tracker(folder, version)
        tracker.unlink(missing_ok=True)
        where = ("--tracker", tracker) if kept else ()
        cost = version.run("-m", "driftline", "watch", table, "--window", WINDOW, *where, folder=folder)
        again = version.ask("read", table, folder=folder)
        reading = version.run("-c", BARE_READ, table, folder=folder)
        return {"cpu": cost.cpu, "wall": cost.wall, "bare": reading.cpu, "again": again["cpu"]}

    for kept in (False, True):
        what = f"watch, 300,000 x 20 Parquet, {'a tracker on disk' if kept else 'no tracker'}"
        costs = measure(what, partial(call, kept=kept))
        yield from _compared(what, costs, names, 2.7)
        for kind, label, bar in (("bare", "a warm bare read", 36.0), ("again", "a second read in one process", None)):
            bare = median(cost[kind] for each in costs.values() for cost in each)
            yield Result(f"{label}: CPU seconds", -1, bare, None)
            for name, most in zip(names, (bar, None), strict=True):
                yield Result(f"{what}: CPU / {label}, {name}", -1, _middle(costs, name, "cpu") / bare, most)


def _tracker(folder: Path, version: Version) -> Path:
    return folder / f"{version.name}.driftline"


def write_rows(path: Path, rng: np.random.Generator) -> None:
    """Write sixteen numbers and four categories; three of the numbers drift slowly."""
    drift = np.linspace(0.0, 0.3, ROWS)
    columns: dict[str, pa.Array] = {f"x{j}": pa.array(rng.standard_normal(ROWS) + drift * (j < 3)) for j in range(16)}
    for j, levels in enumerate((3, 5, 8, 12)):
        words = np.array([f"level {i}" for i in range(levels)])
        columns[f"c{j}"] = pa.array(words[rng.integers(0, levels, ROWS)])
    pq.write_table(pa.table(columns), path)


def _steps(folder: Path, names: Names, steps: int, measure: Measure) -> Iterator[Result]:
    """Compare steps with the defaults, beside a Gram product."""
    for columns, least, most in ((20, 1.9, None), (64, 2.0, 50.0)):
        costs = measure(f"step x {columns}", lambda v, c=columns: v.ask("step", 50_000, c, steps, folder=folder))
        what = f"step, 50,000 x {columns}"
        yield from _compared(what, costs, names, least)
        for name, bar in zip(names, (most, None), strict=True):
            products = median(cost["cpu"] / cost["gram"] for cost in costs[name])
            yield Result(f"{what}: Gram products, {name}", -1, products, bar)


def _start_up(folder: Path, names: Names, measure: Measure) -> Iterator[Result]:
    """Compare commands that read a tracker with importing what they read it with."""
    commands = {
        "inspect": ("inspect", 6.0),
        "original list": ("original list", 6.0),
        "report": (f"report --out {folder / 'page.html'}", 8.0),
    }

    def importing(version: Version) -> dict[str, float]:
        cost = version.run("-c", "import numpy, pyarrow", folder=folder)
        return {"cpu": cost.cpu, "wall": cost.wall}

    bare = measure("import", importing)
    yield Result("importing numpy and pyarrow: CPU seconds", -1, _middle(bare, names[0], "cpu"), None)
    for what, (words, most) in commands.items():

        def call(version: Version, words: str = words) -> dict[str, float]:
            # the import again each time: start-up is short, and the machine's speed changes from minute to minute
            cost = version.run("-m", "driftline", *words.split(), _tracker(folder, version), folder=folder)
            return {"cpu": cost.cpu, "wall": cost.wall, "bare": importing(version)["cpu"]}

        costs = measure(what, call)
        yield from _compared(what, costs, names)
        for name, bar in zip(names, (most, None), strict=True):
            ratio = _middle(costs, name, "cpu") / _middle(costs, name, "bare")
            yield Result(f"{what}: CPU / importing numpy and pyarrow, {name}", -1, ratio, bar)


def _state(folder: Path, names: Names, measure: Measure) -> Iterator[Result]:
    """Compare sizes of a saved estimator; they do not vary, so one run is enough."""
    costs = measure("state", lambda v: v.ask("state", STATE_ROWS, STATE_COLUMNS, folder=folder), 1)
    for name, bar in zip(names, (0.5, None), strict=True):
        sizes = costs[name][0]
        for t in ("t=1", "t=20"):
            yield Result(f"saved state, 8 columns, {t}: MB beyond rows, {name}", -1, sizes[t], bar)
        growth = None if bar is None else (0.95, 1.05)
        yield Result(f"saved state: size at t=20 / at t=1, {name}", -1, sizes["t=20"] / sizes["t=1"], growth)


def _memory(folder: Path, names: Names, measure: Measure) -> Iterator[Result]:
    """Compare the peak memory of a process that takes a step."""
    costs = measure("memory", lambda v: v.ask("step", 200_000, 20, 2, folder=folder))
    for name in names:
        yield Result(f"step, 200,000 x 20: peak MB, {name}", -1, _middle(costs, name, "memory"), None)
    ratio = _middle(costs, names[0], "memory") / _middle(costs, names[1], "memory")
    yield Result(f"step, 200,000 x 20: peak memory, {names[0]} / {names[1]}", -1, ratio, 1.1)


def _streams(folder: Path, names: Names, measure: Measure, scale: str) -> Iterator[Result]:
    """Compare steps that are each asked for a divergence, on streams of several kinds."""
    for stream, least in STREAMS:
        costs = measure(stream, lambda v, stream=stream: v.ask("follow", stream, folder=folder))
        yield from _compared(f"{stream}, mean step with divergence", costs, names, least)
        for kind, label in (("median", "median step with divergence"), ("start", "first window")):
            ratio = _middle(costs, names[1], kind) / _middle(costs, names[0], kind)
            yield Result(f"{stream}, {label}: CPU, {names[1]} / {names[0]}", -1, ratio, None)


PARTS = {"speed": _speed, "cost": _streams}
"""What is compared, by the name of the benchmark."""
