"""Charts over time, as SVG written by hand: divergence, step and worth of the weights on one horizontal axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from driftline._wording import between, counted, measure, number, percent, precise, shown, unit
from driftline.alarms import Signal
from driftline.inference import Estimate
from driftline.monitor import Record, Status
from driftline.report._histories import History, is_abrupt, window_name
from driftline.report._plots import Frame, Series, Size, frame
from driftline.report._svg import Markup, path, px, tag
from driftline.report._timelines import segments, thinned
from driftline.report._verdicts import level

__all__ = [
    "NARROW",
    "WIDE",
    "divergence_chart",
    "drift_frame",
    "gathered",
    "scale_note",
    "step_chart",
    "step_frame",
    "step_note",
    "weights_chart",
]

WIDE = Size(860, 300, points=260, dots=130, across=11, up=5)
NARROW = Size(400, 250, points=110, dots=60, across=6, up=5)
_NEAR = 9.0  # least pixels between two markers


def gathered(history: History, size: Size) -> str:
    """Say what a chart leaves out if there are many windows; empty if it shows each of them."""
    if len(history.records) > size.points:
        return (
            f"{len(history.records):,} windows are too many to draw one by one: of each group of neighbours, the line "
            "keeps the smallest and the largest value, the band the widest interval. Marks are where alarms began."
        )
    return "Marks are where alarms began." if len(history.measured) > size.dots and history.runs(Signal.ALARM) else ""


def scale_note(history: History) -> str:
    """Describe the vertical scale of the divergence; empty if it is linear."""
    return _bent(drift_frame(history, WIDE))


def step_note(history: History) -> str:
    """Describe the vertical scale of the steps; empty if it is linear."""
    return _bent(step_frame(history, WIDE))


def _bent(place: Frame) -> str:
    if math.isinf(place.y.bend):
        return ""
    return f"The vertical scale is logarithmic beyond about {number(place.y.bend)}, since values lie far apart."


def divergence_chart(history: History, size: Size, ident: str) -> Markup:
    """Draw the divergence with band, limits and markers; skipped windows are grey, and the line breaks there."""
    series, place = _drift_series(history), drift_frame(history, size)
    records, points = history.records, place.timeline.places
    limits = [
        *_broken(place, [r.warning_limit for r in records], "warning-limit"),
        *_broken(place, [r.alarm_limit for r in records], "limit"),
    ]
    began = [
        tag("circle", cx=place.x(p), cy=place.y(0.0), r=4, class_="began")
        for p, r in zip(points, records, strict=True)
        if r.status == Status.ORIGINAL
    ]
    layers = [
        place.skipped(records),
        _tolerance(place, history.settings.tolerance),
        *limits,
        place.open_band(series),
        place.band(series),
        place.line(series),
        tag("g", *began, class_="marks"),
        _markers(place, series),
        _strip(place, history),
        place.hits(series),
    ]
    return place.drawn(layers, ident, f"{measure(history.kind)} over time", _described(history))


def step_chart(history: History, size: Size, ident: str) -> Markup:
    """Draw how far each window lies from the one before."""
    records, series, place = history.records, _step_series(history), step_frame(history, size)
    values = [v for v in series.values if math.isfinite(v)]
    most = f"The largest step is {number(max(values))} nats." if values else "No step has been measured."
    layers = [
        place.skipped(records),
        place.open_band(series),
        place.band(series),
        place.line(series),
        _markers(place, series),
        place.hits(series),
    ]
    return place.drawn(layers, ident, "KL(current‖previous window) over time", most)


def weights_chart(history: History, size: Size, ident: str) -> Markup:
    """Draw the effective sample size of the weights, as a share of the rows."""
    records, nothing = history.records, math.nan
    shares = [r.effective_sample_size / r.rows if r.status == Status.MEASURED and r.rows else nothing for r in records]
    says = [
        f"{_where(r, history)}: {number(r.effective_sample_size, 0)} of {r.rows:,} rows ({percent(s)})"
        for r, s in zip(records, shares, strict=True)
    ]
    values = [100.0 * s for s in shares]
    series = Series(values, values, values, [Signal.NORMAL] * len(values), says)
    size = Size(size.width, 0.62 * size.height, size.points, size.dots, size.across, 4)
    place = frame(history, size, (0.0, 100.0), 100.0, "% of the rows")
    last = history.last
    words = "" if last is None else f"At the end {number(last.effective_sample_size, 0)} of {last.rows:,} rows."
    layers = [
        place.skipped(records),
        place.filled(series),
        place.line(series),
        _markers(place, series),
        place.hits(series),
    ]
    return place.drawn(layers, ident, "Effective sample size of the weights over time", words)


def _step_series(history: History) -> Series:
    records = history.records
    estimates = [r.step if r.status == Status.MEASURED else None for r in records]
    marks = [Signal.ALARM if is_abrupt(r) else Signal.NORMAL for r in records]
    says = [f"{_where(r, history)}: step {_said(e, ' nats')}" for r, e in zip(records, estimates, strict=True)]
    return _series(estimates, marks, says)


def step_frame(history: History, size: Size) -> Frame:
    """Return axes that hold the steps."""
    series = _step_series(history)
    size = Size(size.width, 0.62 * size.height, size.points, size.dots, size.across, 4)
    return frame(history, size, _reach(series), _typical(series, [history.settings.tolerance]), "nats")


def _drift_series(history: History) -> Series:
    records = history.records
    estimates = [r.drift if r.status == Status.MEASURED else None for r in records]
    marks = [r.signal for r in records]
    says = []
    for record, estimate in zip(records, estimates, strict=True):
        reason = f"\n{record.reason}" if record.reason else ""
        says.append(f"{_where(record, history)}: {_said(estimate, unit(history.kind), record)}{reason}")
    return _series(estimates, marks, says)


def drift_frame(history: History, size: Size) -> Frame:
    """Return axes that hold the divergence, its limits and the tolerance."""
    series, limits = _drift_series(history), [r.alarm_limit for r in history.records]
    typical = [v for v in limits if math.isfinite(v)]
    # a noisy window's limits may lie far beyond everything else: they are cut off
    values = [*_reach(series), history.settings.tolerance, *([median(typical)] if typical else [])]
    return frame(
        history, size, values, _typical(series, [*limits, history.settings.tolerance]), unit(history.kind).strip()
    )


def _series(estimates: Sequence[Estimate | None], marks: list[Signal], says: list[str]) -> Series:
    nothing, read = math.nan, [None if e is None else shown(e) for e in estimates]
    values = [nothing if e is None else e.value for e in read]
    low = [nothing if e is None else e.low for e in read]
    high = [nothing if e is None else e.high for e in read]
    return Series(values, low, high, marks, says)


def _reach(series: Series) -> list[float]:
    return [*series.values, *series.low, *series.high]


def _typical(series: Series, others: Sequence[float]) -> float:
    """Return the size that most values have; values far beyond it bend the scale."""
    sizes = [abs(v) for v in series.values if math.isfinite(v)]
    limits = [v for v in others if math.isfinite(v)]
    return max(median(sizes) if sizes else 0.0, median(limits) if limits else 0.0)


def _where(record: Record, history: History) -> str:
    text = window_name(record, history.settings)
    return text[0].upper() + text[1:]


def _said(estimate: Estimate | None, unit_name: str, record: Record | None = None) -> str:
    if estimate is None:
        began = record is not None and record.status == Status.ORIGINAL
        return "the original" if began else "no estimate"
    span = between(estimate)
    return f"{precise(estimate)}{unit_name}" + (f" ({level(estimate)} interval {span})" if span else " (no interval)")


def _tolerance(place: Frame, tolerance: float) -> Markup:
    y = px(place.y(tolerance))
    return tag("path", d=f"M{px(place.left)} {y}H{px(place.right)}", class_="tolerance")


def _broken(place: Frame, values: list[float], name: str) -> list[Markup]:
    """Draw a line that breaks where there is no value; a single window gives a dash as wide as the window."""
    found = []
    for part in segments(place.records, values):
        if len(part) == 1:
            a, b = place.timeline.spans[part[0]]
            points = [(place.x(a), place.within(values[part[0]])), (place.x(b), place.within(values[part[0]]))]
        else:
            kept = thinned(part, values, place.groups(part))
            points = [(place.x(place.timeline.places[i]), place.within(values[i])) for i in kept]
        found.append(tag("path", d=path(points), class_=name))
    return found


@dataclass(frozen=True)
class _Mark:
    x: float
    y: float
    kind: Signal


def _markers(place: Frame, series: Series) -> Markup:
    """Mark each window if they are few; otherwise those where an alarm began, and those without neighbours."""
    found = []
    alone = {part[0] for part in segments(place.records, series.values) if len(part) == 1}
    few = sum(math.isfinite(v) for v in series.values) <= place.size.dots
    for i, value in enumerate(series.values):
        if not math.isfinite(value):
            continue
        kind, before = series.marks[i], series.marks[i - 1] if i else Signal.NORMAL
        if few or i in alone or (kind == Signal.ALARM and before != Signal.ALARM):
            found.append(_Mark(place.x(place.timeline.places[i]), place.y(value), kind))
    if not few:
        found = _apart(found)
    order = list(Signal)  # the worst on top
    return tag("g", *(_shape(mark) for mark in sorted(found, key=lambda m: order.index(m.kind))), class_="marks")


def _apart(marks: list[_Mark]) -> list[_Mark]:
    kept: list[_Mark] = []
    for mark in marks:
        if not kept or mark.x - kept[-1].x >= _NEAR or (mark.kind != Signal.NORMAL and kept[-1].kind == Signal.NORMAL):
            kept.append(mark)
    return kept


def _shape(mark: _Mark) -> Markup:
    x, y = mark.x, mark.y
    if mark.kind == Signal.ALARM:
        return tag(
            "path", d=f"M{px(x - 4.6)} {px(y + 3.6)}L{px(x + 4.6)} {px(y + 3.6)}L{px(x)} {px(y - 5)}Z", class_="alarm"
        )
    if mark.kind == Signal.WARNING:
        return tag("rect", x=x - 3.2, y=y - 3.2, width=6.4, height=6.4, class_="warning")
    return tag("circle", cx=x, cy=y, r=2.4, class_="dot")


def _strip(place: Frame, history: History) -> Markup:
    """Show when alarms and warnings stood, as a strip along the axis: alarms twice as high as warnings."""
    found, spans = [], {r.window: span for r, span in zip(place.records, place.timeline.spans, strict=True)}
    for signal, height in ((Signal.WARNING, 3.5), (Signal.ALARM, 7.0)):
        for first, last in history.runs(signal):
            a, b = spans[first.window][0], spans[last.window][1]
            width = max(place.x(b) - place.x(a), 1.5)
            found.append(
                tag("rect", x=place.x(a), y=place.bottom - height, width=width, height=height, class_=f"stood {signal}")
            )
    return tag("g", *found)


def _described(history: History) -> str:
    """Describe the chart in words, for those who cannot see it."""
    measured = history.measured
    if not measured:
        return "No window has been measured yet."
    top = max(measured, key=lambda r: r.drift.value if r.drift is not None else -math.inf)
    last, name, alarms = measured[-1], unit(history.kind), history.runs(Signal.ALARM)
    text = f"{counted(len(measured), 'window')}. "
    text += f"Highest in {window_name(top, history.settings)}: {_said(top.drift, name)}. "
    text += f"Last, {window_name(last, history.settings)}: {_said(last.drift, name)}."
    began = ", ".join(window_name(first, history.settings) for first, _ in alarms[:10])
    return text + (f" Alarms began in: {began}{' and later' if len(alarms) > 10 else ''}." if alarms else " No alarm.")
