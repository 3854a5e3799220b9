"""Files of every format: read from any row on; damaged ones are read or refused."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from driftline.sources import Batch, Cursor, SourceError, open_source
from driftline.sources import _parquet as parquet
from driftline.tables import Rows

Write = Callable[[pa.Table, Path], None]
FUZZED = ["a.csv", "a.csv.gz", "a.jsonl", "a.parquet", "a.arrow", "a.ipc", "a.feather"]


def as_text(value: Any) -> str | None:
    return None if value is None else str(value)


def test_a_file_of_every_format_is_read_from_any_row_on(
    tmp_path: Path, file_name: str, rows: Callable[..., Any], write: Write
) -> None:
    table = pa.table({"n": range(10), "s": [f"row {i}" for i in range(10)]})
    write(table, tmp_path / file_name)
    source = open_source(tmp_path / file_name)
    text = ".csv" in file_name or ".tsv" in file_name
    wanted = [{k: str(v) if text else v for k, v in row.items()} for row in table.to_pylist()]
    assert rows(source) == wanted
    assert source.rows == (10 if file_name.endswith("parquet") else None)
    head = next(source.batches()).head
    for skip in range(11):
        assert rows(source, Cursor(file_name, skip, skip, head)) == wanted[skip:]
    with pytest.raises(SourceError, match="is not the file that was being read: it has 2 rows too few"):
        rows(source, Cursor(file_name, 12, 12, head))


def test_values_and_nulls_of_every_format(
    tmp_path: Path, file_name: str, rows: Callable[..., Any], table: pa.Table, write: Write
) -> None:
    write(table, tmp_path / file_name)
    (batch,) = (
        list(open_source(tmp_path / file_name).batches())
        if file_name not in ("a.parquet", "a.arrow", "a.ipc")
        else [Batch(Rows(pa.Table.from_pylist(rows(open_source(tmp_path / file_name)))), file_name, 0)]
    )
    if ".csv" in file_name or ".tsv" in file_name:
        assert batch.rows.untyped
        assert batch.table.to_pylist() == [{k: as_text(v) for k, v in row.items()} for row in table.to_pylist()]
        assert set(batch.table.schema.types) == {pa.string()}
    else:
        assert not batch.rows.untyped
        assert batch.table.to_pylist() == table.to_pylist()
    assert batch.rows.sparse == ("json" in file_name)


def test_duplicate_columns_of_parquet(tmp_path: Path, rows: Callable[..., Any]) -> None:
    table = pa.table([pa.array([1]), pa.array([2])], names=["a", "a"])
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(SourceError, match="more than one column 'a'"):
        rows(open_source(tmp_path / "a.parquet"))


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.csv.gz", gzip.compress(b"a,b\n" * 99, mtime=0)[:20], "is damaged"),
        ("a.parquet", b"PAR1 and no more", "cannot be read as parquet"),
        ("a.arrow", b"nothing of that kind", "cannot be read as arrow"),
        ("a.feather", b"FEA1....", "Feather file of version 1"),
    ],
)
def test_files_that_cannot_be_read(
    tmp_path: Path, name: str, data: bytes, message: str, rows: Callable[..., Any]
) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(SourceError, match=message):
        rows(open_source(tmp_path / name))


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow", "a.ipc"])
def test_invalid_text_is_damage(tmp_path: Path, name: str, rows: Callable[..., Any], write: Write) -> None:
    table = pa.table({"s": ["remarkable", "unremarkable"]})
    if name == "a.parquet":
        pq.write_table(table, tmp_path / name, compression="none", write_statistics=False)
    else:
        write(table, tmp_path / name)
    data = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(data.replace(b"mark", b"m\xe9\x00k"))
    with pytest.raises(SourceError, match=f"'{name}' is damaged|'{name}' cannot be read"):
        rows(open_source(tmp_path / name))


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory, table: pa.Table, write: Write) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("fuzz")
    more_kinds = table.append_column("d", table["s"].dictionary_encode()).append_column(
        "b", [[True, None, False, True]]
    )
    for name in FUZZED:
        write(more_kinds if name.split(".")[1] in ("parquet", "arrow", "ipc", "feather") else table, folder / name)
    return {name: (folder / name).read_bytes() for name in FUZZED}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@pytest.mark.parametrize("name", FUZZED)
@given(
    cut=st.none() | st.integers(0, 10_000),
    changes=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=6),
    skip=st.integers(0, 5),
)
def test_damaged_files_are_read_or_refused(
    tmp_path: Path,
    intact: dict[str, bytes],
    name: str,
    cut: int | None,
    changes: list[tuple[int, int]],
    skip: int,
    rows: Callable[..., Any],
) -> None:
    data = bytearray(intact[name])
    for at, value in changes:
        data[at % len(data)] = value
    if cut is not None:
        del data[cut % len(data) :]
    (tmp_path / name).write_bytes(data)
    try:
        found = rows(open_source(tmp_path / name), Cursor(name, skip, skip, ""))
    except SourceError:
        return
    assert isinstance(found, list)


@pytest.mark.parametrize("kind", ["text", "list"])
def test_parquet_values_that_would_not_fit_in_memory_are_refused(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few hundred bytes may stand for gigabytes; nothing of that size is made."""
    path = tmp_path / "a.parquet"
    if kind == "text":
        column = pa.DictionaryArray.from_arrays(pa.array([0] * 65536, pa.int32()), pa.array(["a" * 60_000]))
        message = "65,536 rows would take more than 1 GB in memory, since values of column 'c' have up to 60,000 bytes"
    else:
        monkeypatch.setattr(parquet, "LARGEST", 1 << 24)
        column = pa.ListArray.from_arrays(pa.array([0, 3_000_000], pa.int32()), pa.nulls(3_000_000, pa.int8()))
        message = r"'c\.list\.element' has 3,000,000 values in 1 rows, which would take more than"
    pq.write_table(pa.table({"c": column}), path, compression="zstd", store_schema=False)
    assert path.stat().st_size < 1000
    before = pa.default_memory_pool().max_memory()
    with pytest.raises(SourceError, match=message):
        list(open_source(path).batches())
    assert pa.default_memory_pool().max_memory() <= max(before, 1 << 28)


