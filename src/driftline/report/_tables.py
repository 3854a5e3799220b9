"""Tables and notes: all windows, and what was noted about windows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby

from driftline._wording import between, counted, day, gist, moment, named, percent, precise, qualifier, unit
from driftline.alarms import Signal
from driftline.monitor import Record, Status
from driftline.report._histories import History
from driftline.report._svg import Markup, esc, tag

__all__ = ["notes", "windows"]

_LATEST = 3  # windows that are never folded
_FEWEST = 3  # quiet windows in a row that are folded
_MOST_NOTES = 100
_MOST_PLACES = 8  # most windows named for one note


def windows(history: History) -> Markup:
    """List all windows, the newest first; runs of quiet ones are folded."""
    records = history.records[::-1]
    if not records:
        return ""
    names = ["window", "rows", f"divergence{_in(unit(history.kind))}", "step [nats]", "signal", "weights worth"]
    names += ["moved [nats]", "doubts"]
    head = "".join(tag("th", esc(n), scope="col") for n in names)
    parts = []
    for quiet, run in _runs(records):
        body = tag("tbody", *(tag("tr", *_cells(record, names)) for record in run))
        table = tag("table", tag("thead", tag("tr", head)), body, class_="windows")
        if quiet:
            words = f"{counted(len(run), 'quiet window')}: {run[-1].window:,} to {run[0].window:,}"
            table = tag("details", tag("summary", esc(words)), table, class_="quiet")
        parts.append(table)
    about = f"All {counted(len(records), 'window')}, the newest first."
    if any(quiet for quiet, _ in _runs(records)):
        about += " Quiet ones (normal, nothing moved, no doubt) are folded where several follow each other."
    return tag(
        "section", tag("h2", "All windows"), tag("p", esc(about), class_="soft"), *parts, class_="card all-windows"
    )


def _quiet(record: Record) -> bool:
    measured = record.status == Status.MEASURED and record.signal == Signal.NORMAL
    return measured and not (record.columns or record.pairs or record.doubts or record.late_rows)


def _runs(records: Sequence[Record]) -> list[tuple[bool, list[Record]]]:
    """Cut windows into runs: those that are shown, and those that are folded."""
    found: list[tuple[bool, list[Record]]] = [(False, list(records[:_LATEST]))]
    for quiet, group in groupby(records[_LATEST:], key=_quiet):
        run = list(group)
        folded = quiet and len(run) >= _FEWEST
        if folded or found[-1][0]:
            found.append((folded, run))
        else:
            found[-1][1].extend(run)
    return [(folded, run) for folded, run in found if run]


def _in(name: str) -> str:
    return f" [{name.strip()}]" if name else ""


def _cells(record: Record, names: Sequence[str]) -> list[Markup]:
    """Write the cells of a window; each carries the name of its column, which narrow pages show."""
    drift, step = record.drift, record.step
    state = str(record.signal) if record.status == Status.MEASURED else str(record.status)
    worth = record.effective_sample_size / record.rows if record.rows and record.status == Status.MEASURED else None
    at, top = moment(record.start), record.columns[0] if record.columns else None
    begins = " " + tag("small", esc(day(at, clock=bool(at.hour or at.minute)))) if at else ""
    span = "" if drift is None else between(drift) or "no interval"
    far = esc(f"{qualifier(drift)}{precise(drift)}") + " " + tag("small", esc(span)) if drift else ""
    more = f" and {len(record.columns) - 1:,} more" if len(record.columns) > 1 else ""
    moved = tag("bdi", esc(named(top.column, 40))) + esc(f" {precise(top.drift)}{more}") if top else ""
    codes = " ".join(dict.fromkeys(esc(doubt.code) for doubt in record.doubts))
    sentences = "; ".join(str(doubt) for doubt in record.doubts)
    cells = [
        (f"{record.rows:,}", {}),
        (far, {}),
        (esc(f"{qualifier(step)}{precise(step)}") if step else "", {}),
        (tag("span", esc(state), class_=f"signal {state}"), {"title": record.reason or None}),
        (esc(percent(worth)) if worth is not None and math.isfinite(worth) else "", {}),
        (moved, {}),
        (tag("small", codes) if codes else "", {"title": sentences or None}),
    ]
    filled = (
        tag("td", text, data_l=name, **more) if text else "<td></td>"
        for name, (text, more) in zip(names[1:], cells, strict=True)
    )
    return [tag("th", f"{record.window:,}", begins, scope="row"), *filled]


def _remarks(history: History) -> dict[str, tuple[str, list[int]]]:
    """Return doubts and notes by what they say but for numbers: as said last, with their windows."""
    places: dict[str, tuple[str, list[int]]] = {}
    for record in history.records:
        names = {*record.marginals, *(m.column for m in record.columns)}
        found = [(f"{doubt.code} {doubt.concerns}", str(doubt)) for doubt in record.doubts]
        found += [(gist(note, names), note) for note in record.notes]
        if record.status == Status.SKIPPED and not record.notes:
            found.append((record.reason, record.reason or "nothing was measured"))
        for kind, text in found:
            _, windows = places.get(kind, ("", []))
            places[kind] = text, windows if record.window in windows[-1:] else [*windows, record.window]
    return places


def notes(history: History) -> Markup:
    """List what was noted about windows: notes that repeat once, with their windows; the latest first."""
    places = _remarks(history)
    late = sum(record.late_rows for record in history.records)
    if not places and not late:
        return tag("details", tag("summary", "Notes on windows ", tag("small", "none")), tag("p", "Nothing was noted."))
    items = []
    if late:
        came = [r.window for r in history.records if r.late_rows]
        its, was = ("its", "was") if late == 1 else ("their", "were")
        text = f"{counted(late, 'row')} came after {its} window had been closed and {was} left out: {_list(came)}."
        items.append(tag("li", esc(text)))
    ordered = sorted(places.values(), key=lambda item: -item[1][-1])
    items += [tag("li", tag("strong", esc(_list(where))), esc(f": {note}")) for note, where in ordered[:_MOST_NOTES]]
    if len(ordered) > _MOST_NOTES:
        items.append(tag("li", esc(f"and {len(ordered) - _MOST_NOTES:,} earlier notes, which the tracker file holds")))
    kinds = tag("small", esc(f"{counted(len(places) + bool(late), 'kind')} of them"))
    return tag("details", tag("summary", "Notes on windows ", kinds), tag("ul", *items, class_="notes"))


def _list(numbers: Sequence[int]) -> str:
    """Name windows: ``window 3``, ``windows 3, 5 to 9, 12 (7 in all)``, ``windows 3, 5, … 99 (40 in all)``."""
    runs: list[list[int]] = []
    for n in numbers:
        if runs and n == runs[-1][-1] + 1:
            runs[-1].append(n)
        else:
            runs.append([n])
    parts = [f"{r[0]:,}" if len(r) == 1 else f"{r[0]:,} to {r[-1]:,}" for r in runs]
    total = f" ({len(numbers):,} in all)" if len(numbers) > 2 else ""
    if len(parts) > _MOST_PLACES:
        parts = [*parts[: _MOST_PLACES - 1], f"… {parts[-1]}"]
    return f"window{'' if len(numbers) == 1 else 's'} {', '.join(parts)}{total}"
