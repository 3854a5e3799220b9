"""Sources: what was written is read, in order, from any row on; what cannot be read is a clear error."""

from __future__ import annotations

import csv
import gzip
import io
import json
import logging
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from driftline.sources import Batch, Cursor, SourceError, open_source
from driftline.sources import _files as filesets
from driftline.sources import _lines as lines
from driftline.sources import _readers as readers
from driftline.sources._batches import fingerprint, is_same_file
from driftline.sources._files import Files
from driftline.sources._lines import whole_records
from driftline.sources._open import Pipe
from driftline.tables import TableEncoder, TableError

TABLE = pa.table({"n": [1, 2, None, 4], "x": [0.5, None, -1.0, 2.0], "s": ["a", "ü", None, "d, e"]})


def write_csv(table: pa.Table, path: Path) -> None:
    with gzip.open(path, "wt", newline="") if path.suffix == ".gz" else open(path, "w", newline="") as file:
        writer = csv.writer(file, delimiter="\t" if path.suffix == ".tsv" else ",")
        writer.writerow(table.column_names)
        writer.writerows(row.values() for row in table.to_pylist())


def write_json(table: pa.Table, path: Path) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))


def write_stream(table: pa.Table, path: Path) -> None:
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=3)


def write_file(table: pa.Table, path: Path) -> None:
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=3)


WRITERS: dict[str, Callable[[pa.Table, Path], None]] = {
    "a.csv": write_csv,
    "a.csv.gz": write_csv,
    "a.tsv": write_csv,
    "a.jsonl": write_json,
    "a.ndjson": write_json,
    "a.json": write_json,
    "a.parquet": lambda table, path: pq.write_table(table, path, row_group_size=3),
    "a.arrow": write_file,
    "a.ipc": write_stream,
    "a.feather": lambda table, path: pyarrow.feather.write_feather(table, path),
}


def rows(source: Any, cursor: Cursor | None = None) -> list[dict[str, Any]]:
    return [row for batch in source.batches(cursor) for row in batch.table.to_pylist()]


def as_text(value: Any) -> str | None:
    return None if value is None else str(value)


def after(batch: Batch, total: int = 0) -> Cursor:
    return Cursor(batch.file, batch.row + batch.table.num_rows, total, batch.head)


# --- formats


@pytest.mark.parametrize("name", WRITERS)
def test_a_file_of_every_format_is_read_from_any_row_on(tmp_path: Path, name: str) -> None:
    table = pa.table({"n": range(10), "s": [f"row {i}" for i in range(10)]})
    WRITERS[name](table, tmp_path / name)
    source = open_source(tmp_path / name)
    text = ".csv" in name or ".tsv" in name
    wanted = [{k: str(v) if text else v for k, v in row.items()} for row in table.to_pylist()]
    assert rows(source) == wanted
    assert source.rows == (10 if name.endswith("parquet") else None)
    head = next(source.batches()).head
    for skip in range(11):
        assert rows(source, Cursor(name, skip, skip, head)) == wanted[skip:]
    with pytest.raises(SourceError, match="is not the file that was being read: it has 2 rows too few"):
        rows(source, Cursor(name, 12, 12, head))


@pytest.mark.parametrize("name", WRITERS)
def test_values_and_nulls_of_every_format(tmp_path: Path, name: str) -> None:
    WRITERS[name](TABLE, tmp_path / name)
    (batch,) = (
        list(open_source(tmp_path / name).batches())
        if name not in ("a.parquet", "a.arrow", "a.ipc")
        else [Batch(pa.Table.from_pylist(rows(open_source(tmp_path / name))), name, 0)]
    )
    if ".csv" in name or ".tsv" in name:
        assert batch.untyped
        assert batch.table.to_pylist() == [{k: as_text(v) for k, v in row.items()} for row in TABLE.to_pylist()]
        assert set(batch.table.schema.types) == {pa.string()}
    else:
        assert not batch.untyped
        assert batch.table.to_pylist() == TABLE.to_pylist()
    assert batch.sparse == ("json" in name)


