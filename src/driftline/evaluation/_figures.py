"""Figures of generative models judged task after task; each function returns a matplotlib figure, for ``savefig``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from math import ceil
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatterSciNotation, NullFormatter

from driftline._plotting import COLORS, canvas, plain
from driftline._wording import title
from driftline.evaluation import _scores as scores
from driftline.evaluation.metrics import PRD

__all__ = ["matrix_figure", "measures_figure", "prd_figure", "samples_figure"]

_DECADES = 20.0  # ratio of the largest to the smallest value above which a scale is logarithmic
_TICKS = 12  # most task names below an axis
_NORMAL = 1.96
_GREY = "#7F7F7F"
_LONGEST = 14  # most characters of a task's name on an axis


def measures_figure(judges: Any, measures: Sequence[str] | None = None, *, columns: int = 4) -> Figure:
    """Draw a panel for each measure and a line for each model: the mean over the tasks so far, after each task learned.

    Bands are 95 % intervals of the mean where all its readings have errors (:func:`driftline.evaluation.averages`).
    The dashed line is the floor, real samples against real ones; where a logarithmic scale cannot show it, a note says
    so.

    Arguments:
        judges: ``{model: judge}``, each a :class:`~driftline.evaluation.ContinualEvaluation` or its ``table()``; a
            single one needs no name.
        measures: names of the measures; all those of the first model if None.
        columns: number of panels side by side.

    >>> from driftline.evaluation import ContinualEvaluation
    >>> rng = np.random.default_rng(0)
    >>> judge = ContinualEvaluation(measures=("kl", "js")).task("a", rng.normal(0, 1, (500, 2)))
    >>> figure = measures_figure({"mine": judge.update({"a": rng.normal(0.1, 1, (500, 2))})})
    >>> [axes.get_title() for axes in figure.axes]
    ['KL(real‖generated) [nats]', 'Jensen-Shannon [nats]']
    """
    tables = _tables(judges)
    names = list(dict.fromkeys(next(iter(tables.values()))["measure"])) if measures is None else list(measures)
    if not names:
        raise ValueError("no measures are given: name one, or leave measures out for all")
    across = min(_checked_columns(columns), len(names))
    down = ceil(len(names) / across)
    upright = max(_rotation(scores.learned(table)) for table in tables.values()) == 90
    figure, axes = canvas(down, across, width=max(3.4, 2.6 * across), height=(3.0 if upright else 2.3) * down + 0.4)
    for panel in axes.flat[len(names) :]:
        panel.remove()
    means = {model: scores.averages(table) for model, table in tables.items()}
    for panel, measure in zip(axes.flat, names, strict=False):
        _measure_panel(panel, {m: scores.of_measure(table, measure) for m, table in means.items()}, measure)
    found = [panel.get_legend_handles_labels() for panel in axes.flat[: len(names)]]
    shown = {label: line for lines, labels in found for line, label in zip(lines, labels, strict=True) if label}
    if shown:
        across = 4 if max(map(len, shown)) <= 20 else min(across, 2)
        lines, labels = list(shown.values()), list(shown)
        figure.legend(lines, labels, loc="outside lower center", ncols=across, frameon=False, fontsize=8)
    return figure


def _measure_panel(axes: Axes, means: Mapping[str, pd.DataFrame], measure: str) -> None:
    logarithmic = _spans_decades(np.concatenate([part["value"].to_numpy() for part in means.values()]))
    floors: list[npt.NDArray[np.float64]] = []
    for (model, part), color in zip(means.items(), cycle(COLORS), strict=False):
        x, value = np.arange(len(part)), part["value"].to_numpy()
        axes.plot(x, value, color=color, marker="o", markersize=3.5, linewidth=1.5, label=model)
        error = _NORMAL * part["std_error"].to_numpy()
        axes.fill_between(x, value - error, value + error, color=color, alpha=0.2, linewidth=0)
        if len(part) == 1:  # its band has no width
            axes.errorbar(x, value, error, fmt="none", ecolor=color)
        floors.append(part["floor"].to_numpy())
    _floors(axes, [floor for floor in floors if not logarithmic or (floor > 0).all()])
    tasks = max((list(part["after"]) for part in means.values()), key=len)
    _task_ticks(axes, tasks)
    axes.set(title=title(measure, "real", "generated"), xlabel="task learned")
    plain(axes)
    if logarithmic:
        _logarithmic(axes, [part["value"].to_numpy() for part in means.values()], floors)


def _floors(axes: Axes, floors: list[npt.NDArray[np.float64]]) -> None:
    """Draw floors as dashed lines, equal ones once; the floor of a single task spans the panel."""
    for i, floor in enumerate(floors):
        if not any(len(floor) == len(other) and np.allclose(floor, other) for other in floors[:i]):
            style: Any = {"color": _GREY, "linestyle": "--", "linewidth": 1.2}
            style["label"] = "real against real" if i == 0 else None
            if len(floor) == 1:
                axes.axhline(floor[0], **style)
            else:
                axes.plot(np.arange(len(floor)), floor, **style)


def _logarithmic(axes: Axes, values: list[Any], floors: list[Any]) -> None:
    positive = [x[x > 0] for x in (*values, *floors)]
    low, high = min(x.min() for x in positive if len(x)), max(x.max() for x in positive if len(x))
    low = max(low, 1e-3 * min(x.min() for x in values))
    axes.set_yscale("log")
    axes.set_ylim(low / 2, high * 2)
    axes.yaxis.set_major_formatter(_Plain())
    axes.yaxis.set_minor_formatter(NullFormatter())
    if any((floor < low).any() for floor in floors):
        every = np.concatenate(floors)
        kind = "below" if (every > 0).all() else "0 or less" if (every <= 0).all() else "partly 0 or less"
        note = f"real against real: {kind}"
        axes.text(0.02, 0.02, note, transform=axes.transAxes, fontsize=7, color=_GREY)


class _Plain(LogFormatterSciNotation):
    """Tick labels with powers of ten near 1 as plain numbers."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        return f"{x:g}" if 1e-3 <= abs(x) < 1e4 else str(super().__call__(x, pos))


