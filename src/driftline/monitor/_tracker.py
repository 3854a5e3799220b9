"""The tracker file: one SQLite database that holds a run, each window committed as a whole or not at all.

Inside: the run (settings, source, frozen encoder), the Records, and the progress: the estimator's state, the cursor,
the alarms' memories. Every part carries a digest and the Records form a chain of digests, so that altered or truncated
content is refused, not misread. Deleted content is overwritten with zeros, and the write-ahead log is emptied after
every commit: rows that the run has left behind are not in the file.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from driftline._wording import json_line
from driftline.monitor._checks import check_description, check_progress
from driftline.monitor._records import Original, Record, Run
from driftline.monitor._schema import check_kind, create, is_empty
from driftline.monitor._settings import Settings
from driftline.monitor._sqlite import (
    EmptyTrackerError,
    TrackerError,
    connect,
    empty_log,
    fit_pages,
    in_words,
    lock,
    prepare,
    put_part,
)

__all__ = ["Content", "Further", "Place", "Progress", "Tracker", "TrackerError", "read_on", "read_run"]

_PARTS = ("run", "progress", "state")


@dataclass(frozen=True)
class Progress:
    """Everything that changes from window to window, apart from the estimator's state.

    Attributes:
        windows: number of windows so far, including skipped ones.
        cursor: cursor of the first unread row, as JSON; None before the first window.
        alarms: memory of each original's alarm, as JSON.
        originals: originals, as JSON.
        now: histograms of the last measured window.
        pools: counts of the last windows in the cells of each original, as JSON.
        records: number of Records so far.
        chain: digest of the last Record, which depends on all before.
        state: digest of the estimator's state.
        run: digest of the run's description.
    """

    windows: int = 0
    cursor: Mapping[str, Any] | None = None
    alarms: Mapping[str, Any] = field(default_factory=dict)
    originals: Sequence[Mapping[str, Any]] = field(default_factory=list)
    now: Mapping[str, Any] = field(default_factory=dict)
    pools: Mapping[str, Any] = field(default_factory=dict)
    records: int = 0
    chain: str = ""
    state: str = ""
    run: str = ""

    def to_json(self) -> bytes:
        """Write the progress as one JSON object."""
        return _json(vars(self))  # its parts are JSON already: asdict would copy every number

    @classmethod
    def from_json(cls, data: bytes) -> Self:
        """Read what :meth:`to_json` wrote."""
        found = json.loads(data)
        check_progress(found)
        return cls(**found)


@dataclass(frozen=True)
class Place:
    """How far a reader has come: the number of Records it has read, and the digest of the last of them."""

    records: int = 0
    chain: str = ""


@dataclass(frozen=True)
class Content:
    """Contents of a tracker file: the progress, the run's description, the Records, the state, the bytes of each.

    Those who read on have only the Records after ``begun``.
    """

    progress: Progress
    description: Mapping[str, Any]
    records: tuple[Record, ...]
    state: bytes
    sizes: dict[str, int]
    begun: Place = Place()

    def run(self, path: str) -> Run:
        """Return the run that the file at this path describes."""
        run = self.description
        try:
            check_description(run)
            return Run(
                path=path,
                created=run["created"],
                settings=Settings.from_dict(run["settings"]),
                source=run["source"],
                encoder=run["encoder"],
                records=self.records,
                originals=tuple(Original.from_dict(original) for original in self.progress.originals),
                now=self.progress.now,
            )
        except (LookupError, TypeError, ValueError, RecursionError) as error:
            raise TrackerError(f"{path}: damaged, its parts do not fit together ({error})") from None


_START = Place()


class Tracker:
    """A tracker file, open for reading or as its only writer.

    Arguments:
        path: path of the file; a writer fills it with the first commit.
        readonly: whether to read only; readers and the writer never wait for each other.
    """

    def __init__(self, path: str | os.PathLike[str], *, readonly: bool = False) -> None:
        self.path = os.fspath(path)
        self.readonly = readonly
        self._lock: sqlite3.Connection | None = None
        self._prepared = False  # until then the file may be anybody's
        if Path(self.path).is_dir():
            raise TrackerError(f"{self.path} is a directory: name a file")
        if Path(self.path).exists() and not Path(self.path).is_file():
            raise TrackerError(f"{self.path}: a device or a pipe, not a file")
        if readonly and not Path(self.path).is_file():
            raise FileNotFoundError(f"{self.path}: no such tracker file")
        if not Path(self.path).resolve().parent.is_dir():
            raise FileNotFoundError(f"{self.path}: its folder does not exist")
        with self._clearly():
            if not readonly:
                self._lock = lock(self.path)
            try:
                self._database = connect(self.path, readonly)
                check_kind(self._database, self.path)  # before anything is changed
                if readonly and is_empty(self._database):
                    raise EmptyTrackerError(f"{self.path}: empty, no window has been committed to it yet")
                if not readonly:
                    self._prepared = True
                    prepare(self._database)
                place = os.stat(self.path)
                self._place = (place.st_dev, place.st_ino)
            except BaseException:
                self.close()
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file, and release a writer's lock."""
        database = getattr(self, "_database", None)
        if database is not None and self._prepared:
            empty_log(database)
            with suppress(sqlite3.Error):  # at rest it is one file without a log, unless a reader is at work
                database.execute("PRAGMA busy_timeout = 100")
                database.execute("PRAGMA journal_mode = DELETE").fetchone()
        for name in ("_database", "_lock"):
            connection = getattr(self, name, None)
            if connection is not None:
                with suppress(sqlite3.Error):
                    connection.close()
                setattr(self, name, None)

    @property
    def empty(self) -> bool:
        """True if nothing has been committed yet."""
        with self._clearly():
            return is_empty(self._database)

    def commit(self, run: Mapping[str, Any], records: Sequence[Record], state: bytes, progress: Progress) -> Progress:
        """Commit the Records, state and progress of a window, all or nothing; return the progress with its digests."""
        chain, content = progress.chain, _json(run)
        rows = []
        for place, record in enumerate(records, progress.records):
            line = record.to_json()
            chain = _digest(chain.encode(), line.encode())
            rows.append((place, line, chain))
        done = replace(
            progress,
            records=progress.records + len(rows),
            chain=chain,
            state=_digest(state),
            run=_digest(content),
        )
        self._check_place()
        progressed = done.to_json()
        parts = [("state", state, done.state), ("progress", progressed, _digest(progressed))]
        if done.run != progress.run:
            parts.append(("run", content, done.run))
        self._write(rows, parts)
        return done

    def _write(self, records: Sequence[tuple[int, str, str]], parts: Sequence[tuple[str, bytes, str]]) -> None:
        database = self._database
        with self._clearly():
            if is_empty(database):
                fit_pages(database, max(len(content) for _, content, _ in parts))
            database.execute("BEGIN IMMEDIATE")
            try:
                if is_empty(database):
                    create(database)
                database.executemany("INSERT INTO records VALUES (?, ?, ?)", records)
                for part in parts:
                    put_part(database, *part)
                database.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    database.execute("ROLLBACK")
                raise
        empty_log(database)

    def _check_place(self) -> None:
        """Raise unless the file under this path is still the one that is open."""
        try:
            now = os.stat(self.path)
        except OSError:
            now = None
        if now is None or (now.st_dev, now.st_ino) != self._place:
            raise TrackerError(f"{self.path}: deleted or replaced while it was in use; nothing more is written to it")

    def records(self) -> tuple[Record, ...]:
        """Return all Records, in the order they were committed."""
        return self.read().records

    def run(self) -> Run:
        """Return the run that the file describes."""
        return self.read().run(self.path)

    def read(self, after: Place = _START) -> Content:
        """Read everything in the file as of one moment, and check it; of the Records, only those after a place.

        If the file does not hold the Records up to that place (another has been put there), all are read.
        """
        rest = "SELECT place, record, digest FROM records WHERE place >= ? ORDER BY place"
        with self._clearly():
            self._database.execute("BEGIN")
            try:
                parts = self._parts()
                after = after if self._holds(after) else _START
                rows = self._database.execute(rest, (after.records,)).fetchall()
            finally:
                self._database.execute("COMMIT")
            progress = Progress.from_json(parts["progress"])
            if (progress.state, progress.run) != (_digest(parts["state"]), _digest(parts["run"])):
                raise TrackerError(f"{self.path}: damaged, its parts are from different moments")
            records, chain = [], after.chain
            for expected, (place, line, digest) in enumerate(rows, after.records):
                chain = _digest(chain.encode(), str(line).encode())
                if place != expected or digest != chain:
                    raise TrackerError(f"{self.path}: damaged, Record {expected} is not what was written")
                records.append(Record.from_json(line))
            left = after.records + len(records)
            if left != progress.records or chain != progress.chain:
                raise TrackerError(f"{self.path}: damaged, {progress.records} Records were written, {left} are left")
            size = sum(len(str(line).encode()) for _, line, _ in rows)
            sizes = {"records": size, **{name: len(part) for name, part in parts.items()}}
            return Content(progress, json.loads(parts["run"]), tuple(records), parts["state"], sizes, after)

    def _holds(self, place: Place) -> bool:
        """Say whether the Records up to this place are those of the file; their digests form a chain."""
        query = "SELECT digest FROM records WHERE place = ?"
        return not place.records or self._database.execute(query, (place.records - 1,)).fetchone() == (place.chain,)

    def _parts(self) -> dict[str, bytes]:
        rows = self._database.execute("SELECT name, content, digest FROM parts").fetchall()
        parts = {}
        for name, content, digest in rows:
            if not isinstance(content, bytes) or digest != _digest(content):
                raise TrackerError(f"{self.path}: damaged, its part {name!r} does not match its digest")
            parts[name] = content
        if sorted(parts) != sorted(_PARTS):
            raise TrackerError(f"{self.path}: damaged, it holds the parts {sorted(parts)} instead of {sorted(_PARTS)}")
        return parts

    @contextmanager
    def _clearly(self) -> Iterator[None]:
        """Turn errors of SQLite and JSON into a :class:`TrackerError`."""
        try:
            yield
        except TrackerError:
            raise
        except sqlite3.Error as error:
            raise TrackerError(f"{self.path}: {in_words(error)}") from None
        except (ValueError, TypeError, LookupError, RecursionError) as error:
            raise TrackerError(f"{self.path}: damaged ({error})") from None


def read_run(path: str | os.PathLike[str]) -> Run:
    """Read the run in a tracker file, even while a writer is at work."""
    with Tracker(path, readonly=True) as tracker:
        return tracker.run()


@dataclass(frozen=True)
class Further:
    """What a tracker file holds beyond a place.

    Attributes:
        run: run that the file describes, with the Records after that place only.
        place: place that has been reached.
        begun: place after which the Records begin; the start, if the file is another than before.
    """

    run: Run
    place: Place
    begun: Place


def read_on(path: str | os.PathLike[str], after: Place = _START) -> Further:
    """Read what has been committed to a tracker file since a place, even while a writer is at work."""
    with Tracker(path, readonly=True) as tracker:
        content = tracker.read(after)
    reached = Place(content.progress.records, content.progress.chain)
    return Further(content.run(os.fspath(path)), reached, content.begun)


def _json(value: Mapping[str, Any]) -> bytes:
    return json_line(value, sort_keys=True, finite=False).encode()


def _digest(*parts: bytes) -> str:
    total = hashlib.sha256()  # processors help with it: a third of the time of others
    for part in parts:
        total.update(part)
    return total.hexdigest()[:32]
