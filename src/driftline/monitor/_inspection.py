"""What a tracker file holds, shown in full, so that one can see that no original's rows are in it.

The file has two tables. Records hold numbers about windows; the parts are the run's description, its progress and the
estimator's state, whose arrays are listed here one by one. Only arrays named ``window`` hold rows; their digest tells
whose they are. And with the rows at hand, :func:`search` looks for them in the bytes of the file.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from driftline.files import unpack
from driftline.monitor._advance import digest
from driftline.monitor._records import Run
from driftline.monitor._tracker import Tracker
from driftline.recursion import FORMAT, VERSION

__all__ = ["Array", "Found", "Held", "Inspection", "inspect", "search"]

Floats = npt.NDArray[np.float64]

_MEANINGS = (
    ("window", "rows, for the next step"),
    ("step_log_ratio", "log-ratio of the last step for each of these rows"),
    ("uncertainty.score", "influence of each of these rows on the last step"),
    ("uncertainty.", "error bars of the coefficients, accumulated"),
    ("evidence.", "sums that tell which features the model still needs"),
    ("module.", "weights of the network"),
    ("mean", "means of the encoded columns in the original"),
    ("scale", "standard deviations of the encoded columns in the original"),
    ("coef", "coefficients of the log-ratio"),
    ("center", "means of the features in the original"),
    ("unit", "scales of the features in the original"),
    ("pairs", "features of the log-ratio"),
    ("weight", "features of the log-ratio"),
    ("bias", "features of the log-ratio"),
)


@dataclass(frozen=True)
class Array:
    """One array of the estimator's state."""

    name: str
    shape: tuple[int, ...]
    bytes: int
    what: str


@dataclass(frozen=True)
class Held:
    """Rows that the state holds: whose window, and whether these are the rows an original joined with."""

    original: str
    rows: int
    window: int | None
    is_original: bool


@dataclass(frozen=True)
class Inspection:
    """Everything in a tracker file.

    Attributes:
        bytes: of the file; ``log_bytes`` of the write-ahead log beside it, 0 unless a writer is at work.
        parts: bytes of the Records and of each part.
        arrays: of the estimator's state.
        held: the rows in it.
        free_pages: pages of the file without content; ``free_is_zero`` whether they hold zeros only.
    """

    run: Run
    bytes: int
    log_bytes: int
    parts: dict[str, int]
    arrays: tuple[Array, ...]
    held: tuple[Held, ...]
    free_pages: int
    free_is_zero: bool

    @property
    def originals_held(self) -> tuple[str, ...]:
        """Originals whose own rows are in the file, since no window has come after they joined."""
        return tuple(held.original for held in self.held if held.is_original)


@dataclass(frozen=True)
class Found:
    """How many of the distinct rows looked for are in a tracker file's bytes.

    Attributes:
        rows: distinct rows looked for.
        found: those in the file.
        also_current: of these, the ones that are also rows of the window which the file holds anyway.
    """

    rows: int
    found: int
    also_current: int

    @property
    def left_behind(self) -> int:
        """Rows that are in the file and should not be."""
        return self.found - self.also_current


def inspect(path: str | os.PathLike[str]) -> Inspection:
    """Look into a tracker file; a writer may be at work."""
    with Tracker(path, readonly=True) as tracker:
        content = tracker.read()
    run, sizes = content.run(os.fspath(path)), content.sizes
    tensors, meta = unpack(content.state, FORMAT, VERSION, os.fspath(path))
    taus = {f"track.{entry['tau']}": name for name, entry in meta["layout"]["tracks"].items()}
    arrays = tuple(
        Array(name, tuple(value.shape), value.numel() * value.element_size(), _meaning(name))
        for name, value in sorted(tensors.items())
    )
    held = tuple(
        _held(taus[".".join(name.split(".")[:2])], value, run)
        for name, value in sorted(tensors.items())
        if name.endswith(".window")
    )
    log = Path(f"{os.fspath(path)}-wal")
    free, zero = _free_pages(path)
    return Inspection(
        run=run,
        bytes=Path(path).stat().st_size,
        log_bytes=log.stat().st_size if log.exists() else 0,
        parts=sizes,
        arrays=arrays,
        held=held,
        free_pages=free,
        free_is_zero=zero,
    )


