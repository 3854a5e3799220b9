"""The looks of figures: one style, bands over seeds, a caption under each, PNG and PDF."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import MaxNLocator

from experiments.files import write_atomically

__all__ = ["COLORS", "band", "canvas", "plain_ticks", "save", "span", "style"]

# Okabe and Ito's colours: most colour-blind readers can distinguish them, and their order here shows in grey
COLORS = {
    "truth": "#000000",
    "driftline": "#0072B2",
    "red": "#D55E00",
    "orange": "#E69F00",
    "green": "#009E73",
    "pink": "#CC79A7",
    "sky": "#56B4E9",
    "grey": "#7F7F7F",
}

_STYLE: Any = {
    "font.size": 8.5,
    "axes.titlesize": 9.5,
    "axes.labelsize": 9,
    "legend.fontsize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "lines.linewidth": 1.5,
    "lines.markersize": 4,
    "legend.frameon": False,
    "pdf.fonttype": 42,
    "figure.constrained_layout.use": True,
}
_DPI = 200
_CAPTION_SIZE = 7.5  # points
_MOST_TICKS = 7  # of an axis of a small panel
_ROUND = tuple(digit * 10.0**power for power in range(-4, 6) for digit in (1, 2, 5))


@contextmanager
def style() -> Iterator[None]:
    """Use the rc settings of all our figures."""
    with mpl.rc_context(_STYLE):
        yield


def canvas(
    rows: int = 1, columns: int = 2, *, width: float = 7.0, height: float = 2.9, **kwargs: Any
) -> tuple[Figure, Any]:
    """A figure and its axes (an array unless there is one), in inches of a paper's text width."""
    figure = Figure(figsize=(width, height), dpi=_DPI)
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns, **kwargs)


def band(axes: Axes, frame: pd.DataFrame, x: str, y: str, label: str, color: str, **kwargs: Any) -> None:
    """The mean over seeds as a line, with a band of one standard deviation between seeds."""
    grouped = frame.groupby(x)[y]
    mean, spread = grouped.mean(), grouped.std().fillna(0.0)
    axes.plot(mean.index, mean.to_numpy(), label=label, color=color, **{"marker": "o", **kwargs})
    axes.fill_between(mean.index, mean - spread, mean + spread, color=color, alpha=0.18, linewidth=0)


def span(axes: Axes, frame: pd.DataFrame, x: str, y: str, color: str, **kwargs: Any) -> None:
    """The mean over seeds as a line, with their range: on a log axis, a deviation may reach below 0."""
    seeds = frame.groupby(x)[y].agg(["mean", "min", "max"])
    axes.plot(seeds.index, seeds["mean"], color=color, **kwargs)
    axes.fill_between(seeds.index, seeds["min"], seeds["max"], color=color, alpha=0.15, linewidth=0)


def plain_ticks(ax: Axes, ticks: tuple[float, ...] = _ROUND, axis: Axis | None = None) -> None:
    """Ticks of a log axis that spans too little for powers of ten: those within its limits, else round numbers.

    ``axis`` is the vertical one by default.
    """
    axis = ax.yaxis if axis is None else axis
    low, high = sorted(axis.get_view_interval())
    within = [tick for tick in ticks if low <= tick <= high]
    if len(within) > _MOST_TICKS:  # powers of ten, as many as there is room for
        powers = [tick for tick in within if f"{tick:e}".startswith("1.000000")]
        within = powers[:: -(-len(powers) // _MOST_TICKS)] if len(powers) > 1 else within
    for most in (
        4,
        6,
    ):  # an axis from 0.78 to 0.81 has none of 1, 2, 5; and two ticks do not show that it is logarithmic
        if len(within) < 3:
            even = MaxNLocator(most, steps=[1, 2, 5, 10]).tick_values(low, high)
            within = [tick for tick in even if low <= tick <= high]
    axis.set_ticks(within, labels=[f"{tick:g}" for tick in within])
    axis.set_ticks([], minor=True)


def save(figure: Figure, folder: Path, caption: str, name: str = "figure", source: str = "") -> None:
    """``figure.png`` and ``figure.pdf``, or another name, the caption set below the panels.

    The PNG says what it was drawn from, if there is a ``source``.
    """
    width, height = figure.get_size_inches()
    words = figure.text(0.01, 0.0, "", fontsize=_CAPTION_SIZE, va="bottom", linespacing=1.3, color="#333333")
    lines = _wrapped(words, caption, 0.98 * figure.bbox.width)
    room = (1.35 * _CAPTION_SIZE * len(lines) + 8) / 72
    figure.set_size_inches(width, height + room)
    engine: Any = figure.get_layout_engine()
    if engine is not None:
        engine.set(rect=(0, room / (height + room), 1, height / (height + room)))
    words.set(y=2 / 72 / (height + room), text="\n".join(lines))
    for kind, about in (("png", {"Source": source} if source else {}), ("pdf", {})):
        write_atomically(folder / f"{name}.{kind}", partial(figure.savefig, format=kind, metadata=about))


def _wrapped(words: Text, caption: str, room: float) -> list[str]:
    """Lines of the caption, as long as fit into ``room`` pixels: fonts differ too much to count letters."""
    for letters in range(170, 20, -2):
        lines = textwrap.wrap(caption, width=letters)
        words.set_text("\n".join(lines))
        if words.get_window_extent().width <= room:
            break
    return lines
