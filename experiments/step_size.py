"""Sec. 3.3 and 4.2: the error after twenty windows of the 64-D Gaussian stream against the size of the steps.

With step size d only every d-th window is seen and used. The paper holds that small steps are better, since the spread
of a KLIEP step grows with the distance it bridges (Corollary 1). The adaptive policy is given every window and chooses
for itself which of them to step to.

CKLIEP's epochs and rate at the quick scale had the least error at d4 among four tried on another seed (1000); with
fewer updates at that rate (6 epochs of 20,000 rows) it hardly moves from its start.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, NullLocator

from driftline import ContinualDensityRatio
from driftline.fitting import FitDivergedError, Training
from driftline.synthetic import GaussianStream
from experiments import markdown, methods
from experiments.arguments import check_above_zero, check_at_least, check_drift, differences, flag, remark
from experiments.experiment import Experiment, Report, Results, Row, Unit, Work
from experiments.figures import COLORS, band, canvas, style
from experiments.methods import PAPER_EPOCHS, PAPER_RATE, Floats, epochs_to, errors
from experiments.words import listed

_WINDOW, _TEST = range(2)  # what rows are drawn for: all methods see the same ones
_D1, _D4 = 1, 4  # the two sizes of the paper
_DIFFERENT = 1.1  # a factor in error that counts as a difference
_OFF = 0.1  # of the true KL: an estimate that should not go without a warning
_TICKS = (-100, -30, -10, -3, -1, 0, 1, 3, 10, 30, 100, 300, 1000)  # percent
_ENOUGH = 3  # seeds for a judgement; fewer only suggest it
_SUGGESTED = {"confirmed": "point that way", "contradicted": "point the other way", "undecided": "do not decide"}


@dataclass(frozen=True)
class Args:
    """Arguments: the step sizes, the stream, and the training of networks."""

    seeds: int = 3
    network_seeds: int = 1
    sizes: tuple[int, ...] = flag((1, 2, 4, 5, 10, 20), "step sizes of convex models, in windows; divide --last")
    network_sizes: tuple[int, ...] = flag((1, 2, 4, 5, 10, 20), "step sizes of networks, in windows; divide --last")
    rows: int = 50_000
    dim: int = 64
    delta: float = 0.02
    last: int = 20
    epochs: int = PAPER_EPOCHS
    rate: float = PAPER_RATE
    network_epochs: int = flag(20, "epochs of driftline's own network (mlp)")

    def __post_init__(self) -> None:
        check_at_least(self, 1, "seeds", "network_seeds", "rows", "dim", "last", "epochs", "network_epochs")
        check_above_zero(self, "rate")
        check_drift(self, "last")
        for name, sizes in (("sizes", self.sizes), ("network-sizes", self.network_sizes)):
            if not sizes or min(sizes) < 1 or any(self.last % d for d in sizes):
                raise ValueError(f"--{name} {' '.join(map(str, sizes))}: each must divide --last {self.last}")


class Method(NamedTuple):
    """A curve: the estimator fitted, and how it looks."""

    name: str
    params: dict[str, Any]
    color: str
    line: str = "-"

    @property
    def is_paper(self) -> bool:
        """True for CKLIEP in the paper's configuration, which has no adaptive steps."""
        return not self.params

    @property
    def is_network(self) -> bool:
        """True if it trains by mini-batches."""
        return self.is_paper or self.params["model"] == "mlp"


METHODS = {
    method.name: method
    for method in (
        Method("CKLIEP", {}, "red"),
        Method("mlp", {"model": "mlp"}, "green"),
        Method("quadratic KLIEP", {"objective": "kliep", "model": "quadratic"}, "orange"),
        Method("auto", {"model": "auto"}, "driftline"),
        Method("quadratic logistic", {"objective": "logistic", "model": "quadratic"}, "sky", "--"),
    )
}