def search(path: str | os.PathLike[str], blocks: Iterable[Floats]) -> Found:
    """Look for encoded rows (n, D) in the bytes of a tracker file and its log.

    Rows are kept as they are, in double precision, so what is kept can be found, also in pages that are no longer used.
    There, a row that lies across two pages which do not follow each other is missed; of a window, nearly all are found.
    """
    rows = np.unique(np.concatenate(list(blocks)), axis=0)
    # medians and most frequent values are all zeros once encoded, and so are unused bytes: that row tells nothing
    rows = np.ascontiguousarray(rows[rows.any(axis=1)])
    with Tracker(path, readonly=True) as tracker:
        content = tracker.read()
    tensors, _ = unpack(content.state, FORMAT, VERSION, os.fspath(path))
    originals = {record.digest for record in content.records if record.status == "original"}
    windows = [value.numpy() for name, value in tensors.items() if name.endswith(".window")]
    current = {row.tobytes() for window in windows if digest(window) not in originals for row in window}
    found = set().union(*(_occurring(rows, part) for part in [content.state, *_bytes_of(path)]))
    return Found(len(rows), len(found), sum(row in current for row in found))


def _occurring(rows: Floats, content: bytes) -> set[bytes]:
    """Which rows occur in some bytes, at any offset: found by their most telling column, then compared in full."""
    column = int(np.argmax([len(np.unique(values)) for values in rows.T]))
    wanted, width, found = {row.tobytes() for row in rows}, rows.shape[1] * 8, set()
    marks = np.unique(rows[:, column]).view(np.uint64)
    for shift in range(min(8, len(content))):
        numbers = np.frombuffer(content, np.uint64, offset=shift, count=(len(content) - shift) // 8)
        for at in np.flatnonzero(np.isin(numbers, marks)):
            start = shift + 8 * (int(at) - column)
            found.add(content[max(start, 0) : start + width])
    return found & wanted


def _bytes_of(path: str | os.PathLike[str]) -> list[bytes]:
    """The bytes of a tracker file and its log: as they are, and page by page without what SQLite puts in front.

    What is longer than a page goes on in the next ones, after four bytes that say which comes then.
    """
    raw = Path(path).read_bytes()
    size = int.from_bytes(raw[16:18], "big")
    size = 65536 if size == 1 else size
    found = [raw, b"".join(raw[k + 4 : k + size] for k in range(0, len(raw), size))]
    log = Path(f"{os.fspath(path)}-wal")
    if log.is_file():
        frames = log.read_bytes()
        pages = range(32 + 24, len(frames), size + 24)  # a header of the log, and one of each page
        found += [frames, b"".join(frames[k + 4 : k + size] for k in pages)]
    return found


def _meaning(name: str) -> str:
    last = name.split(".", 3)[-1] if name.startswith("track.") else name
    for start, what in _MEANINGS:
        if last.startswith(start) or name.startswith(start) or name.endswith(f".{start}"):
            return what
    return "a number of the recursion"


def _held(original: str, window: torch.Tensor, run: Run) -> Held:
    mark = digest(window.numpy())
    known = [record for record in run.records if record.digest == mark]
    return Held(
        original=original,
        rows=window.shape[0],
        window=known[-1].window if known else None,
        is_original=not known or any(record.status == "original" and record.original == original for record in known),
    )


def _free_pages(path: str | os.PathLike[str]) -> tuple[int, bool]:
    """Pages without content, and whether what SQLite does not use of them is zero."""
    with closing(sqlite3.connect(f"{Path(path).resolve().as_uri()}?mode=ro", uri=True)) as database:
        (size,) = database.execute("PRAGMA page_size").fetchone()
        (count,) = database.execute("PRAGMA freelist_count").fetchone()
    if not count:
        return 0, True
    data = Path(path).read_bytes()
    return count, _walk_free(data, size)


def _walk_free(data: bytes, size: int) -> bool:
    """Trunk pages of the free list hold page numbers only, also outdated ones; leaves are all zeros, as overwritten."""
    trunk, pages = int.from_bytes(data[32:36], "big"), len(data) // size
    while trunk:
        page = data[(trunk - 1) * size : trunk * size]
        words = [int.from_bytes(page[i : i + 4], "big") for i in range(0, len(page), 4)]
        leaves = words[2 : 2 + words[1]]
        if any(word > pages for word in words) or any(any(data[(n - 1) * size : n * size]) for n in leaves):
            return False
        trunk = words[0]
    return True


def as_json(inspection: Inspection) -> dict[str, Any]:
    """For ``inspect --json``."""
    return {
        "path": inspection.run.path,
        "created": inspection.run.created,
        "source": inspection.run.source,
        "settings": inspection.run.settings.to_dict(),
        "records": len(inspection.run.records),
        "bytes": inspection.bytes,
        "log_bytes": inspection.log_bytes,
        "parts": inspection.parts,
        "arrays": [{**vars(array), "shape": list(array.shape)} for array in inspection.arrays],
        "held": [vars(held) for held in inspection.held],
        "originals_held": list(inspection.originals_held),
        "free_pages": inspection.free_pages,
        "free_is_zero": inspection.free_is_zero,
    }
