"""Frames of several libraries as sources; anything else is a clear error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from driftline.sources import Cursor, SourceError, open_source


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"n": [1, 2], "s": ["a", "b"]}, index=[7, 9]),
        pd.DataFrame({"n": [1, 2], "s": ["a", "b"]}, index=pd.Index(["p", "q"], name="key")),
        pl.DataFrame({"n": [1, 2], "s": ["a", "b"]}),
        pa.table({"n": [1, 2], "s": ["a", "b"]}),
        pa.record_batch({"n": [1, 2], "s": ["a", "b"]}),
    ],
    ids=lambda frame: type(frame).__module__,
)
def test_frames(frame: Any, rows: Callable[..., Any]) -> None:
    wanted = [{"n": 1, "s": "a"}, {"n": 2, "s": "b"}]
    assert open_source(frame).rows == 2
    assert rows(open_source(frame)) == wanted
    assert rows(open_source([frame, frame])) == wanted * 2
    assert rows(open_source(frame for _ in range(2))) == wanted * 2
    (first, second) = open_source([frame, frame]).batches(Cursor(None, 5, 5, ""))
    assert (first.row, second.row) == (5, 7)
    assert rows(open_source([frame, frame], replay=True), Cursor(None, 3, 3, "")) == wanted[1:]


def test_a_reader_of_record_batches_is_an_iterable_of_frames(rows: Callable[..., Any], table: pa.Table) -> None:
    reader = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=2))
    assert rows(open_source(reader)) == table.to_pylist()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"x": [1]}, "the source is of type dict, not a frame: make one with pandas"),
        ([{"x": [1]}], "frame 0 is of type dict, not a frame"),
        (pd.DataFrame({"x": [1]}).to_numpy(), "the source is of type ndarray, not a frame: columns need names"),
        (pl.LazyFrame({"x": [1]}), "lazy frame of polars.*: collect it first"),
        (["a.csv", "b.csv"], r"frame 0 is text \('a.csv'\), not a frame: for many files, give a directory"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "more than one column 'a'"),
        (pd.DataFrame(index=[1, 2]), "has no columns"),
        (pa.table([[1], [2]], names=["a", "a"]), "more than one column 'a'"),
        (17, "the source is of type int"),
        (None, "the source is of type NoneType"),
        (b"a.csv", "the source is text"),
        ([pd.Series([1])], "frame 0 is of type Series"),
    ],
)
def test_what_is_not_a_frame(data: Any, message: str, rows: Callable[..., Any]) -> None:
    with pytest.raises(SourceError, match=message):
        rows(open_source(data))


def test_errors_of_the_iterable_are_passed_on(rows: Callable[..., Any]) -> None:
    def frames() -> Iterator[pd.DataFrame]:
        yield pd.DataFrame({"x": [1]})
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        rows(open_source(frames()))
