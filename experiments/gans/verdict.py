"""The verdict on the GANs: who is worst, who ranks them how, how near each estimator is to static estimation."""

from __future__ import annotations

from math import factorial

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

from experiments import markdown
from experiments.gans.figures import against_truth
from experiments.gans.judges import ESTIMATORS, METRICS, TRUTH, averages, label, leading, out_of_range
from experiments.gans.losses import LOSSES
from experiments.gans.measures import AGREEMENT, DIVERGENCES, MEASURES
from experiments.gans.samples import DIVERGED, SECONDS
from experiments.words import counted, listed

__all__ = ["ranking", "verdict_of"]

_CLOSE = 0.25  # how near an estimator should come to the one that keeps the real images
_RECOGNISED = 0.8
_WORST = "fgan-rvkl"  # of the paper's models
_ALIKE = ("wgan", "wgan-gp")  # in the paper's words

Finding = tuple[bool | None, str, str]
"""True if as asked (None: not judged), the finding in a few words, and a sentence; empty if not judged."""


def verdict_of(frame: pd.DataFrame) -> str:
    """Ask the numbers who is worst, whether samples are recognised, and whether estimators are near static ones."""
    found = averages(frame)
    if found.empty:
        return _trained(frame)
    by = leading(frame)
    parts = [_worst(found, by), _recognised(found), _close(found, by)]
    held = [good for good, _, _ in parts if good is not None]
    word = "As asked" if held and all(held) else "In part as asked" if any(held) else "Not as asked"
    words = ", ".join(words for _, words, _ in parts if words) or "nothing to compare"
    runs = counted(frame.seed.nunique(), "training")
    lost = frame[(frame.measure == DIVERGED) & (frame.value > 0)].groupby("case").task.min()
    gone = [f"{LOSSES[model].label} from task {task} on" for model, task in lost.items()]
    return markdown.verdict(
        f"{word if held else 'Measured'}, on {runs}: {words}",
        _rankings(found),
        [sentence for _, _, sentence in parts] if held else ["Too few models to compare."],
        [
            f"Trainings that diverged, and have no samples: {', '.join(gone)}." if gone else "",
            *_claims(found, by),
            "The first table: models from best to worst after the last task that all of them reached, each an average "
            "over the classes learned. The second: the share of tasks at which fGAN-rvKL is the worst; Spearman's "
            "correlation with FID over the models, averaged over tasks; the share of models and tasks near static "
            f"estimation with all real images in the same features. {_by_chance(found.case.nunique())}",
            _numbers(found),
            *_doubts(frame),
        ],
    )


def _trained(frame: pd.DataFrame) -> str:
    """Say how the trainings went: minutes of each model, and where one diverged."""
    rows, lost = [], []
    for (model, seed), part in frame.groupby(["case", "seed"], sort=False):
        gone = part[(part.measure == DIVERGED) & (part.value > 0)].task
        lost += [LOSSES[str(model)].label] * (not gone.empty)
        minutes = part[part.measure == SECONDS].value.sum() / 60
        end = f"at task {gone.min()}" if len(gone) else "no"
        rows.append([LOSSES[str(model)].label, str(seed), str(part.task.max()), f"{minutes:.0f}", end])
    return markdown.verdict(
        f"{counted(len(rows), 'training')} finished, {f'{listed(lost)} diverged' if lost else 'none diverged'}",
        markdown.table(["model", "seed", "tasks", "minutes", "diverged"], rows),
        ["Samples of all tasks are kept for the judges."],
    )


def _wide(found: pd.DataFrame, judge: str, measure: str) -> pd.DataFrame:
    """Values by task (rows) and model (columns), means over seeds; higher is worse in all of them."""
    part = found[(found.judge == judge) & (found.measure == measure)]
    table = part.groupby(["task", "case"]).value.agg(lambda values: values.mean(skipna=False)).unstack()
    return -table if MEASURES[measure].higher else table


def ranking(found: pd.DataFrame, judge: str, measure: str) -> list[str]:
    """Return the models from best to worst after the last task that all of them reached; empty if there is none."""
    whole = _wide(found, judge, measure).dropna()
    return [] if whole.empty else [str(model) for model in whole.iloc[-1].sort_values().index]


