"""Views of a run: a live screen; one line per window where there is no terminal; or one JSON Record per line."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from driftline._wording import clean, counted, number, precise, whole
from driftline.alarms import Signal
from driftline.monitor import Record, Status
from driftline.terminal._lines import (
    Heading,
    Remarks,
    cut,
    marks,
    moved,
    moves_of,
    reading,
    said,
    short,
    sparkline,
    when,
    word,
)

if TYPE_CHECKING:
    from driftline.monitor import Monitor

__all__ = ["Command", "JsonLines", "Lines", "Screen", "View", "say", "show"]

_NAMED = 100  # most columns that are named
_STYLES = {"normal": "green", "warning": "yellow", "ALARM": "bold red", "began": "dim", "joined": "dim"}
_NOTES = 4  # the most that are on the screen


class Command(str):
    """A line with a command to copy, which is never broken."""

    __slots__ = ()


def say(console: Console, *lines: str) -> None:
    """Print sentences, wrapped between words in a terminal and whole elsewhere; a :class:`Command` is always whole."""
    for line in lines:
        console.print(Text(clean(line)), soft_wrap=isinstance(line, Command) or not console.is_terminal)


class View:
    """View of a run: a context manager that is handed every Record, and notes in between."""

    def __init__(self, heading: Heading, console: Console, past: Iterable[Record] = ()) -> None:
        self.heading, self.console = heading, console
        self.records = list(past)
        self.remarks = Remarks()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def columns(self, watched: Sequence[str], left_out: Mapping[str, str]) -> None:
        """Show which columns are watched, and which are not and why; known after the first window."""

    def add(self, record: Record) -> None:
        """Show a Record."""
        self.records.append(record)

    def note(self, text: str) -> None:
        """Show a remark that does not belong to a window."""

    @property
    def several(self) -> bool:
        """True if there is more than one original."""
        return len({record.original for record in self.records}) > 1


class JsonLines(View):
    """View as one JSON Record per line, written at once, and nothing else."""

    def add(self, record: Record) -> None:
        """Print a Record."""
        super().add(record)
        self.console.file.write(record.to_json() + "\n")
        self.console.file.flush()


class Lines(View):
    """View as one line per window, for logs and pipes."""

    def __enter__(self) -> Self:
        head = self.heading
        kept = f"tracker {clean(head.tracker)}" if head.tracker else "no tracker file"
        original = f"; {clean(head.original)}" if head.original else ""
        self._say(f"watching {clean(head.source)}, {head.windows}, {kept}{original}")
        return self

    def __exit__(self, *_: object) -> None:
        for line in self.remarks.counted(self.several, repeated=True):
            self._say(f"  {line}")

    def columns(self, watched: Sequence[str], left_out: Mapping[str, str]) -> None:
        """Print the columns."""
        for line in _columns(watched, left_out):
            self._say(line)

    def add(self, record: Record) -> None:
        """Print a line with the codes of its doubts, one for each column that moved, and one for each new remark."""
        before = next((r for r in reversed(self.records) if _follows(record, r)), None)
        super().add(record)
        at = f"{when(record)}" if record.start else f"up to row {when(record)}"
        parts = [f"window {record.window}", at, counted(record.rows, "row")]
        if self.several:
            parts.insert(1, f"from {clean(record.original)}")
        if record.status == Status.MEASURED:
            parts += [f"drift {reading(record.drift)}", f"step {short(record.step)}"]
        parts.append(word(record))
        parts += filter(None, [moved(record, before=before), marks(record)])
        self._say("  ".join(parts))
        for line in moves_of(record, before):
            self._say(f"  {line}")
        for line in said(record, self.remarks.add(record), self.several):
            self._say(f"  {line}")

    def note(self, text: str) -> None:
        """Print a remark."""
        self._say(f"  {clean(text)}")

    def _say(self, text: str) -> None:
        self.console.file.write(text + "\n")
        self.console.file.flush()


def _follows(record: Record, earlier: Record) -> bool:
    return earlier.original == record.original and earlier.status == Status.MEASURED


def _columns(watched: Sequence[str], left_out: Mapping[str, str]) -> list[str]:
    more = f" and {len(watched) - _NAMED:,} more" if len(watched) > _NAMED else ""
    lines = [counted(len(watched), "column") + ": " + ", ".join(clean(name) for name in watched[:_NAMED]) + more]
    rest = f" and {len(left_out) - _NAMED:,} more" if len(left_out) > _NAMED else ""
    names = ", ".join(clean(name) for name in list(left_out)[:_NAMED])  # the first Record says why
    return lines + ([f"left out: {names}{rest}"] if left_out else [])


@dataclass(frozen=True)
class _Column:
    title: str
    cell: Callable[[Record], str]
    right: bool = True


class Screen(View):
    """View as a live screen, redrawn as windows come and as the terminal is resized."""

    def __init__(self, heading: Heading, console: Console, past: Iterable[Record] = ()) -> None:
        super().__init__(heading, console, past)
        self._notes: dict[str, None] = {}  # remarks of no window, and columns that have moved
        self._about: list[str] = []
        self._last = time.monotonic()
        self._spinner = Spinner("dots")
        self._live = Live(
            get_renderable=self.render, console=console, refresh_per_second=5, vertical_overflow="crop", screen=False
        )

    def __enter__(self) -> Self:
        self._live.start(refresh=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def columns(self, watched: Sequence[str], left_out: Mapping[str, str]) -> None:
        """Put the columns into the heading."""
        self._about = _columns(watched, left_out)

    def add(self, record: Record) -> None:
        """Add a row, and lines about columns that have not moved before."""
        before = next((r for r in reversed(self.records) if _follows(record, r)), None)
        super().add(record)
        self.remarks.add(record)
        for line in moves_of(record, before):
            self._notes[f"window {record.window}: {line}"] = None
        self._last = time.monotonic()
        self._live.refresh()

    def note(self, text: str) -> None:
        """Add a line below the table."""
        self._notes[clean(text)] = None
        self._live.refresh()

    def render(self) -> RenderableType:
        """Draw the whole screen, for the terminal's present width and height."""
        width, records = self.console.width, list(self.records)
        head = self._heading()
        tail: list[RenderableType] = [Text(), *self._sparklines(records, width), self._progress(records, width)]
        notes = [*list(self._notes)[-_NOTES:], *self.remarks.counted(self.several)][-_NOTES:]
        tail += [Text(f"· {note}", style="yellow", no_wrap=True, overflow="ellipsis") for note in notes]
        room = max(3, self.console.height - len(head) - len(tail) - 3)
        return Group(*head, Text(), self._table(records[-room:], width), *tail)

    def _heading(self) -> list[Text]:
        head = self.heading
        first = Text("driftline ", style="bold cyan") + Text(clean(head.source), style="bold")
        first.append(f"  {head.windows}")
        kept = f"tracker {clean(head.tracker)}" if head.tracker else "nothing is kept (no --tracker)"
        kept += f" · {clean(head.original)}" if head.original else ""
        lines = [first, Text(f"drift: {head.measure}, {head.tolerance:g} nats tolerated · {kept}", style="dim")]
        lines += [Text(line, style="dim") for line in self._about[: max(1, min(4, self.console.height // 8))]]
        for line in lines:
            line.no_wrap, line.overflow = True, "ellipsis"
        return lines

    def _layout(self, records: Sequence[Record], width: int) -> tuple[list[_Column], int]:
        """Return the columns that fit, chosen by importance, and the width left for the names of those that moved."""
        began = "begins" if any(r.start for r in records) else "up to row"
        wanted = [
            _Column("window", lambda r: f"{r.window:,}"),
            _Column("drift [interval]", lambda r: reading(r.drift) if r.status == Status.MEASURED else "–"),
            _Column("signal", lambda r: f"{word(r)} ?" if marks(r).startswith("?") else word(r), right=False),
            _Column(began, when),
            _Column("step", lambda r: short(r.step)),
            _Column("eff. rows", lambda r: whole(r.effective_sample_size)),
            _Column("rows", lambda r: f"{r.rows:,}"),
            _Column("seconds", lambda r: f"{r.seconds:.2f}"),
        ]
        if self.several:
            wanted.insert(1, _Column("from", lambda r: clean(r.original)[:16], right=False))
        order = ("window", "from", began, "rows", "drift [interval]", "step", "signal", "eff. rows", "seconds")
        rest, kept = width, []
        for i, column in enumerate(wanted):
            needs = max([cell_len(column.title), *(cell_len(column.cell(r)) for r in records)]) + _gap(width)
            least = 0 if i < 3 else 24 if width < 100 else 30  # kept free for the names of columns that moved
            if rest - needs >= least:
                kept.append(column)
                rest -= needs
        return sorted(kept, key=lambda c: order.index(c.title)), rest

    def _table(self, records: Sequence[Record], width: int) -> Table:
        columns, rest = self._layout(records, width)
        table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, _gap(width), 0, 0))
        for column in columns:
            table.add_column(Text(column.title), justify="right" if column.right else "left", no_wrap=True)
        if rest >= 12:
            doubted = any(map(marks, records))
            title = "moved by itself, nats; doubts" if doubted and rest >= 29 else "moved by itself, nats"
            table.add_column(title, no_wrap=True)
        for record in records:
            cells = [Text(c.cell(record), style=_STYLES.get(c.cell(record).removesuffix(" ?"), "")) for c in columns]
            quiet = "dim" if record.signal == Signal.NORMAL else ""
            table.add_row(*cells, *([Text(_most(record, rest), style=quiet)] if rest >= 12 else []))
        return table

    def _sparklines(self, records: Sequence[Record], width: int) -> list[Text]:
        lines = []
        for name in list(dict.fromkeys(r.original for r in records))[-3:]:
            measured = [r for r in records if r.original == name and r.status == Status.MEASURED]
            drifts = [r.drift for r in measured if r.drift]
            values = [drift.value for drift in drifts]
            if drifts:
                label = f"drift from {clean(name)[:16]} " if self.several else "drift "
                most = max(drifts, key=lambda drift: drift.value)
                scale = f" highest {precise(most) if most.value > 0.0 else number(0.0)}"
                bars = sparkline(values, max(8, width - cell_len(label + scale) - 1), self.heading.tolerance)
                lines.append(Text(label) + Text(bars, style="cyan") + Text(scale, style="dim"))
        return lines

    def _progress(self, records: Sequence[Record], width: int) -> RenderableType:
        done = max((r.first_row + r.rows for r in records), default=0)
        windows = counted(len({r.window for r in records}), "window")
        total = self.heading.total
        line = Table.grid(padding=(0, 1))
        if total:
            bar = ProgressBar(total, min(done, total), width=max(10, min(40, width - 50)))
            line.add_row(
                bar, Text(f"{min(1.0, done / total):.0%} of {counted(total, 'row')} in {windows}", no_wrap=True)
            )
        else:
            idle = time.monotonic() - self._last
            waits = f", last one {idle:,.0f} s ago" if records and idle >= 5 else ""
            line.add_row(self._spinner, Text(f"{counted(done, 'row')} in {windows}{waits}", no_wrap=True))
        return line


def _most(record: Record, width: int) -> str:
    """Return the columns that moved most and the codes of doubts, as much as fits; names first where room is short."""
    codes = marks(record)
    room = width - cell_len(codes) - 2
    names = moved(record, min(60, room if room >= 30 else width))
    return cut("  ".join(filter(None, [names, codes])), width)


def _gap(width: int) -> int:
    """Return the number of blanks between columns."""
    return 2 if width >= 90 else 1


def show(monitor: Monitor, view: View, records: Iterable[Record]) -> list[Record]:
    """Hand Records to the view as they come, after the columns they are about; return them."""
    shown: list[Record] = []
    for record in records:
        if not shown and monitor.encoder is not None:
            view.columns(list(monitor.encoder.groups), dict(monitor.encoder.skipped))
        view.add(record)
        shown.append(record)
    return shown
