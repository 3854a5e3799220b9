"""TableEncoder: kinds of columns, frozen width, schema changes."""

import datetime as dt
import decimal
import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from driftline.tables import Rows, TableEncoder, TableError


def mixed(rng, rows=500):
    colours = rng.choice(["red", "blue", "green"], rows, p=[0.6, 0.3, 0.1])
    amount = rng.lognormal(3.0, 1.5, rows)
    return pa.table(
        {
            "amount": pa.array(np.where(rng.random(rows) < 0.1, np.nan, amount), from_pandas=True),
            "count": pa.array(rng.poisson(3.0, rows)),
            "colour": pa.array(colours),
            "member": pa.array([None if u < 0.05 else bool(u < 0.4) for u in rng.random(rows)]),
        }
    )


def test_names_groups_and_width(rng):
    encoder = TableEncoder.fit(mixed(rng))
    assert encoder.names == [
        "amount",
        "amount missing",
        "count",
        "count missing",
        "colour=blue",
        "colour=green",
        "colour=other",
        "colour missing",
        "member",
        "member missing",
    ]
    assert encoder.groups == {"amount": [0, 1], "count": [2, 3], "colour": [4, 5, 6, 7], "member": [8, 9]}
    values, notes, *_ = encoder.transform(mixed(rng, 37))
    assert values.shape == (37, 10)
    assert notes == ()


def test_numbers_are_standardised_limited_and_invertible(rng):
    x = rng.standard_t(1.5, 2000) * 7.0 + 100.0
    x[:2] = 1e8, -1e9
    encoder = TableEncoder.fit(pa.table({"x": x}))
    column = encoder.columns[0]
    z = encoder.transform(pa.table({"x": x})).values[:, 0]
    assert abs(np.median(z)) < 2e-3  # the median is kept to a thousandth of the scale
    assert np.quantile(z, 0.75) - np.quantile(z, 0.25) == pytest.approx(1.349, rel=1e-5)
    back = np.abs(z)
    for limit in (15.0, 5.0):
        back = np.where(back <= limit, back, np.expm1(back - limit) + limit)
    back = np.copysign(back, z) * column.scale + column.median
    assert np.abs(z).max() > 15.0
    np.testing.assert_allclose(back, x, rtol=1e-9, atol=1e-9)
    assert np.array_equal(np.argsort(z), np.argsort(x))


@pytest.mark.parametrize("shift", [0.0, 1e9, -3e12])
def test_far_from_zero_the_median_is_still_exact_enough(rng, shift):
    x = rng.normal(shift, 1.0, 1001)
    values = TableEncoder.fit(pa.table({"x": x})).transform(pa.table({"x": x})).values
    assert abs(np.median(values[:, 0])) < 2e-3


def test_extremes_stay_finite_and_ordered():
    wild = [-1.7e308, -1e300, -1.0, 0.0, 1e-320, 1.0, 1e300, 1.7e308]
    quiet = pa.table({"x": [0.0, 1.0, 2.0, 1.5, 0.5]})
    for first in (quiet, pa.table({"x": wild}), pa.table({"x": [5e-324, 0.0, 1e-323, 2e-323]})):
        z = TableEncoder.fit(first, numeric=["x"]).transform(pa.table({"x": wild})).values[:, 0]
        assert np.isfinite(z).all()
        assert (np.diff(z) >= 0.0).all()
        assert np.abs(z).max() < 23.0


def test_mostly_one_value_has_the_scale_of_the_others(rng):
    x = np.where(rng.random(2000) < 0.9, 0.0, rng.normal(500.0, 50.0, 2000))
    x[7] = 1e200  # it would dominate a standard deviation
    z = TableEncoder.fit(pa.table({"x": x})).transform(pa.table({"x": x})).values[:, 0]
    assert 0.5 < np.median(z[x > 0.0]) < 1.0


