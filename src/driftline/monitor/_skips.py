"""Windows skipped in a row: how many, and what is said about them, since the rows before them stay meanwhile."""

from __future__ import annotations

from collections.abc import Iterable

from driftline.inference import DoubtCode
from driftline.monitor._record_parts import Status
from driftline.monitor._records import Record

__all__ = ["LOST", "after_skips", "skipped_in_a_row", "unmeasured", "while_skipped"]

LOST = 2  # windows in a row with rows that were not measured: one may be a holiday, after more nothing is known of now


def skipped_in_a_row(records: Iterable[Record]) -> int:
    """Return the number of windows at the end of a run that were skipped."""
    skipped: set[int] = set()
    for record in records:
        if record.status == Status.SKIPPED:
            skipped.add(record.window)
        elif record.status == Status.MEASURED or record.window == 0:
            skipped.clear()
    return len(skipped)


def unmeasured(records: Iterable[Record]) -> tuple[Record, ...]:
    """Return the windows at the end of a run that had rows of which nothing was measured, a Record each.

    Windows without rows are not among them, since there was nothing to measure, unless a doubt says that rows were left
    out instead.
    """
    found: dict[int, Record] = {}
    for record in records:
        if record.status == Status.MEASURED or record.window == 0:
            found.clear()
        elif record.status == Status.SKIPPED and (record.rows or _doubted(record)):
            found[record.window] = record
    return tuple(found.values())


def _doubted(record: Record) -> bool:
    return any(doubt.code == DoubtCode.NOT_MEASURED for doubt in record.doubts)


def while_skipped(before: int) -> list[str]:
    """Note, once, that windows are being skipped one after another; ``before`` were before this one."""
    if before != 1:
        return []
    stay = "the rows that the next step starts from stay until a window is measured, if none has been the original's"
    return [f"2 windows in a row have been skipped, and nothing is measured meanwhile: {stay}"]


def after_skips(before: int) -> list[str]:
    """Count the windows that were skipped before one that could be measured."""
    return [f"{before} windows in a row before this one were skipped"] if before > 1 else []
