"""Sec. 5: which objective suits Pearson's divergence, as the drift grows.

The paper's discussion expects LSIF to be preferable to KLIEP there. N(0, I) moves to N(mu, I) in equal steps, so the
truth is exp(|mu|²) - 1. Continual estimates follow all windows; static ones keep the original and compare it with each
(the first step is the same in both). Beside them stands the mean of (r - 1)² with the true r over the same rows.
Networks run without polish, which has no minimum for LSIF.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import binomtest

from driftline import ContinualDensityRatio
from driftline.fitting import FitDivergedError, Training
from experiments import markdown
from experiments.arguments import check_above_zero, check_at_least, differences, flag, remark
from experiments.experiment import Experiment, Report, Results, Row, Unit, Work
from experiments.figures import COLORS, canvas, plain_ticks, style
from experiments.methods import Floats, epochs_to, untrusted
from experiments.words import capitalised, counted

OBJECTIVES = {"kliep": ("KLIEP", "orange"), "lsif": ("LSIF", "green"), "logistic": ("logistic", "driftline")}
MODELS = {"quadratic": "convex (x, x²)", "mlp": "network"}
CONTINUAL, STATIC = "continual", "static"
_LEVEL = 0.01  # of a sign test over seeds; there are two dozen of them
_FAR, _FAILED = 1e4, 1e30  # percent: an error whose size says no more, and a stand-in for that of a failed fit
_SHOWN = (0.5, 1500.0)  # percent, in the figure


@dataclass(frozen=True)
class Args:
    """Arguments: ``distance`` is |mu|² at the last of the ``steps``; ``hidden`` is the width of both hidden layers."""

    seeds: int = 50
    network_seeds: int = 10
    dim: int = flag(10, "columns")
    rows: int = flag(50_000, "rows of a window")
    steps: int = flag(5, "steps of the continual fits")
    distance: float = flag(2.0, "squared distance of the means at the last step")
    hidden: int = flag(256, "width of both hidden layers")
    epochs: int = flag(20, "epochs of the networks")

    def __post_init__(self) -> None:
        check_at_least(self, 1, "seeds", "network_seeds", "dim", "hidden", "epochs")
        check_at_least(self, 2, "steps")  # the first is static and continual
        check_at_least(self, 100, "rows")
        check_above_zero(self, "distance")

    def mean(self, t: int) -> float:
        """The mean of every column at time t."""
        return math.sqrt(self.distance / self.dim) * t / self.steps

    def truth(self, t: int) -> float:
        """The Pearson divergence of N(0, I) from N(mu, I), exp(|mu|²) - 1."""
        return math.expm1(self.dim * self.mean(t) ** 2)

    def window(self, seed: int, t: int) -> Floats:
        """Rows of time t, the same for all objectives."""
        return np.random.default_rng([seed, t]).normal(self.mean(t), 1.0, (self.rows, self.dim))


def units(args: Args) -> list[Unit]:
    """Each model with each objective, networks for fewer seeds."""
    return [
        Unit(f"{model} {objective}", seed, 2 * args.steps - 1)
        for model in reversed(MODELS)
        for objective in OBJECTIVES
        for seed in range(min(args.seeds, args.network_seeds) if model == "mlp" else args.seeds)
    ]


def run(args: Args, unit: Unit, report: Report) -> Iterator[Row]:
    """Pearson's divergence after each step, continual and static; no number from a failed fit."""
    model, objective = unit.case.split()

    def started() -> ContinualDensityRatio:
        return ContinualDensityRatio(
            objective,
            model,
            hidden=(args.hidden, args.hidden),
            polish=False,
            training=Training(epochs=args.epochs),
            random_state=unit.seed,
            progress=epochs_to(report),
        ).fit(args.window(unit.seed, 0))

    tracing, lost = started(), ""
    for t in range(1, args.steps + 1):
        window = args.window(unit.seed, t)
        square, along = args.dim * args.mean(t) ** 2, args.mean(t) * window.sum(1)
        true_ratio = float(np.square(np.expm1(0.5 * square - along)).mean())
        for mode in (CONTINUAL, STATIC) if t > 1 else (CONTINUAL,):
            report(f"t={t}, {mode}")
            if mode == STATIC:
                value, reason = _pearson(started(), window)
            elif not lost:
                value, lost = _pearson(tracing, window)
                reason = lost
            else:
                value, reason = math.nan, lost
            yield {
                "model": model,
                "objective": objective,
                "mode": mode,
                "t": t,
                "truth": args.truth(t),
                "found": value,
                "with_true_ratio": true_ratio,
                "reason": reason,
            }