def _task_ticks(axes: Axes, tasks: list[str]) -> None:
    every = ceil(len(tasks) / _TICKS)
    axes.set_xticks(range(0, len(tasks), every), _labels(tasks)[::every])
    axes.tick_params(axis="x", labelrotation=_rotation(tasks))


def _rotation(tasks: list[str]) -> int:
    """Return the rotation, in degrees, that gives task names room below an axis."""
    shown = _labels(tasks)[:: ceil(len(tasks) / _TICKS)]
    longest = max(map(len, shown)) * len(shown)
    return 0 if longest <= 24 else 45 if longest < 60 else 90


def _labels(tasks: list[str]) -> list[str]:
    """Shorten names for an axis: without their middles, or numbered where that would make two the same."""
    short = [t if len(t) <= _LONGEST else f"{t[: _LONGEST - 7]}…{t[-6:]}" for t in tasks]
    if len(set(short)) == len(set(tasks)):
        return short
    return [f"{i}: {t[: _LONGEST - 5]}…" for i, t in enumerate(tasks, 1)]


def matrix_figure(judges: Any, measure: str) -> Figure:
    """Draw a heat map for each model: tasks learned from top to bottom, tasks measured from left to right.

    Tasks that had not begun are blank. All models share one colour scale.

    Arguments:
        judges: ``{model: judge}`` as in :func:`measures_figure`.
        measure: name of the measure.
    """
    found = {model: scores.matrix(table, measure) for model, table in _tables(judges).items()}
    values = np.concatenate([matrix.to_numpy().ravel() for matrix in found.values()])
    values = values[np.isfinite(values)]
    if not len(values):
        raise ValueError(f"measure={measure!r} has no finite reading: there is nothing to draw")
    size = max(len(matrix) for matrix in found.values())
    side = max(1.7, 0.36 * size)
    figure, axes = canvas(1, len(found), width=len(found) * (side + 0.7) + 0.9, height=side + 1.0)
    scale: Any = LogNorm if _spans_decades(values) else Normalize
    scale = scale(values.min(), values.max())
    better = scores.higher_is_better(measure)
    for panel, (model, matrix) in zip(axes.flat, found.items(), strict=True):
        image = panel.imshow(matrix.to_numpy(), cmap="Blues" if better else "Oranges", norm=scale)
        _cells(panel, matrix, scale)
        panel.set(title=model, xlabel="task measured")
    axes[0, 0].set_ylabel("task learned")
    for panel in axes.flat:
        plain(panel)
        panel.grid(False)
        panel.spines[:].set_visible(False)
    bar = figure.colorbar(image, ax=list(axes.flat), shrink=0.8)
    bar.set_label(f"{title(measure, 'real', 'generated')}\n({'higher' if better else 'lower'} is better)", fontsize=8)
    bar.ax.tick_params(labelsize=7)
    return figure


