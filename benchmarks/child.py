"""What one process measures: ``python -P child.py TASK ARGUMENT ...`` in the environment of any version.

It needs only names that every version has, and prints one line of JSON.
"""

from __future__ import annotations

import json
import re
import resource
import statistics
import struct
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np


def read(path: str) -> dict[str, float]:
    """Measure a bare read of a Parquet file that has been read before."""
    import pyarrow.parquet as pq

    pq.read_table(path, use_threads=False)
    cpu, wall = zip(*(_seconds(lambda: pq.read_table(path, use_threads=False)) for _ in range(5)), strict=True)
    return {"cpu": statistics.median(cpu), "wall": statistics.median(wall)}


def step(rows: str, columns: str, steps: str) -> dict[str, float]:
    """Measure steps with the defaults, the peak memory, and a Gram product of the first window with its squares."""
    from driftline import ContinualDensityRatio

    rng, size = np.random.default_rng(0), (int(rows), int(columns))
    first = _window(0, size, rng)
    gram = _gram(first)
    estimator = ContinualDensityRatio(random_state=0).fit(first)
    costs = []
    for t in range(1, int(steps) + 1):
        window = _window(t, size, rng)
        costs.append(_seconds(lambda w=window: estimator.partial_fit(w)))
    cpu, wall = zip(*costs, strict=True)
    return {"cpu": statistics.median(cpu), "wall": statistics.median(wall), "gram": gram, "memory": peak_memory()}


def follow(name: str) -> dict[str, float]:
    """Measure the first window, and all steps of a stream, each asked for a divergence."""
    from driftline import ContinualDensityRatio

    warnings.simplefilter("ignore")  # doubts of versions that are known to be wrong here
    stream, rows, steps = _stream(name)
    rng, estimator = np.random.default_rng(0), ContinualDensityRatio(random_state=0)
    first = stream.sample(0, rows, rng)
    start, _ = _seconds(lambda: estimator.fit(first))
    costs = []
    for t in range(1, steps + 1):
        window = stream.sample(t, rows, rng)
        costs.append(_seconds(lambda w=window: estimator.partial_fit(w).divergence("reverse_kl")))
    cpu, wall = zip(*costs, strict=True)
    # the mean: steps at which a model grows are dear, and count
    return {
        "cpu": statistics.fmean(cpu),
        "wall": statistics.fmean(wall),
        "median": statistics.median(cpu),
        "start": start,
    }


def _stream(name: str) -> tuple[Any, int, int]:
    """Return a stream by name, the rows of its windows and the number of steps."""
    sys.path.append(str(Path(__file__).parents[1]))  # last: only for benchmarks, which no version brings along
    from benchmarks.streams import LatentClassStream, RotatedStream
    from driftline.synthetic import GaussianStream, MixtureStream

    streams: dict[str, tuple[Any, int, int]] = {
        "gaussian-64": (GaussianStream(), 10_000, 20),
        "gaussian-20": (GaussianStream(dim=20), 10_000, 20),
        "mixture-64": (MixtureStream(), 10_000, 20),
        "mixture-5": (MixtureStream(dim=5), 10_000, 20),
        "rotated-20": (RotatedStream(20), 10_000, 8),
        "latent": (LatentClassStream(), 5_000, 20),
    }
    return streams[name]


def state(rows: str, columns: str) -> dict[str, float]:
    """Measure megabytes of a saved estimator after 1 and after 20 steps, the rows of windows not counted."""
    from driftline import ContinualDensityRatio

    rng, size = np.random.default_rng(0), (int(rows), int(columns))
    estimator = ContinualDensityRatio(random_state=0).fit(_window(0, size, rng))
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for t in range(1, 21):
            estimator.partial_fit(_window(t, size, rng))
            if t in (1, 20):
                path = Path(folder) / f"{t}.safetensors"
                estimator.save(path)
                found[f"t={t}"] = _beyond_rows(path, size) / 1e6
    return found


def _window(t: int, size: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
    """Draw the paper's stream: mean 0.02 t, standard deviation 1 - 0.02 t."""
    return 0.02 * t + (1.0 - 0.02 * t) * rng.standard_normal(size)


def _gram(x: np.ndarray) -> float:
    """Return CPU seconds of one Gram product of [x, x^2, 1] in single precision.

    NumPy computes half of it, since it is symmetric; a product with weights, of two matrices, takes up to twice that.
    """
    design = np.hstack([x, x * x, np.ones((len(x), 1))]).astype(np.float32)
    return statistics.median(_seconds(lambda: design.T @ design)[0] for _ in range(11))


def _beyond_rows(path: Path, size: tuple[int, int]) -> int:
    """Return bytes of a safetensors file, less those of arrays as large as a window."""
    with path.open("rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
    arrays = [entry for name, entry in header.items() if name != "__metadata__"]
    windows = [
        end - start for entry in arrays if entry["shape"] == list(size) for start, end in [entry["data_offsets"]]
    ]
    return path.stat().st_size - sum(windows)


def _seconds(call: Callable[[], object]) -> tuple[float, float]:
    """Return CPU and wall-clock seconds of a call."""
    cpu, wall = time.process_time(), time.perf_counter()
    call()
    return time.process_time() - cpu, time.perf_counter() - wall


def peak_memory() -> float:
    """Return the peak resident memory of this process in MB."""
    status = Path("/proc/self/status")
    if status.exists():  # getrusage would count the process that started this one, until the exec
        return int(re.search(r"VmHWM:\s+(\d+) kB", status.read_text())[1]) / 1e3
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)


if __name__ == "__main__":
    print(json.dumps({"read": read, "step": step, "follow": follow, "state": state}[sys.argv[1]](*sys.argv[2:])))