def _pearson(estimator: ContinualDensityRatio, window: Floats) -> tuple[float, str]:
    """The divergence after one more window, and why there is none."""
    try:
        with untrusted():
            return estimator.partial_fit(window).divergence("pearson").value, ""
    except FitDivergedError as error:
        return math.nan, str(error)


def measured(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows with relative errors in percent: ``error``, and ``plain`` with the true ratio on the same rows."""
    error, plain = (100.0 * (found / frame.truth - 1.0).abs() for found in (frame.found, frame.with_true_ratio))
    return frame.assign(error=error.fillna(math.inf).clip(upper=_FAILED), plain=plain)


def wins(frame: pd.DataFrame, one: str, other: str) -> pd.DataFrame:
    """By model, mode and time: seeds in which ``one`` is closer than ``other``, seeds that decide, and a judgement.

    ``better`` is 1 if a sign test over seeds says that ``one`` is closer, -1 if it says the contrary, else 0.
    """
    keys = ["model", "mode", "t"]
    table = measured(frame).pivot(index=[*keys, "seed"], columns="objective", values="error")
    decided = table[table[one] != table[other]]
    closer = (decided[one] < decided[other]).groupby(keys).agg(["sum", "size"])
    closer = closer.reindex(table.groupby(keys).size().index, fill_value=0)
    clear = [n > 0 and binomtest(int(k), int(n)).pvalue < _LEVEL for k, n in closer.to_numpy()]
    return closer.assign(better=np.where(clear, np.sign(2 * closer["sum"] - closer["size"]), 0))


def figure(frame: pd.DataFrame, args: Args) -> Figure:
    """A panel for each model and mode: errors against the true divergence."""
    rows = measured(frame)
    with style():
        fig, grid = canvas(len(MODELS), 2, height=4.8, sharex=True, sharey=True)
        for axes, (model, title) in zip(grid, MODELS.items(), strict=True):
            for ax, mode in zip(axes, (CONTINUAL, STATIC), strict=True):
                _panel(ax, rows[(rows.model == model) & (rows["mode"] == mode)])
                ax.set_title(f"{title}, {mode}")
            axes[0].set_ylabel("error of Pearson's χ² [%]")
        for ax in grid[-1]:
            ax.set(xscale="log", xlabel="true χ²")
        grid[0, 0].set(yscale="log", ylim=_SHOWN)
        plain_ticks(grid[0, 0], (1, 3, 10, 30, 100, 300, 1000))
        plain_ticks(grid[-1, 0], (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100), grid[-1, 0].xaxis)
        handles, labels = grid[0, 0].get_legend_handles_labels()
        fig.legend(handles, labels, loc="outside upper center", ncols=len(labels), columnspacing=1.2)
    return fig


def _panel(ax: Axes, part: pd.DataFrame) -> None:
    """Medians and quartiles in percent; a cross above where a fit failed."""
    by_truth = part.set_index("truth")
    curves = {looks: by_truth[by_truth.objective == name].error for name, looks in OBJECTIVES.items()}
    curves["true r", "truth"] = by_truth[by_truth.objective == "kliep"].plain
    for place, ((label, color), errors) in enumerate(curves.items()):
        low, middle, high = _quartiles(errors.groupby(level=0))
        line, marker = ("--", "") if color == "truth" else ("-", "o")
        ax.plot(middle.index, middle, label=label, color=COLORS[color], marker=marker, linestyle=line)
        ax.fill_between(middle.index, low, high, color=COLORS[color], alpha=0.15, linewidth=0)
        failed = (errors >= _FAILED).groupby(level=0).any()
        height = 0.97 - 0.04 * place
        for truth in failed.index[failed]:
            ax.plot(truth, height, "x", color=COLORS[color], transform=ax.get_xaxis_transform())


def caption(args: Args) -> str:
    """Say what the figure shows, and what was shortened."""
    names = {
        "seeds": "seeds",
        "network_seeds": "seeds of networks",
        "rows": "rows a window",
        "hidden": "units in a hidden layer",
    }
    shorter = remark("Shortened", differences(args, EXPERIMENT.presets["paper"], names))
    networks = min(args.seeds, args.network_seeds)
    return f"""Relative error of Pearson's χ² of N(0, I) from N(μ, I) in {args.dim} dimensions as |μ|² grows to
    {args.distance:g} in {args.steps} steps, {args.rows:,} rows a window; continual along all windows, or static from
    the original to each (the first step is the same). Lines: medians over {counted(args.seeds, "seed")} ({networks} for
    networks), bands: quartiles, a failed fit counting as infinitely far; crosses: some fits failed. Lines that end
    above are beyond the panel. Dashed: the mean of (r−1)² with the true r, over the same rows.{shorter}"""


def verdict(frame: pd.DataFrame, args: Args) -> str:
    """Judge LSIF against KLIEP at every drift by a sign test over seeds."""
    found, others = wins(frame, "lsif", "kliep"), wins(frame, "logistic", "kliep")
    better, worse = int((found.better > 0).sum()), int((found.better < 0).sum())
    times = sorted({max(2, round(args.steps / 2)), args.steps})
    lost = frame.found.isna().groupby([frame.model, frame["mode"], frame.objective]).agg(["sum", "size"])
    failed = [f"{MODELS[m]}, {mode}, {OBJECTIVES[o][0]} {k} of {n}" for (m, mode, o), k, n in lost.itertuples() if k]
    return markdown.verdict(
        f"{_finding(better, worse)}: LSIF is clearly closer to Pearson's divergence than KLIEP in {better} of "
        f"{len(found)} comparisons, and clearly further off in {worse}{_where(found[found.better < 0])}",
        markdown.table(
            ["error in %", "true χ²", *(name for name, _ in OBJECTIVES.values()), "true r", "LSIF closer than KLIEP"],
            [_line(frame, found, model, mode, t) for model in MODELS for mode in (CONTINUAL, STATIC) for t in times],
        ),
        [
            "Errors are medians over seeds with quartiles, a failed fit counting as infinite.",
            f"A comparison is one model, mode and drift; it is clear at p < {_LEVEL:g} in a sign test over seeds.",
            "The column of true r has the mean of (r−1)² over the same rows; at large drift, few rows decide it.",
        ],
        [
            "Section 5 expects LSIF to be preferable, because small deviations of the log-ratio become large squared "
            "errors, and because LSIF is itself based on this divergence.",
            f"Logistic against KLIEP: clearly closer in {int((others.better > 0).sum())}, clearly further off in "
            f"{int((others.better < 0).sum())} of {len(others)}.",
            f"Fits that failed: {'; '.join(failed) or 'none'}.",
        ],
    )


def _finding(better: int, worse: int) -> str:
    if better and worse:
        return "In part"
    return "Confirmed" if better else "Contradicted" if worse else "Not seen"


def _where(found: pd.DataFrame) -> str:
    """Name the models and modes of comparisons, if they are few."""
    places = sorted({f"{MODELS[model]}, {mode}" for model, mode, _ in found.index})
    return f", all for {places[0]}" if len(places) == 1 else ""


def _line(frame: pd.DataFrame, found: pd.DataFrame, model: str, mode: str, t: int) -> list[str]:
    """A model and mode at one time."""
    rows = measured(frame[(frame.model == model) & (frame["mode"] == mode) & (frame.t == t)])
    cells = [_spread(rows[rows.objective == objective].error) for objective in OBJECTIVES]
    closer = found.loc[(model, mode, t)]
    return [
        f"{capitalised(MODELS[model])}, {mode}",
        f"{rows.truth.iloc[0]:.2g}",
        *cells,
        _spread(rows[rows.objective == "kliep"].plain),
        f"{closer['sum']:.0f} of {closer['size']:.0f}",
    ]


def _quartiles(errors: Any) -> tuple[Any, Any, Any]:
    """Quartiles of errors, or of groups of them."""
    return errors.quantile(0.25), errors.quantile(0.5), errors.quantile(0.75)


def _spread(errors: pd.Series) -> str:
    """Median and quartiles, or how many fits failed if most did."""
    if (failed := (errors >= _FAILED).sum()) > len(errors) / 2:
        return f"{failed} of {len(errors)} failed"
    low, middle, high = (
        f"over {_FAR:,.0f}" if error > _FAR else f"{error:,.{0 if error >= 10.0 else 1}f}"
        for error in _quartiles(errors)
    )
    return f"{middle} ({low} to {high})"


EXPERIMENT = Experiment(
    name="pearson",
    paper="Sec. 5",
    title="which objective suits Pearson's divergence",
    presets={"quick": Args(seeds=20, rows=10_000, hidden=64), "paper": Args()},
    work=Work(units, run),
    results=Results(figure, caption, verdict, ours="^$"),
    takes={"quick": "70 s", "paper": "~20 min"},
)
