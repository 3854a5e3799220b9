"""The verdict on backward covariate shift: errors with and without weights, on the stream and on the market."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

from experiments import markdown
from experiments.covariate_shift import electricity
from experiments.covariate_shift.cases import CKLIEP, DRIFTLINE, ELECTRICITY, FIRST, PLAIN, TRUE
from experiments.covariate_shift.electricity import MODELS, PERMUTED, POOLED, PRICE, STATIC, TARGETS, TOLD, WEIGHTED
from experiments.covariate_shift.stream import LATEST
from experiments.words import capitalised, counted, listed, mean_spread

__all__ = ["verdict_of"]

_TRAININGS = {  # label: the method on the stream, that on the market
    "without weights": (PLAIN, electricity.PLAIN),
    "with CKLIEP's weights": (CKLIEP, None),
    "with driftline's weights": (DRIFTLINE, WEIGHTED),
    "with true weights": (TRUE, None),
    "with weights made from both windows": (None, STATIC),
    "with driftline's weights, permuted": (None, PERMUTED),
    "trained on the first window itself": (FIRST, electricity.FIRST),
}
_COLUMNS = {electricity.PRICE: "RMSE of the log price", electricity.UP: "% of classes wrong"}
_CLEAR = 2.0  # standard errors


def verdict_of(frame: pd.DataFrame, args: Any, paper: Any, missing: str) -> str:
    """Judge the synthetic stream, then the market; ``missing`` is the reason if there is no table."""
    stream, market = frame[(frame.case != ELECTRICITY) & (frame.t == LATEST)], frame[frame.case == ELECTRICITY]
    errors = {method: part["mse"] for method, part in stream.groupby("method")}
    mean = pd.Series({method: values.mean(skipna=False) for method, values in errors.items()})
    there = bool(len(market))
    columns = ["a model of the last window", "squared error on D₁", *(_COLUMNS[t] for t in TARGETS if there)]
    rows = [
        [label, "" if method is None else mean_spread(errors[method], 4, ddof=0), *_levels(market, other)]
        for label, (method, other) in _TRAININGS.items()
        if there or method is not None
    ]
    second = _on_market(market) if there else "the electricity table was not run"
    seeds = stream["seed"].nunique()
    return markdown.verdict(
        f"{_on_stream(mean)}; {second}",
        markdown.table(columns, rows),
        [
            "The paper claims that a line trained on D₁₀ with continually estimated weights fits D₁ better than one "
            f"without ({'one seed only' if seeds == 1 else counted(seeds, 'seed')}).",
            _bars(mean),
            _moved(market) if there else f"Electricity not run: {missing}.",
        ],
        [
            _stream_details(stream, args, paper),
            *(_market_details(market, args.split_weeks, args.split_windows) if there else ()),
        ],
    )


def _on_stream(mean: pd.Series) -> str:
    """Judge the claim by the paper's own criterion: whether the error is lower with weights than without."""
    found = []
    for method in (CKLIEP, DRIFTLINE):
        known = not math.isnan(mean[method] - mean[PLAIN])
        found.append(("confirmed" if mean[method] < mean[PLAIN] else "contradicted") if known else "no number")
    words = found[0] if found[0] == found[1] else f"{found[0]} with CKLIEP's weights, {found[1]} with driftline's,"
    return f"{capitalised(words)} on the synthetic stream"


def _bars(mean: pd.Series) -> str:
    """Driftline's error by this project's bars, which are stricter than the claim."""
    share, beyond = mean[DRIFTLINE] / mean[PLAIN], round(mean[DRIFTLINE] / mean[TRUE] - 1.0, 3) + 0.0  # no minus zero

    def bar(value: float, most: float, text: str) -> str:
        return "no number" if math.isnan(value) else f"{'met' if value <= most else 'missed'}, {text}"

    return (
        "This project asks more of driftline: at most half the error without weights "
        f"({bar(share, 0.5, f'{share:.1%} of it')}) and at most 10% above that with true weights "
        f"({bar(beyond, 0.1, f'{beyond:+.1%}')})."
    )


def _stream_details(stream: pd.DataFrame, args: Any, paper: Any) -> str:
    ess = stream[stream.method == TRUE]["ess"].mean()
    shortened = (args.epochs, args.rate) != (paper.epochs, paper.rate)
    training = f" CKLIEP trained for {args.epochs} epochs at rate {args.rate:g}." if shortened else ""
    return (
        f"Synthetic stream: means and standard deviations over seeds.{training} The effective sample size of the true "
        f"weights is {ess:.0%} of the rows. All windows are Gaussian, so the log-ratio is quadratic in x: driftline's "
        "features hold it exactly, CKLIEP's network has to learn it."
    )


