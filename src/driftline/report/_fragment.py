"""Fragment: everything the page says about a run, as HTML that a page of one's own can hold."""

from __future__ import annotations

from collections.abc import Sequence

from driftline._wording import precise, unit
from driftline.monitor import Run
from driftline.report import _guides as guides
from driftline.report import _sections as sections
from driftline.report import _tables as tables
from driftline.report._actions import actions
from driftline.report._columns import columns
from driftline.report._histories import History, window_name
from driftline.report._svg import Markup, esc, tag
from driftline.report._timelines import timeline
from driftline.report._verdicts import Findings, Verdict, findings

__all__ = ["fragment"]


def fragment(run: Run | Findings, original: str | None = None) -> str:
    """Return the sections of a report as HTML without a page around it, to be shown with :func:`stylesheet`.

    It has no inline style, handler or script, so that a strict content security policy holds. Show one at a time in a
    page: its elements have ids. After it was put in, call ``driftline.enhance(element)`` of :func:`script`.

    Arguments:
        run: run from :attr:`driftline.Monitor.run` or :func:`driftline.monitor.read_run`, or the findings about it.
        original: name of the only original to show; all of the run if None, the first in front.

    >>> from driftline.monitor import Settings
    >>> run = Run("run.driftline", "2025-01-06", Settings(window=500), "data.csv", {}, (), (), {})
    >>> fragment(run).startswith("<main>")
    True
    """
    run, found = findings(run, original)
    return "".join([tag("main", *_panels(run, found)), guides.settings(run), guides.guide(run)])


def _panels(run: Run, found: Sequence[tuple[History, Verdict]]) -> list[Markup]:
    if not found:
        text = "No window is complete yet, so there is nothing to compare."
        return [tag("div", tag("h1", esc(text)), class_="verdict state waiting")]
    if len(found) == 1:
        return [tag("div", _panel(run, *found[0], "o0"), class_="panel only", **_about(found[0][0]))]
    # each tab stands before its panel, so that the style needs no names; it shows tabs in a row, above
    parts = [part for k, (history, judged) in enumerate(found) for part in _tab(run, history, judged, k)]
    return [tag("div", *parts, class_="tabs")]


def _tab(run: Run, history: History, judged: Verdict, k: int) -> list[Markup]:
    checked = " checked" if k == 0 else ""
    about = esc(f"drift from {history.original.name}")
    last = history.last
    value = "" if last is None or last.drift is None else f"{precise(last.drift)}{unit(history.kind)}"
    label = tag(
        "label",
        sections.symbol(judged.outcome),
        tag("span", tag("bdi", esc(history.original.name))),
        tag("small", esc(value)),
        for_=f"t{k}",
        class_=f"state {judged.outcome}",
    )
    return [
        f'<input class="tab" type="radio" name="original" id="t{k}" aria-label="{about}"{checked}>',
        label,
        tag("div", _panel(run, history, judged, f"o{k}"), class_="panel", id=f"p{k}", **_about(history)),
    ]


def _about(history: History) -> dict[str, str]:
    """Return what the script needs to name windows: where each is on the axis, from 0 to 1, and its name."""
    if not history.records:
        return {}
    axis = timeline(history.records, history.settings)
    wide = axis.high - axis.low
    places = " ".join(f"{(place - axis.low) / wide:.4g}".removeprefix("0") for place in axis.places)
    names = "|".join(window_name(record, history.settings).replace("|", " ") for record in history.records)
    return {"data_original": history.original.name, "data_places": places, "data_names": names}


def _panel(run: Run, history: History, judged: Verdict, ident: str) -> Markup:
    steps = actions(history, judged, run.path, run.now)
    name = "" if history.alone else tag("h2", "Drift from ", tag("bdi", esc(history.original.name)), class_="whence")
    return "".join(
        [
            name,
            sections.opening(history, judged, steps, ident),
            sections.course(history, ident),
            sections.rate(history),
            columns(history, run.now, ident),
            sections.weights(history, ident),
            sections.act(steps, ident),
            tables.windows(history),
            tables.notes(history),
        ]
    )
