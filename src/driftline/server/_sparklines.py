"""Sparklines: the drift of many windows in a thumb's width, with its band, the tolerance and the alarms."""

from __future__ import annotations

import math
from collections.abc import Sequence

from driftline._wording import counted, number
from driftline.alarms import Signal
from driftline.report import Markup, esc, tag
from driftline.server._points import Gathered, Point, gathered

__all__ = ["highest", "sparkline"]

_WIDTH, _HEIGHT, _EDGE = 240.0, 48.0, 3.0
_MOST = 80  # points: three pixels each
_BEYOND = 1.6  # how far a band may reach above all values, times the highest of them


def highest(points: Sequence[Point], tolerance: float) -> float:
    """Return the upper end of the scale for these points; it holds the tolerance and all values, and most bands."""
    values = [p.value for p in points if p.measured]
    top = max([tolerance, *values, 1e-9])
    ends = [p.high for p in points if p.measured and math.isfinite(p.high)]
    return 1.08 * max(top, min(max(ends, default=0.0), _BEYOND * top))


def sparkline(points: Sequence[Point], tolerance: float, top: float | None = None) -> Markup:
    """Draw the points; on a scale that ends at ``top``, if several are to be compared."""
    found = gathered(points, _MOST)
    measured = [g for g in found if math.isfinite(g.value)]
    if not measured:
        return tag("p", "nothing measured", class_="empty")
    top = highest(points, tolerance) if top is None else top
    layers = [
        tag("path", d=_band(found, top), class_="band"),
        tag("path", d=f"M0 {_y(tolerance, top):.1f}H{_WIDTH:.0f}", class_="tolerance"),
        tag("path", d=_line(found, top), class_="line"),
        *_marks(found, top),
    ]
    lowest, most = min(g.least for g in measured), max(g.most for g in measured)
    words = (
        f"drift in {counted(sum(p.measured for p in points), 'window')}, from {number(max(lowest, 0.0))} "
        f"to {number(max(most, 0.0))}, last {number(max(measured[-1].value, 0.0))}; tolerance {number(tolerance)}"
    )
    box = f"0 0 {_WIDTH:.0f} {_HEIGHT:.0f}"
    title = tag("title", esc(words))
    return tag("svg", title, *layers, viewBox=box, class_="spark", role="img", aria_label=words)


def _x(place: int, many: int) -> float:
    return _EDGE + (_WIDTH - 2 * _EDGE) * (place / (many - 1) if many > 1 else 0.5)


def _y(value: float, top: float) -> float:
    share = min(max(value / top, 0.0), 1.0)
    return _HEIGHT - _EDGE - (_HEIGHT - 2 * _EDGE) * share


def _runs(found: Sequence[Gathered], known: Sequence[bool]) -> list[list[int]]:
    """Return stretches of places at which something is known."""
    runs: list[list[int]] = []
    for place in range(len(found)):
        if known[place]:
            if place and known[place - 1]:
                runs[-1].append(place)
            else:
                runs.append([place])
    return runs


def _line(found: Sequence[Gathered], top: float) -> str:
    parts = []
    for run in _runs(found, [math.isfinite(g.value) for g in found]):
        places = [f"{_x(k, len(found)):.1f} {_y(found[k].value, top):.1f}" for k in run]
        parts.append(f"M{places[0]}" + ("L" + "L".join(places[1:]) if len(places) > 1 else "h0.1"))
    return "".join(parts)


def _band(found: Sequence[Gathered], top: float) -> str:
    """Return the region between the ends of intervals; where one was withheld there is none, an open one has no top."""
    parts = []
    for run in _runs(found, [not math.isnan(g.low) for g in found]):
        width = 0.0 if len(run) > 1 else 1.5
        low = [f"{_x(k, len(found)) - width:.1f} {_y(found[k].low, top):.1f}" for k in run]
        high = [f"{_x(k, len(found)) + width:.1f} {_y(found[k].high, top):.1f}" for k in reversed(run)]
        parts.append("M" + "L".join([*low, *high]) + "Z")
    return "".join(parts)


def _marks(found: Sequence[Gathered], top: float) -> list[Markup]:
    """Mark alarms on the axis, also such as stood in windows that were gathered with quiet ones."""
    half = (_WIDTH - 2 * _EDGE) / max(len(found) - 1, 1) / 2
    marks = []
    for signal, height in ((Signal.WARNING, 2.0), (Signal.ALARM, 3.5)):
        for run in _runs(found, [g.signal == signal for g in found]):
            start, end = _x(run[0], len(found)) - half, _x(run[-1], len(found)) + half
            start, end = max(start, 0.0), min(end, _WIDTH)
            box = {"x": start, "y": _HEIGHT - height, "width": max(end - start, 1.5), "height": height}
            marks.append(tag("rect", **box, class_=f"stood {signal}"))
    return marks
