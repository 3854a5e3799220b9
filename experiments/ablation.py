r"""Ours: what the normaliser, the objective and the shared windows are each worth, on the stream of Sec. 4.2.

Three choices crossed. The normaliser: telescoped (ours), self-normalised, or self-normalised with the penalty lambda_c
(the paper's). The objective: logistic (ours), KLIEP (the paper's), LSIF. The windows: shared, where window t is the
denominator of step t and the numerator of step t+1 (ours), or fresh, where each role has rows of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from driftline.fitting import FitDivergedError, Training, log_mean_exp, resolve_objective
from driftline.recursion import Anchor, Policy, State, StepSettings, start, step
from driftline.synthetic import GaussianStream
from experiments import markdown
from experiments.arguments import check_above_zero, check_at_least, check_drift, differences, flag, remark
from experiments.experiment import Experiment, Report, Results, Row, Unit, Work
from experiments.figures import COLORS, band, canvas, style
from experiments.methods import Floats, epochs_to, errors
from experiments.words import capitalised, counted, listed, mean_spread

TELESCOPED, SELF, PENALISED = "telescoped", "self", "self + penalty"
SHARED, FRESH = "shared", "fresh"
_COLORS = {"logistic": "driftline", "kliep": "orange", "lsif": "green"}
_NAMES = {"logistic": "logistic", "kliep": "KLIEP", "lsif": "LSIF"}
_WINDOW, _NUMERATOR, _TEST = range(3)  # what rows are drawn for: all choices see the same ones


@dataclass(frozen=True)
class Args:
    """Arguments: the stream, the step sizes, the penalty, and the training of networks."""

    seeds: int = 3
    slow_seeds: int = flag(1, "how many of the seeds networks and penalised fits are run for")
    rows: int = 20_000
    dim: int = 64
    delta: float = 0.02
    last: int = 20
    every: int = flag(1, "windows from one step to the next for convex models; divides --last")
    network_every: int = flag(4, "the same for networks")
    penalty: float = flag(10.0, "weight λ_c of the paper's penalty on the normaliser; above 0")
    epochs: int = flag(20, "epochs of networks")

    def __post_init__(self) -> None:
        check_at_least(self, 1, "seeds", "slow_seeds", "rows", "dim", "last", "every", "network_every", "epochs")
        check_above_zero(self, "penalty")
        check_drift(self, "last")
        for name, every in (("every", self.every), ("network-every", self.network_every)):
            if self.last % every:
                raise ValueError(f"--{name} {every} must divide --last {self.last}")


class Choice(NamedTuple):
    """One fit. Without a penalty it gives two normalisers, which do not change psi."""

    model: str
    objective: str
    windows: str
    penalised: bool

    @property
    def case(self) -> str:
        """Its name as a unit."""
        return f"{self.model} {self.objective} {self.windows}{' penalised' if self.penalised else ''}"

    @property
    def normalizers(self) -> tuple[str, ...]:
        """Normalisers that the fit serves."""
        return (PENALISED,) if self.penalised else (TELESCOPED, SELF)

    def times(self, args: Args) -> range:
        """Times at which steps are taken."""
        every = args.network_every if self.model == "mlp" else args.every
        return range(every, args.last + 1, every)


CHOICES = {
    choice.case: choice
    for model, objectives in (("mlp", ("logistic", "kliep")), ("quadratic", ("logistic", "kliep", "lsif")))
    for penalised in (True, False)
    for objective in objectives
    for windows in (SHARED, FRESH)
    for choice in (Choice(model, objective, windows, penalised),)
}


def units(args: Args) -> list[Unit]:
    """All choices for each seed, the slow ones for fewer."""
    return [
        Unit(case, seed, len(choice.times(args)) * len(choice.normalizers))
        for case, choice in CHOICES.items()
        for seed in range(min(args.seeds, args.slow_seeds) if choice.penalised or choice.model == "mlp" else args.seeds)
    ]


def run(args: Args, unit: Unit, report: Report) -> Iterator[Row]:
    """Errors after each step under each normaliser; no number from the first failed fit on."""
    choice, stream = CHOICES[unit.case], GaussianStream(args.dim, args.delta)
    settings, times = _settings(args, choice, unit.seed, report), choice.times(args)

    def rows(t: int, purpose: int) -> Floats:
        return stream.sample(t, args.rows, np.random.default_rng([unit.seed, t, purpose]))

    state, reason = start(rows(0, _WINDOW), settings), ""
    for t in times:
        report(f"t={t}")
        if not reason:
            try:
                if choice.windows == FRESH and t > times[0]:
                    state = renewed(state, rows(t - times.step, _NUMERATOR))
                state, _ = step(state, {"original": rows(t, _WINDOW)}, settings, Policy())
            except FitDivergedError as error:
                reason = f"t={t}: {error}"
        test = rows(t, _TEST)
        truth = stream.log_ratio(test, t)
        for normalizer in choice.normalizers:
            value = np.full_like(truth, np.nan) if reason else _log_ratio(state, test, normalizer)
            yield {"t": t, **choice._asdict(), "normalizer": normalizer, **errors(value, truth), "reason": reason}


def _settings(args: Args, choice: Choice, seed: int, report: Report) -> StepSettings:
    settings = StepSettings(
        objective=resolve_objective(choice.objective),
        model=choice.model,
        training=Training(epochs=args.epochs),
        seed=seed,
        progress=epochs_to(report),
        lag=0,
    )
    # no lag: rows are independent, and error bars are not asked for
    return replace(settings, normalizer="self", penalty=args.penalty) if choice.penalised else settings


def renewed(state: State, rows: Floats) -> State:
    """The state with other rows of the same distribution as the window of its anchor.

    psi and its normaliser stay as fitted. The old rows' influence on the errors goes with them.
    """
    track = state.tracks["original"]
    anchor: Anchor = track.anchor._replace(window=rows, uncertainty=None, evidence=None, design=None, known=None)
    return state._replace(tracks={"original": track._replace(anchor=anchor)})


def _log_ratio(state: State, rows: Floats, normalizer: str) -> Any:
    """Log-ratio of rows, with the constant as fitted, or with the ratio's mean on the current window made 1."""
    position = state.tracks["original"].current
    shift = log_mean_exp(position.log_ratio(position.window)) if normalizer == SELF else 0.0
    return position.log_ratio(rows) - shift