class Plan(NamedTuple):
    """A method with steps of one size, or (size 0) with steps of its own choosing."""

    method: Method
    size: int

    def times(self, args: Args) -> range:
        """Times of the windows it sees."""
        return range(self.size or 1, args.last + 1, self.size or 1)


def plans(args: Args) -> dict[str, Plan]:
    """All plans by name, slow ones first."""
    found = {}
    for method in METHODS.values():
        for size in args.network_sizes if method.is_network else args.sizes:
            found[f"{method.name} d{size}"] = Plan(method, size)
        if not method.is_paper:
            found[f"{method.name} adaptive"] = Plan(method, 0)
    return found


def units(args: Args) -> list[Unit]:
    """Each plan for each seed, networks for fewer."""
    return [
        Unit(case, seed, len(plan.times(args)))
        for case, plan in plans(args).items()
        for seed in range(min(args.seeds, args.network_seeds) if plan.method.is_network else args.seeds)
    ]


def run(args: Args, unit: Unit, report: Report) -> Iterator[Row]:
    """Errors after each window seen; no number from the first failed fit on."""
    plan, stream = plans(args)[unit.case], GaussianStream(args.dim, args.delta)
    rows = methods.without_validation(args.rows) if plan.method.is_paper else args.rows

    def sample(t: int, purpose: int) -> Floats:
        return stream.sample(t, rows, np.random.default_rng([unit.seed, t, purpose]))

    estimator = _estimator(args, plan, unit.seed, report).fit(sample(0, _WINDOW))
    reason, moves, warned = "", 0, False
    for t in plan.times(args):
        report(f"t={t}")
        length = plan.size or t / (moves + 1)  # of the steps that lead here, the last one included
        if not reason:
            try:
                estimator.partial_fit(sample(t, _WINDOW))
                about = estimator.info_.originals["original"]
                moves, warned = moves + about.advanced, warned or bool(about.doubts)
            except FitDivergedError as error:
                reason = f"t={t}: {error}"
        test = sample(t, _TEST)
        truth = stream.log_ratio(test, t)
        value = np.full_like(truth, np.nan) if reason else estimator.log_ratio(test)
        yield {
            "t": t,
            "method": plan.method.name,
            "size": plan.size,
            "length": length,
            **errors(value, truth),
            "warned": int(warned),
            "reason": reason,
        }


def _estimator(args: Args, plan: Plan, seed: int, report: Report) -> ContinualDensityRatio:
    if plan.method.is_paper:
        return methods.ckliep(args.epochs, args.rate, seed, report)
    return ContinualDensityRatio(
        **plan.method.params,
        step="every" if plan.size else "adaptive",
        random_state=seed,
        training=Training(epochs=args.network_epochs),
        progress=epochs_to(report),
    )


