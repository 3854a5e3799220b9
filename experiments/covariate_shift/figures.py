"""The figure of backward covariate shift: the synthetic stream above, the electricity market below."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import norm

from experiments.covariate_shift import electricity
from experiments.covariate_shift.cases import CKLIEP, DRIFTLINE, ELECTRICITY, FIRST, PLAIN, TRUE
from experiments.covariate_shift.electricity import METHODS, MODELS, PERMUTED, PRICE, STATIC, UP, WEIGHTED
from experiments.covariate_shift.stream import LATEST, NOISE_VARIANCE, SHOWN, curve, moments, sample
from experiments.figures import COLORS, band, canvas, plain_ticks, style

__all__ = ["errors_figure"]

_LOOKS = {
    PLAIN: ("red", "-", "s"),
    CKLIEP: ("orange", "-", "^"),
    DRIFTLINE: ("driftline", "-", "o"),
    TRUE: ("green", "--", ""),
    FIRST: ("truth", ":", ""),
}
_TABLE_LOOKS = {
    electricity.PLAIN: ("red", "s", "unweighted"),
    WEIGHTED: ("driftline", "o", "weighted by driftline"),
    STATIC: ("sky", "D", "weighted, first window kept"),
    PERMUTED: ("grey", "v", "driftline's weights, permuted"),
    electricity.FIRST: ("truth", "_", "trained on first window"),
}


def errors_figure(frame: pd.DataFrame) -> Figure:
    """Above the synthetic stream; below, where the table was at hand, the electricity market."""
    real = frame[frame.case == ELECTRICITY]
    with style():
        fig, axes = canvas(2 if len(real) else 1, 3, width=10.0, height=6.2 if len(real) else 3.1, squeeze=False)
        _densities(axes[0, 0])
        _lines(axes[0, 1], frame[frame.case != ELECTRICITY])
        _errors(axes[0, 2], frame[frame.case != ELECTRICITY])
        if len(real):
            _levels(axes[1, 0], real, PRICE)
            _levels(axes[1, 1], real, UP)
            _change(axes[1, 2], real)
            axes[1, 0].legend(loc="upper left", fontsize=7)
            low, high = axes[1, 2].get_ylim()
            axes[1, 2].set_ylim(low, 1.08 * high)  # room for the legend above the dots
            axes[1, 2].legend(loc="upper center", ncols=2)
            for ax in axes[1, :2]:  # room for the legend, the same in both
                ax.set_ylim(0.0, 1.45 * ax.get_ylim()[1])
    return fig


def _densities(ax: Axes) -> None:
    x = np.linspace(*SHOWN, 300)
    for t, color in ((1, "sky"), (LATEST, "pink")):
        density = norm.pdf(x, *moments(t))
        ax.fill_between(x, density, color=COLORS[color], alpha=0.35, linewidth=0)
        ax.plot(x, density, color=COLORS[color], label=f"density of D{'₁' if t == 1 else '₁₀'}")
    for t in range(2, LATEST):
        ax.plot(x, norm.pdf(x, *moments(t)), color=COLORS["grey"], linewidth=0.5, alpha=0.6)
    ax.set(xlabel="x", ylabel="density", title="how x drifts", xlim=(x[0], x[-1]), ylim=(0.0, 1.8))
    ax.legend(loc="upper right")


def _lines(ax: Axes, frame: pd.DataFrame) -> None:
    """The lines of the first seed at the latest time, over rows of both ends of the stream."""
    rng = np.random.default_rng(0)
    for t, color in ((LATEST, "pink"), (1, "sky")):
        x, y = sample(t, 300, rng)
        ax.plot(x[:, 0], y, ".", color=COLORS[color], markersize=2.5, alpha=0.6)
    x = np.linspace(*SHOWN, 200)
    ax.plot(x, curve(x), color=COLORS["grey"], linewidth=1, label="1.2x³ − 2.4x² + 3.6x")
    latest = frame[(frame.t == LATEST) & (frame.seed == frame.seed.min())].set_index("method")
    for method, (color, dashes, _) in _LOOKS.items():
        ends, width = np.array(SHOWN), 3.0 if method == DRIFTLINE else 1.5  # it lies under the next two
        ax.plot(
            ends,
            latest.at[method, "intercept"] + latest.at[method, "slope"] * ends,
            dashes,
            color=COLORS[color],
            lw=width,
        )
    ax.set(
        xlabel="x",
        ylabel="y",
        title="lines fitted at t = 10 (colours: right panel)",
        xlim=SHOWN,
        ylim=(-3.0, 14.0),
    )
    ax.legend(loc="upper left")


def _errors(ax: Axes, frame: pd.DataFrame) -> None:
    for method, (color, dashes, marker) in _LOOKS.items():
        band(ax, frame[frame.method == method], "t", "mse", method, COLORS[color], linestyle=dashes, marker=marker)
    ax.set(
        xlabel="latest window t",
        ylabel="mean squared error on new rows of D₁",
        yscale="log",
        title="error on the first distribution",
    )
    ax.axhline(NOISE_VARIANCE, color=COLORS["grey"], linewidth=0.8, label="noise")
    plain_ticks(ax, (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0))
    ax.legend(loc="upper left")


def _levels(ax: Axes, frame: pd.DataFrame, target: str) -> None:
    """Draw the test error by model and training: mean over splits, bars of one standard deviation."""
    part = frame[frame.target == target]
    for offset, method in zip(np.linspace(-0.27, 0.27, len(METHODS)), METHODS, strict=True):
        color, marker, label = _TABLE_LOOKS[method]
        grouped = part[part.method == method].groupby("model")["error"]
        mean, spread = (values.reindex(MODELS).to_numpy() for values in (grouped.mean(), grouped.std().fillna(0.0)))
        scale = 1.0 if target == PRICE else 100.0
        ax.errorbar(
            np.arange(len(MODELS)) + offset,
            scale * mean,
            scale * spread,
            fmt=marker,
            color=COLORS[color],
            markersize=7 if marker == "_" else 4,
            elinewidth=1,
            label=label,
        )
    ax.set_xticks(range(len(MODELS)), MODELS)
    ax.set(
        title="price of the first window" if target == PRICE else "price up or down",
        ylabel="test RMSE [log price]" if target == PRICE else "test error [% of half-hours]",
        xlabel="kind of model",
    )
    ax.grid(axis="x", visible=False)


def _change(ax: Axes, frame: pd.DataFrame) -> None:
    """Draw the weighted error over the unweighted one, a dot for each split and a bar for their geometric mean."""
    wide = frame.pivot_table(index=["target", "model", "seed"], columns="method", values="error")
    ratio = (wide[WEIGHTED] / wide[electricity.PLAIN]).dropna()
    for offset, target, color in ((-0.17, PRICE, "driftline"), (0.17, UP, "orange")):
        for place, kind in enumerate(MODELS):
            values = ratio.loc[(target, kind)].to_numpy()
            ax.plot(
                np.full(len(values), place + offset),
                values,
                "o",
                color=COLORS[color],
                alpha=0.45,
                markersize=3.5,
                markeredgewidth=0,
                label=target if not place else None,
            )
            middle = np.exp(np.log(values).mean())
            ax.plot([place + offset - 0.13, place + offset + 0.13], [middle, middle], color=COLORS[color])
    ax.axhline(1.0, color=COLORS["truth"], linewidth=0.8)
    ax.set_xticks(range(len(MODELS)), MODELS)
    ax.set(title="what the weights change", ylabel="error weighted / unweighted", xlabel="kind of model", yscale="log")
    plain_ticks(ax, (0.7, 0.8, 0.9, 1.0, 1.2, 1.5, 2.0, 3.0))
    ax.grid(axis="x", visible=False)
