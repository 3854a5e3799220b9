"""The tracker file: all or nothing, one writer, readers at any time, no damage accepted, nothing left behind."""

import json
import math
import multiprocessing
import os
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from driftline.alarms import Cause, Signal
from driftline.inference import Estimate
from driftline.monitor import Marginal, Moved, MovedPair, Record, Settings, Status, Without, read_run
from driftline.monitor._record_parts import RecordError
from driftline.monitor._schema import VERSION
from driftline.monitor._sqlite import TrackerError, in_words, lock
from driftline.monitor._tracker import Progress, Tracker
from tests.schema import validate

RUN = {"created": "2026-01-01", "source": "a.csv", "settings": Settings(window=100).to_dict(), "encoder": {}}


def record(window, **parts):
    drift = Estimate(0.1 * window, 0.01, 0.0, 0.2, 0.95)
    return Record(
        window=window,
        original="original",
        status=Status.MEASURED,
        rows=100,
        first_row=100 * window,
        divergences={"reverse_kl": drift},
        step=drift,
        columns=(Moved("age", drift, 1e-6, "median from 3 to 4"),),
        pairs=(MovedPair(("age", "pay"), 0.1, 1e-5, "rank correlation from 0.10 to 0.30"),),
        marginals={"age": Marginal(0.1, 1e-6, 0.02, 0.0)},
        unexplained=0.05,
        without=Without("age", 0.01, new=False),
        notes=("late",),
        causes=(Cause.ABOVE_LIMIT, Cause.ABRUPT_STEP),
        **parts,
    )


def filled(path, windows=3, size=20_000):
    rng = np.random.default_rng(0)
    with Tracker(path) as tracker:
        progress = Progress()
        for t in range(windows):
            state = rng.bytes(size)
            progress = tracker.commit(RUN, [record(t)], state, replace(progress, windows=t + 1))
    return state, progress


def test_what_is_committed_is_read(tmp_path):
    state, progress = filled(tmp_path / "run")
    with Tracker(tmp_path / "run", readonly=True) as tracker:
        assert tracker.read().state == state
        assert tracker.read().progress == progress
        assert tracker.records() == tuple(record(t) for t in range(3))
        assert tracker.run().settings == Settings(window=100)
    assert sorted(os.listdir(tmp_path)) == ["run", "run.lock"]  # the log is gone once the writer is


def test_a_failed_commit_changes_nothing(tmp_path):
    state, progress = filled(tmp_path / "run")
    with Tracker(tmp_path / "run") as tracker:
        with pytest.raises(TrackerError):
            tracker.commit(RUN, [record(3)], b"new", replace(progress, records=1))  # its place is taken
        assert tracker.read().state == state
        assert tracker.read().progress == progress


def test_one_writer_and_readers_at_any_time(tmp_path):
    _, progress = filled(tmp_path / "run")
    with Tracker(tmp_path / "run") as tracker:
        with pytest.raises(TrackerError, match="another process is writing"):
            Tracker(tmp_path / "run")
        reader = Tracker(tmp_path / "run", readonly=True)
        assert len(reader.records()) == 3
        reader._database.execute("BEGIN")
        reader._database.execute("SELECT * FROM records").fetchone()  # a reader in the middle of something
        tracker.commit(RUN, [record(3)], b"new", progress)
        assert len(read_run(tmp_path / "run").records) == 4
        reader.close()
    Tracker(tmp_path / "run").close()  # the lock has ended with its holder


def _hold(path, channel):
    with Tracker(path):
        channel.send("ready")
        channel.recv()  # nothing comes


def test_the_lock_of_another_process(tmp_path):
    filled(tmp_path / "run")
    context = multiprocessing.get_context("spawn")
    channel, other = context.Pipe()
    process = context.Process(target=_hold, args=(tmp_path / "run", other))
    process.start()
    other.close()  # so that recv fails if the process ends too early
    assert channel.recv() == "ready"
    with pytest.raises(TrackerError, match="another process"):
        Tracker(tmp_path / "run")
    process.kill()
    process.join()
    Tracker(tmp_path / "run").close()


@pytest.mark.parametrize("then", [b"small", bytes(64) * 400, bytes(64) * 900], ids=["smaller", "as large", "larger"])
def test_what_is_overwritten_is_gone(tmp_path, then):
    secret = os.urandom(64) * 400
    with Tracker(tmp_path / "run") as tracker:
        progress = tracker.commit(RUN, [record(0)], secret, Progress())
        raw = b"".join((tmp_path / name).read_bytes() for name in os.listdir(tmp_path))
        assert secret[:64] in raw  # the search would find it
        tracker.commit(RUN, [record(1)], then, progress)
        raw = b"".join((tmp_path / name).read_bytes() for name in os.listdir(tmp_path))
        assert secret[:64] not in raw


