"""Parser of JSON lines, whose values have types."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NoReturn

import pyarrow as pa

from driftline.sources._batches import SourceError, check_width
from driftline.sources._encodings import decoded
from driftline.tables import Rows

__all__ = ["JsonParser"]

_WORDS = {bool: "true or false", int: "a number", float: "a number", str: "text"}
_NESTED = (list, dict)


class JsonParser:
    """Parser of JSON lines: one object per line, with numbers, text, true, false or null; an absent key means null.

    The elements of an array of objects have become lines.

    A column of arrays or objects becomes their JSON as bytes, which cannot be mistaken for text: it can be left out.
    """

    delimiter: bytes | None = None
    remarks: Sequence[str] = ()

    def __init__(self, name: str) -> None:
        self._name = name

    def begin(self, records: bytes, line: int) -> int:
        """Return 0: there is no header."""
        return 0

    def count(self, records: bytes, line: int) -> int:
        """Count rows without parsing them."""
        return sum(1 for text in records.split(b"\n") if text.strip())

    def parse(self, records: bytes, line: int) -> Rows:
        """Return rows; each column has the type of its values, and absent ones are null."""
        lines = [(line + i, t) for i, t in enumerate(decoded(records, self._name, line).split("\n")) if t.strip()]
        rows = [self._object(text, number) for number, text in lines]
        columns = dict.fromkeys(key for row in rows for key in row)
        check_width(len(columns) if rows else 1, self._name)
        numbers = [number for number, _ in lines]
        arrays = [self._array(name, [row.get(name) for row in rows], numbers) for name in columns]
        return Rows(pa.table(arrays, names=list(columns)), sparse=True)

    def _object(self, text: str, line: int) -> dict[str, Any]:
        try:
            row = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise SourceError(
                f"{self._name}: line {line} is not JSON ({error}): write one object per line, or an array of objects"
            ) from None
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
