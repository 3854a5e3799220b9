"""Rows of a finished unit on disk: a CSV under a line that says which code wrote it, and holds a digest of the rows."""

from __future__ import annotations

import hashlib
import io
import json
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

import driftline
from experiments.experiment import Unit
from experiments.files import write_arrays, write_atomically
from experiments.provenance import commit, engine

__all__ = [
    "Part",
    "part_path",
    "read_part",
    "read_samples",
    "sources",
    "unit_folder",
    "write_part",
    "write_samples",
]

_HEAD = "# driftline part "
_SHORT = re.compile(r", sources ([0-9a-f]{10}), body ([0-9a-f]{10})\n")  # parts of before there was a longer one


class Part(NamedTuple):
    """A unit's rows, a digest of the code that made them, its commit, the engine's numbers, and how long it took."""

    rows: pd.DataFrame
    sources: str
    commit: str = ""
    engine: tuple[float, ...] = ()
    seconds: float = math.nan


def part_path(folder: Path, args: Any, unit: Unit) -> Path:
    """File of a unit's rows: its name holds a digest of the arguments they depend on, but for numbers of seeds."""
    fields = asdict(args) if unit.fields is None else unit.fields
    settings = {key: value for key, value in asdict(args).items() if key in fields and not key.endswith("seeds")}
    digest = _digest(json.dumps([settings, unit.case], sort_keys=True, default=str).encode())
    label = re.sub(r"[^a-zA-Z0-9.]+", "-", unit.case).strip("-").lower()
    return folder / "parts" / f"{label}-seed{unit.seed}-{digest}.csv"


def unit_folder(folder: Path, args: Any, unit: Unit) -> Path:
    """A unit's own folder, if it keeps anything."""
    return part_path(folder, args, unit).with_suffix("")


def write_part(path: Path, rows: pd.DataFrame, seconds: float = math.nan) -> None:
    """Write rows so that a file cut off or altered is recognised."""
    body = rows.to_csv(index=False)
    head = {
        "sources": sources(),
        "body": _digest(body.encode()),
        "commit": commit(),
        "engine": engine(),
        "seconds": round(seconds, 1) if math.isfinite(seconds) else None,
    }
    write_atomically(path, lambda draft: draft.write_text(f"{_HEAD}{json.dumps(head)}\n{body}", encoding="utf-8"))


def read_part(path: Path, unit: Unit) -> Part | None:
    """A unit's rows; None if there is no part or it is not whole."""
    try:
        first, _, body = path.read_text(encoding="utf-8").partition("\n")
    except (FileNotFoundError, UnicodeDecodeError):
        return None
    head = _head(f"{first}\n")
    if head is None or _digest(body.encode()) != head["body"]:
        return None
    rows = pd.read_csv(io.StringIO(body))
    seconds = head["seconds"] if head["seconds"] is not None else math.nan
    found = Part(rows, head["sources"], head["commit"], tuple(head["engine"]), seconds)
    return found if len(rows) == unit.rows else None


def _head(line: str) -> dict[str, Any] | None:
    if short := _SHORT.search(line):
        return {"sources": short[1], "body": short[2], "commit": "", "engine": (), "seconds": None}
    try:
        found = json.loads(line.removeprefix(_HEAD))
    except ValueError:
        return None
    return (
        found if isinstance(found, dict) and {"sources", "body", "commit", "engine", "seconds"} <= set(found) else None
    )


def write_samples(work: Path, samples: npt.NDArray[np.uint8]) -> None:
    """Keep sample images of a unit beside its part; ``work`` is the unit's folder."""
    write_arrays(work.with_suffix(".npz"), samples=samples)


def read_samples(folder: Path, args: Any, units: Iterable[Unit]) -> dict[str, npt.NDArray[np.uint8]]:
    """Sample images by case, of the first seed, where there are any."""
    found = {}
    for unit in units:
        path = part_path(folder, args, unit).with_suffix(".npz")
        if unit.seed == 0 and path.exists():
            with np.load(path) as kept:
                found[unit.case] = kept["samples"]
    return found


@cache
def sources() -> str:
    """A digest of the package's and the experiments' code, by which results of other code are recognised."""
    total = hashlib.sha256()
    for path in _files():
        total.update(path.name.encode() + b"\0" + path.read_bytes())
    return total.hexdigest()[:10]


def _files() -> Iterator[Path]:
    for folder in (Path(driftline.__file__).parent, Path(__file__).parent):
        yield from sorted(folder.rglob("*.py"))


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:10]
