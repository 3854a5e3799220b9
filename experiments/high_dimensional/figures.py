"""Figures and caption of the experiment in many dimensions, from its rows and samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.figures import COLORS, canvas, style
from experiments.high_dimensional.estimators import ESTIMATORS, HELD_OUT, PLUG_IN
from experiments.high_dimensional.features import COLUMNS
from experiments.high_dimensional.samples import REAL, known_samples
from experiments.high_dimensional.table import Table, cases_of, deviation, fid_of, names_of, tabled, truth_of
from experiments.labelled import Images
from experiments.words import counted

__all__ = ["caption_of", "divergences_figure", "samples_figure"]

_DRAWN = {"reverse_kl": "reverse KL in nats", "js": "JS in nats"}
_LOWEST = -0.15  # of the highest value: how far axes go below 0
_COLUMNS = 10  # images side by side


def divergences_figure(frame: pd.DataFrame) -> Figure:
    """A row a divergence, a column a pair of samples: estimators below each other, and the truth where it is known."""
    table = tabled(frame)
    cases, names = cases_of(table), names_of(table)
    with style():
        fig, axes = canvas(len(_DRAWN), len(cases), width=9.0, height=4.4, sharey=True, squeeze=False)
        for line, (measure, label) in zip(axes, _DRAWN.items(), strict=True):
            for ax, case in zip(line, cases, strict=True):
                _panel(ax, table, case, measure, names)
                ax.set_xlabel(label)
        for ax, case in zip(axes[0], cases, strict=True):
            ax.set_title("Gaussians" if case == "gaussians" else f"{REAL}, {case}\nFID {fid_of(table, case):,.0f}")
        handles, labels = axes[0][-1].get_legend_handles_labels()
        fig.legend(handles, labels, loc="outside upper center", ncols=3)
    return fig


def _panel(ax: Axes, table: Table, case: str, measure: str, names: Sequence[str]) -> None:
    at = np.arange(len(names))
    truth = truth_of(table, case, measure)
    if np.isfinite(truth):
        ax.axvline(truth, color=COLORS["truth"], linestyle="--", linewidth=1, label="truth")
    for way, color, face, move in ((PLUG_IN, "orange", "none", -0.15), (HELD_OUT, "driftline", None, 0.15)):
        found = [table[case, name, measure, way] for name in names]
        label = "on the rows fitted" if way == PLUG_IN else "lower bound on new rows"
        ax.errorbar(
            [v.mean() for v in found],
            at + move,
            xerr=[deviation(v) for v in found],
            fmt="o",
            color=COLORS[color],
            markerfacecolor=face or COLORS[color],
            markersize=4,
            linewidth=1,
            capsize=2,
            label=label,
        )
    ax.set_yticks(at, [ESTIMATORS[name] for name in names])
    ax.set_ylim(len(names) - 0.5, -0.5)
    means = [table[case, name, measure, way].mean() for name in names for way in (PLUG_IN, HELD_OUT)]
    high = max(0.02, 1.15 * np.nanmax([*means, truth]))
    ax.set_xlim(_LOWEST * high, high)
    for place, name in enumerate(names):  # a bound may fall to any depth
        if table[case, name, measure, HELD_OUT].mean() < _LOWEST * high:
            ax.plot(0.97 * _LOWEST * high, place + 0.15, "<", color=COLORS["driftline"], markersize=4, zorder=4)


def samples_figure(grids: Mapping[str, Images]) -> Figure:
    """A panel a sample."""
    with style():
        fig, axes = canvas(1, len(grids), width=9.0, height=1.6, squeeze=False)
        for ax, (case, images) in zip(axes[0], grids.items(), strict=True):
            lines = [np.concatenate(list(images[i : i + _COLUMNS]), axis=1) for i in range(0, len(images), _COLUMNS)]
            ax.imshow(np.concatenate(lines), cmap="gray_r", vmin=0, vmax=1, interpolation="nearest")
            ax.set_title(case)
            ax.axis("off")
    return fig


def caption_of(args: Any) -> str:
    """Say what the figure shows, and what differs from the paper."""
    names = list(known_samples(args.generated))
    made = (
        f"samples of GANs ({', '.join(names)})"
        if args.generated
        else f"{' and '.join(names)} images instead of a GAN’s"
    )
    return (
        f"Divergences from real images of {args.dataset}, enlarged to {args.size} pixels a side, on {COLUMNS:,} "
        f"features of EfficientNet-Lite0, trained on ImageNet (paper: FFHQ, StyleGAN, 2,048 features of inception): "
        f"{made}, other real images, and Gaussians of that width. {args.rows:,} rows of each (paper: 50,000) and "
        f"{args.new:,} new ones, from {args.pool:,}. CKLIEP trains for up to {args.epochs} epochs at rate "
        f"{args.rate:g}. Means and standard deviations over {counted(args.seeds, 'draw')}. Hollow: the mean over the "
        f"rows fitted; full: a variational lower bound on new rows (arrow: off the axis). "
        f"Dashed: truth; half of the Gaussians’ shift lies outside of the leading principal components."
    )
