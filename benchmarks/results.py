"""Results: measured numbers with their bars, and a table of them."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, NamedTuple

from rich.table import Table

INF = float("inf")
Bar = float | tuple[float, float] | None
"""Largest allowed value, or the smallest and the largest (inf if any); None where a number is only reported."""


class Result(NamedTuple):
    """A measurement and its bar; seed -1 stands for several seeds together; ``first`` is the first edition's."""

    what: str
    seed: int
    value: float
    bar: Bar
    first: float | None = None


class Kept:
    """What benchmarks have found, by name, kept in a file so that a long run can go on where it was interrupted."""

    def __init__(self, path: Path | None, found: dict[str, list[Result]]) -> None:
        self.path, self.found = path, found

    @classmethod
    def read(cls, path: Path | None) -> Kept:
        """Read the file, if there is one; without a path, nothing is kept."""
        if path is None or not path.exists():
            return cls(path, {})
        found = json.loads(path.read_text())
        return cls(path, {name: [_result(parts) for parts in rows] for name, rows in found.items()})

    def add(self, name: str, results: list[Result]) -> None:
        """Add what a benchmark has found, and write the file anew."""
        self.found[name] = results
        if self.path is not None:
            beside = self.path.with_name(f"{self.path.name}.new")
            beside.write_text(json.dumps(self.found, indent=1))  # named tuples are lists there
            beside.replace(self.path)


def _result(parts: list[Any]) -> Result:
    what, seed, value, bar, first = parts
    return Result(what, seed, value, tuple(bar) if isinstance(bar, list) else bar, first)


def _meets(value: float, bar: float | tuple[float, float]) -> bool:
    return bar[0] <= value <= bar[1] if isinstance(bar, tuple) else value <= bar


def _wanted(bar: Bar) -> str:
    if bar is None:
        return ""
    if not isinstance(bar, tuple):
        return f"≤ {bar:g}"
    return f"≥ {bar[0]:g}" if bar[1] == INF else f"{bar[0]:g} to {bar[1]:g}"


class _Line(NamedTuple):
    """A measurement over seeds as it is printed; ``met`` is None where it has no bar."""

    what: str
    values: str
    first: str
    wanted: str
    met: bool | None


def _lines(results: list[Result]) -> list[_Line]:
    """Return a line for each measurement; a seed may be excused from the bar of the others."""
    lines = []
    for what in dict.fromkeys(r.what for r in results):
        same = [r for r in results if r.what == what]
        bars = [(r.value, r.bar) for r in same if r.bar is not None]
        met = all(_meets(value, bar) for value, bar in bars) if bars else None
        first = "" if same[0].first is None else f"{same[0].first:.3g}"
        values = "  ".join(f"{r.value:.3g}" for r in same)
        lines.append(_Line(what, values, first, _wanted(bars[0][1]) if bars else "", met))
    return lines


def _cells(line: _Line, met: str, missed: str, first: bool) -> list[str]:
    verdict = "" if line.met is None else met if line.met else missed
    return [line.what, line.values, *([line.first] if first else []), line.wanted, verdict]


def _heads(results: list[Result]) -> tuple[list[str], bool]:
    """Return heads of columns, and whether one of them is the first edition's."""
    first = any(r.first is not None for r in results)
    return ["what", "value by seed", *(["first edition"] if first else []), "bar", ""], first


def table(results: list[Result]) -> Table:
    """Return a table with a line for each measurement, its values over seeds side by side."""
    heads, first = _heads(results)
    out = Table(*heads)
    for line in _lines(results):
        out.add_row(*_cells(line, "ok", "[red]missed[/]", first))
    return out


def markdown(results: list[Result]) -> str:
    """Return the same table in Markdown, for the docs."""
    heads, first = _heads(results)
    rows = [heads, ["---"] * len(heads), *(_cells(line, "pass", "**miss**", first) for line in _lines(results))]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def numbers(results: list[Result]) -> dict[str, list[float | None]]:
    """Return values over seeds by what they measure, to four digits: to keep and to compare with."""
    found: dict[str, list[float | None]] = {}
    for r in results:
        found.setdefault(r.what, []).append(float(f"{r.value:.4g}") if math.isfinite(r.value) else None)
    return found
