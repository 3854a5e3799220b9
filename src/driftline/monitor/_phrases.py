"""Phrases: what of a column, or of a pair, has moved most, in words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from driftline._wording import number
from driftline.inference import MoveTest
from driftline.tables import Column, ColumnCells, NumericColumn

__all__ = ["column_phrase", "from_to", "pair_phrase"]

_NOTABLE = 0.03  # change of a rank correlation that is worth telling
_WIDE = 0.5  # share of the range between the outer cells that a cell may have for a quantile inside it to be told
_FEW = 3  # of fewer cells between the outer ones than that, each is wide
_PLAIN = 10_000.0  # below it, numbers such as years are written without commas

Floats = npt.NDArray[np.float64]


def from_to(then: float, now: float) -> str:
    """Write two shares, with as many digits as tell them apart.

    >>> from_to(0.1, 0.01), from_to(0.0213, 0.0241), from_to(0.5, 0.50001)
    ('from 10 % to 1 %', 'from 2.1 % to 2.4 %', 'from 50 % to 50 %')
    """
    for digits in (0, 1, 2):
        texts = [_percent(share, digits) for share in (then, now)]
        if texts[0] != texts[1]:
            return f"from {texts[0]} to {texts[1]}"
    return f"from {_percent(then, 0)} to {_percent(now, 0)}"


def _percent(share: float, digits: int) -> str:
    if 0.0 < share < 0.5 * 10.0 ** (-digits - 2):
        return f"under {number(10.0 ** (-digits), digits)} %"
    return f"{number(100.0 * share, digits)} %"


def column_phrase(
    cells: ColumnCells,
    column: Column,
    test: int,
    cell: int,
    counts: tuple[Floats, Floats],
    unlisted: tuple[str, int] | None,
    rows: int,
) -> str:
    """Say what of a column has moved most.

    Arguments:
        test: the test that speaks loudest.
        cell: the cell that moved most.
        counts: counts of the cells then and now.
        unlisted: the most frequent value of the window without a cell of its own, in words, and its rows.
        rows: rows of the window.
    """
    then, now = (x[: len(cells.counts)] / max(float(x.sum()), 1e-300) for x in counts)
    last = len(cells.counts) - 1
    if cell == last:
        return f"missing {from_to(then[last], now[last])}"
    if cells.cells:
        return _category(cells, cell, then, now, unlisted, rows)
    if not isinstance(column, NumericColumn):
        return "its distribution"
    found = ""
    if test in (MoveTest.PLACE, MoveTest.PLACE_BESIDE):
        found = _median(cells, column, then, now, beside=test == MoveTest.PLACE_BESIDE)
    elif test in (MoveTest.SPREAD, MoveTest.SPREAD_BESIDE):
        found = _spread(cells, column, then, now, beside=test == MoveTest.SPREAD_BESIDE)
    return found or _share(cells, column, cell, then, now)


def _category(
    cells: ColumnCells, cell: int, then: Floats, now: Floats, unlisted: tuple[str, int] | None, rows: int
) -> str:
    names = cells.names
    if cell < len(names):
        if names == ("false", "true"):
            cell = 1
        if cell == 0 and len(names) == 1 and then[-2] == 0.0 and now[-2] > 0.0:  # a constant that has other values now
            cell = len(then) - 2
        else:
            return f"{names[cell]} {from_to(then[cell], now[cell])}"
    if then[cell] == 0.0 or (unlisted is not None and then[cell] < 1e-9):
        if unlisted is None:
            return f"new values, {_percent(now[cell], 0 if now[cell] >= 0.0095 else 1)}"
        share = unlisted[1] / max(rows, 1)
        return f"new value {unlisted[0]}, {_percent(share, 0 if share >= 0.0095 else 1)}"
    such = f", such as {unlisted[0]}" if unlisted is not None and now[cell] > then[cell] else ""
    return f"other values {from_to(then[cell], now[cell])}{such}"


def _share(cells: ColumnCells, column: NumericColumn, cell: int, then: Floats, now: Floats) -> str:
    """Say how the share of a cell of numbers has changed.

    The outermost cells with rows of the original reach to far edges that no row is near. Together with the empty cells
    beyond, they are said as what lies below or above their inner edge.
    """
    if cell in cells.heaps:
        return f"value {cells.atoms[cells.heaps.index(cell)]:.6g} {from_to(then[cell], now[cell])}"
    if not cells.edges:
        return f"filled {from_to(then[cell], now[cell])}"
    first, last = _filled(cells)
    edges = [column.raw(edge) for edge in cells.edges]
    if cell == first < last:
        held, name = slice(0, cell + 1), f"below {_rounded(edges[cell : cell + 1])[0]}"
    elif cell == last > first:
        held, name = slice(cell, len(edges) + 1), f"above {_rounded(edges[cell - 1 : cell])[0]}"
    elif cell in (0, len(edges)):
        held = slice(cell, cell + 1)
        name = f"{'above' if cell else 'below'} {_rounded(edges[-1:] if cell else edges[:1])[0]}"
    else:
        held, name = slice(cell, cell + 1), " to ".join(_rounded(edges[cell - 1 : cell + 1]))
    return f"{name} {from_to(float(then[held].sum()), float(now[held].sum()))}"


def _filled(cells: ColumnCells) -> tuple[int, int]:
    """Return the first and the last cell of numbers that have rows of the original."""
    held = [k for k, rows in enumerate(cells.counts[:-1]) if rows] or [0]
    return held[0], held[-1]


def _median(cells: ColumnCells, column: NumericColumn, then: Floats, now: Floats, *, beside: bool) -> str:
    places = [_quantile(cells, column, share, 0.5, beside) for share in (then, now)]
    known = [end for place in places if place is not None for end in place if math.isfinite(end)]
    if None in places or not known:
        return ""
    texts = dict(zip(known, _rounded(known), strict=True))
    a, b = (_placed(place, texts) for place in places if place is not None)
    what = f"median beside {cells.atoms[0]:.6g}" if beside and len(cells.atoms) == 1 else "median"
    return f"{what} from {a} to {b}" if a != b else ""


def _placed(place: tuple[float, float], texts: Mapping[float, str]) -> str:
    """Write where a quantile lies: a number, or between which."""
    low, high = place
    if low == high:
        return texts[low]
    if math.isinf(low):
        return f"below {texts[high]}"
    return f"above {texts[low]}" if math.isinf(high) else f"between {texts[low]} and {texts[high]}"


def _spread(cells: ColumnCells, column: NumericColumn, then: Floats, now: Floats, *, beside: bool) -> str:
    places = [_quantile(cells, column, share, at, beside) for share in (then, now) for at in (0.25, 0.75)]
    quarters = [place[0] for place in places if place is not None and place[0] == place[1]]
    if len(quarters) < len(places):
        return ""
    texts = _rounded(quarters)
    return f"middle half from {texts[0]}–{texts[1]} to {texts[2]}–{texts[3]}" if texts[:2] != texts[2:] else ""


def _quantile(
    cells: ColumnCells, column: NumericColumn, share: Floats, at: float, beside: bool
) -> tuple[float, float] | None:
    """Return between which numbers a quantile of binned numbers lies; None if there are none.

    Both are the same, straight between the edges, where rows of the original lie on both sides of the cell and it is
    not wide. The outermost cells with such rows end where nobody knows: there one of the two is infinite.
    """
    inside = share[:-1].copy()
    if beside:
        inside[list(cells.heaps)] = 0.0
    total = float(inside.sum())
    if total <= 0.0:
        return None
    below = np.cumsum(inside) / total
    k = min(int(np.searchsorted(below, at)), len(inside) - 1)
    if k in cells.heaps:
        atom = cells.atoms[cells.heaps.index(k)]
        return atom, atom
    first, last = _filled(cells)
    edges = [column.raw(edge) for edge in cells.edges]
    if first == last or not all(map(math.isfinite, edges)):
        return None
    if k <= first:
        return -math.inf, edges[k]
    if k >= last:
        return edges[k - 1], math.inf
    low, high = edges[k - 1], edges[k]
    if last - first > _FEW and high - low > _WIDE * (edges[last - 1] - edges[first]):
        return low, high
    found = low + (high - low) * (at - float(below[k - 1])) / max(float(inside[k]) / total, 1e-300)
    return found, found


def _rounded(values: Sequence[float]) -> list[str]:
    """Write numbers that are compared, with three digits of the differences between them."""
    span = max(values) - min(values) if len(values) > 1 else abs(values[0])
    digits = max(0, 1 - math.floor(math.log10(span))) if span > 0.0 else 0
    texts = [f"{value:.6g}" if digits > 12 else number(value, min(digits, 9)) for value in values]
    return [t.replace(",", "") if abs(v) < _PLAIN else t for t, v in zip(texts, values, strict=True)]


def pair_phrase(
    cells: tuple[ColumnCells, ColumnCells],
    columns: tuple[Column, Column],
    tables: tuple[Floats, Floats],
    correlations: tuple[float, float],
) -> str:
    """Say how the relation of two columns has changed, from the tables (4, 4) of their groups then and now."""
    a, b = correlations
    if math.isfinite(a) and math.isfinite(b) and abs(b - a) >= _NOTABLE:
        return f"rank correlation from {number(a, 2)} to {number(b, 2)}"
    shares = [table / max(float(table.sum()), 1e-300) for table in tables]
    alone = [share.sum(1, keepdims=True) * share.sum(0, keepdims=True) for share in shares]
    before, after = (share / np.maximum(free, 1e-300) for share, free in zip(shares, alone, strict=True))
    change = np.abs(after - before) * np.minimum(*alone)
    at = np.unravel_index(int(change.argmax()), change.shape)
    one, other = (_group(*each) for each in zip(cells, columns, map(int, at), strict=True))
    return f"{one} with {other} {from_to(float(shares[0][at]), float(shares[1][at]))}"


def _group(cells: ColumnCells, column: Column, group: int) -> str:
    """Name a coarse group: its value, its range of numbers, or that it holds others."""
    last = len(cells.counts) - 1
    held = [k for k, g in enumerate(cells.groups) if g == group and cells.counts[k]]
    if held == [last]:
        return f"{cells.column} missing"
    if cells.cells or not isinstance(column, NumericColumn):
        return cells.names[held[0]] if len(held) == 1 and held[0] < len(cells.names) else f"other {cells.column}"
    inside = [k for k, g in enumerate(cells.groups[:last]) if g == group]
    if len(inside) == 1 and inside[0] in cells.heaps:
        return f"{cells.column} {cells.atoms[cells.heaps.index(inside[0])]:.6g}"
    ends = [column.raw(cells.edges[k]) for k in (inside[0] - 1, inside[-1]) if 0 <= k < len(cells.edges)]
    texts = _rounded(ends) if ends else []
    if len(texts) == 2:
        return f"{cells.column} {texts[0]} to {texts[1]}"
    return f"{cells.column} {'below' if inside[0] == 0 else 'above'} {texts[0]}" if texts else cells.column
