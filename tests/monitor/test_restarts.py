"""One of many streams that goes on with another order, or with rows far ahead: said, and nothing lost in silence."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from driftline import Monitor
from driftline.monitor import Plan, Trace, read_trace, take, trace_bytes

SIZE = 200


def stream(windows=4, seed=0):
    rng, many = np.random.default_rng(seed), windows * SIZE
    at = pd.Timestamp("2024-03-01", tz="UTC") + np.arange(many) * pd.Timedelta("6h") / SIZE
    return pd.DataFrame({"a": rng.normal(size=many), "n": np.arange(many), "m": np.arange(many), "at": at})


def rows(table, *names):
    return pa.Table.from_pandas(table[["a", *names]], preserve_index=False)


def by_rows(*order):
    return Plan({"window": SIZE, "columns": ["a"]}, order)


def by_time(*order):
    return Plan({"time_column": "at", "every": "6h", "columns": ["a", "at"]}, order, ("a", "at"))


@pytest.mark.parametrize("first", [50, SIZE + 50])
@pytest.mark.parametrize("plan", [by_rows, by_time])
def test_another_order_is_an_error_that_names_both(first, plan):
    table = stream()
    trace, _ = take(Trace(), rows(table.iloc[:first], "n", "at"), plan("n"))
    trace = read_trace(trace_bytes(trace))
    with pytest.raises(ValueError, match=r"ordered by 'n' \(numbers\), not by 'm' \(numbers\): name the same order="):
        take(trace, rows(table.iloc[first:], "m", "at"), plan("m"))
    with pytest.raises(ValueError, match=r"not by 'm' \(not there\)"):
        take(trace, None, plan("m"))
    text = table.assign(n=table["n"].astype(str))
    with pytest.raises(ValueError, match=r"'n' \(numbers\), not by 'n' \(text\).*cast to what they held"):
        take(trace, rows(text.iloc[first:], "n", "at"), plan("n"))


def test_an_order_of_another_size_of_numbers_goes_on():
    table = stream()
    trace, _ = take(Trace(), rows(table.iloc[:250], "n"), by_rows("n"))
    other = rows(table.iloc[250:].assign(n=lambda x: x["n"].astype("int32")), "n")
    _, records = take(read_trace(trace_bytes(trace)), other, by_rows("n"))
    wanted = list(Monitor(window=SIZE, columns=["a"]).watch(table[["a"]]))
    assert [record.divergences for record in records] == [record.divergences for record in wanted[1:]]


@pytest.mark.parametrize("timed", [False, True])
def test_one_row_far_ahead_leaves_the_records_as_they_are(timed):
    """Through bytes between batches, so that what is held back is kept."""
    table, plan = stream(6), by_time("at", "n") if timed else by_rows("n")
    wrong = table.assign(a=99.0).iloc[[450]].assign(at=pd.Timestamp("2099-01-01", tz="UTC"), n=10**15)
    mixed, trace, found = pd.concat([table.iloc[:450], wrong, table.iloc[450:]]), Trace(), []
    for start in range(0, len(mixed), 30):
        part = rows(mixed.iloc[start : start + 30], "n", "at")
        trace, records = take(read_trace(trace_bytes(trace)), part, plan)
        found += records
    settings = {"time_column": "at", "every": "6h", "columns": ["a", "at"]} if timed else {"window": SIZE}
    given = ["a", "at"] if timed else ["a"]
    wanted = list(Monitor(**{"columns": given, **settings}).watch(table[given]))
    assert [replace(record, seconds=0.0, notes=()) for record in found] == [
        replace(record, seconds=0.0, notes=()) for record in wanted
    ]
    said = [note for record in found for note in record.notes if "far ahead" in note]
    assert said == ["1 row far ahead of the times around it left out"]
