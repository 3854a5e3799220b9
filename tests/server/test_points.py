"""Points, spans and gathering: what charts and answers are made of."""

import math

import pytest

from driftline.alarms import Signal
from driftline.server._points import SpanError, gathered, point_of, span_of
from tests.server import made


def points(records):
    return [point_of(record) for record in records]


def test_a_point_keeps_the_numbers():
    point = point_of(made.record(5, 0.2))
    assert (point.window, point.rows, point.late_rows, point.signal) == (5, 500, 3, Signal.ALARM)
    assert (point.value, point.low, point.high) == pytest.approx((0.2, 0.16, 0.24))
    assert point.end - point.start == 86400
    assert point.measured


def test_what_was_not_measured_is_not_a_number():
    first, withheld, bound = points([made.began(), made.bare(1), made.bound(2)])
    assert math.isnan(first.value)
    assert not first.measured
    assert withheld.value == 0.04
    assert math.isnan(withheld.low)
    assert math.isnan(withheld.high)
    assert bound.high == math.inf


def test_an_alarm_among_quiet_windows_stays_one():
    found = gathered(
        points([*made.quiet(500), made.record(500, 0.9), *(made.record(w, 0.01) for w in range(501, 999))]), 20
    )
    assert len(found) == 20
    assert [g.signal for g in found].count(Signal.ALARM) == 1
    assert max(g.most for g in found) == 0.9
    assert found[0].first == 0
    assert found[-1].last == 998


def test_an_interval_that_was_withheld_is_not_made_up_by_its_neighbours():
    (one,) = gathered(points([made.record(1, 0.1), made.bare(2), made.record(3, 0.1)]), 1)
    assert math.isnan(one.low)
    assert math.isnan(one.high)
    assert one.value == pytest.approx(0.08)
    (bound,) = gathered(points([made.record(1, 0.1), made.bound(2)]), 1)
    assert bound.high == math.inf


def test_spans():
    all_of_them = points(made.quiet(10))
    of = lambda *given: [p.window for p in span_of(*given).of(all_of_them)]  # noqa: E731
    assert of("2025-01-08", None) == [2, 3, 4, 5, 6, 7, 8, 9]
    assert of(None, "2025-01-08") == [0, 1, 2]
    assert of("2025-01-08", "2025-01-09T12:00Z") == [2, 3]
    assert of("2025-01-08T00:00:00+01:00", "2025-01-07") == [1]
    assert of(None, None, 3) == [7, 8, 9]
    assert of("2030-01-01", None) == []
    assert of("", "") == list(range(10))


def test_windows_without_a_time_are_not_chosen_by_one():
    without = points(made.quiet(4, timed=False))
    assert len(span_of("2030-01-01", None).of(without)) == 4


@pytest.mark.parametrize("text", ["yesterday", "2025-13-01", "2025-01-01" * 5, "99999", "2025-01-01T99:00"])
def test_what_is_no_time_is_refused(text):
    with pytest.raises(SpanError, match="since is not a time"):
        span_of(text, None)
