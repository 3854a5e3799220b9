"""Proof that no row is at rest in a tracker file: all that is in it is decoded and accounted for, piece by piece.

What a run was set to keep counts for nothing here. The state's arrays must be those that its layout describes, with
their shapes, and none may have an entry for each row. The JSON must have the parts that it should and no others, its
histograms the bins and values of the encoder, its shares as few digits as they are written with. What is not known is
taken for rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from driftline._wording import counted, json_line
from driftline.inference import DIVERGENCES
from driftline.monitor._records import Original, Record, Run, Summaries
from driftline.monitor._tracker import Content
from driftline.recursion import StoredArray
from driftline.tables import Ledger, TableEncoder

__all__ = ["Holding", "Proof", "prove"]

_DESCRIBED = {"created", "source", "settings", "encoder"}
_DIAGNOSTICS = {"overlap", "lag", "mean_ratio", "step_mean_ratio", "new_values", "without_new_values"}
_MANY = 20  # rows that share a value which is kept, at least
_DIGITS = 6  # of numbers in histograms and of values that many rows share
_SHARE = 4  # decimals
_MARK = r"\d+:[0-9a-f]{64}"  # number of bytes and their digest


@dataclass(frozen=True)
class Holding:
    """A kind of content, and its bytes."""

    what: str
    bytes: int


@dataclass(frozen=True)
class Proof:
    """What a tracker file holds, and what of it may be rows.

    Attributes:
        holdings: all bytes of the file, by kind.
        pieces: number of arrays and Records that were decoded.
        problems: what holds rows or was not accounted for, in words; empty if no row is at rest.
    """

    holdings: tuple[Holding, ...]
    pieces: int
    problems: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """Say that there is no row at rest; empty if that is not so."""
        if self.problems:
            return ""
        how = f"all {self.pieces:,} arrays and Records in the file were decoded and accounted for"
        return f"no row at rest: {how}, and none has an entry for a row"


def prove(
    content: Content, run: Run, encoder: TableEncoder, arrays: Sequence[StoredArray], size: int, around: Sequence[str]
) -> Proof:
    """Account for everything in a tracker file.

    Arguments:
        content: its contents, which have been read and checked against their digests.
        run: the run that they describe.
        encoder: its encoder.
        arrays: arrays of the state.
        size: bytes of the file.
        around: what is wrong with bytes beside the contents, such as those of unused pages.
    """
    problems = [
        *_of_state(arrays),
        *_of_description(content.description),
        *_of_cursor(content.progress.cursor),
        *_of_summaries(encoder, "the last window", run.now),
        *(line for original in run.originals for line in _of_original(encoder, original)),
        *(line for record in run.records for line in _of_record(encoder, record)),
        *around,
    ]
    return Proof(_holdings(content, arrays, size), len(arrays) + len(run.records), tuple(problems))


def _of_state(arrays: Sequence[StoredArray]) -> Iterator[str]:
    """Yield what arrays have an entry for each row, and what nobody can look into."""
    for array in arrays:
        rows = counted(len(array.values) if array.by_row else 0, "row")
        if array.holds_rows:
            yield f"{array.name!r} holds {rows} of a window, for {array.original!r}"
        elif array.by_row:
            yield f"{array.name!r} has an entry for each of {rows} of a window, for {array.original!r}"
        elif array.original is None and array.name not in ("t", "layout"):
            yield f"{array.name!r} are weights of a network: what they remember of rows is not known"


def _of_description(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the description of a run holds beside what it must; settings and encoder are strict themselves."""
    yield from (f"the run holds {name!r}, which is unknown" for name in sorted(set(found) - _DESCRIBED))
    if not re.fullmatch(r"[0-9T:.+Z-]{10,40}", str(found["created"])):
        yield "the run holds a time that is none"


def _of_cursor(cursor: Mapping[str, Any] | None) -> Iterator[str]:
    """Yield what a cursor holds instead of digests; its numbers are places, and a time as coarse as windows are."""
    if cursor is None:
        return
    mark = cursor["mark"]
    for digest in (cursor["head"], "" if mark is None else mark["before"]):
        if digest and not re.fullmatch(_MARK, digest):
            yield f"the cursor holds {len(digest)} characters that are not a digest"


def _of_original(encoder: TableEncoder, original: Original) -> Iterator[str]:
    what = f"original {original.name!r}"
    yield from _of_summaries(encoder, what, original.then)
    yield from (f"{what} has {name!r}, which is no column" for name in set(original.constant) - set(encoder.names))
    if original.ledger is not None:
        yield from _of_ledger(encoder, what, original.ledger)


