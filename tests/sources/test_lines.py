"""Records are cut where a parser ends them."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from driftline.sources import SourceError
from driftline.sources import _lines as lines
from driftline.sources._lines import whole_records
from driftline.sources._readers import text_reader


@given(st.text(st.sampled_from('a",\n'), max_size=30))
@example('a,5" x\n1,"b\nc"\n')
def test_records_are_cut_where_a_parser_ends_them(text: str) -> None:
    """Compare with a state machine that takes one character at a time: a quote opens only at the start of a field."""
    inside, fresh, end = False, True, 0
    i = 0
    while i < len(text):
        char = text[i]
        if inside and char == '"':
            if text[i + 1 : i + 2] == '"':
                i += 1
            else:
                inside = False
        elif not inside and char == '"' and fresh:
            inside = True
        elif not inside and char == "\n":
            end = i + 1
        fresh = not inside and char in ",\n"
        i += 1
    assert whole_records(text.encode(), b",") == end


def test_a_record_without_an_end_is_refused_before_it_fills_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "LONGEST", 1000)
    reader = text_reader("t", "csv")
    assert list(reader.feed(b'a,b\n1,"')) == []
    assert list(reader.feed(b"2,3\n" * 200)) == []
    with pytest.raises(SourceError, match="the record that begins in line 2 does not end"):
        list(reader.feed(b"2,3\n" * 200))
