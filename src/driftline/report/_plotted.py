"""Figures for notebooks: a monitor's run over time, or what an estimator says now."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from driftline._plotting import COLORS, canvas, plain
from driftline._wording import clean, measure, shortened
from driftline.inference import Estimate
from driftline.monitor import Monitor, Run
from driftline.report._figure import draw
from driftline.report._histories import ReportError
from driftline.report._notebooks import run_of
from driftline.report._verdicts import findings

if TYPE_CHECKING:  # they need scikit-learn, a monitor does not
    from driftline.estimators import ContinualDensityRatio, DensityRatio

__all__ = ["plot"]

_KINDS = ("reverse_kl", "kl", "js")
_MOST = 12  # columns


def plot(source: Monitor | Run | ContinualDensityRatio | DensityRatio, original: str | None = None) -> Figure:
    """Draw a monitor's run over time, or an estimator's divergences and columns now, as a Matplotlib figure.

    Arguments:
        source: monitor, run, or fitted estimator.
        original: name of the original; the first if None.
    """
    if isinstance(source, Monitor | Run):
        run, found = findings(run_of(source), original)
        if not found or not found[0][0].records:
            raise ReportError("no window is complete yet, so there is nothing to draw")
        return draw(*found[0], run.source)
    given: Any = {} if original is None else {"original": original}  # one of a pair of tables has no name
    divergences = [(measure(kind), source.divergence(kind, **given)) for kind in _KINDS]
    try:
        parts = [(str(p.column), p.contribution) for p in source.attribution(**given)[:_MOST]]
    except ValueError:  # the model has none: a network
        parts = []
    figure, axes = canvas(2 if parts else 1, 1, width=8.0, height=1.8 + 0.3 * (3 + len(parts)))
    _bars(axes[0, 0], divergences, "divergences of the current window [nats]")
    if parts:
        axes[0, 0].get_gridspec().set_height_ratios([3.0, float(len(parts))])
        both = f"{measure('kl')} + {measure('reverse_kl')}"
        _bars(axes[1, 0], parts, f"parts of columns in {both} [nats]: one whose interval holds 0 need not have moved")
    return figure


def _bars(axes: Axes, parts: list[tuple[str, Estimate]], title: str) -> None:
    """Draw values with their intervals; one without an interval is hollow, one that is open above has an arrow."""
    plain(axes)
    for place, (_, e) in enumerate(parts):
        bare = not math.isfinite(e.low)
        fill, strength = ("none", 1.0) if bare else (COLORS[0], 0.75)
        axes.barh(place, e.value, height=0.6, color=fill, edgecolor=COLORS[0], alpha=strength)
        if math.isfinite(e.low) and math.isfinite(e.high) and not e.lower_bound:
            axes.plot([e.low, e.high], [place, place], color="#1a1d21", linewidth=1.3, marker="|")
        elif math.isfinite(e.low):
            axes.plot([e.low, e.value], [place, place], color="#1a1d21", linewidth=1.3, marker=">", markevery=[1])
    axes.set_yticks(range(len(parts)), [shortened(clean(name), 32) for name, _ in parts], parse_math=False)
    axes.invert_yaxis()
    axes.axvline(0.0, color="#7f7f7f", linewidth=0.8)
    axes.set_title(title, loc="left", fontsize=9.5, parse_math=False)
