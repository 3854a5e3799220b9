"""Rows of several files or frames in one window: columns and types that differ are an error, or noted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftline.sources import Batch, Cursor, SourceError, WindowRule, Windows, open_source
from driftline.tables import Rows


def test_missing_columns_are_an_error_or_null_with_a_note() -> None:
    frames = [pa.table({"x": range(6), "y": range(6)}), pa.table({"x": range(6)})]
    with pytest.raises(SourceError, match="column 'y' is in rows from 1 on, but not in rows from 7 on"):
        list(Windows(open_source(frames), WindowRule(window=12)))
    (window,) = Windows(open_source(frames), WindowRule(window=12, schema="lenient"))
    assert window.table["y"].null_count == 6
    assert window.note == "not in all rows: column 'y'"


def test_types_that_differ_within_a_window() -> None:
    frames = [pa.table({"x": range(6)}), pa.table({"x": ["a"] * 6})]
    with pytest.raises(SourceError, match="column 'x' holds int64 in rows from 1 on, but string in rows from 7 on"):
        list(Windows(open_source(frames), WindowRule(window=12)))
    (window,) = Windows(open_source(frames), WindowRule(window=12, schema="lenient"))
    assert window.table["x"].to_pylist() == [*"012345", *"aaaaaa"]
    assert window.note == "not of one type: column 'x'"
    for other in (
        [0.5] * 6,
        pa.array([None] * 6),
    ):  # not another type: integers and floats are numbers, and null fits anything
        (window,) = Windows(open_source([frames[0], pa.table({"x": other})]), WindowRule(window=12))
        assert window.table.num_rows == 12
        assert window.note == ""
    kinds = [pa.table({"x": pa.array(["a"] * 6).dictionary_encode()}), frames[1]]
    (window,) = Windows(open_source(kinds), WindowRule(window=12))
    assert window.table["x"].to_pylist() == ["a"] * 12


@given(
    rows=st.lists(
        st.sampled_from([{}, {"a": 1}, {"a": None, "b": 2}, {"b": 0.5, "a": -3}, {"c": 7}]), min_size=20, max_size=40
    ),
    sizes=st.lists(st.integers(1, 40), max_size=6),
)
def test_a_window_of_json_lines_depends_on_its_own_rows_only(rows: list[dict[str, Any]], sizes: list[int]) -> None:
    class Source:
        name, rows = "lines", None

        def resumes(self, cursor: Cursor) -> bool:
            return True

        def batches(self, cursor: Cursor | None = None) -> Iterator[Batch]:
            start = 0
            for size in [*sizes, len(rows)]:
                some = rows[start : start + size]
                names = dict.fromkeys(name for row in some for name in row)
                table = pa.table({name: [row.get(name) for row in some] for name in names} or {"a": [None] * len(some)})
                if some:
                    yield Batch(Rows(table, sparse=True), None, start)
                start += size

    for window in Windows(Source(), WindowRule(window=10)):
        some = rows[window.first_row : window.first_row + 10]
        assert window.table.num_rows == 10
        assert set(window.table.column_names) == {k for row in some for k, v in row.items() if v is not None}
        for name in window.table.column_names:
            values = [row.get(name) for row in some]
            assert window.table[name].to_pylist() == values
            assert pa.types.is_integer(window.table[name].type) == all(v != 0.5 for v in values)
