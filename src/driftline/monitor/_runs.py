"""Run: what a tracker file tells a reader, as one frozen value. Reports, pages and tables are made from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from driftline.monitor._records import Record
from driftline.monitor._settings import Settings

__all__ = ["Reference", "Run"]

Summaries = Mapping[str, Mapping[str, Any]]  # column -> its histogram, as `features.summaries` describes it


@dataclass(frozen=True)
class Reference:
    """One original: when it joined and, if the run keeps summaries, what its columns looked like then.

    Attributes:
        window, joined: the window it joined with, and that window's end; None if it has no time.
        rows: rows it had.
        then: histograms of its columns; empty without summaries.
        constant: encoded columns that had one value only, and that value.
    """

    name: str
    window: int
    rows: int
    joined: str | None
    then: Summaries
    constant: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Run:
    """A run as far as its tracker file has it.

    Attributes:
        path: of the tracker file.
        created: ISO 8601.
        settings: of the run.
        source: what was watched, in words.
        encoder: the frozen table encoder as JSON has it.
        records: of all windows, in order; of one window, in the order of the originals.
        references: the originals, in the order they joined.
        now: histograms of the last measured window, in the same bins as ``then``; empty without summaries.
    """

    path: str
    created: str
    settings: Settings
    source: str
    encoder: Mapping[str, Any]
    records: tuple[Record, ...]
    references: tuple[Reference, ...]
    now: Summaries

    def of(self, original: str) -> list[Record]:
        """The Records of one original, in order."""
        return [record for record in self.records if record.original == original]
