"""History: the Records of one original, sorted into what a report asks for, and which of them are in doubt."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from driftline._wording import MONTHS, counted, day, moment
from driftline.alarms import Cause, Signal
from driftline.inference import WITHHOLDING, Doubt, DoubtCode
from driftline.monitor import Original, Record, Run, Settings, Status, unmeasured

__all__ = ["History", "ReportError", "doubts", "histories", "is_abrupt", "not_measured", "weak_step", "window_name"]

_WEAK = (DoubtCode.LITTLE_OVERLAP, DoubtCode.STEP_MEAN_OFF, DoubtCode.NOT_CONVERGED)
_WEIGHTS = 0.03  # least share of the effective rows expected; heavy tails cost some of them, but not that many


class ReportError(ValueError):
    """Original that is not in the run, run without windows to draw, or file that cannot be written."""


@dataclass(frozen=True)
class History:
    """History of one original.

    Attributes:
        original: the original.
        records: all of its Records, in order.
        settings: settings of the run.
        alone: whether it is the only original of the run.
        single: whether it is one comparison of two tables, not a stream.
    """

    original: Original
    records: tuple[Record, ...]
    settings: Settings
    alone: bool
    single: bool = False

    @property
    def measured(self) -> tuple[Record, ...]:
        """Records with an estimate."""
        return tuple(r for r in self.records if r.status == Status.MEASURED and r.drift is not None)

    @property
    def last(self) -> Record | None:
        """Last Record with an estimate."""
        return next((r for r in reversed(self.records) if r.status == Status.MEASURED and r.drift is not None), None)

    @property
    def unmeasured(self) -> tuple[Record, ...]:
        """Last windows, if they had rows of which nothing was measured: nothing is known of these."""
        return unmeasured(self.records)

    @property
    def kind(self) -> str:
        """Divergence that the alarm looks at."""
        last = self.last
        return self.settings.divergences[0] if last is None else next(iter(last.divergences))

    @property
    def signal(self) -> Signal:
        """Signal that stands after the last window."""
        return self.records[-1].signal if self.records else Signal.NORMAL

    def runs(self, signal: Signal) -> list[tuple[Record, Record]]:
        """Return the first and the last window of each period in which a signal stood."""
        found = []
        for stood, group in groupby(self.records, key=lambda r: r.signal):
            if stood == signal:
                part = list(group)
                found.append((part[0], part[-1]))
        return found

    @property
    def since(self) -> Record | None:
        """Window that brought the signal that stands now."""
        runs = self.runs(self.signal)
        return runs[-1][0] if runs else None


def not_measured(history: History) -> str:
    """Say how many of the last windows were not measured, and why; empty if the last one with rows was."""
    found = history.unmeasured
    if not found:
        return ""
    failed = Cause.FIT_FAILED in found[-1].causes
    rows = counted(sum(record.rows for record in found), "row")
    if not found[-1].rows and not failed:
        late = "rows came too late, or without an order or a time"
        return f"nothing was measured in the last {counted(len(found), 'window')}: {late}"
    if len(found) == 1:
        why = "its fit failed" if failed else f"{rows} {'is' if found[0].rows == 1 else 'are'} too few"
        return f"the last window was not measured: {why}"
    why = "the fit failed" if failed else "too few rows in each"
    return f"the last {len(found):,} windows ({rows}) were not measured: {why}"


def weak_step(history: History) -> Record | None:
    """Return the last window whose step could not be measured; None if there is none."""
    return next((r for r in reversed(history.measured) if any(d.code in _WEAK for d in r.doubts)), None)


def is_abrupt(record: Record) -> bool:
    """Say whether the step to this window was beyond its limit."""
    return record.step is not None and record.step.value > record.step_limit


def doubts(record: Record) -> list[Doubt]:
    """Return reasons not to trust the drift: those of the Record, and what its numbers show themselves."""
    found = list(record.doubts)
    drift = record.drift
    explained = any(doubt.code in (*WITHHOLDING, DoubtCode.NO_ERROR_BARS) for doubt in found)
    if drift is not None and not math.isfinite(drift.value):
        found.insert(0, Doubt(DoubtCode.NO_ERROR_BARS, "the estimate is not a finite number"))
    elif drift is not None and not math.isfinite(drift.std_error) and not explained:
        bare = "the estimate has no error bar, so nothing could be decided"
        found.insert(0, Doubt(DoubtCode.NO_ERROR_BARS, bare))
    elif _contradicted(record):
        size = f"{record.effective_sample_size:,.0f} of {record.rows:,} rows"
        said = f"the weights are worth {size}, far fewer than they would be after a drift as small as that"
        found.append(Doubt(DoubtCode.FEW_FOR_WEIGHTS, said))
    return found


def _contradicted(record: Record) -> bool:
    """Say whether the weights imply far more drift than the divergence: normals D nats apart leave exp(-2 D)."""
    kind, drift = next(iter(record.divergences.items()), ("", None))
    if drift is None or kind not in ("kl", "reverse_kl") or not record.rows:
        return False
    return record.effective_sample_size / record.rows < _WEIGHTS * math.exp(-2.0 * min(max(drift.value, 0.0), 350.0))


def histories(run: Run, original: str | None = None) -> list[History]:
    """Return a history for each original of a run, in the order they joined, or only the one named."""
    names = [original.name for original in run.originals]
    if original is not None and original not in names:
        known = ", ".join(repr(name) for name in names) or "none yet"
        raise ReportError(f"original {original!r} is not in this run: it has {known}")
    wanted: Sequence[Original] = [r for r in run.originals if original in (None, r.name)]
    by_name: dict[str, list[Record]] = {r.name: [] for r in wanted}
    for record in run.records:
        if record.original in by_name:
            by_name[record.original].append(record)
    return [History(r, tuple(by_name[r.name]), run.settings, len(names) == 1) for r in wanted]


def window_name(record: Record, settings: Settings) -> str:
    """Name a window in a sentence: ``the week of 3 Mar 2014 (window 9)``, or ``window 9``."""
    at, every = moment(record.start), settings.every or ""
    if at is None:
        return f"window {record.window:,}"
    if every == "1mo":
        text = f"{MONTHS[at.month - 1]} {at.year}"
    elif every == "1w":
        text = f"the week of {day(at)}"
    else:
        text = day(at, clock=every.endswith(("s", "min", "h")))
    return f"{text} (window {record.window:,})"
