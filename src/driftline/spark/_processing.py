"""The processor of a stream: Spark keeps one value of bytes for each key, and calls these methods on its workers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from time import time_ns
from typing import Any

from driftline.monitor import Plan, Trace, next_due, read_trace, take, trace_bytes
from driftline.spark._output import STATE, as_quiet, as_row
from driftline.spark._packing import PACKED, unpacked

__all__ = ["STATE_NAME", "Processor"]

STATE_NAME = "driftline"  # of the only variable of a key
_MS = 10**6  # ns


class Processor:
    """What Spark asks for as a ``StatefulProcessor``, in its row variant.

    The state of a key is read once and written once in a micro-batch. There is at most one timer for it: at the end of
    its open window, or when it has been quiet for too long, whatever comes first.

    Arguments:
        keys: names of the columns of a key.
        plan: how streams are traced.
        quiet: milliseconds without rows after which a key is reported; None if it is not.
        absent: what a key without a state begins from.
    """

    def __init__(self, keys: Sequence[str], plan: Plan, quiet: int | None, absent: Trace = Trace()) -> None:  # noqa: B008
        self._keys = tuple(keys)
        self._plan = plan
        self._quiet = quiet
        self._absent = absent
        self._by_time = plan.settings.every is not None

    def init(self, handle: Any) -> None:
        """Declare the state."""
        self._handle = handle
        self._state = handle.getValueState(STATE_NAME, f"{STATE} binary")

    def handleInputRows(self, key: tuple[Any, ...], rows: Iterable[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802
        """Take the rows of a key in a micro-batch."""
        now, table = self._now(timerValues), unpacked(row[PACKED] for row in rows)
        trace, records = take(self._read(), table, self._plan, until=self._until(now))
        self._write(self._scheduled(replace(trace, seen=self._seen(trace, now), silent=False), now))
        return iter([self._row(key, as_row(record)) for record in records])

    def handleExpiredTimer(self, key: tuple[Any, ...], timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:  # noqa: N802
        """Close the windows of a key whose time is over, and say so if it has gone quiet."""
        now, found = self._now(timerValues), []
        trace = self._read()
        if trace.timer == expiredTimerInfo.getExpiryTimeInMs():
            trace = replace(trace, timer=None)
        if self._by_time:
            trace, records = take(trace, None, self._plan, until=self._until(now))
            found = [as_row(record) for record in records]
        if trace.seen is None:
            trace = replace(trace, seen=now)  # of a key that has not sent a row yet: its silence begins here
        silence = self._silence(trace)
        if silence is not None and silence <= now and trace.seen is not None:
            since = datetime.fromtimestamp(trace.seen / 1000, UTC).isoformat(timespec="seconds")
            found.append(as_quiet(trace, f"no rows since {since.replace('+00:00', 'Z')}"))
            trace = replace(trace, silent=True)
        self._write(self._scheduled(trace, now))
        return iter([self._row(key, row) for row in found])

    def handleInitialState(self, key: tuple[Any, ...], initialState: Any, timerValues: Any) -> None:  # noqa: N802
        """Begin a key from the state of an earlier run; the timers of that run are not those of this one."""
        if self._state.exists():
            raise ValueError(f"initial= has two states for the key {key}: it goes on from one")
        now = self._now(timerValues)
        trace = replace(read_trace(bytes(initialState[STATE]), _named(key)), timer=None, silent=False)
        unknown = self._by_time and now <= 0 and trace.pending.newest is None
        self._write(self._scheduled(replace(trace, seen=None if unknown else self._seen(trace, now)), now))

    def close(self) -> None:
        """Do nothing: Spark keeps the state."""

    def _now(self, values: Any) -> int:
        """Return the time of the query in ms: the watermark with windows by time, or the clock of the micro-batch."""
        if self._by_time:
            return int(values.getCurrentWatermarkInMs())
        return int(values.getCurrentProcessingTimeInMs()) if self._quiet is not None else 0

    def _until(self, now: int) -> int | None:
        return now * _MS if self._by_time and now > 0 else None

    def _seen(self, trace: Trace, now: int) -> int:
        """Return the time of the last rows in ms: their own, unless they have none or it is ahead of the clock.

        A key with a row of the year 2099 would not count as quiet before that.
        """
        if not self._by_time:
            return now
        newest, clock = _ms(trace.pending.newest), time_ns() // _MS
        if newest is not None and newest <= clock:
            return newest
        return now if now > 0 else clock

    def _silence(self, trace: Trace) -> int | None:
        """Return the time at which a key counts as quiet; None if it never does, or that has been said."""
        return None if self._quiet is None or trace.silent or trace.seen is None else trace.seen + self._quiet

    def _scheduled(self, trace: Trace, now: int) -> Trace:
        """Set a timer for the next time at which the key must be looked at, unless one is set before that."""
        end = next_due(trace, self._plan)
        times = [time for time in (None if end is None else -(-end // _MS), self._silence(trace)) if time is not None]
        times += [now + 1] if self._quiet is not None and trace.seen is None else []
        if not times:
            return trace
        due = max(min(times), now + 1)
        if trace.timer is not None and now < trace.timer <= due:
            return trace
        self._handle.registerTimer(due)
        return replace(trace, timer=due)

    def _read(self) -> Trace:
        found = self._state.get()
        return self._absent if found is None else read_trace(bytes(found[0]))

    def _write(self, trace: Trace) -> None:
        self._state.update((trace_bytes(trace),))

    def _row(self, key: tuple[Any, ...], values: dict[str, Any]) -> Any:
        from pyspark.sql import Row

        return Row(**dict(zip(self._keys, key, strict=True)), **values)


def _ms(time: int | None) -> int | None:
    return None if time is None else time // _MS


def _named(key: tuple[Any, ...]) -> str:
    return f"the state of {', '.join(map(repr, key))}"
