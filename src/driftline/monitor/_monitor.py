"""Monitor: watches tables arriving over time, window by window, and keeps one window and one file."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from driftline.alarms import Signal
from driftline.estimators import warn_of
from driftline.inference import Doubt
from driftline.monitor._advance import RunState, TooFewRowsError, add_original, advance, begin, rows_of
from driftline.monitor._records import Original, Record, Run
from driftline.monitor._settings import Settings
from driftline.monitor._sqlite import TrackerError
from driftline.monitor._storage import progressed, restored, state_bytes, with_settings
from driftline.monitor._tracker import Progress, Tracker
from driftline.recursion import Track, log_ratio, moderated, track_of, weights
from driftline.sources import Rest, Window, Windows, open_source, rows_of_frame
from driftline.tables import TableEncoder, TableError

__all__ = ["Monitor", "Scores"]

Floats = npt.NDArray[np.float64]
Callback = Callable[[Record], object]

_log = logging.getLogger("driftline.monitor")


class Scores(NamedTuple):
    """Log-ratios and weights of rows, (n,), the original they lead back to, and reasons not to trust them."""

    original: str
    log_ratio: Floats
    weights: Floats
    doubts: tuple[Doubt, ...]


class Monitor:
    """Watch tables arriving over time: how far has the data moved from its first window?

    Arguments:
        tracker: path of the run's tracker file, created if it does not exist; an existing run goes on where it
            stopped. None keeps everything in memory.
        on_record: function called with every Record once it is committed.
        on_alarm: function called with each Record whose signal has just become an alarm.
        settings: settings of the run, as in :class:`~driftline.monitor.Settings`, such as ``window=5000`` or
            ``time_column="ts", every="1d"``, ``tolerance=0.1``. Those in an existing tracker file need not be repeated.

    Attributes:
        settings: settings of the run.

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
    ) -> None:
        self._tracker, self._on_record, self._on_alarm = tracker, on_record, on_alarm
        self._created, self._source = datetime.now(UTC).isoformat(timespec="seconds"), ""
        self._state: RunState | None = None
        self._progress = Progress()
        self._records: list[Record] = []  # kept here only without a tracker file
        self._remarks: list[str] = []  # for the next Record
        self._rest = Rest()  # of the last source
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
        run = content.run(tracker.path)
        self._created, self._source, self._progress = run.created, run.source, content.progress
        self._state, self._remarks = with_settings(restored(content, run), given, tracker.path)
        self.settings = self._state.settings

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
    def late(self) -> int:
        """Number of rows of the last source that came too late or had no time, and are not in a Record yet."""
        return self._rest.late

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
        self._source, self._rest = opened.name, Rest()
        try:
            for window in windows:
                for record, became_alarm in self._take_or_put_back(window, windows):
                    self._call_back(record, became_alarm)
                    yield record
        finally:
            self._rest = windows.rest()  # the next frames may belong to the same window
        if self.waiting:
            _log.info("%d rows wait for their window to be complete", self.waiting)

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
                state, record = begin(window, self.settings, remarks)
            except TooFewRowsError:
                if self.settings.window is not None:  # the next one would be as short
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
        found = log_ratio(*self._asked(frame, original))
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
        name = self._started().originals[0].name if original is None else original
        track, rows = self._asked(frame, name)
        found = weights(track, rows)
        return Scores(name, log_ratio(track, rows).values, found.values, found.doubts)

    def _asked(self, frame: Any, original: str | None) -> tuple[Track, Floats]:
        state = self._started()
        encoded = state.encoder.transform(rows_of_frame(frame))
        track = track_of(state.recursion, state.originals[0].name if original is None else original)
        if state.settings.model == "auto":
            track = track._replace(current=moderated(track.current))
        return track, rows_of(state.encoder, encoded.values, "X", min_rows=0, copy=False)

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
