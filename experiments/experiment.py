"""What an experiment is: presets of its arguments, units of work, rows, a figure and a verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from matplotlib.figure import Figure

__all__ = ["Experiment", "Report", "Row", "Unit"]

Row = dict[str, str | int | float]
"""One line of the tidy table; ``case`` and ``seed`` of its unit are put in front of it."""

Report = Callable[[str], None]
"""Called with a few words on what is going on, shown beside the unit's progress bar."""


class Unit(NamedTuple):
    """What is run, saved and resumed as one: a case (a method, a model, ...) with one seed, yielding ``rows`` rows."""

    case: str
    seed: int
    rows: int


@dataclass(frozen=True)
class Experiment:
    """One figure of the paper, or one of ours.

    Arguments:
        name: on the command line and of its folder.
        paper: where the paper has it.
        title: a few words.
        presets: arguments by scale, instances of one frozen dataclass; each field becomes a flag. ``seeds`` is one.
        units: the work to do, longest first where that helps to keep all processes busy.
        run: yields a unit's rows; takes the arguments, the unit and a Report, and a folder if it ``keeps`` something.
        figure: draws all rows.
        caption: what the figure shows and, at a smaller scale than the paper's, what was shortened.
        verdict: one paragraph of Markdown: what the paper claims, what came out.
        extras: further figures by name, from the experiment's folder, all rows and the arguments.
        keeps: whether ``run`` is given a folder of the unit's own, named as its part, to go on from when interrupted.
        tidy: what to take away from that folder once the part is written.
        in_all: whether ``all`` runs it.
        folder: what its folder is called, where that depends on the arguments; begins with the name.
    """

    name: str
    paper: str
    title: str
    presets: Mapping[str, Any]
    units: Callable[[Any], list[Unit]]
    run: Callable[..., Iterator[Row]]
    figure: Callable[[pd.DataFrame, Any], Figure]
    caption: Callable[[Any], str]
    verdict: Callable[[pd.DataFrame, Any], str]
    extras: Callable[[Path, pd.DataFrame, Any], Mapping[str, Figure]] | None = None
    keeps: bool = False
    tidy: Callable[[Any, Path], None] | None = None
    in_all: bool = True
    folder: Callable[[Any], str] | None = None

    def place(self, out: Path, args: Any) -> Path:
        """Where its results go, below ``out``."""
        return out / (self.name if self.folder is None else self.folder(args))
