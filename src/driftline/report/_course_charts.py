"""Charts of one column over time: its own divergence, where its test speaks, and the shares of missing and new values.

There may be hundreds of them in a page, so they are drawn in few paths, and their numbers are given to the script.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from driftline._wording import counted, number, percent
from driftline.monitor import Record
from driftline.report._courses import Course, Point, points
from driftline.report._plots import Size
from driftline.report._scales import Scale, scale_for, value_ticks
from driftline.report._svg import Markup, area, drawing, esc, path, plot, px, tag, ticks
from driftline.report._timelines import Timeline

__all__ = ["chance_said", "course_chart"]

_SIZE = Size(420, 176, points=100, dots=100, across=5, up=3)
_LEFT, _RIGHT, _TOP, _BOTTOM = 44.0, 414.0, 20.0, 132.0
_NOTABLE = 0.005  # share of rows from which a strip is drawn; the script names smaller ones
_STRIP = 34.0  # height of a strip of shares below


def course_chart(course: Course, records: Sequence[Record], axis: Timeline, ident: str) -> Markup:
    """Draw a column's own divergence over time; empty if no window says anything of it."""
    found = points(course, _SIZE.points)
    known = [p for p in found if math.isfinite(p.value)]
    if not known:
        return ""
    x = Scale(axis.low, axis.high, _LEFT + 6.0, _RIGHT - 6.0)
    ends = [v for p in known for v in (p.value, p.low, p.high)]
    y = scale_for(ends, 0.0, _BOTTOM, _TOP)
    strips = [(name, [getattr(p, name) for p in found]) for name in ("missing", "new")]
    shares = [(name, values) for name, values in strips if any(v >= _NOTABLE for v in values)]
    height = _SIZE.height + len(shares) * _STRIP
    at = [0.5 * (x(axis.places[p.first]) + x(axis.places[p.last])) for p in found]
    inside = [*_bands(found, at, y), *_line(found, at, y), *_dots(found, at, y)]
    below = [_share(name, values, at, _BOTTOM + 22.0 + k * _STRIP) for k, (name, values) in enumerate(shares)]
    layers = [
        _grid(y),
        plot((_LEFT, _RIGHT, height), [*inside, *(shape for shape, _ in below)]),
        *(label for _, label in below),
        tag("path", d=f"M{px(_LEFT)} {px(_BOTTOM)}H{px(_RIGHT)}", class_="axis"),
        ticks([(x(v), label) for v, label in axis.ticks(_SIZE.across)], height - 42.0, _SIZE.width),
    ]
    spoken = sum(p.moved for p in found) if len(found) == len(records) else len(course.windows)
    words = f"Its test speaks in {counted(spoken, 'window')} of {len(records):,}."
    return drawing(
        (_SIZE.width, height - 12.0),
        ident,
        f"{course.column}: own divergence over time",
        words,
        layers,
        class_="chart",
        data_box=f"{px(_LEFT)} {px(_RIGHT)} {px(_TOP)} {px(height - 42.0)}",
        data_each=str(found[0].last - found[0].first + 1),
        data_points=";".join(map(_packed, found)),
    )


def _packed(p: Point) -> str:
    """Write a point for the script: value, chance, low, high, shares of missing and of new values; short."""
    parts = [_short(p.value), _short(p.chance, 2)]
    parts += [_short(p.low), "+" if p.high == math.inf or (p.moved and math.isnan(p.high)) else _short(p.high)]
    parts += [_short(v) if v > 0.0 else "" for v in (p.missing, p.new)]
    return ",".join(parts).rstrip(",")


def _short(value: float, digits: int = 3) -> str:
    if not math.isfinite(value):
        return ""
    text = f"{value:.{digits}g}"
    return text[1:] if text.startswith("0.") else text


def _grid(y: Scale) -> Markup:
    found = [tag("text", "nats", x=_LEFT - 36.0, y=11.0, class_="unit")]
    for value, label in value_ticks(y, _SIZE.up):
        kind = "zero" if value == 0 else "grid"
        found.append(tag("path", d=f"M{px(_LEFT)} {px(y(value))}H{px(_RIGHT)}", class_=kind))
        found.append(tag("text", esc(label), x=_LEFT - 6.0, y=y(value) + 4, text_anchor="end"))
    return tag("g", *found)


def _runs(found: Sequence[bool]) -> list[list[int]]:
    """Return runs of neighbours that are true, as lists of places."""
    out: list[list[int]] = []
    for i, yes in enumerate(found):
        if yes and out and out[-1][-1] == i - 1:
            out[-1].append(i)
        elif yes:
            out.append([i])
    return out


def _line(found: Sequence[Point], at: Sequence[float], y: Scale) -> list[Markup]:
    parts = [part for part in _runs([math.isfinite(p.value) for p in found]) if len(part) > 1]
    d = "".join(path([(at[i], y(found[i].value)) for i in part]) for part in parts)
    return [tag("path", d=d, class_="line")] if d else []


def _bands(found: Sequence[Point], at: Sequence[float], y: Scale) -> list[Markup]:
    """Draw the intervals where the test speaks; one that is open above goes up to the top."""
    out = []
    closed = [math.isfinite(p.low) and math.isfinite(p.high) for p in found]
    opened = [p.moved and math.isfinite(p.low) and not math.isfinite(p.high) for p in found]
    for kind, places in (("band", closed), ("open", opened)):
        d = ""
        for part in _runs(places):
            lower = [(at[i], y(found[i].low)) for i in part]
            upper = [(at[i], y(found[i].high) if kind == "band" else _TOP) for i in part]
            d += area(lower, upper)
        out += [tag("path", d=d, class_=kind)] if d else []
    return out


def _dots(found: Sequence[Point], at: Sequence[float], y: Scale) -> list[Markup]:
    """Draw a dot where the test speaks, and a faint one for a window that stands alone: as one path of round ends."""
    spoken = "".join(f"M{px(at[i])} {px(y(p.value))}h0" for i, p in enumerate(found) if p.moved)
    lone = [part[0] for part in _runs([math.isfinite(p.value) for p in found]) if len(part) == 1]
    alone = "".join(f"M{px(at[i])} {px(y(found[i].value))}h0" for i in lone if not found[i].moved)
    shapes = [tag("path", d=alone, class_="silent")] if alone else []
    return [*shapes, tag("path", d=spoken, class_="spoke")] if spoken else shapes


def _share(name: str, values: Sequence[float], at: Sequence[float], top: float) -> tuple[Markup, Markup]:
    """Draw a share of rows as a filled strip, with its largest value beside it."""
    most = max(v for v in values if math.isfinite(v))
    y = Scale(0.0, most, top + 22.0, top + 6.0)
    d = ""
    for part in _runs([math.isfinite(v) for v in values]):
        upper = [(at[i], y(values[i])) for i in part]
        d += area([(x, y(0.0)) for x, _ in upper], upper)
    word = "missing" if name == "missing" else "new values"
    label = tag("text", esc(f"{word}, up to {percent(most)}"), x=_LEFT, y=top + 2.0, class_="unit")
    return tag("path", d=d, class_=f"strip {name}"), label


def chance_said(chance: float) -> str:
    """Say a chance: ``below 1e-9``, ``of 0.0004``, ``of 0.3``; of one that is not known, nothing."""
    if not math.isfinite(chance):
        return ""
    if chance < 1e-9:
        return "below 1e-9"
    return f"of {chance:.1g}" if chance < 1e-3 else f"of {number(round(chance, 2 if chance >= 0.01 else 3))}"
