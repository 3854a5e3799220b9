"""Ours: how the rule that ends the training of CKLIEP's network drives its error, in one step of Sec. 4.2's stream.

The step goes from t=4 to t=5. The ratio at t=4 is nearly exact (a convex fit in (x, x²), off by 0.06 nats), so that the
error at t=5 is that of the step's training. The network starts from fresh weights, as in the paper, or warm, from
weights that reproduce the ratio at t=4. It trains for all epochs once. Rules with less patience would have kept weights
of an earlier epoch on the same way, and these are measured when the rule would have ended the training.

The quick scale has a tenth of the updates at ten times the rate, on fewer rows. It was chosen on another seed (1000).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from itertools import product

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from driftline import ContinualDensityRatio
from driftline.fitting import (
    FitInfo,
    Network,
    Pair,
    Progress,
    Training,
    fit_network,
    fit_standardizer,
    kliep,
    log_mean_exp,
    mlp_factory,
    row_batches,
    run_epochs,
    split_rows,
)
from driftline.synthetic import GaussianStream
from experiments import markdown
from experiments.arguments import check_above_zero, check_among, check_at_least, differences, flag, remark
from experiments.experiment import Experiment, Report, Results, Row, Unit, Work
from experiments.figures import COLORS, canvas, plain_ticks, span, style
from experiments.methods import PAPER_EPOCHS, PAPER_RATE, Floats, epochs_to, errors, untrusted, without_validation
from experiments.words import capitalised, counted, mean_spread

FRESH, WARM = "fresh", "warm"
ALL = 0  # a patience without end: all epochs
CURVE, STOP = "curve", "stop"
_BEFORE, _AFTER = 4, 5
_TEST, _START = 1_000_000, 2_000_000  # keys of rows to measure on, and to learn the first weights from
_TESTED, _TAUGHT = 10_000, 25_000  # rows of a window
_KNOWN = 50_000  # rows at least from which the ratio before the step is made
_STILL = 1e-30  # a rate at which weights stay as they are
_DIFFERENT = 1.1  # a factor in error that counts as a difference
_MARKS = {2: "v", 10: "s", ALL: "o"}
_LINES = {FRESH: "-", WARM: "--"}
_COLORS = ("red", "driftline", "green", "orange")


@dataclass(frozen=True)
class Args:
    """Arguments: the stream, the training, and what of it varies.

    ``least`` epochs run under any rule. ``patiences`` compete with all ``epochs``; MAE is measured ``every`` so many.
    """

    seeds: int = 10
    dim: int = 64
    delta: float = 0.02
    rows: int = 50_000
    batch: int = flag(2000, "rows of a batch")
    epochs: int = PAPER_EPOCHS
    least: int = flag(100, "epochs before training may stop")
    every: int = flag(10, "epochs between two looks at errors")
    penalty: float = flag(10.0, "lambda_c")
    starts: tuple[str, ...] = flag((FRESH, WARM), "initial weights: fresh, warm (a copy of the ratio so far)")
    rates: tuple[float, ...] = flag((PAPER_RATE, 10 * PAPER_RATE), "learning rates")
    patiences: tuple[int, ...] = flag(
        (2, 10), "epochs without a new best after which training stops; all epochs are a case as well"
    )

    def __post_init__(self) -> None:
        check_at_least(self, 1, "seeds", "dim", "rows", "batch", "epochs", "least", "every")
        check_above_zero(self, "penalty")
        check_among(self, "starts", (FRESH, WARM))
        if not 0.0 < self.delta * _AFTER < 1.0:
            raise ValueError(f"--delta {self.delta:g} must be above 0 and below 1/{_AFTER}")
        if self.epochs % self.every:
            raise ValueError(f"--every {self.every} must divide --epochs {self.epochs}")
        for name, given in (("rates", self.rates), ("patiences", self.patiences)):
            if not given or min(given) <= 0:
                raise ValueError(f"--{name} {' '.join(map(str, given))}: at least one is needed, each above 0")


_FIELDS = tuple(field.name for field in fields(Args) if field.name not in ("starts", "rates"))  # what rows depend on


def units(args: Args) -> list[Unit]:
    """A training for each start and rate, seed by seed."""
    rows = args.epochs // args.every + len(args.patiences) + 1
    cases = [_case(start, rate) for start in args.starts for rate in args.rates]
    return [Unit(case, seed, rows, fields=_FIELDS) for seed in range(args.seeds) for case in cases]


def _case(start: str, rate: float) -> str:
    return f"{start}, rate {rate:g}"


def run(args: Args, unit: Unit, report: Report) -> Iterator[Row]:
    """Errors on the way, every so many epochs, and of the weights that each rule keeps."""
    start, rate = next((s, r) for s in args.starts for r in args.rates if _case(s, r) == unit.case)
    stream = GaussianStream(args.dim, args.delta)

    def rows(t: int, count: int, key: int = 0) -> Floats:
        return stream.sample(t, count, np.random.default_rng([unit.seed, t + key]))

    known, size = (without_validation(count) for count in (max(args.rows, _KNOWN), args.rows))
    original, many, after = rows(0, known), rows(_BEFORE, known), rows(_AFTER, size)
    with untrusted():
        exact = ContinualDensityRatio(model="quadratic", random_state=unit.seed).fit(original).partial_fit(many)
    before = many[:size]
    module = mlp_factory(generator=torch.Generator().manual_seed(unit.seed))(args.dim, 1)
    net = Network(fit_standardizer(original), module, 0, 1)
    if start == WARM:
        report("first weights")
        _reproduce(net, exact.log_ratio, np.concatenate([rows(t, _TAUGHT, _START) for t in (_BEFORE, _AFTER)]), unit)
    test = rows(_AFTER, _TESTED, _TEST)
    truth = stream.log_ratio(test, _AFTER)
    prev_num, prev_den = (_single(exact.log_ratio(x)) for x in (before, after))
    pair = Pair(net.inputs(before), net.inputs(after), prev_num, prev_den, net.outputs)

    def train(training: Training, watch: Progress) -> FitInfo:
        return fit_network(
            module, [pair], kliep, training, penalty=args.penalty, seed=unit.seed, split_seed=unit.seed, progress=watch
        )

    def measured() -> dict[str, float]:
        return errors(net(test) - log_mean_exp(net(after)), truth)

    training = ContinualDensityRatio.paper(epochs=args.epochs).training
    assert training is not None
    training = training._replace(batch=args.batch, lr=rate, min_epochs=args.least, patience=args.epochs)
    watch = _Watch(args, module, measured, train(training._replace(epochs=1, lr=_STILL), epochs_to(report)).held_out)

    def progress(epoch: int, epochs: int, loss: float, held_out: float) -> None:
        epochs_to(report)(epoch, epochs, loss, held_out)
        watch(epoch, held_out)

    train(training, progress)
    for row in watch.rows:
        yield {"start": start, "rate": rate, **row}


class _Watch:
    """Measures a network while it trains: its error on the way, and that of the weights each rule would keep."""

    def __init__(self, args: Args, module: torch.nn.Module, measured: Callable[[], dict[str, float]], first: float):
        self.rows: list[Row] = []
        self._args, self._module, self._measured = args, module, measured
        self._best, self._epoch, self._weights = first, 0, copy.deepcopy(module.state_dict())
        self._rules = {*args.patiences, ALL}

    def __call__(self, epoch: int, held_out: float) -> None:
        """Take notice of the end of an epoch, by the rule of :func:`driftline.fitting.run_epochs`."""
        args = self._args
        if epoch % args.every == 0:
            self._add(CURVE, ALL, epoch, held_out, self._measured())
        if held_out < self._best:
            self._best, self._epoch, self._weights = held_out, epoch, copy.deepcopy(self._module.state_dict())
        gone = epoch - self._epoch
        for patience in sorted(self._rules):
            tired = patience != ALL and gone >= max(patience, 1) and epoch >= args.least
            if tired or epoch == args.epochs:
                self._rules.remove(patience)
                self._add(STOP, patience, epoch, self._best, self._kept())

    def _kept(self) -> dict[str, float]:
        now = copy.deepcopy(self._module.state_dict())
        self._module.load_state_dict(self._weights)
        found = self._measured()
        self._module.load_state_dict(now)
        return found

    def _add(self, kind: str, patience: int, epoch: int, held_out: float, found: dict[str, float]) -> None:
        row: Row = {"kind": kind, "patience": patience, "epochs": epoch, "best": self._epoch, "held_out": held_out}
        self.rows.append({**row, **found})


def _reproduce(net: Network, psi: Callable[[Floats], Floats], x: Floats, unit: Unit) -> None:
    """Let a network learn a known function by least squares."""
    inputs, values = net.inputs(x), _single(psi(x))
    taught, held = split_rows(len(x), 0.1, unit.seed)
    generator, batches = torch.Generator().manual_seed(unit.seed), len(taught) // 500

    def loss(at: torch.Tensor) -> torch.Tensor:
        return ((net.outputs(inputs[at]) - values[at]) ** 2).mean()

    training = Training(epochs=10, lr=3e-3, patience=10)
    run_epochs(
        net.module,
        lambda: (loss(at) for at in row_batches(taught, batches, generator)),
        lambda: loss(held),
        training,
        batches,
        advice="give it fewer columns",
    )


def _single(values: Floats) -> torch.Tensor:
    return torch.from_numpy(values.astype(np.float32))


def figure(frame: pd.DataFrame, args: Args) -> Figure:
    """Error, held-out loss and KL over the epochs; marks where a rule ends the training, at what it keeps."""
    panels = {
        "mae": "MAE of log ratios [nats]",
        "held_out": "held-out loss [nats]",
        "kl": "KL(current‖original) [nats]",
    }
    with style():
        fig, axes = canvas(1, 3, height=2.9)
        for ax, (measure, label) in zip(axes, panels.items(), strict=True):
            for start in args.starts:
                for rate, color in zip(args.rates, _COLORS, strict=False):
                    _path(ax, frame[(frame.start == start) & (frame.rate == rate)], measure, COLORS[color], start)
            ax.set(xlabel="epochs", ylabel=label)
        axes[1].set_yscale("symlog", linthresh=0.02)  # a loss below 0 is possible: minus the divergence of the step
        plain_ticks(axes[1], (-0.1, 0, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10))
        axes[0].set_yscale("log")
        plain_ticks(axes[0], (0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10))
        truth = frame.true_kl.mean()
        axes[2].axhline(truth, color=COLORS["truth"], linewidth=1.2)
        axes[2].set_ylim(0.0, 2.0 * truth)
        fig.legend(handles=_handles(args), loc="outside upper center", ncols=5)
    return fig


def _path(ax: Axes, part: pd.DataFrame, measure: str, color: str, start: str) -> None:
    """Draw the mean over seeds with their range, and a mark for each rule."""
    span(ax, part[part.kind == CURVE], "epochs", measure, color, linestyle=_LINES[start])
    for patience, own in part[part.kind == STOP].groupby("patience"):
        at = own.epochs.mean(), own[measure].mean()
        full = color if start == FRESH else "white"
        ax.plot(*at, _mark(int(patience)), color=color, mfc=full, markersize=5, zorder=4, clip_on=False)


def _mark(patience: int) -> str:
    return _MARKS.get(patience, "D")


def _handles(args: Args) -> list[Line2D]:
    rates = zip(args.rates, _COLORS, strict=False)
    lines = [Line2D([], [], color=COLORS[color], label=f"rate {rate:g}") for rate, color in rates]
    starts = [Line2D([], [], color=COLORS["grey"], ls=_LINES[s], label=f"{s} weights") for s in args.starts]
    rules = [
        Line2D([], [], color=COLORS["grey"], marker=_mark(p), ls="", label=_named(p)) for p in (*args.patiences, ALL)
    ]
    return [*lines, *starts, *rules, Line2D([], [], color=COLORS["truth"], label="truth")]


def _named(patience: int) -> str:
    return "all epochs" if patience == ALL else f"patience {patience}"


def caption(args: Args) -> str:
    """Say what the figure shows, and what was shortened."""
    names = {
        "rows": "rows a window",
        "batch": "rows a batch",
        "epochs": "epochs",
        "least": "epochs at least",
        "rates": "rates",
        "starts": "first weights",
    }
    shorter = remark("Changed", differences(args, EXPERIMENT.presets["paper"], names))
    return f"""CKLIEP's step from t={_BEFORE} to t={_AFTER} on the {args.dim}-D Gaussian stream (Δ={args.delta:g},
    {args.rows:,} rows a window and a fifth more to validate on, λ_c={args.penalty:g}), from a nearly exact ratio at
    t={_BEFORE}, while its network trains. Marks: the end of training under each rule, which is in force after
    {args.least} epochs, at the values of the weights that it keeps, the best so far on held-out rows. Mean and
    range over {counted(args.seeds, "seed")}; KL above twice the truth is cut off.{shorter}"""


def verdict(frame: pd.DataFrame, args: Args) -> str:
    """Epochs, held-out loss, error and KL of each rule, and how the error depends on patience, rate and start."""
    stops = frame[frame.kind == STOP]
    short, start, rate = min(args.patiences), args.starts[0], args.rates[0]
    lines = []
    for choice in product(args.starts, args.rates, (*args.patiences, ALL)):
        own = stops[(stops.start == choice[0]) & (stops.rate == choice[1]) & (stops.patience == choice[2])]
        against = "" if choice[2] == ALL else f"×{factor(stops, choice, (*choice[:2], ALL)):.2f}"
        rule = _named(choice[2]).removeprefix("patience ")
        cells = [mean_spread(own.epochs, 0), mean_spread(own.held_out, 3), mean_spread(own.mae, 2), against]
        lines.append([choice[0], f"{choice[1]:g}", rule, *cells, f"{own.kl.mean():.2f}"])
    rates = [
        f"at rate {r:g} {start} weights have {_under_both(stops, (start, r), (start, rate), short)} the MAE at {rate:g}"
        for r in args.rates[1:]
    ]
    starts = [
        f"{s} weights at {rate:g} have {_under_both(stops, (s, rate), (start, rate), short)} the MAE of {start} ones"
        for s in args.starts[1:]
    ]
    return markdown.verdict(
        _lead(stops, (start, rate, short), (start, rate, ALL)),
        markdown.table(
            ["first weights", "rate", "patience", "epochs", "held-out loss", "MAE", "against all epochs", "KL"], lines
        ),
        [
            f"Numbers are of the weights kept at t={_AFTER}, in nats, means over {counted(args.seeds, 'seed')}; the "
            f"true KL is {stops.true_kl.mean():.2f}.",
            capitalised("; ".join(rates)) + "." * bool(rates),
            capitalised("; ".join(starts)) + "." * bool(starts),
        ],
        [
            "Over all rules, rates, first weights and seeds, the rank correlation of held-out loss and MAE is "
            f"{stops.held_out.rank().corr(stops.mae.rank()):.2f}.",
            f"A rule ends the training after {args.least} epochs at least, when so many in a row have brought no new "
            "best on the held-out rows. The authors' code has patience 2; the paper names no rule.",
            f"A factor of {_DIFFERENT:g} in all seeds counts as a difference.",
        ],
    )


Choice = tuple[str, float, int]
"""First weights, rate and patience."""


def ratios(stops: pd.DataFrame, one: Choice, other: Choice) -> pd.Series:
    """The error of one choice over that of another, seed by seed."""
    mae = stops.set_index(["start", "rate", "patience", "seed"]).mae.sort_index()
    return mae.loc[one] / mae.loc[other]


def factor(stops: pd.DataFrame, one: Choice, other: Choice) -> float:
    """The geometric mean of the ratios over seeds."""
    return math.exp(float(np.log(ratios(stops, one, other)).mean()))


def _lead(stops: pd.DataFrame, one: Choice, other: Choice) -> str:
    """Judge the least patience against all epochs, by all seeds; a single seed only suggests something."""
    found, rule = ratios(stops, one, other), _named(one[2])
    size = f"×{factor(stops, one, other):.2f} the MAE of all epochs ({one[0]} weights, rate {one[1]:g})"
    hedge = "one seed suggests that " if len(found) == 1 else ""
    if (found > _DIFFERENT).all():
        return capitalised(f"{hedge}the stopping rule drives the error: {rule} has {size}")
    if (found < 1.0 / _DIFFERENT).all():
        return capitalised(f"{hedge}{rule} is better than all epochs: it has {size}")
    return f"That the stopping rule drives the error is not seen: {rule} has {size}"


def _under_both(stops: pd.DataFrame, one: tuple[str, float], other: tuple[str, float], short: int) -> str:
    """The factor between two trainings under the least patience, and with all epochs."""
    found = (f"×{factor(stops, (*one, p), (*other, p)):.2f} ({_named(p)})" for p in (short, ALL))
    return " and ".join(found)


EXPERIMENT = Experiment(
    name="stopping",
    paper="ours",
    title="the rule that ends CKLIEP's training, and its error",
    presets={
        "quick": Args(seeds=3, rows=4000, batch=400, epochs=125, least=25, every=5, rates=(1e-4, 1e-3)),
        "paper": Args(),
    },
    work=Work(units, run),
    results=Results(figure, caption, verdict, ours="^$"),
    in_all=False,
    folder_fields=("rows",),
    takes={"quick": "3 min", "paper": "~3 h a seed"},
)
