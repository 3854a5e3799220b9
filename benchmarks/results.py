"""One measured number, and a table of them."""

from __future__ import annotations

from typing import NamedTuple

from rich.table import Table


class Result(NamedTuple):
    """A measurement; ``bar`` is the most it may be, None where it is only reported. Seed -1: over several seeds."""

    what: str
    seed: int
    value: float
    bar: float | None


def table(results: list[Result]) -> Table:
    """One line per measurement, its values over seeds side by side."""
    out = Table("what", "value by seed", "bar", "")
    for what in dict.fromkeys(r.what for r in results):
        same = [r for r in results if r.what == what]
        bar = same[0].bar
        verdict = "" if bar is None else "ok" if all(r.value <= bar for r in same) else "[red]missed[/]"
        out.add_row(what, "  ".join(f"{r.value:.3g}" for r in same), "" if bar is None else f"≤ {bar:g}", verdict)
    return out
