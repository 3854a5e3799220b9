"""For notebooks: a monitor as a page, without naming its run."""

from __future__ import annotations

import os

from driftline.monitor import Monitor, Run
from driftline.report._page import write_report

__all__ = ["run_of", "write"]


def write(monitor: Monitor | Run, path: str | os.PathLike[str], original: str | None = None) -> None:
    """Write what a monitor has seen as one HTML file that opens offline; the same as :func:`write_report` of its run.

    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write(Monitor(window=500), f"{folder}/report.html")
    ...     print("nothing to compare" in Path(folder, "report.html").read_text())
    True
    """
    write_report(path, run_of(monitor), original)


def run_of(monitor: Monitor | Run) -> Run:
    """Return the run of a monitor; a run is returned as it is."""
    return monitor.run if isinstance(monitor, Monitor) else monitor
