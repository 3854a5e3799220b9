"""Any table is encoded to finite numbers of a frozen width, or refused with a TableError; likewise any JSON."""

import dataclasses
import datetime as dt
import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftline.tables import Rows, TableEncoder, TableError

TEXT = st.text(max_size=6) | st.sampled_from(["", "a", "b", "nan", "1", "00", "true", "2024-02-30", "2024-01-01", "１"])
FLOATS = st.floats(allow_subnormal=True) | st.sampled_from([0.0, 1.0, -1.0, 1e308, -1.7e308, 5e-324, 2.0**53])
NAIVE = st.datetimes(min_value=dt.datetime(1700, 1, 1), max_value=dt.datetime(2200, 1, 1))
ANY = {
    pa.float64(): FLOATS,
    pa.float32(): st.floats(width=32),
    pa.float16(): st.floats(width=16).map(np.float16),
    pa.int64(): st.integers(-(2**63), 2**63 - 1) | st.integers(0, 5),
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.int8(): st.integers(-128, 127),
    pa.bool_(): st.booleans(),
    pa.string(): TEXT,
    pa.large_string(): TEXT,
    pa.dictionary(pa.int32(), pa.string()): TEXT,
    pa.dictionary(pa.int8(), pa.int64()): st.integers(0, 9),
    pa.decimal128(38, 10): st.decimals(-(10**20), 10**20, places=10, allow_nan=False),
    pa.decimal256(60, 2): st.decimals(-(10**50), 10**50, places=2, allow_nan=False),
    pa.timestamp("ns"): NAIVE,
    pa.timestamp("s", "Europe/Berlin"): NAIVE,
    pa.date32(): st.dates(),
    pa.date64(): st.dates(),
    pa.time32("ms"): st.times().map(lambda t: t.replace(microsecond=0)),
    pa.time64("ns"): st.times(),
    pa.duration("us"): st.timedeltas(dt.timedelta(-9999), dt.timedelta(9999)),
    pa.timestamp("s"): st.integers(-(2**63), 2**63 - 1),
    pa.string_view(): TEXT,
    pa.null(): st.none(),
    pa.binary(): st.binary(max_size=3),
    pa.list_(pa.int8()): st.lists(st.integers(0, 3), max_size=2),
    pa.struct([("a", pa.int8())]): st.fixed_dictionaries({"a": st.integers(0, 3)}),
}
PLAIN = [t for t in ANY if not pa.types.is_nested(t) and not pa.types.is_binary(t)]
NAMES = st.text(max_size=5) | st.sampled_from(["a", "a missing", "a=other", "", " ", "a\n"])


@st.composite
def arrays(draw, types, rows):
    kind = draw(st.sampled_from(types))
    cells = draw(st.lists(st.none() | ANY[kind], min_size=rows, max_size=rows))
    if draw(st.booleans()):
        cells = [cells[draw(st.integers(0, max(0, rows - 1)))] for _ in range(min(rows, 3))] * rows  # few values
    made = pa.array(cells[:rows], kind)
    if pa.types.is_int8(kind):
        wrap = draw(st.sampled_from(["plain", "runs", "bool8"]))
        return {
            "plain": made,
            "runs": pc.run_end_encode(made),
            "bool8": pa.ExtensionArray.from_storage(pa.bool8(), made),
        }[wrap]
    return made


@st.composite
def tables(draw, types=tuple(ANY), rows=None):
    rows = draw(st.integers(0, 24)) if rows is None else rows
    names = draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))
    return pa.table([draw(arrays(types, rows)) for _ in names], names=names)


@st.composite
def choices(draw, table):
    some = st.lists(st.sampled_from(table.column_names), max_size=2, unique=True)
    return {
        "numeric": draw(some),
        "categorical": draw(some),
        "drop": draw(st.just([]) | some),
        "datetime": draw(st.lists(st.sampled_from(["hour", "weekday", "day", "month"]), max_size=4)),
        "schema": draw(st.sampled_from(["strict", "lenient"])),
        "untyped": draw(st.booleans()),
    }


def fitted(table, *, untyped, **choice):
    return TableEncoder.fit(Rows(table, untyped), **choice)


def rechunked(table, at):
    return pa.concat_tables([table.slice(0, at), table.slice(at)])


def clocks_of(table, choice):
    """Return the columns that are left out only because of their order of rows."""
    try:
        skipped = fitted(table, **choice).skipped
    except TableError:
        return set(table.column_names)
    return {name for name, why in skipped.items() if "clock" in why}