def figure(frame: pd.DataFrame, args: Args) -> Figure:
    """Both models at the end, by normaliser, and the convex one over time for a few telling choices."""
    with style():
        fig, axes = canvas(1, 3, height=3.2, width_ratios=(3, 2.4, 3.2), sharey=True)
        for ax, model, title in zip(axes, ("quadratic", "mlp"), ("convex (x, x²)", "network"), strict=False):
            _dots(ax, frame[(frame.model == model) & (frame.t == frame[frame.model == model].t.max())])
            every = args.every if model == "quadratic" else args.network_every
            ax.set(title=f"{title}, d={every}, t={args.last}", xlabel="normaliser")
        axes[0].set(yscale="log", ylabel="MAE of the log-ratio [nats]")
        handles = [Line2D([], [], color=COLORS[c], marker="o", ls="", label=_NAMES[o]) for o, c in _COLORS.items()]
        handles += [
            Line2D([], [], color=COLORS["grey"], marker="o", ls="", label="shared windows"),
            Line2D([], [], color=COLORS["grey"], marker="o", ls="", mfc="white", label="fresh windows"),
            Line2D([], [], color=COLORS["grey"], marker="x", ls="", label="fit failed"),
        ]
        fig.legend(handles=handles, loc="outside upper center", ncols=6, handletextpad=0.1, columnspacing=1.2)
        _growth(axes[2], frame[frame.model == "quadratic"])
    return fig


