"""Opening of sources: files, directories, patterns, standard input and frames, whichever the user names."""

from __future__ import annotations

import math
import os
import stat
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, BinaryIO, cast

from driftline._errors import Option
from driftline.sources._batches import Source, SourceError
from driftline.sources._concat import concat
from driftline.sources._files import Files
from driftline.sources._frames import Frames, as_table, is_frame
from driftline.sources._pipe import Pipe
from driftline.sources._readers import known_format
from driftline.tables import Rows

__all__ = ["open_source", "read_whole"]


def open_source(
    source: Any,
    *,
    follow: bool = False,
    poll: float = 1.0,
    format: str | None = None,
    replay: bool = False,
    nulls: Sequence[str] = (),
) -> Source:
    """Open a source of rows.

    Arguments:
        source: path of a file or a directory, a pattern such as ``"logs/*.csv"``, ``"-"`` for standard input, a frame
            (pandas, polars, pyarrow), or an iterable of frames.
        follow: whether to wait, when all is read, for rows at the end of the last file and for files after it.
        poll: seconds between two checks for more.
        format: csv, tsv, jsonl, parquet or arrow, if the suffix does not show it.
        replay: whether standard input or frames begin again with rows that were read before an interruption; otherwise
            all their rows are new. Files always continue from the cursor.
        nulls: words that stand for a missing value in CSV and TSV, besides an empty field; the usual ones if empty.

    >>> import pyarrow as pa
    >>> source = open_source(pa.table({"x": [1, 2, 3]}))
    >>> source.rows, [batch.table.num_rows for batch in source.batches()]
    (3, [3])
    """
    if not isinstance(poll, int | float) or not (0.0 < poll < math.inf):
        raise SourceError("{option} must be a number of seconds above 0", option=Option("poll", poll))
    format = None if format is None else known_format(format)
    if isinstance(source, str | os.PathLike):
        where = os.fspath(source)
        if not isinstance(where, str) or "\0" in where or not where:
            raise SourceError(f"{where!r} is not a path")
        if where == "-":
            return Pipe(sys.stdin.buffer, "standard input", format, replay, nulls)
        if _is_pipe(where):
            return Pipe(_opened(where), where, format, replay, nulls)
        return Files(where, follow=follow, poll=float(poll), format=format, nulls=nulls)
    if all(hasattr(source, part) for part in ("batches", "resumes", "name")):
        return cast(Source, source)
    if is_frame(source):
        return Frames([source], "a frame", replay, rows=as_table(source).num_rows)
    if isinstance(source, Mapping | bytes) or hasattr(source, "__array__") or not isinstance(source, Iterable):
        as_table(source, "the source")  # raises an error that says what is wrong
    return Frames(source, "frames", replay)


def read_whole(
    path: str,
    format: str | None = None,
    nulls: Sequence[str] = (),
    ignored: Callable[[str], bool] = lambda name: False,
) -> Rows:
    """Read all rows of a file, folder or pattern at once; columns that are ignored may differ between files."""
    batches = list(open_source(path, format=format, nulls=nulls).batches(None))
    if not any(batch.table.num_rows for batch in batches):
        raise SourceError(f"{path}: no rows")
    return concat(batches, strict=True, ignored=ignored)[0]


def _is_pipe(where: str) -> bool:
    try:
        mode = os.stat(where).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)


def _opened(where: str) -> BinaryIO:
    try:
        return open(where, "rb")
    except OSError as error:
        raise SourceError(f"{where!r} cannot be read: {error.strerror or error}") from None
