"""Coverage: what became of the rows that one call of ``watch`` has read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from driftline.monitor._record_parts import Status
from driftline.monitor._records import Record
from driftline.sources import LeftOut, Rest, Window

__all__ = ["Coverage"]


@dataclass(frozen=True)
class Coverage:
    """What became of the rows of one call: a call that left most of them out has not looked at the data.

    Attributes:
        measured: rows in windows that were measured, or that an original was made of.
        compared: number of windows that were measured.
        skipped: rows in windows of which nothing was measured, such as those with too few rows.
        left_out: rows in no window: late, without a readable time, or with one far ahead of the others.
        waiting: rows of unfinished windows, also those that an earlier call has read.
        largest: rows of the largest of these windows, if they are cut by time.
        remark: what people should know of the rows that wait; usually empty.
    """

    measured: int = 0
    compared: int = 0
    skipped: int = 0
    left_out: LeftOut = field(default_factory=LeftOut)
    waiting: int = 0
    largest: int = 0
    remark: str = ""

    def after(self, window: Window, records: Sequence[Record]) -> Coverage:
        """Return the coverage after one more window and its Records; none if it was passed over."""
        rows, left = window.table.num_rows, self.left_out + window.left_out
        if not records or records[0].status == Status.SKIPPED:
            return replace(self, skipped=self.skipped + rows, left_out=left)
        compared = self.compared + (records[0].status == Status.MEASURED)
        return replace(self, measured=self.measured + rows, compared=compared, left_out=left)

    def at_end(self, rest: Rest) -> Coverage:
        """Return the coverage with the rows that are in no window yet."""
        left = self.left_out + rest.left_out
        return replace(self, left_out=left, waiting=rest.waiting, largest=rest.largest, remark=rest.remark)

    @property
    def lost(self) -> int:
        """Number of rows that were read but never will be measured."""
        return self.skipped + self.left_out.total

    @property
    def blind(self) -> bool:
        """True if more rows were lost than measured or waiting, or if windows had rows but none was measured."""
        return self.lost > self.measured + self.waiting or (self.skipped > 0 and self.measured == 0)