def _dots(ax: Axes, last: pd.DataFrame) -> None:
    """Geometric means with the range over seeds; a cross on the upper edge for fits that failed."""
    groups = (TELESCOPED, PENALISED, SELF)
    columns = [(o, w) for o in _COLORS if o in set(last.objective) for w in (SHARED, FRESH)]
    for at, normalizer in enumerate(groups):
        for k, (objective, windows) in enumerate(columns):
            chosen = (last.normalizer == normalizer) & (last.objective == objective) & (last.windows == windows)
            x, color = at + 0.13 * (k - 0.5 * (len(columns) - 1)), COLORS[_COLORS[objective]]
            mae = last[chosen].mae.dropna()
            if len(mae):
                ax.plot([x, x], [mae.min(), mae.max()], color=color, linewidth=1)
                ax.plot(x, _geometric(mae), "o", color=color, mfc=color if windows == SHARED else "white")
            if len(mae) < chosen.sum():
                ax.plot(x, 0.97, "x", color=color, transform=ax.get_xaxis_transform())
    ax.set_xticks(range(len(groups)), [name.replace(" + ", " +\n") for name in groups])
    ax.grid(axis="x", visible=False)


def _growth(ax: Axes, frame: pd.DataFrame) -> None:
    telling = [
        ("logistic", TELESCOPED, SHARED, "driftline", "-"),
        ("logistic", TELESCOPED, FRESH, "driftline", ":"),
        ("kliep", TELESCOPED, SHARED, "orange", "-"),
        ("kliep", PENALISED, SHARED, "pink", "-"),
        ("kliep", SELF, SHARED, "red", "-"),
    ]
    for objective, normalizer, windows, color, line in telling:
        part = frame[(frame.objective == objective) & (frame.normalizer == normalizer) & (frame.windows == windows)]
        label = f"{_NAMES[objective]}, {normalizer}{', fresh' if windows == FRESH else ''}"
        band(ax, part, "t", "mae", label, COLORS[color], linestyle=line, marker="")
    ax.set(title="convex, over time", xlabel="time t [windows]")
    ax.legend(fontsize=6.5, loc="upper left", handlelength=1.4)


def _geometric(values: Any) -> float:
    return math.exp(float(np.log(values).mean()))


def caption(args: Args) -> str:
    """Say what the figure shows, and what was shortened."""
    paper = EXPERIMENT.presets["paper"]
    names = {"rows": "rows a window", "seeds": "seeds", "slow_seeds": "seeds of slow fits"}
    words = remark("Shortened", differences(args, paper, names))
    return f"""Error at t={args.last} on the {args.dim}-D Gaussian stream (Δ={args.delta}, {args.rows:,} rows a window),
    by normaliser, objective and whether a window serves both of its steps (shared) or each role has fresh rows.
    λ_c={args.penalty:g}. Dots: geometric means, lines: range over {counted(args.seeds, "seed")},
    {min(args.seeds, args.slow_seeds)} for the network (which has no LSIF) and the penalised fits; bands: one standard
    deviation over seeds. Crosses: some or all fits failed, and dots are of the others.{words}"""


def ratios(frame: pd.DataFrame, column: str, worse: str, better: str) -> pd.Series:
    """The error of ``worse`` over that of ``better``, for pairs with all else the same, where both have a number."""
    keys = [k for k in ("model", "objective", "windows", "normalizer", "seed") if k != column]
    table = frame.pivot_table(index=keys, columns=column, values="mae").reindex(columns=[worse, better]).dropna()
    return table[worse] / table[better]


def worth(frame: pd.DataFrame, column: str, worse: str, better: str) -> str:
    """The geometric mean of the ratios, the smallest and the largest, and how many they are."""
    found = ratios(frame, column, worse, better)
    if found.empty:
        return "(no pair of fits to compare)"
    spread = f"{found.min():.2g} to {found.max():.2g}; " if len(found) > 1 else ""
    return f"×{_geometric(found):.2g} ({spread}{counted(len(found), 'pair')})"


