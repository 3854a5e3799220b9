"""Records and runs, as frozen values: what the monitor says of one window and one original, and all it has said."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from driftline._markup import card
from driftline._wording import json_line
from driftline.alarms import Cause, Signal
from driftline.inference import Doubt, Estimate
from driftline.monitor._record_json import as_json, parsed
from driftline.monitor._record_parts import Marginal, Moved, MovedPair, RecordError, Status, Without
from driftline.monitor._settings import Settings

if TYPE_CHECKING:
    from driftline.tables import Ledger

__all__ = ["FIRST", "Original", "Record", "Run", "Summaries"]

FIRST = "original"  # name of the original that a run begins with
Summaries = Mapping[str, Mapping[str, Any]]  # column -> its histogram, as `driftline.tables` describes it


@dataclass(frozen=True, slots=True)
class Record:
    """A window as seen from one original.

    Attributes:
        window: index of the window: 0 is the first one, where tracing began; skipped windows count.
        original: original from which drift is measured: ``"original"``, or a name given with ``original add``.
        status: ``"original"`` (the window an original joined with), ``"measured"``, or ``"skipped"`` (no rows, or too
            few: nothing was estimated, the signal stands).
        rows: number of rows in the window.
        first_row: number of rows of the stream before the window.
        start, end: times between which the window lies, ISO 8601; None unless windows are cut by time.
        divergences: estimates with intervals, by name; in nats if they have a unit. ``reverse_kl`` has a floor. Each
            carries the doubts that concern it alone; those of the first are among ``doubts``.
        step: KL(current‖previous window), with the doubts that concern it alone.
        signal: the alarm's decision after this window.
        causes: causes of that decision, as codes.
        reason: the same causes in words, with their numbers.
        warning_limit, alarm_limit: limits of the first of ``divergences``; nan if nothing was decided.
        step_limit: limit of ``step``; beyond it is an abrupt change.
        columns: columns whose own distribution moved from the original: first those that raise the alarm by
            themselves, watched or not, then the others that a test names; the largest drift first in both.
        pairs: pairs of columns whose relation to each other changed, the largest change first.
        marginals: every tested column, by name, whether it moved or not; empty if none was tested. Those that moved by
            chance alone are among them: only ``columns`` says which moved.
        unexplained: the first divergence, if it is ``reverse_kl``, less what columns and pairs explain: the sum over
            columns, plus what a tree of pairs has beyond its columns. None if that cannot be said: no counts, no
            error bar, new values (whose drift has no upper end), or a window in which nothing moved.
        without: drift beside a column that hides all others; None if there is none such.
        effective_sample_size: Kish's size of the weights on the window, at most ``rows``.
        diagnostics: numbers about the step: ``overlap``, ``lag``, ``mean_ratio``, ``step_mean_ratio``,
            ``new_values``, the share of rows with a value that no row of the original had, and ``without_new_values``,
            the drift without them (of ``reverse_kl``; nan if there are none).
        doubts: reasons not to trust the drift, the first of ``divergences``: codes and sentences; empty if there are
            none.
        notes: other remarks about the window, in words; empty if there are none.
        late_rows: number of rows left out since the last Record because their window had been closed.
        digest: digest of the encoded rows: it shows which window's rows a tracker file holds, and reveals none of them.
        seconds: time taken by this window.
    """

    window: int
    original: str
    status: Status
    rows: int
    first_row: int
    start: str | None = None
    end: str | None = None
    divergences: Mapping[str, Estimate] = field(default_factory=dict)
    step: Estimate | None = None
    signal: Signal = Signal.NORMAL
    causes: tuple[Cause, ...] = ()
    reason: str = ""
    warning_limit: float = math.nan
    alarm_limit: float = math.nan
    step_limit: float = math.nan
    columns: tuple[Moved, ...] = ()
    pairs: tuple[MovedPair, ...] = ()
    marginals: Mapping[str, Marginal] = field(default_factory=dict)
    unexplained: float | None = None
    without: Without | None = None
    effective_sample_size: float = math.nan
    diagnostics: Mapping[str, float] = field(default_factory=dict)
    doubts: tuple[Doubt, ...] = ()
    notes: tuple[str, ...] = ()
    late_rows: int = 0
    digest: str = ""
    seconds: float = 0.0

    def __repr__(self) -> str:
        drift = "" if self.drift is None else f", drift {self.drift}"
        which = f"window {self.window} from {self.original!r}"
        return f"<Record of {which}: {self.status}, {self.rows} rows{drift}; {self.signal}: {self.reason}>"

    def _repr_html_(self) -> str:
        """Return what notebooks show: the signal and why, the drift, what moved, and every doubt."""
        rows = [("status", str(self.status)), ("rows", f"{self.rows:,}")]
        rows += [(name, str(estimate)) for name, estimate in self.divergences.items()]
        rows += [] if self.step is None else [("step", str(self.step))]
        rows += [(f"moved: {moved.column}", f"{moved.drift}; {moved.cause}") for moved in self.columns]
        rows += [(f"relate otherwise: {' with '.join(pair.columns)}", pair.cause) for pair in self.pairs]
        said = [*(f"{doubt.code}: {doubt}" for doubt in self.doubts), *self.notes]
        title = f"Record of window {self.window:,} from {self.original!r}: {self.signal}"
        return card(f"{title}, {self.reason}" if self.reason else title, rows, said)

    @property
    def drift(self) -> Estimate | None:
        """Divergence the alarm looks at, the first one; None if nothing was estimated."""
        return next(iter(self.divergences.values()), None)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON has them: numbers that are not finite are None."""
        return as_json({f.name: getattr(self, f.name) for f in fields(self)})

    def to_json(self) -> str:
        """Return the Record as one line of JSON."""
        return json_line(self.to_dict())

    @classmethod
    def from_json(cls, line: str) -> Record:
        """Read a Record that :meth:`to_json` wrote; :class:`RecordError` if the line is not one.

        >>> record = Record(window=3, original="original", status=Status.SKIPPED, rows=0, first_row=9000)
        >>> Record.from_json(record.to_json()) == record
        True
        """
        try:
            data = json.loads(line)
            return cls(**parsed(data))
        except (TypeError, KeyError, AttributeError, ValueError) as error:
            raise RecordError(f"not a Record of the monitor: {error}") from None


