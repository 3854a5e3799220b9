"""The page: one HTML file that needs nothing else, for a person who missed the meeting."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import PurePath

from driftline._wording import counted, day, moment, precise, unit
from driftline.files import replacing
from driftline.monitor import Run
from driftline.report import _guides as guides
from driftline.report import _sections as sections
from driftline.report import _tables as tables
from driftline.report._actions import actions
from driftline.report._columns import columns
from driftline.report._histories import History, ReportError, window_name
from driftline.report._style import STYLE
from driftline.report._svg import Markup, esc, tag
from driftline.report._verdicts import Findings, Verdict, findings

__all__ = ["render", "write_report", "write_whole"]

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


def write_report(path: str | os.PathLike[str], run: Run | Findings, original: str | None = None) -> None:
    """Write a run as one HTML file that opens offline: verdict, charts, columns, what to do.

    Arguments:
        path: path of the file; an existing one is replaced, as a whole or not at all.
        run: run from :attr:`driftline.Monitor.run` or :func:`driftline.monitor.read_run`, or the findings about it.
        original: name of the only original to show; all of the run if None, the first in front.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from driftline.monitor import Settings
    >>> run = Run("run.driftline", "2025-01-06", Settings(window=500), "data.csv", {}, (), (), {})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_report(f"{folder}/report.html", run)
    ...     print("nothing to compare" in Path(folder, "report.html").read_text())
    True
    """
    write_whole(path, render(run, original).encode())


def write_whole(path: str | os.PathLike[str], data: bytes) -> None:
    """Write so that the path holds either the old file or the whole new one; raise :class:`ReportError` on failure."""
    try:
        with replacing(path) as file:
            file.write(data)
    except OSError as error:
        raise ReportError(f"{os.fspath(path)} cannot be written: {error.strerror or error}") from None


def render(run: Run | Findings, original: str | None = None) -> str:
    """Return the page as text."""
    run, found = findings(run, original)
    title = found[0][1].short if found else "nothing watched yet"
    head = (
        '<meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{esc(_POLICY)}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="generator" content="driftline">'
        '<link rel="icon" href="data:,">'
        f"<title>{esc(title)}</title><style>{STYLE}{_switches(len(found))}</style>"
    )
    body = tag(
        "div",
        _header(run),
        tag("main", *_panels(run, found)),
        guides.settings(run),
        guides.guide(run),
        _footer(run),
        class_="wrap",
    )
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head>\n<body>{body}</body></html>\n'


def _panels(run: Run, found: Sequence[tuple[History, Verdict]]) -> list[Markup]:
    if not found:
        text = "No window is complete yet, so there is nothing to compare."
        return [tag("div", tag("h1", esc(text)), class_="verdict state waiting")]
    if len(found) == 1:
        return [tag("div", _panel(run, *found[0], "o0"), class_="panel only")]
    inputs, labels = [], []
    for k, (history, judged) in enumerate(found):
        checked = " checked" if k == 0 else ""
        about = f"drift from {history.original.name}"
        inputs.append(f'<input class="tab" type="radio" name="original" id="t{k}" aria-label="{esc(about)}"{checked}>')
        last = history.last
        value = "" if last is None or last.drift is None else f"{precise(last.drift)}{unit(history.kind)}"
        name = tag("span", tag("bdi", esc(history.original.name)))
        labels.append(
            tag(
                "label",
                sections.symbol(judged.outcome),
                name,
                tag("small", esc(value)),
                for_=f"t{k}",
                class_=f"state {judged.outcome}",
            )
        )
    panels = [tag("div", _panel(run, h, v, f"o{k}"), class_="panel", id=f"p{k}") for k, (h, v) in enumerate(found)]
    return [*inputs, tag("div", *labels, class_="tabs"), *panels]


def _switches(many: int) -> str:
    """Return style rules by which each tab shows its panel; on paper all are shown."""
    rules = []
    for k in range(many if many > 1 else 0):
        rules.append(f"#t{k}:checked ~ #p{k} {{ display: block; }}")
        rules.append(
            f"#t{k}:checked ~ .tabs label[for=t{k}] {{ border-color: var(--mark); box-shadow: 0 0 0 1px var(--mark); }}"
        )
        rules.append(
            f"#t{k}:focus-visible ~ .tabs label[for=t{k}] {{ outline: 2px solid var(--line); outline-offset: 2px; }}"
        )
    return "\n".join(rules)


def _panel(run: Run, history: History, judged: Verdict, ident: str) -> Markup:
    steps = actions(history, judged, run.path, run.now)
    name = "" if history.alone else tag("h2", "Drift from ", tag("bdi", esc(history.original.name)), class_="whence")
    return "".join(
        [
            name,
            sections.opening(history, judged, steps, ident),
            sections.course(history, ident),
            columns(history, run.now, ident),
            sections.weights(history, ident),
            sections.act(steps, ident),
            tables.windows(history),
            tables.notes(history),
        ]
    )


def _header(run: Run) -> Markup:
    parts = [tag("strong", "driftline report"), tag("span", esc(run.source))]
    if run.records:
        last = max(run.records, key=lambda r: r.window)
        parts.append(tag("span", esc(f"as of {window_name(last, run.settings)}")))
        rows = sum({r.window: r.rows for r in run.records}.values())
        parts.append(tag("span", esc(counted(rows, "row"))))
    return tag("header", *parts)


def _footer(run: Run) -> Markup:
    began = moment(run.created)
    since = f", begun on {day(began)} UTC" if began is not None else ""
    text = (
        f"Made by driftline from {PurePath(run.path).name or 'a run in memory'}{since}. This page holds numbers about "
        "windows and columns, and it loads nothing."
    )
    return tag("footer", esc(text))