def test_csv_nulls_quotes_marks_and_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(
        b'\xef\xbb\xbf\r\n"a b",c\r\nNA,"x ""y"""\r\n\r\nnan,"two\r\nlines"\r\n'
        b'N/A,\r\nnull,None\r\nna,5" pipe\r\n"NaN",""'
    )
    assert rows(open_source(path)) == [
        {"a b": None, "c": 'x "y"'},
        {"a b": None, "c": "two\r\nlines"},
        {"a b": None, "c": None},
        {"a b": None, "c": None},
        {"a b": "na", "c": '5" pipe'},
        {"a b": None, "c": None},
    ]


def test_a_header_alone_has_no_rows_and_columns_without_a_name_get_one(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a,b")
    assert rows(open_source(path)) == []
    path.write_text(",b\n0,x\n")
    assert rows(open_source(path)) == [{"column 1": "0", "b": "x"}]


fields = st.sampled_from(["", "a", "5", ",", '"', '""', "\n", "\r\n", " ", 'a"b', 'a,"b\nc', '"\n"', '",\n"', "ü\r"])


@given(
    table=st.lists(st.tuples(fields, fields), max_size=8),
    cuts=st.lists(st.integers(1, 40), max_size=10),
    ends=st.booleans(),
    everything=st.booleans(),
)
def test_any_csv_in_any_blocks_is_what_was_written(
    table: list[tuple[str, str]], cuts: list[int], ends: bool, everything: bool
) -> None:
    out = io.StringIO()
    writer = csv.writer(out, quoting=csv.QUOTE_ALL if everything else csv.QUOTE_MINIMAL)
    writer.writerows([("p", "q"), *table])
    data = out.getvalue().encode()
    data = data if ends else data.removesuffix(b"\r\n")
    reader = readers.text_reader("t", "csv")
    found, start = [], 0
    for cut in [*cuts, len(data)]:
        found += [row for t in reader.feed(data[start : start + cut]) for row in t.to_pylist()]
        start += cut
    found += [row for t in reader.feed(b"", final=True) for row in t.to_pylist()]
    assert found == [{"p": p or None, "q": q or None} for p, q in table]


@given(st.text(st.sampled_from('a",\n'), max_size=30))
@example('a,5" x\n1,"b\nc"\n')
def test_records_are_cut_where_a_parser_ends_them(text: str) -> None:
    """Against a state machine, a character at a time: a quote opens at a field's beginning only."""
    inside, fresh, end = False, True, 0
    i = 0
    while i < len(text):
        char = text[i]
        if inside and char == '"':
            if text[i + 1 : i + 2] == '"':
                i += 1
            else:
                inside = False
        elif not inside and char == '"' and fresh:
            inside = True
        elif not inside and char == "\n":
            end = i + 1
        fresh = not inside and char in ",\n"
        i += 1
    assert whole_records(text.encode(), b",") == end


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.csv", b"a,b\n1,2\n3\n", "'a.csv': line 3 has 1 fields, the header 2"),
        ("a.csv", b'a,b\n1,"x\ny"\n\n1,2,3\n', "line 5 has 3 fields, the header 2"),
        ("a.csv", b"a,a\n1,2\n", "more than one column 'a'"),
        ("a.csv", b"a,b\n1,caf\xe9\n", r"line 2 is not UTF-8 \(byte 0xe9\)"),
        ("a.csv", "a,b\n1,2\n".encode("utf-16"), "'a.csv' is UTF-16; convert it first: iconv -f utf-16"),
        ("a.jsonl", b"\xfe\xff" + '{"a": 1}\n'.encode("utf-16-be"), "'a.jsonl' is UTF-16; convert it first"),
        ("a.csv", b"\xe9,b\n1,2\n", "line 1 is not UTF-8"),
        ("a.csv", b"a;b\n1;2\n", "the header has semicolons but no comma: .* commas or tabs"),
        ("a.csv", b"a\tb\n1\t2\n", "the header has tabs but no comma: read it with format='tsv'"),
        ("a.csv", b"a|b\n1|2\n", r"the header has '\|' but no comma"),
        ("a.csv", b'a,b\n1,2\n3,"4\n5,6\n', "a quote is opened in line 3 or later, and not closed"),
        ("a.csv", b"", "is empty"),
        ("a.csv.gz", gzip.compress(b"a,b\n" * 99, mtime=0)[:20], "is damaged"),
        ("a.jsonl", b'{"a": 1}\n\n{"a": "x"}\n', "line 3: 'a' is text, but a number in line 1: 'x'"),
        ("a.jsonl", b'{"a": 1}\n{"a": true}\n', "line 2: 'a' is true or false, but a number in line 1"),
        ("a.jsonl", b'{"a": 1}\n{"a": [1]}\n', "line 2: 'a' is an array or an object, but a number in line 1"),
        ("a.jsonl", b'{"a": {"b": 1}}\n{"a": "x"}\n', "line 2: 'a' is text, but an array or an object in line 1"),
        ("a.jsonl", b'{"a": 1}\n{"a": \n', "line 2 is not JSON"),
        ("a.jsonl", b"1\n", "line 1 is not a JSON object"),
        ("a.json", b'[{"a": 1}]\n', "begins with a JSON array"),
        ("a.jsonl", b'{"a": "\\ud800"}\n', "column 'a' in lines 1 to 1"),
        ("a.jsonl", b'{"a": ' + b"[" * 100_000, "is not JSON"),
        ("a.parquet", b"PAR1 and no more", "cannot be read as parquet"),
        ("a.arrow", b"nothing of that kind", "cannot be read as arrow"),
        ("a.feather", b"FEA1....", "Feather file of version 1"),
    ],
)
def test_files_that_cannot_be_read(tmp_path: Path, name: str, data: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(SourceError, match=message):
        rows(open_source(tmp_path / name))


def test_a_record_without_an_end_is_refused_before_it_fills_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "LONGEST", 1000)
    reader = readers.text_reader("t", "csv")
    assert list(reader.feed(b'a,b\n1,"')) == []
    assert list(reader.feed(b"2,3\n" * 200)) == []
    with pytest.raises(SourceError, match="the record that begins in line 2 does not end"):
        list(reader.feed(b"2,3\n" * 200))


