"""Writers: tables that are written can be read again; a file is written in full or not at all."""

from __future__ import annotations

import datetime as dt
import gzip
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from driftline.sources import SourceError, open_source, open_writer

TABLE = pa.table({"n": [1, None, 3], "x": [0.5, -1.0, None], "s": ['a "b"', "two\nlines", "ü"]})
NAMES = ["a.csv", "a.csv.gz", "a.tsv", "a.jsonl", "a.jsonl.gz", "a.parquet", "a.arrow", "a.feather"]


def write(path: Path, *tables: pa.Table, error: type[Exception] | None = None) -> None:
    with open_writer(path) as writer:
        for table in tables:
            writer.write(table)
        if error is not None:
            raise error


def read(path: Path) -> list[dict[str, Any]]:
    return [row for batch in open_source(path).batches() for row in batch.table.to_pylist()]


@pytest.mark.parametrize("name", NAMES)
def test_what_is_written_in_pieces_is_read_again(tmp_path: Path, name: str) -> None:
    with open_writer(tmp_path / name) as writer:
        writer.write(TABLE)
        writer.write(TABLE.select(["s", "x", "n"]))  # any order of columns
    wanted = TABLE.to_pylist() * 2
    if ".csv" in name or ".tsv" in name:
        wanted = [
            {k: None if v is None else f"{v:g}" if k == "x" else str(v) for k, v in row.items()} for row in wanted
        ]
    assert read(tmp_path / name) == wanted
    assert os.listdir(tmp_path) == [name]
    if name.endswith(".gz"):
        assert gzip.decompress((tmp_path / name).read_bytes())


@pytest.mark.parametrize("name", NAMES)
def test_an_error_leaves_things_as_they_were(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"before")
    with pytest.raises(KeyError):
        write(path, TABLE, error=KeyError)
    assert path.read_bytes() == b"before"
    assert os.listdir(tmp_path) == [name]
    with pytest.raises(SourceError, match="there were no rows to write"):
        write(path)
    assert path.read_bytes() == b"before"
    with open_writer(path) as writer:
        writer.write(TABLE)
        assert path.read_bytes() == b"before"
    assert path.read_bytes() != b"before"


def test_columns_and_types_are_those_of_the_first_table(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="column 'x' is not in all rows"):
        write(tmp_path / "a.csv", TABLE, TABLE.drop_columns(["x"]))
    with pytest.raises(SourceError, match="column 'n' was int64 at first, but is now string"):
        write(tmp_path / "a.parquet", TABLE, TABLE.set_column(0, "n", pa.array(["p", "q", "r"])))
    with open_writer(tmp_path / "a.parquet") as writer:
        writer.write(TABLE)
        writer.write(TABLE.set_column(0, "n", pa.array([7, 8, 9], pa.int8())))
    assert [row["n"] for row in read(tmp_path / "a.parquet")] == [1, None, 3, 7, 8, 9]


def test_values_that_text_cannot_express(tmp_path: Path) -> None:
    moment = dt.datetime(2024, 5, 31, 8, 15)
    odd = pa.table(
        {
            "t": pa.array([moment], pa.timestamp("ns")),
            "d": pa.array([moment.date()]),
            "k": pa.array(["red"]).dictionary_encode(),
            "m": pa.array([Decimal("1.5")]),
            "nan": [float("nan")],
            "b": [True],
        }
    )
    with open_writer(tmp_path / "a.jsonl") as writer:
        writer.write(odd)
    (row,) = read(tmp_path / "a.jsonl")
    assert row == {
        "t": "2024-05-31 08:15:00.000000000",
        "d": "2024-05-31",
        "k": "red",
        "m": 1.5,
        "nan": None,
        "b": True,
    }
    with open_writer(tmp_path / "a.csv") as writer:
        writer.write(odd)
    (row,) = read(tmp_path / "a.csv")
    assert (row["k"], row["nan"], row["d"], row["b"]) == ("red", None, "2024-05-31", "true")
    for name in ("a.csv", "b.jsonl"):
        with pytest.raises(SourceError, match="cannot be written"), open_writer(tmp_path / name) as writer:
            writer.write(pa.table({"x": [b"\xff"] if name == "b.jsonl" else [[1]]}))


def test_what_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="does not show its format"):
        open_writer(tmp_path / "a.txt")
    with pytest.raises(SourceError, match="parquet files are not gzipped"):
        open_writer(tmp_path / "a.gz", format="parquet")
    (tmp_path / "a.csv").mkdir()
    with pytest.raises(SourceError, match="is a directory"), open_writer(tmp_path / "a.csv"):
        pass
    with pytest.raises(SourceError, match="cannot be written: No such file"):
        open_writer(tmp_path / "missing" / "a.csv").__enter__()
    with pytest.raises(SourceError, match="is not open"):
        open_writer(tmp_path / "b.csv").write(TABLE)
    twice = pa.table([[1], [2]], names=["a", "a"])
    with pytest.raises(SourceError, match="two columns have the same name"), open_writer(tmp_path / "b.csv") as writer:
        writer.write(twice)


def test_a_link_stays_one_and_the_mode_is_that_of_a_new_file(tmp_path: Path) -> None:
    (tmp_path / "real.csv").write_text("")
    (tmp_path / "plain").write_text("")
    (tmp_path / "link.csv").symlink_to("real.csv")
    with open_writer(tmp_path / "link.csv") as writer:
        writer.write(TABLE)
    assert (tmp_path / "link.csv").is_symlink()
    assert len(read(tmp_path / "real.csv")) == 3
    assert (tmp_path / "real.csv").stat().st_mode == (tmp_path / "plain").stat().st_mode
