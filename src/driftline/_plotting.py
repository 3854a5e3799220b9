"""Style of all figures, which are made without pyplot so that matplotlib's global state is left alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the page shares the colours, and does not need matplotlib
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["COLORS", "canvas", "plain"]

# Okabe and Ito's colours, which most colour-blind readers can distinguish; their yellow is too light for a line
COLORS = ("#0072B2", "#D55E00", "#009E73", "#E69F00", "#CC79A7", "#56B4E9", "#000000", "#7F7F7F")


def canvas(rows: int, columns: int, *, width: float, height: float) -> tuple[Figure, Any]:
    """Return a figure that lays itself out, and its axes, always as an array (rows, columns); sizes in inches."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False)


def plain(axes: Axes, size: float = 9.0) -> None:
    """Remove the frame where there is no axis, add a light grid, set text in one size."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#e4e4e4", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=size - 1)
    for text in (axes.title, axes.xaxis.label, axes.yaxis.label):
        text.set_fontsize(size)
