"""Tracker files that others have altered: nothing in them is run, nothing is built from them, nothing is changed."""

import json
import os
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from driftline import StateFileError
from driftline.files import unpack
from driftline.monitor import Monitor, TrackerError, as_json, inspect, read_run
from driftline.monitor._inspection import _walk_free
from driftline.monitor._sqlite import connect
from driftline.monitor._tracker import Tracker, _digest
from driftline.recursion import FORMAT, VERSION
from driftline.report import render
from tests.damage import altered, damaged, in_a_cell


def table(rng, rows):
    return pa.table({"amount": rng.normal(size=rows), "card": rng.choice(["credit", "debit"], rows)})


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """A tracker file of three windows."""
    path, rng = tmp_path_factory.mktemp("good") / "run", np.random.default_rng(0)
    with Monitor(path, window=200, model="linear") as monitor:
        assert len(list(monitor.watch(table(rng, 600)))) == 3
    return path


def more(path):
    """Watch one window more."""
    with Monitor(path) as monitor:
        return list(monitor.watch(table(np.random.default_rng(1), 200)))


def planted(path, *statements):
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        for statement in statements:
            database.execute(statement)


_SCHEMA = "PRAGMA writable_schema = ON"
_ANEW = "UPDATE sqlite_master SET sql = replace(sql, 'digest TEXT NOT NULL', '{}') WHERE name = 'records'"
PLANTS = {
    "trigger": ["CREATE TRIGGER boom AFTER INSERT ON records BEGIN DELETE FROM records; DELETE FROM parts; END"],
    "update": ["CREATE TRIGGER boom AFTER UPDATE ON parts BEGIN UPDATE records SET record = ''; END"],
    "view": ["CREATE VIEW boom AS SELECT * FROM records"],
    "instead": ["ALTER TABLE records RENAME TO other", "CREATE VIEW records AS SELECT * FROM other"],
    "index": ["CREATE INDEX boom ON records (digest)"],
    "table": ["CREATE TABLE boom (x)"],
    "statistics": ["ANALYZE"],
    "column": ["ALTER TABLE records ADD COLUMN boom TEXT"],
    "generated": ["ALTER TABLE records ADD COLUMN boom TEXT GENERATED ALWAYS AS (zeroblob(900000000)) VIRTUAL"],
    "default": [_SCHEMA, _ANEW.format("digest TEXT NOT NULL DEFAULT (randomblob(9))")],
    "check": [_SCHEMA, _ANEW.format("digest TEXT NOT NULL CHECK (length(zeroblob(900000000)) < 0)")],
    "collation": [_SCHEMA, _ANEW.format("digest TEXT NOT NULL COLLATE NOCASE")],
}


@pytest.mark.parametrize("plant", PLANTS)
def test_a_schema_that_is_not_exactly_ours_is_refused(plant, good, tmp_path):
    path = tmp_path / "run"
    shutil.copy(good, path)
    planted(path, *PLANTS[plant])
    before = path.read_bytes()
    for use in (more, read_run, inspect, lambda p: Monitor.open(p, readonly=True)):
        with pytest.raises(TrackerError, match=r"altered by others, it.*take a copy from before that"):
            use(path)
    assert path.read_bytes() == before


def test_what_was_added_is_named(good, tmp_path):
    shutil.copy(good, tmp_path / "run")
    planted(tmp_path / "run", *PLANTS["trigger"], "CREATE TABLE a (x)", "CREATE TABLE b (x)", "CREATE TABLE c (x)")
    with pytest.raises(
        TrackerError, match=r"the table 'a', table 'b', table 'c' and 1 more \(nothing of that was run\)"
    ):
        read_run(tmp_path / "run")


