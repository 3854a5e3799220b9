"""The processor without Spark: its state, its timers, and keys that go quiet."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from driftline.files import StateFileError, pack, unpack
from driftline.monitor import Plan, Trace, begin_trace, read_trace, take, trace_bytes
from driftline.spark._packing import PACKED, _packing, unpacked
from driftline.spark._processing import Processor

pytestmark = pytest.mark.usefixtures("has_spark")
SECOND = 1000


class Handle:
    """Spark's side of one key: a value, and timers; it counts reads and writes."""

    def __init__(self):
        self.value, self.timers, self.reads, self.writes = None, set(), 0, 0

    def getValueState(self, name, schema):  # noqa: N802
        assert (name, schema) == ("driftline", "state binary")
        return self

    def get(self):
        self.reads += 1
        return None if self.value is None else (self.value,)

    def exists(self):
        return self.value is not None

    def update(self, value):
        self.writes += 1
        (self.value,) = value

    def registerTimer(self, time):  # noqa: N802
        self.timers.add(time)


class Clock:
    """The time of a micro-batch, and that of a timer which has expired."""

    def __init__(self, now):
        self.now = now

    def getCurrentProcessingTimeInMs(self):  # noqa: N802
        return self.now

    def getCurrentWatermarkInMs(self):  # noqa: N802
        return self.now

    def getExpiryTimeInMs(self):  # noqa: N802
        return self.now


def table(first, rows=10, seed=0):
    rng = np.random.default_rng(seed)
    return pa.Table.from_pandas(pd.DataFrame({"a": rng.normal(size=rows), "n": np.arange(first, first + rows)}))


def row(rows):
    batch = rows.append_column("shop", pa.array(["s"] * rows.num_rows)).combine_chunks().to_batches()
    return [{PACKED: part} for out in _packing(("shop",), ("a", "n"))(iter(batch)) for part in out[1].to_pylist()]


def expire(processor, handle, now):
    """Let all timers up to a time expire, as Spark does; return the rows that come of it."""
    found = []
    for time in sorted(time for time in handle.timers if time <= now):
        found += processor.handleExpiredTimer(("s",), Clock(now), Clock(time))
        handle.timers.discard(time)
    return found


def begun(quiet=10 * SECOND, **given):
    processor, handle = Processor(["shop"], Plan({"window": 100, "columns": ["a"], **given}, ("n",)), quiet), Handle()
    processor.init(handle)
    return processor, handle


def test_a_key_that_is_quiet_by_the_clock_is_reported_once_for_each_silence():
    processor, handle = begun()
    for now, first in ((1 * SECOND, 0), (8 * SECOND, 10)):
        assert list(processor.handleInputRows(("s",), row(table(first)), Clock(now))) == []
        assert len(handle.timers) == 1
    assert expire(processor, handle, 12 * SECOND) == []  # rows came 4 seconds ago
    assert len(handle.timers) == 1
    (said,) = expire(processor, handle, 30 * SECOND)
    assert (said["shop"], said["status"], said["rows"], said["window"], said["record"]) == (
        "s",
        "quiet",
        20,
        None,
        None,
    )
    assert said["error"] == "no rows since 1970-01-01T00:00:08Z"
    assert not handle.timers
    assert expire(processor, handle, 300 * SECOND) == []
    (record,) = processor.handleInputRows(("s",), row(table(20, 80)), Clock(400 * SECOND))
    assert (record["window"], record["status"], record["rows"]) == (0, "original", 100)
    (again,) = expire(processor, handle, 500 * SECOND)
    assert (again["status"], again["window"], again["signal"], again["rows"]) == ("quiet", 0, "normal", 0)


def test_a_state_is_read_and_written_once_a_micro_batch():
    processor, handle = begun(quiet=None)
    rows = row(table(0, 250)) + row(table(250, 70))
    assert len(rows) == 2
    assert [found["window"] for found in processor.handleInputRows(("s",), rows, Clock(0))] == [0, 1, 2]
    assert (handle.reads, handle.writes, handle.timers) == (1, 1, set())


