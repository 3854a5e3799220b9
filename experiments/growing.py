"""Sec. 3.4: the network may change in mid-stream, since a step needs only the values of the previous one.

The paper remarks this without an experiment. Here the drift becomes harder half-way: the means move from the start, and
a linear log-ratio is all it takes; from ``turn`` on some columns also begin to wave with their neighbours. CKLIEP
follows with a small network, a large one, and a small one that is widened at the turn (and goes on from what it has
learned) or replaced by a deeper one (which starts from fresh weights). As in the paper but for epochs, rate, batch and
widths, and that each step starts from the weights of the one before.

Stream, widths and training were chosen on another seed (1000), so that the small network suffices up to the turn.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from driftline import ContinualDensityRatio
from driftline.fitting import FitDivergedError, check_device, mlp_factory
from experiments import markdown, methods
from experiments.arguments import check_above_zero, check_at_least, differences, flag, remark
from experiments.experiment import Experiment, Report, Results, Row, Unit, Work
from experiments.figures import COLORS, band, canvas, style
from experiments.methods import PAPER_EPOCHS, PAPER_RATE, Floats, epochs_to, errors
from experiments.resuming import step_by_step, tidy
from experiments.words import counted, every, mean_spread

SMALL, LARGE, WIDENED, DEEPER = "small", "large", "widened", "deeper"
_LOOKS = {SMALL: ("red", ":"), LARGE: ("driftline", "-"), WIDENED: ("green", "--"), DEEPER: ("orange", "-.")}
_TEST = 1_000_000  # keys of rows to measure on, apart from those of windows


@dataclass(frozen=True)
class Args:
    """Arguments: the stream, the widths of the networks, and their training."""

    seeds: int = 10
    dim: int = 16
    delta: float = flag(0.05, "how far means move in one time step")
    wave: float = flag(0.3, "how strongly a column waves with its neighbour, for each step after the turn")
    pairs: int = flag(2, "pairs of columns that wave")
    turn: int = flag(5, "time step from which on they wave, and at which networks grow")
    last: int = 10
    rows: int = 50_000
    batch: int = flag(2000, "rows of a batch")
    epochs: int = PAPER_EPOCHS
    rate: float = PAPER_RATE
    small: tuple[int, ...] = flag((8, 8), "hidden widths of the small network")
    large: tuple[int, ...] = flag((256, 256), "hidden widths of the large network")
    deep: tuple[int, ...] = flag((256, 256, 256), "hidden widths of the deeper network")
    device: str = "auto"

    def __post_init__(self) -> None:
        check_at_least(self, 1, "seeds", "dim", "pairs", "turn", "rows", "batch", "epochs")
        check_above_zero(self, "delta", "wave", "rate")
        check_device(self.device)
        if self.last <= self.turn:
            raise ValueError(f"--last {self.last} must be above --turn {self.turn}, for something to come after it")
        if 2 * self.pairs > self.dim:
            raise ValueError(f"--pairs {self.pairs} must be at most half of --dim {self.dim}")
        for name in ("small", "large", "deep"):
            if not getattr(self, name) or min(getattr(self, name)) < 1:
                raise ValueError(f"--{name} must be widths of at least 1")
        wider = len(self.small) == len(self.large) and all(a < b for a, b in zip(self.small, self.large, strict=False))
        if not wider:
            raise ValueError(f"--large {self.large} must have as many layers as --small {self.small}, all wider")


@dataclass(frozen=True)
class WavingStream:
    """Unit Gaussians with mean ``delta * t``; after ``turn`` columns of some pairs wave with their neighbours.

    In such a pair (a, b) the mean of b is ``delta * t + wave * (t - turn) * sin(1.5 a)``. Densities are exact, since b
    given a is Gaussian.
    """

    dim: int
    delta: float
    wave: float
    pairs: int
    turn: int

    def _means(self, x: Floats, t: int) -> Floats:
        """Means of all columns, those that wave given their neighbours in ``x``."""
        means, size = np.full_like(x, self.delta * t), self.wave * max(0, t - self.turn)
        means[:, 1 : 2 * self.pairs : 2] += size * np.sin(1.5 * x[:, : 2 * self.pairs : 2])
        return means

    def sample(self, t: int, n: int, rng: np.random.Generator) -> Floats:
        """Draw rows (n, dim) at time t."""
        x = rng.standard_normal((n, self.dim))
        x[:, ::2] += self.delta * t
        x[:, 1::2] += self._means(x, t)[:, 1::2]
        return x

    def log_ratio(self, x: Floats, t: int) -> Floats:
        """Return log p_0/p_t of rows, (n,)."""
        return np.asarray(0.5 * ((x - self._means(x, t)) ** 2 - x**2).sum(1))


def units(args: Args) -> list[Unit]:
    """Each network, seed by seed; the slowest first."""
    return [Unit(case, seed, args.last) for seed in range(args.seeds) for case in (LARGE, DEEPER, WIDENED, SMALL)]


def run(args: Args, unit: Unit, report: Report, work: Path) -> Iterator[Row]:
    """Errors after each step; no number from the first failed fit on. A killed unit goes on from its last step."""
    stream = WavingStream(args.dim, args.delta, args.wave, args.pairs, args.turn)
    deep = mlp_factory(args.deep)

    def rows(t: int) -> Floats:
        return stream.sample(t, methods.without_validation(args.rows), np.random.default_rng([unit.seed, t]))

    def start() -> ContinualDensityRatio:
        hidden = args.large if unit.case == LARGE else args.small
        found = methods.ckliep(
            args.epochs, args.rate, unit.seed, report, hidden=hidden, warm_start=True, device=args.device
        )
        assert found.training is not None
        found.set_params(training=found.training._replace(batch=args.batch))
        return found.fit(rows(0))

    def advance(estimator: ContinualDensityRatio | None, t: int) -> tuple[Row, ContinualDensityRatio | None]:
        test = stream.sample(t, 20_000, np.random.default_rng([unit.seed, _TEST + t]))
        truth = stream.log_ratio(test, t)
        if estimator is not None:
            if t == args.turn + 1 and unit.case == WIDENED:
                estimator.widen(args.large)
            if t == args.turn + 1 and unit.case == DEEPER:
                estimator.set_params(model=deep)
            try:
                with methods.untrusted():
                    value = estimator.partial_fit(rows(t)).log_ratio(test)
                fit = methods.fit_columns(estimator.info_.originals["original"].fit)
                return {"t": t, **errors(value, truth), **fit}, estimator
            except FitDivergedError:
                pass
        return {"t": t, **errors(np.full_like(truth, np.nan), truth)}, None

    times, model = range(1, args.last + 1), deep if unit.case == DEEPER else None
    return step_by_step(work, times, start, advance, progress=epochs_to(report), device=args.device, model=model)


def figure(frame: pd.DataFrame, args: Args) -> Figure:
    """Error and KL over time, a line a network; a line down where the drift becomes harder."""
    with style():
        fig, axes = canvas(1, 2)
        truth = frame.groupby("t").true_kl.mean()
        axes[1].plot(truth.index, truth.to_numpy(), color=COLORS["truth"], label="truth", linewidth=2)
        for case, (color, line) in _LOOKS.items():
            for ax, measure in zip(axes, ("mae", "kl"), strict=True):
                band(ax, frame[frame.case == case], "t", measure, _named(args, case), COLORS[color], linestyle=line)
        for ax, label in zip(axes, ("MAE of log ratios [nats]", "KL(current‖original) [nats]"), strict=True):
            ax.axvline(args.turn, color=COLORS["grey"], linewidth=1)
            ax.set(xlabel="time t [windows]", ylabel=label, ylim=(0, None))
        handles, labels = axes[1].get_legend_handles_labels()
        fig.legend(handles, labels, loc="outside upper center", ncols=3)
    return fig


def _named(args: Args, case: str) -> str:
    widths = {SMALL: args.small, LARGE: args.large, WIDENED: args.large, DEEPER: args.deep}[case]
    shown = "×".join(map(str, widths))
    return f"{case} ({shown})" if case in (SMALL, LARGE) else f"{case} at t={args.turn} (to {shown})"


def caption(args: Args) -> str:
    """Say what the figure shows, and what was shortened."""
    names = {
        "rows": "rows a window",
        "batch": "rows a batch",
        "epochs": "epochs",
        "rate": "rate",
        "large": "the large network",
    }
    shorter = remark("Changed", differences(args, EXPERIMENT.presets["paper"], names))
    return f"""CKLIEP with warm starts on a {args.dim}-D stream whose means move by {args.delta:g} a window; after
    t={args.turn} (grey line) {counted(args.pairs, "column")} also begin to wave with a neighbour each.
    {args.rows:,} rows a window and a fifth more to validate on, {args.epochs} epochs a step at rate {args.rate:g}.
    Means over {counted(args.seeds, "seed")}; bands: one standard deviation.{shorter}"""


def verdict(frame: pd.DataFrame, args: Args) -> str:
    """Errors at the turn and at the end, and how much of the small network's own error growing avoids."""
    grown = {case: recovered(frame, args, case) for case in (WIDENED, DEEPER)}
    ahead = {case: _ahead(frame, args, case) for case in grown}
    lines = []
    for case in _LOOKS:
        middle, end = (_at(frame, case, t) for t in (args.turn, args.last))
        cells = [mean_spread(part, 2) for part in (middle.mae, end.mae, end.mae - middle.mae, end.kl)]
        lines.append([_named(args, case), *cells])
    return markdown.verdict(
        _lead(ahead, args),
        markdown.table(
            [
                "network",
                f"MAE at t={args.turn}",
                f"MAE at t={args.last}",
                f"added after t={args.turn}",
                f"KL at t={args.last}",
            ],
            lines,
        ),
        [
            f"Numbers are in nats, means over {counted(args.seeds, 'seed')}; the true KL is "
            f"{frame[frame.t == args.last].true_kl.mean():.2f}.",
            f"Of the error that the small network adds after t={args.turn} beyond that of the large one, "
            + " and ".join(f"the {case} one avoids {_percent(share)}" for case, share in grown.items())
            + ".",
        ],
        [
            f"Seeds in which the error at t={args.last} is less than the small network's: "
            + ", ".join(f"{case} {count} of {args.seeds}" for case, count in ahead.items())
            + ".",
            "Widening keeps what the network computes; the deeper one starts from fresh weights and has to learn the "
            "whole ratio in its first step. Both changes are one call (`widen`, `set_params(model=...)`).",
        ],
    )