def test_a_trigger_that_comes_later_is_not_run(good, tmp_path):
    """It may be planted between two commits of a writer, who has looked at the schema already."""
    path, rng = tmp_path / "run", np.random.default_rng(1)
    shutil.copy(good, path)
    with Monitor(path) as monitor:
        assert len(list(monitor.watch(table(rng, 200)))) == 1
        planted(path, *PLANTS["trigger"])
        with pytest.raises(TrackerError, match="others have put a trigger or view into it, which is never run"):
            list(monitor.watch(table(rng, 200)))
    planted(path, "DROP TRIGGER boom")
    assert len(read_run(path).records) == 4  # the last window did not destroy what was there
    assert len(more(path)) == 1


def test_connections_trust_nothing(tmp_path, good):
    for readonly in (False, True):
        with closing(connect(str(good), readonly)) as database:
            for pragma, value in (("trusted_schema", 0), ("cell_size_check", 1), ("mmap_size", 0)):
                assert database.execute(f"PRAGMA {pragma}").fetchone() in ((value,), None)  # None: not compiled in
    with closing(connect(str(tmp_path / "other"), False)) as database:
        database.execute("CREATE TABLE a (x)")
        database.execute("CREATE VIEW v AS SELECT x FROM a")
        with pytest.raises(sqlite3.DatabaseError, match=r"prohibited|not authorized"):
            database.execute("SELECT * FROM v").fetchall()


@pytest.mark.parametrize("mode", ["DELETE", "WAL"])
def test_databases_of_others_are_left_as_they_are(mode, tmp_path):
    path = tmp_path / "other.db"
    planted(path, f"PRAGMA journal_mode = {mode}", "CREATE VIEW v AS SELECT 1")  # not even a table
    before = path.read_bytes()
    for use in (lambda p: Monitor(p, window=100), read_run):
        with pytest.raises(TrackerError, match="a database, but not a driftline tracker file"):
            use(path)
    assert path.read_bytes() == before


def test_readers_leave_nothing_beside_the_file(good, tmp_path):
    shutil.copy(good, tmp_path / "run")
    before = (tmp_path / "run").read_bytes()
    inspect(tmp_path / "run")
    read_run(tmp_path / "run")
    Monitor.open(tmp_path / "run", readonly=True).close()
    assert os.listdir(tmp_path) == ["run"]
    assert (tmp_path / "run").read_bytes() == before