def test_missing_numbers_are_at_the_median_and_marked():
    first = pa.table({"x": [1.0, 2.0, 3.0, 2.5, 0.5] * 4})
    table = pa.table({"x": pa.array([None, float("nan"), float("inf"), 2.0])})
    values, notes, *_ = TableEncoder.fit(first).transform(table)
    assert values.tolist() == [[0.0, 1.0], [0.0, 1.0], [0.0, 1.0], [0.0, 0.0]]
    assert notes == ("x: 1 infinite value counted as missing",)


def test_categories_keep_the_frequent_ones_and_nothing_of_the_others():
    values = ["a"] * 500 + ["b"] * 300 + ["c"] * 40 + ["crimson"] * 9 + [None] * 51
    encoder = TableEncoder.fit(pa.table({"v": values}))
    assert encoder.names == ["v=b", "v=c", "v=other", "v missing"]
    encoded, notes, *_ = encoder.transform(pa.table({"v": ["a", "b", "crimson", "teal", "teal", None, "mauve"]}))
    assert encoded.argmax(1).tolist() == [0, 0, 2, 2, 2, 3, 2]
    assert encoded.sum(1).tolist() == [0.0] + [1.0] * 6
    assert notes == ()  # four rows may be chance
    column = encoder.to_dict()["columns"][0]
    assert column == {
        "kind": "categorical",
        "name": "v",
        "families": ["text"],
        "missing": 0.0567,
        "values": ["a", "b", "c"],
        "other": 0.01,
        "rows": 900,
        "buckets": 0,
        "unseen": 1.0,
        "marks": "",
    }
    assert "crimson" not in json.dumps([encoder.to_dict(), encoder.describe()])  # no value that few rows hold
    assert encoder.describe()[0]["kept"].endswith("the share of rows with others, 1 %, and the number of rows, 900")


def test_more_other_values_than_chance_explains_are_noted():
    first = pa.table({"payment": ["card"] * 4990 + ["wallet"] * 4 + [f"Bob {i}" for i in range(6)]})
    encoder = TableEncoder.fit(first)
    noted = "payment: {} rows hold values that were rare or not there at first (0.2 % then, {} % now)"

    def notes(*values):
        return encoder.transform(pa.table({"payment": [*values, *["card"] * (5000 - len(values))]})).notes

    assert notes(*["wallet"] * 700, *["Ann Secret"] * 9) == (noted.format(709, "14") + ", such as 'wallet'",)
    # a value that fewer than ten rows hold is counted, but not quoted
    assert notes(*["Ann Secret"] * 9, *(f"Bob {i}" for i in range(21))) == (noted.format(30, "0.6"),)
    assert encoder.transform(pa.table({"payment": ["wallet"] * 9})).notes == ()
    # three standard errors of the difference lie between these two
    assert notes(*["wallet"] * 28) == ()
    assert notes(*["wallet"] * 29) == (noted.format(29, "0.58") + ", such as 'wallet'",)


def test_values_that_stay_rare_are_seldom_noted():
    found, trials = 0, 200
    for seed in range(1000, 1000 + trials):
        rng = np.random.default_rng(seed)
        draws = rng.choice(["a", *map(str, range(9))], (2, 2000), p=[0.973] + [0.003] * 9)
        first, later = (pa.table({"v": values}) for values in draws)
        found += bool(TableEncoder.fit(first, categorical=["v"]).transform(later).notes)
    assert found <= 4  # 0.13 % of 200 trials is 0.3; the chance of five or more is below 1e-4


def test_columns_that_were_empty_at_first_are_noted_when_they_are_filled():
    first = pa.table({"x": [0.5, 1.5] * 10, "z": pa.nulls(20, pa.string()), "y": [float("nan")] * 20})
    encoder = TableEncoder.fit(first)
    assert list(encoder.skipped) == ["z", "y"]
    assert encoder.transform(first).notes == ()
    later = pa.table({"x": [0.5] * 4, "z": ["a", None, "b", "c"], "y": [1.0, float("inf"), None, float("nan")]})
    assert TableEncoder.from_dict(encoder.to_dict()).transform(later).notes == (
        "z: had no value in the first window and is not watched; 3 rows have one now",
        "y: had no finite number in the first window and is not watched; 1 row has one now",
    )
    assert TableEncoder.fit(first, drop=["z", "y"]).transform(later).notes == ()


