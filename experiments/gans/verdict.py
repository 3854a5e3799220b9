"""The verdict on the GANs: who is worst, whether CDRE says what keeping real images says, whether rankings agree."""

from __future__ import annotations

from collections.abc import Mapping
from math import factorial

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

from experiments import markdown
from experiments.gans.figures import TITLES
from experiments.gans.judge import AGREEMENT, DIVERGENCES, KEEPING, STATIC, WARNED, averages
from experiments.gans.losses import LOSSES
from experiments.gans.samples import DIVERGED, SECONDS
from experiments.words import counted

__all__ = ["ranks", "training_verdict", "verdict_of"]

_CLOSE = 0.25  # how near CDRE should come to the estimate that keeps the real images
_RECOGNISED = 0.8
_WORST = "fgan-rvkl"  # of the paper's models
_MEASURES = {measure: TITLES[measure].split(" (")[0] for measure in (*KEEPING, *DIVERGENCES)}

Finding = tuple[bool | None, str, str]
"""True if as asked (None: not judged), the finding in a few words, and a sentence; empty if not judged."""


def verdict_of(frame: pd.DataFrame) -> str:
    """Ask the numbers who is worst, whether samples are recognised, and whether CDRE is near static estimates."""
    means = averages(frame)
    off = _deviations(means)
    parts = [_worst(means), _recognised(means), _close(means, off)]
    held = [good for good, _, _ in parts if good is not None]
    word = "As asked" if all(held) else "Not as asked" if not any(held) else "In part as asked"
    findings = ", ".join(words for _, words, _ in parts if words)
    return markdown.verdict(
        f"{word}, on {counted(means.seed.nunique(), 'seed')}: {findings}",
        _numbers(means, off),
        [sentence for _, _, sentence in parts],
        _details(means, off),
    )


def training_verdict(frame: pd.DataFrame) -> str:
    """Say how the trainings went: minutes of each model, and where one diverged."""
    rows, lost = [], []
    for (model, seed), part in frame.groupby(["case", "seed"], sort=False):
        gone = part[(part.measure == DIVERGED) & (part.value > 0)].task
        lost += [LOSSES[str(model)].label] * (not gone.empty)
        minutes = part[part.measure == SECONDS].value.sum() / 60
        end = f"at task {gone.min()}" if len(gone) else "no"
        rows.append([LOSSES[str(model)].label, str(seed), str(part.task.max()), f"{minutes:.0f}", end])
    found = f"{', '.join(lost)} diverged" if lost else "none diverged"
    return markdown.verdict(
        f"{counted(len(rows), 'training')} finished, {found}",
        markdown.table(["model", "seed", "tasks", "minutes", "diverged"], rows),
        ["Samples of all tasks are kept for the judges."],
    )


def ranks(means: pd.DataFrame, measure: str, other: str = "fid") -> float:
    """Spearman's correlation of two measures over the models, averaged over tasks; nan for fewer than three models."""
    by_model = means.groupby(["task", "case"])[[measure, other]].mean().reset_index()
    found = [spearmanr(part[measure], part[other]).statistic for _, part in by_model.groupby("task") if len(part) > 2]
    return float(np.nanmean(found)) if found and not np.isnan(found).all() else float("nan")


def _worst(means: pd.DataFrame) -> Finding:
    """Check whether f-GAN by reverse KL has the highest average, task for task."""
    if not (shares := _shares(means)):
        return None, "", ""
    every, mostly = min(shares.values()) == 1.0, all(share > 0.5 for share in shares.values())
    found = "is the worst" if every else "is the worst at most tasks" if mostly else "is not the worst"
    here = "so it is here" if every else "here it is at most tasks" if mostly else "here it is not"
    claim = "The paper finds f-GAN by reverse KL the worst on all measures at all tasks"
    return mostly, f"f-GAN by reverse KL {found}", f"{claim}; {here} (column: share of tasks)."


def _shares(means: pd.DataFrame) -> dict[str, float]:
    """Share of tasks at which f-GAN by reverse KL is the worst, by measure; empty without models to compare."""
    if _WORST not in set(means.case) or means.case.nunique() < 2:
        return {}
    tables = {m: means.groupby(["task", "case"])[m].mean().unstack() for m in _MEASURES}
    return {m: float((table.idxmax(axis=1) == _WORST).mean()) for m, table in tables.items()}


