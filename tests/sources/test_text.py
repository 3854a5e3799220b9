"""CSV and JSON lines: what was written is read, and what cannot be read is a clear error that names the line."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftline.sources import SourceError, WindowRule, Windows, open_source
from driftline.sources import _arrays as arrays
from driftline.sources import _readers as readers
from driftline.sources._readers import text_reader
from driftline.tables import TableEncoder, TableError


def test_csv_nulls_quotes_marks_and_line_ends(tmp_path: Path, rows: Callable[..., Any]) -> None:
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


def test_a_header_alone_has_no_rows_and_columns_without_a_name_get_one(
    tmp_path: Path, rows: Callable[..., Any]
) -> None:
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
    reader = text_reader("t", "csv")
    found, start = [], 0
    for cut in [*cuts, len(data)]:
        found += [row for t in reader.feed(data[start : start + cut]) for row in t.table.to_pylist()]
        start += cut
    found += [row for t in reader.feed(b"", final=True) for row in t.table.to_pylist()]
    assert found == [{"p": p or None, "q": q or None} for p, q in table]


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.csv", b"a,b\n1,2\n3\n", "'a.csv': line 3 has 1 field, but the header has 2"),
        ("a.csv", b'a,b\n1,"x\ny"\n\n1,2,3\n', "line 5 has 3 fields, but the header has 2"),
        ("a.csv", b"a,a\n1,2\n", "more than one column 'a'"),
        ("a.csv", b"a,b\n1,caf\xe9\n", r"line 2 is not UTF-8 \(byte 0xe9\)"),
        ("a.csv", b"\xff\xfe" + b"\x00\xd8" * 4, "'a.csv' is not UTF-16: .* illegal"),
        ("a.csv", "a,b\n1,2\n".encode("utf-16-le"), r"the header in line 1 holds NUL bytes: .* iconv -f utf-16"),
        ("a.csv", b"a,b\x00c\n1,2\n", "the header in line 1 holds NUL bytes"),
        ("a.csv", b",".join(b"c%d" % i for i in range(100_001)) + b"\n1\n", "has 100,001 columns, more than 100,000"),
        ("a.csv", b"\xe9,b\n1,2\n", "line 1 is not UTF-8"),
        ("a.csv", b"a;b\n1;2\n", "the header has semicolons but no comma: .* commas or tabs"),
        ("a.csv", b"a\tb\n1\t2\n", "the header has tabs but no comma: read it with format='tsv'"),
        ("a.csv", b"a|b\n1|2\n", r"the header has '\|' but no comma"),
        ("a.csv", b'a,b\n1,2\n3,"4\n5,6\n', "a quote opened in line 3 or later is not closed"),
        ("a.jsonl", b'{"a": 1}\n\n{"a": "x"}\n', "line 3: 'a' is text, but a number in line 1: 'x'"),
        ("a.jsonl", b'{"a": 1}\n{"a": true}\n', "line 2: 'a' is true or false, but a number in line 1"),
        ("a.jsonl", b'{"a": 1}\n{"a": [1]}\n', "line 2: 'a' is an array or an object, but a number in line 1"),
        ("a.jsonl", b'{"a": {"b": 1}}\n{"a": "x"}\n', "line 2: 'a' is text, but an array or an object in line 1"),
        ("a.jsonl", b'{"a": 1}\n{"a": \n', "line 2 is not JSON"),
        ("a.jsonl", b"1\n", "line 1 is not a JSON object"),
        ("a.json", b'[{"a": 1}, 2]\n', "element 2 is not a JSON object"),
        ("a.json", b'[{"a": 1}, {"a": 2}\n', "the JSON array is not closed: was it written to its end"),
        ("a.json", b'[{"a": 1}, {"a": \n', "element 2 is not JSON"),
        ("a.json", b'[{"a": 1}] {"a": 2}\n', "'{' after element 1 of the JSON array is not expected"),
        ("a.json", b'[{"a": ' + b"[" * 100_000, "element 1 is not JSON: maximum recursion"),
        ("a.json", b'{\n  "rows": []\n}\n', "line 1 is not JSON .*: write one object per line, or an array of objects"),
        ("a.jsonl", b"{}\n{}\n", "has rows without columns"),
        ("a.jsonl", b'{"a": "\\ud800"}\n', "column 'a' in lines 1 to 1"),
        ("a.jsonl", b'{"a": ' + b"[" * 100_000, "is not JSON"),
    ],
)
def test_text_that_cannot_be_read(
    tmp_path: Path, name: str, data: bytes, message: str, rows: Callable[..., Any]
) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(SourceError, match=message):
        rows(open_source(tmp_path / name))


def test_json_numbers(tmp_path: Path, rows: Callable[..., Any]) -> None:
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
    (note,) = TableEncoder.fit(batch.table).notes
    assert note.startswith("left out: 'tags' (bytes, nested values or values of several types")
    with pytest.raises(TableError, match="column 'tags' is named, but holds bytes, nested values"):
        TableEncoder.fit(batch.table, columns=["x", "tags"])
    assert TableEncoder.fit(batch.table, drop=["tags"]).names == ["x", "x missing"]
    assert TableEncoder.fit(batch.table, columns=["x"]).transform(batch.table).notes == ()


TABLE = [{"x": str(i), "s": f"{i} 'ü'" if i % 3 else "a, b"} for i in range(40)]


def _csv(end: str) -> str:
    return end.join(["x,s", *(f'{row["x"]},"{row["s"]}"' for row in TABLE), ""])


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.csv", _csv("\r").encode()),  # lines that end in CR alone
        ("a.csv", _csv("\r\n").encode()),
        ("a.csv", b"\xef\xbb\xbf" + _csv("\r").encode()),
        ("a.csv", _csv("\n").encode("utf-16")),
        ("a.csv", b"\xfe\xff" + _csv("\r\n").encode("utf-16-be")),
        ("a.csv", _csv("\r").encode("utf-32")),
        ("a.jsonl", "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in TABLE).encode("utf-16")),
        ("a.jsonl", "".join(json.dumps(row) + "\r" for row in TABLE).encode()),
        ("a.json", json.dumps(TABLE).encode()),
        ("a.json", b"\xef\xbb\xbf \n" + json.dumps(TABLE, indent=2, ensure_ascii=False).encode()),
        ("a.json", json.dumps(TABLE, ensure_ascii=False).encode("utf-16")),
        ("a.json", json.dumps(TABLE, indent="\t").replace("\n", "\r").encode()),
    ],
)
def test_text_in_other_encodings_and_arrays(
    tmp_path: Path, name: str, data: bytes, rows: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a file and from standard input, in blocks of any size, and from any row on."""
    (tmp_path / name).write_bytes(data)
    assert rows(open_source(tmp_path / name)) == TABLE
    with monkeypatch.context() as patched:
        patched.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(data))))
        assert rows(open_source("-")) == TABLE
    for block in (1, 7, 100):
        with monkeypatch.context() as patched:
            patched.setattr(readers, "BLOCK", block)
            assert rows(open_source(tmp_path / name)) == TABLE
            windows = list(Windows(open_source(tmp_path / name), WindowRule(window=10)))
            for k, window in enumerate(windows):
                rest = list(Windows(open_source(tmp_path / name), WindowRule(window=10), window.cursor))
                assert [w.table.to_pylist() for w in rest] == [w.table.to_pylist() for w in windows[k + 1 :]]


def test_an_element_that_does_not_end_is_not_read_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "LONGEST", 1000)
    reader = readers.text_reader("a.json", "jsonl")
    assert not list(reader.feed(b'[{"a": "' + b"x" * 900))
    with pytest.raises(SourceError, match="element 1 of the JSON array does not end"):
        list(reader.feed(b"x" * 900))


def test_a_header_of_numbers_and_a_line_without_an_end_are_noted_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, rows: Callable[..., Any]
) -> None:
    path = tmp_path / "a.csv"
    path.write_text("1.5,2\n3,4\n5,6")
    source = open_source(path)
    for _ in range(2):
        assert rows(source) == [{"1.5": "3", "2": "4"}, {"1.5": "5", "2": "6"}]
    assert [record.message for record in caplog.records] == [
        "'a.csv': the first line, '1.5,2', holds numbers, and became the names of columns",
        "'a.csv': the last line has no line end, and was read as it is: it may be half-written",
    ]
    caplog.clear()
    path.write_text("x,2\n3,4\n")
    rows(open_source(path))
    assert caplog.records == []  # a name among them is a header
