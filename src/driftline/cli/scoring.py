"""``driftline weights`` and ``driftline compare``: rows of files scored, two files held against each other."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table
from rich.text import Text

from driftline.alarms import Signal
from driftline.estimates import Estimate
from driftline.features.tables import TableEncoder
from driftline.monitor.monitor import Monitor
from driftline.monitor.records import Moved, Record
from driftline.monitor.settings import Settings
from driftline.monitor.sources import open_source
from driftline.monitor.standing import named
from driftline.monitor.writers import open_writer
from driftline.shell import UntrustedEstimateWarning
from driftline.static import DensityRatio
from driftline.wording import clean, count, number

__all__ = ["compare", "print_comparison", "read_table", "write_weights"]

_ADDED = ("log_ratio", "weight")


def read_table(path: str, format: str | None = None) -> tuple[pa.Table, bool]:
    """A file (folder, pattern) as one table, and whether its values are text whose kind is not known yet."""
    batches = list(open_source(path, format=format).batches())
    if not any(batch.table.num_rows for batch in batches):
        raise ValueError(f"{path}: no rows")
    try:
        table = pa.concat_tables([batch.table for batch in batches], promote_options="permissive")
    except pa.ArrowException as error:
        raise ValueError(f"{path}: its parts do not have the same columns ({error})") from None
    return table, any(batch.untyped for batch in batches)


def write_weights(tracker: str, path: str, out: str, original: str | None, format: str | None) -> int:
    """The rows of a file with ``log_ratio`` and ``weight`` appended, batch by batch; how many there were."""
    if Path(out).exists() and Path(path).exists() and os.path.samefile(out, path):
        raise ValueError(f"{out} is the file that is read: write to another one")
    rows = 0
    with Monitor.open(tracker, readonly=True) as monitor:
        names = [reference.name for reference in monitor.references]
        if original is not None and original not in names:
            raise ValueError(f"--original {original!r} is unknown: there are {', '.join(names)}")
        with open_writer(out) as writer:
            for batch in open_source(path, format=format).batches():
                taken = [name for name in _ADDED if name in batch.table.column_names]
                if taken:
                    raise ValueError(f"{path} has a column {taken[0]!r} already")
                table = batch.table
                for name, score in (("log_ratio", monitor.log_ratio), ("weight", monitor.weights)):
                    table = table.append_column(name, pa.array(score(batch.table, original, untyped=batch.untyped)))
                writer.write(table)
                rows += table.num_rows
    return rows


def compare(a: str, b: str, settings: Settings, format: str | None = None) -> Record:
    """How far file B is from file A, as a Record whose original is A."""
    began = time.perf_counter()
    original, untyped = read_table(a, format)
    current, also = read_table(b, format)
    encoder = TableEncoder.fit(
        original, columns=settings.columns, drop=settings.drop, numeric=settings.numeric,
        categorical=settings.categorical, datetime=settings.datetime, schema=settings.schema, untyped=untyped,
    )  # fmt: skip
    then, now = encoder.transform(original, untyped=untyped), encoder.transform(current, untyped=also)
    ratio = DensityRatio(model=settings.model, random_state=settings.seed)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UntrustedEstimateWarning)
        ratio.fit(named(encoder, then.values), named(encoder, now.values))
        found = {kind: _plain(ratio.divergence(kind, level=settings.level)) for kind in settings.divergences}
        columns = _moved(ratio, encoder, settings)
    signal, reason = _judged(found[settings.divergences[0]], settings.tolerance)
    notes = dict.fromkeys([*now.notes, *(str(warning.message) for warning in caught)])
    return Record(
        window=1, original=a, status="measured", rows=current.num_rows, first_row=original.num_rows, divergences=found,
        signal=signal, reason=reason, warning_limit=settings.tolerance, alarm_limit=settings.tolerance, columns=columns,
        effective_sample_size=ratio.info_.effective_sample_size, notes=tuple(notes),
        seconds=time.perf_counter() - began,
    )  # fmt: skip


def _moved(ratio: DensityRatio, encoder: TableEncoder, settings: Settings) -> tuple[Moved, ...]:
    groups = {raw: [encoder.names[j] for j in at] for raw, at in encoder.groups.items()}
    try:
        parts = ratio.attribution(level=settings.level, groups=groups)
    except ValueError:  # networks have no such parts
        return ()
    return tuple(Moved(str(p.column), float(p.share), _plain(p.contribution)) for p in parts[: settings.top])


def _plain(estimate: Estimate) -> Estimate:
    return Estimate(estimate.value, estimate.std_error, estimate.low, estimate.high, estimate.level)


def _judged(drift: Estimate, tolerance: float) -> tuple[Signal, str]:
    """One look, no stream: the interval against the tolerance."""
    percent = f"{100 * drift.level:.4g}% interval"
    if not np.isfinite(drift.low + drift.high):
        return Signal.NORMAL, "no error bar, so nothing was decided"
    if drift.low > tolerance:
        return Signal.ALARM, f"the {percent}, {drift.low:.3g} to {drift.high:.3g}, lies beyond {tolerance:.3g}"
    if drift.high > tolerance:
        return Signal.WARNING, f"the {percent}, {drift.low:.3g} to {drift.high:.3g}, reaches beyond {tolerance:.3g}"
    return Signal.NORMAL, f"the {percent}, {drift.low:.3g} to {drift.high:.3g}, lies within {tolerance:.3g}"


def print_comparison(record: Record, a: str, b: str, console: Console) -> None:
    """In the terminal."""
    console.print(
        Text(f"{clean(b)} ({record.rows:,} rows) against {clean(a)} ({record.first_row:,} rows)", style="bold")
    )
    console.print(_estimates("divergence", "", ((kind, None, e) for kind, e in record.divergences.items())))
    if record.columns:
        moved = ((clean(m.column), m.share, m.contribution) for m in record.columns)
        console.print(_estimates("column", "share", moved))
    console.print(Text(f"rows' worth: {count(record.effective_sample_size)} of {record.rows:,}"))
    for note in record.notes:
        console.print(Text(f"· {clean(note)}", style="yellow"))
    console.print(
        Text(
            f"{record.signal}: {record.reason}",
            style={"alarm": "bold red", "warning": "yellow"}.get(record.signal, "green"),
        )
    )


def _estimates(title: str, share: str, parts: Iterable[tuple[str, float | None, Estimate]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column(title, no_wrap=True, overflow="ellipsis")
    for heading in ([share] if share else []) + ["nats", "from", "to"]:
        table.add_column(heading, justify="right", no_wrap=True)
    for name, part, e in parts:
        numbers: list[Any] = [number(e.value), number(e.low), number(e.high)]
        table.add_row(Text(name), *([f"{part:.0%}"] if part is not None else []), *numbers)
    return table