def _of_summaries(encoder: TableEncoder, what: str, found: Summaries) -> Iterator[str]:
    """Yield histograms that are not in the encoder's bins, or whose numbers have more digits than are written."""
    nothing = pa.table({column.name: pa.nulls(0) for column in encoder.columns})
    known = encoder.transform(nothing, summaries=True).summaries
    for name, histogram in found.items():
        if name not in known:
            yield f"{what} has a histogram of {name!r}, which is not watched"
            continue
        wanted = known[name]
        same = all(histogram.get(part) == wanted.get(part) for part in ("kind", "edges", "values"))
        if set(histogram) != set(wanted) or not same or len(histogram["shares"]) != len(wanted["shares"]):
            yield f"{what} has a histogram of {name!r} that is not in the bins of its column"
            continue
        shares = [*histogram["shares"], histogram["missing"], histogram.get("other", 0.0)]
        numbers = [histogram[part] for part in ("mean", "std") if histogram.get(part) is not None]
        if any(v != round(v, _SHARE) for v in shares) or any(v != float(f"{v:.{_DIGITS}g}") for v in numbers):
            yield f"{what} has a histogram of {name!r} with more digits than are kept"


def _of_ledger(encoder: TableEncoder, what: str, ledger: Ledger) -> Iterator[str]:
    """Yield values that too few rows share to be kept, and names that are not those of the encoder."""
    labels = {name for _, coded in encoder.coded(np.zeros((0, len(encoder.names)))) for name in coded.labels}
    for cells in ledger.columns:
        few = [k for k in cells.heaps if cells.counts[k] < _MANY]
        if few or any(atom != float(f"{atom:.{_DIGITS}g}") for atom in cells.atoms):
            yield f"{what} has a value of {cells.column!r} that few rows share"
        if not set(cells.names) <= labels:
            yield f"{what} names values of {cells.column!r} that are not among its frequent ones"


def _of_record(encoder: TableEncoder, record: Record) -> Iterator[str]:
    """Yield what a Record holds beside numbers by divergence and by column, and sentences."""
    what = f"the Record of window {record.window}"
    columns = [*(moved.column for moved in record.columns), *(name for pair in record.pairs for name in pair.columns)]
    if not set(columns) <= {*encoder.groups, *encoder.skipped} or len(set(record.columns)) < len(record.columns):
        yield f"{what} names columns that are unknown"
    if not set(record.divergences) <= set(DIVERGENCES) or not set(record.diagnostics) <= _DIAGNOSTICS:
        yield f"{what} holds numbers that are unknown"
    if record.digest and not re.fullmatch(r"[0-9a-f]{32}", record.digest):
        yield f"{what} holds {len(record.digest)} characters that are not a digest"


def _holdings(content: Content, arrays: Sequence[StoredArray], size: int) -> tuple[Holding, ...]:
    """Split all bytes of the file by kind, in the order of its parts."""
    progress, sizes = vars(content.progress), content.sizes
    encoder, counts = _length(content.description["encoder"]), _length([progress["pools"], _ledgers(content)])
    shown = _length([progress["now"], [{**o, "ledger": None} for o in progress["originals"]]])
    found = [
        Holding("Records: estimates, limits, causes, sentences", sizes["records"]),
        Holding("settings of the run, and its source", sizes["run"] - encoder),
        Holding("encoder: medians, scales, bins, frequent values", encoder),
        Holding("counts of rows in cells", counts),
        Holding("histograms of the columns, constants", shown),
        Holding("cursor, memories of alarms, digests", sizes["progress"] - counts - shown),
    ]
    state: dict[str, int] = {}
    for array in arrays:
        state[array.what] = state.get(array.what, 0) + array.values.nbytes
    found += [Holding(what, number) for what, number in sorted(state.items(), key=lambda item: -item[1])]
    found.append(Holding("names and shapes of these arrays", sizes["state"] - sum(state.values())))
    found.append(Holding("pages of SQLite around all that", size - sum(sizes.values())))
    return tuple(found)


def _ledgers(content: Content) -> list[Any]:
    return [original["ledger"] for original in content.progress.originals]


def _length(value: Any) -> int:
    """Return about how many bytes of JSON a value is."""
    return len(json_line(value, sort_keys=True, finite=False).encode())
