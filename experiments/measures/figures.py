"""Figures and caption of the demo experiments, from their rows and from noisy images."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.arguments import changed, remark
from experiments.figures import COLORS, canvas, style
from experiments.labelled import Images
from experiments.measures.cases import CLEAN, HALVES, NOISES, TRUTHS
from experiments.measures.readings import CODE, CURVE, DEFAULT, HELD, KLIEP, LINEAR, NONE

__all__ = ["TITLES", "caption_of", "curves_figure", "measures_figure", "noises_figure"]

TITLES = {
    "fid": "FID",
    "kid": "KID",
    "kl": "KL(P‖Q)",
    "reverse_kl": "KL(Q‖P)",
    "js": "Jensen-Shannon",
    "hellinger": "Hellinger²",
    "f_8": "$F_8$",
    "f_1_8": "$F_{1/8}$",
    "precision": "precision",
    "recall": "recall",
}
_LOOKS = {
    NONE: ("grey", "D"),
    DEFAULT: ("driftline", "o"),
    LINEAR: ("green", "^"),
    KLIEP: ("red", "s"),
    CODE: ("orange", "v"),
}
_LABELS = {
    DEFAULT: "driftline’s default",
    LINEAR: "linear (pixels only)",
    KLIEP: "KLIEP, network",
    CODE: "the same, code",
}
_TICKS = {CLEAN: "none", **{case: f"{n.pixels} {'same' if n.shared else 'own'}" for case, n in NOISES.items()}}
_SPREAD = 0.5  # of a case's room on the axis, how much its estimators share
_LOWEST = -0.3  # of the Jensen-Shannon panels; a ratio that fails on new rows may be far below
_FAR = 5.0  # nats from which a KL of noise needs a log axis
_SAMPLES = 8  # images of a noise that are shown


def measures_figure(frame: pd.DataFrame) -> Figure:
    """Above half the classes, below the noises: a panel a measure, a point a seed, a bar where the truth is."""
    with style():
        fig, axes = canvas(2, 6, width=9.6, height=4.8)
        for line, cases in zip(axes, (tuple(HALVES), (CLEAN, *NOISES)), strict=True):
            for ax, measure in zip(line, ("fid", "kid", *TRUTHS), strict=True):
                _panel(ax, frame[frame.case.isin(cases)], measure, cases)
        axes[0, 0].set_ylabel("half of the classes\n(64 features)")
        axes[1, 0].set_ylabel("noise on pixels\n(pixels set to 0.5, per image)")
        fig.legend(handles=_handles(axes[0, 0]), loc="outside upper center", ncols=7)
    return fig


def _panel(ax: Axes, frame: pd.DataFrame, measure: str, cases: tuple[str, ...]) -> None:
    part = frame[frame.measure.isin((measure, HELD + measure))]
    names = [name for name in _LOOKS if name in set(part.estimator)]
    for place, case in enumerate(cases):
        of_case = part[part.case == case]
        for step, name in enumerate(names):
            at = place + _SPREAD * ((step + 0.5) / len(names) - 0.5)
            color, marker = _LOOKS[name]
            for kind, face, shift in ((HELD + measure, "none", 0.09), (measure, COLORS[color], 0.0)):
                values = of_case[(of_case.estimator == name) & (of_case.measure == kind)].value
                ax.plot(
                    np.full(len(values), at + shift),
                    values,
                    marker,
                    color=COLORS[color],
                    markerfacecolor=face,
                    markersize=3.5,
                    markeredgewidth=0.7,
                    linestyle="none",
                    zorder=3,
                )
        truth = of_case.truth.mean()
        if np.isfinite(truth):
            ax.hlines(truth, place - 0.4, place + 0.4, color=COLORS["truth"], linewidth=1.2, zorder=2)
        elif np.isposinf(truth):
            ax.annotate(
                "∞",
                (place, 1.0),
                (0, -1),
                xycoords=("data", "axes fraction"),
                textcoords="offset points",
                ha="center",
                va="top",
                fontsize=11,
            )
    ax.set(title=TITLES[measure], xlim=(-0.6, len(cases) - 0.4))
    turned: Any = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"} if CLEAN in cases else {}
    ax.set_xticks(range(len(cases)), [_TICKS.get(case, case) for case in cases], **turned)
    ax.grid(visible=False, axis="x")
    ax.margins(y=0.14)
    # single images can make them very large; within the linear part of the scale its ticks would be odd
    if measure in ("kl", "reverse_kl") and CLEAN in cases and ax.get_ylim()[1] > _FAR:
        ax.set_yscale("symlog", linthresh=1.0)
        ax.yaxis.set_major_formatter("{x:g}")
    if measure == "js":
        low, high = ax.get_ylim()
        ax.set_ylim(max(_LOWEST, low), min(0.72, high))  # log 2 is the most it can be


def _handles(ax: Axes) -> list[Any]:
    handles: list[Any] = []
    for name, (color, marker) in _LOOKS.items():
        if name != NONE:
            handles += ax.plot([], [], marker, color=COLORS[color], label=_LABELS[name], linestyle="none")
    handles += ax.plot(
        [], [], "o", color=COLORS["grey"], markerfacecolor="none", label="on held-out rows", linestyle="none"
    )
    handles += ax.plot([], [], "-", color=COLORS["truth"], label="truth")
    return handles


def curves_figure(frame: pd.DataFrame) -> Figure:
    """Fig. 7a: precision against recall, a line a seed; and the four numbers that sum them up."""
    with style():
        fig, (left, right) = canvas(1, 2, height=2.9)
        for (case, words), color in zip(HALVES.items(), ("driftline", "red"), strict=True):
            part = frame[frame.case == case]
            for number, (_, curve) in enumerate(part[part.measure == CURVE].groupby("seed")):
                left.plot(
                    curve["at"],
                    curve.value,
                    color=COLORS[color],
                    linewidth=0.8,
                    alpha=0.7,
                    label=words if not number else None,
                )
            for place, measure in enumerate(("f_8", "f_1_8", "recall", "precision")):
                values = part[part.measure == measure].value
                shift = -0.12 if color == "driftline" else 0.12
                right.plot(np.full(len(values), place + shift), values, "o", color=COLORS[color], markersize=3.5)
        left.set(xlabel="recall", ylabel="precision", xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), title="PRD curves")
        fig.legend(loc="outside upper center", ncols=2)
        right.set_xticks(range(4), ["$F_8$", "$F_{1/8}$", "recall", "precision"])
        right.set(ylim=(-0.02, 1.05), title="F-scores (PRD); recall, precision (neighbours)")
    return fig


def noises_figure(cases: Mapping[str, Images]) -> Figure:
    """A line a noise: images that have it, from the same images without and with it by case."""
    with style():
        fig, axes = canvas(len(cases), 1, width=5.2, height=0.68 * len(cases))
        for ax, (case, images) in zip(axes, cases.items(), strict=True):
            hit = (images != cases[CLEAN]).reshape(len(images), -1).any(1) | (case == CLEAN)
            mosaic = np.concatenate(list(images[hit][:_SAMPLES]), axis=1)
            ax.imshow(mosaic, cmap="gray_r", vmin=0.0, vmax=1.0, interpolation="nearest")
            ax.set(xticks=[], yticks=[])
            ax.grid(visible=False)
            ax.spines[:].set_visible(False)
            ax.set_ylabel(_described(case), rotation=0, ha="right", va="center")
    return fig


def _described(case: str) -> str:
    if case == CLEAN:
        return "no noise"
    noise = NOISES[case]
    which = "the same in all" if noise.shared else "each its own"
    return f"{noise.share:.0%} of the images,\n{noise.pixels} pixel{'s' if noise.pixels > 1 else ''}, {which}"


def caption_of(args: Any, paper: Any) -> str:
    """Say what the figure shows, and what is smaller than at the paper's scale."""
    text = (
        f"Tab. 1 and Fig. 7b on {args.dataset}; points: {args.seeds} runs. Above: one of P and Q holds the lower half "
        f"of the classes only, the other all; {args.rows:,} images each, features of a classifier. Below: Q has noise "
        f"(50 % of its images with 1 grey pixel, or 10 % with 50, the same pixels in all of them or each its own), "
        f"{args.pixel_rows:,} images each, raw pixels. Black bars: the truth, in nats but for Hellinger² (∞: infinite; "
        f"an estimate is then only as large as the sample and the model allow); open: {args.held:,} images not fitted "
        f"on (for JS a bound from below, not shown under {_LOWEST:g})."
    )
    changes = {
        "rows": f"{args.rows:,} images instead of {paper.rows:,}",
        "pixel_rows": f"{args.pixel_rows:,} with noises instead of {paper.pixel_rows:,}",
        "epochs": f"KLIEP’s network has {args.epochs} epochs instead of {paper.epochs}",
        "rate": f"at rate {args.rate:g} instead of {paper.rate:g}",
        "classifier_width": f"a classifier of {args.classifier_width:g} of the width",
        "classifier_epochs": f"trained for {args.classifier_epochs} epochs instead of {paper.classifier_epochs}",
    }
    return text + remark("Smaller than --scale paper", (changes[field] for field in changed(args, paper, changes)))
