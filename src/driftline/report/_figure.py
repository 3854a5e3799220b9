"""The figure: a run in one PNG that stands alone in a message; its title is the verdict in short."""

from __future__ import annotations

import io
import math
import os
import textwrap
import warnings
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure

from driftline._plotting import COLORS, canvas, plain
from driftline._wording import is_bound, measure, named, number, shortened, shown, unit
from driftline.alarms import Signal
from driftline.inference import Estimate
from driftline.monitor import Run, Status
from driftline.report._charts import WIDE, drift_frame, step_frame
from driftline.report._histories import History, ReportError, is_abrupt
from driftline.report._page import write_whole
from driftline.report._scales import Scale, short, value_ticks
from driftline.report._timelines import Timeline, segments, timeline
from driftline.report._trust import Trust
from driftline.report._verdicts import Findings, Outcome, Verdict, findings, level

__all__ = ["draw", "write_png"]

_BLUE, _VERMILION, _ORANGE = COLORS[0], COLORS[1], COLORS[3]
_DOTS = 200  # most windows that get a dot each
_ARROWS = 20  # most arrows, about
_SKY = 1e9  # beyond every plot
_TITLE = {
    Outcome.ALARM: "#a34700",
    Outcome.WARNING: "#7d5600",
    Outcome.BLIND: "#7d5600",
    Outcome.UNSURE: "#7d5600",
    Outcome.NORMAL: "#00694d",
    Outcome.WAITING: "#4c545c",
}
_ROOM = 1.55  # width of the columns' chart, in that of its bars: causes stand beside them


def write_png(path: str | os.PathLike[str], run: Run | Findings, original: str | None = None) -> None:
    """Write a run as one PNG: divergence with band, limits and alarms, steps, and the columns that moved.

    Arguments:
        path: path of the file; an existing one is replaced, as a whole or not at all.
        run: run from :attr:`driftline.Monitor.run` or :func:`driftline.monitor.read_run`, or the findings about it.
        original: name of the original; the first of the run if None.
    """
    run, found = findings(run, original)
    if not found or not found[0][0].records:
        raise ReportError("no window is complete yet, so there is nothing to draw")
    data = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")  # the font lacks the script of a name
        draw(*found[0], run.source).savefig(data, format="png", dpi=150)
    write_whole(path, data.getvalue())


def draw(history: History, judged: Verdict, source: str = "") -> Figure:
    """Draw the history of one original, under its verdict."""
    last = history.last
    parts = [] if last is None else list(last.columns[: history.settings.top])
    figure, axes = canvas(3 if parts else 2, 1, width=9.6, height=(6.6 + 0.27 * len(parts)) if parts else 6.0)
    bars = 0.6 + 0.3 * len(parts)
    figure.set_layout_engine("constrained", w_pad=0.12, h_pad=0.06, hspace=0.04)
    axes[0, 0].get_gridspec().set_height_ratios([3.3, 1.4, bars][: len(axes)])
    line = timeline(history.records, history.settings)
    _drift(axes[0, 0], history, line)
    _steps(axes[1, 0], history, line)
    if parts:
        _columns(axes[2, 0], history)
    title = "\n".join(textwrap.wrap(judged.short, 84, max_lines=2, placeholder=" …"))
    figure.suptitle(
        title, x=0.01, ha="left", fontsize=12.5, fontweight="bold", color=_TITLE[judged.outcome], parse_math=False
    )
    _footnote(figure, judged, source)
    return figure


def _footnote(figure: Figure, judged: Verdict, source: str) -> None:
    doubt = "" if judged.trust == Trust.GOOD else textwrap.shorten(judged.trust_sentence, 150, placeholder=" …") + "\n"
    text = f"{doubt}driftline, {shortened(source, 110)}" if source else f"{doubt}driftline"
    figure.supxlabel(text, x=0.01, ha="left", fontsize=8, color="#5a626b", parse_math=False)


def _dates(places: Sequence[float], line: Timeline) -> list[Any]:
    return [datetime.fromtimestamp(p, UTC) for p in places] if line.by_time else list(places)