def ends(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of the last window, with the error of the KL in percent."""
    return frame[frame.t == frame.t.max()].assign(off=lambda last: 100.0 * (last.kl / last.true_kl - 1.0))


def figure(frame: pd.DataFrame, args: Args) -> Figure:
    """MAE and error of the KL against the step size, a curve a method, a star for the adaptive policy."""
    with style():
        (fig, axes), last = canvas(1, 2, height=3.1), ends(frame)
        axes[1].axhline(0.0, color=COLORS["truth"], linewidth=1, label="truth")
        for ax, y in zip(axes, ("mae", "off"), strict=True):
            for method in METHODS.values():
                _curve(ax, last[last.method == method.name], y, method)
            sizes = sorted(set(args.sizes) | set(args.network_sizes))
            ax.set(xscale="log", xlabel="step size d [windows]")
            ax.set_xticks(sizes, [str(d) for d in sizes])
            ax.xaxis.set_minor_locator(NullLocator())
        axes[0].set(yscale="log", ylabel="MAE of the log-ratio [nats]", title=f"log-ratio, t={args.last}")
        axes[1].set_yscale("symlog", linthresh=1.0)
        ticks = [t for t in _TICKS if abs(t) <= 3.0 * last.off.abs().max()]
        axes[1].set_yticks(ticks, [f"{t:+d}" if t else "0" for t in ticks])
        axes[1].yaxis.set_minor_formatter(NullFormatter())
        axes[1].set(ylabel="error of KL(current‖original) [%]", title=f"divergence, t={args.last}")
        handles, labels = axes[0].get_legend_handles_labels()
        fig.legend(handles, labels, loc="outside upper center", ncols=len(labels), columnspacing=1.2)
    return fig


def _curve(ax: Axes, part: pd.DataFrame, y: str, method: Method) -> None:
    """A line over sizes, a star where the adaptive policy lands, only a cross above where any fit failed."""
    color, lost = COLORS[method.color], part[y].isna().groupby(part["size"]).transform("any")
    fixed, free = (part[~lost & kind] for kind in (part["size"] > 0, part["size"] == 0))
    small = 0.6 if method.line == "--" else 1.0  # drawn over another curve, which must stay in sight
    band(ax, fixed, "size", y, method.name, color, linestyle=method.line, markersize=4 * small)
    if len(free):
        ax.errorbar(
            free.length.mean(),
            free[y].mean(),
            free[y].std(ddof=0),
            fmt="*",
            markersize=11 * small,
            color=color,
            markeredgecolor="white",
            markeredgewidth=0.6,
            elinewidth=1,
            zorder=4,
        )
    for length in part[lost].groupby("size").length.mean():
        ax.plot(length, 1.02, "x", color=color, transform=ax.get_xaxis_transform(), clip_on=False, in_layout=False)


def caption(args: Args) -> str:
    """Say what the figure shows, and what was shortened."""
    paper = EXPERIMENT.presets["paper"]
    names = {
        "rows": "rows a window",
        "epochs": "epochs of CKLIEP",
        "rate": "rate of CKLIEP",
        "seeds": "seeds",
        "network_seeds": "seeds of networks",
        "network_sizes": "step sizes of networks",
    }
    shorter = remark("Shortened", differences(args, paper, names))
    return f"""Error at t={args.last} on the {args.dim}-D Gaussian stream (Δ={args.delta}, {args.rows:,} rows a window,
    a fifth more for CKLIEP to validate on) against the step size d; only every d-th window is seen. Stars: the adaptive
    policy, given every window, at the mean length of its steps. Crosses: the fits of some or all seeds failed, no mean
    is drawn. Bands and bars: one standard deviation over seeds.{shorter}"""


def verdict(frame: pd.DataFrame, args: Args) -> str:
    """Judge whether small steps are better, by method; the best size; the adaptive policy; failures."""
    last = ends(frame)
    cells, lists = _cells(last), dict[str, list[str]]()
    for name, seeds in last.groupby("method", sort=False).seed.nunique().items():
        few, judged = "one seed" if seeds == 1 else f"{seeds} seeds", _judge(cells, name)
        words = judged if seeds >= _ENOUGH else f"the numbers of {few} {_SUGGESTED[judged]}"
        lists.setdefault(words, []).append(str(name))
    failed = last.mae.isna().groupby(last.case).agg(["sum", "size"]).query("sum > 0")
    ours = last[(last.method != "CKLIEP") & (last.off.abs() > 100.0 * _OFF)]
    return markdown.verdict(
        "Small steps are better: " + "; ".join(f"{words} for {', '.join(names)}" for words, names in lists.items()),
        markdown.table(
            ["method", *(f"d{d}" for d in (_D1, _D4)), "best size", "at the ends", "adaptive", "its steps"],
            [_line(cells, name) for name in last.method.unique()],
        ),
        [
            f"Numbers are log-ratio MAE in nats at t={args.last}, means over seeds ({args.seeds}, for networks "
            f"{min(args.seeds, args.network_seeds)}); × is relative to the best size, steps are in windows.",
            f"A factor of {_DIFFERENT:g} counts as a difference, and fewer than {_ENOUGH} seeds only suggest one.",
            _training(args),
        ],
        [
            f"Section 4.2 explains by Corollary 1 why d{_D4} is worse than d{_D1}. The adaptive policy is not given a "
            "size.",
            f"Fits that failed (seeds): {listed((f'{c} ({k} of {n})' for c, k, n in failed.itertuples()), '; ')}.",
            f"Of our estimates more than {_OFF:.0%} off in KL, {int(ours.warned.sum())} of {len(ours)} came with a "
            "warning.",
        ],
    )


def _training(args: Args) -> str:
    """The caveat of a shorter training than the paper's; nothing without one."""
    if args.epochs == PAPER_EPOCHS:
        return ""
    shorter = f"CKLIEP trained {args.epochs} epochs a step instead of {PAPER_EPOCHS}"
    return f"{shorter}, chosen by its error at d{_D4}, which may favour d{_D4}."


def _cells(last: pd.DataFrame) -> pd.DataFrame:
    """Counts of fits and failures, and means, by method and size; no mean MAE where a fit failed."""
    grouped = last.assign(failed=last.mae.isna()).groupby(["method", "size"], sort=False)
    means = {"mae": grouped.mae.agg(lambda mae: mae.mean(skipna=False)), "length": grouped.length.mean()}
    return pd.DataFrame({**means, "failed": grouped.failed.sum(), "fits": grouped.size()})


def _judge(cells: pd.DataFrame, name: Any) -> str:
    """Judge by one method whether d1 is better than d4; a failed fit is worse than any other."""
    if not {(name, _D1), (name, _D4)} <= set(cells.index):
        return "undecided"
    small, large = (math.inf if math.isnan(cells.mae[name, d]) else cells.mae[name, d] for d in (_D1, _D4))
    if large > _DIFFERENT * small:
        return "confirmed"
    return "contradicted" if small > _DIFFERENT * large else "undecided"


def _nats(cells: pd.DataFrame, name: Any, size: int) -> str:
    if (name, size) not in cells.index:
        return "not run"
    cell = cells.loc[(name, size)]
    return f"{cell.failed:.0f} of {cell.fits:.0f} failed" if cell.failed else f"{cell.mae:.2g}"


def _line(cells: pd.DataFrame, name: str) -> list[str]:
    """A method's row: the two sizes of the paper, the best one and how much more the ends have, the adaptive policy."""
    mae = cells.mae.loc[name]
    sizes = mae.drop(0, errors="ignore")
    least = sizes.min()  # of the sizes at which no fit failed
    best, more = "none", ""
    if not math.isnan(least):
        size, both = sizes.idxmin(), (sizes.index.min(), sizes.index.max())
        kind = "a trade-off" if size not in both else "the smallest" if size == both[0] else "the largest"
        best = f"d{size} ({kind})"
        factors = {d: _nats(cells, name, d) if math.isnan(mae[d]) else f"×{mae[d] / least:.2g}" for d in both}
        more = ", ".join(f"d{d} {factors[d]}" for d in both if d != size)
    adaptive, length = "", ""
    if 0 in mae.index:
        factor = "" if math.isnan(mae[0] / least) else f" (×{mae[0] / least:.2g})"
        adaptive, length = f"{_nats(cells, name, 0)}{factor}", f"{cells.length[name, 0]:.1f}"
    return [name, *(_nats(cells, name, d) for d in (_D1, _D4)), best, more, adaptive, length]


EXPERIMENT = Experiment(
    name="step-size",
    paper="Sec. 3.3 and 4.2",
    title="the size of steps, and who should choose it",
    presets={
        "quick": Args(seeds=2, rows=20_000, network_sizes=(1, 4, 10, 20), epochs=15, rate=3e-4),
        "paper": Args(seeds=10, network_seeds=10),
    },
    work=Work(units, run),
    results=Results(figure, caption, verdict),
    takes={"quick": "5 min", "paper": "~1.5 h a seed"},
)
