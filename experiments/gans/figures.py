"""Figures, caption and verdict of the GAN experiment, from its rows and sample grids."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from scipy.stats import spearmanr

from experiments.figures import COLORS, band, canvas, plain_ticks, style
from experiments.gans.judge import AGREEMENT, DIVERGENCES, KEEPING, STATIC, WARNED
from experiments.gans.losses import LOSSES

__all__ = ["averages", "caption_of", "measures_figure", "ranks", "samples_figure", "verdict_of"]

_COLORS = dict(zip(LOSSES, ("driftline", "orange", "red", "green"), strict=True))
_TITLES = {
    "fid": "FID (keeps real)",
    "kid": "KID (keeps real)",
    AGREEMENT: "classifier agrees",
    "kl": "KL",
    "reverse_kl": "reverse KL",
    "js": "Jensen-Shannon",
    "hellinger": "Hellinger, squared",
}
_CLOSE = 0.25  # how near CDRE should come to the estimate that keeps the real images
_RECOGNISED = 0.8
_TICKS = tuple(digit * 10.0**power for power in range(-3, 5) for digit in (1, 2, 4))
_NATS = ("kl", "reverse_kl", "js")
_COLUMNS = 2  # samples of a class side by side


def averages(frame: pd.DataFrame) -> pd.DataFrame:
    """Means over the tasks learned: a row for each model, seed and task, a column for each measure."""
    means = frame.groupby(["case", "seed", "task", "measure"])["value"].mean().unstack()
    return means.reset_index()


def measures_figure(frame: pd.DataFrame) -> Figure:
    """A panel a measure, a line a model; dashed what keeping the real images says of the same divergence."""
    means = averages(frame)
    with style():
        fig, axes = canvas(2, 4, width=9.0, height=4.6)
        panels = axes.ravel()
        for ax, measure in zip(panels, _TITLES, strict=False):
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
    ax.set(title=_TITLES[measure] + (", nats" if measure in _NATS else ""), xlabel="task learned")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    if measure == AGREEMENT:
        ax.set_ylim(-0.02, 1.02)
    elif measure not in ("js", "hellinger") and (means[measure] > 0).all():
        ax.set_yscale("log")  # the worst model is far from the others
        plain_ticks(ax, _TICKS)


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
    """(tasks, classes, samples, h, w) as one image, without what was not learned yet."""
    lines = [np.concatenate([image for samples in line for image in samples[:_COLUMNS]], axis=1) for line in grid]
    return np.concatenate(lines, axis=0)


def caption_of(args: Mapping[str, Any]) -> str:
    """What the figure shows, and what is smaller than in the paper; from the experiment's arguments."""
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


def ranks(means: pd.DataFrame, measure: str, other: str = "fid") -> float:
    """Spearman's correlation of two measures over the models, averaged over tasks; nan for fewer than three models."""
    by_model = means.groupby(["task", "case"])[[measure, other]].mean().reset_index()
    found = [spearmanr(part[measure], part[other]).statistic for _, part in by_model.groupby("task") if len(part) > 2]
    return float(np.nanmean(found)) if found and not np.isnan(found).all() else float("nan")


def verdict_of(frame: pd.DataFrame) -> str:
    """Three questions to the numbers: who is worst, does CDRE say what keeping says, do rankings agree."""
    means = averages(frame)
    parts = [_worst(means), _recognised(means), _close(means), _ranking(means)]
    held, seeds = [good for good, _ in parts if good is not None], means.seed.nunique()
    word = "As asked" if all(held) else "Not as asked" if not any(held) else "In part as asked"
    return f"**{word}, on {seeds} seed{'s' if seeds > 1 else ''}.** " + " ".join(text for _, text in parts)


def _worst(means: pd.DataFrame) -> tuple[bool | None, str]:
    """Whether f-GAN by reverse KL has the highest average, task for task."""
    if "fgan-rvkl" not in set(means.case) or means.case.nunique() < 2:
        return None, ""
    shares = {}
    for measure in (*KEEPING, *DIVERGENCES):
        table = means.groupby(["task", "case"])[measure].mean().unstack()
        shares[measure] = float((table.idxmax(axis=1) == "fgan-rvkl").mean())
    every = min(shares.values()) == 1.0
    mostly = all(share > 0.5 for share in shares.values())
    listed = ", ".join(f"{_TITLES[m].split(' (')[0]} {share:.0%}" for m, share in shares.items())
    claim = "The paper finds f-GAN by reverse KL worst on all measures at all tasks;"
    said = "so it is here" if every else "here it is on most tasks" if mostly else "here it is not"
    return mostly, f"{claim} {said} (share of tasks at which it is: {listed})."


def _recognised(means: pd.DataFrame) -> tuple[bool | None, str]:
    last = means[means.task == means.task.max()].groupby("case")[AGREEMENT].mean()
    kinds = [model for model in ("wgan", "wgan-gp") if model in last.index]
    if not kinds:
        return None, ""
    good = bool((last[kinds] >= _RECOGNISED).all())
    listed = ", ".join(f"{LOSSES[model].label} {last[model]:.0%}" for model in LOSSES if model in last.index)
    word = "are" if good else "are not all"
    return good, (
        f"After the last task, samples {word} what they should be for WGAN and WGAN-GP (at least "
        f"{_RECOGNISED:.0%} is asked for): a classifier of real images agrees with {listed}."
    )


def _close(means: pd.DataFrame) -> tuple[bool | None, str]:
    """CDRE's average after the last task relative to that of estimates that keep the real images."""
    last = means[means.task == means.task.max()].groupby("case").mean(numeric_only=True)
    off: dict[tuple[Any, str], float] = {
        (model, measure): float(last.at[model, measure] / last.at[model, STATIC + measure] - 1.0)
        for model in last.index
        for measure in DIVERGENCES
    }
    within = {key for key, value in off.items() if abs(value) <= _CLOSE}
    (model, measure), value = max(off.items(), key=lambda item: abs(item[1]))
    missed = sorted({_TITLES[m] for _, m in set(off) - within})
    rest = f"; outside: {', '.join(missed)}" if missed else ""
    warned = f" CDRE itself warned there, {last[WARNED].mean():.0f} times a model, not to trust an estimate."
    return len(within) == len(off), (
        f"After task {means.task.max()}, CDRE's averages, which have seen each real sample once, are within "
        f"{_CLOSE:.0%} of static estimates that keep them in {len(within)} of {len(off)} cases (models x divergences; "
        f"the furthest: {LOSSES[model].label}, {_TITLES[measure]}, {value:+.0%}{rest})."
        f"{warned if last[WARNED].any() else ''}"
    )


def _ranking(means: pd.DataFrame) -> tuple[bool | None, str]:
    found = {measure: ranks(means, measure) for measure in DIVERGENCES}
    if any(np.isnan(value) for value in found.values()):
        return None, ""
    kept = {measure: ranks(means, STATIC + measure) for measure in DIVERGENCES}
    listed = ", ".join(f"{_TITLES[m]} {value:.2f} ({kept[m]:.2f} keeping real samples)" for m, value in found.items())
    models = means.groupby(["task", "case"])[["fid", *DIVERGENCES]].mean()
    pooled = ", ".join(f"{_TITLES[m]} {spearmanr(models[m], models['fid']).statistic:.2f}" for m in DIVERGENCES)
    return None, (
        f"To choose a model: Spearman's correlation of CDRE's averages with FID over {means.case.nunique()} models, "
        f"averaged over tasks, is {listed}; over models and tasks together {pooled}. Four models agree in full by "
        "chance one time in 24, so this judges nothing."
    )