def _shares(found: pd.DataFrame, judge: str, measure: str) -> float:
    """Return the share of tasks at which f-GAN by reverse KL is the worst; nan without models to compare."""
    table = _wide(found, judge, measure).dropna()
    if _WORST not in table or table.shape[1] < 2 or table.empty:
        return float("nan")
    return float((table.idxmax(axis=1) == _WORST).mean())


def _correlation(found: pd.DataFrame, judge: str, measure: str) -> float:
    """Return Spearman's correlation with FID over the models, averaged over tasks; nan for fewer than three models."""
    fid = next((j for j in found[found.estimator == METRICS].judge), "")
    table, other = _wide(found, judge, measure).dropna(), _wide(found, fid, "fid")
    lines = [(task, line) for task, line in table.iterrows() if line.nunique() > 2] if fid else []
    if not lines:
        return float("nan")
    return float(np.mean([spearmanr(line, other.loc[task, line.index]).statistic for task, line in lines]))


def _measures(found: pd.DataFrame) -> list[tuple[str, str]]:
    """Judges and their measures, those that keep real images first."""
    order = sorted(set(found.judge), key=lambda judge: (not judge.startswith(METRICS), list(found.judge).index(judge)))
    return [(j, m) for j in order for m in MEASURES if m in set(found[found.judge == j].measure)]


def _rankings(found: pd.DataFrame) -> str:
    """Who ranks the models how: measures of a judge that agree share a row."""
    rows: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for judge, measure in _measures(found):
        order = tuple(LOSSES[model].label for model in ranking(found, judge, measure))
        rows.setdefault((judge, order), []).append(MEASURES[measure].title)
    cells = [[_name(judge), ", ".join(titles), " < ".join(order)] for (judge, order), titles in rows.items()]
    return markdown.table(["by", "measure", "best to worst"], cells)


def _name(judge: str) -> str:
    return "real images kept" if judge.startswith(METRICS) else label(judge)


def _numbers(found: pd.DataFrame) -> str:
    """How often fGAN-rvKL is the worst, agreement with FID and with static estimation, by judge and measure."""
    truth, rows = against_truth(found), []
    for judge, measure in _measures(found):
        if judge.startswith(f"{TRUTH}/") or measure not in ("fid", "kid", *DIVERGENCES):
            continue
        near = truth[(truth.judge == judge) & (truth.measure == measure)].dropna(subset=["value", "truth"])
        within = ((near.value / near.truth - 1.0).abs() <= _CLOSE).mean() if len(near) else float("nan")
        numbers = (_shares(found, judge, measure), _correlation(found, judge, measure), within)
        shown = ("" if np.isnan(n) else f"{n:{form}}" for n, form in zip(numbers, (".0%", ".2f", ".0%"), strict=True))
        rows.append([_name(judge), MEASURES[measure].title, *shown])
    columns = [f"{LOSSES[_WORST].label} worst", "correlation with FID", f"within {_CLOSE:.0%} of static"]
    return markdown.table(["by", "measure", *columns], rows)


def _worst(found: pd.DataFrame, by: str) -> Finding:
    """Check whether f-GAN by reverse KL is the worst, task for task."""
    asked = [(judge, m) for judge, m in _measures(found) if m in ("fid", "kid") or judge == by]
    shares = [share for judge, m in asked if not np.isnan(share := _shares(found, judge, m))]
    if not shares:
        return None, "", ""
    every, mostly = min(shares) == 1.0, min(shares) > 0.5
    words = "is the worst" if every else "is the worst at most tasks" if mostly else "is not the worst"
    here = "so it is here" if every else "here it is at most tasks" if mostly else "here it is not"
    claim = "The paper finds f-GAN by reverse KL the worst on all measures at all tasks"
    return mostly, f"f-GAN by reverse KL {words}", f"{claim}; {here}, by FID, KID{f' and {label(by)}' if by else ''}."