@pytest.mark.parametrize("schema", ["strict", "lenient"])
def test_columns_that_are_named_are_watched_or_refused(schema):
    table = pa.table({"x": [0.5, 1.5] * 10, "c": ["red", "blue"] * 10, "z": pa.nulls(20), "y": [float("nan")] * 20})
    with pytest.raises(TableError, match="column 'c': value 'red' in row 1 of the window is not a number"):
        TableEncoder.fit(table, numeric=["c"], schema=schema)
    for choice in ({"columns": ["x", "z"]}, {"categorical": ["z"]}, {"numeric": ["z"]}):
        with pytest.raises(TableError, match="column 'z' is named, but has no value in the first window"):
            TableEncoder.fit(table, **choice, schema=schema)
    with pytest.raises(TableError, match="column 'y' is named, but has no finite number"):
        TableEncoder.fit(table, numeric=["y"], schema=schema)


@pytest.mark.parametrize("values", [["31.12.2024", "01.02.2025"], ["12/31/2024 10:15", "1/2/2025 8:00 PM", None]])
def test_dates_that_are_not_iso_are_not_categories(values):
    table = untyped(when=values * 20, x=["1", "0", "2"] * (len(values) * 20 // 3) + ["1"] * (len(values) * 20 % 3))
    assert TableEncoder.fit(table).skipped == {"when": "dates in a form that is not ISO 8601 (2024-12-31)"}
    with pytest.raises(TableError, match=r"column 'when' is named, but holds dates in a form .* categorical"):
        TableEncoder.fit(table, columns=["when", "x"])
    assert TableEncoder.fit(table, categorical=["when"]).columns[0].kind == "categorical"
    assert TableEncoder.fit(table, time_column="when").skipped == {"when": "the time of the rows"}
    other = untyped(when=[*values, "soon"] * 20)
    assert TableEncoder.fit(other).columns[0].kind == "categorical"


def test_more_than_twenty_categories_where_there_are_rows_for_them():
    labels = [f"v{i:02}" for i in range(40)]
    many, few = (pa.table({"v": [v for v in labels for _ in range(each)]}) for each in (50, 20))
    encoder = TableEncoder.fit(many)
    assert encoder.columns[0].values == tuple(labels)
    assert len({tuple(row) for row in encoder.transform(many).values}) == 40
    # 800 rows are enough for 40 encoded columns, but none of these values stands out
    column = TableEncoder.fit(few).columns[0]
    assert (column.values, column.buckets) == ((), 8)  # with 16, one would be empty
    wide = few.append_column("w", few["v"]).append_column("x", few["v"])
    lumped = TableEncoder.fit(wide).columns
    assert [(len(c.values), c.buckets) for c in lumped] == [(20, 0)] * 3  # no room left


def test_whole_numbers_as_categories_read_the_same_as_floats():
    first = pa.table({"code": pa.array([1, 2, 2, 30], pa.int8()).take(pa.array([0, 1, 2, 3] * 20))})
    encoder = TableEncoder.fit(first, categorical=["code"])
    floats = first.set_column(0, "code", pc.cast(first["code"], pa.float32()))
    decimals = first.set_column(0, "code", pc.cast(first["code"], pa.decimal128(9, 3)))
    coded = first.set_column(0, "code", first["code"].dictionary_encode())
    for other in (floats, decimals, coded):
        values, notes, *_ = encoder.transform(other)
        np.testing.assert_array_equal(values, encoder.transform(first).values)
        assert notes == ()


def test_dictionaries_are_categories_whatever_they_hold():
    table = pa.table({"code": pa.array([7, 8, 8] * 20).dictionary_encode()})
    assert TableEncoder.fit(table).names == ["code=7", "code=other", "code missing"]


def test_text_is_left_out_with_advice(rng):
    words, x = [f"word {i}" for i in range(300)], rng.normal(size=300)
    encoder = TableEncoder.fit(pa.table({"note": words, "x": x}))
    assert encoder.skipped == {"note": "text or identifiers, 300 different values in 300 rows"}
    assert encoder.notes == (
        "left out: 'note' (text or identifiers, 300 different values in 300 rows). To watch the frequent values of "
        "text (--categorical, or embed it as numbers first): name them; --drop leaves them out without this note",
    )
    with pytest.raises(TableError, match=r"column 'note' is named, but holds text .*300 different.*categorical.*embed"):
        TableEncoder.fit(pa.table({"note": words, "x": x}), columns=["note", "x"])
    with pytest.raises(
        TableError, match=r"no column can be watched: 'note': .*20 different values in 21 rows.*numeric"
    ):
        TableEncoder.fit(pa.table({"note": [*words[:19], "one", "one"]}))
    assert TableEncoder.fit(pa.table({"note": words[:19]})).names == ["note missing"]  # few rows: may be chance
    named = TableEncoder.fit(pa.table({"note": words + ["often"] * 50}), categorical=["note"])
    assert named.columns[0].values == ("often",)


def test_numbers_with_a_word_for_missing_say_so(rng):
    numbers = [str(v) for v in rng.random(200)]
    numbers[16:36] = ["?"] * 20
    table = Rows(pa.table({"x": numbers, "y": ["1", "2"] * 100}), untyped=True)
    (note,) = TableEncoder.fit(table).notes
    assert "'x' (text or identifiers, 181 different values in 200 rows, numbers but for 20 rows, such as '?'" in note
    assert "null_values" in note
    numbers[16:36] = map(str, rng.random(20))
    numbers[16] = "Ann"  # one row is not quoted
    (note,) = TableEncoder.fit(table.holding(table.table.set_column(0, "x", pa.array(numbers)))).notes
    assert "numbers but for 1 rows (" in note
    assert "Ann" not in note


def test_clocks_and_counters_are_skipped_unless_named(rng):
    table = pa.table({"id": range(100), "x": rng.normal(size=100), "step": [0] * 90 + list(range(10))})
    encoder = TableEncoder.fit(table)
    reason = "a clock or counter: it never falls in the first window"
    assert encoder.skipped == {"id": reason}
    assert [c.name for c in encoder.columns] == ["x", "step"]
    for choice in ({"numeric": ["id"]}, {"columns": ["id", "x", "step"]}):
        assert TableEncoder.fit(table, **choice).skipped == {}


def test_datetimes_are_skipped_unless_parts_are_asked_for():
    times = [dt.datetime(2024, 1, 1) + dt.timedelta(hours=7 * i) for i in range(50)]
    table = pa.table({"ts": times, "day": [t.date() for t in times], "x": [0.5, 1.5] * 25})
    encoder = TableEncoder.fit(table, time_column="ts")
    assert encoder.skipped["ts"] == "the time of the rows"
    assert "no parts were asked for" in encoder.skipped["day"]
    with pytest.raises(TableError, match=r"'day' is named, but holds dates or times.*datetime"):
        TableEncoder.fit(table, columns=["day"])
    with pytest.raises(TableError, match=r"'ts' holds timestamp.* cannot be numeric"):
        TableEncoder.fit(table, numeric=["ts"])
    with pytest.raises(TableError, match="no watched column holds dates"):
        TableEncoder.fit(table, columns=["x"], datetime=["hour"])
    parts = TableEncoder.fit(table, drop=["day"], datetime=["hour", "weekday", "day", "month"], time_column="ts")
    values = parts.transform(table).values
    assert parts.names[:2] == ["ts hour sin", "ts hour cos"]
    assert parts.groups["ts hour"] == [0, 1, 8]
    assert parts.groups["ts month"] == [6, 7]
    cycles = [(t.hour, t.weekday(), t.day - 1, t.month - 1) for t in times]
    angles = 2.0 * np.pi * np.array(cycles) / [24, 7, 31, 12]
    np.testing.assert_allclose(values[:, 0:8:2], np.sin(angles), atol=1e-12)
    np.testing.assert_allclose(values[:, 1:8:2], np.cos(angles), atol=1e-12)


def test_the_same_moment_encodes_the_same_in_any_zone_unit_and_as_text():
    moment = dt.datetime(1969, 12, 31, 22, 30, tzinfo=dt.UTC)
    first = pa.table({"ts": pa.array([moment, None], pa.timestamp("us", "UTC"))})
    encoder = TableEncoder.fit(first, datetime=["hour", "weekday", "day", "month"])
    expected = encoder.transform(first).values
    for unit, zone in (("s", "Asia/Tokyo"), ("ms", "UTC"), ("ns", None)):
        other = pa.table({"ts": pa.array([moment, None], pa.timestamp(unit, zone))})
        np.testing.assert_array_equal(encoder.transform(other).values, expected)
    for text in (
        "1969-12-31T22:30:00",
        "1969-12-31 22:30",
        "1970-01-01T07:30:00.123456789+09:00",
        " 1969-12-31T22:30Z",
    ):
        other = pa.table({"ts": [text, None]})
        np.testing.assert_array_equal(encoder.transform(Rows(other, untyped=True)).values, expected)


def untyped(**columns):
    return Rows(pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()}), untyped=True)