def unordered(column):
    """Return a column without what halves of the first window tell: values that one of them has not."""
    return dataclasses.replace(column, unseen=1.0) if hasattr(column, "unseen") else column


@settings(deadline=None, max_examples=150)
@given(data=st.data())
def test_any_table_is_encoded_or_refused(data):
    first = data.draw(tables(PLAIN if data.draw(st.booleans()) else tuple(ANY)))
    choice = data.draw(choices(first))
    try:
        encoder = fitted(first, **choice)
    except TableError:
        return
    rows, width = first.num_rows, len(encoder.names)
    values, notes, summary, *_ = encoder.transform(first, summaries=True)
    assert values.shape == (rows, width)
    assert np.isfinite(values).all()
    assert sorted(at for group in encoder.groups.values() for at in group) == list(range(width))
    assert len(set(encoder.names)) == width
    # JSON restores exactly the same encoder
    again = TableEncoder.from_dict(json.loads(json.dumps(encoder.to_dict(), allow_nan=False)))
    assert again == encoder
    np.testing.assert_array_equal(again.transform(first).values, values)
    # chunks do not matter, neither for fitting nor for encoding
    chunked = rechunked(first, data.draw(st.integers(0, rows)))
    assert fitted(chunked, **choice) == encoder
    assert encoder.transform(chunked).notes == notes
    np.testing.assert_array_equal(encoder.transform(chunked).values, values)
    # nor does the order of rows, except for clocks, and for values that come together
    order = data.draw(st.permutations(range(rows)))
    shuffled = pa.concat_tables([first.slice(i, 1) for i in order])
    np.testing.assert_array_equal(encoder.transform(shuffled).values, values[list(order)])
    clocks = clocks_of(first, choice) | clocks_of(shuffled, choice)
    frozen = [unordered(c) for c in encoder.columns if c.name not in clocks]
    if frozen:
        assert [unordered(c) for c in fitted(shuffled, **choice).columns if c.name not in clocks] == frozen
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary
    assert encoder.transform(chunked, summaries=True).summaries == summary


@settings(deadline=None, max_examples=120)
@given(data=st.data())
def test_any_later_table_is_encoded_or_refused(data):
    first = data.draw(tables(PLAIN))
    choice = data.draw(choices(first))
    try:
        encoder = fitted(first, **choice)
    except TableError:
        return
    rows = data.draw(st.integers(0, 5))
    names = [n for n in first.column_names if data.draw(st.integers(0, 9))] or ["other"]
    later = pa.table([data.draw(arrays(tuple(ANY), rows)) for _ in names], names=names)
    if choice["schema"] == "lenient":
        values = encoder.transform(later).values
    else:
        try:
            values = encoder.transform(later).values
        except TableError:
            return
    assert values.shape == (rows, len(encoder.names))
    assert np.isfinite(values).all()
    json.dumps(encoder.transform(later, summaries=True).summaries, allow_nan=False)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.just("\ud800"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=4,
)


def places(value, at=()):
    """Yield the path of every value in JSON."""
    yield at
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(inner, (*at, key))


def several(rows):
    kinds = {
        "amount": [1.5, None, 40.0, 1e9, 2.0],
        "count": [1, 0, 2, 5, 1],
        "colour": ["red", "blue", "red", None, "x"],
    }
    columns = {name: (values * rows)[:rows] for name, values in kinds.items()}
    return pa.table({**columns, "member": ([True, False, None] * rows)[:rows]})


@pytest.fixture(scope="module")
def saved():
    table = several(500).append_column("ts", pa.array([dt.datetime(2024, 1, 1)] * 500))
    return json.dumps(TableEncoder.fit(table, datetime=["hour"], drop=["count"]).to_dict())


@settings(deadline=None, max_examples=250)
@given(data=st.data())
def test_altered_json_is_an_encoder_or_refused(saved, data):
    altered = json.loads(saved)
    at = data.draw(st.sampled_from(list(places(altered))))
    target, new = altered, data.draw(JSON)
    for key in at[:-1]:
        target = target[key]
    if not at:
        altered = new
    elif data.draw(st.booleans()):
        target[at[-1]] = new
    else:
        del target[at[-1]]
    try:
        encoder = TableEncoder.from_dict(altered)
    except TableError:
        return
    assert TableEncoder.from_dict(json.loads(json.dumps(encoder.to_dict()))) == encoder
    encoder.describe()
    try:
        values, *_ = encoder.transform(several(10))
    except TableError:
        return
    assert np.isfinite(values).all()
