"""``driftline weights`` writes scored rows, ``driftline compare`` prints how far two files differ."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from rich.console import Console
from rich.table import Table
from rich.text import Text

from driftline._errors import Option, OptionError
from driftline._wording import bounds, clean, counted, measure, number, precise, whole
from driftline.alarms import Signal
from driftline.cli._errors import about, check_original
from driftline.cli._formulas import neutralised
from driftline.inference import Estimate
from driftline.monitor import Monitor, Record, Settings, beside, beyond
from driftline.report import actions, compared
from driftline.sources import SourceError, Writer, open_source, open_writer
from driftline.tables import TableError
from driftline.terminal import say

__all__ = ["print_comparison", "write_weights"]

_ADDED = ("log_ratio", "weight")


class Written(NamedTuple):
    """What was written: a sentence that names the original, doubts about the weights, and other remarks."""

    sentence: str
    doubts: tuple[str, ...]
    remarks: tuple[str, ...]


def write_weights(
    tracker: str, path: str, out: str, original: str | None, format: str | None, escape_formulas: bool = False
) -> Written:
    """Write the rows of a file with ``log_ratio`` and ``weight`` appended, batch by batch.

    Warnings of other libraries become remarks: a command says everything in lines of its own.
    """
    if Path(out).exists() and Path(path).exists() and os.path.samefile(out, path):
        raise ValueError(f"{out} is the file that is read: write to another one")
    if escape_formulas and Path(out.removesuffix(".gz")).suffix.lower() not in (".csv", ".tsv"):
        raise OptionError("{option} is for CSV files, which spreadsheets open", option=Option("escape_formulas"))
    rows, doubts, remarks = 0, dict[str, None](), dict[str, None]()  # each batch has the same ones
    with Monitor.open(tracker, readonly=True) as monitor, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        names = [each.name for each in monitor.originals]
        check_original(original, names)
        with _writer(out) as writer, about(path):
            for batch in open_source(path, format=format, nulls=monitor.settings.null_values).batches():
                table, further = batch.table, _further(batch.table, monitor)
                taken = [name for name in _ADDED if name in table.column_names]
                if taken:
                    raise ValueError(f"{path} has a column {taken[0]!r} already")
                try:
                    scores = monitor.score(batch.rows.holding(table.drop_columns(further)), original)
                except TableError as error:  # rows are counted in the file, not in a batch of it
                    row = batch.row + error.fields.get("row", 0)
                    raise error.replaced(row=row, where=batch.file or "the stream") from None
                doubts |= dict.fromkeys(map(str, scores.doubts))
                if further:
                    remarks[f"not in the first window, and not counted: {', '.join(map(repr, further))}"] = None
                for name, values in zip(_ADDED, (scores.log_ratio, scores.weights), strict=True):
                    table = table.append_column(name, pa.array(values))
                writer.write(neutralised(table) if escape_formulas else table)
                rows += table.num_rows
    remarks |= dict.fromkeys(str(each.message) for each in caught)
    sentence = f"{counted(rows, 'row')} in {out}, weighted to stand in for the original {original or names[0]!r}"
    return Written(sentence, tuple(doubts), tuple(remarks))


def _further(table: pa.Table, monitor: Monitor) -> list[str]:
    """Return columns that the run does not know: they are passed on, and say nothing about the drift."""
    encoder = monitor.encoder
    assert encoder is not None  # a tracker without a window is refused
    known = {column.name for column in encoder.columns} | set(encoder.skipped)
    return [name for name in table.column_names if name not in known and name not in _ADDED]


def _writer(out: str) -> Writer:
    try:
        return open_writer(out)
    except SourceError as error:  # --format is the format of the rows that are read, so it must not be recommended
        raise error.replaced(advice="name it .csv, .parquet, .arrow or .jsonl") from None


def print_comparison(record: Record, a: str, b: str, settings: Settings, console: Console) -> None:
    """Print a comparison in the terminal: the numbers, what is in doubt, the verdict and what to do."""
    console.print(
        Text(
            f"{clean(b)} ({counted(record.rows, 'row')}) against {clean(a)} ({counted(record.first_row, 'row')})",
            style="bold",
        )
    )
    console.print(_estimates("divergence", "", ((kind, "", e) for kind, e in record.divergences.items())))
    if record.columns:
        moved = ((clean(m.column), clean(m.cause), m.drift) for m in record.columns)
        console.print(_estimates("moved by itself", "what of it", moved))
    for pair in record.pairs:
        names = " and ".join(clean(column) for column in pair.columns)
        console.print(Text(f"{names} relate otherwise: {number(pair.dependence)} nats, {clean(pair.cause)}"))
    for text in filter(None, [beyond(record), beside(record)]):
        console.print(Text(clean(text)))
    console.print(Text(f"effective rows: {whole(record.effective_sample_size)} of {record.rows:,}"))
    others = (f"{measure(kind)}: {doubt}" for kind, e in record.divergences.items() for doubt in e.doubts)
    for note in dict.fromkeys([*map(str, record.doubts), *record.notes, *list(others)]):
        console.print(Text(f"· {clean(note)}", style="yellow"), soft_wrap=not console.is_terminal)
    style = {Signal.ALARM: "bold red", Signal.WARNING: "yellow"}.get(record.signal, "green")
    console.print(Text(f"{record.signal}: {clean(record.reason)}", style=style), soft_wrap=not console.is_terminal)
    history, found = compared(record, settings)
    say(console, "", found.sentence)
    if found.outcome != "normal":
        step = actions(history, found, "", {})[0]
        say(console, f"what to do: {step.title}. {step.text}")


def _estimates(title: str, cause: str, parts: Iterable[tuple[str, str, Estimate]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column(title, no_wrap=True, overflow="ellipsis")
    for heading in ("nats", "from", "to"):
        table.add_column(heading, justify="right", no_wrap=True)
    if cause:
        table.add_column(cause, overflow="fold")
    for name, what, e in parts:
        numbers = [precise(e), *(bounds(e) or ("–", "–"))]
        table.add_row(Text(name), *numbers, *([Text(what)] if cause else []))
    return table