def test_kinds_of_untyped_columns():
    table = untyped(
        number=["1", " 2.5", "-1e5", "inf", None, "+7"] * 5,
        flag=["true", "False", "TRUE", None, "false", "true"] * 5,
        zip=["00123", "00123", "80331", "80331", "00123", None] * 5,
        when=["2024-01-01", "2024-01-01T10:00:00Z", None, "2024-05-01 10:00", "2024-01-01", "2024-01-01"] * 5,
        colour=["red", "blue", "1", "red", "red", "red"] * 5,
        nothing=[None] * 30,
    )
    encoder = TableEncoder.fit(table)
    kinds = {column.name: column.kind for column in encoder.columns}
    assert kinds == {"number": "numeric", "flag": "boolean", "zip": "categorical", "colour": "categorical"}
    assert list(encoder.skipped) == ["when", "nothing"]
    assert "infinite" in encoder.transform(table).notes[0]
    typed = pa.table({"number": [1, 2], "flag": [True, False], "zip": ["00123", "80331"], "colour": ["red", "blue"]})
    as_text = untyped(number=["1", "2.0"], flag=["true", "FALSE"], zip=["00123", "80331"], colour=["red", "blue"])
    np.testing.assert_array_equal(encoder.transform(typed).values, encoder.transform(as_text).values)


