"""Plots: a frame with axes in which lines, bands and marks over time are drawn, as SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from driftline.alarms import Signal
from driftline.monitor import Record, Status
from driftline.report._histories import History
from driftline.report._scales import Scale, buckets, scale_for, value_ticks
from driftline.report._svg import Markup, area, drawing, esc, path, plot, px, tag, ticks
from driftline.report._timelines import Timeline, envelope, segments, thinned, timeline

__all__ = ["Frame", "Series", "Size", "frame"]

_ARROWS = 42.0  # least pixels between two arrows


@dataclass(frozen=True)
class Size:
    """Size of a drawing.

    Attributes:
        width, height: size in pixels.
        points: most groups of windows that it can show.
        dots: most windows that get a dot each.
        across, up: ticks of the horizontal and the vertical axis.
    """

    width: float
    height: float
    points: int
    dots: int
    across: int
    up: int


@dataclass(frozen=True)
class Series:
    """Values of windows with their intervals (nan where there are none), marks, and texts shown when pointed at."""

    values: list[float]
    low: list[float]
    high: list[float]
    marks: list[Signal]
    says: list[str]

    def open_ends(self) -> list[float]:
        """Return the lower ends of intervals that are open above: values that are lower bounds; nan for others."""
        ends = zip(self.low, self.high, strict=True)
        return [low if math.isfinite(low) and not math.isfinite(high) else math.nan for low, high in ends]


@dataclass(frozen=True)
class Frame:
    """Axes of a drawing over time, and the pixels of windows and values in it."""

    size: Size
    records: tuple[Record, ...]
    timeline: Timeline
    y: Scale
    unit: str

    left, top = 50.0, 24.0

    @property
    def right(self) -> float:
        """Right edge of the plot, in pixels."""
        return self.size.width - 12.0

    @property
    def bottom(self) -> float:
        """Bottom edge of the plot, in pixels."""
        return self.size.height - 42.0

    @cached_property
    def x(self) -> Scale:
        """Horizontal scale."""
        return Scale(self.timeline.low, self.timeline.high, self.left + 6.0, self.right - 6.0)

    def within(self, value: float) -> float:
        """Return the height of a value, cut off at the top of the plot."""
        return max(self.y(value), self.top)

    def grid(self) -> Markup:
        """Draw horizontal lines with their numbers, and the unit above them."""
        found = [tag("text", esc(self.unit), x=self.left - 8, y=11.0, class_="unit", text_anchor="start", dx=-36)]
        for value, label in value_ticks(self.y, self.size.up):
            y = self.y(value)
            kind = "zero" if value == 0 else "grid"
            found.append(tag("path", d=f"M{px(self.left)} {px(y)}H{px(self.right)}", class_=kind))
            found.append(tag("text", esc(label), x=self.left - 7, y=y + 4, text_anchor="end"))
        return tag("g", *found)

    def axis(self) -> Markup:
        """Draw the horizontal axis."""
        middle = 0.5 * (self.left + self.right)
        places = [(self.x(value), label) for value, label in self.timeline.ticks(self.size.across)]
        return tag(
            "g",
            tag("path", d=f"M{px(self.left)} {px(self.bottom)}H{px(self.right)}", class_="axis"),
            ticks(places, self.bottom, self.size.width),
            tag("text", esc(self.timeline.label), x=middle, y=self.bottom + 36, class_="unit", text_anchor="middle"),
        )

    def drawn(self, layers: list[Markup], ident: str, title: str, words: str) -> Markup:
        """Return the drawing: what is drawn over time between the grid and the axis."""
        inside = plot((self.left, self.right, self.bottom + 5.0), layers)
        box = " ".join(map(px, (self.left, self.right, self.top, self.bottom)))
        parts = [self.grid(), inside, self.axis()]
        size = (self.size.width, self.size.height)
        return drawing(size, ident, title, words, parts, class_="chart", data_box=box)

    def skipped(self, records: Sequence[Record]) -> Markup:
        """Shade windows in which nothing was measured, neighbours as one."""
        found: list[tuple[float, float]] = []
        for record, (a, b) in zip(records, self.timeline.spans, strict=True):
            if record.status != Status.SKIPPED:
                continue
            x, end = self.x(a), max(self.x(b), self.x(a) + 1.5)
            if found and x - found[-1][1] < 0.5:
                found[-1] = (found[-1][0], end)
            else:
                found.append((x, end))
        height = self.bottom - self.top
        return tag("g", *(tag("rect", x=a, y=self.top, width=b - a, height=height, class_="skipped") for a, b in found))

    def _points(self, positions: list[int], values: Sequence[float]) -> list[tuple[float, float]]:
        return [(self.x(self.timeline.places[i]), self.y(values[i])) for i in positions]

    def groups(self, part: list[int]) -> int:
        """Return the number of groups of neighbours into which a part of the windows is gathered."""
        return math.ceil(len(part) / math.ceil(len(self.records) / self.size.points))

    def line(self, series: Series) -> Markup:
        """Draw the values, broken where windows were skipped."""
        parts = segments(self.records, series.values)
        kept = [thinned(part, series.values, self.groups(part)) for part in parts if len(part) > 1]
        return tag("g", *(tag("path", d=path(self._points(part, series.values)), class_="line") for part in kept))

    def band(self, series: Series) -> Markup:
        """Draw the intervals; a group of windows has the widest reach of its windows."""
        ends = [
            v if math.isfinite(v) and math.isfinite(w) else math.nan
            for v, w in zip(series.low, series.high, strict=True)
        ]
        found = []
        for part in segments(self.records, ends):
            groups = envelope(part, series.low, series.high, self.groups(part))
            lower, upper = [], []
            for first, last, low, high in groups:
                for i in {first: None, last: None}:
                    x = self.x(self.timeline.places[i])
                    lower.append((x, self.y(low)))
                    upper.append((x, self.y(high)))
            found.append(tag("path", d=area(lower, upper), class_="band"))
        return tag("g", *found)

    def open_band(self, series: Series) -> Markup:
        """Draw the intervals of lower bounds up to the top of the plot, with arrows that say: and beyond."""
        found, arrows = [], list[float]()
        for part in segments(self.records, series.open_ends()):
            lower = []
            for first, last, low, _ in envelope(part, series.low, series.low, self.groups(part)):
                lower += [(self.x(self.timeline.places[i]), self.y(low)) for i in {first: None, last: None}]
            found.append(tag("path", d=area(lower, [(x, self.top) for x, _ in lower]), class_="open"))
            for x, _ in lower:
                if not arrows or x - arrows[-1] >= _ARROWS:
                    arrows.append(x)
        if not found:
            return ""
        y = self.top + 1.5
        shafts = [
            f"M{px(x)} {px(y + 13)}V{px(y)}M{px(x - 4)} {px(y + 5)}L{px(x)} {px(y)}L{px(x + 4)} {px(y + 5)}"
            for x in arrows
        ]
        return tag("g", *found, *(tag("path", d=d, class_="open-end") for d in shafts))

    def filled(self, series: Series) -> Markup:
        """Fill the region below the line."""
        zero = self.y(0.0)
        found = []
        for part in segments(self.records, series.values):
            points = self._points(thinned(part, series.values, self.groups(part)), series.values)
            found.append(tag("path", d=area([(x, zero) for x, _ in points], points), class_="band"))
        return tag("g", *found)

    def hits(self, series: Series) -> Markup:
        """Draw invisible regions that show their numbers when pointed at."""
        found = []
        for group in buckets(len(self.records), self.size.points):
            a, b = self.timeline.spans[group[0]][0], self.timeline.spans[group[-1]][1]
            said = series.says[group[0]] if len(group) == 1 else _together(series, self.records, group, self.unit)
            x, width, height = self.x(a), max(self.x(b) - self.x(a), 1.0), self.bottom - self.top
            title = tag("title", esc(said))
            found.append(tag("rect", title, x=x, y=self.top, width=width, height=height))
        return tag("g", *found, class_="hits")


def _together(series: Series, records: Sequence[Record], group: range, unit: str) -> str:
    values = [series.values[i] for i in group if math.isfinite(series.values[i])]
    said = f"Windows {records[group[0]].window:,} to {records[group[-1]].window:,}"
    if not values:
        return f"{said}: nothing measured"
    return f"{said}: {min(values):.3g} to {max(values):.3g} {unit}"


def frame(history: History, size: Size, values: Sequence[float], typical: float, unit: str) -> Frame:
    """Return the frame in which all those values have room."""
    place = timeline(history.records, history.settings)
    bottom = size.height - 42.0
    return Frame(size, history.records, place, scale_for(values, typical, bottom, Frame.top), unit)