def _frame(axes: Axes, history: History, line: Timeline) -> None:
    """Set the horizontal axis, the same for all panels, and shade skipped windows."""
    plain(axes)
    low, high = _dates([line.low, line.high], line)
    axes.set_xlim(low, high)
    if line.by_time:
        locator = AutoDateLocator(minticks=3, maxticks=9)  # type: ignore[no-untyped-call]
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    for record, span in zip(history.records, line.spans, strict=True):
        if record.status == Status.SKIPPED:
            a, b = _dates(span, line)
            axes.axvspan(a, b, color="#8892a0", alpha=0.16, linewidth=0)


def _series(axes: Axes, history: History, line: Timeline, estimates: list[Estimate | None]) -> None:
    """Draw values with their band, broken where nothing was measured."""
    read = [None if e is None else shown(e) for e in estimates]
    values = [math.nan if e is None else e.value for e in read]
    x = _dates(line.places, line)
    few = sum(map(math.isfinite, values)) <= _DOTS
    for part in segments(history.records, values):
        at, some = [x[i] for i in part], [read[i] for i in part]
        low = [e.low for e in some if e is not None]
        high = [e.high for e in some if e is not None]
        open_above = [is_bound(e) for e in some if e is not None]
        if any(open_above):
            _open(axes, at, low, open_above)
        if len(part) > 1:
            axes.fill_between(at, low, high, color=_BLUE, alpha=0.18, linewidth=0)
        else:
            axes.vlines(at, low, high, color=_BLUE, alpha=0.3, linewidth=3)
        marker = "." if few or len(part) == 1 else None
        axes.plot(at, [values[i] for i in part], color=_BLUE, linewidth=1.5, marker=marker, markersize=4)


def _open(axes: Axes, at: list[Any], low: list[float], where: list[bool]) -> None:
    """Shade the intervals of lower bounds up to the top, with arrows that say: and beyond."""
    top = axes.get_xaxis_transform()  # heights as shares of the axes
    bound = [(x, y) for x, y, is_open in zip(at, low, where, strict=True) if is_open]
    places, ends = [x for x, _ in bound], [y for _, y in bound]
    if len(bound) > 1:
        axes.fill_between(at, low, _SKY, where=where, color=_BLUE, alpha=0.08, linewidth=0)
    else:
        axes.vlines(places, ends, _SKY, color=_BLUE, alpha=0.15, linewidth=3)
    every = max(1, len(places) // _ARROWS)
    shown = places[::every]
    axes.scatter(shown, [0.955] * len(shown), marker=r"$\uparrow$", s=60, color=_BLUE, transform=top, zorder=3)
    label = "_" if "at least" in axes.get_legend_handles_labels()[1] else "at least"
    axes.fill_between([], [], [], color=_BLUE, alpha=0.08, linewidth=0, label=label)


def _drift(axes: Axes, history: History, line: Timeline) -> None:
    records, kind = history.records, history.kind
    _frame(axes, history, line)
    x = _dates(line.places, line)
    estimates = [r.drift if r.status == Status.MEASURED else None for r in records]
    _series(axes, history, line, estimates)
    limits = [r.alarm_limit for r in records]
    _limit(axes, history, line, limits, color=_VERMILION, linewidth=1.1, label="alarm limit")
    warned = [r.warning_limit for r in records]
    _limit(axes, history, line, warned, color=_ORANGE, linewidth=1.1, linestyle=":", label="warning limit")
    tolerance = history.settings.tolerance
    axes.axhline(tolerance, color="#5a626b", linewidth=1.0, linestyle="--", label=f"tolerance {number(tolerance)}")
    few = len(history.measured) <= _DOTS
    for signal, marker, color in ((Signal.WARNING, "s", _ORANGE), (Signal.ALARM, "^", _VERMILION)):
        at = [i for i, r in enumerate(records) if r.signal == signal and math.isfinite(_value(estimates[i]))]
        if not few:
            at = [i for i in at if i == 0 or records[i - 1].signal != signal]
        fill, edge = (color, "none") if signal == Signal.ALARM else ("white", color)
        style = {"marker": marker, "linewidths": 1.2, "color": fill, "edgecolors": edge}
        _mark(axes, x, estimates, at, label=str(signal) if at else None, **style)
    _vertical(axes, drift_frame(history, WIDE).y)
    began = [i for i, r in enumerate(records) if r.status == Status.ORIGINAL]
    axes.plot(
        [x[i] for i in began], [0.0] * len(began), "o", color=_BLUE, markerfacecolor="white", clip_on=False, zorder=5
    )
    band = next((f", {level(e)} interval" for e in estimates if e is not None), "")
    axes.set_title(f"{measure(kind)} [{unit(kind).strip() or 'no unit'}]{band}", loc="left", fontsize=9.5)
    room = {"borderaxespad": 0.0, "columnspacing": 1.2, "handlelength": 1.8}
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 0.985), fontsize=8, frameon=False, ncols=6, **room)


