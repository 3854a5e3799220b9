"""Monitor: many rows in little memory, beside bare reading of the same file; many windows without growth."""

from __future__ import annotations

import multiprocessing
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.results import Result
from driftline import Monitor
from driftline.monitor import inspect

ROWS, BLOCK, WINDOW = 10_000_000, 250_000, 50_000
WINDOWS = 1000


def parquet(seeds: int) -> Iterator[Result]:
    """Measure memory, and seconds as a multiple of bare reading, for ten million rows of twenty columns; one seed."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        _write(path, np.random.default_rng(0))
        bare, bare_memory = _apart(_read, path)
        for model in ("quadratic", "auto"):
            seconds, memory = _apart(_watch, path, model)
            yield Result(f"watch 10 M x 20 Parquet, {model}: peak resident memory, GB", 0, memory, 1.5)
            yield Result(f"watch 10 M x 20 Parquet, {model}: million rows a second", 0, ROWS / seconds / 1e6, None)
            yield Result(f"watch 10 M x 20 Parquet, {model}: seconds / bare reading", 0, seconds / bare, None)
        yield Result("bare reading of the same file: million rows a second", 0, ROWS / bare / 1e6, None)
        yield Result("bare reading of the same file: peak resident memory, GB", 0, bare_memory, None)


def windows(seeds: int) -> Iterator[Result]:
    """Measure growth of memory, state and file from window 100 to 1,000; the file may grow only by its Records."""
    (early, late), _ = _apart(_many)
    yield Result("1,000 windows: memory at the end / at window 100", 0, late[0] / early[0], 1.1)
    yield Result("1,000 windows: state at the end / at window 100", 0, late[1] / early[1], 1.1)
    grown = (late[2] - early[2]) / (late[3] - early[3])
    yield Result("1,000 windows: growth of the file / bytes of the new Records", 0, grown, 1.25)
    yield Result("1,000 windows: bytes of a Record", 0, late[3] / WINDOWS, None)


def _apart(call: Callable[..., Any], *args: Any) -> tuple[Any, float]:
    """Return the result of a call in a process of its own, and the peak resident memory of that process in GB."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_child, args=(there, call, *args))
    process.start()
    there.close()
    answer = here.recv()
    process.join()
    return answer


def _child(pipe: Any, call: Callable[..., Any], *args: Any) -> None:
    pipe.send((call(*args), _memory("VmHWM")))


def _memory(what: str) -> float:
    status = Path("/proc/self/status").read_text()
    return int(re.search(rf"{what}:\s+(\d+) kB", status)[1]) / 1e6


def _write(path: Path, rng: np.random.Generator) -> None:
    """Write sixteen numbers, one often missing, two categories, a boolean and a count; three columns drift slowly."""
    writer = None
    for start in range(0, ROWS, BLOCK):
        drift = start / ROWS
        columns: dict[str, Any] = {f"x{j}": rng.standard_normal(BLOCK) + 0.3 * drift * (j < 3) for j in range(16)}
        columns["x15"][rng.random(BLOCK) < 0.1] = np.nan
        columns["shop"] = pa.array(rng.choice(["north", "south", "east", "west"], BLOCK)).dictionary_encode()
        columns["card"] = pa.array(rng.choice(["credit", "debit", "none"], BLOCK, p=[0.5, 0.4, 0.1]))
        columns["new"] = rng.random(BLOCK) < 0.2
        columns["items"] = rng.poisson(3.0, BLOCK)
        table = pa.table(columns)
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()


def _read(path: Path) -> float:
    began, rows = time.perf_counter(), 0
    for batch in pq.ParquetFile(path).iter_batches():
        rows += batch.num_rows
    assert rows == ROWS
    return time.perf_counter() - began


def _watch(path: Path, model: str) -> float:
    with tempfile.TemporaryDirectory() as folder, Monitor(f"{folder}/run", window=WINDOW, model=model) as monitor:
        began = time.perf_counter()
        records = sum(1 for _ in monitor.watch(path))
        assert records == ROWS // WINDOW
        return time.perf_counter() - began


def _many() -> list[tuple[float, float, float, float]]:
    rng, found = np.random.default_rng(0), []
    frames = (pa.table({f"x{j}": rng.standard_normal(1000) for j in range(8)}) for _ in range(WINDOWS))
    with tempfile.TemporaryDirectory() as folder, Monitor(f"{folder}/run", window=1000, tolerance=0.0) as monitor:
        for record in monitor.watch(frames):
            if record.window in (100, WINDOWS - 1):
                sizes = inspect(f"{folder}/run").parts
                size = os.path.getsize(f"{folder}/run")
                found.append((_memory("VmRSS"), sizes["state"], size, sizes["records"]))
    return found