def test_typed_text_stays_text():
    table = pa.table({"code": ["1", "2", "2", "1"] * 10, "x": [0.1, 0.2] * 20})
    assert TableEncoder.fit(table).columns[0].kind == "categorical"
    assert TableEncoder.fit(table, numeric=["code"]).columns[0].kind == "numeric"


STRICT = [
    ({"b": [1.0]}, "column 'a' is missing"),
    ({"a": [1.0], "b": [1.0], "c": ["x"], "d": [True]}, r"column 'd' is new.*lenient"),
    ({"a": ["1"], "b": [1.0], "c": ["x"]}, "column 'a' now holds string values, at first number"),
    ({"a": [True], "b": [1.0], "c": ["x"]}, "column 'a' now holds bool values"),
    ({"a": [1.0], "b": [1.0], "c": [1]}, "column 'c' now holds int64 values, at first text"),
    ({"a": [[1.0]], "b": [1.0], "c": ["x"]}, "column 'a' now holds list"),
]


def first_window():
    return pa.table({"a": [1.0, 2.0, 0.0, 4.0] * 5, "b": [4, 3, 2, 1] * 5, "c": ["x", "y", "x", "y"] * 5})


@pytest.mark.parametrize(("columns", "message"), STRICT)
def test_strict_schema_changes_are_errors_lenient_ones_are_noted(columns, message):
    table = pa.table(columns)
    with pytest.raises(TableError, match=message):
        TableEncoder.fit(first_window()).transform(table)
    with pytest.raises(TableError, match=message):
        TableEncoder.fit(first_window()).transform(table, summaries=True)
    values, notes, *_ = TableEncoder.fit(first_window(), schema="lenient").transform(table)
    assert values.shape == (1, 7)
    assert notes