@dataclass(frozen=True)
class Original:
    """An original: when it joined and, if the run keeps summaries, what its columns looked like then.

    Attributes:
        name: name of the original.
        window: index of the window it joined with.
        rows: number of its rows.
        joined: end of the window it joined with; None if that has no time.
        then: histograms of its columns; empty without summaries.
        constant: encoded columns that had one value only, and that value.
        ledger: counts of its rows in cells of columns and pairs; None without summaries.
    """

    name: str
    window: int
    rows: int
    joined: str | None
    then: Summaries
    constant: Mapping[str, float] = field(default_factory=dict)
    ledger: Ledger | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON has them."""
        return {**vars(self), "ledger": None if self.ledger is None else self.ledger.to_dict()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Original:
        """Restore an original."""
        ledger = data["ledger"]
        from driftline.tables import Ledger  # needs PyArrow, and a Record does not

        return cls(**{**data, "ledger": None if ledger is None else Ledger.from_dict(ledger)})


@dataclass(frozen=True)
class Run:
    """A run as its tracker file records it.

    Attributes:
        path: path of the tracker file.
        created: time at which the run was begun, ISO 8601.
        settings: settings of the run.
        source: source that was watched, in words.
        encoder: frozen table encoder, as JSON has it.
        records: Records of all windows, in order; within a window, in the order of the originals.
        originals: originals, in the order they joined.
        now: histograms of the last measured window, in the same bins as ``then``; empty without summaries.
    """

    path: str
    created: str
    settings: Settings
    source: str
    encoder: Mapping[str, Any]
    records: tuple[Record, ...]
    originals: tuple[Original, ...]
    now: Summaries

    def of(self, original: str) -> list[Record]:
        """Return the Records of one original, in order."""
        return [record for record in self.records if record.original == original]
