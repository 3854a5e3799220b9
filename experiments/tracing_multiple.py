r"""Fig. 3c: originals that join one by one and drift, traced by one estimator, against static KLIEP.

Original tau starts at N(2 tau, I) in 64-D and joins at time tau. From then on it moves by delta = 0.01 (mean up,
standard deviation down) at each step: at time t it has moved t - tau steps. The averages are over the originals that
have moved, tau < t, as the paper's text says. At t = 10 these are nine, which moved 1 to 9 steps: the mean true KL is
0.309, and the authors' plot ends near 0.31. With the newest counted as moved one step, it would be 0.376; with the
newest counted as unmoved, 0.278.

Shared estimators see the two latest windows of each original. Static ones keep every original's rows: the authors'
KLIEP is the same network with a head for each original, fitted without the recursion; ours is a network for each
original, or a quadratic model. All methods of a seed get the same windows, validation rows included, and are measured
on the same further rows of the current distributions: KL(current‖original) and the error of log-ratios, both averaged
over the originals.

As printed, networks standardise the columns of each original by its first window. This removes the offsets 2 tau. As
in the authors' code, inputs are raw, and the network has to deal with the offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from driftline import ContinualDensityRatio, DensityRatio, FitDivergedError
from driftline.fitting import FitInfo, check_device
from driftline.synthetic import GaussianStream
from experiments import markdown
from experiments.arguments import changed, check_above_zero, check_among, check_at_least, check_drift, flag, remark
from experiments.experiment import Experiment, Report, Results, Row, Unit, Work
from experiments.figures import COLORS, band, canvas, style
from experiments.methods import Floats, ckliep, epochs_to, errors, fit_columns, without_validation
from experiments.resuming import step_by_step, tidy
from experiments.words import capitalised, counted, every, mean_spread, span

CKLIEP, KLIEP, EACH, CONVEX, OURS = "CKLIEP", "KLIEP", "KLIEP, each", "KLIEP, quadratic", "driftline"
NAMES = (CKLIEP, KLIEP, EACH, CONVEX, OURS)
VARIANTS = ("printed", "code")
_VARIED = (CKLIEP, KLIEP, EACH)
_CODE = ", code"


class Look(NamedTuple):
    """How a figure shows a method."""

    label: str
    color: str
    marker: str
    line: str


_PRINTED = {
    CKLIEP: Look("CKLIEP, shared network", "red", "s", "-"),
    KLIEP: Look("KLIEP, shared network", "green", "v", "-"),
    EACH: Look("KLIEP, network each", "pink", "D", "-"),
}
_LOOKS = {
    **_PRINTED,
    **{f"{name}{_CODE}": look._replace(label=f"{look.label}, code", line="-.") for name, look in _PRINTED.items()},
    CONVEX: Look("KLIEP, quadratic each", "green", "^", "--"),
    OURS: Look("driftline", "driftline", "o", "-"),
}

_ENOUGH = 6  # seeds that agree by chance less than 1 time in 20


@dataclass(frozen=True)
class Args:
    """Arguments: sizes of the stream, training of the networks, methods, and ``times`` of the static methods."""

    seeds: int = 3
    first_seed: int = 0
    methods: tuple[str, ...] = flag(NAMES, "methods to run, in quotes if a name has a space")
    variants: tuple[str, ...] = ("printed",)
    originals: int = flag(10, "originals, one joining at each time, the last one at the last time; at least 2")
    dim: int = 64
    delta: float = 0.01
    rows: int = 16_000
    test_rows: int = flag(20_000, "rows of each current distribution that errors are measured on")
    epochs: int = 5
    rate: float = 1e-3
    times: tuple[int, ...] = flag((2, 6, 10), "times at which KLIEP is fitted, rising from 2 or later to --originals")
    device: str = "auto"

    def __post_init__(self) -> None:
        check_at_least(self, 1, "seeds", "dim", "rows", "test_rows", "epochs")
        check_at_least(self, 2, "originals")
        check_at_least(self, 0, "first_seed")
        check_above_zero(self, "rate")
        check_drift(self, "originals")
        check_device(self.device)
        check_among(self, "methods", NAMES)
        check_among(self, "variants", VARIANTS)
        rising = list(self.times) == sorted(set(self.times))
        if not rising or not self.times or self.times[0] < 2 or self.times[-1] != self.originals:
            raise ValueError(
                f"--times {' '.join(map(str, self.times))} must rise from 2 or later to --originals {self.originals}"
            )


_SELECTING = {"methods", "variants", "first_seed", "times", "device"}
_FIELDS = tuple(field.name for field in fields(Args) if field.name not in _SELECTING)  # what rows depend on
PAPER = Args(seeds=10, variants=VARIANTS, rows=50_000, epochs=5000, rate=1e-5, times=tuple(range(2, 11)))


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

    def windows(self, t: int) -> dict[str, Floats]:
        """The windows at time t by the names of the originals that have moved."""
        return {str(tau): self.window(tau, t - tau) for tau in range(1, t)}

    def test(self, tau: int, moved: int) -> Floats:
        """Rows to measure on."""
        return self.stream(tau).sample(moved, self.args.test_rows, np.random.default_rng([self.seed, tau, moved, 1]))


def chosen(args: Args) -> list[str]:
    """Methods that the arguments name, in their variants."""
    return [
        name
        for name in _LOOKS
        if (method := name.removesuffix(_CODE)) in args.methods
        and (method not in _VARIED or ("code" if name.endswith(_CODE) else "printed") in args.variants)
    ]


def units(args: Args) -> list[Unit]:
    """Each method with each seed; static ones at each time, since their fits do not build upon each other."""
    found = []
    for seed in range(args.first_seed, args.first_seed + args.seeds):
        for name in chosen(args):
            if name.removesuffix(_CODE) in (CKLIEP, OURS):
                found.append(Unit(name, seed, args.originals - 1, fields=_FIELDS))
            else:
                found += [Unit(f"{name} @ {t}", seed, 1, fields=_FIELDS) for t in reversed(args.times)]
    return found


def run(args: Args, unit: Unit, report: Report, work: Path) -> Iterator[Row]:
    """A row for each time at which the method is measured.

    ``work`` keeps the rows and the estimator after each step of CKLIEP: a killed unit goes on from there.
    """
    name, _, time = unit.case.partition(" @ ")
    data, method = Data(args, unit.seed), name.removesuffix(_CODE)

    def network(**params: float) -> ContinualDensityRatio:
        variant = "code" if name.endswith(_CODE) else "printed"
        return ckliep(args.epochs, args.rate, unit.seed, report, variant=variant, device=args.device, **params)

    if method in (CKLIEP, OURS):
        start = network if method == CKLIEP else lambda: ContinualDensityRatio(random_state=unit.seed)
        rows = _traced(data, start, work, report)
    else:
        fit = {KLIEP: _fitted_together, EACH: _fitted_each, CONVEX: _fitted_convex}[method]
        rows = iter([_or_diverged(data, int(time), lambda: fit(data, int(time), network))])
    for row in rows:
        yield {"method": name, **row}


def _traced(data: Data, start: Callable[[], ContinualDensityRatio], work: Path, report: Report) -> Iterator[Row]:
    """One estimator for all originals: one more joins, then a step. After a step that diverges there is none."""
    times = range(2, data.args.originals + 1)

    def advance(estimator: ContinualDensityRatio | None, t: int) -> tuple[Row, ContinualDensityRatio | None]:
        report(f"t={t}")
        if estimator is None:
            return _row(data, t, None), None
        if t > 2:
            estimator.add_original(data.window(t - 1, 0), name=str(t - 1))
        row = _or_diverged(data, t, lambda: _of_estimator(data, t, estimator.partial_fit(data.windows(t))))
        return row, None if np.isnan(float(row["kl"])) else estimator

    def begin() -> ContinualDensityRatio:
        return start().fit(data.window(1, 0), name="1")

    return step_by_step(work, times, begin, advance, progress=epochs_to(report), device=data.args.device)


def _or_diverged(data: Data, t: int, fit: Callable[[], Row]) -> Row:
    """The row of a fit; one without an estimate if it diverges."""
    try:
        return fit()
    except FitDivergedError:
        return _row(data, t, None)


def _fitted_together(data: Data, t: int, network: Callable[..., ContinualDensityRatio]) -> Row:
    """The authors' baseline: one network with a head for each original, all of which are kept."""
    estimator = network(penalty=0.0).fit(data.window(1, 0), name="1")
    for tau in range(2, t):
        estimator.add_original(data.window(tau, 0), name=str(tau))
    return _of_estimator(data, t, estimator.partial_fit(data.windows(t)))