def test_writers_zero_what_they_delete_and_wait_for_the_disk(tmp_path):
    """Some builds of SQLite have these defaults, and others do not."""
    with Tracker(tmp_path / "run") as tracker:
        assert tracker._database.execute("PRAGMA secure_delete").fetchone() == (1,)
        assert tracker._database.execute("PRAGMA synchronous").fetchone() == (2,)
        assert tracker._database.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_readers_are_not_waited_for(tmp_path):
    _, progress = filled(tmp_path / "run")
    with Tracker(tmp_path / "run") as tracker, Tracker(tmp_path / "run", readonly=True) as reader:
        reader._database.execute("BEGIN")
        reader._database.execute("SELECT * FROM records").fetchone()
        statements = []
        tracker._database.set_trace_callback(statements.append)
        progress = tracker.commit(RUN, [record(3)], b"new", progress)
        assert (tmp_path / "run-wal").stat().st_size > 0  # the reader stands in the way of emptying it
        before = statements[: statements.index("PRAGMA wal_checkpoint(TRUNCATE)")]
        assert [s for s in before if "busy_timeout" in s] == ["PRAGMA busy_timeout = 0"]  # milliseconds it waits
        reader._database.execute("COMMIT")
        tracker.commit(RUN, [record(4)], b"newer", progress)
        assert (tmp_path / "run-wal").stat().st_size == 0


def test_a_kill_between_commit_and_emptying_the_log_leaves_nothing_behind(tmp_path, monkeypatch):
    secret = os.urandom(64) * 400
    with Tracker(tmp_path / "run") as tracker:
        progress = tracker.commit(RUN, [record(0)], secret, Progress())
        monkeypatch.setattr("driftline.monitor._tracker.empty_log", lambda database: None)
        tracker.commit(RUN, [record(1)], b"small", progress)
        for name in ("run", "run-wal"):
            shutil.copy(tmp_path / name, tmp_path / f"killed{name[3:]}")
    monkeypatch.undo()
    assert secret[:64] in (tmp_path / "killed").read_bytes()
    with Tracker(tmp_path / "killed") as tracker:
        assert tracker.read().state == b"small"
    assert secret[:64] not in b"".join(p.read_bytes() for p in tmp_path.glob("killed*"))


def test_a_file_that_is_gone_is_noticed(tmp_path):
    _, progress = filled(tmp_path / "run")
    with Tracker(tmp_path / "run") as tracker:
        (tmp_path / "run").unlink()
        with pytest.raises(TrackerError, match="deleted or replaced"):
            tracker.commit(RUN, [record(3)], b"new", progress)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda path: path.write_text("hello, this is a text and not a database at all" * 30),
            "not a driftline tracker",
        ),
        (lambda path: path.mkdir(), "directory"),
        (lambda path: sqlite3.connect(path).execute("CREATE TABLE t (x)").connection.close(), "not a driftline"),
    ],
)
def test_foreign_files_are_refused_and_left_alone(make, message, tmp_path):
    make(tmp_path / "run")
    before = (tmp_path / "run").read_bytes() if (tmp_path / "run").is_file() else None
    for readonly in (False, True):
        with pytest.raises(TrackerError, match=message):
            Tracker(tmp_path / "run", readonly=readonly)
    assert before is None or (tmp_path / "run").read_bytes() == before


@pytest.mark.parametrize(("version", "remedy"), [(1, "begin another file"), (VERSION + 1, "update driftline")])
def test_other_versions_are_refused_with_a_remedy(tmp_path, version, remedy):
    filled(tmp_path / "run")
    with sqlite3.connect(tmp_path / "run") as database:
        database.execute(f"PRAGMA user_version = {version}")
    with pytest.raises(
        TrackerError, match=f"written as version {version}, this driftline reads version {VERSION}: {remedy}"
    ):
        read_run(tmp_path / "run")


def error_of(statement, path=":memory:"):
    # SQLite would wait five seconds for a lock
    with closing(sqlite3.connect(path, timeout=0.0)) as database, pytest.raises(sqlite3.Error) as caught:
        database.execute(statement).fetchall()
    return caught.value


def test_errors_of_sqlite_are_told_by_their_codes(tmp_path):
    """Messages may say anything, such as the name of a file."""
    (tmp_path / "text").write_text("no database at all" * 100)
    assert in_words(error_of("SELECT * FROM parts", tmp_path / "text")) == "not a driftline tracker file"
    assert in_words(error_of("SELECT * FROM parts")) == "damaged (no such table: parts)"
    assert in_words(sqlite3.OperationalError("no such luck: locked")) == "cannot be used (no such luck: locked)"
    filled(tmp_path / "run")
    data = bytearray((tmp_path / "run").read_bytes())
    data[16384:] = bytes(len(data) - 16384)
    (tmp_path / "run").write_bytes(data)
    assert in_words(error_of("SELECT * FROM parts", tmp_path / "run")).startswith("damaged (")
    with closing(lock(str(tmp_path / "locked"))):
        with pytest.raises(TrackerError, match="another process is writing"):
            lock(str(tmp_path / "locked"))
        busy = error_of("SELECT * FROM parts", tmp_path / "locked.lock")
    assert in_words(busy).startswith("cannot be used (")
    (tmp_path / "folder.lock").mkdir()
    with pytest.raises(sqlite3.OperationalError, match="unable to open"):
        lock(str(tmp_path / "folder"))


