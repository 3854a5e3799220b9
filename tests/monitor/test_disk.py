"""Disks that fail or are full, folders that cannot be written to, clocks that jump, many writers, odd names."""

import json
import os
import resource
import shutil
import signal
import sqlite3
import sys
import tempfile
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from driftline.monitor import Monitor, TrackerError, as_json, inspect, read_run
from driftline.monitor._tracker import Tracker
from driftline.sources import SourceError
from tests.damage import in_a_cell


def table(rows):
    """Return the first rows of 600."""
    rng = np.random.default_rng(0)
    whole = pa.table({"amount": rng.normal(size=600), "card": rng.choice(["credit", "debit"], 600)})
    return whole.slice(0, rows)


def watched(path, rows=600, **settings):
    with Monitor(path, **({"window": 200, "model": "linear"} | settings)) as monitor:
        return list(monitor.watch(table(rows), replay=True))


def plain(records):
    return [replace(record, seconds=0.0) for record in records]


def test_a_full_disk_loses_nothing(tmp_path):
    """Pages are counted by SQLite itself, as if the disk had no more."""
    path = tmp_path / "run"
    watched(path, 400)
    with Monitor(path) as monitor:
        database = monitor._tracker._database
        (pages,) = database.execute("PRAGMA page_count").fetchone()
        database.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(
            TrackerError, match=r"run: cannot be used \(database or disk is full\): make room on the disk"
        ):
            monitor._tracker.commit({}, [], bytes(10**6), monitor._progress)
        assert len(monitor.records) == 2
    watched(path)
    assert plain(read_run(path).records) == plain(watched(tmp_path / "whole"))


def _with_small_files(case):
    path, limit = case
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))  # a write beyond it fails, as on a broken disk
    try:
        watched(path)
    except TrackerError as error:
        return str(error)
    return "nothing failed"


def test_writes_that_fail_leave_the_last_window(tmp_path):
    expected = plain(watched(tmp_path / "whole"))
    for limit in (0, 20_000, 60_000, 120_000):
        path = tmp_path / f"run{limit}"
        (said,) = in_a_cell([(path, limit)], _with_small_files)
        assert "nothing has changed since the last committed window" in said or "make room" in said
        watched(path)  # the same call goes on
        assert plain(read_run(path).records) == expected


@pytest.mark.skipif(not os.path.exists("/proc/self/mem"), reason="a file that cannot be read is needed")
def test_reads_that_fail(tmp_path):
    shutil.copy("/proc/self/status", tmp_path / "status")  # others of that folder can
    with pytest.raises(TrackerError, match=r"/proc/self/mem: cannot be used \(disk I/O error\)"):
        read_run("/proc/self/mem")
    with pytest.raises(SourceError, match="Input/output error"), Monitor(tmp_path / "run", window=100) as monitor:
        list(monitor.watch("/proc/self/mem", format="csv"))
    assert watched(tmp_path / "run", 200)  # nothing stands in the way of the next call


class _Failing(sqlite3.Connection):
    """A connection whose commits fail, as if the disk did."""

    def execute(self, statement, *args):
        if statement == "COMMIT" and self.in_transaction and self.total_changes:
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = sqlite3.SQLITE_IOERR_FSYNC
            raise error
        return super().execute(statement, *args)


def test_a_commit_that_cannot_reach_the_disk(tmp_path, monkeypatch):
    path, connect = tmp_path / "run", sqlite3.connect
    watched(path, 400)
    monkeypatch.setattr(sqlite3, "connect", lambda *a, **k: connect(*a, **k, factory=_Failing))
    with pytest.raises(TrackerError, match="the disk failed; nothing has changed since the last committed window"):
        watched(path)
    monkeypatch.undo()
    assert len(read_run(path).records) == 2
    watched(path)
    assert plain(read_run(path).records) == plain(watched(tmp_path / "whole"))


