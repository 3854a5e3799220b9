"""Standard input and named pipes: formats are recognised, rows are new or replayed."""

from __future__ import annotations

import gzip
import io
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from driftline.sources import Cursor, SourceError, open_source
from driftline.sources._pipe import Pipe


class Standard:
    def __init__(self, data: bytes) -> None:
        self.buffer = io.BytesIO(data)


def stdin(monkeypatch: pytest.MonkeyPatch, data: bytes, **options: Any) -> Any:
    monkeypatch.setattr("sys.stdin", Standard(data))
    return open_source("-", **options)


def test_standard_input_is_recognised(
    monkeypatch: pytest.MonkeyPatch, rows: Callable[..., Any], table: pa.Table
) -> None:
    assert rows(stdin(monkeypatch, b"x\n1\n2")) == [{"x": "1"}, {"x": "2"}]
    assert rows(stdin(monkeypatch, b' {"x": 1}\n')) == [{"x": 1}]
    assert rows(stdin(monkeypatch, b"x\ty\n1\t2\n", format="tsv")) == [{"x": "1", "y": "2"}]
    assert rows(stdin(monkeypatch, b"")) == []
    out = io.BytesIO()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    assert rows(stdin(monkeypatch, out.getvalue())) == table.to_pylist()
    for end in (4, 100, len(out.getvalue()) - 100):
        with pytest.raises(SourceError, match="standard input"):
            rows(stdin(monkeypatch, out.getvalue()[:end], format="arrow"))


@pytest.mark.parametrize(
    ("data", "format", "message"),
    [
        (b"PAR1....", None, "Parquet cannot be read from a pipe"),
        (b"", "parquet", "Parquet cannot be read from a pipe"),
        (b"ARROW1....", None, "an Arrow file cannot be read from a pipe"),
        (gzip.compress(b"x\n1\n", mtime=0), None, "is compressed: pipe it through gunzip"),
        (b"x,y\n1\n", None, "standard input: line 2 has 1 field, but the header has 2"),
    ],
)
def test_what_cannot_come_through_a_pipe(
    monkeypatch: pytest.MonkeyPatch, data: bytes, format: str | None, message: str, rows: Callable[..., Any]
) -> None:
    with pytest.raises(SourceError, match=message):
        rows(stdin(monkeypatch, data, format=format))


def test_a_stream_continues_with_new_rows_or_is_replayed(
    monkeypatch: pytest.MonkeyPatch, rows: Callable[..., Any]
) -> None:
    cursor = Cursor(None, 2, 2, "")
    (batch,) = stdin(monkeypatch, b"x\n1\n2\n3\n").batches(cursor)
    assert (batch.row, batch.table.num_rows) == (2, 3)
    (batch,) = stdin(monkeypatch, b"x\n1\n2\n3\n", replay=True).batches(cursor)
    assert (batch.row, batch.table.to_pylist()) == (2, [{"x": "3"}])
    with pytest.raises(SourceError, match="it has 1 rows, but 2 were read"):
        rows(stdin(monkeypatch, b"x\n1\n", replay=True), cursor)


def test_a_named_pipe(tmp_path: Path, rows: Callable[..., Any]) -> None:
    path = tmp_path / "pipe.csv"
    os.mkfifo(path)
    thread = threading.Thread(target=lambda: path.write_text("x\n1\n2\n"), daemon=True)  # it waits for a reader
    thread.start()
    source = open_source(path)
    assert isinstance(source, Pipe)
    assert rows(source) == [{"x": "1"}, {"x": "2"}]
    thread.join()
