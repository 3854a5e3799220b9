"""SQLite as the tracker uses it: one writer, known by its lock, readers beside it, nothing deleted stays behind."""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from pathlib import Path

__all__ = ["TrackerError", "connect", "empty_log", "in_words", "lock", "prepare"]

_PATIENCE = 10_000  # milliseconds to wait for others
_PAGE = 16384  # bytes: several Records fit into one, so that little of it stays unused


class TrackerError(ValueError):
    """The tracker file is damaged, foreign, of another version, or in use by another writer."""


def connect(path: str, readonly: bool) -> sqlite3.Connection:
    """The database at a path; a reader changes nothing, not even beside it if the folder does not allow it."""
    address = Path(path).resolve().as_uri()
    if not readonly:
        return sqlite3.connect(address, uri=True, isolation_level=None, timeout=_PATIENCE / 1000)
    try:
        database = sqlite3.connect(f"{address}?mode=ro", uri=True, isolation_level=None, timeout=_PATIENCE / 1000)
        database.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.OperationalError:
        log = Path(f"{path}-wal")
        if log.exists() and log.stat().st_size:
            raise
        # a folder that cannot be written to has no room for the log's index; without a log none is needed
        database = sqlite3.connect(f"{address}?immutable=1", uri=True, isolation_level=None)
    return database


def prepare(database: sqlite3.Connection) -> None:
    """For writing: readers go on beside it, deleted content is overwritten, a commit is on the disk."""
    database.execute(f"PRAGMA page_size = {_PAGE}")  # of a new file
    database.execute("PRAGMA secure_delete = ON")
    if database.execute("PRAGMA journal_mode = WAL").fetchone() != ("wal",):
        raise sqlite3.OperationalError("this file system does not allow a write-ahead log")
    database.execute("PRAGMA synchronous = FULL")
    empty_log(database)  # a writer that was killed may have left one


def empty_log(database: sqlite3.Connection) -> None:
    """The log holds what was overwritten: without it no earlier window stays behind.

    What has been committed is safe already, so nothing here is an error; a reader in the middle of something puts it
    off to the next time, and is not waited for.
    """
    with suppress(sqlite3.Error):
        database.execute("PRAGMA busy_timeout = 0")
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    with suppress(sqlite3.Error):
        database.execute(f"PRAGMA busy_timeout = {_PATIENCE}")


def lock(path: str) -> sqlite3.Connection:
    """Held as long as the writer lives, and let go by the system if it is killed."""
    address = f"{Path(path).resolve().as_uri()}.lock"
    connection = sqlite3.connect(address, uri=True, isolation_level=None, timeout=0.0)
    try:
        connection.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError as error:
        connection.close()
        if "locked" in str(error):
            raise TrackerError(f"{path}: another process is writing to it; one writer at a time") from None
        raise
    return connection


def in_words(error: sqlite3.Error) -> str:
    """What SQLite says, for whoever has to do something about it."""
    text = str(error)
    if "not a database" in text:
        return "not a driftline tracker file"
    if "malformed" in text or "no such" in text:
        return f"damaged ({text})"
    return f"cannot be used ({text})"