def _recognised(means: pd.DataFrame) -> Finding:
    last = means[means.task == means.task.max()].groupby("case")[AGREEMENT].mean()
    kinds = [model for model in ("wgan", "wgan-gp") if model in last.index]
    if not kinds:
        return None, "", ""
    good = bool((last[kinds] >= _RECOGNISED).all())
    shares = [f"{last[model]:.0%} ({LOSSES[model].label})" for model in LOSSES if model in last.index]
    return (
        good,
        f"samples of WGAN and WGAN-GP are {'' if good else 'not all '}recognised",
        f"After the last task a classifier of real images recognises {', '.join(shares)} of the samples (at least "
        f"{_RECOGNISED:.0%} is asked of WGAN and WGAN-GP).",
    )


def _deviations(means: pd.DataFrame) -> dict[tuple[str, str], float]:
    """CDRE's last average relative to the estimate that keeps real images, by model and divergence."""
    last = means[means.task == means.task.max()].groupby("case").mean(numeric_only=True)
    return {
        (str(model), measure): float(last.at[model, measure] / last.at[model, STATIC + measure] - 1.0)
        for model in last.index
        for measure in DIVERGENCES
    }


def _close(means: pd.DataFrame, off: Mapping[tuple[str, str], float]) -> Finding:
    within = sum(abs(value) <= _CLOSE for value in off.values())
    (model, measure), value = max(off.items(), key=lambda item: abs(item[1]))
    count = f"within {_CLOSE:.0%} of static estimates in {within} of {len(off)} cases"
    return (
        within == len(off),
        f"CDRE is {count}",
        f"After task {means.task.max()} CDRE, which has seen each real sample once, is {count} (the furthest: "
        f"{LOSSES[model].label}, {_MEASURES[measure]}, {value:+.0%}).",
    )


def _numbers(means: pd.DataFrame, off: Mapping[tuple[str, str], float]) -> str:
    """A row a measure; columns that need more models than there are stay away."""
    shares, ranked = _shares(means), not np.isnan(ranks(means, DIVERGENCES[0]))
    columns = ["measure", f"CDRE within {_CLOSE:.0%}"]
    columns += [f"{LOSSES[_WORST].label} worst"] if shares else []
    columns += ["correlation with FID", "with real samples kept", "over all tasks at once"] if ranked else []
    models = means.groupby(["task", "case"])[["fid", *DIVERGENCES]].mean()
    rows = []
    for measure, title in _MEASURES.items():
        found = [abs(value) <= _CLOSE for (_, m), value in off.items() if m == measure]
        row = [title, f"{sum(found)} of {len(found)}" if found else ""]
        row += [f"{shares[measure]:.0%}"] if shares else []
        if ranked and measure in DIVERGENCES:
            pooled = spearmanr(models[measure], models["fid"]).statistic
            row += [f"{value:.2f}" for value in (ranks(means, measure), ranks(means, STATIC + measure), pooled)]
        rows.append([*row, *[""] * (len(columns) - len(row))])
    return markdown.table(columns, rows)


def _details(means: pd.DataFrame, off: Mapping[tuple[str, str], float]) -> list[str]:
    last = means[means.task == means.task.max()]
    warned = last.groupby("case")[WARNED].mean()
    missed = sorted({_MEASURES[measure] for (_, measure), value in off.items() if abs(value) > _CLOSE})
    details = [
        "Cases are models × divergences, each an average over the classes learned; static estimates keep real samples.",
        f"Outside: {', '.join(missed)}." if missed else "",
        f"CDRE warned {counted(round(warned.mean()), 'time')} a model not to trust an estimate."
        if warned.any()
        else "",
    ]
    if not np.isnan(ranks(means, DIVERGENCES[0])):
        models = means.case.nunique()
        details.append(
            f"To choose a model: correlations are Spearman's, of CDRE's averages with FID over {models} models, "
            f"averaged over tasks. As {models} models agree in full by chance 1 time in {factorial(models)}, they "
            "judge nothing."
        )
    return details
