"""SQLite as the tracker uses it: one writer that holds a lock, readers beside it, deleted content overwritten."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import suppress
from pathlib import Path

__all__ = [
    "EmptyTrackerError",
    "TrackerError",
    "connect",
    "empty_log",
    "fit_pages",
    "in_words",
    "lock",
    "prepare",
    "put_part",
]

_PATIENCE = 10_000  # milliseconds to wait for others
_PAGE = 16384  # bytes: several Records fit into one, so that little of it stays unused
_LARGE_PAGE = 65536  # bytes: a third less of SQLite's CPU time where megabytes are written
_LARGE = 1_000_000  # bytes of a state from which on pages are large: the unused parts of a few are small beside it
_PIECE = 65536  # bytes of a part that are compared and written at once: they stay in the processor's cache
_REMEDIES = {
    sqlite3.SQLITE_FULL: ": make room on the disk; the last committed window is safe, and the same command goes on",
    sqlite3.SQLITE_IOERR: ": the disk failed; nothing has changed since the last committed window",
    sqlite3.SQLITE_READONLY: ": a writer needs the file and its folder to be writable",
    sqlite3.SQLITE_CANTOPEN: ": check the permissions of the file and of its folder",
    sqlite3.SQLITE_AUTH: ": others have put a trigger or view into it, which is never run",
}
_CLEAR = "UPDATE parts SET content = x'' WHERE name = ?"
_REPLACE = """
INSERT INTO parts VALUES (?, ?, ?)
ON CONFLICT (name) DO UPDATE SET content = excluded.content, digest = excluded.digest
"""


class TrackerError(ValueError):
    """The tracker file is damaged, foreign, of another version, or in use by another writer."""


class EmptyTrackerError(TrackerError):
    """Nothing is wrong with the tracker file, but no window has been committed to it yet."""


def connect(path: str, readonly: bool) -> sqlite3.Connection:
    """Open the database at a path; a reader changes nothing, and the folder may be read-only."""
    if not readonly:
        return _open(path)
    database = _open(path, "?mode=ro")
    try:
        database.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.OperationalError:
        database.close()
        log = Path(f"{path}-wal")
        if log.exists() and log.stat().st_size:
            raise
        # the log needs an index beside it, which a read-only folder does not allow; without a log none is needed
        database = _open(path, "?immutable=1")
    except BaseException:
        database.close()
        raise
    return database


def _open(path: str, query: str = "") -> sqlite3.Connection:
    """Open a database that may be anybody's: nothing in it is run, whatever its schema says."""
    address = f"{Path(path).resolve().as_uri()}{query}"
    database = sqlite3.connect(address, uri=True, isolation_level=None, timeout=_PATIENCE / 1000)
    database.set_authorizer(_allowed)
    for pragma in ("trusted_schema = OFF", "cell_size_check = ON", "mmap_size = 0"):
        database.execute(f"PRAGMA {pragma}")
    if sys.version_info >= (3, 12) and hasattr(sqlite3, "SQLITE_DBCONFIG_DEFENSIVE"):
        database.setconfig(sqlite3.SQLITE_DBCONFIG_DEFENSIVE, True)
    return database


def _allowed(action: int, one: str | None, other: str | None, database: str | None, inside: str | None) -> int:
    """Deny whatever a trigger or view would do; our own statements are inside none."""
    return sqlite3.SQLITE_OK if inside is None else sqlite3.SQLITE_DENY


def prepare(database: sqlite3.Connection) -> None:
    """Prepare for writing: readers go on beside the writer, deleted content is overwritten, a commit is on the disk."""
    database.execute(f"PRAGMA page_size = {_PAGE}")  # takes effect in a new file
    database.execute("PRAGMA secure_delete = ON")
    if database.execute("PRAGMA journal_mode = WAL").fetchone() != ("wal",):
        raise sqlite3.OperationalError("this file system does not allow a write-ahead log")
    database.execute("PRAGMA synchronous = FULL")
    empty_log(database)  # a writer that was killed may have left one


def fit_pages(database: sqlite3.Connection, size: int) -> None:
    """Choose large pages for a file that is still empty if the largest of what it will hold has many bytes."""
    if size < _LARGE:
        return
    with suppress(sqlite3.Error):  # while a reader looks at the empty file, its pages stay as they are
        database.execute("PRAGMA busy_timeout = 0")
        database.execute("PRAGMA journal_mode = DELETE").fetchone()
        database.execute(f"PRAGMA page_size = {_LARGE_PAGE}")
        database.execute("VACUUM")
    prepare(database)


def empty_log(database: sqlite3.Connection) -> None:
    """Empty the log, which holds overwritten content, so that no earlier window stays behind.

    Committed content is safe already, so a failure here is not an error; while a reader is in the middle of something,
    the log is not emptied until the next commit, and the reader is not waited for.
    """
    with suppress(sqlite3.Error):
        database.execute("PRAGMA busy_timeout = 0")
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    with suppress(sqlite3.Error):
        database.execute(f"PRAGMA busy_timeout = {_PATIENCE}")


def put_part(database: sqlite3.Connection, name: str, content: bytes, digest: str) -> None:
    """Write a part: in place if one of the same size is there, where SQLite copies it once instead of three times.

    What is equal is not written again: the window that is still the anchor.
    """
    size = "SELECT rowid, length(content) FROM parts WHERE name = ?"
    place, length = database.execute(size, (name,)).fetchone() or (0, -1)
    if length == len(content):
        for column, value in (("content", content), ("digest", digest.encode())):  # a digest always has one size
            with database.blobopen("parts", column, place) as blob:
                _overwrite(blob, memoryview(value))
        return
    if length > _PIECE:  # its pages are free before new ones are needed, so that the file does not double
        database.execute(_CLEAR, (name,))
    database.execute(_REPLACE, (name, content, digest))


def _overwrite(blob: sqlite3.Blob, content: memoryview) -> None:
    for begin in range(0, len(content), _PIECE):
        piece = content[begin : begin + _PIECE]
        blob.seek(begin)
        if blob.read(len(piece)) != piece:
            blob.seek(begin)
            blob.write(piece)


def lock(path: str) -> sqlite3.Connection:
    """Take the writer's lock: held as long as the writer lives, and released by the system if it is killed."""
    address = f"{Path(path).resolve().as_uri()}.lock"
    connection = sqlite3.connect(address, uri=True, isolation_level=None, timeout=0.0)
    try:
        connection.execute("BEGIN EXCLUSIVE")
    except sqlite3.Error as error:
        connection.close()
        if _code(error) == sqlite3.SQLITE_BUSY:
            raise TrackerError(f"{path}: another process is writing to it; one writer at a time") from None
        if _code(error) == sqlite3.SQLITE_NOTADB:
            raise TrackerError(f"{path}.lock: not the lock of a tracker file: move it away") from None
        raise
    return connection


def in_words(error: sqlite3.Error) -> str:
    """Explain an error of SQLite to the user."""
    code = _code(error)
    if code == sqlite3.SQLITE_NOTADB:
        return "not a driftline tracker file"
    # statements are always the same: one that SQLite does not accept (SQLITE_ERROR) misses its table or column
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR):
        return f"damaged ({error})"
    remedy = _REMEDIES.get(code or 0, "")
    return f"cannot be used ({error}){remedy}"


def _code(error: sqlite3.Error) -> int | None:
    """Return SQLite's primary result code: the lowest byte. Errors that Python raises itself do not have one."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF
