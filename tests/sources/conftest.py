"""Shared by the tests of sources: a small table, files of every format, and all rows of a source."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from driftline.sources import Cursor, Source


def _write_csv(table: pa.Table, path: Path) -> None:
    with gzip.open(path, "wt", newline="") if path.suffix == ".gz" else open(path, "w", newline="") as file:
        writer = csv.writer(file, delimiter="\t" if path.suffix == ".tsv" else ",")
        writer.writerow(table.column_names)
        writer.writerows(row.values() for row in table.to_pylist())


def _write_json(table: pa.Table, path: Path) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))


def _write_stream(table: pa.Table, path: Path) -> None:
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=3)


def _write_file(table: pa.Table, path: Path) -> None:
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=3)


_WRITERS: dict[str, Callable[[pa.Table, Path], None]] = {
    "a.csv": _write_csv,
    "a.csv.gz": _write_csv,
    "a.tsv": _write_csv,
    "a.jsonl": _write_json,
    "a.ndjson": _write_json,
    "a.json": _write_json,
    "a.parquet": lambda table, path: pq.write_table(table, path, row_group_size=3),
    "a.arrow": _write_file,
    "a.ipc": _write_stream,
    "a.feather": lambda table, path: pyarrow.feather.write_feather(table, path),
}


@pytest.fixture(params=_WRITERS)
def file_name(request: pytest.FixtureRequest) -> str:
    """A file name of each format: a test that asks for one runs with all of them."""
    return request.param


@pytest.fixture(scope="session")
def write() -> Callable[[pa.Table, Path], None]:
    """Write a table to a file with one of those names; in several batches if the format has batches."""
    return lambda table, path: _WRITERS[path.name](table, path)


@pytest.fixture(scope="session")
def table() -> pa.Table:
    """A small table with nulls, a letter that is not ASCII, and a comma."""
    return pa.table({"n": [1, 2, None, 4], "x": [0.5, None, -1.0, 2.0], "s": ["a", "ü", None, "d, e"]})


@pytest.fixture(scope="session")
def rows() -> Callable[..., list[dict[str, Any]]]:
    """Return all rows of a source, from a cursor on if one is given."""

    def read(source: Source, cursor: Cursor | None = None) -> list[dict[str, Any]]:
        return [row for batch in source.batches(cursor) for row in batch.table.to_pylist()]

    return read