def test_json_numbers(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": 9007199254740993}\n{"b": 1, "a": 2}\n')
    assert rows(open_source(path)) == [{"a": 2**53 + 1, "b": None}, {"a": 2, "b": 1}]
    path.write_text('{"a": 1e400}\n{"a": ' + "9" * 400 + '}\n{"a": NaN}\n{"a": 9007199254740993}\n{"a": 0.5}\n')
    found = [row["a"] for row in rows(open_source(path))]
    assert str(found) == "[inf, inf, nan, 9007199254740992.0, 0.5]"


def test_nested_json_can_be_left_out_but_not_watched(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"x": 0.5, "tags": ["a"]}\n{"x": 1.5}\n{"x": 1, "tags": {"b": [1, "c"]}}\n' * 10)
    (batch,) = open_source(path).batches()
    assert batch.table["tags"].to_pylist()[:3] == [b'["a"]', None, b'{"b": [1, "c"]}']
    with pytest.raises(TableError, match=r"column 'tags' holds bytes, or arrays or objects of JSON.*drop"):
        TableEncoder.fit(batch.table)
    assert TableEncoder.fit(batch.table, drop=["tags"]).names == ["x", "x missing"]
    assert TableEncoder.fit(batch.table, columns=["x"]).transform(batch.table).notes == ()


def test_duplicate_columns_of_parquet(tmp_path: Path) -> None:
    table = pa.table([pa.array([1]), pa.array([2])], names=["a", "a"])
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(SourceError, match="more than one column 'a'"):
        rows(open_source(tmp_path / "a.parquet"))


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow", "a.ipc"])
def test_text_that_is_none_is_damage(tmp_path: Path, name: str) -> None:
    table = pa.table({"s": ["remarkable", "unremarkable"]})
    if name == "a.parquet":
        pq.write_table(table, tmp_path / name, compression="none", write_statistics=False)
    else:
        WRITERS[name](table, tmp_path / name)
    data = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(data.replace(b"mark", b"m\xe9\x00k"))
    with pytest.raises(SourceError, match=f"'{name}' is damaged|'{name}' cannot be read"):
        rows(open_source(tmp_path / name))


# --- many files


def test_directories_and_patterns_are_read_in_natural_order(tmp_path: Path) -> None:
    for name in ("part-10.csv", "part-2.csv", "part-1.csv.gz", ".hidden.csv", "part-3.csv.tmp"):
        if name.endswith(".gz"):
            (tmp_path / name).write_bytes(gzip.compress(f"name\n{name}\n".encode()))
        else:
            (tmp_path / name).write_text(f"name\n{name}\n")
    (tmp_path / "_SUCCESS").write_text("")
    (tmp_path / "more.csv").mkdir()
    wanted = [{"name": name} for name in ("part-1.csv.gz", "part-2.csv", "part-10.csv")]
    assert rows(open_source(tmp_path)) == wanted
    assert rows(open_source(str(tmp_path / "part-*.csv"))) == wanted[1:]
    assert rows(open_source(str(tmp_path / "part-?.csv*"))) == wanted[:2]
    assert open_source(tmp_path).name.endswith("(3 files)")


def test_patterns_over_directories_name_files_by_what_differs(tmp_path: Path) -> None:
    for day in ("2024-1", "2024-02", "2024-10"):
        (tmp_path / day).mkdir()
        (tmp_path / day / "a.csv").write_text(f"x\n{day}\n")
    batches = list(open_source(str(tmp_path / "*" / "a.csv")).batches())
    assert [batch.file for batch in batches] == ["2024-1/a.csv", "2024-02/a.csv", "2024-10/a.csv"]
    rest = open_source(str(tmp_path / "*" / "a.csv")).batches(after(batches[0]))
    assert [batch.table["x"][0].as_py() for batch in rest] == ["2024-02", "2024-10"]


def test_going_on_in_a_directory(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for i in range(1, 4):
        (tmp_path / f"{i}.csv").write_text(f"x\n{i}a\n{i}b\n")
    second = list(open_source(tmp_path).batches())[1]
    middle = Cursor(second.file, 1, 3, second.head)

    def left() -> list[str]:
        return [row["x"] for row in rows(open_source(tmp_path), middle)]

    assert left() == ["2b", "3a", "3b"]
    (tmp_path / "1.csv").unlink()  # done with: nobody misses it
    (tmp_path / "0.csv").write_text("x\n0a\n")
    assert left() == ["2b", "3a", "3b"]
    with open(tmp_path / "2.csv", "a") as file:  # a file may grow
        file.write("2c\n")
    assert left() == ["2b", "2c", "3a", "3b"]
    assert open_source(tmp_path).resumes(middle)
    (tmp_path / "2.csv").write_text("x\nother\nrows\n")
    with pytest.raises(SourceError, match=r"'2.csv' is not the file that was being read"):
        left()
    (tmp_path / "2.csv").unlink()
    with caplog.at_level(logging.WARNING):
        assert left() == ["3a", "3b"]
    assert "'2.csv', which was being read, is gone" in caplog.text
    assert not open_source(tmp_path).resumes(middle)


def test_one_file_under_another_name(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "b.csv").write_text("x\n1\n2\n")
    (batch,) = open_source(tmp_path / "b.csv").batches()
    cursor = Cursor("b.csv", 1, 1, batch.head)
    (tmp_path / "b.csv").rename(tmp_path / "a.csv")
    assert rows(open_source(tmp_path / "a.csv"), cursor) == [{"x": "2"}]  # the same, renamed
    (tmp_path / "a.csv").write_text("x\n3\n4\n")
    with caplog.at_level(logging.WARNING):
        assert rows(open_source(tmp_path / "a.csv"), cursor) == [{"x": "3"}, {"x": "4"}]
    assert "all rows of" in caplog.text


def test_what_is_not_there_or_cannot_be_told(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no such file or directory"):
        open_source(tmp_path / "missing.csv")
    with pytest.raises(SourceError, match="holds no file to read"):
        open_source(tmp_path)
    with pytest.raises(SourceError, match="holds no file to read"):
        open_source(str(tmp_path / "*.csv"))
    (tmp_path / "notes.txt").write_text("x\n1\n")
    with pytest.raises(SourceError, match="its name does not tell its format"):
        open_source(tmp_path / "notes.txt")
    assert rows(open_source(tmp_path / "notes.txt", format="CSV")) == [{"x": "1"}]
    with pytest.raises(SourceError, match="format='xml' is unknown"):
        open_source(tmp_path / "notes.txt", format="xml")
    (tmp_path / "a.csv").write_text("x\n1\n")
    (tmp_path / "b.jsonl").write_text('{"x": 1}\n')
    with pytest.raises(SourceError, match=r"files of different formats \(csv, jsonl\)"):
        open_source(tmp_path)
    assert rows(open_source(tmp_path, format="ndjson")) == [{"x": 1}]
    for poll in (0, -1, float("nan"), "1"):
        with pytest.raises(SourceError, match="poll="):
            open_source(tmp_path / "a.csv", poll=poll)


def test_a_file_without_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.csv").write_text("x\n1\n")

    def refuse(*_: Any) -> str:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(readers, "fingerprint", refuse)
    with pytest.raises(SourceError, match=r"'a.csv' cannot be read: Permission denied"):
        rows(open_source(tmp_path / "a.csv"))


def test_an_empty_file_among_others_is_passed_over(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "1.csv").write_text("")
    (tmp_path / "2.csv").write_text("x\n1\n")
    with caplog.at_level(logging.WARNING):
        assert rows(open_source(tmp_path)) == [{"x": "1"}]
    assert "'1.csv' is empty" in caplog.text


# --- following


class StopError(Exception):
    pass


def follow(monkeypatch: pytest.MonkeyPatch, where: Path, steps: list[Callable[[], Any]]) -> Iterator[Batch]:
    """A followed source; whenever it waits, the next step is taken, and after the last it stops."""
    left = iter(steps)

    def wait(_: Files) -> None:
        step = next(left, None)
        if step is None:
            raise StopError
        step()

    monkeypatch.setattr(Files, "_wait", wait)
    try:
        yield from open_source(where, follow=True).batches()
    except StopError:
        return


def append(path: Path, text: str) -> Callable[[], Any]:
    def step() -> None:
        with open(path, "a") as file:
            file.write(text)

    return step


def test_a_growing_file_is_read_by_whole_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.csv"
    path.write_text("x,y\n1,a\n2,")
    steps = [append(path, "b\n3"), append(path, ""), append(path, ',"c\n'), append(path, 'd"\n4,e')]
    batches = list(follow(monkeypatch, path, steps))
    assert [batch.table.to_pylist() for batch in batches] == [
        [{"x": "1", "y": "a"}],
        [{"x": "2", "y": "b"}],
        [{"x": "3", "y": "c\nd"}],
    ]
    assert [batch.row for batch in batches] == [0, 1, 2]
    assert all(is_same_file(path, batch.head) for batch in batches)
    assert batches[-1].head.startswith("23:")
    cursor = after(batches[1])
    assert rows(open_source(path), cursor) == [{"x": "3", "y": "c\nd"}, {"x": "4", "y": "e"}]


def test_new_files_end_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [
        append(tmp_path / "9.jsonl", '{"x": 1}\n{"x": 2}'),
        append(tmp_path / "10.jsonl", '{"x": 3}\n'),
        append(tmp_path / "8.jsonl", '{"x": 0}\n'),  # comes too late: it sorts before what is read
        append(tmp_path / "10.jsonl", '{"x": 4}\n'),
        (tmp_path / "10.jsonl").unlink,
        append(tmp_path / "11.jsonl", '{"x": 5}\n'),
    ]
    batches = list(follow(monkeypatch, tmp_path, steps))
    assert [row["x"] for batch in batches for row in batch.table.to_pylist()] == [1, 2, 3, 4, 5]
    assert [batch.file for batch in batches] == ["9.jsonl", "9.jsonl", "10.jsonl", "10.jsonl", "11.jsonl"]


@pytest.mark.parametrize("change", ["x\n1\n", "y\n1\n2\n3\n4\n5\n"])
def test_a_file_that_shrinks_or_is_replaced_while_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    path = tmp_path / "a.csv"
    path.write_text("x\n1\n2\n")
    with pytest.raises(SourceError, match="has shrunk or was replaced"):
        list(follow(monkeypatch, path, [lambda: path.write_text(change)]))


def test_a_followed_file_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.csv"
    path.write_text("x\n1\n2\n")
    with pytest.raises(SourceError, match=r"'a.csv' cannot be read: No such file"):
        list(follow(monkeypatch, path, [path.unlink]))


def test_a_gzipped_file_cannot_be_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"x\n1\n"))
    with pytest.raises(SourceError, match="compressed: such a file cannot be followed"):
        list(follow(monkeypatch, path, []))


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow", "a.ipc"])
def test_a_columnar_file_that_is_being_written_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    table = pa.table({"x": range(10)})
    WRITERS[name](table, tmp_path / name)
    data = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(data[: len(data) // 2])
    steps = [lambda: (tmp_path / name).write_bytes(data[:-3]), lambda: (tmp_path / name).write_bytes(data)]
    batches = list(follow(monkeypatch, tmp_path, steps))
    assert [row["x"] for batch in batches for row in batch.table.to_pylist()] == list(range(10))


def test_a_columnar_file_that_stays_unreadable_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filesets, "_PATIENCE", 3)
    (tmp_path / "a.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(SourceError, match=r"'a.parquet' cannot be read as parquet"):
        list(follow(monkeypatch, tmp_path, [lambda: None] * 3))
    assert list(follow(monkeypatch, tmp_path, [lambda: None] * 2)) == []


def test_following_waits_between_two_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.csv"
    path.write_text("x\n1\n")
    batches = open_source(path, follow=True, poll=12.5).batches()
    assert next(batches).table.to_pylist() == [{"x": "1"}]
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            append(path, "2\n")()

    monkeypatch.setattr("time.sleep", sleep)
    assert next(batches).table.to_pylist() == [{"x": "2"}]
    assert waits == [12.5] * 3


# --- pipes


class Standard:
    def __init__(self, data: bytes) -> None:
        self.buffer = io.BytesIO(data)


def stdin(monkeypatch: pytest.MonkeyPatch, data: bytes, **options: Any) -> Any:
    monkeypatch.setattr("sys.stdin", Standard(data))
    return open_source("-", **options)


def test_standard_input_is_recognised(monkeypatch: pytest.MonkeyPatch) -> None:
    assert rows(stdin(monkeypatch, b"x\n1\n2")) == [{"x": "1"}, {"x": "2"}]
    assert rows(stdin(monkeypatch, b' {"x": 1}\n')) == [{"x": 1}]
    assert rows(stdin(monkeypatch, b"x\ty\n1\t2\n", format="tsv")) == [{"x": "1", "y": "2"}]
    assert rows(stdin(monkeypatch, b"")) == []
    out = io.BytesIO()
    with pa.ipc.new_stream(out, TABLE.schema) as writer:
        writer.write_table(TABLE)
    assert rows(stdin(monkeypatch, out.getvalue())) == TABLE.to_pylist()
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
        (b"x,y\n1\n", None, "standard input: line 2 has 1 fields"),
    ],
)
def test_what_cannot_come_through_a_pipe(
    monkeypatch: pytest.MonkeyPatch, data: bytes, format: str | None, message: str
) -> None:
    with pytest.raises(SourceError, match=message):
        rows(stdin(monkeypatch, data, format=format))


def test_a_stream_goes_on_with_new_rows_or_is_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    cursor = Cursor(None, 2, 2, "")
    (batch,) = stdin(monkeypatch, b"x\n1\n2\n3\n").batches(cursor)
    assert (batch.row, batch.table.num_rows) == (2, 3)
    (batch,) = stdin(monkeypatch, b"x\n1\n2\n3\n", replay=True).batches(cursor)
    assert (batch.row, batch.table.to_pylist()) == (2, [{"x": "3"}])
    with pytest.raises(SourceError, match="it has 1 rows, but 2 were read before"):
        rows(stdin(monkeypatch, b"x\n1\n", replay=True), cursor)


def test_a_named_pipe(tmp_path: Path) -> None:
    path = tmp_path / "pipe.csv"
    os.mkfifo(path)
    thread = threading.Thread(target=lambda: path.write_text("x\n1\n2\n"), daemon=True)  # it waits for a reader
    thread.start()
    source = open_source(path)
    assert isinstance(source, Pipe)
    assert rows(source) == [{"x": "1"}, {"x": "2"}]
    thread.join()


# --- frames


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
def test_frames(frame: Any) -> None:
    wanted = [{"n": 1, "s": "a"}, {"n": 2, "s": "b"}]
    assert open_source(frame).rows == 2
    assert rows(open_source(frame)) == wanted
    assert rows(open_source([frame, frame])) == wanted * 2
    assert rows(open_source(frame for _ in range(2))) == wanted * 2
    (first, second) = open_source([frame, frame]).batches(Cursor(None, 5, 5, ""))
    assert (first.row, second.row) == (5, 7)
    assert rows(open_source([frame, frame], replay=True), Cursor(None, 3, 3, "")) == wanted[1:]


def test_a_reader_of_record_batches_is_an_iterable_of_frames() -> None:
    reader = pa.RecordBatchReader.from_batches(TABLE.schema, TABLE.to_batches(max_chunksize=2))
    assert rows(open_source(reader)) == TABLE.to_pylist()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"x": [1]}, "the source is a dict, not a frame: make one of it with pandas"),
        ([{"x": [1]}], "frame 0 is a dict, not a frame"),
        (pd.DataFrame({"x": [1]}).to_numpy(), "the source is a ndarray, not a frame: columns need names"),
        (pl.LazyFrame({"x": [1]}), "lazy frame of polars.*: collect it first"),
        (["a.csv", "b.csv"], r"frame 0 is text \('a.csv'\), not a frame: for many files, give a directory"),
        (pd.DataFrame({"x": [1, "a"]}), "cannot be made an Arrow table: .*column x"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "'a' 2 times"),
        (pa.table([[1], [2]], names=["a", "a"]), "more than one column 'a'"),
        (17, "the source is a int"),
        (None, "the source is a NoneType"),
        (b"a.csv", "the source is text"),
        ("", "is no path"),
        ("a\0b", "is no path"),
        ([pd.Series([1])], "frame 0 is a Series"),
    ],
)
def test_what_is_no_frame(data: Any, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        rows(open_source(data))


def test_errors_of_whoever_makes_the_frames_are_theirs() -> None:
    def frames() -> Iterator[pd.DataFrame]:
        yield pd.DataFrame({"x": [1]})
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        rows(open_source(frames()))


# --- cursors


@pytest.mark.parametrize(
    "change",
    [{"row": -1}, {"row": 1.5}, {"total": True}, {"file": 3}, {"head": None}, {"newest": "x"}, {"more": 1}],
)
def test_what_is_no_position(change: dict[str, Any]) -> None:
    good = Cursor("a", 1, 2, "").to_dict()
    assert Cursor.from_dict(json.loads(json.dumps(good))) == Cursor("a", 1, 2, "")
    with pytest.raises(SourceError, match="not a cursor"):
        Cursor.from_dict(good | change)


def test_a_fingerprint_holds_while_a_file_grows(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"abc")
    head = fingerprint(path)
    path.write_bytes(b"abcd" * 2000)
    assert is_same_file(path, head)
    assert fingerprint(path).startswith("4096:")
    path.write_bytes(b"ab")
    assert not is_same_file(path, head)
    for odd in ("", "x", "-1:", "99999999:00", "3:00"):
        assert not is_same_file(path, odd)


# --- fuzz: whatever the bytes are, rows or a SourceError


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("fuzz")
    kinds = TABLE.append_column("d", TABLE["s"].dictionary_encode()).append_column("b", [[True, None, False, True]])
    for name, write in WRITERS.items():
        write(kinds if name.split(".")[1] in ("parquet", "arrow", "ipc", "feather") else TABLE, folder / name)
    return {name: (folder / name).read_bytes() for name in WRITERS}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.jsonl", "a.parquet", "a.arrow", "a.ipc", "a.feather"])
@given(
    cut=st.none() | st.integers(0, 10_000),
    changes=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=6),
    skip=st.integers(0, 5),
)
def test_damaged_files_are_read_or_refused(
    tmp_path: Path, originals: dict[str, bytes], name: str, cut: int | None, changes: list[tuple[int, int]], skip: int
) -> None:
    data = bytearray(originals[name])
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