def _at(frame: pd.DataFrame, case: str, t: int) -> pd.DataFrame:
    return frame[(frame.case == case) & (frame.t == t)].set_index("seed")


def recovered(frame: pd.DataFrame, args: Args, case: str) -> float:
    """Share of the error which the small network adds after the turn, beyond the large one, that this one avoids."""
    small, large, own = (
        float((_at(frame, name, args.last).mae - _at(frame, name, args.turn).mae).mean(skipna=False))
        for name in (SMALL, LARGE, case)
    )
    return (small - own) / (small - large) if small > large else math.nan


def _ahead(frame: pd.DataFrame, args: Args, case: str) -> int:
    """Seeds in which a network ends with less error than the small one."""
    return int((_at(frame, case, args.last).mae < _at(frame, SMALL, args.last).mae).sum())


def _lead(ahead: dict[str, int], args: Args) -> str:
    right = [case for case, count in ahead.items() if count == args.seeds]
    if len(right) == len(ahead):
        return f"Confirmed: a network that grows at t={args.turn} ends ahead of one that stays small, in {_all(args)}"
    if not right:
        return f"Not seen: no network that grows at t={args.turn} ends ahead of the small one in {_all(args)}"
    return f"Confirmed for the {right[0]} network only: it ends ahead of the one that stays small in {_all(args)}"


def _all(args: Args) -> str:
    return every(args.seeds, "seed")


def _percent(share: float) -> str:
    return "no share" if math.isnan(share) else f"{share:.0%}"


EXPERIMENT = Experiment(
    name="growing",
    paper="Sec. 3.4",
    title="a network that grows in mid-stream",
    presets={
        "quick": Args(seeds=3, rows=10_000, batch=500, epochs=20, rate=1e-3, large=(128, 128), deep=(128, 128, 128)),
        "paper": Args(),
    },
    work=Work(units, run, keeps=True, tidy=tidy),
    results=Results(figure, caption, verdict, ours="^$"),
    in_all=False,
    takes={"quick": "2 min", "paper": "~5 h a seed"},
)
