"""Results: measured numbers with their bars, and a table of them."""

from __future__ import annotations

from typing import NamedTuple

from rich.table import Table

INF = float("inf")
Bar = float | tuple[float, float] | None
"""Largest allowed value, or the smallest and the largest (inf if any); None where a number is only reported."""


class Result(NamedTuple):
    """A measurement and its bar; seed -1 stands for several seeds together."""

    what: str
    seed: int
    value: float
    bar: Bar


def _meets(value: float, bar: float | tuple[float, float]) -> bool:
    return bar[0] <= value <= bar[1] if isinstance(bar, tuple) else value <= bar


def _wanted(bar: Bar) -> str:
    if bar is None:
        return ""
    if not isinstance(bar, tuple):
        return f"≤ {bar:g}"
    return f"≥ {bar[0]:g}" if bar[1] == INF else f"{bar[0]:g} to {bar[1]:g}"


def _lines(results: list[Result]) -> list[tuple[str, str, str, bool | None]]:
    """Return what was measured, values over seeds side by side, the bar, and whether all values meet it."""
    lines = []
    for what in dict.fromkeys(r.what for r in results):
        same = [r for r in results if r.what == what]
        bar = same[0].bar
        met = None if bar is None else all(_meets(r.value, bar) for r in same)
        lines.append((what, "  ".join(f"{r.value:.3g}" for r in same), _wanted(bar), met))
    return lines


def table(results: list[Result]) -> Table:
    """Return a table with a line for each measurement, its values over seeds side by side."""
    out = Table("what", "value by seed", "bar", "")
    for what, values, wanted, met in _lines(results):
        out.add_row(what, values, wanted, "" if met is None else "ok" if met else "[red]missed[/]")
    return out


def markdown(results: list[Result]) -> str:
    """Return the same table in Markdown, for the docs."""
    rows = [
        f"| {what} | {values} | {wanted} | {'' if met is None else 'pass' if met else '**miss**'} |"
        for what, values, wanted, met in _lines(results)
    ]
    return "\n".join(["| what | value | bar | |", "|---|---|---|---|", *rows])
