"""Text that arrives in blocks, cut where records end: at line ends that are not inside quotes."""

from __future__ import annotations

import re

import numpy as np

from driftline.sources._batches import SourceError

__all__ = ["BEFORE", "LONGEST", "Cutter", "whole_records"]

BEFORE = 256  # bytes before a place that show, when reading resumes there, that it is the same place
LONGEST = 1 << 26  # most bytes in one record; a quote that is never closed would swallow the rest of a file
_QUOTE, _NEWLINE, _RETURN = b'"'[0], b"\n"[0], b"\r"[0]


def whole_records(data: bytes, delimiter: bytes | None) -> int:
    """Return the number of leading bytes that form whole records.

    Arguments:
        data: bytes that begin with a record.
        delimiter: delimiter of fields, which may be quoted; None if each line is a record (JSON lines).

    >>> whole_records(b'1,"two\\nlines"\\n2,"cut\\noff', b",")
    14
    """
    end = data.rfind(b"\n") + 1
    if delimiter is None or end == 0 or b'"' not in data:
        return end
    bytes_ = np.frombuffer(data, np.uint8)
    quotes = np.flatnonzero(bytes_ == _QUOTE)
    newlines = np.flatnonzero(bytes_ == _NEWLINE)
    if _in_pairs(bytes_, quotes, delimiter[0]):
        inside = np.searchsorted(quotes, newlines) % 2 == 1
    else:
        inside = _inside(data, newlines, delimiter)
    outside = newlines[~inside]
    return int(outside[-1]) + 1 if len(outside) else 0


def _in_pairs(data: np.ndarray, quotes: np.ndarray, delimiter: int) -> bool:
    """Say whether every quote opens a field, closes one, or is doubled within one: then counting quotes is enough."""
    edge = np.zeros(256, bool)
    edge[[delimiter, _NEWLINE, _RETURN, _QUOTE]] = True
    opening, closing = quotes[0::2], quotes[1::2]
    before, after = opening[opening > 0] - 1, closing[closing < len(data) - 1] + 1
    return bool(edge[data[before]].all() and edge[data[after]].all())


def _inside(data: bytes, newlines: np.ndarray, delimiter: bytes) -> np.ndarray:
    """Mark line ends inside quoted fields, for data in which unquoted fields hold quotes too, such as ``5" pipe``."""
    field = re.compile(rb"(?:\A|(?<=[\r\n" + re.escape(delimiter) + rb']))"[^"]*(?:""[^"]*)*(?:"|\Z)')
    spans = np.array([match.span() for match in field.finditer(data)], np.int64).reshape(-1, 2)
    before = np.searchsorted(spans[:, 0], newlines, side="right") - 1
    return np.asarray((before >= 0) & (newlines < np.append(spans[:, 1], 0)[before]))


class Cutter:
    """Cutter of blocks into whole records; it keeps the rest until more has come.

    Arguments:
        name: name of the text in messages.
        delimiter: delimiter of fields, which may be quoted; None if each line is a record (JSON lines).
        byte: number of bytes before the first block.
        line: number of the line that it begins with.
        before: last bytes before it.

    Attributes:
        line: number of the line, from 1, with which the records returned last begin.
        byte: number of bytes before them.
        before: last bytes before them.
    """

    def __init__(self, name: str, delimiter: bytes | None, byte: int = 0, line: int = 1, before: bytes = b"") -> None:
        self._name = name
        self._delimiter = delimiter
        self._rest = bytearray()
        self._fresh = byte == 0
        self._next_line, self._next_byte = line, byte
        self._last = b""
        self.line, self.byte = line, byte
        self.before = before

    def push(self, block: bytes) -> bytes:
        """Take a block; return the records that are whole by now."""
        self._rest += block
        end = whole_records(bytes(self._rest), self._delimiter) if b"\n" in block else 0
        if end == 0 and len(self._rest) > LONGEST:
            raise SourceError(
                f"{self._name}: the record that begins in line {self._next_line} does not end within "
                f"{LONGEST >> 20} MB: is a quote not closed, or is this not a text file?"
            )
        return self._take(end)

    def finish(self) -> bytes:
        """Return the rest: a last line without a line end."""
        rest = bytes(self._rest)
        if self._delimiter is not None and whole_records(rest + b"\n", self._delimiter) <= len(rest) > 0:
            raise SourceError(f"{self._name}: a quote opened in line {self._unclosed(rest)} or later is not closed")
        return self._take(len(rest))

    def _unclosed(self, rest: bytes) -> int:
        return self._next_line + rest.count(b"\n", 0, whole_records(rest, self._delimiter))

    def _take(self, end: int) -> bytes:
        records = bytes(self._rest[:end])
        del self._rest[:end]
        self.line, self.byte = self._next_line, self._next_byte
        self.before = (self.before + self._last)[-BEFORE:]
        self._last = records[-BEFORE:]
        self._next_line += records.count(b"\n")
        self._next_byte += len(records)
        if self._fresh and records:
            self._fresh = False
            kept = records.removeprefix(b"\xef\xbb\xbf")  # byte order mark, which spreadsheets write
            self.byte += len(records) - len(kept)
            self.before, self._last = records[: len(records) - len(kept)], kept[-BEFORE:]
            return kept
        return records
