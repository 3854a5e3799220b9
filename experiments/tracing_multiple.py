r"""Fig. 3c: ten originals that join one by one and drift, traced by one estimator, against static KLIEP for each.

Original tau starts at N(2 tau, I) in 64-D and moves by delta = 0.01 (mean up, standard deviation down) at each time
step from the one in which it joins: at time t it has moved t - tau + 1 steps, the newest one step. (The paper may also
be read with the newest at 0 steps; there would then be nothing to estimate for it, nor at t = 1 at all.)

Shared estimators see the two latest windows of each original; static ones keep every original's rows. All methods of a
seed get the same windows, validation rows included, and are measured on the same further rows of the current
distributions: KL(current‖original) and the error of log-ratios, both averaged over the originals. Estimators
standardise the columns of each original by its first window; the paper does not say that it does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from driftline import ContinualDensityRatio, DensityRatio
from driftline.synthetic import GaussianStream
from experiments import markdown
from experiments.arguments import changed, check_above_zero, check_at_least, check_drift, remark
from experiments.experiment import Experiment, Report, Results, Row, Unit, Work
from experiments.figures import COLORS, band, canvas, style
from experiments.methods import Floats, ckliep, errors, untrusted, without_validation
from experiments.words import capitalised, counted, every, mean_spread

CKLIEP, KLIEP, CONVEX, OURS = "CKLIEP", "KLIEP", "KLIEP, quadratic", "driftline"
_LOOKS = {  # label, colour, marker, line, as in the figure of a single original
    CKLIEP: ("CKLIEP, shared network", "red", "s", "-"),
    KLIEP: ("KLIEP, network each", "green", "v", "-"),
    CONVEX: ("KLIEP, quadratic each", "green", "^", "--"),
    OURS: ("driftline", "driftline", "o", "-"),
}

_ENOUGH = 6  # seeds that agree by chance less than 1 time in 20

LogRatio = Callable[[Floats, int], Floats]
"""log p_tau/q of rows, for an original tau."""


@dataclass(frozen=True)
class Args:
    """Arguments: sizes of the stream, training of the networks, and ``times`` at which static methods are fitted."""

    seeds: int = 3
    originals: int = 10
    dim: int = 64
    delta: float = 0.01
    rows: int = 16_000
    test_rows: int = 20_000
    epochs: int = 5
    rate: float = 1e-3
    times: tuple[int, ...] = (1, 4, 7, 10)

    def __post_init__(self) -> None:
        check_at_least(self, 1, "seeds", "originals", "dim", "rows", "test_rows", "epochs")
        check_above_zero(self, "rate")
        check_drift(self, "originals")
        rising = list(self.times) == sorted(set(self.times))
        if not rising or not self.times or self.times[0] < 1 or self.times[-1] != self.originals:
            raise ValueError(
                f"--times {' '.join(map(str, self.times))} must rise from 1 or later to --originals {self.originals}"
            )


PAPER = Args(seeds=10, rows=50_000, epochs=5000, rate=1e-5, times=tuple(range(1, 11)))


@dataclass(frozen=True)
class Data:
    """The samples of one seed, each drawn from a generator of its own: all methods see the same."""

    args: Args
    seed: int

    def stream(self, tau: int) -> GaussianStream:
        """The stream of original tau."""
        return GaussianStream(dim=self.args.dim, delta=self.args.delta, mean=2.0 * tau)

    def window(self, tau: int, moved: int) -> Floats:
        """Rows to learn from; those the networks keep for validation are on top."""
        rng = np.random.default_rng([self.seed, tau, moved, 0])
        return self.stream(tau).sample(moved, without_validation(self.args.rows), rng)

    def test(self, tau: int, moved: int) -> Floats:
        """Rows to measure on."""
        return self.stream(tau).sample(moved, self.args.test_rows, np.random.default_rng([self.seed, tau, moved, 1]))


def units(args: Args) -> list[Unit]:
    """Every method with every seed, longest first."""
    static = len(args.times)
    sizes = {CKLIEP: args.originals, KLIEP: static, OURS: args.originals, CONVEX: static}
    return [Unit(case, seed, rows) for case, rows in sizes.items() for seed in range(args.seeds)]


def run(args: Args, unit: Unit, report: Report) -> Iterator[Row]:
    """A row for each time at which the method is measured."""
    data = Data(args, unit.seed)
    with untrusted():
        if unit.case == CKLIEP:
            yield from _shared(data, ckliep(args.epochs, args.rate, unit.seed, report), report)
        elif unit.case == OURS:
            yield from _shared(data, ContinualDensityRatio(random_state=unit.seed), report)
        else:
            yield from _static(data, unit.case, report)


def _shared(data: Data, estimator: ContinualDensityRatio, report: Report) -> Iterator[Row]:
    """One estimator for all originals: a step at each time, then one more joins."""
    estimator.fit(data.window(1, 0), name="1")
    for t in range(1, data.args.originals + 1):
        report(f"t={t}")
        estimator.partial_fit({str(tau): data.window(tau, _moved(tau, t)) for tau in range(1, t + 1)})
        row = _measure(data, t, lambda rows, tau: np.asarray(estimator.log_ratio(rows, original=str(tau))))
        found = [estimator.divergence("reverse_kl", original=name) for name in estimator.originals_]
        # windows of different originals are independent: variances add up (no error bars in the paper's mode: NaN)
        error = float(np.sqrt(sum(f.std_error**2 for f in found))) / t
        yield {**row, "window_kl": float(np.mean([f.value for f in found])), "window_error": error}
        if t < data.args.originals:
            estimator.add_original(data.window(t + 1, 0), name=str(t + 1))


def _static(data: Data, case: str, report: Report) -> Iterator[Row]:
    """An estimator for each original at each of the times, from its own rows, which are kept."""
    args, seed = data.args, data.seed
    for t in args.times:

        def log_ratio(rows: Floats, tau: int, t: int = t) -> Floats:
            report(f"t={t}, original {tau}")
            original, current = data.window(tau, 0), data.window(tau, _moved(tau, t))
            if case == CONVEX:
                convex = DensityRatio(objective="kliep", model="quadratic", random_state=seed)
                return np.asarray(convex.fit(original, current).log_ratio(rows))
            network = ckliep(args.epochs, args.rate, seed, report, penalty=0.0)
            return np.asarray(network.fit(original).partial_fit(current).log_ratio(rows))

        yield _measure(data, t, log_ratio)


def _moved(tau: int, t: int) -> int:
    """Steps that original tau has moved by time t."""
    return t - tau + 1


def _measure(data: Data, t: int, log_ratio: LogRatio) -> Row:
    """Averages over the originals; ``true_kl`` is of the same rows as ``kl``, ``exact_kl`` of the distributions.

    ``each_off`` is by how much the KL of one original is off, on average: in ``kl`` errors of both signs cancel.
    """
    found = []
    for tau in range(1, t + 1):
        stream, moved = data.stream(tau), _moved(tau, t)
        rows = data.test(tau, moved)
        of_tau = errors(log_ratio(rows, tau), stream.log_ratio(rows, moved))
        each_off = abs(of_tau["kl"] - of_tau["true_kl"])
        found.append({**of_tau, "each_off": each_off, "exact_kl": stream.reverse_kl(moved)})
    return {"t": t, **{key: float(np.mean([f[key] for f in found])) for key in found[0]}}


def figure(frame: pd.DataFrame, args: Args) -> Figure:
    """Averaged KL with the truth, and averaged error of log-ratios, against time."""
    with style():
        fig, axes = canvas(1, 2, height=3.1)
        truth = frame.groupby("t").exact_kl.mean()
        axes[0].plot(truth.index, truth, color=COLORS["truth"], linewidth=2.5, label="truth", zorder=2.5)
        for case, (label, color, marker, line) in _LOOKS.items():
            part = frame[frame.case == case]
            for ax, column in zip(axes, ("kl", "mae"), strict=True):
                band(ax, part, "t", column, label, COLORS[color], marker=marker, linestyle=line, zorder=3)
        axes[0].set(ylabel="averaged KL(current‖original) [nats]", title="averaged KL")
        axes[1].set(ylabel="averaged log-ratio MAE [nats]", title="error of log-ratios", yscale="log")
        axes[1].yaxis.set_minor_locator(LogLocator(subs=(2.0, 5.0)))
        axes[1].yaxis.set_major_formatter("{x:g}")
        axes[1].yaxis.set_minor_formatter("{x:g}")
        for ax in axes:
            ax.set(xlabel="time t = number of originals", xticks=_ticks(args.originals))
        axes[0].legend(loc="upper left")
    return fig


def _ticks(last: int) -> list[int]:
    return list(range(1, last + 1, max(1, last // 10)))


def caption(args: Args) -> str:
    """Say what the figure shows, and what was shortened."""
    text = (
        f"Fig. 3c: {args.originals} originals N(2τ, I) in {args.dim}-D, one joining at each time and then moving by "
        f"{args.delta:g} a step (mean and standard deviation; at time t original τ has moved t−τ+1 steps). Left: "
        f"KL(current‖original) averaged over the originals; right: mean absolute error of log-ratios, averaged alike. "
        f"KLIEP (green) keeps all originals. "
        f"{'One seed.' if args.seeds == 1 else f'Lines: means, bands: one standard deviation of {args.seeds} seeds.'}"
    )
    changes = {
        "rows": f"{args.rows:,} rows a window, and a fifth of it for validation, instead of {PAPER.rows:,}",
        "epochs": f"{args.epochs} epochs a fit instead of up to {PAPER.epochs}",
        "rate": f"learning rate {args.rate:g} instead of {PAPER.rate:g}",
        "times": f"static KLIEP at t = {', '.join(map(str, args.times))} only",
        "seeds": f"{counted(args.seeds, 'seed')} instead of {PAPER.seeds}",
    }
    return text + remark("Unlike the paper", (changes[field] for field in changed(args, PAPER, changes)))


def verdict(frame: pd.DataFrame, args: Args) -> str:
    """Compare CKLIEP and KLIEP at the last time, by KL and by log-ratios; then driftline."""
    frame = frame.assign(off=(frame.kl - frame.true_kl).abs())
    last = frame[frame.t == args.originals].set_index(["case", "seed"]).sort_index()
    by_kl, by_each, by_mae = (
        _closer(last.loc[CKLIEP, column] - last.loc[KLIEP, column]) for column in ("off", "each_off", "mae")
    )
    same = by_kl == by_mae
    off = last.off.groupby("case").mean()
    cause = (
        "closer than its network, whose error is then not one of static estimation as such"
        if off[CONVEX] < off[KLIEP]
        else "no closer than its network: a model that holds the true ratio does not help it"
    )
    ours = frame[frame.case == OURS]
    inside = int(((ours.window_kl - ours.exact_kl).abs() <= 1.96 * ours.window_error).sum())
    best = "the closest of all" if off.idxmin() == OURS else f"not the closest: that is {off.idxmin()}"
    truth = ["truth", f"{last.true_kl.mean():.3f}", "", "", ""]
    return markdown.verdict(
        f"By averaged KL and log-ratios {by_kl}" if same else f"By averaged KL {by_kl}; by log-ratios {by_mae}",
        markdown.table(
            [f"at t={args.originals}, in nats", "averaged KL", "off by", "one original off by", "log-ratio MAE"],
            [truth, *([label, *_numbers(last.loc[case])] for case, (label, *_) in _LOOKS.items())],
        ),
        [
            "The paper claims that CKLIEP outperforms KLIEP as t grows, with several originals as with one.",
            _chance(len(last.loc[CKLIEP])),
            f"driftline's default, one estimator that keeps no original, is {best}; {inside} of {len(ours)} of its "
            "95 % intervals for the averaged KL hold the truth.",
        ],
        [
            f"An average lets errors of both signs cancel; by the KL of a single original {by_each}.",
            f"KLIEP with a quadratic model for each original is {cause}.",
            "Intervals are counted over all times and seeds; those of one seed are not independent.",
        ],
    )


def _closer(differences: pd.Series) -> str:
    """Say who is closer in how many seeds, and whether as claimed, from CKLIEP's error minus KLIEP's in each."""
    seeds, ahead, behind = len(differences), int((differences < 0).sum()), int((differences > 0).sum())
    where = f"in {every(seeds, 'seed')}"
    if ahead == seeds:
        return f"CKLIEP is closer {where}, as claimed"
    if behind == seeds:
        return f"KLIEP is closer {where}, against the claim"
    return f"neither is closer in all seeds (CKLIEP in {ahead} of {seeds})"


def _chance(seeds: int) -> str:
    """Say how often so many seeds agree by chance."""
    if seeds == 1:
        return "One seed only: who is closer may be chance."
    few = f"{seeds} seeds are few: " if seeds < _ENOUGH else ""
    words = f"were both alike, {every(seeds, 'seed')} would agree by chance 1 time in {2 ** (seeds - 1)}."
    return capitalised(few + words)


def _numbers(part: pd.DataFrame) -> list[str]:
    """KL with its error, that of a single original, and the log-ratios' error: means over the seeds."""
    errors = [f"{part.off.mean():.3f}", f"{part.each_off.mean():.3f}", f"{part.mae.mean():.2f}"]
    return [mean_spread(part.kl, 3), *errors]


EXPERIMENT = Experiment(
    name="tracing-multiple",
    paper="Fig. 3c",
    title="averaged KL of originals that join one by one",
    presets={"quick": Args(), "paper": PAPER},
    work=Work(units, run),
    results=Results(figure, caption, verdict),
)