def test_missing_files(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such"):
        read_run(tmp_path / "nothing")
    with pytest.raises(FileNotFoundError, match="folder"):
        Tracker(tmp_path / "no" / "run")


def test_an_empty_file_is_a_new_one(tmp_path):
    (tmp_path / "run").touch()
    with Tracker(tmp_path / "run") as tracker:
        assert tracker.empty


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE records SET record = replace(record, '0.95', '0.90') WHERE place = 1",
        "DELETE FROM records WHERE place = 1",
        "DELETE FROM records WHERE place = 2",
        "UPDATE records SET place = 9 WHERE place = 2",
        "UPDATE parts SET content = x'00' WHERE name = 'state'",
        "DELETE FROM parts WHERE name = 'progress'",
        "UPDATE parts SET content = 'text'",
        "DROP TABLE records",
        "ALTER TABLE parts RENAME COLUMN content TO other",
    ],
)
def test_altered_content_is_refused(statement, tmp_path):
    filled(tmp_path / "run")
    database = sqlite3.connect(tmp_path / "run")
    database.execute(statement)
    database.commit()
    database.close()
    with pytest.raises(TrackerError):
        read_run(tmp_path / "run")


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    folder = tmp_path_factory.mktemp("good")
    filled(folder / "run", size=6000)
    return folder / "run"


@given(data=st.data())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_damage_is_noticed_or_harmless(good, tmp_path, data):
    expected, raw = read_run(good), bytearray(good.read_bytes())
    if data.draw(st.booleans()):
        raw = raw[: data.draw(st.integers(0, len(raw) - 1))]
    else:
        for _ in range(data.draw(st.integers(1, 8))):
            raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path / "damaged"
    for name in ("damaged", "damaged-wal", "damaged-shm", "damaged.lock"):
        (tmp_path / name).unlink(missing_ok=True)
    path.write_bytes(raw)
    try:
        found = read_run(path)
        with Tracker(path) as tracker:
            assert tracker.run() == found
    except TrackerError:
        return
    assert replace(found, path=expected.path) == expected


def test_a_log_left_by_a_kill_is_taken_up(tmp_path):
    _, progress = filled(tmp_path / "run")
    tracker = Tracker(tmp_path / "run")
    reader = Tracker(tmp_path / "run", readonly=True)
    reader._database.execute("BEGIN")
    reader._database.execute("SELECT * FROM records").fetchone()  # keeps the log from being emptied
    tracker.commit(RUN, [record(3)], b"new", progress)
    for name in ("run", "run-wal"):
        shutil.copy(tmp_path / name, tmp_path / f"copy{name[3:]}")
    reader.close()
    tracker.close()
    assert len(read_run(tmp_path / "copy").records) == 4


def test_records_are_json(tmp_path):
    found = record(1, signal=Signal.ALARM, alarm_limit=math.nan, diagnostics={"lag": 0.0, "overlap": math.nan})
    validate(json.loads(found.to_json()))
    assert Record.from_json(found.to_json()) == found
    assert "NaN" not in found.to_json()


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_altered_records_are_refused_or_records(data):
    fields = json.loads(record(1).to_json())
    name = data.draw(st.sampled_from(sorted(fields)))
    junk = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.lists(st.integers()))
    fields[name] = data.draw(junk)
    try:
        found = Record.from_json(json.dumps(fields))
    except RecordError:
        return
    validate(json.loads(found.to_json()))


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"status": "lost"}, "status='lost' is not one of"),
        ({"causes": ["above_limit", "weather"]}, "cause='weather' is not one of"),
        ({"causes": "within"}, "causes are not a list"),
        ({"marginals": {"age": [0.1, 1e-6, 0.02]}}, "a column of a window has other parts"),
        ({"marginals": {"age": [0.1, 1e-6, 1.5, 0.0]}}, "a column of a window has the numbers"),
        ({"causes": [["within"]]}, "is not one of"),
    ],
)
def test_unknown_codes_of_a_record_are_refused(part, message):
    with pytest.raises(RecordError, match=message):
        Record.from_json(json.dumps({**record(1).to_dict(), **part}))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "say how long a window is"),
        ({"window": 5}, "window=5"),
        ({"window": 100, "every": "1d"}, "exclude"),
        ({"every": "1d"}, "time_column is missing"),
        ({"time_column": "ts", "every": "1 fortnight"}, "not a length of time"),
        ({"window": 100, "model": "forest"}, "forest"),
        ({"window": 100, "divergences": ["kl", "cosine"]}, "cosine"),
        ({"window": 100, "tolerance": -1.0}, "tolerance"),
        ({"window": 100, "nonsense": 1}, "nonsense"),
        ({"window": 100, "numeric": ["a"], "categorical": ["a"]}, "both"),
        ({"window": 100, "level": "high"}, "level"),
    ],
)
def test_settings_are_checked(given, message):
    with pytest.raises(ValueError, match=message):
        Settings.from_dict(given)


def test_settings_that_differ():
    mine = Settings(window=100, drop=("id",))
    assert mine.differs({"window": 100, "drop": "id"}) == {}
    assert mine.differs({"window": 50, "tolerance": 0.2}) == {"window": (100, 50), "tolerance": (0.1, 0.2)}