def _of_estimator(data: Data, t: int, estimator: ContinualDensityRatio) -> Row:
    """The row of an estimator of all originals, with its own KL on its windows and the error bar of that."""
    found = [estimator.divergence("reverse_kl", original=name) for name in estimator.originals_]
    # windows of different originals are independent: variances add up (no error bars in the paper's mode: NaN)
    error = float(np.sqrt(sum(f.std_error**2 for f in found))) / len(found)
    row = _row(data, t, {int(name): _scores(estimator, name) for name in estimator.originals_})
    row |= {"window_kl": float(np.mean([f.value for f in found])), "window_error": error}
    return row | _training([estimator.info_.originals["1"].fit], estimator.model == "mlp")


def _fitted_each(data: Data, t: int, network: Callable[..., ContinualDensityRatio]) -> Row:
    """A network for each original, from its own rows, which are kept."""
    each = {
        tau: network(penalty=0.0).fit(data.window(tau, 0)).partial_fit(data.window(tau, t - tau)) for tau in range(1, t)
    }
    fits = [estimator.info_.originals["original"].fit for estimator in each.values()]
    return _row(data, t, {tau: _scores(estimator, None) for tau, estimator in each.items()}) | _training(fits, True)


def _fitted_convex(data: Data, t: int, network: object) -> Row:
    """A quadratic model for each original, from its own rows, which are kept."""
    scores: dict[int, LogRatio] = {}
    for tau in range(1, t):
        ratio = DensityRatio(objective="kliep", model="quadratic", random_state=data.seed)
        scores[tau] = ratio.fit(data.window(tau, 0), data.window(tau, t - tau)).log_ratio
    return _row(data, t, scores)


