"""The parts of an experiment: presets of its arguments, units of work, rows, a figure and a verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from matplotlib.figure import Figure

__all__ = ["Experiment", "Report", "Results", "Row", "Unit", "Work"]

Row = dict[str, str | int | float]
"""One line of the tidy table; ``case`` and ``seed`` of its unit are put in front of it."""

Report = Callable[[str], None]
"""Called with a few words on the progress, shown beside the unit's progress bar."""


class Unit(NamedTuple):
    """One case (a method, a model, ...) with one seed, yielding ``rows`` rows: run, saved and resumed as a whole.

    Attributes:
        stage: units of a stage begin when those of the stages before are finished, and may read what these keep.
        fields: arguments that the rows depend on, None for all: other arguments leave a finished unit finished.
    """

    case: str
    seed: int
    rows: int
    stage: int = 0
    fields: tuple[str, ...] | None = None


class Work(NamedTuple):
    """Functions that compute rows.

    Arguments:
        units: the work to do, longest first where that helps to keep all processes busy.
        run: yields a unit's rows; takes the arguments, the unit and a Report, and a folder if it ``keeps`` something.
        keeps: whether ``run`` is given a folder of the unit's own, named as its part, to go on from when interrupted.
        tidy: deletes files in that folder which are not needed once the part is written.
    """

    units: Callable[[Any], list[Unit]]
    run: Callable[..., Iterator[Row]]
    keeps: bool = False
    tidy: Callable[[Any, Path], None] | None = None


class Results(NamedTuple):
    """Functions that show rows.

    Arguments:
        figure: draws all rows.
        caption: says what the figure shows and, at a smaller scale than the paper's, what was shortened.
        verdict: Markdown made by :func:`experiments.markdown.verdict`: what the paper claims, what was found.
        extras: further figures by name, from the experiment's folder, all rows and the arguments.
        ours: pattern of the cases that are driftline's default, whose rows grow stale when the engine's numbers change.
        narrowed: arguments that the rows of some units are of, for an experiment whose units can be shown in part.
    """

    figure: Callable[[pd.DataFrame, Any], Figure]
    caption: Callable[[Any], str]
    verdict: Callable[[pd.DataFrame, Any], str]
    extras: Callable[[Path, pd.DataFrame, Any], Mapping[str, Figure]] | None = None
    ours: str = ""
    narrowed: Callable[[Any, pd.DataFrame], Any] | None = None


@dataclass(frozen=True)
class Experiment:
    """One figure of the paper, or one of ours.

    Arguments:
        name: on the command line and of its folder.
        paper: the paper's figure, table or section.
        title: a few words.
        presets: arguments by scale, instances of one frozen dataclass; each field becomes a flag. ``seeds`` is one.
        work: how rows are computed.
        results: how rows are shown.
        in_all: whether ``all`` runs it.
        folder_fields: arguments whose values are added to the folder's name where they are not the quick preset's.
        takes: by scale and in words, how long one process takes on one core.
    """

    name: str
    paper: str
    title: str
    presets: Mapping[str, Any]
    work: Work
    results: Results
    in_all: bool = True
    folder_fields: tuple[str, ...] = ()
    takes: Mapping[str, str] = field(default_factory=dict)

    def place(self, out: Path, args: Any) -> Path:
        """Folder of its results, below ``out``."""
        usual = self.presets["quick"]
        values = (str(getattr(args, f)) for f in self.folder_fields if getattr(args, f) != getattr(usual, f))
        return out / "-".join([self.name, *values])
