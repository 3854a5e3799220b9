r"""Sec. 3.3: the penalty's weight λ_c. Theorem 1 asks for A/√n; the experiments of the paper hold it at 10.

Two parts, both with log-linear models, whose fits are exact. CKLIEP's error and constraint residual over the steps of a
Gaussian stream. And replicated single steps from t=4 to t=5 of that stream in one dimension with features (x, x²): how
often nominal 95 % intervals by Theorem 1 hold the true coefficients. As the theorem assumes, the ratio at t=4 is given
(it is the true one), the two windows are independent, and the model holds the truth. The covariance is that of the
theorem with its Lemma 1 corrected (see docs/method.md), and as printed, estimated from the rows of the fit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from driftline import ContinualDensityRatio
from driftline.fitting import Dense, FitDivergedError, fit_lbfgs, kliep, loss_of, penalised
from driftline.inference import step_covariance
from driftline.synthetic import GaussianStream
from experiments import markdown
from experiments.arguments import check_above_zero, check_at_least, check_drift, differences, flag, remark
from experiments.experiment import Experiment, Report, Results, Row, Unit, Work
from experiments.figures import COLORS, canvas, plain_ticks, span, style
from experiments.methods import Floats, errors, untrusted
from experiments.words import counted, mean_spread

STEPS, COVERAGE = "steps", "coverage"
CORRECTED, PRINTED = "corrected", "as printed"
_COEFFICIENTS = ("x", "x²")
_BEFORE = 4  # the time that the replicated step starts at
_NOMINAL, _QUANTILE = 0.95, 1.96
_TEST = 1_000_000  # keys of rows to measure on, apart from those of windows
_COLORS = ("grey", "driftline", "sky", "red")


@dataclass(frozen=True)
class Args:
    """Arguments: penalties and rows of both parts, the stream of the first, distances and replicates of the second.

    ``amounts`` are the theorem's A, ``constant`` is a λ_c that does not depend on the rows.
    """

    seeds: int = 10
    rows: tuple[int, ...] = flag((2000, 20_000), "rows of a window, in each case")
    amounts: tuple[float, ...] = flag((10.0, 447.0), "A of lambda_c = A/sqrt(rows), each a case")
    constant: float = flag(10.0, "lambda_c that does not depend on rows")
    dim: int = 64
    delta: float = 0.02
    last: int = 20
    deltas: tuple[float, ...] = flag((0.05, 0.1), "distances of the two windows whose intervals are judged")
    replicates: int = flag(1000, "fits for the coverage of intervals, of each seed; at least 1")

    def __post_init__(self) -> None:
        check_at_least(self, 1, "seeds", "dim", "last")
        check_at_least(self, 20, "replicates")
        check_above_zero(self, "constant")
        check_drift(self, "last")
        for name, given, most in (("amounts", self.amounts, math.inf), ("deltas", self.deltas, 1.0 / (_BEFORE + 1))):
            if not given or not 0.0 < min(given) <= max(given) < most:
                raise ValueError(f"--{name} {' '.join(map(str, given))}: each must be above 0 and below {most:g}")
        if not self.rows or min(self.rows) < 100:
            raise ValueError(f"--rows {' '.join(map(str, self.rows))}: each must be at least 100")


class Penalty(NamedTuple):
    """A rule for λ_c: nothing, A/√n, or a constant."""

    name: str
    size: float
    shrinks: bool = False

    def at(self, rows: int) -> float:
        """Return λ_c for windows of this many rows."""
        return self.size / math.sqrt(rows) if self.shrinks else self.size


def penalties(args: Args) -> dict[str, Penalty]:
    """All rules by name."""
    found = [Penalty("none", 0.0), *(Penalty(f"{a:g}/√n", a, True) for a in args.amounts)]
    return {rule.name: rule for rule in (*found, Penalty(f"constant {args.constant:g}", args.constant))}


def units(args: Args) -> list[Unit]:
    """Both parts for each rule and number of rows, seed by seed; the largest first."""
    counts = {COVERAGE: len(args.deltas) * len(_COEFFICIENTS) * 2, STEPS: args.last}
    return [
        Unit(_case(part, name, n), seed, count)
        for part, count in counts.items()
        for n in sorted(args.rows, reverse=True)
        for name in penalties(args)
        for seed in range(args.seeds)
    ]


def _case(part: str, name: str, rows: int) -> str:
    return f"{part}, λ_c {name}, {rows} rows"


def run(args: Args, unit: Unit, report: Report) -> Iterator[Row]:
    """Rows of one part, for one rule and number of rows."""
    for n in args.rows:
        for rule in penalties(args).values():
            for part, rows_of in ((STEPS, _steps), (COVERAGE, _coverage)):
                if unit.case == _case(part, rule.name, n):
                    for row in rows_of(args, rule, n, unit.seed, report):
                        yield {"part": part, "penalty": rule.name, "rows": n, **row}


def _steps(args: Args, rule: Penalty, n: int, seed: int, report: Report) -> Iterator[Row]:
    """Errors and constraint residual after each step; no number from the first failed fit on."""
    stream = GaussianStream(args.dim, args.delta)
    estimator: ContinualDensityRatio | None = ContinualDensityRatio(
        objective="kliep",
        model="quadratic",
        normalizer="self",
        penalty=rule.size,
        penalty_rate="root-n" if rule.shrinks else "constant",
        ridge=0.0,
        lag=0,  # rows are independent
        random_state=seed,
    ).fit(stream.sample(0, n, np.random.default_rng([seed, 0])))
    for t in range(1, args.last + 1):
        report(f"t={t}")
        test = stream.sample(t, 20_000, np.random.default_rng([seed, _TEST + t]))
        truth = stream.log_ratio(test, t)
        value, residual = np.full_like(truth, np.nan), math.nan
        if estimator is not None:
            try:
                with untrusted():
                    value = estimator.partial_fit(stream.sample(t, n, np.random.default_rng([seed, t]))).log_ratio(test)
                residual = estimator.info_.originals["original"].constraint_residual
            except FitDivergedError:
                estimator = None
        yield {"t": t, **errors(value, truth), "residual": residual}


def _coverage(args: Args, rule: Penalty, n: int, seed: int, report: Report) -> Iterator[Row]:
    """Intervals that hold the true coefficients, and their spread over what the theorem says, for each distance."""
    for delta in args.deltas:
        report(f"Δ={delta:g}")
        rng = np.random.default_rng([seed, n, round(1e6 * delta)])  # the same windows under each rule
        truth = step_coefficients(delta)
        fits = [replicate(delta, n, rule.at(n), rng) for _ in range(args.replicates)]
        off = math.sqrt(n) * (np.array([fit.coef for fit in fits]) - truth)
        for formula in (CORRECTED, PRINTED):
            variance = np.array([fit.variances[formula] for fit in fits])
            held = (np.abs(off) <= _QUANTILE * np.sqrt(variance)).sum(0)
            for k, name in enumerate(_COEFFICIENTS):
                yield {
                    "delta": delta,
                    "coefficient": name,
                    "formula": formula,
                    "held": int(held[k]),
                    "replicates": args.replicates,
                    "spread": float(off[:, k].var() / variance[:, k].mean()),
                    "bias": float(off[:, k].mean() / off[:, k].std()),
                }


def step_coefficients(delta: float) -> Floats:
    """True coefficients of x and x² in the log-ratio of the replicated step, (2,)."""
    (mean, scale), (mean_after, scale_after) = ((delta * t, 1.0 - delta * t) for t in (_BEFORE, _BEFORE + 1))
    return np.array(
        [mean / scale**2 - mean_after / scale_after**2, 0.5 * (scale_after**-2 - scale**-2)],
    )


class Replicate(NamedTuple):
    """Coefficients of one fitted step, (2,), and n times their variances by formula."""

    coef: Floats
    variances: dict[str, Floats]


def replicate(delta: float, n: int, penalty: float, rng: np.random.Generator) -> Replicate:
    """Fit one step on new windows, started at the truth: the theorem is about the solution near it."""
    stream, truth = GaussianStream(1, delta), step_coefficients(delta)
    before, after = (stream.sample(t, n, rng) for t in (_BEFORE, _BEFORE + 1))
    num, den = (np.concatenate([x, x**2, np.ones_like(x)], 1) for x in (before, after))
    loss = loss_of(kliep)
    if penalty:
        loss = penalised(loss, penalty, stream.log_ratio(before, _BEFORE), stream.log_ratio(after, _BEFORE))
    fit = fit_lbfgs(Dense(num), Dense(den), loss, start=np.append(truth, 0.0))
    if not fit.info.converged:
        raise RuntimeError(f"a fit of {n} rows with λ_c={penalty:g} did not converge: {fit.info.message}")
    coef, phi = fit.coef[:2], fit.log_den
    found = {
        name: np.diag(step_covariance(num[:, :2], den[:, :2], phi, as_printed=name == PRINTED))
        for name in (CORRECTED, PRINTED)
    }
    return Replicate(coef, found)


def figure(frame: pd.DataFrame, args: Args) -> Figure:
    """Error and residual of CKLIEP over time, a line a rule and number of rows; coverage of the replicated steps."""
    steps, looks = frame[frame.part == STEPS], dict(zip(penalties(args), _COLORS, strict=False))
    lines = dict(zip(sorted(args.rows, reverse=True), ("-", ":", "--", "-."), strict=False))
    with style():
        fig, axes = canvas(1, 3, height=3.0, width_ratios=(3, 3, 3.4))
        for name, color in looks.items():
            for n, line in lines.items():
                part = steps[(steps.penalty == name) & (steps.rows == n)]
                for ax, measure in zip(axes, ("mae", "residual"), strict=False):
                    span(ax, part, "t", measure, COLORS[color], linestyle=line)
        axes[0].set(yscale="log", ylabel="MAE of log ratios [nats]", xlabel="time t [windows]")
        plain_ticks(axes[0], (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10))
        axes[1].set(ylabel="constraint Ψ$_t$ / (Φ$_t$Ψ$_{t-1}$)", xlabel="time t [windows]")
        _intervals(axes[2], _covered(frame), args, looks)
        handles = [Line2D([], [], color=COLORS[color], label=f"λ_c {name}") for name, color in looks.items()]
        handles += [Line2D([], [], color=COLORS["truth"], ls=ls, label=f"{n:,} rows") for n, ls in lines.items()]
        fig.legend(handles=handles, loc="outside upper center", ncols=len(handles), columnspacing=1.2)
    return fig


def _intervals(ax: Axes, covered: pd.DataFrame, args: Args, looks: dict[str, str]) -> None:
    """Dots for both coefficients, x filled and x² open, with two binomial standard errors."""
    own = covered[covered.formula == CORRECTED]
    groups = [(delta, n) for delta in args.deltas for n in sorted(args.rows)]
    ax.axhline(100 * _NOMINAL, color=COLORS["truth"], linewidth=1)
    for at, (delta, n) in enumerate(groups):
        for k, (name, color) in enumerate(looks.items()):
            here = own[(own.delta == delta) & (own.rows == n) & (own.penalty == name)].set_index("coefficient")
            for shift, coefficient in ((-0.04, "x"), (0.04, "x²")):
                ax.errorbar(
                    at + 0.2 * (k - 0.5 * (len(looks) - 1)) + shift,
                    100 * here.share[coefficient],
                    200 * here.error[coefficient],
                    fmt="o",
                    markersize=3.5,
                    elinewidth=1,
                    color=COLORS[color],
                    mfc=COLORS[color] if coefficient == "x" else "white",
                )
    ax.set_xticks(range(len(groups)), [f"Δ={delta:g}\nn={n:,}" for delta, n in groups], fontsize=6.5)
    ax.set(ylabel="95 % intervals that hold [%]")
    ax.grid(axis="x", visible=False)


def _covered(frame: pd.DataFrame) -> pd.DataFrame:
    """Share of intervals that hold over all seeds, with its binomial standard error, and the mean spread."""
    keys = ["penalty", "rows", "delta", "coefficient", "formula"]
    grouped = frame[frame.part == COVERAGE].groupby(keys, sort=False)
    found = grouped[["held", "replicates"]].sum().join(grouped[["spread", "bias"]].mean()).reset_index()
    share = found.held / found.replicates
    return found.assign(share=share, error=np.sqrt(share * (1.0 - share) / found.replicates))


def caption(args: Args) -> str:
    """Say what the figure shows, and what was shortened."""
    names = {"dim": "dimensions", "last": "time steps", "delta": "Δ", "replicates": "replicates a seed"}
    shorter = remark("Changed", differences(args, EXPERIMENT.presets["paper"], names))
    return f"""Weights λ_c of the constraint. Left and middle: CKLIEP with a log-linear model, fitted exactly, on the
    {args.dim}-D Gaussian stream (Δ={args.delta:g}; mean and range over {counted(args.seeds, "seed")}); the
    constraint holds at 1. Right: replicated steps from t={_BEFORE} to t={_BEFORE + 1} in one dimension,
    {args.replicates * args.seeds} each: nominal 95 % intervals by Theorem 1, corrected, for the coefficients of x
    (filled) and x² (open), with two binomial standard errors.{shorter}"""


def verdict(frame: pd.DataFrame, args: Args) -> str:
    """Error, residual and coverage under each rule; which statement is tested, and at which sizes it holds."""
    covered, last = _covered(frame), frame[(frame.part == STEPS) & (frame.t == args.last)]
    sizes = sorted(args.rows)
    lines = []
    for name in penalties(args):
        own = [last[(last.penalty == name) & (last.rows == n)] for n in sizes]
        cells = [mean_spread(part.mae, 2) for part in own]
        cells += [_shares(covered, name, delta, n, CORRECTED) for delta in args.deltas for n in sizes]
        lines.append([name, *cells])
    return markdown.verdict(
        _lead(covered, args),
        markdown.table(
            [
                "λ_c",
                *(f"MAE at t={args.last}, n={n:,}" for n in sizes),
                *(f"held, Δ={delta:g}, n={n:,}" for delta in args.deltas for n in sizes),
            ],
            lines,
        ),
        [
            "Tested is Theorem 1 for one step of a log-linear model with the ratio before it given, with the corrected "
            "covariance estimated from the rows of the fit: held are the shares of its 95 % intervals, in percent, for "
            f"the coefficients of x / x² ({args.replicates * args.seeds} replicates, standard error "
            f"{_chance(args):.1%} at 95 %).",
            f"MAE is that of CKLIEP's log-ratios on the {args.dim}-D stream in nats ({counted(args.seeds, 'seed')}); "
            f"with a penalty it is {_lowered(last, args)} that without.",
            "The theorem asks for A/√n, and the paper's experiments have a constant λ_c of 10: it does not cover them.",
        ],
        _details(covered, last, args),
    )


def _shares(covered: pd.DataFrame, name: str, delta: float, n: int, formula: str) -> str:
    return " / ".join(f"{100 * share:.1f}" for share in _chosen(covered, name, delta, n, formula).share)


def _chosen(covered: pd.DataFrame, name: str, delta: float, n: int, formula: str = CORRECTED) -> pd.DataFrame:
    own = covered[(covered.penalty == name) & (covered.delta == delta) & (covered.rows == n)]
    return own[own.formula == formula]


def _chance(args: Args) -> float:
    """The standard error of a share of intervals that are right."""
    return math.sqrt(_NOMINAL * (1.0 - _NOMINAL) / (args.replicates * args.seeds))


def holds(covered: pd.DataFrame, args: Args, name: str, delta: float, n: int) -> bool:
    """Say whether both shares are within three standard errors of the nominal one."""
    off = _chosen(covered, name, delta, n).share - _NOMINAL
    return bool((off.abs() <= 3.0 * _chance(args)).all())


def _lead(covered: pd.DataFrame, args: Args) -> str:
    """Name the rules and distances at which intervals are right with the most rows."""
    most, found = max(args.rows), []
    for name in penalties(args):
        if right := [f"{delta:g}" for delta in args.deltas if holds(covered, args, name, delta, most)]:
            found.append(f"{name} (Δ={' and '.join(right)})")
    which = f"λ_c {', '.join(found)} and no other" if found else "no λ_c"
    return f"At {most:,} rows a window Theorem 1's intervals are right for {which}"


def _lowered(last: pd.DataFrame, args: Args) -> str:
    """The errors with a penalty over that without, least and largest, for each number of rows."""
    words = []
    for n in sorted(args.rows):
        means = last[last.rows == n].groupby("penalty").mae.mean()
        factors = means.drop("none") / means["none"]
        words.append(f"×{factors.min():.2f} to ×{factors.max():.2f} at n={n:,}")
    return " and ".join(words)


def _details(covered: pd.DataFrame, last: pd.DataFrame, args: Args) -> list[str]:
    sizes = sorted(args.rows)
    residuals = [
        [
            name,
            *(mean_spread(last[(last.penalty == name) & (last.rows == n)].residual, 2) for n in sizes),
            *(mean_spread(last[(last.penalty == name) & (last.rows == n)].kl, 2) for n in sizes),
        ]
        for name in penalties(args)
    ]
    printed = [
        [
            name,
            *(_shares(covered, name, delta, n, PRINTED) for delta in args.deltas for n in sizes),
            *(_spreads(covered, name, delta, max(sizes)) for delta in args.deltas),
        ]
        for name in penalties(args)
    ]

    def sizes_of(rule: Penalty) -> str:
        return " and ".join(f"{rule.at(n):.2g} at n={n:,}" for n in sizes)

    heavy = [f"{delta:g}" for delta in args.deltas if 2.0 * (1.0 - delta * _BEFORE) ** 2 <= 1.0]
    return [
        f"Intervals are right if both shares are within three standard errors ({3 * _chance(args):.1%}) of 95 %.",
        f"λ_c is {'; '.join(f'{sizes_of(r)} for {r.name}' for r in penalties(args).values() if r.shrinks)}.",
        markdown.table(
            [
                "λ_c",
                *(f"constraint at t={args.last}, n={n:,}" for n in sizes),
                *(f"KL, n={n:,}" for n in sizes),
            ],
            residuals,
        ),
        f"The constraint is Ψ_t/(Φ_tΨ_(t−1)), 1 where it holds. The true KL is {last.true_kl.mean():.2f}.",
        markdown.table(
            [
                "λ_c",
                *(f"held as printed, Δ={delta:g}, n={n:,}" for delta in args.deltas for n in sizes),
                *(f"variance over theory, Δ={delta:g}, n={max(sizes):,}" for delta in args.deltas),
            ],
            printed,
        ),
        "The variance is that of replicated coefficients, the theory's is corrected; for x / x².",
        f"At Δ={' and '.join(heavy)} the ratio p/q_{_BEFORE} has no finite variance: the constraint's error falls "
        "slower than 1/√n, and with it the penalty's pull."
        if heavy
        else "",
    ]


def _spreads(covered: pd.DataFrame, name: str, delta: float, n: int) -> str:
    return " / ".join(f"{spread:.2f}" for spread in _chosen(covered, name, delta, n).spread)


EXPERIMENT = Experiment(
    name="penalty",
    paper="Sec. 3.3",
    title="the weight of the constraint, and Theorem 1's intervals",
    presets={
        "quick": Args(seeds=3, dim=16, delta=0.04, last=10, replicates=200),
        "paper": Args(),
    },
    work=Work(units, run),
    results=Results(figure, caption, verdict, ours="^$"),
    in_all=False,
    takes={"quick": "2 min", "paper": "~1 h"},
)
