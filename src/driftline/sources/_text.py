"""Text formats: CSV, whose columns stay text, and JSON lines, whose values have types."""

from __future__ import annotations

import codecs
import csv
import io
import json
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn, Protocol

import pyarrow as pa
import pyarrow.csv as pa_csv

from driftline._errors import Message, Option
from driftline.sources._batches import SourceError
from driftline.sources._lines import Cutter
from driftline.sources._nulls import NULL_WORDS
from driftline.tables import Rows

__all__ = ["CsvParser", "JsonParser", "TextReader"]

_WORDS = {bool: "true or false", int: "a number", float: "a number", str: "text"}
_NESTED = (list, dict)


class _Parser(Protocol):
    delimiter: bytes | None

    def begin(self, records: bytes, line: int) -> int:
        """Take the header; return its length in bytes."""

    def count(self, records: bytes, line: int) -> int:
        """Return the number of rows in these records."""

    def parse(self, records: bytes, line: int) -> Rows:
        """Return these records as rows."""


class TextReader:
    """Reader of one text that comes in blocks, as rows; the first ``skip`` are left out.

    >>> reader = TextReader("a.csv", CsvParser("a.csv"), skip=1)
    >>> [rows.table.to_pylist() for rows in reader.feed(b"x,y\\n1,a\\n2,b\\n3")]
    [[{'x': '2', 'y': 'b'}]]
    >>> [rows.table.to_pylist() for rows in reader.feed(b",c", final=True)]
    [[{'x': '3', 'y': 'c'}]]
    """

    def __init__(self, name: str, parser: _Parser, skip: int = 0) -> None:
        self._name = name
        self._parser = parser
        self._cutter = Cutter(name, parser.delimiter)
        self._begun = False
        self._skip = skip

    def feed(self, block: bytes, *, final: bool = False) -> Iterator[Rows]:
        """Take a block; yield the rows that are whole by now, or all that remain if the text ends here."""
        yield from self._rows(self._cutter.push(block))
        if final:
            yield from self._rows(self._cutter.finish())
            if self._skip:
                raise SourceError(f"{self._name} is not the file that was being read: it has {self._skip} rows too few")

    def _rows(self, records: bytes) -> Iterator[Rows]:
        line = self._cutter.line
        if not self._begun:
            line += records.count(b"\n", 0, _blank(records))
            records = records[_blank(records) :]
            if records:
                header = self._parser.begin(records, line)
                self._begun = True
                line += records.count(b"\n", 0, header)
                records = records[header:]
        if _blank(records) == len(records):
            return
        if self._skip:
            count = self._parser.count(records, line)
            if count <= self._skip:
                self._skip -= count
                return
        rows = self._parser.parse(records, line).part(self._skip)
        self._skip = 0
        if rows.table.num_rows:
            yield rows


class CsvParser:
    """Parser of comma- or tab-separated records; the first is the header. Columns are text; null words become null."""

    def __init__(self, name: str, delimiter: bytes = b",", nulls: Sequence[str] = ()) -> None:
        self.delimiter: bytes | None = delimiter
        self._nulls = ["", *(nulls or NULL_WORDS)]
        self._name = name
        self._separator = delimiter.decode()
        self._columns: list[str] = []

    def begin(self, records: bytes, line: int) -> int:
        """Take the column names."""
        end = _first_record(records)
        text = _decoded(records[:end], self._name, line)
        try:
            names = next(csv.reader(io.StringIO(text, newline=""), delimiter=self._separator, strict=True))
        except (csv.Error, StopIteration) as error:
            raise SourceError(f"{self._name}: line {line} is not a header: {error}") from None
        if self._separator == "," and len(names) == 1:
            self._refuse_other(text)
        names = [name or f"column {i + 1}" for i, name in enumerate(names)]
        twice = next((name for i, name in enumerate(names) if name in names[:i]), None)
        if twice is not None:
            raise SourceError(f"{self._name} has more than one column {twice!r}: rename one of them")
        self._columns = names
        return end

    def _refuse_other(self, header: str) -> None:
        for sign, called in (("\t", "tabs"), (";", "semicolons"), ("|", "'|'")):
            if sign in header:
                tabs = Message("read it with {format}", format=Option("format", "tsv"))
                raise SourceError(
                    "{file}: the header has {called} but no comma: {advice}",
                    file=self._name,
                    called=called,
                    advice=tabs if sign == "\t" else "columns must be separated by commas or tabs",
                )

    def count(self, records: bytes, line: int) -> int:
        """Count rows, parsing no more than that needs."""
        return int(self._read(records, line, self._columns[:1]).num_rows)

    def parse(self, records: bytes, line: int) -> Rows:
        """Return rows of text, or null."""
        return Rows(self._read(records, line, self._columns), untyped=True)

    def _read(self, records: bytes, line: int, columns: list[str]) -> pa.Table:
        try:
            return pa_csv.read_csv(
                pa.BufferReader(records),
                # one block in one thread: rows stay in the order of lines, and no thread of Arrow's is still alive when
                # a command ends with an error, which would abort the process
                pa_csv.ReadOptions(column_names=self._columns, block_size=len(records) + 1, use_threads=False),
                pa_csv.ParseOptions(delimiter=self._separator, newlines_in_values=True),
                pa_csv.ConvertOptions(
                    column_types=dict.fromkeys(self._columns, pa.string()),
                    include_columns=columns,
                    strings_can_be_null=True,
                    null_values=self._nulls,
                ),
            )
        except pa.ArrowException as error:
            self._explain(records, line, error)

    def _explain(self, records: bytes, line: int, error: Exception) -> NoReturn:
        text = _decoded(records, self._name, line)
        rows = csv.reader(io.StringIO(text, newline=""), delimiter=self._separator)
        before, wanted = 0, len(self._columns)
        try:
            for row in rows:
                if row and len(row) != wanted:
                    found = f"line {line + before} has {len(row)} field{'' if len(row) == 1 else 's'}"
                    raise SourceError(f"{self._name}: {found}, but the header has {wanted}")
                before = rows.line_num
        except csv.Error as why:
            raise SourceError(f"{self._name}: line {line + before}: {why}") from None
        last = line + text.rstrip("\n").count("\n")
        raise SourceError(f"{self._name}: lines {line} to {last} cannot be read: {error}") from None