def _mark(axes: Axes, x: list[Any], estimates: list[Estimate | None], at: list[int], **style: Any) -> None:
    axes.scatter([x[i] for i in at], [_value(estimates[i]) for i in at], s=26, zorder=4, **style)


def _limit(axes: Axes, history: History, line: Timeline, values: list[float], label: str, **style: Any) -> None:
    """Draw a line that breaks where nothing was decided; a single window's line is as wide as the window."""
    for part in segments(history.records, values):
        places = list(line.spans[part[0]]) if len(part) == 1 else [line.places[i] for i in part]
        heights = [values[i] for i in part] * (3 - min(len(part), 2))
        axes.plot(_dates(places, line), heights, label=label, **style)
        label = "_"  # named once


def _value(estimate: Estimate | None) -> float:
    return math.nan if estimate is None else shown(estimate).value


def _vertical(axes: Axes, scale: Scale) -> None:
    """Set the same scale as on the page."""
    if math.isfinite(scale.bend):
        axes.set_yscale("asinh", linear_width=scale.bend)
        ticks = value_ticks(scale, 6)
        axes.set_yticks([v for v, _ in ticks], [label for _, label in ticks])
        axes.minorticks_off()
    axes.set_ylim(scale.low, scale.high)


def _steps(axes: Axes, history: History, line: Timeline) -> None:
    _frame(axes, history, line)
    estimates = [r.step if r.status == Status.MEASURED else None for r in history.records]
    _series(axes, history, line, estimates)
    x = _dates(line.places, line)
    at = [i for i, r in enumerate(history.records) if is_abrupt(r) and math.isfinite(_value(estimates[i]))]
    _mark(axes, x, estimates, at, marker="^", color=_VERMILION, edgecolors="white")
    _vertical(axes, step_frame(history, WIDE).y)
    axes.set_title("step: KL(current‖previous window) [nats]", loc="left", fontsize=9.5)
    axes.set_xlabel(line.label, fontsize=8)


def _columns(axes: Axes, history: History) -> None:
    plain(axes)
    last = history.last
    assert last is not None
    parts = list(last.columns[: history.settings.top])[::-1]
    at = range(len(parts))
    values = [p.drift.value if math.isfinite(p.drift.value) else 0.0 for p in parts]
    axes.barh(at, values, color=_BLUE, height=0.6)
    for k, part in enumerate(parts):
        e = part.drift
        if math.isfinite(e.low) and math.isfinite(e.high):
            axes.plot([e.low, e.high], [k, k], color="#1a1d21", linewidth=1.3)
        elif is_bound(e):
            axes.plot([e.low, max(e.low, e.value)], [k, k], color="#1a1d21", linewidth=1.3)
            axes.plot([max(e.low, e.value)], [k], ">", color="#1a1d21", markersize=5)
        end = max(v for v in (e.high, e.value, 0.0) if math.isfinite(v))
        cause = shortened(part.cause, 48)
        text = axes.annotate(
            cause, (end, k), xytext=(6, 0), textcoords="offset points", va="center", fontsize=8, parse_math=False
        )
        text.set_in_layout(False)  # the other charts would become narrow for it
    axes.set_yticks(list(at), [named(p.column, 28) for p in parts], parse_math=False)
    axes.margins(x=0.08)
    axes.set_xlim(right=axes.get_xlim()[1] * _ROOM)
    axes.xaxis.set_major_formatter(lambda value, _: short(value))
    axes.grid(visible=False, axis="y")
    axes.set_title(
        "which columns moved by themselves: KL(current‖original) of each alone [nats]", loc="left", fontsize=9.5
    )
