"""How figures look here: made without pyplot, so that no global state of matplotlib's is touched."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

__all__ = ["COLORS", "canvas", "plain"]

# Okabe and Ito's colours, told apart by most colour-blind readers; the yellow one is too light for a line
COLORS = ("#0072B2", "#D55E00", "#009E73", "#E69F00", "#CC79A7", "#56B4E9", "#000000", "#7F7F7F")


def canvas(rows: int, columns: int, *, width: float, height: float) -> tuple[Figure, Any]:
    """A figure that lays itself out, and its axes, always as an array (rows, columns); sizes in inches."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False)


def plain(axes: Axes, size: float = 9.0) -> None:
    """No frame where there is no axis, a light grid, text of one size."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#e4e4e4", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=size - 1)
    for text in (axes.title, axes.xaxis.label, axes.yaxis.label):
        text.set_fontsize(size)
