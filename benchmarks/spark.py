"""Spark: rows a second a core beside a loop of Monitors, bytes of a state, and what a hot key costs others.

Times are CPU seconds of all processes that take part (Spark's JVM, its Python workers, this one), so that they hold on
a machine that has other work; those of the loop and of Spark alternate. Spark has one core, ``local[1]``, but for hot
keys. Workers are started before.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.results import INF, Result
from driftline import Monitor
from driftline.monitor import Plan, Trace, take, trace_bytes

KEYS, FEW, WINDOWS, WINDOW, COLUMNS = 100, 10, 2, 1000, 8
HOT = 100  # times the rows of the other keys
_TRIES = 5  # Spark gives a Python worker ten seconds to start; on a busy machine the query goes on from its checkpoint
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


class Spent(NamedTuple):
    """Seconds by the clock, and of all cores together."""

    wall: float
    cpu: float


def throughput(_seeds: int, *, rounds: int = 2) -> Iterator[Result]:
    """Measure rows a second a core of a loop of Monitors, and of Spark on a table and on a stream, by turns.

    A stream of few keys tells what a micro-batch costs beside its keys: times are taken as linear in both.
    """
    names, rows = [f"x{j}" for j in range(COLUMNS)], KEYS * WINDOWS * WINDOW
    with tempfile.TemporaryDirectory() as folder, _session(Path(folder), 1) as spark:
        many, few = Path(folder) / "many", Path(folder) / "few"
        parts, _ = _write(many / "rows", KEYS, WINDOWS), _write(few / "rows", FEW, WINDOWS)
        _table(spark, few / "rows", names)  # starts workers
        _stream(spark, few, names, "warm")
        ways: dict[str, Callable[[int], Any]] = {
            "loop": lambda _: _loop(parts, names),
            "table": lambda _: _table(spark, many / "rows", names),
            "stream": lambda turn: _stream(spark, many, names, f"turn-{turn}"),
            "few": lambda turn: _stream(spark, few, names, f"turn-{turn}"),
        }
        found: dict[str, list[Spent]] = {way: [] for way in ways}
        for turn in range(rounds):
            for way, call in ways.items():
                found[way].append(_timed(spark, call, turn))
    cpu = {way: statistics.median(spent.cpu for spent in spents) for way, spents in found.items()}
    for way in ("loop", "table", "stream"):
        wall = statistics.median(spent.wall for spent in found[way])
        yield Result(f"spark-throughput, {way}: rows a second of CPU", 0, rows / cpu[way], None)
        yield Result(f"spark-throughput, {way}: rows a second by the clock", 0, rows / wall, None)
        if way != "loop":
            yield Result(
                f"spark-throughput, {way}: rows a second of CPU / the loop's", 0, cpu["loop"] / cpu[way], (0.5, INF)
            )
    beside = (cpu["few"] - cpu["stream"] * FEW / KEYS) / (1.0 - FEW / KEYS) / WINDOWS
    yield Result("spark-throughput, stream: CPU seconds of a micro-batch beside its keys", 0, beside, None)


def state(_seeds: int) -> Iterator[Result]:
    """Measure the bytes of a key's state after six windows, with rows and with sums, by columns; no Spark is needed."""
    for columns in (2, 8, 20):
        names = [f"x{j}" for j in range(columns)]
        for keep in ("rows", "sums"):
            plan, trace, sizes = Plan({"window": WINDOW, "keep": keep, "columns": names}, ("number",)), Trace(), []
            rng = np.random.default_rng(0)
            for t in range(6):
                trace, _ = take(trace, _rows(rng, columns, t), plan)
                sizes.append(len(trace_bytes(trace)))
            what = f"spark-state, {columns} columns, keep={keep}"
            yield Result(f"{what}: kB", 0, sizes[-1] / 1000, None)
            yield Result(f"{what}: after six windows / after two", 0, sizes[-1] / sizes[1], 1.05)
            half, _ = take(trace, _rows(rng, columns, 6).slice(0, WINDOW // 2), plan)
            yield Result(
                f"{what}: kB more for an open window of {WINDOW // 2} rows",
                0,
                (len(trace_bytes(half)) - sizes[-1]) / 1000,
                None,
            )


def hot_key(_seeds: int, *, keys: int = 16, windows: int = 2) -> Iterator[Result]:
    """Measure on two cores when the Records of other keys are there, without and with a key of 100 times their rows.

    In a table, a key's Records are there when its task ends; in a stream, when its micro-batch does.
    """
    names = ["x0", "x1"]
    with tempfile.TemporaryDirectory() as folder, _session(Path(folder), 2) as spark:
        for hot in (1, HOT):
            place, what = Path(folder) / f"hot-{hot}", f"spark-hot-key, {hot} times the rows"
            _write(place / "rows", keys, windows, columns=2, hot=hot)
            if hot == 1:
                _table(spark, place / "rows", names)  # starts workers
            others, own = _finished(spark, place, names)
            yield Result(f"{what}, table: seconds to the others' Records, median", 0, statistics.median(others), None)
            yield Result(f"{what}, table: seconds to the last of the others", 0, max(others), None)
            yield Result(f"{what}, table: seconds to its own Records", 0, own, None)
            batches = [each["batchDuration"] / 1000 for each in _stream(spark, place, names, "stream")]
            yield Result(f"{what}, stream: seconds of the longest micro-batch", 0, max(batches), None)
            seen = spark.read.parquet(str(place / "stream" / "records")).where("status = 'measured'")
            lacking = keys - seen.select("key").distinct().count()
            yield Result(f"{what}, stream: keys without Records", 0, lacking, 0)


def _rows(rng: np.random.Generator, columns: int, t: int, windows: int = 1) -> pa.Table:
    n = WINDOW * windows
    return pa.table({f"x{j}": rng.normal(0.0, 1.0, n) for j in range(columns)} | {"number": np.arange(n) + WINDOW * t})


def _write(folder: Path, keys: int, windows: int, *, columns: int = COLUMNS, hot: int = 1) -> dict[int, pa.Table]:
    """Write a file for each window of all keys; key 0 has ``hot`` times the rows. Return the rows of each key."""
    folder.mkdir(parents=True)
    rng, found = np.random.default_rng(0), {key: [] for key in range(keys)}
    for t in range(windows):
        parts = []
        for key in range(keys):
            many = 1 if key else hot
            rows = _rows(rng, columns, t * many, many)
            found[key].append(rows)
            parts.append(rows.append_column("key", pa.array(np.full(rows.num_rows, key))))
        pq.write_table(pa.concat_tables(parts), folder / f"window-{t}.parquet")
    return {key: pa.concat_tables(parts) for key, parts in found.items()}


def _loop(parts: dict[int, pa.Table], names: list[str]) -> None:
    """Watch key after key as a program without Spark would: its rows are in memory, its Records become JSON."""
    for rows in parts.values():
        for record in Monitor(window=WINDOW).watch(rows.select(names)):
            record.to_json()


def _table(spark: Any, rows: Path, names: list[str], out: Path | None = None) -> None:
    from driftline.spark import watch

    found = watch(spark.read.parquet(str(rows)), "key", order="number", columns=names, window=WINDOW)
    if out is None:
        found.write.format("noop").mode("overwrite").save()
    else:
        found.write.parquet(str(out))


def _stream(spark: Any, place: Path, names: list[str], name: str) -> list[dict[str, Any]]:
    """Watch a folder as a stream, a file in each micro-batch; return what Spark says of them."""
    from driftline.spark import watch, write_once

    source = spark.readStream.schema(spark.read.parquet(str(place / "rows")).schema).option("maxFilesPerTrigger", 1)
    records = watch(source.parquet(str(place / "rows")), "key", order="number", columns=names, window=WINDOW)
    out = place / name
    writer = records.writeStream.foreachBatch(write_once(str(out / "records"))).trigger(availableNow=True)
    said: list[dict[str, Any]] = []
    for _ in range(_TRIES):
        query = writer.option("checkpointLocation", str(out / "checkpoint")).start()
        try:
            query.awaitTermination()
        except Exception as error:  # PySpark need not be there when this file is imported
            if "failed to connect back" not in str(error):
                raise
        said += [progress for progress in query.recentProgress if progress["numInputRows"]]
        if query.exception() is None:
            return said
    raise RuntimeError(
        f"Python workers have not started within Spark's ten seconds, {_TRIES} times: too busy a machine"
    )


def _finished(spark: Any, place: Path, names: list[str]) -> tuple[list[float], float]:
    """Return seconds until the Records of each other key were written, and those of key 0."""
    began = time.time()
    _table(spark, place / "rows", names, place / "records")
    when: dict[int, float] = {}
    for path in (place / "records").glob("*.parquet"):  # a task writes its file when it has done its keys
        for key in set(pq.read_table(path, columns=["key"])["key"].to_pylist()):
            when[key] = path.stat().st_mtime - began
    return [seconds for key, seconds in when.items() if key], when[0]


@contextmanager
def _session(folder: Path, cores: int) -> Iterator[Any]:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(f"local[{cores}]").appName("driftline")
    for name, value in {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(folder),
        "spark.sql.adaptive.enabled": "false",  # it would merge small partitions, and a hot key's with them
        "spark.sql.shuffle.partitions": str(8 * cores if cores > 1 else 1),
        "spark.sql.streaming.stateStore.providerClass": _ROCKSDB,
        "spark.ui.enabled": "false",
    }.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()


def _timed(spark: Any, call: Callable[[int], Any], turn: int) -> Spent:
    wall, cpu = time.perf_counter(), time.process_time()
    with Meter(spark.sparkContext._gateway.proc.pid) as meter:
        call(turn)
    return Spent(time.perf_counter() - wall, time.process_time() - cpu - meter.own + meter.spent)


class Meter:
    """CPU seconds of a process and all below it while it runs, those that have ended included.

    The daemon of PySpark ignores that its workers end, so the system does not add their times to its own: they would be
    gone, and idle workers end after a minute. So all processes are looked at several times a second, and what was last
    seen of each counts.

    Attributes:
        spent: CPU seconds of the processes.
        own: CPU seconds that looking took, in this process.
    """

    def __init__(self, top: int, every: float = 0.1) -> None:
        self._top, self._every, self._over = top, every, threading.Event()
        self._thread = threading.Thread(target=self._look_on, daemon=True)
        self._first: dict[tuple[int, int], float] = {}
        self._last: dict[tuple[int, int], float] = {}
        self.spent = self.own = 0.0

    def __enter__(self) -> Self:
        self._look()
        self._first = dict(self._last)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._look()
        self.spent = sum(seconds - self._first.get(process, 0.0) for process, seconds in self._last.items())

    def _look_on(self) -> None:
        while not self._over.wait(self._every):
            self._look()
        self.own = time.thread_time()

    def _look(self) -> None:
        found = _processes()
        below, new = {self._top}, {self._top}
        while new := {pid for pid, (parent, *_) in found.items() if parent in new} - below:
            below |= new
        self._last |= {(pid, found[pid][1]): found[pid][2] for pid in below if pid in found}


def _processes() -> dict[int, tuple[int, int, float]]:
    """Return of each process its parent, when it was started, and its CPU seconds so far."""
    tick, found = os.sysconf("SC_CLK_TCK"), {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parts = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        found[int(path.parent.name)] = int(parts[1]), int(parts[19]), (int(parts[11]) + int(parts[12])) / tick
    return found