def test_lenient_reads_what_it_can():
    encoder = TableEncoder.fit(first_window(), schema="lenient")
    table = pa.table({"a": ["2.0", "abc", None, "4"], "c": ["x", "x", "x", "x"], "new": [1, 2, 3, 4]})
    values, notes, *_ = encoder.transform(table)
    assert values[:, encoder.names.index("a missing")].tolist() == [0.0, 1.0, 1.0, 0.0]
    assert values[:, encoder.names.index("b missing")].tolist() == [1.0] * 4
    assert notes == (
        "new, left out: 'new'",
        "a: now holds string values, at first number",
        "a: 1 value is not a number; counted as missing",
        "b: the column is missing, all rows counted as missing values",
    )


def test_notes_quote_no_value_of_single_rows():
    first = pa.table({"x": [0.5, 1.5] * 10, "yes": [True, False] * 10})
    encoder = TableEncoder.fit(first, schema="lenient")
    mails = ["ann@secret.org", *["unknown"] * 10, *["bob@secret.org"] * 9]
    notes = encoder.transform(pa.table({"x": mails, "yes": [7] * 9 + [3] * 11})).notes
    assert "x: 20 values are not a number, such as 'unknown'; counted as missing" in notes
    assert "yes: 20 values are not true or false, such as '3'; counted as missing" in notes
    notes = encoder.transform(pa.table({"x": mails[11:], "yes": [7] * 9})).notes
    assert "x: 9 values are not a number; counted as missing" in notes
    assert "yes: 9 values are not true or false; counted as missing" in notes


def test_no_retyping():
    encoder = TableEncoder.fit(first_window())
    other = pa.table({"c": pa.nulls(2), "b": pa.array([1.5, 2.0], pa.float16()), "a": pa.array([1, 2], pa.uint8())})
    assert encoder.transform(other).values.shape == (2, 7)
    empty = pa.table({"a": pa.nulls(3, pa.string()), "b": pa.nulls(3, pa.bool_()), "c": pa.nulls(3, pa.int8())})
    assert encoder.transform(empty).values.sum() == 9.0  # three indicators a row
    assert encoder.transform(first_window().slice(0, 0)).values.shape == (0, 7)


def test_chosen_columns_only():
    encoder = TableEncoder.fit(first_window(), columns=["a"])
    assert encoder.transform(pa.table({"a": [1.0], "whatever": [[1]]})).notes == ()


