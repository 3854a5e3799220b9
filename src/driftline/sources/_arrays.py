"""JSON arrays of objects that come in blocks, as JSON lines."""

from __future__ import annotations

import codecs
import json

from driftline.sources._batches import SourceError
from driftline.sources._lines import LONGEST

__all__ = ["ArrayCutter"]

_BLANK = " \t\r\n"


class ArrayCutter:
    """Cutter of ``[{...}, {...}]`` into one object per line; it keeps the rest until more has come.

    Attributes:
        line: number of the element, from 1, with which the lines returned last begin.

    >>> cutter = ArrayCutter("a.json")
    >>> cutter.push(b'[{"x": 1}, {"x"'), cutter.push(b": 2}]")
    (b'{"x": 1}\\n', b'{"x": 2}\\n')
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._json = json.JSONDecoder()
        self._rest = ""
        self._expected = "["  # then an object or the end, then a comma or the end
        self._next = 1
        self.line = 1

    def push(self, block: bytes, *, final: bool = False) -> bytes:
        """Take a block; return the elements that are whole by now."""
        try:
            self._rest += self._decoder.decode(block, final)
        except UnicodeDecodeError as error:
            raise SourceError(f"{self._name}: element {self._next} or later is not UTF-8: {error}") from None
        found, at = [], 0
        self.line = self._next
        while True:
            while at < len(self._rest) and self._rest[at] in _BLANK:
                at += 1
            if at == len(self._rest):
                break
            if self._expected == "{" and self._rest[at] == "{":
                end = self._object_end(at, final)
                if end is None:
                    break
                # a line end can only stand between values: within text it is written as \n
                found.append(self._rest[at:end].replace("\n", " ").replace("\r", " "))
                self._next, self._expected, at = self._next + 1, ",", end
            else:
                self._expected = self._after(self._rest[at])
                at += 1
        self._rest = self._rest[at:]
        return "".join(f"{text}\n" for text in found).encode()

    def finish(self) -> bytes:
        """Return the rest; an array that is not closed is an error."""
        found = self.push(b"", final=True)
        if self._expected not in ("end", "["):
            raise SourceError(f"{self._name}: the JSON array is not closed: was it written to its end?")
        return found

    def _after(self, sign: str) -> str:
        """Return what is expected after a bracket or a comma."""
        if sign == "[" and self._expected == "[":
            return "{"
        if sign == "]" and self._expected in ("{", ","):
            return "end"
        if sign == "," and self._expected == ",":
            return "{"
        if self._expected == "{":
            raise SourceError(f'{self._name}: element {self._next} is not a JSON object such as {{"a": 1}}')
        raise SourceError(f"{self._name}: {sign!r} after element {self._next - 1} of the JSON array is not expected")

    def _object_end(self, start: int, final: bool) -> int | None:
        """Return the end of the object that begins there; None if it is not whole yet."""
        try:
            return self._json.raw_decode(self._rest, start)[1]
        except RecursionError as error:
            raise SourceError(f"{self._name}: element {self._next} is not JSON: {error}") from None
        except ValueError as error:
            if final:
                raise SourceError(f"{self._name}: element {self._next} is not JSON: {error}") from None
            if len(self._rest) - start > LONGEST:
                raise SourceError(
                    f"{self._name}: element {self._next} of the JSON array does not end within {LONGEST >> 20} MB: "
                    f"is it JSON? ({error})"
                ) from None
            return None
