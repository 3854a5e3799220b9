"""Figures and caption of the GAN experiment, from its rows and the kept samples."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from experiments.figures import COLORS, band, canvas, plain_ticks, style
from experiments.gans import samples
from experiments.gans.judges import ESTIMATORS, METRICS, TRUTH, averages, label, leading
from experiments.gans.losses import LOSSES
from experiments.gans.measures import AGREEMENT, DIVERGENCES, MEASURES
from experiments.words import counted

__all__ = ["against_truth", "caption_of", "figure_of", "further_of"]

_COLORS = dict(zip(LOSSES, cycle(COLORS[name] for name in ("driftline", "orange", "red", "green", "pink", "sky"))))
_FIRST = ("fid", "kid", AGREEMENT)  # beside the divergences; PRD is in the table
_COLUMNS = 2  # samples of a class side by side
_ACROSS = 4  # panels of a line


def figure_of(frame: pd.DataFrame) -> Figure:
    """Fig. 5: one panel a measure, one line a model; dashed: the same divergence estimated with real images kept."""
    found, by = averages(frame), leading(frame)
    if found.empty:
        return _seconds(frame)
    truth = against_truth(found)
    measures = [name for name in (*_FIRST, *(DIVERGENCES if by else ())) if name in set(found.measure)]
    with style():
        lines = -(-(len(measures) + 1) // _ACROSS)
        fig, axes = canvas(lines, _ACROSS, width=9.0, height=2.3 * lines)
        panels = axes.ravel()
        for ax, name in zip(panels, measures, strict=False):
            whose = found.judge == by if name in DIVERGENCES else found.estimator == METRICS
            for model, part in _by_model(found[(found.measure == name) & whose]):
                band(ax, part, "task", "value", LOSSES[model].label, _COLORS[model], markersize=3)
            for model, part in _by_model(truth[(truth.measure == name) & (truth.judge == by)]):
                line = part.groupby("task").truth.mean()
                ax.plot(line.index, line, color=_COLORS[model], linestyle="--", linewidth=1)
            _dress(ax, name)
            ax.set_xlabel("task learned")
            ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        handles, labels = panels[0].get_legend_handles_labels()
        if not truth.empty:
            handles += panels[-1].plot([], [], color=COLORS["grey"], linestyle="--", linewidth=1)
            labels += ["real images kept"]
        panels[-1].legend(handles, labels, loc="center")
        for ax in panels[len(measures) :]:
            ax.axis("off")
        fig.suptitle("; ".join(["FID, KID, agreement: classifier", *([f"divergences: {label(by)}"] if by else [])]))
    return fig


def _by_model(frame: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    return [(model, part) for model in LOSSES if len(part := frame[frame.case == model].dropna(subset="value"))]


def _dress(ax: Axes, name: str) -> None:
    measure = MEASURES[name]
    ax.set_title(measure.title + (f", {measure.unit}" if measure.unit else ""))
    lines = [np.asarray(line.get_ydata(), float) for line in ax.get_lines()]
    if measure.log and lines and min(line.min() for line in lines) > 0:
        ax.set_yscale("log")
        plain_ticks(ax)


def _seconds(frame: pd.DataFrame) -> Figure:
    """Minutes that each task's training took."""
    took = frame[frame.measure == samples.SECONDS].assign(value=lambda rows: rows.value / 60)
    with style():
        fig, ax = canvas(1, 1, width=4.5)
        for model, part in _by_model(took):
            band(ax, part, "task", "value", LOSSES[model].label, _COLORS[model])
        ax.set(xlabel="task learned", ylabel="minutes")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        ax.legend()
    return fig


def further_of(folder: Path, frame: pd.DataFrame, args: Any) -> dict[str, Figure]:
    """Fig. 6, samples of each model's first seed; and all estimators against the truth, where there are both."""
    found = {model: samples.grid(folder, args, model, 0, _COLUMNS) for model in args.models}
    grids = {model: images for model, images in found.items() if images is not None}
    further = {"samples": _samples(grids)} if grids else {}
    truth = against_truth(averages(frame))
    return further | ({} if truth.empty else {"estimators": _estimators(truth)})


def against_truth(found: pd.DataFrame) -> pd.DataFrame:
    """Put static estimation in the same features, ``truth``, beside the averages of each other estimator."""
    same = ["features", "encoder", "output", "case", "seed", "task", "measure"]
    estimator = found.estimator.isin(ESTIMATORS)
    truth = found[found.estimator == TRUTH].groupby(same, as_index=False).value.mean()
    return found[estimator & (found.estimator != TRUTH)].merge(truth.rename(columns={"value": "truth"}), on=same)


