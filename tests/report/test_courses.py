import math
from dataclasses import replace

import pytest

from driftline.monitor import Marginal
from driftline.report._courses import courses, pair_courses, points
from driftline.report._histories import histories


def history(run):
    return histories(run)[0]


def test_every_column_has_a_course_and_those_that_moved_stand_first(runs):
    run = runs.wide(30, 50)
    found = courses(history(run))
    assert {c.column for c in found} == set(run.originals[0].then)
    moved = [c for c in found if c.now is not None]
    assert [c.column for c in moved] == [m.column for m in run.records[-1].columns]
    assert all(c.now is None for c in found[len(moved) :])
    chances = [c.chance for c in found[len(moved) :]]
    assert chances == sorted(chances)


def test_since_is_the_first_of_the_windows_in_a_row(runs):
    course = next(c for c in courses(history(runs.wide(16, 50))) if c.column == "feature_000")
    first = course.since
    assert course.moved[first] is not None
    assert course.moved[first - 1] is None
    assert all(course.moved[first:])
    # a window in between that was not tested says nothing; one in which the test is silent ends the row
    seen, moved = list(course.seen), list(course.moved)
    moved[40], seen[40] = None, None
    assert replace(course, seen=tuple(seen), moved=tuple(moved)).since == first
    seen[40] = Marginal(0.0, 0.5, 0.0, 0.0)
    assert replace(course, seen=tuple(seen), moved=tuple(moved)).since == 41


def test_few_points_keep_the_largest_and_where_the_test_speaks(runs):
    course = next(c for c in courses(history(runs.wide(16, 200))) if c.column == "feature_001")
    all_of_them, few = points(course, 1000), points(course, 20)
    assert len(all_of_them) == 200
    assert len(few) == 20
    assert [(p.first, p.last) for p in few] == [(10 * k, 10 * k + 9) for k in range(20)]
    for point in few:
        inside = [p for p in all_of_them[point.first : point.last + 1] if math.isfinite(p.value)]
        assert point.moved == any(p.moved for p in inside)
        assert point.value == max(p.value for p in inside if p.moved == point.moved)


def test_a_run_that_notes_only_what_moved_has_no_other_points(runs):
    course = courses(history(runs.run(runs.weekly(60))))[0]
    assert set(course.seen) == {None}
    known = [p for p in points(course, 100) if math.isfinite(p.value)]
    assert [p.first for p in known] == course.windows
    assert all(p.moved for p in known)


def test_pairs_of_the_last_window_come_first(runs):
    found = pair_courses(history(runs.wide(20, 50)))
    assert [p.columns for p in found] == [("feature_010", "feature_011"), ("feature_014", "feature_015")]
    assert found[0].windows == list(range(41, 50))
    assert found[1].windows == [9]


@pytest.mark.parametrize("case", ["nothing", "joined, no record", "only the original", "all skipped"])
def test_nothing_measured_no_course(cases, case):
    assert all(courses(each) == [] for each in histories(cases[case]))
