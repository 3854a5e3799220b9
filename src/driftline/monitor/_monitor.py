"""Monitor: tables arriving over time are watched window by window; what is kept is one window and one file."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from driftline.alarms import Signal
from driftline.estimators import ContinualDensityRatio
from driftline.monitor._advance import RunState, TooFewRowsError, add_original, advance, begin, named
from driftline.monitor._judgement import alarm_from_dict, alarm_to_dict
from driftline.monitor._records import Original, Record, Run
from driftline.monitor._settings import Settings
from driftline.monitor._sqlite import TrackerError
from driftline.monitor._tracker import Progress, Tracker
from driftline.sources import Cursor, Frames, Window, Windows, as_table, open_source
from driftline.tables import TableEncoder, TableError

__all__ = ["Monitor"]

Floats = npt.NDArray[np.float64]
Callback = Callable[[Record], object]

_log = logging.getLogger("driftline.monitor")
# what may change while a run goes on: how readings are judged and reported, not what is read
_CHANGEABLE = ("schema", "tolerance", "run_length", "warning", "persistence", "warm_up", "level", "top")


class Monitor:
    """Watches tables arriving over time: how far has the data moved from its first window?

    Arguments:
        tracker: the file of the run, created if it is not there; an existing one goes on where it stopped. None keeps
            everything in memory.
        on_record: called with every Record once it is committed.
        on_alarm: called with a Record whose signal has become an alarm.
        settings: of :class:`~driftline.monitor.Settings`, such as ``window=5000`` or ``time_column="ts",
            every="1d"``, ``tolerance=0.1``. Those of an existing tracker file need not be repeated.

    Attributes:
        settings: of the run.
        waiting: rows of the last source that wait for their window to be complete.
        late: rows of it that came too late or had no time, and are in no Record yet.

    >>> import numpy as np, polars as pl
    >>> rng = np.random.default_rng(0)
    >>> def day(t):
    ...     return pl.DataFrame(
    ...         {"amount": rng.normal(0.5 * (t > 2), 1, 2000), "card": rng.choice(["credit", "debit"], 2000)}
    ...     )
    >>> with Monitor(window=2000, tolerance=0.02) as monitor:
    ...     for record in monitor.watch(day(t) for t in range(5)):
    ...         print(record.window, record.status, record.signal)
    0 original normal
    1 measured normal
    2 measured normal
    3 measured alarm
    4 measured alarm
    >>> record.columns[0].column, monitor.weights(day(4)).shape
    ('amount', (2000,))
    """

    def __init__(
        self,
        tracker: str | os.PathLike[str] | None = None,
        *,
        on_record: Callback | None = None,
        on_alarm: Callback | None = None,
        **settings: Any,
    ) -> None:
        self._setup(None if tracker is None else Tracker(tracker), on_record, on_alarm, settings)

    @classmethod
    def open(
        cls,
        tracker: str | os.PathLike[str],
        *,
        readonly: bool = False,
        on_record: Callback | None = None,
        on_alarm: Callback | None = None,
    ) -> Self:
        """The monitor of an existing tracker file; ``readonly`` to score rows or look, also while another writes."""
        if not os.path.isfile(tracker):
            raise FileNotFoundError(f"{os.fspath(tracker)}: no such tracker file")
        monitor = cls.__new__(cls)
        monitor._setup(Tracker(tracker, readonly=readonly), on_record, on_alarm, None)
        return monitor

    def _setup(
        self,
        tracker: Tracker | None,
        on_record: Callback | None,
        on_alarm: Callback | None,
        given: Mapping[str, Any] | None,
    ) -> None:
        self._tracker, self._on_record, self._on_alarm = tracker, on_record, on_alarm
        self._created, self._source = datetime.now(UTC).isoformat(timespec="seconds"), ""
        self._state: RunState | None = None
        self._progress = Progress()
        self._records: list[Record] = []  # without a tracker file
        self._remarks: list[str] = []  # for the next Record
        self._rest: list[pa.Table] = []  # rows of frames, read and in no window yet
        self.waiting = self.late = 0
        try:
            if tracker is None or tracker.empty:
                if given is None:
                    raise TrackerError(f"{'' if tracker is None else tracker.path}: no window has been committed yet")
                self.settings = Settings.from_dict(given)
            else:
                self._go_on(tracker, given or {})
        except BaseException:
            self.close()
            raise

    def _go_on(self, tracker: Tracker, given: Mapping[str, Any]) -> None:
        content = tracker.read()
        run, self._progress = content.description, content.progress
        estimator = ContinualDensityRatio.from_bytes(content.state, what=tracker.path)
        try:
            settings = Settings.from_dict(run["settings"])
            self._created, self._source = run["created"], run["source"]
            state = _restored(settings, TableEncoder.from_dict(run["encoder"]), estimator, self._progress)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise TrackerError(f"{tracker.path}: damaged, its parts do not fit together ({error})") from None
        changed = settings.differs(given)
        fixed = [
            f"{name}={changed[name][0]!r}, not {changed[name][1]!r}" for name in changed if name not in _CHANGEABLE
        ]
        if fixed:
            raise ValueError(f"{tracker.path} was begun with {'; '.join(fixed)}: leave that out, or begin another file")
        self._remarks = [f"from here on {k}={now!r} instead of {then!r}" for k, (then, now) in changed.items()]
        self.settings = Settings.from_dict({**settings.to_dict(), **given})
        encoder = replace(state.encoder, schema=self.settings.schema)
        self._state = replace(state, settings=self.settings, encoder=encoder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the tracker file, so that others may write to it."""
        if self._tracker is not None:
            self._tracker.close()

    @property
    def encoder(self) -> TableEncoder | None:
        """How columns become numbers; None before the first window."""
        return None if self._state is None else self._state.encoder

    @property
    def records(self) -> tuple[Record, ...]:
        """All Records so far."""
        return self.run.records

    @property
    def originals(self) -> tuple[Original, ...]:
        """The originals, in the order they joined."""
        return () if self._state is None else self._state.originals

    @property
    def run(self) -> Run:
        """Everything a report is made from."""
        if self._tracker is not None and self._state is not None:
            return self._tracker.run()
        state = self._state
        return Run(
            path="",
            created=self._created,
            settings=self.settings,
            source=self._source,
            encoder={} if state is None else state.encoder.to_dict(),
            records=tuple(self._records),
            originals=self.originals,
            now={} if state is None else state.now,
        )

    def watch(
        self,
        source: Any,
        *,
        follow: bool = False,
        poll: float = 1.0,
        format: str | None = None,
        replay: bool = False,
        flush: bool = False,
    ) -> Iterator[Record]:
        """The Records of a source, window by window, each committed before it is yielded.

        Arguments:
            source: a file, folder or pattern (CSV, Parquet, Arrow, JSON lines), ``"-"`` for standard input, a data
                frame, or an iterable of frames. Files go on where the last committed window ended; standard input
                and iterables are taken to hold new rows, after those of earlier calls.
            follow: wait for more rows at the end, looking every ``poll`` seconds.
            format: csv, tsv, parquet, arrow or jsonl, if the name does not tell.
            replay: standard input or iterable starts from the beginning again: skip what has been read.
            flush: at the end, count the unfinished window too.
        """
        opened = open_source(source, follow=follow, poll=poll, format=format, replay=replay)
        if isinstance(opened, Frames):
            opened = opened.after(self._rest)
        self._source, self.waiting, self.late, self._rest = opened.name, 0, 0, []
        cursor = None if self._state is None else self._state.cursor
        windows = Windows(opened, self.settings.window_rule(), cursor, flush)
        current: list[pa.Table] = []
        try:
            for window in windows:
                current = [window.table]
                taken = self._take(window)
                current = []
                for record, became_alarm in taken:
                    if self._on_record is not None:
                        self._on_record(record)
                    if became_alarm and self._on_alarm is not None:
                        self._on_alarm(record)
                    yield record
        except TableError:
            current = []  # it would be refused again
            raise
        finally:
            self.waiting, self.late = windows.waiting, windows.late
            if isinstance(opened, Frames):  # what comes next may belong to the same window
                self._rest = current + windows.rest() + opened.unread()
        if self.waiting:
            _log.info("%d rows wait for their window to be complete", self.waiting)

    def _take(self, window: Window) -> list[tuple[Record, bool]]:
        """A window's Records, committed, and which of them raise an alarm anew."""
        remarks = self._remarks
        if self._state is None:
            try:
                state, record = begin(window, self.settings, remarks)
            except TooFewRowsError:
                if self.settings.window is not None:  # the next would be as short
                    raise
                return self._pass_over(window)  # such as a first day that began near midnight
            records, raised = [record], [False]
        else:
            before = self._state.alarms
            state, records = advance(self._state, window, remarks)
            alarm = Signal.ALARM
            raised = [r.signal == alarm and before[r.original].signal != alarm for r in records]
        self._commit(state, records)
        self._remarks = []
        return list(zip(records, raised, strict=True))

    def _pass_over(self, window: Window) -> list[tuple[Record, bool]]:
        self._remarks.append(f"a window of {window.table.num_rows} rows before this one was left out: too few")
        _log.warning("the first window has %d rows, too few: left out", window.table.num_rows)
        return []

    def add_original(self, name: str, frame: Any = None, *, untyped: bool = False) -> Record:
        """A further original: the rows of a frame, or those of the current window; drift is measured from it too.

        Arguments:
            untyped: text in the frame may stand for other types, as in a CSV file read without guessing.
        """
        state, record = add_original(self._started(), name, None if frame is None else as_table(frame), untyped=untyped)
        self._commit(state, [record])
        return record

    def log_ratio(self, frame: Any, original: str | None = None, *, untyped: bool = False) -> Floats:
        """log original/current of a frame's rows, (n,); ``untyped`` as in :meth:`add_original`."""
        return np.asarray(self._started().estimator.log_ratio(*self._asked(frame, original, untyped)))

    def weights(self, frame: Any, original: str | None = None, *, untyped: bool = False) -> Floats:
        """Weights of a frame's rows that make the current data look like the original, (n,): a ``sample_weight``."""
        return np.asarray(self._started().estimator.weights(*self._asked(frame, original, untyped)))

    def _asked(self, frame: Any, original: str | None, untyped: bool) -> tuple[Any, str]:
        state = self._started()
        name = state.originals[0].name if original is None else original
        encoded = state.encoder.transform(as_table(frame), untyped=untyped)
        return named(state.encoder, encoded.values), name

    def _started(self) -> RunState:
        if self._state is None:
            raise ValueError("no window has been watched yet: call watch first")
        return self._state

    def _commit(self, state: RunState, records: list[Record]) -> None:
        """The file first: if it cannot be written, the monitor stands where the file does."""
        progress = replace(
            self._progress,
            windows=state.windows,
            cursor=None if state.cursor is None else state.cursor.to_dict(),
            alarms={name: alarm_to_dict(alarm) for name, alarm in state.alarms.items()},
            originals=[asdict(original) for original in state.originals],
            now=state.now,
        )
        if self._tracker is None:
            self._records.extend(records)
        else:
            run = {
                "created": self._created,
                "source": self._source,
                "settings": state.settings.to_dict(),
                "encoder": state.encoder.to_dict(),
            }
            progress = self._tracker.commit(run, records, state.estimator.to_bytes(padded=False), progress)
        self._state, self._progress = state, progress


def _restored(
    settings: Settings, encoder: TableEncoder, estimator: ContinualDensityRatio, progress: Progress
) -> RunState:
    if estimator.n_features_in_ != len(encoder.names):
        raise ValueError(f"a state of {estimator.n_features_in_} columns, an encoder of {len(encoder.names)}")
    if set(progress.alarms) != set(estimator.originals_):
        raise ValueError(f"alarms of {sorted(progress.alarms)}, a state of {estimator.originals_}")
    return RunState(
        settings=settings,
        encoder=encoder,
        estimator=estimator,
        originals=tuple(Original(**original) for original in progress.originals),
        alarms={name: alarm_from_dict(alarm) for name, alarm in progress.alarms.items()},
        windows=progress.windows,
        cursor=None if progress.cursor is None else Cursor.from_dict(progress.cursor),
        now=progress.now,
    )
