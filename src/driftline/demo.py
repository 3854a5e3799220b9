"""The demo: a drifting stream tracked live in the terminal, estimate beside truth, and a figure."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from driftline.alarms import DriftAlarm, Signal
from driftline.estimates import Estimate
from driftline.estimators import ContinualDensityRatio
from driftline.shell import UntrustedEstimateWarning
from driftline.streams import GaussianStream

__all__ = ["Row", "draw", "run"]

_BARS = "▁▂▃▄▅▆▇█"
_COLOURS = {"normal": "green", "warning": "yellow", "alarm": "red"}
_TOLERANCE = 0.1  # nats


class Row(NamedTuple):
    """One window of the demo."""

    t: int
    truth: float
    estimate: Estimate
    step: Estimate
    signal: str
    error: float
    size: float
    seconds: float


def run(*, windows: int, rows: int, model: str, figure: str, seed: int) -> list[Row]:
    """Track the stream, print as it goes, write the figure, return the rows of the table."""
    console = Console()
    stream, rng = GaussianStream(dim=32, delta=0.02), np.random.default_rng(seed)
    console.print(
        f"\n[bold]driftline demo[/]: {windows} windows of {rows:,} rows × {stream.dim} columns. In every column the "
        "mean rises and the spread shrinks by 0.02 a window. The first window is where it began; once the next has "
        "come, it is thrown away. How far have we drifted, in nats of KL(current‖original)? The alarm tolerates "
        f"{_TOLERANCE} nats and promises one false alarm in 1,000 windows.\n"
    )
    estimator, alarm = ContinualDensityRatio(model=model, random_state=seed), DriftAlarm(_TOLERANCE, run_length=1000)
    estimator.fit(stream.sample(0, rows, rng))
    results: list[Row] = []
    progress = Progress(TextColumn("windows"), BarColumn(), MofNCompleteColumn(), console=console)
    task = progress.add_task("windows", total=windows)
    with Live(_screen(results, progress), console=console, refresh_per_second=8) as live, warnings.catch_warnings():
        warnings.simplefilter("ignore", UntrustedEstimateWarning)
        for t in range(1, windows + 1):
            window = stream.sample(t, rows, rng)
            began = time.perf_counter()
            estimator.partial_fit(window)
            seconds = time.perf_counter() - began
            fresh = stream.sample(t, 2000, rng)
            error = float(np.abs(estimator.log_ratio(fresh) - stream.log_ratio(fresh, t)).mean())
            size = estimator.info_.originals["original"].effective_sample_size
            estimate, step = estimator.divergence("reverse_kl"), estimator.step_divergence("reverse_kl")
            signal = alarm.update(estimate, step).signal if np.isfinite(estimate.std_error) else Signal.NORMAL
            results.append(Row(t, stream.reverse_kl(t), estimate, step, signal, error, size, seconds))
            progress.advance(task)
            live.update(_screen(results, progress))
    last = results[-1]
    path = Path(figure)
    draw(results, path)
    off = last.estimate.value / last.truth - 1.0
    console.print(
        f"\nAfter {last.t} windows the stream is [bold]{last.estimate.value:.3f}[/] nats from its original "
        f"(truth {last.truth:.3f}, off by {off:+.1%}); no row of the original was kept.\nFigure: {path}\n"
    )
    return results


def _screen(results: list[Row], progress: Progress) -> Group:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1))
    for title in ("t", "truth", "estimate ± s.e.", "this step", "alarm", "error of log r", "rows' worth", "seconds"):
        table.add_column(title, justify="right", no_wrap=True)
    for row in results:
        table.add_row(
            str(row.t),
            f"{row.truth:.3f}",
            f"{row.estimate.value:.3f} ± {row.estimate.std_error:.3f}",
            f"{row.step.value:.3f}",
            f"[{_COLOURS[row.signal]}]{row.signal}[/]",
            f"{row.error:.3f}",
            f"{row.size:,.0f}",
            f"{row.seconds:.2f}",
        )
    return Group(table, Text("drift " + _sparkline([r.estimate.value for r in results]), style="cyan"), progress)


def _sparkline(values: list[float]) -> str:
    top = max([*values, 1e-12])
    return "".join(_BARS[min(7, max(0, int(8 * v / top)))] for v in values)


def draw(results: list[Row], path: Path) -> None:
    """The figure: estimate beside truth, their difference with its interval, and the error of the log-ratio."""
    from driftline.drawing import canvas, plain

    t = np.array([r.t for r in results])
    truth, value = (np.array(xs) for xs in zip(*[(r.truth, r.estimate.value) for r in results], strict=True))
    low, high = (np.array(xs) for xs in zip(*[(r.estimate.low, r.estimate.high) for r in results], strict=True))
    figure, panels = canvas(1, 3, width=13, height=4)
    left, middle, right = panels[0]
    left.plot(t, truth, color="black", lw=1.5, ls="--", label="truth", zorder=3)
    left.plot(t, value, color="C0", marker="o", ms=4, label="estimate")
    left.set(ylabel="KL(current ‖ original) [nats]", title="How far the stream has drifted")
    left.legend(frameon=False)
    middle.axhline(0.0, color="black", lw=1.5, ls="--")
    middle.plot(t, value - truth, color="C0", marker="o", ms=4, label="estimate − truth")
    if np.isfinite(low).all():
        middle.fill_between(t, low - truth, high - truth, color="C0", alpha=0.25, lw=0, label="95 % interval")
    middle.set(ylabel="difference [nats]", title="Estimate less truth")
    middle.legend(frameon=False)
    right.plot(t, [r.error for r in results], color="C1", marker="o", ms=4)
    right.set(ylabel="mean absolute error [nats]", title="Error of the log-ratio on new rows")
    right.set_ylim(bottom=0)
    for axes in (left, middle, right):
        axes.set_xlabel("window t")
        plain(axes, size=11)
        axes.xaxis.get_major_locator().set_params(integer=True)
    figure.savefig(path, dpi=150)
