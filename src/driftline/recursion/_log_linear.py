"""A step of a log-linear model: exact, separate for each original, adding features where the drift needs them."""

from __future__ import annotations

import math

import numpy as np

from driftline import inference
from driftline._inputs import Floats
from driftline.fitting import (
    ConvexFit,
    Design,
    Features,
    Learned,
    LogLinear,
    LogLinearDesign,
    Loss,
    ModuleFactory,
    Stacked,
    Standardizer,
    Summaries,
    Summary,
    Trees,
    bridge_constant,
    design_of,
    find_repeats,
    first_summary,
    fit_features,
    fit_lbfgs,
    loss_of,
    moved_density,
    penalised,
    tangents_of,
    unnormalised,
)
from driftline.recursion._auditor import doubting, renewed, unseen
from driftline.recursion._competition import approximates, only_trees
from driftline.recursion._evidence import PAIR_COLUMNS, Evidence
from driftline.recursion._frames import awakened, follow
from driftline.recursion._problem import Problem, Solved, solve
from driftline.recursion._rare import few_of
from driftline.recursion._recall import recalled
from driftline.recursion._rows import Curved, depends, own_rows, reach
from driftline.recursion._settings import NEWTON_FEATURES, StepSettings, is_network, penalty_for
from driftline.recursion._state import Anchor, Step, arrive, has_past
from driftline.recursion._wide import crowded, goes_wide, wide_step, window_rows
from driftline.recursion._widening import Look, is_off, looked, widened

__all__ = ["check_extremes", "informed", "log_linear_step", "same_kind", "start_features", "summary_of"]

_HINGES = (-1.3, 0.0, 1.3)  # knots on a column with normal scores
_SUPPORT = 100.0  # effective rows behind a feature of a cluster
_SUMMARISED = 200  # rows; with fewer, shapes and clusters are guesses
_KNOWN = 6000  # rows that suffice to relate previous and new features
_EXTREME = 1e8  # standard deviations whose fourth power still fits in single precision


def start_features(
    z: Floats,
    model: str | ModuleFactory,
    summary: Summary | None = None,
    *,
    sparing: bool = True,
    shapes: bool = True,
    clusters: bool = True,
) -> Features:
    """Return the features a model begins with, centred and scaled on standardised rows (n, D).

    A column with normal scores has hinges from the start: what it looked like at first says little of how it moves.
    With ``clusters``, features of each of them belong to the model, of their ``shapes``, too. ``sparing`` leaves out
    columns that do not vary yet, and squares of those with two values.
    """
    if is_network(model) or model == "linear":
        return fit_features(z, squares=False, sparing=sparing)
    if model != "quadratic-full":
        plain = fit_features(z, sparing=sparing)
        if summary is None:
            return plain
        mapped = summary.scores.columns if summary.scores is not None else plain.linear[:0]
        columns = np.repeat(mapped, len(_HINGES))
        weight = np.zeros((z.shape[1], len(columns)))
        weight[columns, np.arange(len(columns))] = 1.0
        others: tuple[Learned, ...] = ()
        if clusters and summary.density.clustered:
            tangents = tangents_of(summary.density, z, _SUPPORT, shapes=shapes)
            others = (Learned(tangents, np.zeros(z.shape[1]), np.ones(z.shape[1])),)
        return plain.extend(z, weight=weight, bias=-np.tile(_HINGES, len(mapped)), others=others)
    if z.shape[1] > PAIR_COLUMNS:
        raise ValueError(
            f"model='quadratic-full' holds all products of columns, too many for {z.shape[1]} columns "
            f"(at most {PAIR_COLUMNS}): use 'auto', which picks the products that move"
        )
    return fit_features(z, pairs=np.stack(np.triu_indices(z.shape[1], 1), 1))


def summary_of(z: Floats, settings: StepSettings) -> Summary | None:
    """Return the summary of the original's standardised rows for models that learn from it, if there is one."""
    if settings.model != "auto" or crowded(2 * z.shape[1], 2 * len(z)) or len(z) < _SUMMARISED:
        return None
    rows = Curved(z)
    every = math.ceil(depends(rows, reach(rows, settings, None), None, settings).time)
    if every == 1:
        return first_summary(z, seed=settings.seed)
    # neighbours look like clusters: whether there are any is asked of rows that are far apart
    apart = z[::every]
    return None if len(apart) < _SUMMARISED else first_summary(apart, seed=settings.seed).refit(z)


