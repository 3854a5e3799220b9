"""Rows of a finished unit on disk: a CSV under a line with digests of the code that wrote it and of its bytes."""

from __future__ import annotations

import hashlib
import io
import json
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

_HEAD = re.compile(r"# driftline part, sources ([0-9a-f]{10}), body ([0-9a-f]{10})\n")


class Part(NamedTuple):
    """A unit's rows, and a digest of the code that made them."""

    rows: pd.DataFrame
    sources: str


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


def write_part(path: Path, rows: pd.DataFrame) -> None:
    """Write rows so that a file cut off or altered is recognised."""
    body = rows.to_csv(index=False)
    head = f"# driftline part, sources {sources()}, body {_digest(body.encode())}\n"
    write_atomically(path, lambda draft: draft.write_text(head + body, encoding="utf-8"))


def read_part(path: Path, unit: Unit) -> Part | None:
    """A unit's rows; None if there is no part or it is not whole."""
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, UnicodeDecodeError):
        return None
    head = _HEAD.match(text)
    if head is None:
        return None
    body = text[head.end() :]
    if _digest(body.encode()) != head[2]:
        return None
    rows = pd.read_csv(io.StringIO(body))
    return Part(rows, head[1]) if len(rows) == unit.rows else None


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
