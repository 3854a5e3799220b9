"""Columns: which of them moved, by how much, and what they looked like then and now."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from driftline._wording import between, named, percent, precise
from driftline.monitor import Moved
from driftline.report._histograms import changed, histogram
from driftline.report._histories import History
from driftline.report._scales import Scale
from driftline.report._svg import Markup, esc, key, px, tag

__all__ = ["columns"]

_BAR = 400.0  # width in which bars are drawn; the page stretches it
_KEPT = (
    "For these pictures the run keeps the original's shares of rows in each bin, names and shares of frequent "
    "categories, share of missing values, mean and standard deviation, but none of its rows. The outer bins, a little "
    "apart, are open: they hold everything beyond."
)


def columns(history: History, now: Mapping[str, Any], ident: str) -> Markup:
    """Show which columns moved, and how."""
    last = history.last
    if last is None:
        return ""
    title = tag("h2", "Which columns moved")
    if not last.columns:
        text = "Which columns moved is not known: a step could not be measured, or the model has no such parts."
        return tag("section", title, tag("p", esc(text)), class_="card")
    about = (
        "Each column's part in KL(original‖current) + KL(current‖original) in the last measured window, with "
        "intervals. Columns that move together share what one of them would explain."
    )
    rest = 1.0 - sum(p.share for p in last.columns if math.isfinite(p.share))
    others = f"All other columns together: {percent(rest)}." if rest > 0.0005 else ""
    return tag(
        "section",
        title,
        tag("p", esc(about), class_="soft"),
        _bars(history),
        tag("p", esc(others), class_="caption") if others else "",
        _then_and_now(history, now, ident),
        class_="card",
    )


def _bars(history: History) -> Markup:
    """Draw bars with error bars and their numbers, as a table."""
    last = history.last
    assert last is not None
    ends = [v for p in last.columns for v in (p.contribution.value, p.contribution.low, p.contribution.high)]
    finite = [v for v in ends if math.isfinite(v)]
    low, high = min([0.0, *finite]), max([0.0, *finite])
    scale = Scale(low, high if high > low else low + 1.0, 0.0, _BAR)
    rows = []
    for part in last.columns:
        span = between(part.contribution)
        nats = esc(precise(part.contribution)) + (f'<br><small class="soft">{esc(span)}</small>' if span else "")
        name = tag("th", tag("bdi", esc(part.column)), _bar(part, scale), scope="row")
        rows.append(tag("tr", name, tag("td", esc(percent(part.share)), class_="n"), tag("td", nats, class_="n")))
    head = '<th scope="col">column</th><th scope="col" class="n">share</th><th scope="col" class="n">nats</th>'
    return tag("table", tag("thead", tag("tr", head)), tag("tbody", *rows), class_="bars")


def _bar(part: Moved, scale: Scale) -> Markup:
    e, zero = part.contribution, scale(0.0)
    a, b = sorted((zero, scale(e.value) if math.isfinite(e.value) else zero))
    shapes = [tag("rect", x=a, y=2.0, width=max(b - a, 0.5), height=10.0, class_="bar")]
    shapes.append(tag("path", d=f"M{px(zero)} 0V14", class_="zero"))
    if math.isfinite(e.low) and math.isfinite(e.high):
        left, right = px(scale(e.low)), px(scale(e.high))
        shapes.append(tag("path", d=f"M{left} 7H{right}M{left} 3.5V10.5M{right} 3.5V10.5", class_="whisker"))
    elif math.isfinite(e.low):  # open above: an arrow to the end
        left, right, head = px(scale(e.low)), px(_BAR), px(_BAR - 5.0)
        shapes.append(
            tag("path", d=f"M{left} 7H{right}M{left} 3.5V10.5M{head} 3.5L{right} 7L{head} 10.5", class_="whisker")
        )
    return tag("svg", *shapes, viewBox=f"0 0 {px(_BAR)} 14", preserveAspectRatio="none", aria_hidden="true")


def _then_and_now(history: History, now: Mapping[str, Any], ident: str) -> Markup:
    last, then = history.last, history.original.then
    assert last is not None
    title = tag("h3", "Then and now", class_="second")
    figures = []
    for k, part in enumerate(last.columns):
        before, after = then.get(part.column) or {}, now.get(part.column) or {}
        drawn = histogram(part.column, before, after, f"{ident}-h{k}")
        if drawn:
            words = tag("p", esc(changed(before, after)), class_="caption")
            figures.append(tag("figure", tag("h3", tag("bdi", esc(named(part.column, 60)))), words, drawn))
    if not figures:
        kept = "no histograms of these columns" if then and now else "no histograms, since it keeps no summaries"
        return title + tag("p", esc(f"This run has {kept}."), class_="soft")
    keys = [key(_swatch("then"), "then: the original"), key(_swatch("now"), "now: the last measured window")]
    legend = tag("ul", *keys, class_="legend")
    pictures = tag("div", *figures, class_="histograms")
    return "".join([title, legend, pictures, tag("p", esc(_KEPT), class_="caption second")])


def _swatch(kind: str) -> Markup:
    fill = tag("rect", x=1, y=3, width=24, height=9, class_=kind)
    return fill + tag("path", d="M1 12V3H25V12", class_=f"outline {kind}")
