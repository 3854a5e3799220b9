"""Contents of a tracker file, shown in full as evidence that no original's rows are in it.

The file has two tables. Records hold numbers about windows; the parts are the run's description, its progress and the
estimator's state, whose arrays are listed here one by one, as :func:`driftline.recursion.contents` describes them. The
digest of those that hold rows shows whose they are. Given an original's rows, :func:`search` looks for them in the
bytes of the file.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from driftline.monitor._advance import digest
from driftline.monitor._proof import Proof, prove
from driftline.monitor._record_parts import Status
from driftline.monitor._records import Run
from driftline.monitor._skips import skipped_in_a_row
from driftline.monitor._sqlite import TrackerError, connect
from driftline.monitor._storage import encoder_of
from driftline.monitor._tracker import Tracker
from driftline.recursion import StoredArray, contents

__all__ = ["Array", "Found", "Held", "Inspection", "inspect", "search"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Array:
    """An array of the estimator's state."""

    name: str
    shape: tuple[int, ...]
    bytes: int
    what: str


@dataclass(frozen=True)
class Held:
    """Rows in the state: the original they are held for, their window, and whether it joined with them."""

    original: str
    rows: int
    window: int | None
    is_original: bool


@dataclass(frozen=True)
class Inspection:
    """Everything in a tracker file.

    Attributes:
        run: the run it describes.
        bytes: size of the file.
        log_bytes: size of the write-ahead log beside it, 0 unless a writer is at work.
        parts: bytes of the Records and of each part.
        arrays: arrays of the estimator's state.
        held: rows in that state.
        free_pages: number of pages without content.
        free_is_zero: whether those pages hold only zeros.
        proof: what all bytes of the file are, and whether any of it may be rows.
    """

    run: Run
    bytes: int
    log_bytes: int
    parts: dict[str, int]
    arrays: tuple[Array, ...]
    held: tuple[Held, ...]
    free_pages: int
    free_is_zero: bool
    proof: Proof

    @property
    def skipped_in_a_row(self) -> int:
        """Number of windows at the end of the run that were skipped: held rows have stayed for as long."""
        return skipped_in_a_row(self.run.records)

    @property
    def originals_held(self) -> tuple[str, ...]:
        """Originals whose own rows are in the file because no window has come since they joined."""
        return tuple(held.original for held in self.held if held.is_original)


@dataclass(frozen=True)
class Found:
    """Result of a search for rows in the bytes of a tracker file.

    Attributes:
        rows: number of distinct rows looked for.
        found: number of these that are in the file.
        also_current: number of found rows that are also in the current window, which the file holds anyway.
    """

    rows: int
    found: int
    also_current: int

    @property
    def left_behind(self) -> int:
        """Rows that are in the file and should not be."""
        return self.found - self.also_current


def inspect(path: str | os.PathLike[str]) -> Inspection:
    """Read everything in a tracker file, even while a writer is at work."""
    with Tracker(path, readonly=True) as tracker:
        content = tracker.read()
    run, sizes = content.run(os.fspath(path)), content.sizes
    encoder = encoder_of(run)
    stored = contents(content.state, os.fspath(path))
    log = Path(f"{os.fspath(path)}-wal")
    free, zero = _free_pages(path)
    size, logged = Path(path).stat().st_size, log.stat().st_size if log.exists() else 0
    try:
        proof = prove(content, run, encoder, stored, size, _around(path, zero, logged))
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise TrackerError(f"{os.fspath(path)}: damaged, its parts are not what they should be ({error})") from None
    return Inspection(
        run=run,
        bytes=size,
        log_bytes=logged,
        parts=sizes,
        arrays=tuple(Array(array.name, tuple(array.values.shape), array.values.nbytes, array.what) for array in stored),
        held=tuple(_held(array, run) for array in stored if array.holds_rows),
        free_pages=free,
        free_is_zero=zero,
        proof=proof,
    )


def _around(path: str | os.PathLike[str], zero: bool, logged: int) -> list[str]:
    """Say what is wrong with the bytes beside the contents of a tracker file."""
    found = [] if zero else ["unused pages of the file are not zero"]
    if logged:
        found.append(f"{logged:,} bytes of the log beside it were not looked at: wait until its writer is done")
    with closing(connect(os.fspath(path), readonly=True)) as database:
        (page,) = database.execute("PRAGMA page_size").fetchone()
        (pages,) = database.execute("PRAGMA page_count").fetchone()
    beyond = Path(path).stat().st_size - page * pages
    if beyond > 0 and not logged:  # what is in the log may be beyond the end of the file, not before it
        found.append(f"{beyond:,} bytes after the last page of the file are not its own")
    journal = Path(f"{os.fspath(path)}-journal")
    if journal.exists() and journal.stat().st_size:
        found.append(f"a journal beside it holds {journal.stat().st_size:,} bytes")
    return found