def _cells(axes: Axes, matrix: pd.DataFrame, scale: Any) -> None:
    rows = matrix.to_numpy()
    for i, j in zip(*np.nonzero(np.isfinite(rows)), strict=True):
        color = "white" if scale(rows[i, j]) > 0.6 else "black"
        axes.text(j, i, _short(rows[i, j]), ha="center", va="center", fontsize=6.5, color=color)
    _task_ticks(axes, list(matrix.columns))
    axes.set_yticks(range(len(matrix)), _labels(list(matrix.index)))


def _short(value: float) -> str:
    """Format a number in at most five characters where possible."""
    # half a digit below each limit, so that 0.0996 is written .10, not .100
    digits = next((d for limit, d in ((9.95, 0), (0.995, 1), (0.0995, 2)) if abs(value) >= limit), 3)
    text = f"{value:.{digits}f}" if abs(value) < 1e5 else f"{value:.0e}"
    if float(text) == 0.0:
        return "0"
    text = text.replace("0.", ".", 1) if abs(float(text)) < 1 else text
    return text.replace("-", "−", 1) if value < 0 and abs(value) < 1e5 else text


def prd_figure(curves: Mapping[str, PRD]) -> Figure:
    """Draw curves of :func:`driftline.evaluation.metrics.prd`, ``{label: PRD}``: attainable precision at each recall.

    >>> from driftline.evaluation.metrics import prd
    >>> x, y = np.random.default_rng(0).normal(0, 1, (2, 500, 2))
    >>> figure = prd_figure({"alike": prd(x, y), "half": prd(x, y[y[:, 0] > 0])})
    >>> figure.axes[0].get_xlabel()
    'recall'
    """
    if not curves:
        raise ValueError("no curves are given: pass {label: PRD}")
    figure, axes = canvas(1, 1, width=4.2, height=4.4)
    panel = axes[0, 0]
    for (label, found), color in zip(curves.items(), cycle(COLORS), strict=False):
        scored = f"{label}: F8 {found.f_8:.2f}, F1/8 {found.f_1_8:.2f}"
        panel.plot(found.recall, found.precision, color=color, linewidth=1.5, label=scored)
    panel.set(xlim=(0, 1.02), ylim=(0, 1.02), xlabel="recall", ylabel="precision", aspect="equal")
    plain(panel)
    figure.legend(loc="outside lower center", frameon=False, fontsize=8)
    return figure