def _recognised(found: pd.DataFrame) -> Finding:
    whole = found[found.measure == AGREEMENT].groupby(["task", "case"]).value.mean().unstack().dropna()
    kinds = [model for model in _ALIKE if model in whole]
    if not kinds or whole.empty:
        return None, "", ""
    last = whole.iloc[-1]
    good = bool((last[kinds] >= _RECOGNISED).all())
    shares = [f"{last[model]:.0%} ({LOSSES[str(model)].label})" for model in LOSSES if model in last.index]
    return (
        good,
        f"samples of WGAN and WGAN-GP are {'' if good else 'not all '}recognised",
        f"After task {whole.index[-1]} a classifier of real images recognises {', '.join(shares)} of the samples (at "
        f"least {_RECOGNISED:.0%} is asked of WGAN and WGAN-GP).",
    )


def _close(found: pd.DataFrame, by: str) -> Finding:
    """Compare the leading estimator with static estimation in the same features, at the last task."""
    near = against_truth(found)
    near = near[near.judge == by].dropna(subset=["value", "truth"])
    if near.empty:
        return None, "", ""
    last = near[near.task == near.task.max()].groupby(["case", "measure"])[["value", "truth"]].mean()
    off = last.value / last.truth - 1.0
    within, furthest = int((off.abs() <= _CLOSE).sum()), off.abs().idxmax()
    count = f"within {_CLOSE:.0%} of static estimation in {within} of {len(off)} cases"
    model, measure = furthest
    return (
        within == len(off),
        f"{label(by).split(' on ')[0]} is {count}",
        f"After task {near.task.max()} {label(by)} is {count} (furthest: {LOSSES[model].label}, "
        f"{MEASURES[measure].title}, {off[furthest]:+.0%}).",
    )


def _claims(found: pd.DataFrame, by: str) -> list[str]:
    """The paper's other claims, as list items: alike models, and trends from the second task to the last."""
    items = []
    tables = {(j, m): _wide(found, j, m).dropna() for j, m in _measures(found) if m in ("fid", "kid") or j == by}
    alike = {MEASURES[m].title: t.iloc[-1] for (_, m), t in tables.items() if len(t) and set(_ALIKE) <= set(t)}
    if alike:
        ratios = listed(f"{title} {line[_ALIKE[1]] / line[_ALIKE[0]]:.2f}" for title, line in alike.items())
        items.append(f"* The paper finds WGAN and WGAN-GP alike on all measures; WGAN-GP relative to WGAN: {ratios}.")
    for model, claim in (
        ("fgan-js", "falling FID and KID but slightly rising divergences"),
        ("wgan", "all measures but KID rising"),
        ("wgan-gp", "all measures but KID rising"),
    ):
        trends = [
            f"{MEASURES[m].title} {table[model].iloc[1]:.2g} to {table[model].iloc[-1]:.2g}"
            for (_, m), table in tables.items()
            if model in table and len(table) > 2
        ]
        if trends:
            shown = f"from the second task to the last: {', '.join(trends)}"
            items.append(f"* The paper reads {claim} for {LOSSES[model].label}; {shown}.")
    return items


def _by_chance(models: int) -> str:
    if models < 3:
        return ""
    return f"As {models} models agree in full by chance 1 time in {factorial(models)}, correlations judge nothing."


def _doubts(frame: pd.DataFrame) -> list[str]:
    """Say how many readings were doubted, by estimator, and which fits diverged."""
    read = frame[frame.measure.isin(DIVERGENCES) & frame.value.notna()]
    shares = read.groupby("estimator", sort=False).doubts.agg(lambda counts: (counts > 0).mean())
    said = [f"{ESTIMATORS[str(name)].label} {share:.0%}" for name, share in shares.items()]
    gone = frame[frame.note == "the fit diverged"].drop_duplicates(["case", "estimator", "features", "estimator_seed"])
    lost = [
        f"{ESTIMATORS[row.estimator].label} on {row.features} for {LOSSES[row.case].label}" for row in gone.itertuples()
    ]
    beyond = frame[out_of_range(frame)].groupby(["estimator", "features"]).size()
    out = [f"{ESTIMATORS[str(name)].label} on {where} {count}" for (name, where), count in beyond.items()]
    return [
        f"Readings with a doubt: {', '.join(said)}." if said else "",
        f"Readings of Jensen-Shannon and Hellinger outside their range, left out: {', '.join(out)}." if out else "",
        f"Fits that diverged: {', '.join(lost)}." if lost else "",
    ]
