"""Cursors and fingerprints: written and restored, or refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from driftline.sources import Cursor, SourceError
from driftline.sources._batches import HEAD, begins_as, fingerprint


@pytest.mark.parametrize(
    "change",
    [{"row": -1}, {"row": 1.5}, {"total": True}, {"file": 3}, {"head": None}, {"newest": "x"}, {"more": 1}],
)
def test_what_is_not_a_cursor(change: dict[str, Any]) -> None:
    good = Cursor("a", 1, 2, "").to_dict()
    assert Cursor.from_dict(json.loads(json.dumps(good))) == Cursor("a", 1, 2, "")
    with pytest.raises(SourceError, match="not a cursor"):
        Cursor.from_dict(good | change)


def test_a_fingerprint_holds_while_a_file_grows() -> None:
    head = fingerprint(b"abc")
    assert begins_as(b"abcd" * 1000, head)
    assert fingerprint((b"abcd" * 2000)[:HEAD]).startswith("4096:")
    assert not begins_as(b"ab", head)
    for odd in ("", "x", "-1:", "99999999:00", "3:00"):
        assert not begins_as(b"abc", odd)
