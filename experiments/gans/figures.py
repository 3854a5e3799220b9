"""Figures and caption of the GAN experiment, from its rows and sample grids."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from experiments.figures import COLORS, band, canvas, plain_ticks, style
from experiments.gans.judge import AGREEMENT, DIVERGENCES, STATIC, averages
from experiments.gans.losses import LOSSES
from experiments.gans.samples import SECONDS

__all__ = ["TITLES", "caption_of", "measures_figure", "samples_figure", "seconds_figure"]

_COLORS = dict(zip(LOSSES, cycle(("driftline", "orange", "red", "green", "pink", "sky")), strict=False))
TITLES = {
    "fid": "FID (keeps real)",
    "kid": "KID (keeps real)",
    AGREEMENT: "classifier agrees",
    "kl": "KL",
    "reverse_kl": "reverse KL",
    "js": "Jensen-Shannon",
    "hellinger": "Hellinger, squared",
}
_TICKS = tuple(digit * 10.0**power for power in range(-3, 5) for digit in (1, 2, 4))
_NATS = ("kl", "reverse_kl", "js")
_COLUMNS = 2  # samples of a class side by side


def measures_figure(frame: pd.DataFrame) -> Figure:
    """A panel a measure, a line a model; dashed: the same divergence estimated with real images kept."""
    means = averages(frame)
    with style():
        fig, axes = canvas(2, 4, width=9.0, height=4.6)
        panels = axes.ravel()
        for ax, measure in zip(panels, TITLES, strict=False):
            for model, color in _COLORS.items():
                part = means[means.case == model]
                if part.empty:
                    continue
                band(ax, part, "task", measure, LOSSES[model].label, COLORS[color], markersize=3)
                if measure in DIVERGENCES:
                    static = part.groupby("task")[STATIC + measure].mean()
                    ax.plot(static.index, static, color=COLORS[color], linestyle="--", linewidth=1)
            _dress(ax, measure, means)
        handles, labels = panels[0].get_legend_handles_labels()
        dashed = panels[-1].plot([], [], color=COLORS["grey"], linestyle="--", linewidth=1)
        panels[-1].legend([*handles, *dashed], [*labels, "keeping real samples"], loc="center")
        panels[-1].axis("off")
    return fig


def _dress(ax: Axes, measure: str, means: pd.DataFrame) -> None:
    ax.set(title=TITLES[measure] + (", nats" if measure in _NATS else ""), xlabel="task learned")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    if measure == AGREEMENT:
        ax.set_ylim(-0.02, 1.02)
    elif measure not in ("js", "hellinger") and (means[measure] > 0).all():
        ax.set_yscale("log")  # the worst model is far from the others
        plain_ticks(ax, _TICKS)


def seconds_figure(frame: pd.DataFrame) -> Figure:
    """Minutes that each task's training took, a line a model."""
    took = frame[frame.measure == SECONDS].assign(minutes=lambda rows: rows.value / 60)
    with style():
        fig, ax = canvas(1, 1, width=4.5)
        for model, part in took.groupby("case"):
            band(ax, part, "task", "minutes", LOSSES[str(model)].label, COLORS[_COLORS[str(model)]])
        ax.set(xlabel="task learned", ylabel="minutes")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        ax.legend()
    return fig


def samples_figure(grids: Mapping[str, npt.NDArray[np.uint8]]) -> Figure:
    """A panel a model: below each other the tasks learned, side by side the classes, two samples each."""
    with style():
        fig, axes = canvas(2, 2, width=9.0, height=5.4)
        for ax in axes.ravel():
            ax.axis("off")
        for ax, model in zip(axes.ravel(), (m for m in LOSSES if m in grids), strict=False):
            ax.imshow(_mosaic(grids[model]), cmap="gray_r", vmin=0, vmax=255, interpolation="nearest")
            ax.set_title(f"{LOSSES[model].label}: after task 1 (above) to {len(grids[model])}")
    return fig


def _mosaic(grid: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """(tasks, classes, samples, h, w) as one image, blank where a class was not learned yet."""
    lines = [np.concatenate([image for samples in line for image in samples[:_COLUMNS]], axis=1) for line in grid]
    return np.concatenate(lines, axis=0)


def caption_of(args: Mapping[str, Any]) -> str:
    """Say what the figure shows, and what is smaller than in the paper; from the experiment's arguments."""
    length = f"{args['iterations']:,} iterations" if args["iterations"] else f"{args['epochs']} epochs"
    dense = "dense networks, an output of the critic for each class"
    nets = dense if args["architecture"] == "quick" else "the paper’s networks"
    drawn = ", drawn from running means of the weights" if args["average"] else ""
    spread = f"; bands: standard deviation over {args['seeds']} seeds" if args["seeds"] > 1 else ", one seed"
    seen = "as it was when the class was learned" if args["encoder"] == "own" else "as it is after the task"
    return (
        f"GANs learning one class of {args['dataset']} after the other ({nets}, {length} a task, generator at rate "
        f"{args['generator_rate']:g}{drawn}; the paper: convolutional networks, 15 epochs, rate 1e-3, 10 seeds); means "
        f"over the classes learned{spread}. Divergences by CDRE on draws of a continual VAE's latents {seen}, "
        f"{args['generated']:,} samples a class, no real ones of earlier tasks; dashed: real samples kept, in the same "
        f"features. Real images are those the GANs learned from. FID, KID and agreement by a classifier of all classes."
    )
