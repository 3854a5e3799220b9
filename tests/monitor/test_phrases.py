"""What of a column, or of a pair, has moved most, in words."""

import math

import numpy as np
import pytest

from driftline.inference import MoveTest
from driftline.monitor._phrases import column_phrase, from_to, pair_phrase
from driftline.tables import ColumnCells, NumericColumn

NUMBER = NumericColumn("built", ("number",), 2000.0, 10.0, (0.0,))
BINS = ColumnCells("built", (-1.0, 0.0, 1.0), (2,), (2005.0,), (), (), (0, 1, 2, 3, 1), (25, 25, 25, 25, 0))
KINDS = ColumnCells("kind", (), (), (), (0, 1, 2), ("a", "b"), (0, 1, 2, 2), (60, 40, 0, 0))


def phrase(cells, test, cell, then, now, unlisted=None):
    counts = np.array(then, dtype=float), np.array(now, dtype=float)
    return column_phrase(cells, NUMBER, test, cell, counts, unlisted, int(counts[1].sum()))


@pytest.mark.parametrize(
    ("test", "cell", "now", "said"),
    [
        (MoveTest.CELL, 0, [5, 30, 35, 30, 0], "below 1990 from 25 % to 5 %"),
        (MoveTest.CELL, 1, [30, 5, 35, 30, 0], "1990 to 2000 from 25 % to 5 %"),
        (MoveTest.CELL, 2, [20, 20, 40, 20, 0], "value 2005 from 25 % to 40 %"),
        (MoveTest.ALL, 3, [20, 20, 20, 40, 0], "above 2010 from 25 % to 40 %"),
        (MoveTest.ALONE, 4, [24, 24, 24, 24, 4], "missing from 0 % to 4 %"),
        (MoveTest.PLACE, 0, [40, 40, 10, 10, 0], "median from 2000.0 to 1992.5"),
        (MoveTest.PLACE, 0, [90, 4, 3, 3, 0], "median from 2000 to below 1990"),  # beyond all edges
    ],
)
def test_numbers(test, cell, now, said):
    assert phrase(BINS, test, cell, [25, 25, 25, 25, 0], now).startswith(said)


# the original's rows lie between 1995 and 2010, in cells 1 to 3; the outer edges are far away, to notice codes
ENDS = ColumnCells("built", (-5.0, -0.5, 1.0, 5.0), (), (), (), (), (0, 0, 1, 2, 2, 1), (0, 25, 50, 25, 0, 0))


@pytest.mark.parametrize(
    ("test", "cell", "now", "said"),
    [
        (MoveTest.PLACE, 1, [0, 70, 20, 10, 0, 0], "median from 2002.5 to below 1995.0"),
        (MoveTest.PLACE, 3, [0, 10, 20, 70, 0, 0], "median from 2002.5 to above 2010.0"),
        (MoveTest.PLACE, 0, [80, 0, 10, 10, 0, 0], "median from 2002 to below 1950"),
        (MoveTest.PLACE, 2, [0, 20, 60, 20, 0, 0], "1995 to 2010 from 50 % to 60 %"),
        (MoveTest.SPREAD, 3, [0, 30, 30, 40, 0, 0], "above 2010 from 25 % to 40 %"),
        (MoveTest.CELL, 1, [5, 10, 60, 25, 0, 0], "below 1995 from 25 % to 15 %"),
        (MoveTest.CELL, 0, [30, 20, 25, 25, 0, 0], "below 1950 from 0 % to 30 %"),
        (MoveTest.CELL, 4, [0, 25, 25, 20, 30, 0], "above 2050 from 0 % to 30 %"),
    ],
)
def test_no_quantile_is_told_where_no_row_may_be(test, cell, now, said):
    assert phrase(ENDS, test, cell, [0, 25, 50, 25, 0, 0], now) == said


def test_a_median_in_a_gap_is_told_by_its_ends():
    cells = ColumnCells("built", (-2.0, -1.9, -1.8, 1.9, 2.0), (), (), (), (), (0,) * 7, (20, 20, 20, 20, 20, 20, 0))
    said = phrase(cells, MoveTest.PLACE, 3, [20, 60, 10, 10, 10, 10, 0], [10, 10, 10, 60, 20, 10, 0])
    assert said == "median from 1981 to between 1982 and 2019"


def test_spread():
    said = phrase(BINS, MoveTest.SPREAD, 0, [20, 30, 30, 20, 0], [5, 70, 20, 5, 0])
    assert said == "middle half from 1992–2005 to 1993–2000"
    same = phrase(BINS, MoveTest.SPREAD, 0, [20, 30, 30, 20, 0], [10, 60, 20, 10, 0])
    assert same == "below 1990 from 20 % to 10 %"  # the quarters read the same: the cell that moved most is told


@pytest.mark.parametrize(
    ("cell", "then", "now", "unlisted", "said"),
    [
        (0, [60, 40, 0, 0], [40, 60, 0, 0], None, "a from 60 % to 40 %"),
        (2, [60, 40, 0, 0], [50, 34, 16, 0], ("'wallet'", 16), "new value 'wallet', 16 %"),
        (2, [60, 40, 0, 0], [50, 34, 16, 0], None, "new values, 16 %"),
        (2, [58, 40, 2, 0], [50, 34, 16, 0], ("'wallet'", 14), "other values from 2 % to 16 %, such as 'wallet'"),
        (2, [50, 34, 16, 0], [58, 40, 2, 0], None, "other values from 16 % to 2 %"),
        (3, [60, 40, 0, 0], [50, 40, 0, 10], None, "missing from 0 % to 10 %"),
    ],
)
def test_categories(cell, then, now, unlisted, said):
    assert phrase(KINDS, MoveTest.CELL, cell, then, now, unlisted) == said


def test_true_is_told_of_a_flag():
    flag = ColumnCells("flag", (), (), (), (0, 1), ("false", "true"), (0, 1, 1), (80, 20, 0))
    assert phrase(flag, MoveTest.CELL, 0, [80, 20, 0], [60, 40, 0]) == "true from 20 % to 40 %"


def test_shares_have_digits_that_tell_them_apart():
    assert from_to(0.002, 0.01) == "from under 1 % to 1 %"
    assert from_to(0.0204, 0.0249) == "from 2.0 % to 2.5 %"


def test_pairs():
    then, now = np.full((4, 4), 10.0), np.full((4, 4), 10.0)
    now[0, 3] += 20.0
    both = (BINS, BINS), (NUMBER, NUMBER), (then, now)
    assert pair_phrase(*both, (0.3, 0.52)) == "rank correlation from 0.30 to 0.52"
    assert pair_phrase(*both, (0.30, 0.31)) == "built below 1990 with built above 2010 from 6 % to 17 %"
    found = pair_phrase((KINDS, BINS), (NUMBER, NUMBER), (then, now.T), (math.nan, math.nan))
    assert found == "other kind with built below 1990 from 6 % to 17 %"
    now[0, 3], now[1, 2] = 10.0, 60.0
    found = pair_phrase((KINDS, BINS), (NUMBER, NUMBER), (then, now), (math.nan, math.nan))
    assert found == "b with built 2005 from 6 % to 29 %"