def _levels(market: pd.DataFrame, method: str | None) -> list[str]:
    """Mean errors over splits and kinds of model, by target; nothing without a table."""
    if market.empty:
        return []
    part = market[market.method == method]
    scales = {target: 1.0 if target == PRICE else 100.0 for target in TARGETS}
    return [f"{s * part[part.target == t]['error'].mean():.3g}" if len(part) else "" for t, s in scales.items()]


def _on_market(market: pd.DataFrame) -> str:
    """The finding on the market: each target on its own, or both at once where they say the same."""
    found = {target: _helped(electricity.gains(market, target)) for target in TARGETS}
    if len(set(found.values())) == 1:
        return f"on the electricity table weights {found[PRICE]}"
    return "on the electricity table weights " + ", ".join(f"{w} for the {t}" for t, w in found.items())


def _helped(weighted: pd.DataFrame) -> str:
    """Say for which kinds weights help or harm by more than two standard errors."""
    clearly, harmed = _below(weighted, _CLEAR), _below(weighted.assign(mean=-weighted["mean"]), _CLEAR)
    if np.isinf(weighted["se"]).all():
        return "cannot be judged from one split"
    found = [f"{verb} clearly ({listed(kinds)})" for verb, kinds in (("help", clearly), ("harm", harmed)) if kinds]
    single = f", one kind of {len(weighted)}, which may be chance" if len(clearly) + len(harmed) == 1 else ""
    return f"{' and '.join(found)}{single}" if found else "do not help or harm beyond chance"


def _moved(market: pd.DataFrame) -> str:
    """Say whether the target given the covariates differs between both windows, for each target."""
    found = {target: bool(_below(electricity.gains(market, target, TOLD, POOLED), _CLEAR)) for target in TARGETS}
    falls = " and ".join(f"{_fall(market, target)} for the {target}" for target in TARGETS)
    shown = [target for target, moved in found.items() if moved]
    lead = f"p(y|x) moved too for the {' and the '.join(shown)}, which weights on x cannot undo"
    if not shown:
        lead = "That p(y|x) moved too is not shown"
    return f"{lead}: given which window a row is from, boosting on both errs {falls}."


def _fall(market: pd.DataFrame, target: str) -> str:
    mean = market[market.target == target].groupby("method")["error"].mean()
    fall = 1.0 - mean[TOLD] / mean[POOLED]
    size = f"{abs(fall):.0%}"
    return "no less" if size == "0%" else f"{size} {'less' if fall > 0.0 else 'more'}"


def _market_details(market: pd.DataFrame, weeks: int, count: int) -> list[str]:
    first = market.drop_duplicates("seed")
    overlap = ""
    if len(first) > 1 and weeks * count > electricity.STRIDE:
        overlap = (
            f" Splits overlap in time (each spans {weeks * count} weeks, they start {electricity.STRIDE} apart), so "
            "that the standard errors are optimistic."
        )
    about = (
        "Electricity: models are trained on the last window and tested on the first, which the weights saw once "
        f"({counted(len(first), 'split')}; the weights' effective sample size is {first['ess'].median():.0%} of the "
        f"rows in the median, {first['ess'].min():.1%} to {first['ess'].max():.0%}). Errors are means over "
        f"{len(MODELS)} kinds of model; a difference of {_CLEAR:g} standard errors is clear.{overlap}"
    )
    return [about, *(_target_details(market, target) for target in TARGETS)]


def _target_details(market: pd.DataFrame, target: str) -> str:
    weighted, control = (electricity.gains(market, target, WEIGHTED, other) for other in (electricity.PLAIN, PERMUTED))
    return (
        f"* {capitalised(target)}: with driftline's weights the mean error is lower than without for "
        f"{listed(_below(weighted))}; it is lower than with permuted weights for {len(_below(control))} of "
        f"{len(MODELS)} kinds, clearly for {listed(_below(control, _CLEAR))}."
    )


def _below(table: pd.DataFrame, errors: float = 0.0) -> list[str]:
    """Kinds of model with a mean difference below 0 by more than ``errors`` standard errors."""
    margin = errors * table["se"] if errors else 0.0
    return [str(kind) for kind in table.index[table["mean"] < -margin]]