def test_unreadable_cells_are_named_by_row():
    table = untyped(age=[str(i % 7) for i in range(40)])
    encoder = TableEncoder.fit(table)
    later = untyped(age=["1"] * 16 + ["abc", "xyz"])
    with pytest.raises(TableError, match="column 'age': value 'abc' in row 17 of the window is not a number"):
        encoder.transform(later)
    with pytest.raises(TableError, match="column 'age': value 'abc' in row 17 of the window is not a number"):
        TableEncoder.fit(later, numeric=["age"])
    flags = TableEncoder.fit(untyped(age=["true", "false"]))
    with pytest.raises(TableError, match="value '1' in row 1 of the window is not true or false"):
        flags.transform(later)
    times = TableEncoder.fit(untyped(age=["2024-01-31"]), datetime=["day"])
    with pytest.raises(TableError, match="value '2024-02-31' in row 2 of the window is not a date"):
        times.transform(untyped(age=["2024-01-31", "2024-02-31"]))


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"columns": ["aa"]}, "columns: no column 'aa', did you mean 'a'"),
        ({"columns": ["a", "zzz"]}, "columns: no column 'zzz': it has 'a', 'b', 'c'"),
        ({"time_column": "ts"}, "time_column: no column 'ts'"),
        ({"datetime": ["year"]}, "datetime: 'year' is unknown"),
        ({"numeric": ["a"], "categorical": ["a"]}, "both numeric and categorical"),
        ({"columns": ["a"], "drop": ["a"]}, "both watched and dropped"),
        ({"columns": ["b"], "numeric": ["a"]}, "'a' is given a kind but is not among"),
        ({"drop": ["a", "b", "c"]}, "no column can be watched: 'a': dropped"),
        ({"schema": "loose"}, "schema='loose' is unknown"),
    ],
)
def test_choices_that_cannot_be_met(choices, message):
    with pytest.raises(TableError, match=message):
        TableEncoder.fit(first_window(), **choices)


def test_tables_that_cannot_be_encoded():
    with pytest.raises(TableError, match="no rows"):
        TableEncoder.fit(first_window().slice(0, 0))
    with pytest.raises(TableError, match="column 'a' occurs 2 times"):
        TableEncoder.fit(pa.table([[1], [2]], names=["a", "a"]))
    with pytest.raises(TableError, match=r"expected a pyarrow\.Table, not a dict"):
        TableEncoder.fit({"a": [1]})
    with pytest.raises(TableError, match=r"no column can be watched: 'a': list<.*>, which cannot be watched"):
        TableEncoder.fit(pa.table({"a": [[1], [2]]}))
    broken = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\2\0\0\0"), pa.py_buffer(b"\xff\xfe")])
    with pytest.raises(TableError, match="column 'a' cannot be read"):
        TableEncoder.fit(pa.table({"a": broken}))


def test_names_stay_different():
    table = pa.table({"x": [1.0, 0.0], "x missing": [2.0, 1.0], "x missing (2)": [2.0, 1.0]})
    assert len(set(TableEncoder.fit(table).names)) == 6


def test_describe_says_what_is_kept(rng):
    described = TableEncoder.fit(mixed(rng), drop=["count"]).describe()
    assert [(row["column"], row["kind"]) for row in described] == [
        ("amount", "numeric"),
        ("colour", "categorical"),
        ("member", "boolean"),
        ("count", "not watched"),
    ]
    assert "median" in described[0]["kept"]
    assert "'red', 'blue', 'green'" in described[1]["kept"]


def test_decimals_and_durations():
    table = pa.table(
        {
            "price": pa.array([decimal.Decimal("1.25"), decimal.Decimal("3.75"), None, decimal.Decimal("2.5")]),
            "took": pa.array([1500, 2500, 2000, None], pa.duration("ms")),
        }
    )
    encoder = TableEncoder.fit(table)
    assert [c.median for c in encoder.columns] == [2.5, 2.0]
    seconds = table.set_column(1, "took", pa.array([1, 2, 2, None], pa.duration("s")))
    assert encoder.transform(seconds).values[1, 2] == 0.0


def test_a_date_is_a_clock_and_a_rare_event_is_not():
    date, event = np.repeat([1.0, 2.0, 3.0], 40), np.r_[np.zeros(118), 1.0, 2.0]
    encoder = TableEncoder.fit(pa.table({"date": date, "event": event}))
    assert list(encoder.skipped) == ["date"]