def search(path: str | os.PathLike[str], blocks: Iterable[Floats]) -> Found:
    """Look for encoded rows (n, D) in the bytes of a tracker file and its log.

    Rows are kept unchanged, in double precision, so kept rows can be found, even in pages that are no longer used.
    There, a row that spans two pages which are not adjacent is missed, but nearly all rows of a window are found.
    """
    parts = list(blocks)
    if not parts:
        raise ValueError("there are no rows to look for")
    rows = np.unique(np.concatenate(parts), axis=0)
    # medians and most frequent values are all zeros once encoded, as unused bytes are: finding that row proves nothing
    rows = np.ascontiguousarray(rows[rows.any(axis=1)])
    with Tracker(path, readonly=True) as tracker:
        content = tracker.read()
    originals = {record.digest for record in content.records if record.status == Status.ORIGINAL}
    windows = [np.asarray(a.values) for a in contents(content.state, os.fspath(path)) if a.holds_rows]
    current = {row.tobytes() for window in windows if digest(window) not in originals for row in window}
    found = set().union(*(_occurring(rows, part) for part in [content.state, *_bytes_of(path)]))
    return Found(len(rows), len(found), sum(row in current for row in found))


def _occurring(rows: Floats, content: bytes) -> set[bytes]:
    """Return the rows that occur in the bytes, at any offset: found by their most varied column, compared in full."""
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
    """Return the bytes of a tracker file and its log: as they are, and with the first four bytes of each page removed.

    Content longer than a page goes on in further pages, each of which begins with the number of the next: four bytes.
    """
    raw = Path(path).read_bytes()
    size = int.from_bytes(raw[16:18], "big")
    size = 65536 if size == 1 else size or max(len(raw), 1)  # an empty file has none: all is in its log
    found = [raw, b"".join(raw[k + 4 : k + size] for k in range(0, len(raw), size))]
    log = Path(f"{os.fspath(path)}-wal")
    if log.is_file():
        frames = log.read_bytes()
        pages = range(32 + 24, len(frames), size + 24)  # after the header of the log and that of each page
        found += [frames, b"".join(frames[k + 4 : k + size] for k in pages)]
    return found


def _held(window: StoredArray, run: Run) -> Held:
    original, mark = window.original, digest(np.asarray(window.values))
    assert original is not None
    known = [record for record in run.records if record.digest == mark]
    return Held(
        original=original,
        rows=len(window.values),
        window=known[-1].window if known else None,
        is_original=not known
        or any(record.status == Status.ORIGINAL and record.original == original for record in known),
    )


def _free_pages(path: str | os.PathLike[str]) -> tuple[int, bool]:
    """Count the pages without content, and say whether their bytes that SQLite does not use are zero."""
    with closing(connect(os.fspath(path), readonly=True)) as database:
        (size,) = database.execute("PRAGMA page_size").fetchone()
        (count,) = database.execute("PRAGMA freelist_count").fetchone()
    if not count:
        return 0, True
    data = Path(path).read_bytes()
    return count, _walk_free(data, size)


def _walk_free(data: bytes, size: int) -> bool:
    """Say whether trunk pages of the free list hold only page numbers, even outdated ones, and leaves only zeros."""
    trunk, pages, seen = int.from_bytes(data[32:36], "big"), len(data) // size, set()
    while trunk:
        if trunk > pages or trunk in seen:  # not a list, or one that a writer is just changing
            return False
        seen.add(trunk)
        page = data[(trunk - 1) * size : trunk * size]
        words = [int.from_bytes(page[i : i + 4], "big") for i in range(0, len(page), 4)]
        leaves = words[2 : 2 + words[1]]
        if any(word > pages for word in words) or any(any(data[(n - 1) * size : n * size]) for n in leaves):
            return False
        trunk = words[0]
    return True


def as_json(inspection: Inspection) -> dict[str, Any]:
    """Return what ``inspect --json`` prints."""
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
        "counts": {o.name: None if o.ledger is None else o.ledger.to_dict() for o in inspection.run.originals},
        "held": [vars(held) for held in inspection.held],
        "originals_held": list(inspection.originals_held),
        "skipped_in_a_row": inspection.skipped_in_a_row,
        "free_pages": inspection.free_pages,
        "free_is_zero": inspection.free_is_zero,
        "holdings": [vars(holding) for holding in inspection.proof.holdings],
        "no_row_at_rest": not inspection.proof.problems,
        "problems": list(inspection.proof.problems),
    }
