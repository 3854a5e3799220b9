"""Ours: which differences between the paper and the authors' code matter, on the stream of Sec. 4.2.

CKLIEP-d4 as printed with each difference switched on alone, and as in the code with each switched off alone. With one
original the form of tau makes no difference, so it is left out. All cases see the same windows and epochs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from driftline import ContinualDensityRatio
from driftline.fitting import FitDivergedError, check_device
from driftline.synthetic import GaussianStream
from experiments import markdown
from experiments.arguments import check_above_zero, check_at_least, check_drift, differences, flag, remark
from experiments.experiment import Experiment, Report, Results, Row, Unit, Work
from experiments.figures import COLORS, canvas, style
from experiments.methods import (
    PAPER_RATE,
    Floats,
    ckliep,
    epochs_to,
    errors,
    fit_columns,
    without_validation,
)
from experiments.resuming import step_by_step, tidy
from experiments.words import counted, mean_spread

DIFFERENCES = {
    "constraint": "inverse constraint",
    "inputs": "raw inputs",
    "clip": "psi within ±60",
    "init": "weights from N(0, 0.02²)",
    "weights": "last weights kept",
}
PRINTED, CODE = "printed", "code"
_FRESH = 1_000_000  # keys of rows to measure on, apart from those of windows


@dataclass(frozen=True)
class Args:
    """Arguments: the stream, the windows between two steps, and the training."""

    seeds: int = 1
    dim: int = 64
    delta: float = 0.01
    rows: int = 50_000
    last: int = 20
    every: int = flag(4, "windows from one step to the next; divides --last")
    epochs: int = 100
    rate: float = PAPER_RATE
    device: str = "auto"

    def __post_init__(self) -> None:
        check_at_least(self, 1, "seeds", "dim", "rows", "last", "every", "epochs")
        check_above_zero(self, "rate")
        check_drift(self, "last")
        check_device(self.device)
        if self.last % self.every:
            raise ValueError(f"--every {self.every} must divide --last {self.last}")


CASES: dict[str, tuple[str, str]] = {
    PRINTED: (PRINTED, ""),
    CODE: (CODE, ""),
    **{f"{PRINTED}, but {words}": (PRINTED, name) for name, words in DIFFERENCES.items()},
    **{f"{CODE}, but not {words}": (CODE, name) for name, words in DIFFERENCES.items()},
}
"""Variant that each case starts from, and the one setting that is as in the other variant."""


def units(args: Args) -> list[Unit]:
    """Each case, seed by seed."""
    return [Unit(case, seed, args.last // args.every) for seed in range(args.seeds) for case in CASES]


def estimator_of(args: Args, case: str, seed: int, report: Report) -> ContinualDensityRatio:
    """CKLIEP with the settings of a case."""
    variant, changed = CASES[case]
    found = ckliep(args.epochs, args.rate, seed, report, variant=variant, device=args.device)
    if changed:
        other = ContinualDensityRatio.paper(variant=CODE if variant == PRINTED else PRINTED).training
        assert found.training is not None
        found.set_params(training=found.training._replace(**{changed: getattr(other, changed)}))
    return found


def run(args: Args, unit: Unit, report: Report, work: Path) -> Iterator[Row]:
    """Errors after each step; no number from the first failed fit on. A killed unit goes on from its last step."""
    stream = GaussianStream(args.dim, args.delta)
    variant, changed = CASES[unit.case]

    def rows(t: int) -> Floats:
        return stream.sample(t, without_validation(args.rows), np.random.default_rng([unit.seed, t]))

    def start() -> ContinualDensityRatio:
        return estimator_of(args, unit.case, unit.seed, report).fit(rows(0))

    def advance(estimator: ContinualDensityRatio | None, t: int) -> tuple[Row, ContinualDensityRatio | None]:
        fresh = stream.sample(t, 20_000, np.random.default_rng([unit.seed, _FRESH + t]))
        truth = stream.log_ratio(fresh, t)
        row: Row = {"t": t, "variant": variant, "changed": changed or "nothing"}
        if estimator is not None:
            try:
                estimate = estimator.partial_fit(rows(t)).log_ratio(fresh)
                return row | errors(estimate, truth) | fit_columns(estimator.info_.originals["original"].fit), estimator
            except FitDivergedError:
                pass
        return row | errors(np.full_like(truth, np.nan), truth), None

    times = range(args.every, args.last + 1, args.every)
    return step_by_step(work, times, start, advance, progress=epochs_to(report), device=args.device)


def figure(frame: pd.DataFrame, args: Args) -> Figure:
    """Error and KL at the end: a line for each difference, a dot for each variant that it was changed in."""
    last = frame[frame.t == args.last]
    looks = {PRINTED: ("red", "o", "switched on in printed"), CODE: ("driftline", "s", "switched off in code")}
    with style():
        fig, axes = canvas(1, 2, height=2.9, sharey=True)
        for ax, measure in zip(axes, ("mae", "kl"), strict=True):
            for variant, (color, marker, _) in looks.items():
                own = last[last.variant == variant].groupby("changed")[measure].mean()
                ax.axvline(own["nothing"], color=COLORS[color], linewidth=1, linestyle="--")
                for at, name in enumerate(DIFFERENCES):
                    ax.plot(own[name], at, marker, color=COLORS[color])
        axes[1].axvline(last.true_kl.mean(), color=COLORS["truth"], linewidth=1.6)
        axes[0].set_yticks(range(len(DIFFERENCES)), list(DIFFERENCES.values()))
        axes[0].invert_yaxis()
        axes[0].set(xlabel="MAE of log ratios [nats]")
        axes[1].set(xlabel="KL(current‖original) [nats]")
        handles: list[Any] = [
            Line2D([], [], color=COLORS[color], marker=marker, ls="--", label=label)
            for color, marker, label in looks.values()
        ]
        handles.append(Line2D([], [], color=COLORS["truth"], label="truth"))
        fig.legend(handles=handles, loc="outside upper center", ncols=3)
    return fig


def caption(args: Args) -> str:
    """Say what the figure shows, and what was shortened."""
    names = {"rows": "rows a window", "epochs": "epochs", "rate": "rate", "dim": "dimensions", "last": "time steps"}
    short = remark("Shortened", differences(args, EXPERIMENT.presets["paper"], names))
    return f"""CKLIEP-d{args.every} at t={args.last} on the {args.dim}-D Gaussian stream (Δ={args.delta:g},
    {args.rows:,} rows a window and a fifth more to validate on, {args.epochs} epochs a step at rate {args.rate:g},
    {counted(args.seeds, "seed")}). Dots: one difference between the paper and the authors' code, switched on in the
    printed method or off in the code's; dashed lines: the two methods as they are.{short}"""


