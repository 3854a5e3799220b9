"""Runs of the monitor that are killed: the tables they watch, the ways they die, and what they have left at the end."""

import multiprocessing
import os
import resource
import signal
import sqlite3
from functools import partial

import numpy as np
import polars as pl
import pyarrow.parquet as pq

from driftline import Monitor
from driftline.monitor._tracker import Tracker


def frame(rng, rows=500, shift=0.0, share=0.3, **more):
    return pl.DataFrame(
        {
            "amount": rng.normal(shift, 1.0, rows),
            "income": rng.lognormal(0.0, 1.0, rows),
            "card": rng.choice(["credit", "debit"], rows, p=[share, 1 - share]),
            "new": rng.random(rows) < 0.2,
            **{name: make(rows) for name, make in more.items()},
        }
    )


def rows_csv(tmp_path, rng, windows):
    pl.concat([frame(rng, 400, shift=0.03 * t) for t in range(windows)]).write_csv(tmp_path / "rows.csv")
    return tmp_path / "rows.csv", {"window": 400}


def days_parquet(tmp_path, rng, windows):
    """Write days in several files, rows of a day out of order, some of them late, one day empty."""
    hours = np.sort(rng.uniform(0, 24 * windows, 400 * windows)) + rng.exponential(0.5, 400 * windows)
    hours = hours[(hours < 24 * 5) | (hours > 24 * 6)]
    table = frame(rng, len(hours)).with_columns(
        ts=pl.Series(np.datetime64("2026-01-01") + (hours * 3.6e9).astype("timedelta64[us]"))
    )
    (tmp_path / "days").mkdir()
    for i, start in enumerate(range(0, len(table), 1700)):
        pq.write_table(table[start : start + 1700].to_arrow(), tmp_path / "days" / f"part-{i}.parquet")
    return tmp_path / "days", {"time_column": "ts", "every": "1d", "lateness": "1h"}


def watched(path, source, **settings):
    with Monitor(path, **settings) as monitor:
        return list(monitor.watch(source))


class _Mortal(sqlite3.Connection):
    """A connection whose process dies at a chosen statement, in one of three ways.

    Only SQLite changes the disk, so a kill at any other moment has the effect of a kill before the next statement.
    """

    statements, way, amount = 0, "", 0  # statements before death, its way, and the size of that

    def _live(self):
        if _Mortal.statements > 0:
            _Mortal.statements -= 1
        elif self.way == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        elif self.way == "within":  # after ``amount`` of SQLite's own instructions
            self.set_progress_handler(lambda: os.kill(os.getpid(), signal.SIGKILL), self.amount)
        else:  # in the middle of a write that makes a file longer than ``amount`` bytes
            resource.setrlimit(resource.RLIMIT_FSIZE, (self.amount, self.amount))

    def execute(self, *args):
        self._live()
        return super().execute(*args)

    def executemany(self, *args):
        self._live()
        return super().executemany(*args)


def _watch_and_die(path, source, settings, death):
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # Python would ignore it
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # temporary files, were there any, in a place that can be looked at
    os.environ["TMPDIR"] = os.environ["SQLITE_TMPDIR"] = str(path.parent / "temporary")
    _Mortal.statements, _Mortal.way, _Mortal.amount = death
    sqlite3.connect = partial(sqlite3.connect, factory=_Mortal)
    watched(path, source, **settings)


def _deaths(kills, seed):
    """Yield statements, ways and amounts: opening takes 13 to 20 statements, a window 8, in a run of 4 or fewer."""
    rng = np.random.default_rng(seed)
    for kill in range(kills):
        way = ("write", "within", "before")[kill % 3]
        amount = rng.integers(1, 20) if way == "within" else rng.integers(32_768, 100_000)
        yield int(rng.integers(45)), way, int(amount)


def killed_often(tmp_path, source, settings, kills, seed, look=None):
    """Return Records and state after these kills and a last run to the end, and the signals that killed.

    ``look`` is called after each kill, with the path of the tracker file.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["driftline.monitor._monitor", "jsonschema", "pandas", "polars", "pyarrow.parquet", "pytest"]
    )
    (tmp_path / "temporary").mkdir()
    signals, path = [], tmp_path / "killed"
    for death in _deaths(kills, seed):
        process = context.Process(target=_watch_and_die, args=(path, source, settings, death))
        process.start()
        process.join()
        signals.append(-process.exitcode)
        if look is not None:
            look(path)
    watched(path, source, **settings)
    with Tracker(path, readonly=True) as tracker:
        return tracker.records(), tracker.read().state, signals