def log_linear_step(anchor: Anchor, window: Floats, settings: StepSettings, seed: int) -> Step:
    """Fit the increment from an anchor's window to the next one."""
    begun = anchor.psi
    anchor, problem = _problem(anchor._replace(rows=own_rows(anchor, settings)), window, settings)
    loss, small = loss_of(unnormalised(settings.objective)), problem.features.size < NEWTON_FEATURES
    constrained = _is_penalised(anchor, window, settings)
    if not constrained and goes_wide(anchor, problem, loss, settings):
        return wide_step(anchor, window, problem, loss, settings)
    if constrained or not small or not loss.separable:
        return _lbfgs_step(anchor, window, problem, settings)

    solved, size = solve(problem, loss, settings, anchor.design), problem.features.size
    rows_num, rows_den = problem.rows_num, window_rows(solved.den, problem, settings)
    problem = problem._replace(rows_den=rows_den)
    solved = solved._replace(problem=problem)
    note, evidence, missed, seen, rough = "", None, 0, None, approximates(problem)
    if settings.model == "auto":
        solved, evidence, note, seen = widened(solved, anchor, loss, settings, seed)
        anchor, problem, missed = _recall(anchor, problem, solved, evidence, settings)
    features, fit = solved.problem.features, solved.fit
    at = problem.before.positions(features)
    past = anchor.uncertainty if problem.continues else None
    num, den = solved.num, solved.den
    before: Design = num
    if past is not None:
        past = inference.placed(past, at, features.size + 1)
    elif isinstance(anchor.psi, Stacked) and anchor.uncertainty is not None:
        past, before = _carried(anchor, num)
    events = few_of(solved.events[features.linear], len(num.z) + len(den.z))
    same = isinstance(begun, LogLinear) and features is begun.features  # in the same frame, and none has joined
    uncertainty = inference.advance(past, before, num, den, fit, rows_num, rows_den, events, same=same)
    fit = fit._replace(info=fit.info._replace(held_out=fit.info.loss + inference.optimism(uncertainty)))
    coef = fit.coef[:-1].copy()
    coef[at] += problem.coef
    psi = LogLinear(anchor.psi.standardizer, features, coef, solved.problem.summaries)
    arrived = arrive(anchor, window, psi, float(fit.coef[-1]), settings, rows_den)
    if settings.normalizer == "telescoped" and (problem.first or past is not None):
        arrived = arrived._replace(uncertainty=uncertainty)  # complete: it covers all windows since the original
    arrived = arrived._replace(evidence=evidence, design=den, crossed=den.crossed)
    if anchor.auditor is not None:
        joined = features.size > size and not problem.first
        auditor, values = _audited(anchor, arrived, solved, joined, seen)
        asked = auditor.since or (seen is not None and not joined)
        if approximates(solved.problem) > rough or (not asked and is_off(solved)):
            auditor = doubting(auditor)
        arrived = arrived._replace(auditor=auditor, seen=values)
    telescoped = anchor.log_normalizer - float(fit.coef[-1])
    return Step(arrived, fit.info, fit.log_num, fit.log_den, telescoped, informed(fit), note, missed)


def _audited(anchor: Anchor, arrived: Anchor, solved: Solved, joined: bool, seen: Look | None) -> Look:
    """Show the auditor a step, unless it has ``seen`` it; if features have joined, let it look at where they lead."""
    assert anchor.auditor is not None
    original, problem = anchor.psi.standardizer.original, solved.problem
    if not joined:
        return seen or looked(anchor, anchor.auditor, solved)
    errors = arrived.uncertainty
    if errors is None:
        return unseen(anchor.auditor), None
    means, known = np.append(errors.mean, 1.0), np.append(errors.known, True)
    rows, log_r = solved.den.single, arrived.on_window()
    return renewed(anchor.auditor, original(problem.z_den), log_r, rows, means, known, problem.rows_den), None