def test_devices_pipes_and_foreign_locks(good, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/null"):
        for use in (lambda p: Monitor(p, window=100), read_run):
            with pytest.raises(TrackerError, match="a device or a pipe, not a file"):
                use(path)
    shutil.copy(good, tmp_path / "run")
    (tmp_path / "run.lock").write_text("this is my lock, and not one of yours" * 30)
    with pytest.raises(TrackerError, match=r"run\.lock: not the lock of a tracker file: move it away"):
        more(tmp_path / "run")
    assert len(read_run(tmp_path / "run").records) == 3


def test_a_free_list_that_bites_its_tail_ends():
    page = 512
    data = bytearray(3 * page)
    data[32:36] = (2).to_bytes(4, "big")
    assert _walk_free(bytes(data), page)
    data[page : page + 4] = (2).to_bytes(4, "big")  # the next trunk is the same
    assert not _walk_free(bytes(data), page)
    data[page : page + 4] = (9).to_bytes(4, "big")  # beyond the end
    assert not _walk_free(bytes(data), page)


def rewritten(good, path, run, progress, lines, state):
    """Write a tracker file whose digests are right, whatever its content is."""
    shutil.copy(good, path)
    chain, rows = "", []
    for place, line in enumerate(lines):
        chain = _digest(chain.encode(), line.encode())
        rows.append((place, line, chain))
    marks = {"chain": chain, "state": _digest(state), "run": _digest(run)}
    progress |= {name: mark for name, mark in marks.items() if isinstance(progress.get(name), str)}
    with closing(sqlite3.connect(path)) as database:
        database.execute("DELETE FROM records")
        database.executemany("INSERT INTO records VALUES (?, ?, ?)", rows)
        for name, part in (("run", run), ("progress", json.dumps(progress).encode()), ("state", state)):
            content = (part, _digest(part), name)
            database.execute("UPDATE parts SET content = ?, digest = ? WHERE name = ?", content)
        database.commit()


def damaged_tracker(good, path, rng):
    """Write a tracker file with one or two damages to its content, and return what they are."""
    with Tracker(good, readonly=True) as tracker:
        content, parts = tracker.read(), tracker._parts()
    run, progress = json.loads(parts["run"]), json.loads(parts["progress"])
    lines, state, said = [record.to_json() for record in content.records], content.state, []
    for way in rng.choice(["run", "progress", "record", "state"], rng.integers(1, 3), replace=False):
        if way == "run":
            run, what = altered(run, rng)
        elif way == "progress":
            progress, what = altered(progress, rng)
        elif way == "record":
            at = int(rng.integers(len(lines)))
            changed, what = altered(json.loads(lines[at]), rng)
            lines[at] = json.dumps(changed)
        else:
            state, what = damaged(state, *unpack(state, FORMAT, VERSION, "state"), rng)
        said.append(f"{way}: {what}")
    rewritten(good, path, json.dumps(run).encode(), progress, lines, state)
    return "; ".join(said)


def attempt(case):
    """Use a damaged tracker file in every way; return what was neither fine nor refused."""
    good, folder, seed = case
    path, wrong = folder / f"run{seed}", []
    said = damaged_tracker(good, path, np.random.default_rng([5, seed]))
    uses = {
        "report": lambda: render(read_run(path)),
        "inspect": lambda: as_json(inspect(path)),
        "score": lambda: Monitor.open(path, readonly=True).score(table(np.random.default_rng(2), 50)),
        "watch": lambda: more(path),
    }
    for name, use in uses.items():
        before = path.read_bytes()
        try:
            use()
        except (TrackerError, StateFileError):
            assert name == "watch" or path.read_bytes() == before  # a writer has begun its log
        except Exception as error:
            wrong.append((said, name, f"{type(error).__name__}: {error}"))
    return wrong


def fuzzed(good, folder, seeds):
    found = in_a_cell([(good, folder, seed) for seed in seeds], attempt, seconds=60)
    assert [wrong for wrong in found if wrong] == []


def test_damage_with_right_digests_is_refused_or_harmless(good, tmp_path):
    fuzzed(good, tmp_path, range(25))


@pytest.mark.slow
def test_more_damage_with_right_digests_is_refused_or_harmless(good, tmp_path):
    fuzzed(good, tmp_path, range(100, 1100))


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("originals", [{"name": "original"}], "window=None of an original is not a count"),
        ("originals", 3, "originals are not a list"),
        ("now", {"amount": {"kind": "numeric", "shares": [[1.0]]}}, "histogram of 'amount' does not hold numbers"),
        ("now", {"amount": {"kind": "numeric", "edges": [0.0], "shares": [1.0]}}, "has 1 shares"),
        ("alarms", {"original": 3}, "alarms are not objects"),
        ("windows", 1e30, "windows=1e[+]30 is not a count"),
    ],
)
def test_what_the_progress_must_be(part, value, message, good, tmp_path):
    with Tracker(good, readonly=True) as tracker:
        content, parts = tracker.read(), tracker._parts()
    progress = {**json.loads(parts["progress"]), part: value}
    lines = [record.to_json() for record in content.records]
    rewritten(good, tmp_path / "run", parts["run"], progress, lines, content.state)
    with pytest.raises(TrackerError, match=f"damaged.*{message}"):
        read_run(tmp_path / "run")


def test_records_nested_without_end_are_refused(good, tmp_path):
    with Tracker(good, readonly=True) as tracker:
        content, parts = tracker.read(), tracker._parts()
    line = replace(content.records[0], notes=("DEEP",)).to_json().replace('"DEEP"', "[" * 50_000 + "]" * 50_000)
    lines = [line, *(record.to_json() for record in content.records[1:])]
    rewritten(good, tmp_path / "run", parts["run"], json.loads(parts["progress"]), lines, content.state)
    with pytest.raises(TrackerError, match="damaged"):
        read_run(tmp_path / "run")