LogRatio = Callable[[Floats], Floats]


def _scores(estimator: ContinualDensityRatio, name: str | None) -> LogRatio:
    return lambda rows: np.asarray(estimator.log_ratio(rows, original=name))


def _training(fits: Sequence[FitInfo | None], network: bool) -> Row:
    """Columns on the training of networks: most epochs, mean held-out loss, 1 if all converged, all seconds."""
    columns = [fit_columns(fit) for fit in fits if fit is not None] if network else []
    if not columns:
        return {}
    table = pd.DataFrame(columns)
    return {
        "epochs": int(table.epochs.max()),
        "held_out": float(table.held_out.mean()),
        "converged": int(table.converged.min()),
        "seconds": float(table.seconds.sum()),
    }


def _row(data: Data, t: int, log_ratios: Mapping[int, LogRatio] | None) -> Row:
    """Averages over the originals; ``true_kl`` is of the same rows as ``kl``, ``exact_kl`` of the distributions.

    ``each_off`` is by how much the KL of one original is off, on average: in ``kl`` errors of both signs cancel.
    """
    found = []
    for tau in range(1, t):
        stream, moved = data.stream(tau), t - tau
        rows = data.test(tau, moved)
        estimate = np.full(len(rows), np.nan) if log_ratios is None else log_ratios[tau](rows)
        of_tau = errors(estimate, stream.log_ratio(rows, moved))
        each_off = abs(of_tau["kl"] - of_tau["true_kl"])
        found.append({**of_tau, "each_off": each_off, "exact_kl": stream.reverse_kl(moved)})
    return {"t": t, **{key: float(np.mean([f[key] for f in found])) for key in found[0]}}


def figure(frame: pd.DataFrame, args: Args) -> Figure:
    """Averaged KL with the truth, and averaged error of log-ratios, against time."""
    with style():
        fig, axes = canvas(1, 2, height=3.4)
        truth = frame.groupby("t").exact_kl.mean()
        axes[0].plot(truth.index, truth, color=COLORS["truth"], linewidth=2.5, label="truth", zorder=2.5)
        for name, look in _LOOKS.items():
            part = frame[frame.method == name]
            if part.empty:
                continue
            for ax, column in zip(axes, ("kl", "mae"), strict=True):
                band(ax, part, "t", column, look.label, COLORS[look.color], marker=look.marker, linestyle=look.line)
        axes[0].set(ylabel="averaged KL(current‖original) [nats]", title="averaged KL")
        axes[1].set(ylabel="averaged log-ratio MAE [nats]", title="error of log-ratios", yscale="log")
        axes[1].yaxis.set_minor_locator(LogLocator(subs=(2.0, 5.0)))
        axes[1].yaxis.set_major_formatter("{x:g}")
        axes[1].yaxis.set_minor_formatter("{x:g}")
        for ax in axes:
            ax.set(xlabel="time t", xticks=_ticks(args.originals))
        fig.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return fig