class JsonParser:
    """Parser of JSON lines: one object per line, with numbers, text, true, false or null; an absent key means null.

    A column of arrays or objects becomes their JSON as bytes, which cannot be mistaken for text: it can be left out.
    """

    delimiter: bytes | None = None

    def __init__(self, name: str) -> None:
        self._name = name

    def begin(self, records: bytes, line: int) -> int:
        """Refuse a JSON array; there is no header."""
        if records.lstrip()[:1] == b"[":
            raise SourceError(f"{self._name} begins with a JSON array: write one object per line (JSON lines)")
        return 0

    def count(self, records: bytes, line: int) -> int:
        """Count rows without parsing them."""
        return sum(1 for text in records.split(b"\n") if text.strip())

    def parse(self, records: bytes, line: int) -> Rows:
        """Return rows; each column has the type of its values, and absent ones are null."""
        lines = [(line + i, t) for i, t in enumerate(_decoded(records, self._name, line).split("\n")) if t.strip()]
        rows = [self._object(text, number) for number, text in lines]
        columns = dict.fromkeys(key for row in rows for key in row)
        numbers = [number for number, _ in lines]
        arrays = [self._array(name, [row.get(name) for row in rows], numbers) for name in columns]
        return Rows(pa.table(arrays, names=list(columns)), sparse=True)

    def _object(self, text: str, line: int) -> dict[str, Any]:
        try:
            row = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise SourceError(f"{self._name}: line {line} is not JSON: {error}") from None
        if not isinstance(row, dict):
            raise SourceError(f'{self._name}: line {line} is not a JSON object such as {{"a": 1}}')
        return row

    def _array(self, name: str, values: list[Any], lines: list[int]) -> pa.Array:
        kinds = set(map(type, values)) - {type(None)}
        if kinds and kinds <= set(_NESTED):
            return pa.array([None if v is None else self._dumped(v, name, lines) for v in values], pa.binary())
        words = {_WORDS.get(kind) for kind in kinds}
        if None in words or len(words) > 1:
            self._explain(name, values, lines)
        if int in kinds and not all(-(2**53) <= v <= 2**53 for v in values if v is not None):
            # beyond that, not every integer is exact as a float, and Arrow would refuse to mix the two
            small = float not in kinds and all(-(2**63) <= v < 2**63 for v in values if v is not None)
            values = values if small else [None if v is None else _as_float(v) for v in values]
        try:
            return pa.array(values)
        except (pa.ArrowException, ValueError) as error:  # such as half a surrogate pair
            raise self._refused(name, lines, error) from None

    def _dumped(self, value: Any, name: str, lines: list[int]) -> bytes:
        try:
            return json.dumps(value).encode()
        except RecursionError as error:
            raise self._refused(name, lines, error) from None

    def _refused(self, name: str, lines: list[int], error: Exception) -> SourceError:
        return SourceError(f"{self._name}: column {name!r} in lines {lines[0]} to {lines[-1]}: {error}")

    def _explain(self, name: str, values: list[Any], lines: list[int]) -> NoReturn:
        first: tuple[str, int] | None = None
        for value, line in zip(values, lines, strict=True):
            if value is None:
                continue
            word = _WORDS.get(type(value), "an array or an object")
            if first is None:
                first = word, line
            elif word != first[0]:
                raise SourceError(
                    f"{self._name}: line {line}: {name!r} is {word}, but {first[0]} in line {first[1]}: {value!r}"
                )
        raise AssertionError("unreachable")  # pragma: no cover


def _as_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _blank(records: bytes) -> int:
    """Return the number of leading bytes that are line ends."""
    return len(records) - len(records.lstrip(b"\r\n"))


def _first_record(records: bytes) -> int:
    """Return the end of the first record: the first line end at which all quotes are closed."""
    end = records.find(b"\n") + 1
    while end and records.count(b'"', 0, end) % 2:
        end = records.find(b"\n", end) + 1
    return end or len(records)


def _decoded(records: bytes, name: str, line: int) -> str:
    try:
        return records.decode()
    except UnicodeDecodeError as error:
        if line == 1 and records.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise SourceError(f"{name} is UTF-16; convert it first: iconv -f utf-16 -t utf-8") from None
        at = line + records.count(b"\n", 0, error.start)
        byte = records[error.start]
        raise SourceError(
            f"{name}: line {at} is not UTF-8 (byte 0x{byte:02x}); convert it first: iconv -f latin1 -t utf-8"
        ) from None
