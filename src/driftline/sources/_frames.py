"""Frames of other libraries as Arrow tables and as a source: pandas, polars, and others that narwhals or Arrow read."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import pyarrow as pa

from driftline.sources._batches import Batch, Cursor, SourceError, checked_table, numbered
from driftline.sources._readers import BATCH_ROWS
from driftline.tables import Rows

__all__ = ["Frames", "as_table", "is_frame", "rows_of_frame"]


def is_frame(data: Any) -> bool:
    """Say whether this is one frame, rather than several of them."""
    if isinstance(data, pa.Table | pa.RecordBatch):
        return True
    if isinstance(data, pa.RecordBatchReader):
        return False
    import narwhals as nw  # not at the top: files do not need it

    try:
        wrapped = nw.from_native(data, pass_through=True, allow_series=True)
    except Exception:  # a frame with a fault, which as_table will report
        return True
    if isinstance(wrapped, nw.Series):
        return False
    return isinstance(wrapped, nw.DataFrame | nw.LazyFrame) or (
        hasattr(data, "__arrow_c_stream__") and not hasattr(data, "__next__")
    )


def as_table(frame: Any, name: str = "the frame") -> pa.Table:
    """Convert a frame to an Arrow table; an index, as in pandas, is left out.

    >>> import pandas as pd
    >>> as_table(pd.DataFrame({"x": [1, 2]}, index=["a", "b"])).to_pydict()
    {'x': [1, 2]}
    """
    if isinstance(frame, pa.RecordBatch):
        frame = pa.Table.from_batches([frame])
    if not isinstance(frame, pa.Table):
        if not is_frame(frame):
            raise SourceError(f"{name} is {_described(frame)}")
        frame = _converted(frame, name)
    return checked_table(frame, name)


def rows_of_frame(frame: Any) -> Rows:
    """Return the rows of a frame; :class:`~driftline.tables.Rows` keep what is known about them."""
    return frame.holding(as_table(frame.table)) if isinstance(frame, Rows) else Rows(as_table(frame))


def _converted(frame: Any, name: str) -> pa.Table:
    import narwhals as nw  # as in is_frame

    try:
        wrapped = nw.from_native(_with_names(frame, name), pass_through=True)
        if isinstance(wrapped, nw.LazyFrame):
            raise SourceError(f"{name} is a lazy frame of {type(frame).__module__}: collect it first")
        if isinstance(wrapped, nw.DataFrame):
            wrapped = nw.maybe_reset_index(wrapped)
            try:
                return wrapped.to_arrow()
            except Exception:  # one column that Arrow does not know must not keep the others from being read
                return pa.table({column: _column(wrapped, column) for column in wrapped.columns})
        return pa.table(frame)
    except SourceError:
        raise
    except Exception as error:  # a frame may come from any library, with exceptions of its own
        reason = "; ".join(map(str, error.args)) or type(error).__name__
        raise SourceError(f"{name} cannot be converted to an Arrow table: {reason}") from error


def _with_names(frame: Any, name: str) -> Any:
    """Return a frame whose columns are named by text, each by another; pandas takes anything for a name."""
    given = frame.columns if hasattr(frame, "set_axis") else None  # asking others may cost a look at all rows
    if given is None:
        return frame
    names = [str(column) for column in given]
    if not names:
        raise SourceError(f"{name} has no columns")
    twice = next((column for column, times in Counter(names).items() if times > 1), None)
    if twice is not None:
        raise SourceError(f"{name} has more than one column {twice!r}: rename one of them")
    return frame if all(isinstance(column, str) for column in given) else frame.set_axis(names, axis=1)


def _column(frame: Any, name: str) -> Any:
    """Return one column; of values that Arrow cannot hold, the names of their types, as bytes that nobody can watch."""
    column = frame.get_column(name)
    try:
        return column.to_arrow()
    except Exception:  # as in _converted
        missing = column.is_null().to_list()
        kinds = [type(value).__name__.encode() for value in column.to_list()]
        return pa.array([None if gone else kind for gone, kind in zip(missing, kinds, strict=True)], pa.binary())


def _described(data: Any) -> str:
    """Describe something that is not a frame, and say what to do."""
    kind = type(data).__name__
    if isinstance(data, Mapping):
        return f"of type {kind}, not a frame: make one with pandas.DataFrame(...) or pyarrow.table(...)"
    if hasattr(data, "__array__"):
        return f"of type {kind}, not a frame: columns need names, make one with pandas.DataFrame(..., columns=[...])"
    if isinstance(data, str | bytes):
        return f"text ({data[:40]!r}), not a frame: for many files, give a directory or a pattern such as 'logs/*.csv'"
    return f"of type {kind}, not a frame of pandas, polars or pyarrow"


class Frames:
    """Frames, one after another, as a stream of rows."""

    def __init__(self, frames: Iterable[Any], name: str, replay: bool = False, rows: int | None = None) -> None:
        self.name = name
        self.rows = rows
        self._frames = frames
        self._replay = replay
        self._unread: deque[pa.Table] = deque()

    def after(self, tables: Sequence[pa.Table]) -> None:
        """Put these rows before the frames, unless everything comes again."""
        if not self._replay:
            self._unread.extendleft(reversed(tables))

    def unread(self) -> list[pa.Table]:
        """Return rows taken from the frames but not yet passed on."""
        return list(self._unread)

    def look(self) -> Iterator[Batch]:
        """Yield rows from the start, ahead of reading them; none if the frames come only once."""
        frames = self._frames if isinstance(self._frames, Sequence) else ()
        tables = chain(tuple(self._unread), (as_table(frame, self.name) for frame in frames))
        return numbered(map(Rows, tables), None, True, self.name)

    def resumes(self, cursor: Cursor) -> bool:
        """Say whether the rows after this cursor come again; otherwise all rows that come are new."""
        return self._replay

    def batches(self, cursor: Cursor | None = None) -> Iterator[Batch]:
        """Yield all rows from the cursor on, in order."""
        return numbered(self._rows(), cursor, self._replay, self.name)

    def _rows(self) -> Iterator[Rows]:
        yield from self._parts()
        for i, frame in enumerate(self._frames):
            self._unread.append(as_table(frame, self.name if self.rows is not None else f"frame {i}"))
            yield from self._parts()

    def _parts(self) -> Iterator[Rows]:
        while self._unread:
            table = self._unread.popleft()
            if table.num_rows > BATCH_ROWS:
                self._unread.appendleft(table.slice(BATCH_ROWS))
            yield Rows(table.slice(0, BATCH_ROWS))
