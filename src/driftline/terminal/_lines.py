"""A Record in a line of text: heading, reading, the columns that moved, a sparkline."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise

from rich.cells import cell_len, set_cell_size

from driftline._causes import OF_COLUMNS
from driftline._wording import bounds, clean, counted, gist, joined, measure, number, percent, precise, qualifier
from driftline.alarms import Signal
from driftline.inference import DoubtCode, Estimate
from driftline.monitor import Record, Settings, Status, beside, beyond, brought, ended, is_near

__all__ = [
    "Heading",
    "Remarks",
    "cut",
    "heading",
    "marks",
    "moved",
    "moves_of",
    "reading",
    "said",
    "short",
    "sparkline",
    "when",
    "word",
]

_BARS = "▁▂▃▄▅▆▇█"
_LONG = 10  # windows without a remark, after which it is said again
_NAME, _LONGEST = 4, 24  # cells that the first name has at least, and those that others have at most
_SHORT = 80  # characters of a remark that was said before


@dataclass(frozen=True)
class Heading:
    """Heading of a run.

    Attributes:
        source: source that is watched, in words.
        windows: length of its windows, in words.
        tracker: path of the tracker file, or None if nothing is kept.
        measure: name of the divergence the alarm looks at.
        tolerance: drift that does not matter, in nats.
        total: number of rows of the source, if known.
        original: where drift is measured from, in words; empty if the run has begun before.
    """

    source: str
    windows: str
    tracker: str | None = None
    measure: str = "reverse_kl"
    tolerance: float = 0.0
    total: int | None = None
    original: str = ""


def heading(
    settings: Settings, source: str, tracker: str | None, total: int | None = None, original: str = ""
) -> Heading:
    """Return the heading of a run with these settings.

    >>> heading(Settings(window=5000), "orders.csv", None).windows
    'windows of 5,000 rows'
    """
    by_rows = f"windows of {counted(settings.window or 0, 'row')}"
    windows = by_rows if settings.window else f"windows of {settings.every} by {settings.time_column}"
    kind = settings.divergences[0]
    return Heading(clean(source), clean(windows), tracker, measure(kind), settings.tolerance, total, original)


def reading(estimate: Estimate | None) -> str:
    """Write a value and its interval, with as many digits as the error bar supports.

    >>> reading(Estimate(0.136, 0.01, 0.112, 0.162, 0.95))
    '0.136 [0.112, 0.162]'
    >>> reading(Estimate(0.136, 0.01, 0.112, float("inf"), 0.95))
    '≥ 0.136 [0.112, ∞]'
    """
    if estimate is None:
        return "–"
    return f"{short(estimate)} [{', '.join(bounds(estimate)) or 'no interval'}]"


def short(estimate: Estimate | None) -> str:
    """Write a value alone, with a sign where its interval is open above.

    >>> short(Estimate(0.136, 0.01, 0.112, 0.162, 0.95)), short(Estimate(0.136, 0.01, 0.112, float("inf"), 0.95))
    ('0.136', '≥ 0.136')
    """
    if estimate is None:
        return "–"
    return {"at least ": "≥ ", "about ": "~ "}.get(qualifier(estimate), "") + precise(estimate)


def when(record: Record) -> str:
    """Write the time at which the window begins, or the row it reaches.

    >>> when(Record(3, "original", Status.MEASURED, 1000, 3000))
    '4,000'
    >>> when(Record(3, "original", Status.MEASURED, 1000, 3000, start="2025-05-05T00:00:00+00:00"))
    '2025-05-05'
    """
    if record.start is None:
        return f"{record.first_row + record.rows:,}"
    try:
        start = datetime.fromisoformat(record.start)
    except ValueError:
        return clean(record.start)
    if (start.hour, start.minute, start.second) == (0, 0, 0):
        return start.strftime("%Y-%m-%d")
    return start.strftime("%Y-%m-%d %H:%M" if start.second == 0 else "%Y-%m-%d %H:%M:%S")


def moved(record: Record, width: int = 72, before: Record | None = None) -> str:
    """Name the columns that moved, with their own drift in nats, then pairs, as many as fit; with causes if all fit.

    The number of others follows. A column that brought the signal has its cause in any case. Where nothing is named, a
    signal says what brought it, and a step which columns it brought back since the Record ``before``.

    >>> from driftline.monitor import Moved
    >>> income = Moved("income", Estimate(0.071, 0.01, 0.05, 0.09, 0.95), 1e-9, "60K+ from 10 % to 1 %")
    >>> record = Record(3, "original", Status.MEASURED, 1000, 3000, columns=(income,))
    >>> moved(record), moved(record, 20)
    ('income 0.071 (60K+ from 10 % to 1 %)', 'income 0.071')
    >>> moved(replace(record, columns=(income,) * 5), 30)
    'income 0.071, +4 more'
    """
    parts = [(clean(m.column), f" {qualifier(m.drift)}{precise(m.drift)}", clean(m.cause)) for m in record.columns]
    parts += [
        (" with ".join(clean(c) for c in m.columns), f" {number(m.dependence)}", clean(m.cause)) for m in record.pairs
    ]
    if not parts:
        return cut(_unnamed(record, before), width)
    full = ", ".join(f"{name}{nats} ({cause})" for name, nats, cause in parts)
    if cell_len(full) <= width:
        return full
    (name, nats, cause), others = parts[0], parts[1:]
    room = width - cell_len(_more(len(others)))
    ends = [nats]
    if record.columns and OF_COLUMNS & set(record.causes):
        ends = [f"{nats} ({cause})", f": {cause}"]  # the number stands aside for the cause
    fits = [end for end in ends if _NAME + cell_len(end) <= room]
    if not fits:
        return cut(cut(name, max(2 * width // 3, width - cell_len(ends[-1]))) + ends[-1], width)
    text = cut(name, room - cell_len(fits[0])) + fits[0]
    for at, (name, nats, _) in enumerate(others):
        longer = f"{text}, {cut(name, _LONGEST)}{nats}"
        if cell_len(longer + _more(len(others) - at - 1)) > width:
            return text + _more(len(others) - at)
        text = longer
    return text


def _more(others: int) -> str:
    return f", +{others} more" if others else ""


def _unnamed(record: Record, before: Record | None) -> str:
    """Say what a signal is about where no column and no pair moved."""
    if back := ended(record, before):
        return f"{joined([clean(m.column) for m in back])} as in the original again (abrupt step)"
    if is_near(record):
        return clean(brought(record)) or "no column differs; an earlier step was not measured"
    none = "" if record.unexplained is None or record.signal == Signal.NORMAL else "no column alone"
    return clean(brought(record)) or none


def cut(text: str, width: int) -> str:
    """Cut a text off where it is too wide."""
    return text if cell_len(text) <= width else set_cell_size(text, width - 1).rstrip() + "…"


def moves_of(record: Record, before: Record | None) -> list[str]:
    """Return a line for each column and pair that moved and had not in the window before, and one for what is left.

    After an abrupt step, columns that it brought back to the original have one, too.
    """
    known = set() if before is None else {m.column for m in before.columns} | {m.columns for m in before.pairs}
    lines = [
        f"{clean(m.column)} moved by itself: {reading(m.drift)} nats, {clean(m.cause)}"
        for m in record.columns
        if m.column not in known
    ]
    lines += [
        f"{' and '.join(clean(c) for c in m.columns)} relate otherwise: {number(m.dependence)} nats, {clean(m.cause)}"
        for m in record.pairs
        if m.columns not in known
    ]
    back = [
        f"{clean(m.column)} no longer differs from the original; before the step: {clean(m.cause)}"
        for m in ended(record, before)
    ]
    new = bool(lines) or (before is not None and before.signal != record.signal)
    return lines + back + ([clean(text) for text in (beyond(record), beside(record)) if text] if new else [])


def sparkline(values: Sequence[float], width: int = 60, top: float = 0.0) -> str:
    """Draw bars from 0 to the largest value, or to ``top`` if that is larger.

    If there are more values than places, each place shows the largest of several.

    >>> sparkline([0.0, 0.1, 0.2, 0.8])
    '▁▂▃█'
    >>> len(sparkline(list(range(1000)), 40))
    40
    """
    known = [v if math.isfinite(v) else 0.0 for v in values]
    if len(known) > width:
        cuts = [round(i * len(known) / width) for i in range(width + 1)]
        known = [max(known[a:b]) for a, b in pairwise(cuts)]
    top = max([*known, top, 1e-12])
    return "".join(_BARS[min(7, int(8.0 * max(0.0, v / top)))] for v in known)


def word(record: Record) -> str:
    """Describe the window in one word; an alarm in capitals, so that it does not need colour."""
    if record.status == Status.ORIGINAL:
        return "began" if record.window == 0 else "joined"
    if record.status == Status.SKIPPED:
        return str(Status.SKIPPED)
    return "ALARM" if record.signal == Signal.ALARM else str(record.signal)


def marks(record: Record) -> str:
    """Return the codes of the doubts about a window's drift, which stand in its line; empty if there are none.

    Values that the original did not have are a finding: they have a sign of their own.

    >>> from driftline.inference import Doubt, DoubtCode
    >>> marks(Record(3, "original", Status.MEASURED, 9, 0, doubts=(Doubt(DoubtCode.FEW_ROWS, "9 rows are few"),)))
    '? few_rows'
    """
    codes = dict.fromkeys(str(doubt.code) for doubt in record.doubts if doubt.code != DoubtCode.CONSTANT_MOVED)
    new = any(doubt.code == DoubtCode.CONSTANT_MOVED for doubt in record.doubts)
    share = f" in {percent(record.diagnostics['new_values'])}" if "new_values" in record.diagnostics else ""
    parts = [f"? {', '.join(codes)}" if codes else "", f"+ new values{share}" if new else ""]
    return clean("  ".join(filter(None, parts)))


@dataclass(frozen=True)
class _Remark:
    """A doubt or a note as it was said last, and the windows that it was about."""

    text: str
    original: str
    first: int
    last: int
    windows: int = 1
    code: str = ""


class Remarks:
    """Doubts and notes of windows: each is said once, and counted where it comes again."""

    def __init__(self) -> None:
        self._said: dict[tuple[str, str], _Remark] = {}  # the one that came last is the last

    def add(self, record: Record) -> list[str]:
        """Take a Record; return the keys of what was not said before, or not for long."""
        new, about = [], record.original
        names = {*record.marginals, *(m.column for m in record.columns)}
        doubts = [(f"{doubt.code} {' '.join(doubt.concerns)}", str(doubt), str(doubt.code)) for doubt in record.doubts]
        for kind, text, code in (*doubts, *((gist(note, names), note, "") for note in record.notes)):
            before = self._said.pop((about, kind), None)
            if before is None or record.window - before.last > _LONG:
                self._said[about, kind] = _Remark(text, about, record.window, record.window, code=code)
                new.append(text)
            elif before.last < record.window:
                windows = before.windows + 1
                self._said[about, kind] = replace(before, text=text, last=record.window, windows=windows)
            else:
                self._said[about, kind] = before
        return new

    def counted(self, several: bool, *, repeated: bool = False) -> list[str]:
        """Return all in a line each, doubts last, with their windows; if ``repeated``, in short what came in several.

        With ``several`` originals, lines name theirs.
        """
        if not repeated:
            doubts_last = sorted(self._said.values(), key=lambda each: bool(each.code))
            return [_counted(each, several) for each in doubts_last]
        short = (replace(r, text=r.code or _begun(r.text)) for r in self._said.values())
        return [_counted(each, several) for each in short if each.windows > 1]


def _begun(text: str) -> str:
    return text if len(text) <= _SHORT else f"{text[:_SHORT].rstrip()}…"


def _counted(remark: _Remark, several: bool) -> str:
    source = f" from {clean(remark.original)}" if several else ""
    if remark.windows == 1:
        return f"window {remark.first}{source}: {clean(remark.text)}"
    where = f"in {remark.windows:,} windows since window {remark.first}{source}"
    return f"{where}: {clean(remark.text)}"


def said(record: Record, texts: Sequence[str], several: bool) -> list[str]:
    """Return remarks about a window, a line each; with ``several`` originals, lines name theirs."""
    where = f"window {record.window}" + (f" from {clean(record.original)}" if several else "")
    return [f"{where}: {clean(text)}" for text in texts]
