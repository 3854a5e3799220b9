"""One of many streams, carried as bytes from batch to batch: the Records of a monitor that was never stopped."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from driftline import Monitor
from driftline.files import StateFileError, pack, unpack
from driftline.monitor import (
    Plan,
    Settings,
    Trace,
    begin_trace,
    freeze,
    next_due,
    read_trace,
    take,
    thaw,
    too_short,
    trace_bytes,
)
from driftline.spark._fleet import standings
from driftline.spark._output import as_row

SIZE = 200


def stream(seed=0, windows=5, rows=SIZE, shift=0.3):
    rng = np.random.default_rng(seed)
    parts = [
        pd.DataFrame({"a": rng.normal(shift * t, 1.0, rows), "b": rng.choice(["x", "y", "z"], rows)})
        for t in range(windows)
    ]
    return pd.concat(parts, ignore_index=True).assign(n=lambda table: np.arange(len(table)))


def timed(table, every="6h", per_window=SIZE):
    step = pd.Timedelta(every) / per_window
    return table.assign(at=pd.Timestamp("2024-03-01", tz="UTC") + table["n"] * step)


def plan(**given):
    return Plan({"window": SIZE, "columns": ["a", "b"], **given}, ("n",))


def carried(table, how, cuts, trace=None, **more):
    """Take rows in pieces, through bytes each time; return all Records and the last bytes."""
    data, found = None if trace is None else trace_bytes(trace), []
    for part in np.split(np.arange(len(table)), cuts):
        rows = pa.Table.from_pandas(table.iloc[part], preserve_index=False)
        after, records = take(read_trace(data), rows, how, **more)
        data, found = trace_bytes(after), [*found, *records]
    return found, data


def plain(records):
    return [replace(record, seconds=0.0).to_json() for record in records]


def local(table, **given):
    return list(Monitor(**given).watch(table))


@pytest.mark.parametrize("keep", ["rows", "sums"])
def test_records_are_those_of_a_monitor_however_rows_are_batched(keep):
    table, rng = stream(), np.random.default_rng(9)
    wanted = local(table[["a", "b"]], window=SIZE, columns=["a", "b"], keep=keep)
    assert [str(record.status) for record in wanted] == ["original", *["measured"] * 4]
    cuts = np.sort(rng.choice(len(table), 12, replace=False))
    mixed = pd.concat([table.iloc[part].sample(frac=1.0, random_state=1) for part in np.split(range(len(table)), cuts)])
    found, data = carried(mixed, plan(keep=keep), cuts)
    assert plain(found) == plain(wanted)
    assert read_trace(data).pending.waiting == 0


def test_windows_by_time_are_those_of_a_monitor():
    table = timed(stream(windows=6))
    table = table[(table["n"] < 2 * SIZE) | (table["n"] >= 4 * SIZE)]  # a gap of two windows
    given = {"time_column": "at", "every": "6h", "columns": ["a", "b", "at"]}
    wanted = local(table[["a", "b", "at"]], **given)
    found, data = carried(table, Plan(given, ("at", "n")), [3, 250, 399, 400, 401, 700])
    assert [record.rows for record in found] == [SIZE, SIZE, 0, SIZE]
    assert plain(found) == plain(wanted)
    how = Plan(given, ("at", "n"))
    trace = read_trace(data)
    assert trace.pending.waiting == SIZE
    end = next_due(trace, how)
    assert end == pd.Timestamp("2024-03-02T12:00Z").value
    assert take(trace, None, how, until=end - 1)[1] == []
    closed, more = take(trace, None, how, until=end)
    assert [(record.rows, record.end) for record in more] == [(SIZE, "2024-03-02T12:00:00Z")]
    assert next_due(closed, how) is None
    flushed = local(table[["a", "b", "at"]], **given)
    assert plain(carried(table, how, [50, 500], flush=False)[0]) == plain(flushed)


def test_late_rows_are_counted_and_left_out():
    table = stream(windows=3)
    late = pd.concat([table.iloc[:250], table.iloc[150:160], table.iloc[250:]])
    found, _ = carried(late, plan(), [250, 260])
    wanted = local(table[["a", "b"]], window=SIZE, columns=["a", "b"])
    assert [record.late_rows for record in found] == [0, 10, 0]
    assert found[1].divergences == wanted[1].divergences
    assert "10 rows came after their window was closed, and were left out" in found[1].notes
    # a row that came late, but before its window was closed, is no late row
    swapped = pd.concat([table.iloc[:210], table.iloc[230:250], table.iloc[210:230], table.iloc[250:]])
    assert plain(carried(swapped, plan(), [230, 250])[0]) == plain(wanted)


def test_late_rows_by_time_and_rows_without_a_time():
    table = timed(stream(windows=4))
    given = {"time_column": "at", "every": "6h", "columns": ["a", "b", "at"]}
    how = Plan(given, ("at", "n"))
    lost = table.iloc[[5, 6]].assign(at=pd.NaT)
    mixed = pd.concat([table.iloc[:450], table.iloc[100:103], lost, table.iloc[450:]])
    found, data = carried(mixed, how, [450, 455])
    assert [record.late_rows for record in found] == [0, 0, 3]
    assert "2 rows without a time or an order left out" in found[2].notes
    end = next_due(read_trace(data), how)
    after, _ = take(read_trace(data), None, how, until=end)
    rows = pa.Table.from_pandas(table.iloc[-3:], preserve_index=False)
    after, records = take(after, rows, how, until=end)
    assert records == []
    assert after.pending.left_out.late == 3  # the window was closed by time, not by rows


def test_a_bad_window_is_a_record_and_the_stream_goes_on():
    table = stream(windows=4)
    rows = [pa.Table.from_pandas(table.iloc[t * SIZE : (t + 1) * SIZE], preserve_index=False) for t in range(4)]
    bad = rows[2].set_column(0, "a", pa.array(["text"] * SIZE))
    trace, found = Trace(), []
    for part in (rows[0], rows[1], bad, rows[3]):
        trace, records = take(read_trace(trace_bytes(trace)), part, plan())
        found += records
    assert [str(record.status) for record in found] == ["original", "measured", "skipped", "measured"]
    assert [record.window for record in found] == [0, 1, 2, 3]
    assert [doubt.code for doubt in found[2].doubts] == ["not_measured"]
    assert "'a'" in str(found[2].doubts[0])
    wanted = local(table[["a", "b"]].drop(index=range(2 * SIZE, 3 * SIZE)), window=SIZE, columns=["a", "b"])
    assert found[3].divergences == wanted[2].divergences
    assert found[3].to_json() == type(found[3]).from_json(found[3].to_json()).to_json()


def test_waiting_rows_that_do_not_fit_are_said_and_do_not_stop_the_stream():
    table = stream(windows=2)
    whole = pa.Table.from_pandas(table, preserve_index=False)
    trace, _ = take(Trace(), whole.slice(0, 50), plan())
    text = whole.set_column(0, "a", whole.column("a").cast(pa.string())).slice(50, 100)
    trace, records = take(trace, text, plan())
    assert [(str(record.status), record.rows) for record in records] == [("skipped", 50)]
    assert trace.pending.waiting == 100
    other = whole.rename_columns(["c", "b", "n"]).slice(150, 20)
    trace, records = take(trace, other, plan())
    assert [(str(record.status), record.rows) for record in records] == [("skipped", 100)]
    assert "have the columns ['a', 'b', 'n'], those that came ['c', 'b', 'n']" in str(records[0].doubts[0])
    assert trace.pending.waiting == 20


def test_a_first_window_that_is_too_short_is_said_and_the_next_one_begins():
    table = timed(stream(windows=3))
    given = {"time_column": "at", "every": "6h", "columns": ["a", "b", "at"]}
    table = table.iloc[SIZE - 4 :]
    found, _ = carried(table, Plan(given, ("at", "n")), [2, 300])
    assert [(record.window, str(record.status), str(record.signal)) for record in found] == [
        (0, "skipped", "warning"),
        (1, "original", "normal"),
    ]
    assert found[0].doubts[0].code == "not_measured"
    (wanted,) = local(table[["a", "b", "at"]], **given)  # which counts from the first that could be measured
    assert (found[1].digest, found[1].start, wanted.window) == (wanted.digest, wanted.start, 0)
    few = too_short(take(Trace(), pa.Table.from_pandas(stream(windows=1).iloc[:5]), plan())[0], plan())
    assert "5 rows are too few for a first window of 200" in str(few.doubts[0])
    assert too_short(Trace(), plan()) is None


def test_an_original_of_its_own_and_one_that_cannot_be_used():
    table, first = stream(windows=3), stream(seed=5, windows=1, rows=500)[["a", "b"]]
    wanted = list(Monitor(window=SIZE, columns=["a", "b"], original=first).watch(table[["a", "b"]]))
    begun = begin_trace(pa.Table.from_pandas(first, preserve_index=False), plan())
    found, _ = carried(table, plan(), [77, 300], begun)
    assert plain(found) == plain(wanted)
    refused = begin_trace(pa.Table.from_pandas(first.iloc[:4], preserve_index=False), plan())
    found, _ = carried(table, plan(), [77, 300], refused)
    assert [str(record.status) for record in found] == ["skipped"] * 3
    assert all("the original cannot be used" in str(record.doubts[0]) for record in found)


def test_the_bytes_do_not_grow_and_hold_no_row_of_a_closed_window():
    table = stream(windows=12, shift=0.02)
    sizes, trace = [], Trace()
    for t in range(12):
        rows = pa.Table.from_pandas(table.iloc[t * SIZE : (t + 1) * SIZE + 30 * (t == 11)], preserve_index=False)
        trace, _ = take(trace, rows, plan(keep="sums", model="quadratic"))
        sizes.append(len(trace_bytes(trace)))
    assert max(sizes[2:]) < 1.05 * min(sizes[2:]) + 4_000  # doubts are text
    trace, _ = take(trace, pa.Table.from_pandas(stream(seed=3, windows=1).iloc[:30].assign(n=1e6)), plan(keep="sums"))
    data = trace_bytes(trace)
    waiting = set(trace.pending.rows.column("a").to_pylist())
    assert len(waiting) == 30
    assert all(np.float64(value).tobytes() in data for value in waiting)
    gone = table["a"]
    assert not any(np.float64(value).tobytes() in data or str(value).encode() in data for value in gone)


def test_bytes_of_another_version_and_damaged_ones_are_refused():
    trace, _ = take(Trace(), pa.Table.from_pandas(stream(windows=2), preserve_index=False), plan())
    data = trace_bytes(trace)
    arrays, meta = unpack(data, "driftline-trace", 2, "it")
    with pytest.raises(StateFileError, match="written as version 99, this driftline reads version 2"):
        read_trace(pack(arrays, {**meta, "version": 99}))
    with pytest.raises(StateFileError, match="total is not a number"):
        read_trace(pack(arrays, {**meta, "total": "many"}))
    with pytest.raises(StateFileError, match="damaged"):
        read_trace(data[:-40] + bytes(40))
    run = thaw(trace.run)
    assert thaw(freeze(run)).windows == run.windows == 2
    inside, header = unpack(trace.run, "driftline-run", 1, "it")
    with pytest.raises(StateFileError, match="written as version 7"):
        thaw(pack(inside, {**header, "version": 7}))
    with pytest.raises(StateFileError, match="damaged"):
        thaw(pack(inside, {**header, "progress": {**header["progress"], "windows": -1}}))


def test_settings_that_may_change_do_and_others_are_refused():
    table = pa.Table.from_pandas(stream(windows=3), preserve_index=False)
    trace, _ = take(Trace(), table.slice(0, 2 * SIZE), plan())
    _, records = take(trace, table.slice(2 * SIZE), plan(tolerance=0.5))
    assert any("tolerance=0.5" in note for note in records[0].notes)
    with pytest.raises(ValueError, match="window"):
        take(trace, table.slice(2 * SIZE), plan(window=100))


def unsure(records):
    """Say how a fleet judges these Records of a key."""
    (found,) = standings(pa.Table.from_pylist([as_row(record) for record in records]), Settings(window=SIZE))
    return found["outcome"], found["trust"]


def test_many_wrong_orders_far_ahead_are_said_and_not_trusted():
    table = stream(windows=6, shift=0.0)
    table.loc[2 * SIZE + 17 : 2 * SIZE + 77, "n"] = 10**15
    found, data = carried(table, plan(), [2 * SIZE, 3 * SIZE, 3 * SIZE + 150, 4 * SIZE, 5 * SIZE])
    said = [(str(record.status), record.rows, record.late_rows) for record in found[3:]]
    assert [str(record.status) for record in found[:3]] == ["original", "measured", "measured"]
    assert said == [("skipped", 0, SIZE)] * 3  # none of them while only 150 rows were late
    assert [record.window for record in found] == list(range(6))
    assert [doubt.code for doubt in found[3].doubts] == ["not_measured"]
    assert "200 rows came too late (windows are closed up to n=1000000000000000)" in str(found[3].doubts[0])
    assert "initial= states" in str(found[3].doubts[0])
    assert found[3].signal == found[2].signal
    assert not read_trace(data).pending.left_out  # what was said is not said again
    assert unsure(found[:3])[1] == "good"
    assert unsure(found[:4]) == ("unsure", "care")
    assert unsure(found) == ("blind", "poor")


def test_many_wrong_times_far_ahead_are_said_but_a_few_late_rows_are_not():
    table = timed(stream(windows=6, shift=0.0))
    how = Plan({"time_column": "at", "every": "6h", "columns": ["a", "b", "at"]}, ("at", "n"), ("a", "b", "at"))
    cuts = [t * SIZE for t in range(1, 6)]
    few = pd.concat([table.iloc[:450], table.iloc[100:140], table.iloc[450:]])  # 40 late rows, while 50 wait
    assert all(record.rows for record in carried(few, how, [450, 490])[0])
    table.loc[2 * SIZE + 17 : 2 * SIZE + 77, "at"] = pd.Timestamp("2099-01-01", tz="UTC")
    found, data = carried(table, how, cuts)
    rows = [(record.rows, record.late_rows) for record in found]
    assert rows == [(SIZE, 0), (SIZE, 0), (SIZE - 61, 0), (0, 0), *[(0, SIZE)] * 3]  # the fourth is the gap
    assert [len(record.doubts) for record in found[3:]] == [0, 1, 1, 1]
    assert "closed up to 2099-01-01T00:00:00Z" in str(found[-1].doubts[0])
    assert unsure(found) == ("blind", "poor")
    assert not read_trace(data).pending.left_out


@pytest.mark.parametrize("by_time", [False, True])
def test_a_stream_without_any_order_or_time_is_said(by_time):
    table = timed(stream(windows=3)).assign(at=pd.Series(pd.NaT, index=range(3 * SIZE), dtype="datetime64[ns, UTC]"))
    how = Plan({"time_column": "at", "every": "6h", "columns": ["a", "b", "at"]}, ("at",)) if by_time else plan()
    table = table if by_time else table[["a", "b"]].assign(n=pd.Series(pd.NA, index=table.index, dtype="Int64"))
    found, _ = carried(table, how, [SIZE, 2 * SIZE])
    assert [(record.window, str(record.status), str(record.signal)) for record in found] == [
        (t, "skipped", "warning") for t in range(3)
    ]
    assert "200 rows had no order or time" in str(found[0].doubts[0])
    assert "too late" not in str(found[0].doubts[0])
    assert unsure(found[:1]) == ("waiting", "poor")
    assert unsure(found) == ("blind", "poor")