def _as_nobody(folder):
    """Use a folder and a file that this user may read, but not write to."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
    found = {"report": len(read_run(folder / "run").records), "inspect": as_json(inspect(folder / "run"))["records"]}
    with Monitor.open(folder / "run", readonly=True) as monitor:
        found["score"] = len(monitor.weights(table(50)))
    for name in ("run", "new"):
        try:
            watched(folder / name)
        except (TrackerError, OSError) as error:
            found[name] = str(error)
    return found


@pytest.mark.parametrize("killed", [False, True])
def test_a_folder_that_cannot_be_written_to(killed):
    """Readers need nothing else; also not after a kill, which leaves the file in the mode of a writer."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        watched(folder / "run")
        if killed:
            sqlite3.connect(folder / "run").execute("PRAGMA journal_mode = WAL").connection.close()
        for path in folder.iterdir():
            path.chmod(0o444)
        folder.chmod(0o555)
        (found,) = in_a_cell([folder], _as_nobody)
        folder.chmod(0o755)
    assert isinstance(found, dict), found
    assert (found["report"], found["inspect"], found["score"]) == (3, 3, 50)
    for name in ("run", "new"):
        assert "permissions" in found[name] or "writable" in found[name]


def test_clocks_that_jump_back(tmp_path, monkeypatch):
    """Windows are cut by the times of rows, and durations are measured by a clock that does not jump."""
    now = datetime(2026, 1, 1, tzinfo=UTC)

    class Jumping(datetime):
        @classmethod
        def now(cls, _):
            nonlocal now
            now -= timedelta(days=400)
            return now

    monkeypatch.setattr("driftline.monitor._monitor.datetime", Jumping)
    monkeypatch.setattr("time.time", lambda: now.timestamp())
    for rows in (200, 400, 600):
        found = watched(tmp_path / "run", rows)
        assert all(record.seconds >= 0.0 for record in found)
        os.utime(tmp_path / "run", (0, 0))  # and files from before the epoch of anything
    monkeypatch.undo()
    assert read_run(tmp_path / "run").created.startswith("2024-11-27")  # when it was begun, as the clock said
    assert plain(read_run(tmp_path / "run").records) == plain(watched(tmp_path / "whole"))


def test_many_trackers_at_once_in_one_process(tmp_path):
    expected, wrong = plain(watched(tmp_path / "whole")), []

    def work(i):
        for rows in (200, 600):
            watched(tmp_path / f"run{i}", rows)
        if plain(read_run(tmp_path / f"run{i}").records) != expected:
            wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def _one_of_many(path):
    try:
        with Monitor(path, window=200, model="linear") as monitor:
            return f"wrote {len(list(monitor.watch(table(600), replay=True)))}"
    except TrackerError as error:
        return str(error)


def test_many_processes_at_one_tracker(tmp_path):
    """One writes, the others say so and change nothing; together they have written every window once."""
    path, children = tmp_path / "run", []
    for _ in range(6):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            signal.alarm(60)  # a process that hangs fails the test
            os.write(writing, _one_of_many(path).encode())
            os._exit(0)
        os.close(writing)
        children.append((child, reading))
    said = []
    for child, reading in children:
        with os.fdopen(reading, "rb") as pipe:
            said.append(pipe.read().decode())
        os.waitpid(child, 0)
    refused = [line for line in said if not line.startswith("wrote")]
    assert all("another process is writing to it; one writer at a time" in line for line in refused), said
    assert sum(int(line.split()[1]) for line in said if line not in refused) == 3
    assert plain(read_run(path).records) == plain(watched(tmp_path / "whole"))


NAMES = [
    "a b?#%41&=ü.driftline",
    "quote'\"\\",
    "line\nbreak",
    "-dash",
    ":memory:",
    "file:x?mode=ro",
    "\u202eflipped",
    "x" * 240,
]


@pytest.mark.parametrize("name", [*NAMES, os.fsdecode(b"\xff\xfe")] if sys.platform == "linux" else NAMES)
def test_odd_names(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    watched(name, 200)
    watched(name, 400)
    assert len(read_run(name).records) == 2
    found = inspect(name)
    assert found.free_is_zero
    assert json.loads(json.dumps(as_json(found)))["path"] == name
    assert sorted(os.listdir(tmp_path)) == sorted([name, f"{name}.lock"])


def test_an_error_names_the_tracker_whatever_its_name(tmp_path):
    (tmp_path / "a b?#").write_text("not a database" * 99)
    with pytest.raises(TrackerError, match=r"a b\?#: not a driftline tracker file"):
        Tracker(tmp_path / "a b?#")
