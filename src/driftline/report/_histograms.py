"""Then and now: a column's histogram at the original and in the last window, from the summaries in the run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from driftline._wording import named, number, percent
from driftline.report._scales import steps
from driftline.report._svg import Markup, drawing, esc, px, tag

__all__ = ["changed", "histogram"]

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 420.0, 176.0, 40.0, 414.0, 8.0, 136.0
_ROW = 24.0
_CONSTANT = 1e-9  # share of the mean below which a standard deviation is only rounding
_MOST = 8  # most categories drawn
_LONGEST = 17  # most characters of a category's name
_GAP = 7.0  # pixels between closed and open bins, and before the missing values


def changed(then: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Say what happened to a column, in a sentence."""
    parts = []
    if then.get("kind") == "numeric":
        before, after, spread = (_float(m.get(k)) for m, k in ((then, "mean"), (now, "mean"), (then, "std")))
        if math.isfinite(before + after):
            varied = spread > _CONSTANT * abs(before)
            moved = f" ({_signed((after - before) / spread)} standard deviations)" if varied else ""
            parts.append(f"mean {number(before)} then{'' if varied else ' (constant)'}, {number(after)} now{moved}")
        wide = _float(now.get("std")) / spread if spread > _CONSTANT * abs(before) else math.nan
        if math.isfinite(wide) and not 0.8 < wide < 1.25:
            factor = number(max(wide, 1.0 / max(wide, 1e-9)))
            parts.append(f"{'wider' if wide > 1 else 'narrower'} by a factor of {factor}")
    else:
        pairs = _categories(then, now)
        if pairs:
            name, a, b = max(pairs, key=lambda pair: abs(pair[2] - pair[1]))
            parts.append(f"{named(name, 24)}: {percent(a)} then, {percent(b)} now")
    a, b = _float(then.get("missing")), _float(now.get("missing"))
    if math.isfinite(a + b) and abs(a - b) >= 0.005 and not any("(missing)" in p for p in parts):
        parts.append(f"missing: {percent(a)} then, {percent(b)} now")
    return f"{'; '.join(parts)}." if parts else ""


def histogram(column: str, then: Mapping[str, Any], now: Mapping[str, Any], ident: str) -> Markup:
    """Draw a column then and now; empty if the two cannot be compared."""
    if then.get("kind") != now.get("kind"):
        return ""
    if then.get("kind") == "numeric":
        return _numeric(column, then, now, ident)
    return _categorical(column, then, now, ident)


