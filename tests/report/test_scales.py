import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftline.report._scales import buckets, scale_for, steps, time_ticks, value_ticks, window_ticks
from driftline.report._timelines import envelope, segments, thinned, timeline

FINITE = st.floats(-1e9, 1e9, allow_nan=False)


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6), st.integers(1, 12))
def test_steps_are_round_within_and_few(low, width, most):
    found = steps(low, low + width, most)
    assert len(found) <= most + 1
    slack = 1e-6 * width + 1e-13 * abs(low)  # rounding
    assert all(low - slack <= v <= low + width + slack for v in found)
    assert found == sorted(found)


@given(st.floats(-1e9, 4e9), st.floats(1.0, 3e9), st.integers(2, 12))
def test_time_ticks_are_within_and_few(low, width, most):
    found = time_ticks(low, low + width, most)
    places = [place for place, _ in found]
    assert places == sorted(places)
    assert all(low <= p <= low + width for p in places)
    assert len(found) <= most + 2
    if width < 100 * 365 * 86400:
        assert len({label for _, label in found}) <= len(found)
        assert not found or any(c.isdigit() for c in found[0][1])


def test_time_ticks_of_a_week_are_mondays():
    from datetime import UTC, datetime

    start = datetime(2024, 1, 3, tzinfo=UTC).timestamp()
    found = time_ticks(start, start + 50 * 86400, 8)
    assert {datetime.fromtimestamp(p, UTC).weekday() for p, _ in found} == {0}
    assert found[0][1] == "8 Jan 2024"


@given(st.lists(FINITE, min_size=1, max_size=40), st.floats(1e-6, 1e3))
def test_a_scale_holds_all_values_in_order(values, typical):
    scale = scale_for([*values, math.nan, math.inf], typical, 100.0, 0.0)
    at = [scale(v) for v in sorted({0.0, *values})]
    assert all(-1e-6 <= y <= 100.0 + 1e-6 for y in at)
    assert at == sorted(at, reverse=True)
    labels = value_ticks(scale, 5)
    assert all(-1e-6 <= scale(v) <= 100.0 + 1e-6 for v, _ in labels)


def test_an_axis_of_one_window():
    assert window_ticks(-0.5, 0.5, 8) == [(0.0, "0")]


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=300), st.integers(1, 40))
def test_thinning_keeps_what_stands_out(values, most):
    kept = thinned(list(range(len(values))), values, most)
    assert len(kept) <= 4 * most
    assert {min(values), max(values)} <= {values[i] for i in kept}
    assert {0, len(values) - 1} <= set(kept)
    around = envelope(list(range(len(values))), values, [v + 1.0 for v in values], most)
    assert all(
        any(a <= i <= b and low <= v and v + 1.0 <= high for a, b, low, high in around) for i, v in enumerate(values)
    )


@given(st.integers(0, 500), st.integers(1, 50))
def test_buckets_cover_all_once(length, most):
    found = buckets(length, most)
    assert [i for group in found for i in group] == list(range(length))
    assert len(found) <= most


def test_a_line_breaks_at_skipped_windows(runs):
    records = [runs.original(), *(runs.skipped(w) if w in (3, 4) else runs.record(w, 0.1) for w in range(1, 8))]
    values = [math.nan if r.drift is None else r.drift.value for r in records]
    assert segments(records, values) == [[1, 2], [5, 6, 7]]


def test_places_are_times_where_all_windows_have_them(runs):
    records = [runs.original(), runs.record(1, 0.1)]
    line = timeline(records, runs.WEEKLY)
    assert line.by_time
    assert line.places[1] - line.places[0] == pytest.approx(7 * 86400)
    odd = [runs.original(), runs.record(1, 0.1, start="some day")]
    assert timeline(odd, runs.WEEKLY).places == (0.0, 1.0)
    assert timeline([runs.original(runs.ROWS)], runs.ROWS).label == "window, 5,000 rows each"
    own = timeline([replace(records[0], start=None, end=None), records[1]], runs.WEEKLY)  # a table of its own
    assert own.by_time
    assert own.places[0] < own.spans[1][0]