def verdict(frame: pd.DataFrame, args: Args) -> str:
    """Error and KL of each case, and the difference that matters most."""
    last = frame[frame.t == args.last]

    def cells(variant: str, changed: str) -> list[str]:
        own = last[(last.variant == variant) & (last.changed == changed)]
        kl = "" if own.kl.isna().any() else f"{own.kl.mean():.2f}"
        return [mean_spread(own.mae, 2), kl]

    factors = {(v, name): _factor(last, v, name) for name in DIFFERENCES for v in (PRINTED, CODE)}
    known = {key: value for key, value in factors.items() if math.isfinite(value)}
    lead = "No difference can be judged: fits failed"
    if known:
        variant, name = max(known, key=lambda key: abs(math.log(known[key])))
        where = "switched on in the printed method" if variant == PRINTED else "switched off in the code"
        lead = f"{DIFFERENCES[name]}, {where}, changes the error most (×{known[variant, name]:.2f})"
        lead = lead[0].upper() + lead[1:]
    rows = [[words, *cells(PRINTED, name), *cells(CODE, name)] for name, words in DIFFERENCES.items()]
    return markdown.verdict(
        lead,
        markdown.table(
            [f"at t={args.last}, in nats", "MAE, on in printed", "KL", "MAE, off in code", "KL"],
            [["no difference", *cells(PRINTED, "nothing"), *cells(CODE, "nothing")], *rows],
        ),
        [
            f"The true KL is {last.true_kl.mean():.2f}.",
            "A factor is the MAE with the change over that without; below 1 the change helps.",
        ],
        [
            "Factors of single changes: "
            + "; ".join(
                f"{words} on ×{factors[PRINTED, name]:.2f}, off ×{factors[CODE, name]:.2f}".replace("×nan", "failed")
                for name, words in DIFFERENCES.items()
            )
            + ".",
        ],
    )


def _factor(last: pd.DataFrame, variant: str, changed: str) -> float:
    """The error with one change over that without, as a geometric mean over seeds."""
    mae = last[last.variant == variant].pivot(index="seed", columns="changed", values="mae")
    return math.exp(float(np.log(mae[changed] / mae["nothing"]).mean(skipna=False)))


EXPERIMENT = Experiment(
    name="paper-variants",
    paper="ours",
    title="which differences between the paper and the authors' code matter",
    presets={"quick": Args(rows=4000, epochs=10, rate=4e-4), "paper": Args()},
    work=Work(units, run, keeps=True, tidy=tidy),
    results=Results(figure, caption, verdict, ours="^$"),
    in_all=False,
    takes={"quick": "1 min", "paper": "~1.5 h"},
)
