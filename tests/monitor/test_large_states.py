"""States of megabytes in a tracker file: in place, all or nothing, nothing left behind, no more room than needed."""

import os
import sqlite3
from contextlib import closing

import pytest

from driftline.monitor import Settings
from driftline.monitor._sqlite import put_part
from driftline.monitor._tracker import Progress, Tracker

RUN = {"created": "2026-01-01", "source": "a.csv", "settings": Settings(window=100).to_dict(), "encoder": {}}
SIZE = 2_000_000
OTHER = pytest.mark.parametrize("size", [100, SIZE, SIZE + 700_000], ids=["smaller", "as large", "larger"])


def held(folder):
    return b"".join(path.read_bytes() for path in folder.iterdir())


def asked(path, pragma):
    with closing(sqlite3.connect(path)) as database:
        return database.execute(f"PRAGMA {pragma}").fetchone()[0]


@OTHER
def test_what_is_overwritten_is_gone(tmp_path, size):
    secret, then = os.urandom(SIZE), os.urandom(size)
    with Tracker(tmp_path / "run") as tracker:
        progress = tracker.commit(RUN, [], secret, Progress())
        assert secret[:64] in held(tmp_path)  # the search would find it
        tracker.commit(RUN, [], then, progress)
        left = held(tmp_path)
        assert not any(secret[i : i + 64] in left for i in range(0, SIZE, 50_000))
        assert tracker.read().state == then


@OTHER
def test_a_failed_commit_changes_nothing(tmp_path, size, monkeypatch):
    first = os.urandom(SIZE)
    with Tracker(tmp_path / "run") as tracker:
        progress = tracker.commit(RUN, [], first, Progress())

        def broken(database, name, content, digest):
            put_part(database, name, content, digest)
            raise KeyboardInterrupt

        monkeypatch.setattr("driftline.monitor._tracker.put_part", broken)
        with pytest.raises(KeyboardInterrupt):
            tracker.commit(RUN, [], os.urandom(size), progress)
        assert tracker.read().state == first
        assert tracker.read().progress == progress


def test_the_file_does_not_double(tmp_path):
    with Tracker(tmp_path / "run") as tracker:
        progress = tracker.commit(RUN, [], os.urandom(SIZE), Progress())
        tracker.commit(RUN, [], os.urandom(SIZE + 700_000), progress)
    assert (tmp_path / "run").stat().st_size < 1.3 * (SIZE + 700_000)


def test_what_is_equal_is_not_written_again(tmp_path):
    first = os.urandom(SIZE)
    with Tracker(tmp_path / "run") as tracker, closing(sqlite3.connect(tmp_path / "run")) as reader:
        progress = tracker.commit(RUN, [], first, Progress())
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM records").fetchone()  # keeps the log from being emptied
        then = bytes([first[0] ^ 1]) + first[1:]
        tracker.commit(RUN, [], then, progress)
        assert 0 < (tmp_path / "run-wal").stat().st_size < SIZE / 4
        reader.execute("COMMIT")
        assert tracker.read().state == then


def test_pages_are_large_where_states_are(tmp_path):
    for name, size in (("large", SIZE), ("small", 1_000)):
        with Tracker(tmp_path / name) as tracker:
            tracker.commit(RUN, [], bytes(size), Progress())
            assert tracker._database.execute("PRAGMA secure_delete").fetchone() == (1,)
            assert tracker._database.execute("PRAGMA synchronous").fetchone() == (2,)
            assert tracker._database.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert asked(tmp_path / "large", "page_size") == 4 * asked(tmp_path / "small", "page_size")
    with Tracker(tmp_path / "large") as tracker:  # a run that goes on keeps them
        tracker.commit(RUN, [], bytes(1_000), tracker.read().progress)
    assert asked(tmp_path / "large", "page_size") == 65536


def test_a_reader_of_the_empty_file_is_not_waited_for(tmp_path):
    with Tracker(tmp_path / "run") as tracker, closing(sqlite3.connect(tmp_path / "run")) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM sqlite_master").fetchone()
        statements = []
        tracker._database.set_trace_callback(statements.append)
        tracker.commit(RUN, [], bytes(SIZE), Progress())
        before = statements[: statements.index("PRAGMA journal_mode = DELETE")]
        assert [s for s in before if "busy_timeout" in s] == ["PRAGMA busy_timeout = 0"]
        assert tracker.read().state == bytes(SIZE)
        assert tracker._database.execute("PRAGMA journal_mode").fetchone() == ("wal",)
