"""Monitor: watches tables arriving over time, window by window, and keeps one window and one file."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from driftline._markup import card
from driftline._wording import counted
from driftline.alarms import Signal
from driftline.estimators import warn_of
from driftline.inference import Doubt
from driftline.monitor._advance import RunState, add_original, advance, begin, remarks_on
from driftline.monitor._coverage import Coverage
from driftline.monitor._frames import frame_of
from driftline.monitor._given import begin_from, check_same, given_rows
from driftline.monitor._records import Original, Record, Run
from driftline.monitor._scores import Scores, log_ratios, score
from driftline.monitor._settings import Settings, remark_on_model
from driftline.monitor._sizes import TooFewRowsError
from driftline.monitor._sqlite import TrackerError
from driftline.monitor._storage import progressed, restored, state_bytes, with_settings
from driftline.monitor._tracker import Progress, Tracker
from driftline.sources import LeftOut, Rest, Window, Windows, open_source, rows_of_frame
from driftline.tables import Rows, TableEncoder, TableError

__all__ = ["Monitor"]

Floats = npt.NDArray[np.float64]
Callback = Callable[[Record], object]

_log = logging.getLogger("driftline.monitor")


class Monitor:
    """Watch tables arriving over time: how far has the data moved from its first window?

    Arguments:
        tracker: path of the run's tracker file, created if it does not exist; an existing run goes on where it
            stopped. None keeps everything in memory.
        original: frame or file to measure drift from, such as the training data; None for the first window. A run that
            goes on checks, by a digest, that it is the same.
        on_record: function called with every Record once it is committed.
        on_alarm: function called with each Record whose signal has just become an alarm.
        settings: settings of the run, as in :class:`~driftline.monitor.Settings`, such as ``window=5000`` or
            ``time_column="ts", every="1d"``, ``tolerance=0.1``. Those in an existing tracker file need not be repeated.

    Attributes:
        settings: settings of the run.
        too_few: error about the last window that had too few rows to begin with; None if there was none.

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
        original: Any = None,
        on_record: Callback | None = None,
        on_alarm: Callback | None = None,
        **settings: Any,
    ) -> None:
        if original is not None and (tracker is None or not os.path.exists(tracker)):
            original = given_rows(original, Settings.from_dict(settings))  # before a file is created
        self._setup(None if tracker is None else Tracker(tracker), on_record, on_alarm, settings, original)

    @classmethod
    def open(
        cls,
        tracker: str | os.PathLike[str],
        *,
        readonly: bool = False,
        on_record: Callback | None = None,
        on_alarm: Callback | None = None,
    ) -> Self:
        """Open an existing tracker file; ``readonly`` to score rows or look, even while another process writes."""
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
        original: Any = None,
    ) -> None:
        self._tracker, self._on_record, self._on_alarm = tracker, on_record, on_alarm
        self._created, self._source = datetime.now(UTC).isoformat(timespec="seconds"), ""
        self._state: RunState | None = None
        self._progress = Progress()
        self._records: list[Record] = []  # kept here only without a tracker file
        self._remarks: list[str] = []  # for the next Record
        self._rest = Rest()  # of the last source
        self._coverage = Coverage()  # likewise
        self._original: Rows | None = None  # until the run has begun from it
        self._passed_over: tuple[int, ...] = ()  # rows of windows before the first
        self.too_few: TooFewRowsError | None = None
        try:
            if tracker is None or tracker.empty:
                if given is None:
                    raise TrackerError(f"{'' if tracker is None else tracker.path}: no window has been committed yet")
                self.settings = Settings.from_dict(given)
                self._remarks += filter(None, [remark_on_model(given)])
                self._original = None if original is None else given_rows(original, self.settings)
            else:
                self._go_on(tracker, given or {}, original)
        except BaseException:
            self.close()
            raise

    def _go_on(self, tracker: Tracker, given: Mapping[str, Any], original: Any) -> None:
        content = tracker.read()
        run = content.run(tracker.path)
        self._created, self._source, self._progress = run.created, run.source, content.progress
        self._state, self._remarks = with_settings(restored(content, run), given, tracker.path)
        self.settings = self._state.settings
        if original is not None:
            check_same(self._state, given_rows(original, self.settings), run.records[0], tracker.path)

    def __repr__(self) -> str:
        kept = "in memory" if self._tracker is None else repr(self._tracker.path)
        state = self._state
        if state is None:
            return f"<Monitor {kept}: no window yet>"
        stands = ", ".join(f"{alarm.signal} from {name!r}" for name, alarm in state.alarms.items())
        return f"<Monitor {kept}: {counted(state.windows, 'window')}, {stands}>"

    def _repr_html_(self) -> str:
        """Return what notebooks show: each original with its signal and the last drift; ``report.plot`` draws more."""
        last = {record.original: record for record in self.records}
        rows = [(name, _standing(record)) for name, record in last.items()]
        return card(repr(self).strip("<>"), rows, (str(doubt) for record in last.values() for doubt in record.doubts))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the tracker file, so that others may write to it."""
        if self._tracker is not None:
            self._tracker.close()

    @property
    def encoder(self) -> TableEncoder | None:
        """Encoder of the columns; None before the first window."""
        return None if self._state is None else self._state.encoder

    @property
    def records(self) -> tuple[Record, ...]:
        """All Records so far."""
        return self.run.records

    @property
    def originals(self) -> tuple[Original, ...]:
        """Originals, in the order they joined."""
        return () if self._state is None else self._state.originals

    @property
    def waiting(self) -> int:
        """Number of rows of the last source that wait for their window to be complete."""
        return self._rest.waiting

    @property
    def left_out(self) -> LeftOut:
        """Rows of the last source that came late, or had no time or a wild one, and are not in a Record yet."""
        return self._rest.left_out

    @property
    def coverage(self) -> Coverage:
        """What became of the rows of the last source; :attr:`~Coverage.blind` if most were not measured."""
        return self._coverage.at_end(self._rest)

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
        """Yield the Records of a source, window by window, each committed before it is yielded.

        Arguments:
            source: a file, folder or pattern (CSV, Parquet, Arrow, JSON lines), ``"-"`` for standard input, a data
                frame, or an iterable of frames. Files are read on from where the last committed window ended; standard
                input and iterables are taken to hold new rows, after those of earlier calls.
            follow: whether to wait for more rows at the end, looking every ``poll`` seconds.
            poll: seconds between looks.
            format: csv, tsv, parquet, arrow or jsonl, if the name does not show it.
            replay: whether standard input or an iterable starts again from the beginning: skip the rows already read.
            flush: whether to count the unfinished window too, at the end.
        """
        nulls = self.settings.null_values
        opened = open_source(source, follow=follow, poll=poll, format=format, replay=replay, nulls=nulls)
        cursor = None if self._state is None else self._state.cursor
        windows = Windows(opened, self.settings.window_rule(), cursor, flush, before=self._rest)
        self._source, self._rest, self._coverage = opened.name, Rest(), Coverage()
        try:
            for record in self._begin_from_original():
                self._call_back(record, became_alarm=False)
                yield record
            for window in windows:
                taken = self._take_or_put_back(window, windows)
                self._coverage = self._coverage.after(window, [record for record, _ in taken])
                for record, became_alarm in taken:
                    self._call_back(record, became_alarm)
                    yield record
        finally:
            self._rest = windows.rest()  # the next frames may belong to the same window
        if self.waiting:
            _log.info("%d rows wait for their window to be complete", self.waiting)
        if self.coverage.blind:  # the command says so in its own words
            lost = self.coverage.lost
            _log.warning("most rows were not measured: %d were left out", lost, extra={"of_coverage": True})

    def _begin_from_original(self) -> list[Record]:
        """Begin the run from the original that was given, if it was and the run has not begun."""
        if self._state is not None or self._original is None:
            return []
        state, record = begin_from(self._original, self.settings, self._remarks)
        self._commit(state, [record])
        self._remarks, self._original = [], None
        return [record]

    def _take_or_put_back(self, window: Window, windows: Windows) -> list[tuple[Record, bool]]:
        """Commit a window as :meth:`_take` does; if that fails, leave it for the next call."""
        try:
            return self._take(window)
        except TableError:
            raise  # this window would be refused again
        except BaseException:
            windows.put_back(window)
            raise

    def _call_back(self, record: Record, became_alarm: bool) -> None:
        if self._on_record is not None:
            self._on_record(record)
        if became_alarm and self._on_alarm is not None:
            self._on_alarm(record)

    def _take(self, window: Window) -> list[tuple[Record, bool]]:
        """Commit a window; return its Records, each with whether it raises a new alarm."""
        remarks = self._remarks
        if self._state is None:
            try:
                state, record = begin(window, self.settings, [*self._before_the_first(), *remarks])
            except TooFewRowsError as error:
                if self.settings.window is not None:  # the next one would be as short
                    raise
                return self._pass_over(window, error)  # such as a first day that began near midnight
            records, raised = [record], [False]
        else:
            before = self._state.alarms
            state, records = advance(self._state, window, remarks)
            alarm = Signal.ALARM
            raised = [r.signal == alarm and before[r.original].signal != alarm for r in records]
        self._commit(state, records)
        self._remarks = []
        return list(zip(records, raised, strict=True))

    def _pass_over(self, window: Window, error: TooFewRowsError) -> list[tuple[Record, bool]]:
        if self.too_few is None:
            _log.warning("the first window has %d rows, too few: left out", window.table.num_rows)
        self.too_few, self._passed_over = error, (*self._passed_over, window.table.num_rows)
        self._remarks += remarks_on(window)
        return []

    def _before_the_first(self) -> list[str]:
        """Return remarks for the first Record: one for all windows that were passed over before it."""
        many = len(self._passed_over)
        if many == 0:
            return []
        if many == 1:
            return [f"a window of {counted(self._passed_over[0], 'row')} before this one was left out: too few"]
        return [f"{many} windows before this one were left out: too few rows"]

    def add_original(self, name: str, frame: Any = None) -> Record:
        """Add an original: the rows of a frame, or those of the current window; drift is measured from it too.

        Arguments:
            name: name of the original.
            frame: frame with its rows, or :class:`~driftline.tables.Rows` if there is more to know about them, such as
                that text may stand for other types; None for the rows of the current window.
        """
        state, record = add_original(self._started(), name, None if frame is None else rows_of_frame(frame))
        self._commit(state, [record])
        return record

    def log_ratio(self, frame: Any, original: str | None = None) -> Floats:
        """Return log original/current of the rows of a frame or of :class:`~driftline.tables.Rows`, (n,)."""
        found = log_ratios(self._started(), rows_of_frame(frame), original)
        self._warn(found.doubts, original)
        return found.values

    def weights(self, frame: Any, original: str | None = None) -> Floats:
        """Return the weights, (n,), that make a frame's rows look like the original: a ``sample_weight``."""
        found = self.score(frame, original)
        self._warn(found.doubts, original)
        return found.weights

    def _warn(self, doubts: Iterable[Doubt], original: str | None) -> None:
        name = self._started().originals[0].name if original is None else original
        warn_of(doubts, f"{name}: " if len(self.originals) > 1 else "")

    def score(self, frame: Any, original: str | None = None) -> Scores:
        """Return log-ratios and weights of a frame's rows together, with doubts as values: nothing is warned of."""
        return score(self._started(), rows_of_frame(frame), original)

    def to_frame(self, backend: str | None = None) -> Any:
        """Return all Records as a frame, one row for each window and original.

        Columns are fields of the :class:`Record`; ``drift``, ``std_error``, ``low``, ``high`` and ``floor`` are those
        of the first divergence, the others have their value; ``moved_most`` is the column that moved
        furthest by itself, ``moved_by`` in nats.

        Arguments:
            backend: pandas, polars or pyarrow; None for the first of these that is installed.
        """
        return frame_of(self.records, backend)

    def _started(self) -> RunState:
        if self._state is None:
            raise ValueError("no window has been watched yet: call watch first")
        return self._state

    def _commit(self, state: RunState, records: list[Record]) -> None:
        """Write the file first: if that fails, the monitor stays where the file is."""
        progress = progressed(state, self._progress)
        if self._tracker is None:
            self._records.extend(records)
        else:
            run = {
                "created": self._created,
                "source": self._source,
                "settings": state.settings.to_dict(),
                "encoder": state.encoder.to_dict(),
            }
            progress = self._tracker.commit(run, records, state_bytes(state), progress)
        self._state, self._progress = state, progress


def _standing(record: Record) -> str:
    """Say the signal that stands and the drift of the last window."""
    return f"{record.signal}, drift {record.drift}" if record.drift is not None else f"{record.signal}, no estimate"