def _float(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else math.nan


def _signed(value: float) -> str:
    return f"{'+' if value >= 0 else ''}{number(value, 2 if abs(value) < 10 else 0)}"


@dataclass(frozen=True)
class _Bin:
    first: float
    last: float
    then: float
    now: float


def _bins(then: Mapping[str, Any], now: Mapping[str, Any], right: float) -> list[_Bin]:
    """Place equal bins side by side; the two open ones stand a little apart."""
    before, after = list(then["shares"]), list(now["shares"])
    width = (right - _LEFT - 2.0 * _GAP) / len(before)
    found = []
    for i, (a, b) in enumerate(zip(before, after, strict=True)):
        x = _LEFT + i * width + (_GAP if i > 0 else 0.0) + (_GAP if i == len(before) - 1 else 0.0)
        found.append(_Bin(x, x + width, float(a), float(b)))
    return found


def _numeric(column: str, then: Mapping[str, Any], now: Mapping[str, Any], ident: str) -> Markup:
    edges = [float(e) for e in then.get("edges", ())]
    if len(then.get("shares", ())) != len(edges) + 1 or list(now.get("edges", ())) != list(then.get("edges", ())):
        return ""
    missing = (_float(then.get("missing")), _float(now.get("missing")))
    shown = any(v > 0.0 for v in missing)
    right = _RIGHT - 54.0 if shown else _RIGHT
    if not edges or len(now.get("shares", ())) != len(edges) + 1:
        return ""
    bins = _bins(then, now, right)
    parts = [*bins]
    if shown:
        parts.append(_Bin(_RIGHT - 34.0, _RIGHT - 6.0, *(v if math.isfinite(v) else 0.0 for v in missing)))
    top = max(max(b.then, b.now) for b in parts) or 1.0
    inside = [_levels(top), *_outlines(parts, top), *_ends(bins, edges)]
    if shown:
        inside.append(tag("text", "missing", x=_RIGHT - 20.0, y=_BOTTOM + 16, text_anchor="middle"))
    return _svg(column, then, now, ident, _HEIGHT - 12.0, inside, class_="bins", data_bins=_packed(parts))


def _y(share: float, top: float) -> float:
    return _BOTTOM - (_BOTTOM - _TOP) * share / top


def _levels(top: float) -> Markup:
    """Draw horizontal lines with their shares."""
    found = []
    for share in steps(0.0, top, 4)[1:]:
        y = _y(share, top)
        found.append(tag("path", d=f"M{px(_LEFT)} {px(y)}H{px(_RIGHT)}", class_="grid"))
        label = f"{100 * share:.3g} %"
        found.append(tag("text", esc(label), x=_LEFT - 5, y=y + 4, text_anchor="end"))
    found.append(tag("path", d=f"M{px(_LEFT)} {px(_BOTTOM)}H{px(_RIGHT)}", class_="axis"))
    return tag("g", *found)


def _packed(bins: Sequence[_Bin]) -> str:
    """Write bins for the script, which shows their numbers: ends, share then and share now."""
    return ";".join(f"{px(b.first)},{px(b.last)},{b.then:.4g},{b.now:.4g}" for b in bins)


def _outlines(bins: Sequence[_Bin], top: float) -> list[Markup]:
    """Draw the tops of the bins as steps, broken where bins stand apart."""
    found = []
    for kind in ("then", "now"):
        d, end = "", -math.inf
        for b in bins:
            y = px(_y(getattr(b, kind), top))
            start = f"M{px(b.first)} {px(_BOTTOM)}V{y}" if b.first > end + 0.5 else f"V{y}"
            close = f"V{px(_BOTTOM)}" if d and b.first > end + 0.5 else ""
            d, end = f"{d}{close}{start}H{px(b.last)}", b.last
        found.append(tag("path", d=f"{d}V{px(_BOTTOM)}", class_=f"outline filled {kind}"))
    return found


def _ends(bins: Sequence[_Bin], edges: Sequence[float]) -> list[Markup]:
    """Write numbers below edges; bins of integers, which end halfway between two, are named by their first integer."""
    places = [*(b.first for b in bins[1:-1]), bins[-2].last]
    whole = all(edge % 1.0 == 0.5 for edge in edges)
    single = whole and len(edges) > 1 and edges[1] - edges[0] == 1.0
    if single:
        places = [0.5 * (b.first + b.last) for b in bins[1:-1]]
    found = []
    for i in range(0, len(places), max(1, math.ceil(len(places) / 5))):
        mark = tag("path", d=f"M{px(places[i])} {px(_BOTTOM)}v4", class_="axis")
        label = _edge(edges[i] + (0.5 if whole else 0.0))
        found.append(mark + tag("text", esc(label), x=places[i], y=_BOTTOM + 16, text_anchor="middle"))
    return found


def _edge(value: float) -> str:
    return number(value) if abs(value) >= 1000.0 else f"{value:.6g}".replace("-", "−")


def _categories(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[tuple[str, float, float]]:
    """Return name, share then and share now of each category, with other and missing values if there are any."""
    after = dict(zip(map(str, now.get("values", ())), now.get("shares", ()), strict=False))
    pairs = [
        (str(v), _float(s), _float(after.get(str(v), 0.0)))
        for v, s in zip(then.get("values", ()), then.get("shares", ()), strict=False)
    ]
    for name in ("other", "missing"):
        a, b = _float(then.get(name)), _float(now.get(name))
        a, b = (a if math.isfinite(a) else 0.0), (b if math.isfinite(b) else 0.0)
        if a > 0.0 or b > 0.0:
            pairs.append((f"({name})", a, b))
    return [pair for pair in pairs if math.isfinite(pair[1] + pair[2])]


def _categorical(column: str, then: Mapping[str, Any], now: Mapping[str, Any], ident: str) -> Markup:
    pairs = _categories(then, now)
    if not pairs:
        return ""
    # those that changed most, in the order they were kept
    chosen = sorted(range(len(pairs)), key=lambda i: -abs(pairs[i][1] - pairs[i][2]))[:_MOST]
    shown = [pairs[i] for i in sorted(chosen)]
    top = max(max(a, b) for _, a, b in shown) or 1.0
    left, right = 128.0, _WIDTH - 84.0
    inside = []
    for k, (name, a, b) in enumerate(shown):
        y = 4.0 + k * _ROW
        label = name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"
        inside.append(tag("text", tag("title", esc(name)), esc(label), x=left - 8, y=y + 13, text_anchor="end"))
        for share, kind, at in ((a, "then", y), (b, "now", y + 9.0)):
            width = max((right - left) * share / top, 0.8)
            inside.append(tag("rect", x=left, y=at, width=width, height=8.0, class_=f"bar {kind}"))
        said = f"{percent(a)} → {percent(b)}"
        inside.append(tag("text", esc(said), x=_WIDTH - 2, y=y + 13, text_anchor="end", class_="share"))
    if len(pairs) > len(shown):
        said = f"and {len(pairs) - len(shown)} more that changed less"
        inside.append(tag("text", esc(said), x=left, y=4.0 + len(shown) * _ROW + 12, class_="unit"))
    inside.append(tag("path", d=f"M{px(left)} 2V{px(2.0 + len(shown) * _ROW)}", class_="axis"))
    height = 8.0 + len(shown) * _ROW + (18.0 if len(pairs) > len(shown) else 0.0)
    return _svg(column, then, now, ident, height, inside)


def _svg(
    column: str,
    then: Mapping[str, Any],
    now: Mapping[str, Any],
    ident: str,
    height: float,
    inside: list[Markup],
    **attributes: object,
) -> Markup:
    return drawing((_WIDTH, height), ident, f"{column}, then and now", changed(then, now), inside, **attributes)
