"""The page: one HTML file that needs nothing else, for a person who missed the meeting."""

from __future__ import annotations

import base64
import hashlib
import os
from pathlib import PurePath

from driftline._wording import counted, day, moment
from driftline.files import replacing
from driftline.monitor import Run
from driftline.report._assets import script, stylesheet
from driftline.report._fragment import fragment
from driftline.report._histories import ReportError, window_name
from driftline.report._svg import Markup, esc, tag
from driftline.report._verdicts import Findings, findings

__all__ = ["render", "write_report", "write_whole"]

_POLICY = "img-src data:; base-uri 'none'; form-action 'none'"


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
    """Return the page as text: style, the fragment, and script, with a policy that allows these two alone."""
    judged = findings(run, original)
    run, found = judged
    title = found[0][1].short if found else "nothing watched yet"
    style, code = stylesheet(), script()
    policy = f"default-src 'none'; style-src {_hashed(style)}; script-src {_hashed(code)}; {_POLICY}"
    head = (
        '<meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{esc(policy)}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="generator" content="driftline">'
        '<link rel="icon" href="data:,">'
        f"<title>{esc(title)}</title><style>{style}</style>"
    )
    body = tag("div", _header(run), fragment(judged), _footer(run), class_="wrap")
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head>\n<body>{body}<script>{code}</script></body></html>\n'


def _hashed(text: str) -> str:
    """Return a source of a content security policy: this text, and no other."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


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
