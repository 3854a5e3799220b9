"""Dashboard: 50 streams of 1,000 windows each. How long the first reading takes, and every answer after it."""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from benchmarks.results import Result
from driftline import Monitor
from driftline.monitor import Record, Run, Tracker
from driftline.monitor._tracker import Progress

if TYPE_CHECKING:
    from driftline.server import Background

STREAMS, WINDOWS, ASKED = 50, 1000, 15


def run(seeds: int) -> Iterator[Result]:
    """Measure a server over files that hold what a real run has written, many times; one seed."""
    from driftline.server import Address, Background  # needs the extra [serve]

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _write(folder)
        began = time.monotonic()
        with Background([folder], Address(port=0), poll=0.2) as server:
            while not server.app.board.streams.ready:
                time.sleep(0.05)
            what = f"{STREAMS} x {WINDOWS:,} windows"
            yield Result(f"{what}: seconds of the first reading", 0, time.monotonic() - began, None)
            yield Result(f"{what}: overview at first, seconds", 0, _seconds(server.url), None)
            slow = [_after_a_window(server, folder, k) for k in range(ASKED)]
            yield Result(f"{what}: overview after a new window, median seconds", 0, statistics.median(slow), 0.3)
            yield Result(f"{what}: overview after a new window, longest of {ASKED}", 0, max(slow), None)
            scraped = [_seconds(f"{server.url}metrics") for _ in range(ASKED)]
            yield Result(f"{what}: /metrics, median seconds", 0, statistics.median(scraped), 0.1)
            listed = [_seconds(f"{server.url}api/streams") for _ in range(ASKED)]
            yield Result(f"{what}: /api/streams, median seconds", 0, statistics.median(listed), None)
            key = next(iter(server.app.board.streams.found))
            yield Result(f"{what}: a stream's page at first, seconds", 0, _seconds(f"{server.url}streams/{key}"), None)
            yield Result(f"{what}: a stream's page again, seconds", 0, _seconds(f"{server.url}streams/{key}"), None)
            yield Result(f"{what}: resident memory, MB", 0, _resident(), None)
            yield from _interactive(server.url, key, what)


def _record() -> tuple[Record, Run]:
    """Return a real Record of ten columns, two of which have moved, and its run."""
    rng = np.random.default_rng(0)

    def rows(moved: float) -> pd.DataFrame:
        numbers = {f"x{k}": rng.normal(moved * (k < 2), 1.0, 2000) for k in range(8)}
        return pd.DataFrame({**numbers, "a": rng.choice(["u", "v"], 2000), "b": rng.choice(["r", "s", "t"], 2000)})

    with Monitor(window=2000) as monitor:
        list(monitor.watch(rows(0.3 * (t > 1)) for t in range(4)))
        return monitor.run.records[-1], monitor.run


def _write(folder: Path) -> None:
    record, run = _record()
    rng, values = np.random.default_rng(1), 0.0
    records = [run.records[0]]
    for window in range(1, WINDOWS):
        values = abs(values + 0.01 * float(rng.normal()))
        drift = replace(record.divergences["reverse_kl"], value=values, low=max(values - 0.02, 0.0), high=values + 0.02)
        divergences = {**record.divergences, "reverse_kl": drift}
        records.append(replace(record, window=window, first_row=2000 * window, divergences=divergences))
    head = {
        "created": run.created,
        "source": "frames",
        "settings": run.settings.to_dict(),
        "encoder": dict(run.encoder),
    }
    first = folder / "stream-00.driftline"
    originals = [original.to_dict() for original in run.originals]
    with Tracker(first) as tracker:
        progress = Progress(windows=WINDOWS, originals=originals, now=run.now)
        tracker.commit(head, records, bytes(200_000), progress)
    for k in range(1, STREAMS):
        shutil.copy(first, folder / f"stream-{k:02d}.driftline")


def _after_a_window(server: Background, folder: Path, k: int) -> float:
    """Commit a window to one of the files, wait until the server has read it, and ask for the overview."""
    version = server.app.board.streams.version
    with Tracker(folder / f"stream-{k:02d}.driftline") as tracker:
        content = tracker.read()
        new = replace(content.records[-1], window=WINDOWS)
        tracker.commit(content.description, [new], content.state, content.progress)
    while server.app.board.streams.version == version:
        time.sleep(0.02)
    return _seconds(server.url)


def _seconds(url: str) -> float:
    began = time.perf_counter()
    with urllib.request.urlopen(url) as answer:
        answer.read()
    return time.perf_counter() - began


def _resident() -> float:
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS")) / 1024.0


def _interactive(url: str, key: str, what: str) -> Iterator[Result]:
    """Measure the time until a browser's page is interactive; nothing without playwright and chromium."""
    browser = shutil.which("chromium")
    if browser is None or find_spec("playwright") is None:
        return
    from playwright.sync_api import sync_playwright

    script = "performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd / 1000"
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox", "--disable-gpu"])
        for name, path in (("overview", ""), ("a stream's page", f"streams/{key}")):
            page = opened.new_page()
            page.goto(f"{url}{path}")
            yield Result(f"{what}: {name} interactive in a browser, seconds", 0, float(page.evaluate(script)), 2.0)
            page.close()
        opened.close()