def test_parquet_text_is_what_it_was_however_it_is_packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [None, "a", "b" * 50, ""] * 300
    table = pa.table(
        {
            "s": texts,
            "l": pa.array(texts, pa.large_string()),
            "b": pa.array([None if t is None else t.encode() for t in texts], pa.binary()),
            "d": pa.array(texts).dictionary_encode(),
            "n": pa.nulls(1200, pa.string()),
            "i": range(1200),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=500)
    pq.write_table(table, tmp_path / "b.parquet", use_dictionary=False, column_encoding={"s": "DELTA_BYTE_ARRAY"})
    monkeypatch.setattr(parquet, "_USUAL", 1 << 14)
    for name in ("a.parquet", "b.parquet"):
        batches = [batch.table for batch in open_source(tmp_path / name).batches()]
        assert len(batches) > 2
        assert all(batch.schema.types == table.schema.types for batch in batches)
        assert pa.concat_tables(batches).to_pylist() == table.to_pylist()
        again = open_source(tmp_path / name).batches(Cursor(name, 700, 700, ""))
        assert pa.concat_tables(batch.table for batch in again).to_pylist() == table.to_pylist()[700:]


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow"])
def test_a_file_without_columns(tmp_path: Path, name: str) -> None:
    table = pa.table({"x": [1, 2]}).select([])
    if name == "a.parquet":
        pq.write_table(table, tmp_path / name)
    else:
        with pa.OSFile(str(tmp_path / name), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
            writer.write_batch(pa.record_batch([], names=[]))
    with pytest.raises(SourceError, match="has rows without columns: there is nothing to watch"):
        list(open_source(tmp_path / name).batches())