def _estimators(truth: pd.DataFrame) -> Figure:
    """One line an estimator in some features, one column a divergence, one point a model after a task."""
    judges = list(dict.fromkeys(truth.judge))
    with style():
        fig, axes = canvas(len(judges), len(DIVERGENCES), width=9.0, height=2.1 * len(judges) + 0.6, squeeze=False)
        for line, judge in zip(axes, judges, strict=True):
            for ax, name in zip(line, DIVERGENCES, strict=True):
                part = truth[(truth.judge == judge) & (truth.measure == name)].dropna(subset=["value", "truth"])
                for model, points in _by_model(part):
                    ax.scatter(points.truth, points.value, s=9, color=_COLORS[model], label=LOSSES[model].label)
                _diagonal(ax, part, log=MEASURES[name].log)
            line[0].set_ylabel(label(judge).replace(" on ", "\non "))
        for ax, name in zip(axes[0], DIVERGENCES, strict=True):
            ax.set_title(MEASURES[name].title + (f", {MEASURES[name].unit}" if MEASURES[name].unit else ""))
        for ax in axes[-1]:
            ax.set_xlabel("static estimation")
        handles, labels = axes[0, 0].get_legend_handles_labels()
        fig.legend(handles, labels, loc="outside upper center", ncols=len(labels) or 1)
    return fig


def _diagonal(ax: Axes, part: pd.DataFrame, *, log: bool) -> None:
    """Draw the line of equal values; logarithmic axes where all values are positive."""
    if part.empty:
        return
    low, high = part[["value", "truth"]].min().min(), part[["value", "truth"]].max().max()
    if log and low > 0:
        ax.set(xscale="log", yscale="log")
        low, high = low / 1.2, 1.2 * high
    else:
        low, high = low - 0.05 * (high - low), high + 0.05 * (high - low) + 1e-9
    ax.plot([low, high], [low, high], color=COLORS["grey"], linewidth=0.8, zorder=0)
    ax.set(xlim=(low, high), ylim=(low, high))
    for axis, scale in ((ax.xaxis, ax.get_xscale()), (ax.yaxis, ax.get_yscale())):
        if scale == "log":
            plain_ticks(ax, axis=axis)
        else:
            axis.set_major_locator(MaxNLocator(4))


def _samples(grids: Mapping[str, npt.NDArray[np.uint8]]) -> Figure:
    """One panel a model: below each other the tasks learned, side by side the classes."""
    with style():
        lines = -(-len(grids) // 2)
        fig, axes = canvas(lines, 2, width=9.0, height=2.7 * lines)
        for ax in axes.ravel():
            ax.axis("off")
        for ax, (model, images) in zip(axes.ravel(), grids.items(), strict=False):
            ax.imshow(_mosaic(images), cmap="gray_r", vmin=0, vmax=255, interpolation="nearest")
            ax.set_title(f"{LOSSES[model].label}: after task 1 (above) to {len(images)}")
    return fig


def _mosaic(grid: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """(tasks, classes, samples, h, w) as one image, blank where a class was not learned yet."""
    lines = [np.concatenate([image for images in line for image in images], axis=1) for line in grid]
    return np.concatenate(lines, axis=0)


def caption_of(args: Mapping[str, Any]) -> str:
    """Say what the figure shows, and what is smaller than in the paper; from the experiment's arguments."""
    asked = [name for name in ESTIMATORS if name in args["estimator"]]
    return " ".join(
        [_training(args), *([_judging(args, asked)] if asked else ["The figure shows minutes of training."])]
    )


def _training(args: Mapping[str, Any]) -> str:
    most = f", at most {args['most']:,} iterations" if args["most"] else ""
    length = f"{args['iterations']:,} iterations" if args["iterations"] else f"{args['epochs']} epochs{most}"
    dense = "dense networks with one critic output per class"
    nets = dense if args["architecture"] == "quick" else "the paper’s convolutional networks"
    start = "new weights at each task" if args["training"] == "authors" else "weights kept from task to task"
    drawn = ", drawn from running means of the weights" if args["average"] else ""
    return (
        f"GANs learning {args['tasks']} classes of {args['dataset']} one after the other: {nets}, {length} a "
        f"task, generator at rate {args['generator_rate']:g}, {start}{drawn} (the authors: "
        f"convolutional networks, 15 epochs, rate 1e-3, new weights); {counted(args['seeds'], 'training')} of each."
    )


def _judging(args: Mapping[str, Any], asked: list[str]) -> str:
    seeds = f"; bands: standard deviation over {args['estimator_seeds']} seeds of the estimator"
    first = next((name for name in asked if name != TRUTH), TRUTH)
    length = f"at most {args['ckliep_epochs']:,} epochs a step in batches of {args['ckliep_batch']:,}"
    epochs = f" ({length}; the authors: 1,000 and 2,000)" if "ckliep_epochs" in ESTIMATORS[first].fields else ""
    encoder = ESTIMATORS[first].encoder if args["encoder"] == ("usual",) else args["encoder"][0]
    which = "the newest autoencoder" if encoder == "latest" else "each class's own autoencoder"
    vae = f"{args['output'][0]}s of {which} ({args['vae_epochs']} epochs a task; the authors: 100)"
    where = vae if args["features"][0] == "vae" else "the classifier’s features"
    dashed = " Dashed: static estimation with all real images, in the same features." if TRUTH in asked[1:] else ""
    return (
        f"Means over the classes learned{seeds if args['estimator_seeds'] > 1 else ''}. Divergences by "
        f"{ESTIMATORS[first].label}{epochs} on {where}, {min(args['rows'], args['generated']):,} samples a "
        f"class.{dashed} FID, KID and agreement keep the real images and use a classifier of all classes. The paper "
        "plots twice these Jensen-Shannon and squared Hellinger values."
    )