def _carried(anchor: Anchor, now: Design) -> tuple[inference.Uncertainty, Design]:
    """Carry the errors so far over to new features; also return the design of the anchor's window in the previous ones.

    The original's means are unknown in the new features.
    """
    before = design_of(anchor.psi, anchor.window)
    assert before is not None  # a psi with an uncertainty is linear in some features
    assert anchor.uncertainty is not None
    rows, every = now.shape[0], max(1, now.shape[0] // max(_KNOWN, 20 * now.shape[1]))
    onto = inference.projection(now.take(0, rows, every), before.take(0, rows, every))
    past = inference.transported(anchor.uncertainty, onto)
    unknown = np.zeros((now.shape[1], now.shape[1]))
    mean = np.zeros(now.shape[1] - 1)
    return past._replace(origin=unknown, origin_spread=unknown, mean=mean, known=mean > 0.0), before


def _problem(anchor: Anchor, window: Floats, settings: StepSettings) -> tuple[Anchor, Problem]:
    """Return the step to be fitted, and its anchor in the frame of that step."""
    psi, rows_num = anchor.psi, anchor.rows
    assert rows_num is not None
    rows_den = inference.Dependence(repeats=find_repeats(window))
    first = not has_past(anchor)
    check_extremes(psi.standardizer, window)
    if isinstance(psi, LogLinear) and same_kind(psi.features, settings.model):
        framed = follow(anchor, window)
        psi = framed.anchor.psi
        assert isinstance(psi, LogLinear)
        features, z_num, z_den = psi.features, framed.z_num, framed.z_den
        problem = Problem(features, features, psi.coef, z_num, z_den, None, None, True, first)
        problem = problem._replace(crossed_num=framed.anchor.crossed, rows_num=rows_num, rows_den=rows_den)
        return framed.anchor, problem if psi.summaries is None else _offset(problem, psi)
    z_num, z_den = psi.standardizer(anchor.window), psi.standardizer(window)
    start = start_features(z_num, settings.model)
    features, coef = awakened(start, psi.standardizer.still, z_num, z_den), np.zeros(start.size)
    problem = Problem(
        features, start, coef, z_num, z_den, None, None, False, first, rows_num=rows_num, rows_den=rows_den
    )
    if first:
        return anchor, problem
    return anchor, problem._replace(offset_num=-psi(anchor.window), offset_den=-psi(window))


def _offset(problem: Problem, psi: LogLinear) -> Problem:
    """Summarise the new window; if it has moved, the fit of the step starts from the summaries' log-ratio."""
    assert psi.summaries is not None
    before = psi.summaries.now
    if any(isinstance(other.map, Trees) for other in psi.features.others):
        # they stayed in the step that trees joined in; a window's errors cancel if it meets the same features twice
        size = next(other.size for other in psi.features.others if not isinstance(other.map, Trees))
        return problem._replace(summaries=psi.summaries, frozen=size)
    num, den = psi.standardizer.original(problem.z_num), psi.standardizer.original(problem.z_den)
    parts = ((num, problem.rows_num.repeats), (den, problem.rows_den.repeats))
    then, now = (rows if repeats is None else rows[repeats.first] for rows, repeats in parts)
    after = moved_density(before, psi.summaries.rows, then, now, worth=problem.rows_num.time)
    if after is None:
        return problem._replace(summaries=psi.summaries)
    step = Summaries(before, after, float(len(now)))
    summaries = step._replace(start=psi.summaries.start)
    return problem._replace(offset_num=step(num), offset_den=step(den), summaries=summaries)


def check_extremes(standardizer: Standardizer, window: Floats) -> None:
    """Refuse values that single-precision Gram matrices cannot hold, naming column and row."""
    rows, mean, scale = window[:, : len(standardizer.mean)], standardizer.mean, standardizer.scale
    if max(float(rows.max() - mean.min()), float(mean.max() - rows.min())) <= _EXTREME * float(scale.min()):
        return  # one look at all columns together is faster
    far = np.maximum(rows.max(0) - mean, mean - rows.min(0)) / scale
    if float(far.max()) > _EXTREME:
        j = int(far.argmax())
        i = int(np.abs(rows[:, j] - mean[j]).argmax())
        raise ValueError(
            f"window: column {j} holds {rows[i, j]:.3g} in row {i}, {far[j]:.1g} standard "
            "deviations away from the original: check its unit, or remove the outlier"
        )


def same_kind(features: Features, model: str | ModuleFactory) -> bool:
    """Say whether the model continues these features, so that a step can add to their coefficients."""
    if model == "auto":
        return features.curved
    pairs, d = len(features.pairs), features.columns
    wanted = d * (d - 1) // 2 if model == "quadratic-full" else 0
    plain = len(features.bias) == 0 and not features.others
    return features.curved == (model != "linear") and pairs == wanted and plain


def informed(fit: ConvexFit) -> int:
    """Count the parameters that the rows inform; those of constant columns do not count."""
    return int((fit.hessian.diagonal() > 2.0 * fit.weight).sum())


def _recall(
    anchor: Anchor, problem: Problem, solved: Solved, evidence: Evidence, settings: StepSettings
) -> tuple[Anchor, Problem, int]:
    """Give features that joined the drift they have missed since the original; count those for which that cannot be."""
    features, psi = solved.problem.features, anchor.psi
    if problem.first or not isinstance(psi, LogLinear) or anchor.uncertainty is None:
        return anchor, problem, 0
    if only_trees(problem, solved.problem):  # they tell two windows apart: there is no drift before these
        return anchor, problem, 0
    found = recalled(anchor, solved.num, evidence, settings.ridge)
    if found is None:
        return anchor, problem, features.size - problem.features.size
    assert isinstance(found.psi, LogLinear)
    return found, problem._replace(before=features, coef=found.psi.coef), 0


def _lbfgs_step(anchor: Anchor, window: Floats, problem: Problem, settings: StepSettings) -> Step:
    """Fit many features, or a loss that couples the rows; the constant, which it may not determine, is solved alone."""
    features = problem.features
    num, den = (LogLinearDesign(features, z) for z in (problem.z_num, problem.z_den))
    ridge = settings.ridge * features.prior
    fit = fit_lbfgs(
        num,
        den,
        _loss(anchor, window, settings),
        offset_num=problem.offset_num,
        offset_den=problem.offset_den,
        ridge=ridge,
    )
    log_num, log_den = fit.log_num - fit.coef[-1], fit.log_den - fit.coef[-1]
    constant = bridge_constant(log_num, log_den, settings.objective)
    coef = fit.coef[:-1].copy()
    coef[problem.before.positions(features)] += problem.coef
    psi = LogLinear(anchor.psi.standardizer, features, coef, problem.summaries)
    arrived = arrive(anchor, window, psi, constant, settings, window_rows(den, problem, settings))
    arrived = arrived._replace(design=den, auditor=anchor.auditor and unseen(anchor.auditor))
    log_num, log_den = log_num + constant, log_den + constant
    info, loss = fit.info, loss_of(unnormalised(settings.objective))
    if loss.separable:  # the expected loss is that of the objective which determines the constant, without a penalty
        rows = loss.rows(log_num, log_den)
        optimism = inference.probed_optimism(num, den, rows, ridge / (len(log_num) + len(log_den)))
        info = info._replace(held_out=rows.loss + optimism)
    return Step(arrived, info, log_num, log_den, anchor.log_normalizer - constant, features.size + 1)


def _is_penalised(anchor: Anchor, window: Floats, settings: StepSettings) -> bool:
    """Say whether the paper's constraint penalty applies: one is set, and a step has been taken."""
    return penalty_for(settings, len(window)) > 0.0 and has_past(anchor)


def _loss(anchor: Anchor, window: Floats, settings: StepSettings) -> Loss:
    """Return the objective's loss, with the paper's constraint penalty where it applies."""
    loss = loss_of(settings.objective)
    if not _is_penalised(anchor, window, settings):
        return loss
    return penalised(loss, penalty_for(settings, len(window)), anchor.psi(anchor.window), anchor.psi(window))
