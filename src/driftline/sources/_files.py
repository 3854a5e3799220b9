"""Files in order: one, those in a directory or those that match a pattern; read once, or followed as they grow."""

from __future__ import annotations

import glob
import logging
import os
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from driftline.sources._batches import Batch, Cursor, SourceError, begins_as
from driftline.sources._readers import ColumnarFile, TextFile, count_rows, format_of, unknown_format
from driftline.tables import Rows

__all__ = ["Files", "natural_order"]

logger = logging.getLogger("driftline.sources")
_PATIENCE = 60  # attempts to read a file that is unreadable and does not change, before that is an error
_MAGIC = re.compile(r"[*?\[]")


def natural_order(name: str) -> tuple[list[str | int], str]:
    """Return a sort key that orders numbers within names by value.

    >>> sorted(["part-10.csv", "part-2.csv"], key=natural_order)
    ['part-2.csv', 'part-10.csv']
    """
    parts = re.split(r"([0-9]+)", name)  # text and numbers alternate, so that like is compared with like
    return [int(part) if i % 2 else part for i, part in enumerate(parts)], name


class _Place(NamedTuple):
    """A file that is open, and the row to read from."""

    file: str
    row: int
    reader: TextFile | ColumnarFile


class Files:
    """Files as one stream of rows, in natural order of their names.

    Arguments:
        where: a file, a directory, or a pattern such as ``logs/*.csv``.
        follow: whether to wait at the end for more rows or files. A file is complete once there is one after it.
        poll: seconds between two checks for more.
        format: format of all files; if None, taken from their suffixes.
        nulls: words that stand for a missing value in CSV and TSV; the usual ones if empty.
    """

    def __init__(
        self,
        where: str,
        *,
        follow: bool = False,
        poll: float = 1.0,
        format: str | None = None,
        nulls: Sequence[str] = (),
    ) -> None:
        self._where = where
        self._follow = follow
        self._poll = poll
        self._format = format
        self._nulls = nulls
        self._began: tuple[Cursor, bool] | None = None  # whether the rows after that cursor come again
        self._empty: set[str] = set()  # files that were warned of
        self._told: set[str] = set()  # other warnings
        self._single = os.path.isfile(where)
        self._pattern = not self._single and not os.path.isdir(where)
        if self._pattern and not _MAGIC.search(where):
            raise SourceError(f"{where!r}: there is no such file or directory")
        self._root = os.path.dirname(_MAGIC.split(where)[0] if self._pattern else where) if self._fixed else where
        names = self.names()
        if not names and not follow:
            raise SourceError(f"{where!r} holds no file to read (CSV, TSV, JSON lines, Parquet or Arrow)")
        self.name = where if self._single else f"{where} ({len(names)} file{'' if len(names) == 1 else 's'})"

    @property
    def _fixed(self) -> bool:
        return self._single or self._pattern

    @property
    def rows(self) -> int | None:
        """Total number of rows, if the metadata of all files show it and no more are to come."""
        counts = [] if self._follow else [count_rows(self._path(n), self._format_of(n)) for n in self.names()]
        known = [count for count in counts if count is not None]
        return sum(known) if known and len(known) == len(counts) else None

    def names(self) -> list[str]:
        """Return the names of the present files, in reading order."""
        names = [os.path.basename(self._where)] if self._single else sorted(self._listed(), key=natural_order)
        formats = sorted({self._format_of(name) for name in names})
        if len(formats) > 1:
            raise SourceError(
                f"{self._where!r} holds files of different formats ({', '.join(formats)}): "
                "choose one format with a pattern such as '*.csv'"
            )
        return names

    @property
    def follows(self) -> bool:
        """Whether more rows are waited for at the end."""
        return self._follow

    def look(self) -> Iterator[Batch]:
        """Yield rows from the start, ahead of reading them; none if more are waited for."""
        return iter(()) if self._follow else self.batches(None)

    def resumes(self, cursor: Cursor) -> bool:
        """Say whether the rows after this cursor come again; otherwise all rows that come are new."""
        if self._began is None or self._began[0] != cursor:
            place = self._place(cursor)
            if place is not None:
                place.reader.close()
            self._began = cursor, place is not None
        return self._began[1]

    def batches(self, cursor: Cursor | None = None) -> Iterator[Batch]:
        """Yield all rows from the cursor on, in order."""
        name = None
        if cursor is not None:
            place = self._place(cursor)
            self._began = cursor, place is not None
            if place is not None:
                name = place.file
                yield from self._read(place)
            elif cursor.file is not None:
                name = self._gone(cursor.file)
        while True:
            coming = self._after(name)
            if coming:
                name = coming[0]
                yield from self._read(_Place(name, 0, self._opened(name, 0)))
            elif not self._follow:
                return
            else:
                self._wait()

    def _place(self, cursor: Cursor) -> _Place | None:
        """Open the file to continue with, at its row; None if that file is not there."""
        name, names = cursor.file, self.names()
        renamed = name not in names
        if name is None or (renamed and not (self._single and cursor.head)):
            return None
        place = _Place(
            names[0] if renamed else name, cursor.row, self._opened(names[0] if renamed else name, cursor.row)
        )
        if not cursor.head or begins_as(place.reader.start, cursor.head):
            if cursor.mark is not None and isinstance(place.reader, TextFile):
                place.reader.go_on(cursor.mark, cursor.row)
            return place
        place.reader.close()
        if renamed:  # a single file, but not the same
            return None
        raise SourceError(f"{name!r} is not the file that was being read: it begins with other bytes")

    def _gone(self, name: str) -> str | None:
        """Return the name after which to continue when that file is gone."""
        if self._single:
            logger.warning("%r was being read before; all rows of %r count as new", name, self._where)
            return None
        logger.warning("%r, which was being read, is gone: continuing with the files after it", name)
        return name

    def _opened(self, name: str, row: int) -> TextFile | ColumnarFile:
        """Open a file, to read from a row on."""
        path, format = self._path(name), self._format_of(name)
        try:
            if format in ("parquet", "arrow"):
                return ColumnarFile(path, repr(name), format, row, marked=self._follow)
            return TextFile(path, repr(name), format, row, self._nulls)
        except OSError as error:
            raise _unread(name, error) from None

    def _read(self, place: _Place) -> Iterator[Batch]:
        name, row, reader = place
        try:
            if isinstance(reader, TextFile):
                self._check(name, reader)
            for rows in self._rows(name, reader):
                self._remark(reader)
                yield Batch(rows, name, row, reader.head, reader.mark)
                row += rows.table.num_rows
        except OSError as error:
            raise _unread(name, error) from None
        finally:
            reader.close()

    def _remark(self, reader: TextFile | ColumnarFile) -> None:
        """Warn of what the reader has noticed, once."""
        for remark in reader.remarks if isinstance(reader, TextFile) else ():
            if remark not in self._told:
                logger.warning("%s", remark)
            self._told.add(remark)

    def _check(self, name: str, reader: TextFile) -> None:
        if reader.packed and self._follow:
            raise SourceError(f"{name!r} is compressed: a compressed file cannot be followed")
        if not reader.start and not self._follow:
            if self._single:
                raise SourceError(f"{name!r} is empty")
            if name not in self._empty:
                logger.warning("%r is empty", name)
            self._empty.add(name)

    def _rows(self, name: str, reader: TextFile | ColumnarFile) -> Iterator[Rows]:
        """Yield a file's rows and, when followed, those appended until there is a file after it."""
        looks, seen = 0, None
        while True:
            # decided before reading, so that rows written before the next file came are still read
            last = not self._follow or bool(self._after(name))
            try:
                yield from reader.read()
                if last:
                    break
            except FileNotFoundError:
                if self._single or not self._follow:
                    raise
                logger.log(logging.DEBUG if looks else logging.WARNING, "%r disappeared while being followed", name)
                looks += 1
                if last:
                    break
            except SourceError as error:
                if isinstance(reader, TextFile) or not self._follow:
                    raise
                # probably still being written
                state = os.stat(self._path(name))
                looks = looks + 1 if (state.st_size, state.st_mtime_ns) == seen else 0
                seen = state.st_size, state.st_mtime_ns
                if looks >= _PATIENCE:
                    raise
                logger.info("%s; trying again", error)
            self._wait()
        yield from reader.finish()

    def _listed(self) -> Iterator[str]:
        if self._pattern:
            paths = [path for path in glob.glob(self._where, recursive=True) if os.path.isfile(path)]
            names = [Path(os.path.relpath(path, self._root or ".")).as_posix() for path in paths]
            yield from (name for name in names if not name.endswith(".tmp"))
            return
        try:
            with os.scandir(self._root) as entries:
                files = [entry.name for entry in entries if entry.is_file()]
        except OSError as error:
            raise SourceError(f"{self._where!r} cannot be read: {error.strerror or error}") from None
        for name in files:
            format = format_of(name)
            if not name.startswith(".") and format is not None and self._format in (None, format):
                yield name

    def _after(self, name: str | None) -> list[str]:
        names = self.names()
        return names if name is None else [n for n in names if natural_order(n) > natural_order(name)]

    def _format_of(self, name: str) -> str:
        found = self._format or format_of(name)
        if found is None:
            raise unknown_format(name)
        return found

    def _path(self, name: str) -> Path:
        return Path(self._root, name)

    def _wait(self) -> None:
        time.sleep(self._poll)


def _unread(name: str, error: OSError) -> SourceError:
    return SourceError(f"{name!r} cannot be read: {error.strerror or error}")
