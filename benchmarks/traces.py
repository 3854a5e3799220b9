"""Many streams: bytes of a state, CPU time of a step, and what it costs a Spark worker to get the rows of many keys."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from benchmarks.results import Result
from driftline.monitor import Plan, read_trace, take, trace_bytes

WINDOW = 1000


def states(_seeds: int) -> Iterator[Result]:
    """Measure kB of a state after six windows, and with half of another, and the CPU ms of a step; seed 1000."""
    for columns, keep in itertools.product((2, 8), ("rows", "sums")):
        names, rng = [f"c{j}" for j in range(columns)], np.random.default_rng(1000)
        plan = Plan({"window": WINDOW, "keep": keep, "columns": names}, ("n",))
        data, windows, waits = None, [], []
        for t in range(6):
            seconds, data = _step(data, _rows(rng, names, WINDOW, t * WINDOW), plan)
            windows.append(seconds)
        some = _rows(rng, names, 20, 6 * WINDOW)
        waits = [_step(data, some, plan)[0] for _ in range(20)]
        _, half = _step(data, _rows(rng, names, WINDOW // 2, 6 * WINDOW), plan)
        what = f"trace-states, {columns} columns, {keep}"
        yield Result(f"{what}: kB", -1, len(data or b"") / 1000, None)
        yield Result(f"{what}, half a window open: kB", -1, len(half) / 1000, None)
        yield Result(f"{what}, a window: CPU ms", -1, 1000 * float(np.median(windows[2:])), None)
        yield Result(f"{what}, 20 rows that wait: CPU ms", -1, 1000 * float(np.median(waits)), None)


def handing(_seeds: int) -> Iterator[Result]:
    """Measure CPU µs a key until a processor has its rows, by the conversions of PySpark 4.3 and by packing."""
    ways: dict[str, Callable[[pa.RecordBatch], None]] = {"pandas": _by_pandas, "rows": _by_rows, "packed": _by_packing}
    for many in (5, 20, 100):
        batch = _keyed(500, many)
        for name, way in ways.items():
            way(batch.slice(0, 50))
            begun = time.process_time()
            way(batch)
            micros = 1e6 * (time.process_time() - begun) / 500
            yield Result(f"trace-handing, 500 keys of {many} rows, {name}: CPU µs a key", -1, micros, None)


def _rows(rng: np.random.Generator, names: list[str], rows: int, first: int) -> pa.Table:
    return pa.table({**{name: rng.normal(size=rows) for name in names}, "n": np.arange(first, first + rows)})


def _step(data: bytes | None, rows: pa.Table, plan: Plan) -> tuple[float, bytes]:
    begun = time.process_time()
    trace, _ = take(read_trace(data), rows, plan)
    after = trace_bytes(trace)
    return time.process_time() - begun, after


def _keyed(keys: int, rows: int) -> pa.RecordBatch:
    rng, many = np.random.default_rng(0), keys * rows
    columns = {"a": rng.normal(size=many), "b": rng.normal(size=many), "c": rng.choice(["x", "y"], many)}
    return pa.RecordBatch.from_pydict({"k": np.repeat(np.arange(keys), rows), **columns, "n": np.arange(many)})


def _by_rows(batch: pa.RecordBatch) -> None:
    from pyspark.sql import Row

    made = Row(*batch.schema.names)
    cells = range(batch.num_columns)
    rows = (made(*(batch.column(j)[i].as_py() for j in cells)) for i in range(batch.num_rows))
    for _, group in itertools.groupby(rows, key=lambda row: row[0]):
        pa.Table.from_pylist([row.asDict() for row in group])


def _by_pandas(batch: pa.RecordBatch) -> None:
    import pandas as pd

    for _, group in itertools.groupby(batch.to_pandas().itertuples(index=False), key=lambda row: row[0]):
        pa.Table.from_pandas(pd.DataFrame(list(group)))


def _by_packing(batch: pa.RecordBatch) -> None:
    from driftline.spark._packing import _packing, unpacked

    for out in _packing(("k",), ("a", "b", "c", "n"))(iter([batch])):
        for part in out[1]:
            unpacked([part.as_py()])
