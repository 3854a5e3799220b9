"""Files, directories and patterns: read in order, from any row on, and followed as they grow."""

from __future__ import annotations

import gzip
import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from driftline.sources import Batch, Cursor, SourceError, WindowRule, Windows, open_source, open_writer
from driftline.sources import _files as files
from driftline.sources import _readers as readers
from driftline.sources._batches import begins_as
from driftline.sources._files import Files

Write = Callable[[pa.Table, Path], None]


def after(batch: Batch, total: int = 0) -> Cursor:
    return Cursor(batch.file, batch.row + batch.table.num_rows, total, batch.head)


def test_directories_and_patterns_are_read_in_natural_order(tmp_path: Path, rows: Callable[..., Any]) -> None:
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


def test_continuing_in_a_directory(tmp_path: Path, caplog: pytest.LogCaptureFixture, rows: Callable[..., Any]) -> None:
    for i in range(1, 4):
        (tmp_path / f"{i}.csv").write_text(f"x\n{i}a\n{i}b\n")
    second = list(open_source(tmp_path).batches())[1]
    middle = Cursor(second.file, 1, 3, second.head)

    def left() -> list[str]:
        return [row["x"] for row in rows(open_source(tmp_path), middle)]

    assert left() == ["2b", "3a", "3b"]
    (tmp_path / "1.csv").unlink()  # already read: it is not missed
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


def test_one_file_under_another_name(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, rows: Callable[..., Any]
) -> None:
    (tmp_path / "b.csv").write_text("x\n1\n2\n")
    (batch,) = open_source(tmp_path / "b.csv").batches()
    cursor = Cursor("b.csv", 1, 1, batch.head)
    (tmp_path / "b.csv").rename(tmp_path / "a.csv")
    assert rows(open_source(tmp_path / "a.csv"), cursor) == [{"x": "2"}]  # the same, renamed
    (tmp_path / "a.csv").write_text("x\n3\n4\n")
    with caplog.at_level(logging.WARNING):
        assert rows(open_source(tmp_path / "a.csv"), cursor) == [{"x": "3"}, {"x": "4"}]
    assert "all rows of" in caplog.text


def test_files_that_are_not_there_or_have_no_known_format(tmp_path: Path, rows: Callable[..., Any]) -> None:
    with pytest.raises(SourceError, match="no such file or directory"):
        open_source(tmp_path / "missing.csv")
    with pytest.raises(SourceError, match="holds no file to read"):
        open_source(tmp_path)
    with pytest.raises(SourceError, match="holds no file to read"):
        open_source(str(tmp_path / "*.csv"))
    (tmp_path / "notes.txt").write_text("x\n1\n")
    with pytest.raises(SourceError, match="its name does not show its format"):
        open_source(tmp_path / "notes.txt")
    assert rows(open_source(tmp_path / "notes.txt", format="CSV")) == [{"x": "1"}]
    (tmp_path / "a.csv").write_text("x\n1\n")
    (tmp_path / "b.jsonl").write_text('{"x": 1}\n')
    with pytest.raises(SourceError, match=r"files of different formats \(csv, jsonl\)"):
        open_source(tmp_path)
    assert rows(open_source(tmp_path, format="ndjson")) == [{"x": 1}]


def test_a_file_without_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: Callable[..., Any]) -> None:
    (tmp_path / "a.csv").write_text("x\n1\n")

    def refuse(*_: Any) -> str:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(SourceError, match=r"'a.csv' cannot be read: Permission denied"):
        rows(open_source(tmp_path / "a.csv"))