def _ticks(last: int) -> list[int]:
    return list(range(2, last + 1, max(1, last // 10)))


def caption(args: Args) -> str:
    """Say what the figure shows, and what was shortened."""
    data = Data(args, 0)
    truth = np.mean([data.stream(1).reverse_kl(moved) for moved in range(1, args.originals)])
    networks = any(name.endswith(_CODE) for name in chosen(args))
    code = " As in the authors' code inputs are raw and the offsets remain." if networks else ""
    text = (
        f"Fig. 3c: originals N(2τ, I) in {args.dim}-D, one joining at each time τ and then moving by {args.delta:g} a "
        f"step (mean and standard deviation). Left: KL(current‖original) averaged over the originals that have moved "
        f"(τ < t; at t={args.originals} the truth is {truth:.3f}, the authors' plot ends near 0.31); right: mean "
        f"absolute error of log-ratios, averaged alike. KLIEP keeps all originals: in one network with a head for each "
        f"(the authors' baseline), in a network each, or in a quadratic model each. As printed, each original's own "
        f"standardiser removes the offsets 2τ.{code} "
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
    last = frame[frame.t == args.originals].set_index(["method", "seed"]).sort_index()
    known = [name for name in _LOOKS if name in last.index.get_level_values(0)]
    pairs = [(CKLIEP + variant, KLIEP + variant) for variant in ("", _CODE)]
    judged = [pair for pair in pairs if set(pair) <= set(known)]
    found = [_compared(last, *pair) for pair in judged]
    lead = "; ".join(words for words, _ in found) if found else "some methods alone"
    truth = ["truth", f"{last.true_kl.mean():.3f}", "", "", ""]
    return markdown.verdict(
        capitalised(lead),
        markdown.table(
            [f"at t={args.originals}, in nats", "averaged KL", "off by", "one original off by", "log-ratio MAE"],
            [truth, *([_LOOKS[name].label, *_numbers(last.loc[name])] for name in known)],
        ),
        [
            "The paper claims that CKLIEP outperforms KLIEP as t grows, with several originals as with one.",
            _chance(last.loc[judged[0][0]].index.nunique()) if judged else "",
            *_ours(frame, last, known),
        ],
        [
            *(words for _, words in found),
            _cause(last, known),
            _budgets(frame),
        ],
    )


def _compared(last: pd.DataFrame, one: str, other: str) -> tuple[str, str]:
    """Who is closer by averaged KL and by log-ratios; and by the KL of a single original."""
    by_kl, by_each, by_mae = (
        _closer(last.loc[one, column] - last.loc[other, column]) for column in ("off", "each_off", "mae")
    )
    words = f"by averaged KL and log-ratios {by_kl}"
    if by_kl != by_mae:
        words = f"by averaged KL {by_kl}; by log-ratios {by_mae}"
    coded = one.endswith(_CODE)
    single = f"by the KL of a single original{', as in the code,' if coded else ''} {by_each}."
    return (
        f"as in the authors' code, {words}" if coded else words,
        capitalised(single) if coded else f"An average lets errors of both signs cancel; {single}",
    )


def _cause(last: pd.DataFrame, known: list[str]) -> str:
    """Say whether a model that holds the true ratio helps static estimation."""
    if not {CONVEX, KLIEP} <= set(known):
        return ""
    off = last.off.groupby("method").mean()
    if off[CONVEX] < off[KLIEP]:
        return "KLIEP with a quadratic model for each original is closer than its network."
    return "KLIEP with a quadratic model for each original is no closer than its network."


def _ours(frame: pd.DataFrame, last: pd.DataFrame, known: list[str]) -> list[str]:
    if OURS not in known:
        return []
    ours, off = frame[frame.method == OURS], last.off.groupby("method").mean()
    inside = int(((ours.window_kl - ours.exact_kl).abs() <= 1.96 * ours.window_error).sum())
    best = "the closest of all" if off.idxmin() == OURS else f"not the closest: that is {off.idxmin()}"
    return [
        f"driftline's default, one estimator that keeps no original, is {best}; {inside} of {len(ours)} of its 95 % "
        "intervals for the averaged KL hold the truth (those of one seed are not independent)."
    ]


def _budgets(frame: pd.DataFrame) -> str:
    """Say how long networks trained, and how many fits had not converged."""
    if "epochs" not in frame or frame.epochs.isna().all():
        return ""
    fits = frame[frame.epochs.notna()]
    return (
        f"Networks trained for {span(fits.epochs)} epochs a fit; "
        f"{int((fits.converged == 0).sum())} of {len(fits)} fits were still improving at the end."
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
    work=Work(units, run, keeps=True, tidy=tidy),
    results=Results(figure, caption, verdict, ours=f"^{OURS}$"),
    folder_fields=("epochs",),
    takes={"quick": "5 min", "paper": "~9 h a seed"},
)
