"""``driftline inspect``, ``report`` and ``original``: the contents of a tracker file, in words and figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from driftline._errors import Option, OptionError
from driftline._extras import needs
from driftline._wording import clean, counted, json_line
from driftline.cli._errors import about, check_original
from driftline.monitor import Found, Inspection, Status, as_json, inspect, read_run, search
from driftline.tables import TableEncoder
from driftline.terminal import reading, say, word

__all__ = ["add_original", "list_originals", "show_inspection", "write_reports"]

_LONG = ("in the state", "in the file")  # columns of tables that may take several lines


def write_reports(tracker: str, out: str | None, png: str | None, original: str | None) -> list[str]:
    """Write the page, the figure, or both; return their paths."""
    from driftline.report import findings, write_report  # not at the top: inspect does not need it

    for name, path, suffixes in (("out", out, (".html", ".htm")), ("png", png, (".png",))):
        if path is not None and not path.lower().endswith(suffixes):
            option = Option(name, path)
            raise OptionError("{option}: its name must end in {known}", option=option, known=" or ".join(suffixes))
    if png is not None:
        needs("matplotlib", Option("png", png))
    run = read_run(tracker)
    check_original(original, [each.name for each in run.originals])
    found = findings(run, original)
    written = []
    if out is not None or png is None:
        written.append(out or "report.html")
        write_report(written[-1], found)
    if png is not None:
        from driftline.report import write_png  # not at the top: the page does not need matplotlib

        written.append(png)
        write_png(png, found)
    return written


def add_original(tracker: str, name: str, path: str | None, format: str | None) -> str:
    """Add an original from a file or the current window; return a sentence about it."""
    from driftline.monitor import Monitor  # not at the top: other commands only read the file
    from driftline.sources import read_whole

    with Monitor.open(tracker) as monitor:
        if path is None:
            record = monitor.add_original(name)
            return (
                f"{name}: the {counted(record.rows, 'row')} of window {record.window}; drift is measured from them too"
            )
        with about(path):
            nulls = monitor.settings.null_values
            record = monitor.add_original(name, read_whole(path, format, nulls, monitor.settings.window_rule().ignores))
        given = f"{name}: {counted(record.rows, 'row')} of {path}"
        return f"{given}; drift is measured from them too, from window {record.window} on"


def list_originals(tracker: str, console: Console) -> None:
    """Print the originals, and how far the data is from each now."""
    run = read_run(tracker)
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for title in ("original", "since window", "rows", "drift [interval]", "signal"):
        table.add_column(Text(title), justify="left" if title in ("original", "signal") else "right", no_wrap=True)
    for original in run.originals:
        last = [r for r in run.of(original.name) if r.status != Status.SKIPPED][-1]
        since, rows = f"{original.window:,}", f"{original.rows:,}"
        table.add_row(Text(clean(original.name)), since, rows, reading(last.drift), word(last))
    console.print(table)


def show_inspection(
    tracker: str, against: str | None, format: str | None, as_lines: bool, arrays: bool, prove: bool, console: Console
) -> int:
    """Print the contents, and whether rows of ``against`` are among them.

    Return 1 if any were left behind, or if ``prove`` asks for a file without rows and this is none; else 0.
    """
    found, inside = None, inspect(tracker)
    encoder = TableEncoder.from_dict(dict(inside.run.encoder))
    if against is not None:
        with about(against):
            found = search(tracker, _encoded(encoder, against, format, inside.run.settings.null_values))
    if as_lines:
        contents: dict[str, Any] = {**as_json(inside), "columns": encoder.describe()}
        if found is not None:
            contents["against"] = {"file": against, **vars(found), "left_behind": found.left_behind}
        console.file.write(json_line(contents, finite=False) + "\n")
    else:
        _print(inside, encoder, arrays, prove, console)
        if found is not None:
            say(console, _proof(found, against or "", inside))
    failed = prove and bool(inside.proof.problems)
    return int(failed or (found is not None and found.left_behind > 0))


def _encoded(encoder: TableEncoder, path: str, format: str | None, nulls: Sequence[str]) -> Iterator[Any]:
    from driftline.sources import open_source  # not at the top: only --against reads rows

    for batch in open_source(path, format=format, nulls=nulls).batches():
        if batch.table.num_rows:
            yield encoder.transform(batch.rows).values


def _proof(found: Found, path: str, inside: Inspection) -> str:
    rows, were = counted(found.rows, "distinct row"), "was" if found.rows == 1 else "were"
    looked = f"{rows} of {path}, encoded as the run encodes them, {were} looked for in all bytes"
    if found.left_behind:
        why = ", ".join(inside.originals_held)
        since = f"; these originals have seen no window since they joined: {why}" if why else ""
        return f"{looked}: {found.left_behind:,} ARE there, and not as rows of the current window{since}"
    also = f" but {found.also_current:,} that are rows of the current window, too" if found.also_current else ""
    return f"{looked}: none is there{also}"


def _print(inside: Inspection, encoder: TableEncoder, arrays: bool, prove: bool, console: Console) -> None:
    run = inside.run
    windows = run.records[-1].window + 1 if run.records else 0
    given = ", ".join(f"{k}={v}" for k, v in run.settings.to_dict().items() if v not in (None, []))
    originals = ", ".join(original.name for original in run.originals)
    say(
        console,
        f"{run.path}: {inside.bytes:,} bytes, begun {run.created}, watching {run.source}",
        f"settings: {given}",
        f"{counted(len(run.records), 'Record')} of {counted(windows, 'window')}; originals: {originals}",
    )
    console.print()
    columns = [(d["column"], d["kind"], d["kept"]) for d in encoder.describe()]
    console.print(_table(("column", "kind", "what is kept about it"), columns))
    console.print()
    if prove:
        kinds = [(holding.what, f"{holding.bytes:,}") for holding in inside.proof.holdings]
        console.print(_table(("in the file", "bytes"), [*kinds, ("all of it", f"{inside.bytes:,}")]))
    else:
        console.print(_table(("part", "bytes"), [(name, f"{size:,}") for name, size in inside.parts.items()]))
    console.print()
    if arrays:
        each = [(a.name, "×".join(map(str, a.shape)) or "1", f"{a.bytes:,}", a.what) for a in inside.arrays]
        console.print(_table(("array of the state", "shape", "bytes", "meaning"), each))
        console.print()
    elif not prove:
        console.print(_table(("in the state", "arrays", "bytes"), _by_meaning(inside)))
        console.print()
    for original in run.originals:
        if original.ledger is not None:
            cells = sum(len(column.counts) for column in original.ledger.columns)
            where = f"{cells:,} cells of columns; its rows in those of {counted(len(original.ledger.pairs), 'pair')}"
            say(console, f"counts for {original.name}: its rows, and those of the last windows, in {where}")
    for held in inside.held:
        known = f"the {held.rows:,} rows of window {held.window}"
        own = f"the {held.rows:,} rows it joined with; they go with the next window that is measured"
        say(console, f"rows held for {held.original}: {own if held.is_original else known}")
    if inside.skipped_in_a_row:
        were = "was" if inside.skipped_in_a_row == 1 else "were"
        say(console, f"the last {counted(inside.skipped_in_a_row, 'window')} {were} skipped: these rows stay meanwhile")
    zero = "all zero" if inside.free_is_zero else "NOT all zero"
    say(console, f"unused pages of the file: {inside.free_pages}, {zero}; log beside it: {inside.log_bytes:,} bytes")
    if not inside.proof.problems:
        say(console, "", inside.proof.sentence)
    elif prove:
        say(console, "", *(f"NOT free of rows: {problem}" for problem in inside.proof.problems))


def _by_meaning(inside: Inspection) -> list[tuple[str, ...]]:
    """Sum up the state's arrays by their meaning, largest first."""
    sums: dict[str, tuple[int, int]] = {}
    for array in inside.arrays:
        number, size = sums.get(array.what, (0, 0))
        sums[array.what] = number + 1, size + array.bytes
    largest = sorted(sums.items(), key=lambda item: -item[1][1])
    return [(what, f"{number:,}", f"{size:,}") for what, (number, size) in largest]


def _table(titles: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for i, title in enumerate(titles):
        number, wraps = title in ("bytes", "shape", "arrays"), title in _LONG or i == len(titles) - 1
        table.add_column(title, justify="right" if number else "left", overflow="fold", no_wrap=number or not wraps)
    for row in rows:
        table.add_row(*(Text(clean(cell)) for cell in row))
    return table
