"""Text that comes in blocks as rows, and the parser of CSV, whose columns stay text."""

from __future__ import annotations

import codecs
import csv
import io
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NoReturn, Protocol

import pyarrow as pa
import pyarrow.csv as pa_csv

from driftline._errors import Message, Option
from driftline._wording import shortened
from driftline.sources._arrays import ArrayCutter
from driftline.sources._batches import Mark, SourceError, check_width, fingerprint
from driftline.sources._encodings import Recoder, decoded
from driftline.sources._lines import BEFORE, Cutter
from driftline.sources._nulls import NULL_WORDS
from driftline.tables import Rows

__all__ = ["CsvParser", "TextReader"]


class _Parser(Protocol):
    delimiter: bytes | None
    remarks: Sequence[str]

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
        self._recoder = Recoder(name)
        self._cutter: Cutter | ArrayCutter = Cutter(name, parser.delimiter)
        self._chosen = parser.delimiter is not None  # whether it is known that the text is, or is not, a JSON array
        self._blanks = b""  # before that is known
        self._begun = False
        self._skip = skip
        self._row = 0
        self._mark: Mark | None = None
        self._cut_off = False

    @property
    def remarks(self) -> list[str]:
        """What a person should know about the text so far: names that are numbers, a last line that has no end."""
        cut = f"{self._name}: the last line has no line end, and was read as it is: it may be half-written"
        return [*self._parser.remarks, *([cut] if self._cut_off else [])]

    @property
    def mark(self) -> Mark | None:
        """Place of the rows yielded last, or one before them, in the bytes of the file; None if it cannot be told."""
        return self._mark

    def feed(self, block: bytes, *, final: bool = False) -> Iterator[Rows]:
        """Take a block; yield the rows that are whole by now, or all that remain if the text ends here."""
        yield from self._rows(self._cut(block, final))
        if final:
            rest = self._cutter.finish()
            self._cut_off = bool(rest.strip()) and self._parser.delimiter is not None
            yield from self._rows(rest)
            if self._skip:
                raise SourceError(f"{self._name} is not the file that was being read: it has {self._skip} rows too few")

    def begin(self, block: bytes) -> bool:
        """Take a block for its header alone; say whether that was whole, so that reading may go on from a mark."""
        self._begin(self._cut(block, final=False), self._cutter.line)
        return self._begun or self._parser.delimiter is None

    def go_on(self, mark: Mark, before: bytes, skip: int) -> None:
        """Go on from a mark, after :meth:`begin`; the first ``skip`` rows from there on are left out."""
        self._cutter = Cutter(self._name, self._parser.delimiter, mark.byte, mark.line, before)
        self._begun, self._row, self._skip = True, mark.row, skip

    def _cut(self, block: bytes, final: bool) -> bytes:
        text = self._blanks + self._recoder.push(block, final=final)
        self._blanks = b""
        if not self._chosen:
            first = text.removeprefix(codecs.BOM_UTF8).lstrip()[:1]
            if not first and not final:
                self._blanks = text
                return b""
            self._chosen = True
            if first == b"[":
                self._cutter = ArrayCutter(self._name)
        return self._cutter.push(text)

    def _begin(self, records: bytes, line: int) -> int:
        """Take the header, if it has not been; return the number of bytes that hold no rows."""
        blank = _blank(records)
        if self._begun or blank == len(records):
            return 0
        self._begun = True
        return blank + self._parser.begin(records[blank:], line + records.count(b"\n", 0, blank))

    def _rows(self, records: bytes) -> Iterator[Rows]:
        line, header = self._cutter.line, self._begin(records, self._cutter.line)
        mark = self._marked(records, header)
        line += records.count(b"\n", 0, header)
        records = records[header:]
        if _blank(records) == len(records):
            return
        if self._skip:
            count = self._parser.count(records, line)
            if count <= self._skip:
                self._skip -= count
                self._row += count
                return
        rows = self._parser.parse(records, line)
        self._row += rows.table.num_rows
        rows, self._skip, self._mark = rows.part(self._skip), 0, mark
        if rows.table.num_rows:
            yield rows

    def _marked(self, records: bytes, header: int) -> Mark | None:
        """Return the place where the rows of these records begin."""
        if isinstance(self._cutter, ArrayCutter) or self._recoder.encoding is not None:
            return None
        before = (self._cutter.before + records[:header])[-BEFORE:].replace(b"\r", b"\n")
        line = self._cutter.line + records.count(b"\n", 0, header)
        return Mark(self._cutter.byte + header, self._row, line, fingerprint(before))


class CsvParser:
    """Parser of comma- or tab-separated records; the first is the header. Columns are text; null words become null."""

    def __init__(self, name: str, delimiter: bytes = b",", nulls: Sequence[str] = ()) -> None:
        self.delimiter: bytes | None = delimiter
        self._nulls = ["", *(nulls or NULL_WORDS)]
        self._name = name
        self._separator = delimiter.decode()
        self._columns: list[str] = []
        self.remarks: Sequence[str] = ()

    def begin(self, records: bytes, line: int) -> int:
        """Take the column names."""
        end = _first_record(records)
        text = decoded(records[:end], self._name, line)
        try:
            names = next(csv.reader(io.StringIO(text, newline=""), delimiter=self._separator, strict=True))
        except (csv.Error, StopIteration) as error:
            raise SourceError(f"{self._name}: line {line} is not a header: {error}") from None
        if self._separator == "," and len(names) == 1:
            self._refuse_other(text)
        if "\0" in text:
            raise SourceError(
                f"{self._name}: the header in line {line} holds NUL bytes: this is not text in UTF-8 (or it is UTF-16 "
                "without a byte order mark: convert it with iconv -f utf-16 -t utf-8)"
            )
        if all(map(_is_number, names)):
            first = shortened(text.strip(), 40)
            self.remarks = [f"{self._name}: the first line, {first!r}, holds numbers, and became the names of columns"]
        names = [name or f"column {i + 1}" for i, name in enumerate(names)]
        check_width(len(names), self._name)
        twice = next((name for name, count in Counter(names).items() if count > 1), None)
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
        text = decoded(records, self._name, line)
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


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _blank(records: bytes) -> int:
    """Return the number of leading bytes that are line ends."""
    return len(records) - len(records.lstrip(b"\r\n"))


def _first_record(records: bytes) -> int:
    """Return the end of the first record: the first line end at which all quotes are closed."""
    end = records.find(b"\n") + 1
    while end and records.count(b'"', 0, end) % 2:
        end = records.find(b"\n", end) + 1
    return end or len(records)