@pytest.mark.parametrize("by_time", [False, True])
def test_a_file_is_opened_once_for_its_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_time: bool) -> None:
    path, opened, open_path = tmp_path / "a.csv", [], Path.open
    path.write_text("t,x\n" + "".join(f"2024-01-{1 + i // 10:02d},{i}\n" for i in range(50)))

    def counted(self: Path, *args: Any, **more: Any) -> Any:
        opened.extend([self.name] * (self == path))
        return open_path(self, *args, **more)

    monkeypatch.setattr(Path, "open", counted)
    rule = WindowRule(time_column="t", every="1d") if by_time else WindowRule(window=10)
    windows = list(Windows(open_source(path), rule))
    first = ["a.csv"] * (1 + by_time)  # times are looked at before anything is measured
    assert opened == first
    assert list(Windows(open_source(path), rule, windows[1].cursor)) == windows[2:]
    assert opened == [*first, "a.csv"]


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.csv.gz"])
def test_reading_resumes_at_a_byte(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is before the mark is not read again, except the header; a compressed file has no marks."""
    monkeypatch.setattr(readers, "BLOCK", 1000)
    with open_writer(tmp_path / name) as writer:
        writer.write(pa.table({"x": range(5000), "s": ['a "quoted"\nline', "plain"] * 2500}))
    rule = WindowRule(window=1000)
    windows = list(Windows(open_source(tmp_path / name), rule))
    read: list[int] = []
    feed = readers.TextReader.feed

    def counted(self: Any, block: bytes, **more: Any) -> Any:
        read.append(len(block))
        return feed(self, block, **more)

    monkeypatch.setattr(readers.TextReader, "feed", counted)
    for k, window in enumerate(windows):
        assert (window.cursor.mark is None) == name.endswith(".gz")
        cursor = Cursor.from_dict(json.loads(json.dumps(window.cursor.to_dict())))
        read.clear()
        rest = list(Windows(open_source(tmp_path / name), rule, cursor))
        assert [(w.table, w.first_row, w.cursor.row) for w in rest] == [
            (w.table, w.first_row, w.cursor.row) for w in windows[k + 1 :]
        ]
        if window.cursor.mark is not None:
            size = (tmp_path / name).stat().st_size
            assert sum(read) == size - window.cursor.mark.byte < size * (1 - 0.2 * k)


def test_a_file_that_changed_before_the_mark_is_not_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: Callable[..., Any]
) -> None:
    monkeypatch.setattr(readers, "BLOCK", 1000)
    path, lines = tmp_path / "a.csv", ["x,y\n", *(f"{i},{i % 7}\n" for i in range(3000))]
    path.write_text("".join(lines))
    (cursor,) = {window.cursor for window in Windows(open_source(path), WindowRule(window=2500))}
    assert cursor.mark is not None
    assert rows(open_source(path), cursor)[0] == {"x": "2500", "y": "1"}
    for changed in (lines[:1500] + lines[1501:], lines[:2000]):
        path.write_text("".join(changed))
        with pytest.raises(SourceError, match=r"'a.csv' is not the file that was being read: the bytes before byte"):
            rows(open_source(path), cursor)


def test_an_empty_file_alone_is_an_error(tmp_path: Path, rows: Callable[..., Any]) -> None:
    (tmp_path / "a.csv").write_text("")
    with pytest.raises(SourceError, match="is empty"):
        rows(open_source(tmp_path / "a.csv"))


def test_an_empty_file_among_others_is_passed_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, rows: Callable[..., Any]
) -> None:
    (tmp_path / "1.csv").write_text("")
    (tmp_path / "2.csv").write_text("x\n1\n")
    with caplog.at_level(logging.WARNING):
        assert rows(open_source(tmp_path)) == [{"x": "1"}]
    assert "'1.csv' is empty" in caplog.text


class StopError(Exception):
    pass


def follow(monkeypatch: pytest.MonkeyPatch, where: Path, steps: list[Callable[[], Any]]) -> Iterator[Batch]:
    """Follow a source; whenever it waits, the next step is taken, and after the last step it stops."""
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


def test_a_growing_file_is_read_by_whole_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: Callable[..., Any]
) -> None:
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
    assert all(begins_as(path.read_bytes(), batch.head) for batch in batches)
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
    with pytest.raises(SourceError, match="a compressed file cannot be followed"):
        list(follow(monkeypatch, path, []))


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow", "a.ipc"])
def test_a_columnar_file_that_is_being_written_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, write: Write
) -> None:
    table = pa.table({"x": range(10)})
    write(table, tmp_path / name)
    data = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(data[: len(data) // 2])
    steps = [lambda: (tmp_path / name).write_bytes(data[:-3]), lambda: (tmp_path / name).write_bytes(data)]
    batches = list(follow(monkeypatch, tmp_path, steps))
    assert [row["x"] for batch in batches for row in batch.table.to_pylist()] == list(range(10))


def test_a_columnar_file_that_stays_unreadable_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_PATIENCE", 3)
    (tmp_path / "a.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(SourceError, match=r"'a.parquet' cannot be read as parquet"):
        list(follow(monkeypatch, tmp_path, [lambda: None] * 3))
    assert list(follow(monkeypatch, tmp_path, [lambda: None] * 2)) == []


def test_following_waits_between_two_checks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
