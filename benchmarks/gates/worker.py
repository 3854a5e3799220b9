"""The child process of a gate: ``python -m benchmarks.gates.worker SOURCE TABLES [engine]`` prints a row for each job.

A job is a line of JSON on standard input, [gate, case, seed]; so is a row on standard output. Of driftline, which must
come from SOURCE, it uses public names alone, so that any version can take part. With
``engine``, the new engine stands behind these.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
import tempfile
import time
import traceback
import warnings
import zlib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import driftline
from benchmarks.gates.cases import WAYS, Alarms, Drawn, Follow, case_of
from benchmarks.streams import truth
from benchmarks.untidy import UNTIDY, watched
from benchmarks.weighted import Population

if sys.argv[3:] == ["engine"]:
    from benchmarks.gates.engine import ContinualDensityRatio, Monitor, compare
else:
    from driftline import ContinualDensityRatio, Monitor, compare

Row = dict[str, Any]
_TRUE_ROWS = 1_000_000  # for the truth of streams without a closed form


def main() -> None:
    """Run the jobs of standard input."""
    source, tables = Path(sys.argv[1]), Path(sys.argv[2])
    if source.resolve() not in Path(driftline.__file__).resolve().parents:
        raise SystemExit(f"driftline comes from {driftline.__file__}, not from {source}: set PYTHONPATH")
    warnings.simplefilter("ignore")  # doubts are measured here
    for line in sys.stdin:
        gate, name, seed = json.loads(line)
        print(json.dumps(row_of(case_of(gate, name), seed, tables), allow_nan=False), flush=True)


def row_of(case: Any, seed: int, tables: Path) -> Row:
    """Run a case with a seed; an error of the engine is a row, too."""
    try:
        if isinstance(case, Follow):
            return _plain(follow(case, seed))
        if isinstance(case, Alarms):
            return _plain(alarms(case, seed))
        return _plain(monitor(case, seed, tables))
    except Exception as error:
        traceback.print_exc()
        return {"error": f"{type(error).__name__}: {error}"[:300]}


def follow(case: Follow, seed: int) -> Row:
    """Follow a stream: estimates at the times of the case, the first window of each doubt, costs."""
    rng, other = np.random.default_rng([seed, 0]), np.random.default_rng([seed, 1])
    digest = hashlib.blake2b(digest_size=8)

    def sample(t: int, rows: int, source: np.random.Generator) -> Any:
        x = case.stream.sample(t, rows, source)
        digest.update(x.tobytes())
        return x

    estimator = ContinualDensityRatio(model=case.model, keep=case.keep, random_state=seed)
    original = sample(0, case.rows, rng)
    began = time.process_time()
    estimator.fit(original)
    start, cpu, looks, said = time.process_time() - began, [], {}, {}
    for t in case.windows or range(1, case.times[-1] + 1):
        window = sample(t, case.rows, rng)
        began = time.process_time()
        estimate = estimator.partial_fit(window).divergence("reverse_kl")
        cpu.append(time.process_time() - began)
        for doubt in estimate.doubts:
            said.setdefault(str(doubt.code), t)
        if t in case.times:
            looks[str(t)] = _look(estimate, truth(case.stream, t, _TRUE_ROWS), estimate.doubts)
            if case.fresh:
                rows = sample(t, case.fresh, other)
                off = estimator.log_ratio(rows) - case.stream.log_ratio(rows, t)
                looks[str(t)]["mae"] = float(np.abs(off).mean())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state"
        estimator.save(path)
        size = path.stat().st_size
    return {
        "digest": digest.hexdigest(),
        "looks": looks,
        "said": said,
        "start": start,
        "cpu": float(np.mean(cpu)),  # the mean: steps at which a model grows are dear, and count
        "bytes": size,
    }


def alarms(case: Alarms, seed: int) -> Row:
    """Count alarms; how many rows are drawn depends on them, so the digest is that of the first window."""
    rows = next(untidy for untidy in UNTIDY if untidy.key == case.key)
    first = rows.draw(rows.rows, np.random.default_rng(seed))
    found = watched(rows, case.looks, np.random.default_rng(seed))
    return {"digest": hashlib.blake2b(first.tobytes(), digest_size=8).hexdigest(), **found._asdict()}


@lru_cache(maxsize=1)
def _population(table: str, kind: str, rows: int, tables: Path) -> Population:
    return Population.of(table, kind, rows, tables / f"{table}.parquet")


def monitor(case: Drawn, seed: int, tables: Path) -> Row:
    """Watch windows of a public table, and compare the first with the last one directly."""
    population = _population(case.table, case.kind, case.rows, tables)
    rng = np.random.default_rng([seed, zlib.crc32(f"{case.table}, {case.kind}, {case.way}, {case.rows}".encode())])
    full, digest, frames = population.strength(), hashlib.blake2b(digest_size=8), []
    for part in WAYS[case.way]:
        frames.append(population.rows.iloc[population.draw(case.rows, part * full, rng)].reset_index(drop=True))
        digest.update(pd.util.hash_pandas_object(frames[-1]).to_numpy().tobytes())
    settings = {"keep": "sums", "model": "auto"} if case.keep == "sums" else {}
    began = time.process_time()
    with Monitor(window=case.rows, **settings) as watching:
        records = [record for record in watching.watch(iter(frames)) if record.window > 0]
    cpu = time.process_time() - began
    parts = WAYS[case.way][1:]
    static = compare(frames[0], frames[-1])
    return {
        "digest": digest.hexdigest(),
        "looks": {
            str(record.window): _look(record.drift, population.divergence(part * full), record.doubts)
            for record, part in zip(records, parts, strict=True)
        },
        "static": _look(static.drift, population.divergence(full), static.doubts),
        "cpu": cpu / len(parts),
    }


def _look(estimate: Any, true: float, doubts: Any) -> Row:
    """Return what is kept of an estimate; one that was not measured has no numbers."""
    names = ("value", "std_error", "low", "high", "floor")
    kept = {name: float(getattr(estimate, name, math.nan)) for name in names}
    return {**kept, "truth": true, "doubts": [str(doubt.code) for doubt in doubts]}


def _plain(value: Any) -> Any:
    """Return numbers to six digits, as JSON has them: those that are not finite are null."""
    if isinstance(value, Mapping):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value


if __name__ == "__main__":
    main()
