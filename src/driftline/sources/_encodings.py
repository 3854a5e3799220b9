"""Bytes of a text as UTF-8 with plain line ends: UTF-16 and UTF-32 with a byte order mark, and CR as a line end."""

from __future__ import annotations

import codecs

from driftline.sources._batches import SourceError

__all__ = ["Recoder", "decoded"]

# UTF-32 first: its mark begins with that of UTF-16
_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


class Recoder:
    """Recoder of a text that comes in blocks; most pass as they are.

    The first bytes say whether it is UTF-16 or UTF-32, the first line end whether lines end in CR alone.

    Attributes:
        encoding: name of the encoding, if the text had to be recoded, so that places in it are not those in its file.

    >>> recoder = Recoder("a.csv")
    >>> recoder.push("x,y\\r1,2".encode("utf-16")) + recoder.push(b"", final=True), recoder.encoding
    (b'x,y\\n1,2', 'utf-16')
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._start: bytes | None = b""  # None once the encoding is known
        self._decoder: codecs.IncrementalDecoder | None = None
        self._returns: bool | None = None  # whether lines end in CR; None if no line end has come
        self._held = b""
        self.encoding: str | None = None

    def push(self, block: bytes, *, final: bool = False) -> bytes:
        """Take a block; return what is known of the text by now."""
        if self._start is not None:
            block = self._start + block
            if len(block) < 4 and not final:
                self._start = block
                return b""
            self._start = None
            self.encoding = next((name for mark, name in _MARKS.items() if block.startswith(mark)), None)
            if self.encoding is not None:
                self._decoder = codecs.getincrementaldecoder(self.encoding)()
        return self._with_line_ends(self._decoded(block, final), final)

    def _decoded(self, block: bytes, final: bool) -> bytes:
        if self._decoder is None:
            return block
        try:
            return self._decoder.decode(block, final).encode()
        except UnicodeError as error:
            raise SourceError(f"{self._name} is not {str(self.encoding).upper()}: {error}") from None

    def _with_line_ends(self, text: bytes, final: bool) -> bytes:
        if self._returns is None:
            text, self._held = self._held + text, b""
            at = text.find(b"\r")
            if (newline := text.find(b"\n")) >= 0 and (at < 0 or newline < at):
                self._returns = False
            elif at >= 0 and at == len(text) - 1 and not final:  # a LF may follow
                self._held = text[at:]
                return text[:at]
            elif at >= 0:
                self._returns = text[at + 1 : at + 2] != b"\n"
        return text.replace(b"\r", b"\n") if self._returns else text


def decoded(records: bytes, name: str, line: int) -> str:
    """Decode UTF-8 that begins in this line; anything else is an error that names the line and what to do."""
    try:
        return records.decode()
    except UnicodeDecodeError as error:
        at = line + records.count(b"\n", 0, error.start)
        byte = records[error.start]
        raise SourceError(
            f"{name}: line {at} is not UTF-8 (byte 0x{byte:02x}); convert it first: iconv -f latin1 -t utf-8"
        ) from None
