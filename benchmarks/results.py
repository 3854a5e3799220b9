"""Results: measured numbers with their bars, and a table of them."""

from __future__ import annotations

from typing import NamedTuple

from rich.table import Table

Bar = float | tuple[float, float] | None
"""Largest allowed value, or the smallest and the largest; None where a number is only reported."""


class Result(NamedTuple):
    """A measurement and its bar; seed -1 stands for several seeds together."""

    what: str
    seed: int
    value: float
    bar: Bar


def _meets(value: float, bar: float | tuple[float, float]) -> bool:
    return bar[0] <= value <= bar[1] if isinstance(bar, tuple) else value <= bar


def table(results: list[Result]) -> Table:
    """Return a table with a line for each measurement, its values over seeds side by side."""
    out = Table("what", "value by seed", "bar", "")
    for what in dict.fromkeys(r.what for r in results):
        same = [r for r in results if r.what == what]
        bar = same[0].bar
        verdict = "" if bar is None else "ok" if all(_meets(r.value, bar) for r in same) else "[red]missed[/]"
        wanted = "" if bar is None else f"{bar[0]:g} to {bar[1]:g}" if isinstance(bar, tuple) else f"≤ {bar:g}"
        out.add_row(what, "  ".join(f"{r.value:.3g}" for r in same), wanted, verdict)
    return out
