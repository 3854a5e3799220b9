r"""Sec. 5: the discriminator of an f-GAN as the base estimator of the recursion.

An f-GAN trains a network T on the bound E_p[T] - E_q[f*(T)] of an f-divergence, which is highest at T = f'(r). So its
loss, written in log r, is an objective like any other, and is passed to driftline as a function of tensors. KL comes
from ``driftline.fitting.f_gan``, reverse KL and JS are the critics' losses of our GANs. Two of them have other names:
the bound of KL is NWJ's, whose minimum over a constant is KLIEP, and that of JS is logistic regression. All objectives
train the same network on the same windows, with the last layer as trained, or solved exactly afterwards (polished).

The quick scale's sizes gave KLIEP and logistic the least error among four tried on another seed (1000).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from driftline import ContinualDensityRatio
from driftline.fitting import FitDivergedError, Training, f_gan
from driftline.synthetic import GaussianStream
from experiments import markdown
from experiments.arguments import check_at_least, check_drift, differences, flag, remark
from experiments.experiment import Experiment, Report, Results, Row, Unit, Work
from experiments.figures import COLORS, band, canvas, plain_ticks, style
from experiments.gans.losses import LOSSES
from experiments.methods import Floats, epochs_to, errors, untrusted
from experiments.words import counted, every, mean_spread

TRAINED, POLISHED = "trained", "polished"
_WINDOW, _TEST = range(2)  # what rows are drawn for: all objectives see the same ones
_USEFUL = 0.5  # of the error without an estimate: what a feasible estimator stays below


class Objective(NamedTuple):
    """A loss of log-ratios, and how it looks; ``twin`` names the known objective that it equals in theory."""

    loss: Any
    color: str
    line: str = "-"
    twin: str = ""


OBJECTIVES = {
    "KLIEP": Objective("kliep", "orange"),
    "logistic": Objective("logistic", "driftline"),
    "f-GAN, KL": Objective(f_gan(lambda r: r * r.log()), "red", "--", "KLIEP"),
    "f-GAN, JS": Objective(LOSSES["fgan-js"].critic, "sky", "--", "logistic"),
    "f-GAN, reverse KL": Objective(LOSSES["fgan-rvkl"].functions(safe=True)[0], "green"),
}
CRITICS = tuple(name for name in OBJECTIVES if name.startswith("f-GAN"))


@dataclass(frozen=True)
class Args:
    """Arguments: the stream of Sec. 4.2, and the network; ``hidden`` is the width of both hidden layers."""

    seeds: int = 10
    dim: int = 64
    delta: float = 0.02
    rows: int = 50_000
    last: int = 10
    hidden: int = flag(256, "width of both hidden layers")
    epochs: int = flag(20, "epochs of a step")

    def __post_init__(self) -> None:
        check_at_least(self, 1, "seeds", "dim", "last", "hidden", "epochs")
        check_at_least(self, 100, "rows")
        check_drift(self, "last")


def units(args: Args) -> list[Unit]:
    """Each objective, trained and polished, seed by seed."""
    return [
        Unit(f"{name} @ {ending}", seed, args.last)
        for seed in range(args.seeds)
        for name in OBJECTIVES
        for ending in (TRAINED, POLISHED)
    ]


def run(args: Args, unit: Unit, report: Report) -> Iterator[Row]:
    """Errors after each step; no number from the first failed fit on."""
    (name, ending), stream = unit.case.split(" @ "), GaussianStream(args.dim, args.delta)

    def rows(t: int, purpose: int) -> Floats:
        return stream.sample(t, args.rows, np.random.default_rng([unit.seed, t, purpose]))

    estimator = ContinualDensityRatio(
        OBJECTIVES[name].loss,
        "mlp",
        hidden=(args.hidden, args.hidden),
        polish=ending == POLISHED,
        training=Training(epochs=args.epochs),
        random_state=unit.seed,
        progress=epochs_to(report),
    ).fit(rows(0, _WINDOW))
    reason = ""
    for t in range(1, args.last + 1):
        test = rows(t, _TEST)
        truth, found = stream.log_ratio(test, t), np.full(len(test), np.nan)
        if not reason:
            try:
                with untrusted():
                    found = estimator.partial_fit(rows(t, _WINDOW)).log_ratio(test)
            except FitDivergedError as error:
                reason = f"t={t}: {error}"
        unmoved = float(np.abs(truth).mean())
        yield {
            "t": t,
            "objective": name,
            "ending": ending,
            **errors(found, truth),
            "unmoved": unmoved,
            "reason": reason,
        }


def figure(frame: pd.DataFrame, args: Args) -> Figure:
    """Errors over time, of networks as trained and polished."""
    with style():
        fig, axes = canvas(1, 2, height=2.9, sharey=True)
        for ax, ending in zip(axes, (TRAINED, POLISHED), strict=True):
            for name, objective in OBJECTIVES.items():
                part = frame[(frame.objective == name) & (frame.ending == ending)]
                small = {"linestyle": objective.line, "marker": "" if objective.twin else "o"}
                band(ax, part[part.mae.notna()], "t", "mae", name, COLORS[objective.color], **small)
            ax.set(xlabel="time t [windows]", title="last layer solved exactly" if ending == POLISHED else "as trained")
        axes[0].set(yscale="log", ylabel="MAE of the log-ratio [nats]")
        plain_ticks(axes[0], (0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5, 1, 2, 5))
        handles, labels = axes[0].get_legend_handles_labels()
        fig.legend(handles, labels, loc="outside upper center", ncols=len(labels), columnspacing=1.2)
    return fig


def caption(args: Args) -> str:
    """Say what the figure shows, and what was shortened."""
    names = {
        "seeds": "seeds",
        "dim": "dimensions",
        "delta": "Δ",
        "rows": "rows a window",
        "last": "time steps",
        "hidden": "units in a hidden layer",
    }
    shorter = remark("Shortened", differences(args, EXPERIMENT.presets["paper"], names))
    return f"""One network, five objectives: error of the log-ratio on the {args.dim}-D Gaussian stream
    (Δ={args.delta:g}, {args.rows:,} rows a window), means and one standard deviation over
    {counted(args.seeds, "seed")}. f-GAN: the discriminator of that divergence; dashed lines are objectives that equal a
    known one in theory.{shorter}"""


def verdict(frame: pd.DataFrame, args: Args) -> str:
    """Judge whether discriminators serve as base estimators, and compare them with the known objectives."""
    last = frame[frame.t == args.last]
    plain, critics = last[last.ending == TRAINED], last[last.objective.isin(CRITICS)]
    lost = critics.mae.isna().groupby(critics.case).any()
    useful = bool((critics.mae < _USEFUL * critics.unmoved).all())
    factors = {name: factor(plain, name, "KLIEP") for name in CRITICS}
    words = ", ".join(f"×{value:.2f} with {name.removeprefix('f-GAN, ')}" for name, value in factors.items() if value)
    polish = [f"{name} ×{value:.2f}" for name in OBJECTIVES if (value := _polish(last, name))]
    return markdown.verdict(
        f"{'Feasible' if useful else 'Not feasible here'}: a discriminator's error at t={args.last} is "
        f"{words or 'unknown'} relative to KLIEP's",
        markdown.table(
            [
                "MAE in nats",
                "in theory the same as",
                "as trained",
                "relative to KLIEP",
                "relative to logistic",
                "polished",
            ],
            [_line(last, name) for name in OBJECTIVES],
        ),
        [
            f"Factors are geometric means over {every(args.seeds, 'seed')}, of networks as trained.",
            f"Without an estimate the error is {plain.unmoved.mean():.2f}; feasible means that no fit failed and every "
            f"discriminator stays below {_USEFUL:.0%} of that.",
            f"The true KL(current‖original) is {plain.true_kl.mean():.2f} nats.",
        ],
        [
            "Section 5 suggests the discriminator of an f-GAN as the basic estimator of CDRE.",
            f"Factors of the error by solving the last layer exactly: {', '.join(polish) or 'none known'}.",
            f"Fits that failed: {', '.join(sorted(lost.index[lost])) or 'none'}.",
        ],
    )


def _ratios(last: pd.DataFrame, one: str, other: str) -> pd.Series:
    """The error of one objective over that of another, seed by seed."""
    mae = last.pivot(index="seed", columns="objective", values="mae")
    return mae[one] / mae[other]


def factor(last: pd.DataFrame, one: str, other: str) -> float:
    """The geometric mean of the ratios over seeds; 0 if a fit failed."""
    found = math.exp(float(np.log(_ratios(last, one, other)).mean(skipna=False)))
    return 0.0 if math.isnan(found) else found


def _polish(last: pd.DataFrame, name: str) -> float:
    """The error of a polished network over that of the network as trained; 0 if a fit failed."""
    own = last[last.objective == name]
    return factor(own.assign(objective=own.ending), POLISHED, TRAINED)


def _beside(last: pd.DataFrame, one: str, other: str) -> str:
    """The factor, and in how many seeds it is above 1."""
    if one == other:
        return "1"
    found, ratios = factor(last, one, other), _ratios(last, one, other)
    return f"×{found:.2f} (above 1 in {(ratios > 1.0).sum()} of {len(ratios)})" if found else "failed"


def _line(last: pd.DataFrame, name: str) -> list[str]:
    """An objective's row."""
    trained, polished = (last[(last.objective == name) & (last.ending == ending)].mae for ending in (TRAINED, POLISHED))
    beside = [_beside(last[last.ending == TRAINED], name, known) for known in ("KLIEP", "logistic")]
    return [name, OBJECTIVES[name].twin, mean_spread(trained, 3), *beside, mean_spread(polished, 3)]


EXPERIMENT = Experiment(
    name="discriminator",
    paper="Sec. 5",
    title="the discriminator of an f-GAN as base estimator",
    presets={"quick": Args(seeds=5, dim=8, delta=0.04, rows=10_000, last=6, hidden=128), "paper": Args()},
    work=Work(units, run),
    results=Results(figure, caption, verdict, ours="^$"),
    takes={"quick": "2 min", "paper": "~1 h"},
)