def verdict(frame: pd.DataFrame, args: Args) -> str:
    """The worth of each choice, as factors."""
    last = frame[frame.t == frame.groupby("model").t.transform("max")]
    convex, network = (last[last.model == model] for model in ("quadratic", "mlp"))
    exact, alone = (convex[convex.normalizer == name] for name in (TELESCOPED, SELF))
    exact_net, both = network[network.normalizer == TELESCOPED], convex[convex.objective != "lsif"]
    ours = exact[(exact.objective == "logistic") & (exact.windows == SHARED)].mae
    together = mean_spread(ours, 3, ddof=0)
    lost = last.mae.isna().groupby([last.model, last.objective, last.normalizer]).agg(["sum", "size"]).query("sum > 0")
    failed = (f"{m} {_NAMES[o]}, {n}: {k} of {count}" for (m, o, n), k, count in lost.itertuples())
    return markdown.verdict(
        _lead(convex, exact),
        markdown.table(
            ["factor in MAE, convex model", *_NAMES.values()],
            [
                ["telescoping instead of self-normalising", *_each(convex, "normalizer", SELF, TELESCOPED)],
                ["sharing windows", *_each(exact, "windows", FRESH, SHARED)],
            ],
        ),
        [
            f"Factors are ratios of MAE at t={args.last}, d={args.every} with all else the same (geometric mean; range "
            "over pairs), and one below 1 is a loss.",
            f"The logistic objective instead of KLIEP is worth {worth(exact, 'objective', 'kliep', 'logistic')}.",
            f"All three of ours together have an MAE of {together}{'' if together == 'no number' else ' nats'}.",
        ],
        [
            "Objective and windows are compared under the telescoped normaliser.",
            "With logistic and KLIEP taken together: under self-normalisation the objective is worth "
            f"{worth(alone, 'objective', 'kliep', 'logistic')} and sharing windows "
            f"{worth(both[both.normalizer == SELF], 'windows', FRESH, SHARED)}; the paper's remedy for "
            f"self-normalisation, the penalty λ_c={args.penalty:g}, is worth "
            f"{worth(both, 'normalizer', SELF, PENALISED)}; telescoping on top of that, "
            f"{worth(both, 'normalizer', PENALISED, TELESCOPED)}.",
            markdown.table(
                [f"factor in MAE, network at d={args.network_every}", *_NAMES.values()],
                [
                    ["telescoping instead of self-normalising", *_each(network, "normalizer", SELF, TELESCOPED)],
                    ["penalty instead of self-normalising alone", *_each(network, "normalizer", SELF, PENALISED)],
                    ["sharing windows", *_each(exact_net, "windows", FRESH, SHARED)],
                ],
            ),
            "For the network the logistic objective instead of KLIEP is worth "
            f"{worth(exact_net, 'objective', 'kliep', 'logistic')}. It was not fitted by LSIF; it and the penalised "
            f"fits rest on {counted(min(args.seeds, args.slow_seeds), 'seed')}.",
            f"Fits that failed (they drop out of the factors): {listed(failed, '; ')}.",
        ],
    )


def _lead(convex: pd.DataFrame, exact: pd.DataFrame) -> str:
    """Name our choice that is worth most, all under the logistic objective: other objectives may have lost fits."""
    factors = {
        "telescoping": _geometric(ratios(convex[convex.objective == "logistic"], "normalizer", SELF, TELESCOPED)),
        "logistic instead of KLIEP": _geometric(ratios(exact, "objective", "kliep", "logistic")),
        "sharing windows": _geometric(ratios(exact[exact.objective == "logistic"], "windows", FRESH, SHARED)),
    }
    best = max(factors, key=lambda name: np.nan_to_num(factors[name]))
    if math.isnan(factors[best]):
        return "No number"
    words = "is worth most" if factors[best] > 1.0 else "costs least: none helps"
    return f"{capitalised(best)} {words} (convex model, logistic objective)"


def _each(frame: pd.DataFrame, column: str, worse: str, better: str) -> list[str]:
    """The worth for each objective on its own; nothing for those that were not fitted."""
    fitted = set(frame.objective)
    return [worth(frame[frame.objective == o], column, worse, better) if o in fitted else "" for o in _NAMES]


EXPERIMENT = Experiment(
    name="ablation",
    paper="ours",
    title="what normaliser, objective and shared windows are worth",
    presets={"quick": Args(), "paper": Args(seeds=10, slow_seeds=10, rows=50_000)},
    work=Work(units, run),
    results=Results(figure, caption, verdict),
    takes={"quick": "3 min", "paper": "~7 min a seed"},
)
