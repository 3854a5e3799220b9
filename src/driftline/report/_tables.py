"""Tables and notes: the last windows, and what was noted about windows."""

from __future__ import annotations

from collections.abc import Sequence

from driftline._wording import between, counted, day, gist, moment, percent, precise, qualifier, unit
from driftline.monitor import Record, Status
from driftline.report._histories import History
from driftline.report._svg import Markup, esc, tag

__all__ = ["notes", "windows"]

_LAST = 12  # most windows in the table
_MOST_NOTES = 100
_MOST_PLACES = 8  # most windows named for one note


def windows(history: History) -> Markup:
    """Show the last windows as a table."""
    shown = history.records[-_LAST:][::-1]
    if not shown:
        return ""
    by_time = any(record.start for record in shown)
    names = ["window", "begins", "rows", f"divergence{_in(unit(history.kind))}", "interval"]
    names += ["step [nats]", "signal", "weights worth", "moved [nats]"]
    numbers = ("rows", "divergence", "step", "weights worth")
    head = [tag("th", esc(n), scope="col", class_="n" if n.startswith(numbers) else None) for n in names]
    body = [_cells(record) for record in shown]
    if not by_time:
        head.pop(1)
        for cells in body:
            cells.pop(1)
    if any(record.doubts for record in shown):
        head.append(tag("th", "doubts", scope="col"))
        for record, cells in zip(shown, body, strict=True):
            cells.append(_doubts(record))
    table = tag("table", tag("thead", tag("tr", *head)), tag("tbody", *(tag("tr", *cells) for cells in body)))
    about = f"The newest first; the tracker file holds all {counted(len(history.records), 'window')}."
    scroll = tag("div", table, class_="scroll", tabindex="0", role="region", aria_label="The last windows")
    return tag("section", tag("h2", "The last windows"), tag("p", esc(about), class_="soft"), scroll, class_="card")


def _in(name: str) -> str:
    return f" [{name.strip()}]" if name else ""


def _cells(record: Record) -> list[Markup]:
    drift, step = record.drift, record.step
    state = str(record.signal) if record.status == Status.MEASURED else record.status
    worth = record.effective_sample_size / record.rows if record.rows and record.status == Status.MEASURED else None
    at, top = moment(record.start), record.columns[0] if record.columns else None
    return [
        tag("th", f"{record.window:,}", scope="row"),
        tag("td", esc(day(at)) if at else "–"),
        tag("td", f"{record.rows:,}", class_="n"),
        tag("td", esc(f"{qualifier(drift)}{precise(drift)}") if drift else "–", class_="n"),
        tag("td", esc(between(drift) or "none") if drift else "–"),
        tag("td", esc(precise(step)) if step else "–", class_="n"),
        tag("td", esc(state), class_=f"signal {state}", title=record.reason or None),
        tag("td", esc(percent(worth)) if worth is not None else "–", class_="n"),
        tag("td", tag("bdi", esc(top.column)) + f" {esc(precise(top.drift))}" if top else "–", class_="name"),
    ]


def _doubts(record: Record) -> Markup:
    """Mark a window that is in doubt by the codes; the notes below have the sentences."""
    codes = "<br>".join(dict.fromkeys(esc(doubt.code) for doubt in record.doubts))
    sentences = "; ".join(str(doubt) for doubt in record.doubts)
    return tag("td", tag("small", codes or "–"), title=sentences or None)


def _remarks(history: History) -> dict[str, tuple[str, list[int]]]:
    """Return doubts and notes by what they say but for numbers: as said last, with their windows."""
    places: dict[str, tuple[str, list[int]]] = {}
    for record in history.records:
        found = [(f"{doubt.code} {doubt.concerns}", str(doubt)) for doubt in record.doubts]
        found += [(gist(note), note) for note in record.notes]
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
