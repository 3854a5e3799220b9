"""Cursors and fingerprints: written and restored, or refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from driftline.sources import Cursor, SourceError
from driftline.sources._batches import fingerprint, is_same_file


@pytest.mark.parametrize(
    "change",
    [{"row": -1}, {"row": 1.5}, {"total": True}, {"file": 3}, {"head": None}, {"newest": "x"}, {"more": 1}],
)
def test_what_is_not_a_cursor(change: dict[str, Any]) -> None:
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
