"""What a call of ``driftline watch`` has not measured: said with its remedy, and reason for exit code 2."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from driftline._wording import counted
from driftline.inference import DoubtCode
from driftline.monitor import LOST, Coverage, Record, Settings, Status, unmeasured

__all__ = ["nothing_measured", "shortfall"]

_STUCK = 3  # times the rows of the largest window before: so many that wait do not look like one window


def shortfall(
    coverage: Coverage, settings: Settings, records: Sequence[Record], *, fresh: Sequence[Record], once: bool
) -> Iterator[str]:
    """Yield sentences on rows that this call should have measured but did not; none if it has done its work.

    Arguments:
        coverage: what became of the rows of this call.
        settings: settings of the run.
        records: all Records of the run.
        fresh: those of this call.
        once: whether the rows that wait do not come again, as from standard input.
    """
    new = bool(fresh)
    if coverage.blind:
        yield _blind(coverage)
        yield _remedy(coverage, settings)
    elif _is_lost(records):
        yield _lost(unmeasured(records))
        yield _larger(settings)
    elif not any(record.status == Status.MEASURED for record in records):
        if new or not records or coverage.waiting:
            yield _nothing_compared(coverage, settings, records)
    elif new and (blank := list(nothing_measured(fresh))):
        yield from blank
    elif once and coverage.waiting and not coverage.measured:
        yield (
            f"nothing was measured: {counted(coverage.waiting, 'row')} of standard input did not fill a window, and do "
            "not come again: pipe whole windows, count what there is with --flush, or send everything with --replay"
        )
    elif _stuck(coverage, records):
        yield (
            f"{counted(coverage.largest, 'row')} wait for one window to be complete, more than {_STUCK} times as many "
            f"as any window had: does {settings.time_column!r} still move on? (--flush counts them at once)"
        )


def nothing_measured(records: Sequence[Record]) -> Iterator[str]:
    """Yield a sentence if nothing could be measured in any of these windows, since no column varies."""
    measured = [record for record in records if record.status == Status.MEASURED]
    found = [next((d for d in r.doubts if d.code == DoubtCode.NOTHING_VARIES), None) for r in measured]
    if found and all(doubt is not None for doubt in found):
        yield f"nothing was measured: {found[-1]}"


def _blind(coverage: Coverage) -> str:
    left = coverage.left_out
    parts = [
        (left.late, "late"),
        (left.untimed, "without a readable time"),
        (left.wild, "with a time far ahead of the others"),
        (coverage.skipped, "in windows that could not be measured"),
    ]
    lost = ", ".join(f"{count:,} {how}" for count, how in parts if count)
    kept = f"{counted(coverage.measured, 'row')} {'was' if coverage.measured == 1 else 'were'} measured"
    return f"{counted(coverage.lost, 'row')} of this call {_were(coverage.lost)} left out ({lost}), {kept}"


def _is_lost(records: Sequence[Record]) -> bool:
    """Say whether the run ends with windows that were not measured: one may be a holiday if others were."""
    missed = len(unmeasured(records))
    return missed >= LOST or (missed > 0 and not any(record.status == Status.MEASURED for record in records))


def _lost(missed: Sequence[Record]) -> str:
    rows = counted(sum(record.rows for record in missed), "row")
    windows = "window" if len(missed) == 1 else f"{len(missed):,} windows"
    since = f"nothing is known since window {missed[0].window:,}"
    return f"the last {windows} ({rows}) {_were(len(missed))} not measured, so that {since}"


def _larger(settings: Settings) -> str:
    longer = "a longer --every" if settings.window is None else "a larger --window"
    return f"choose {longer} or fewer --columns: the notes of the windows say how many rows are needed"


def _remedy(coverage: Coverage, settings: Settings) -> str:
    left = coverage.left_out
    if coverage.skipped >= left.total:
        return _larger(settings)
    if left.untimed > left.late + left.wild:
        return f"look at {settings.time_column!r}: its times cannot be read"
    return (
        f"rows must come in the order of {settings.time_column!r}: sort them, or let windows wait with --lateness; "
        "for data that begins anew, begin another tracker file"
    )


def _nothing_compared(coverage: Coverage, settings: Settings, records: Sequence[Record]) -> str:
    if settings.window is not None:
        rows = counted(settings.window, "row")
        need = f"a window of {rows} after the original" if records else f"two windows of {rows}"
        need += f"; there are {coverage.waiting:,} {'more' if records else 'in all'}"
        remedy = "choose a smaller --window, or wait for more rows"
    else:
        each = f"of {settings.every}"
        need = f"a complete window {each} after the original, and a row after it" if records else ""
        need = need or f"two complete windows {each}, and a row after them"
        remedy = "choose a shorter --every, or wait for more rows"
    return f"nothing has been compared yet: that needs {need}: {remedy} (--flush counts the unfinished window)"


def _stuck(coverage: Coverage, records: Sequence[Record]) -> bool:
    largest = max((record.rows for record in records), default=0)
    return coverage.compared == 0 and coverage.largest > _STUCK * largest


def _were(count: int) -> str:
    return "was" if count == 1 else "were"
