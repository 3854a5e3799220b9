"""A run in words: its heading, numbers as people read them, the columns that moved, a sparkline."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from rich.cells import cell_len, set_cell_size

from driftline.inference import Estimate
from driftline.monitor import Record, Settings

__all__ = [
    "Heading",
    "clean",
    "count",
    "counted",
    "heading",
    "moved",
    "notes_of",
    "number",
    "reading",
    "sparkline",
    "when",
    "word",
]

_BARS = "▁▂▃▄▅▆▇█"
_MEASURES = {  # in the words of reports
    "reverse_kl": "KL(current‖original)",
    "kl": "KL(original‖current)",
    "js": "Jensen-Shannon divergence",
    "hellinger": "squared Hellinger distance",
    "pearson": "Pearson χ²",
    "neyman": "Neyman χ²",
    "total_variation": "total variation",
}


@dataclass(frozen=True)
class Heading:
    """What is said above a run.

    Attributes:
        source: what is watched, in words.
        windows: how it is cut, in words.
        state: path of the tracker file, or None if nothing is kept.
        measure: the divergence the alarm looks at, in words.
        tolerance: nats that do not matter.
        total: rows of the source, if that is known.
    """

    source: str
    windows: str
    state: str | None = None
    measure: str = "reverse_kl"
    tolerance: float = 0.0
    total: int | None = None


def heading(settings: Settings, source: str, state: str | None, total: int | None = None) -> Heading:
    """What stands above a run with these settings.

    >>> heading(Settings(window=5000), "orders.csv", None).windows
    'windows of 5,000 rows'
    """
    by_rows = f"windows of {counted(settings.window or 0, 'row')}"
    windows = by_rows if settings.window else f"windows of {settings.every} by {settings.time_column}"
    kind = settings.divergences[0]
    return Heading(clean(source), clean(windows), state, _MEASURES.get(kind, kind), settings.tolerance, total)


def clean(text: str) -> str:
    """Names and values come out of files: nothing in them may steer the terminal.

    >>> clean("red\\x1b[31m alert")
    'red�[31m alert'
    """
    return "".join(c if c.isprintable() else " " if c.isspace() else "�" for c in text)


def number(value: float) -> str:
    """Three decimals, or fewer where a value is large.

    >>> number(0.12345), number(17.333), number(2345.6), number(float("nan"))
    ('0.123', '17.33', '2,346', '–')
    """
    if not math.isfinite(value):
        return "–"
    size = abs(value)
    text = f"{value:.3f}" if size < 10 else f"{value:.2f}" if size < 100 else f"{value:,.0f}"
    return text.replace("-0.000", "0.000") if float(text.replace(",", "")) == 0.0 else text


def counted(number: int, noun: str) -> str:
    """A number of things.

    >>> counted(1, "row"), counted(2870, "row")
    ('1 row', '2,870 rows')
    """
    return f"{number:,} {noun}" + "s" * (number != 1)


def reading(estimate: Estimate | None) -> str:
    """A value and its interval.

    >>> reading(Estimate(0.136, 0.01, 0.112, 0.162, 0.95))
    '0.136 [0.112, 0.162]'
    """
    if estimate is None:
        return "–"
    if not (math.isfinite(estimate.low) and math.isfinite(estimate.high)):
        return f"{number(estimate.value)} [no interval]"
    return f"{number(estimate.value)} [{number(estimate.low)}, {number(estimate.high)}]"


def when(record: Record) -> str:
    """The window's beginning in time, or the row it reaches.

    >>> when(Record(3, "original", "measured", 1000, 3000))
    '4,000'
    >>> when(Record(3, "original", "measured", 1000, 3000, start="2025-05-05T00:00:00+00:00"))
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


def moved(record: Record, width: int = 60) -> str:
    """The columns that moved most, with shares, as many as fit; those below 1 % are left out.

    Where the interval of the drift reaches down to 0, shares are of noise, and none are named.
    """
    drift = record.drift
    if record.signal == "normal" and not (drift is not None and drift.low > 0.0):
        return ""
    parts = [f"{clean(m.column)} {m.share:.0%}" for m in record.columns if m.share >= 0.01]
    text = ""
    for part in parts:
        longer = f"{text}, {part}" if text else part
        if cell_len(longer) > width:
            break
        text = longer
    return text if text or not parts else _shortened(parts[0], width)


def _shortened(text: str, width: int) -> str:
    if cell_len(text) <= width:
        return text
    head, _, share = text.rpartition(" ")
    return set_cell_size(head, max(1, width - len(share) - 2)).rstrip() + "… " + share


def sparkline(values: Sequence[float], width: int = 60, top: float = 0.0) -> str:
    """Bars from 0 to the largest value, or to ``top`` if that is larger.

    Where there are more values than places, a place shows the largest of its own.

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
    """What is said about the window, in one word; an alarm in capitals, so that it needs no colour."""
    if record.status == "original":
        return "began" if record.window == 0 else "joined"
    if record.status == "skipped":
        return "skipped"
    return "ALARM" if record.signal == "alarm" else str(record.signal)


def notes_of(record: Record, several: bool) -> list[str]:
    """What a person should know about the window, a line each; with ``several`` originals, which one."""
    where = f"window {record.window}" + (f" from {clean(record.original)}" if several else "")
    return [f"{where}: {clean(note)}" for note in (*record.doubts, *record.notes)]


def count(rows: float) -> str:
    """A count that may be unknown.

    >>> count(1234.4), count(float("nan"))
    ('1,234', '–')
    """
    return f"{rows:,.0f}" if math.isfinite(rows) else "–"