def test_an_initial_state_brings_none_of_its_timers():
    plan = Plan({"window": 100, "columns": ["a"]}, ("n",))
    trace, _ = take(Trace(), table(0, 130), plan)
    old = trace_bytes(Trace(**{**vars(trace), "timer": 5, "silent": True}))
    processor, handle = begun()
    processor.handleInitialState(("s",), {"state": bytearray(old)}, Clock(7 * SECOND))
    assert handle.timers == {17 * SECOND}
    assert read_trace(handle.value).pending.waiting == 30
    arrays, meta = unpack(old, "driftline-trace", 2, "it")
    with pytest.raises(ValueError, match=r"two states for the key \('s',\)"):
        processor.handleInitialState(("s",), {"state": bytearray(old)}, Clock(0))
    other, _ = begun()
    with pytest.raises(StateFileError, match="the state of 's': written as version 3"):
        other.handleInitialState(("s",), {"state": pack(arrays, {**meta, "version": 3})}, Clock(0))


def test_rows_are_packed_by_key_with_their_types():
    batch = pa.RecordBatch.from_pydict(
        {
            "shop": pa.array(["ü", None, "ü", "b", None]),
            "part": pa.array([1, 1, 2, 1, 1], pa.int16()),
            "price": pa.array([1, 2, 3, None, 5], pa.decimal128(9, 2)),
            "at": pa.array([1, 2, 3, 4, 5], pa.timestamp("us", "Europe/Berlin")),
        }
    )
    (out,) = _packing(("shop", "part"), ("price", "at"))(iter([batch, batch.slice(0, 0)]))
    found = {(one["shop"], one["part"]): unpacked([one[PACKED]]) for one in out.to_pylist()}
    assert out.schema.names == ["shop", "part", PACKED]
    assert set(found) == {("ü", 1), (None, 1), ("ü", 2), ("b", 1)}
    assert found[(None, 1)].equals(pa.Table.from_batches([batch.take([1, 4])]).select(["price", "at"]))
    assert unpacked(out[PACKED].to_pylist()).num_rows == 5


@pytest.mark.parametrize("at", ["2099-01-01", None])
def test_a_time_ahead_of_the_clock_or_none_does_not_put_off_the_quiet_timer(at):
    plan = Plan({"time_column": "at", "every": "1d", "columns": ["a"]}, ("at",), ("a", "at"))
    processor, handle = Processor(["shop"], plan, 10 * SECOND), Handle()
    processor.init(handle)
    times = pa.array([None if at is None else pd.Timestamp(at, tz="UTC")] * 10, pa.timestamp("us", "UTC"))
    rows = pa.table({"shop": ["s"] * 10, "a": np.arange(10.0), "at": times}).combine_chunks().to_batches()
    packed = [{PACKED: part} for out in _packing(("shop",), ("a", "at"))(iter(rows)) for part in out[1].to_pylist()]
    now = pd.Timestamp("2025-01-06", tz="UTC").value // 10**6
    assert list(processor.handleInputRows(("s",), packed, Clock(now))) == []
    assert handle.timers == {now + 10 * SECOND}
    (said,) = expire(processor, handle, now + 11 * SECOND)
    assert (said["status"], said["error"]) == ("quiet", "no rows since 2025-01-06T00:00:00Z")


def test_a_key_with_an_original_and_no_rows_is_reported_by_the_time_of_the_others():
    """The watermark is 0 in the first micro-batch, and then at once at the times of the rows, which may be old."""
    plan = Plan({"time_column": "at", "every": "1d", "columns": ["a"]}, ("at",), ("a", "at"))
    first = begin_trace(pa.table({"a": np.random.default_rng(0).normal(size=300)}), plan)
    processor, handle = Processor(["shop"], plan, 10 * SECOND), Handle()
    processor.init(handle)
    processor.handleInitialState(("s",), {"state": bytearray(trace_bytes(first))}, Clock(0))
    now = pd.Timestamp("2024-01-06", tz="UTC").value // 10**6
    assert expire(processor, handle, now) == []
    assert expire(processor, handle, now + 9 * SECOND) == []
    (said,) = expire(processor, handle, now + 11 * SECOND)
    assert (said["status"], said["window"], said["error"]) == ("quiet", 0, "no rows since 2024-01-06T00:00:00Z")
    assert expire(processor, handle, now + 99 * SECOND) == []
