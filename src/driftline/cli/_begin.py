"""How ``driftline watch`` begins: the original it is given, and the length of windows where nobody says it."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from driftline._wording import counted
from driftline.cli._errors import about
from driftline.cli._options import Plan
from driftline.monitor import Monitor, Settings, Tracker, guess_window
from driftline.sources import open_source, read_whole
from driftline.tables import Rows

__all__ = ["Beginning", "beginning"]


class Beginning(NamedTuple):
    """What a run begins with.

    Attributes:
        settings: settings of the run, with a guess at the window if none was given.
        original: rows of the original, if there is a file with them; its path if the run goes on.
        heading: where drift is measured from, in words; empty for a run that goes on.
        remark: where the length of windows comes from, in words; empty if it was given.
    """

    settings: Mapping[str, Any]
    original: Rows | str | None
    heading: str
    remark: str

    def check(self, plan: Plan, monitor: Monitor) -> None:
        """Raise if the file with the original is gone, but the run has not begun from it."""
        if plan.original_file is not None and self.original is None and monitor.encoder is None:
            _read(plan)


def beginning(plan: Plan) -> Beginning:
    """Read the original and guess the window, before a tracker file is created."""
    new = _is_new(plan.tracker)
    original: Rows | str | None = None
    if plan.original_file is not None:
        if new:
            original = _read(plan)
        elif os.path.exists(plan.original_file):  # it may be gone by then, as it should be
            original = plan.original_file  # read with the settings that the run began with
    settings, remark = dict(plan.settings), ""
    if new and plan.unsized:
        source = open_source(plan.source, format=plan.format, nulls=plan.settings.get("null_values", ()))
        with about(plan.source), _quiet():
            guess = guess_window(source, plan.settings, windows=2 if original is None else 1)
        settings["window"], remark = guess.window, f"{guess.sentence}; --window sets it, or --time-column with --every"
    if not new:
        where = ""
    elif not isinstance(original, Rows):
        where = "the first window is the original"
    else:
        where = f"the original is {plan.original_file} ({counted(original.table.num_rows, 'row')})"
    return Beginning(settings, original, where, remark)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep what sources log to themselves: it is said when they are read again."""
    log = logging.getLogger("driftline.sources")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(before)


def _read(plan: Plan) -> Rows:
    path = plan.original_file or ""
    with about(path):
        settings = Settings.uncut(plan.settings) if plan.unsized else Settings.from_dict(plan.settings)
        format = None if Path(path).suffix else plan.format
        return read_whole(path, format, settings.null_values, settings.window_rule().ignores)


def _is_new(tracker: str | None) -> bool:
    """Say whether a run begins: there is no tracker file, or one without a window."""
    if tracker is None or not os.path.exists(tracker):
        return True
    with Tracker(tracker) as opened:
        return opened.empty