def samples_figure(samples: Mapping[str, Any], *, columns: int = 10) -> Figure:
    """Draw samples in a grid, one row for each task; one grid for each model if there are several.

    Arguments:
        samples: ``{task: images}`` or ``{model: {task: images}}``, images of shape (n, h, w) or (n, h, w, c) with c
            equal to 1, 3 or 4; colours are integers up to 255 or numbers in [0, 1].
        columns: most images shown of each task.

    >>> figure = samples_figure({"a": np.random.default_rng(0).random((20, 8, 8)), "b": np.zeros((3, 8, 8))})
    >>> [label.get_text() for label in figure.axes[0].get_yticklabels()]
    ['a', 'b']
    """
    if not samples:
        raise ValueError("no samples are given: pass {task: images}")
    several = all(isinstance(value, Mapping) for value in samples.values())
    models = dict(samples) if several else {"": samples}
    empty = [model for model, rows in models.items() if not rows]
    if empty:
        raise ValueError(f"model(s) {empty} have no samples: pass {{model: {{task: images}}}}")
    _checked_columns(columns)
    checked = {m: {t: _images(x, f"{m} {t}".strip())[:columns] for t, x in rows.items()} for m, rows in models.items()}
    everything = [images for rows in checked.values() for images in rows.values()]
    shapes = sorted({images.shape[1:] for images in everything})
    if len(shapes) > 1:
        raise ValueError(f"images of one figure must have one shape, got {shapes}")
    tasks, across = max(map(len, checked.values())), max(map(len, everything))
    width, height = max(2.0, 0.32 * across), max(0.6, 0.32 * tasks * shapes[0][0] / shapes[0][1])
    figure, axes = canvas(1, len(checked), width=len(checked) * (width + 0.5), height=height + 0.35)
    limits = {"vmin": min(x.min() for x in everything), "vmax": max(x.max() for x in everything)}
    for panel, (model, rows) in zip(axes.flat, checked.items(), strict=True):
        picture = np.concatenate([_line(images, across) for images in rows.values()])
        panel.imshow(picture, interpolation="nearest", cmap="gray_r", **limits)
        step = len(picture) / len(rows)
        panel.set_yticks((np.arange(len(rows)) + 0.5) * step - 0.5, list(rows), fontsize=8)
        panel.set_xticks([])
        panel.tick_params(length=0)
        panel.spines[:].set_visible(False)
        panel.set_title(model, fontsize=9)
    return figure


def _images(images: Any, what: str) -> npt.NDArray[Any]:
    found = images.detach().cpu().numpy() if hasattr(images, "detach") else np.asarray(images)
    if found.ndim == 4 and found.shape[-1] == 1:
        found = found[..., 0]
    coloured = found.ndim == 4 and found.shape[-1] in (3, 4)
    if (found.ndim != 3 and not coloured) or not len(found):
        hint = "; channels come last" if found.ndim == 4 else ""
        raise ValueError(f"samples of {what!r} must be images (n, h, w) or (n, h, w, c), got {found.shape}{hint}")
    if coloured and found.dtype != np.uint8 and not (found.min() >= 0 and found.max() <= 1):
        raise ValueError(f"samples of {what!r} have colours from {found.min():.3g} to {found.max():.3g}: use 0 to 1")
    return found / 255 if coloured and found.dtype == np.uint8 else found.astype(float)


def _line(images: npt.NDArray[Any], across: int) -> npt.NDArray[Any]:
    """Put images side by side, each with a gap: nan, which is not drawn, or white between coloured images."""
    gap = 1.0 if images.ndim == 4 else np.nan
    room = [(0, across - len(images)), (0, 1), (0, 1)] + [(0, 0)] * (images.ndim - 3)
    return np.concatenate(list(np.pad(images, room, constant_values=gap)), axis=1)


def _checked_columns(columns: int) -> int:
    if columns < 1:
        raise ValueError(f"columns={columns} must be at least 1")
    return columns


def _spans_decades(values: npt.NDArray[np.float64]) -> bool:
    finite = values[np.isfinite(values)]
    return bool(len(finite) and finite.min() > 0 and finite.max() > _DECADES * finite.min())


def _tables(judges: Any) -> dict[str, pd.DataFrame]:
    """Return the checked tables of readings by model."""
    given = dict(judges) if isinstance(judges, Mapping) else {"": judges}
    if not given:
        raise ValueError("no model is given: pass {model: judge}")
    tables = {model: judge.table() if hasattr(judge, "table") else judge for model, judge in given.items()}
    for model, table in tables.items():
        if not isinstance(table, pd.DataFrame) or not {"after", "task", "measure", "value"} <= set(table.columns):
            raise TypeError(f"model {model!r}: pass a ContinualEvaluation or its table(), not {type(table).__name__}")
        if table.empty:
            raise ValueError(f"model {model!r} has no readings yet: call update first")
    texts = {"after": str, "task": str}  # names that are digits come back from a file as numbers
    return {model: table.astype(texts) for model, table in tables.items()}
