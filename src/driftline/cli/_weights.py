"""``driftline weights`` writes scored rows, ``driftline compare`` prints how far two files differ."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
from rich.console import Console
from rich.table import Table
from rich.text import Text

from driftline._wording import bounds, clean, counted, precise, whole
from driftline.alarms import Signal
from driftline.cli._errors import about, check_original
from driftline.inference import Estimate
from driftline.monitor import Monitor, Record
from driftline.sources import SourceError, Writer, open_source, open_writer

__all__ = ["print_comparison", "write_weights"]

_ADDED = ("log_ratio", "weight")


def write_weights(
    tracker: str, path: str, out: str, original: str | None, format: str | None
) -> tuple[str, tuple[str, ...]]:
    """Write the rows of a file with ``log_ratio`` and ``weight`` appended, batch by batch.

    Returns:
        a sentence about them that names the original, and the reasons not to trust the weights
    """
    if Path(out).exists() and Path(path).exists() and os.path.samefile(out, path):
        raise ValueError(f"{out} is the file that is read: write to another one")
    rows, doubts = 0, dict[str, None]()  # each batch has the same doubts
    with Monitor.open(tracker, readonly=True) as monitor:
        names = [each.name for each in monitor.originals]
        check_original(original, names)
        with _writer(out) as writer, about(path):
            for batch in open_source(path, format=format, nulls=monitor.settings.null_values).batches():
                taken = [name for name in _ADDED if name in batch.table.column_names]
                if taken:
                    raise ValueError(f"{path} has a column {taken[0]!r} already")
                scores = monitor.score(batch.rows, original)
                doubts |= dict.fromkeys(map(str, scores.doubts))
                table = batch.table
                for name, values in zip(_ADDED, (scores.log_ratio, scores.weights), strict=True):
                    table = table.append_column(name, pa.array(values))
                writer.write(table)
                rows += table.num_rows
    return f"{counted(rows, 'row')} in {out}, weighted to stand in for the original {original or names[0]!r}", tuple(
        doubts
    )


def _writer(out: str) -> Writer:
    try:
        return open_writer(out)
    except SourceError as error:  # --format is the format of the rows that are read, so it must not be recommended
        raise error.replaced(advice="name it .csv, .parquet, .arrow or .jsonl") from None


def print_comparison(record: Record, a: str, b: str, console: Console) -> None:
    """Print a comparison in the terminal."""
    console.print(
        Text(
            f"{clean(b)} ({counted(record.rows, 'row')}) against {clean(a)} ({counted(record.first_row, 'row')})",
            style="bold",
        )
    )
    console.print(_estimates("divergence", "", ((kind, None, e) for kind, e in record.divergences.items())))
    if record.columns:
        moved = ((clean(m.column), m.share, m.contribution) for m in record.columns)
        console.print(_estimates("column", "share", moved))
    console.print(Text(f"effective rows: {whole(record.effective_sample_size)} of {record.rows:,}"))
    for note in (*record.doubts, *record.notes):
        console.print(Text(f"· {clean(note)}", style="yellow"))
    console.print(
        Text(
            f"{record.signal}: {record.reason}",
            style={Signal.ALARM: "bold red", Signal.WARNING: "yellow"}.get(record.signal, "green"),
        )
    )


def _estimates(title: str, share: str, parts: Iterable[tuple[str, float | None, Estimate]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column(title, no_wrap=True, overflow="ellipsis")
    for heading in ([share] if share else []) + ["nats", "from", "to"]:
        table.add_column(heading, justify="right", no_wrap=True)
    for name, part, e in parts:
        numbers = [precise(e), *(bounds(e) or ("–", "–"))]
        table.add_row(Text(name), *([f"{part:.0%}"] if part is not None else []), *numbers)
    return table
