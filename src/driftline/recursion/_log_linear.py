"""A step of a log-linear model: exact, separate for each original, adding features where the drift needs them."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from driftline import inference
from driftline.fitting import (
    ConvexFit,
    Design,
    Features,
    LogLinear,
    ModuleFactory,
    Objective,
    Psi,
    Stacked,
    bridge_constant,
    constraint_residual,
    design_of,
    fit_convex,
    fit_features,
    fit_features_lbfgs,
    is_separable,
    log_linear_design,
    unnormalised,
)
from driftline.recursion._evidence import PAIR_COLUMNS, Evidence, start_evidence
from driftline.recursion._screening import Proposal, propose
from driftline.recursion._settings import StepSettings, is_network, penalty_for
from driftline.recursion._state import Anchor, Step, arrive, has_past, reach, standardizer_of

__all__ = ["NEWTON_FEATURES", "log_linear_step", "start_features"]

NEWTON_FEATURES = 1500  # with more, a factorisation costs more than L-BFGS
_ROUNDS = 4  # rounds of adding features in one step
_KNOWN = 6000  # rows that suffice to relate previous and new features
_EXTREME = 1e8  # standard deviations whose fourth power still fits in single precision


def start_features(z: Tensor, model: str | ModuleFactory) -> Features:
    """Return the features a model begins with, centred and scaled on standardised rows (n, D)."""
    if is_network(model) or model == "linear":
        return fit_features(z, squares=False)
    if model != "quadratic-full":
        return fit_features(z)
    if z.shape[1] > PAIR_COLUMNS:
        raise ValueError(
            f"model='quadratic-full' holds all products of columns, too many for {z.shape[1]} columns "
            f"(at most {PAIR_COLUMNS}): use 'auto', which picks the products that move"
        )
    return fit_features(z, pairs=torch.triu_indices(z.shape[1], z.shape[1], 1, device=z.device).T.contiguous())


def log_linear_step(anchor: Anchor, window: Tensor, settings: StepSettings, seed: int) -> Step:
    """Fit the increment from an anchor's window to the next one."""
    problem = _problem(anchor, window, settings)
    objective, penalised = _with_penalty(anchor.psi, anchor.window, window, settings)
    small = problem.features.size < NEWTON_FEATURES
    if penalised or not small or not is_separable(unnormalised(objective)):
        return _lbfgs_step(anchor, window, problem, objective, settings)

    solved = _newton(problem, unnormalised(objective), settings)
    note, evidence = "", None
    if settings.model == "auto":
        solved, evidence, note = _adapt(solved, anchor, unnormalised(objective), settings, seed)
    features, fit = solved.problem.features, solved.fit
    at = problem.features.positions(features)
    past, lag = anchor.uncertainty if problem.continues else None, reach(problem.z_den, settings)
    num, den = solved.design_num, solved.design_den
    before: Design = num
    if past is not None:
        past = inference.placed(past, at, features.size + 1)
    elif isinstance(anchor.psi, Stacked) and anchor.uncertainty is not None:
        past, before = _carried(anchor, num)
    uncertainty = inference.advance(past, before, num, den, fit, anchor.lag, lag)
    fit = fit._replace(info=fit.info._replace(held_out=fit.info.loss + inference.optimism(uncertainty)))
    coef = fit.coef[:-1].clone()
    coef[at] += problem.coef
    psi = LogLinear(standardizer_of(anchor.psi), features, coef)
    arrived = arrive(anchor, window, psi, float(fit.coef[-1]), settings, lag)
    if settings.normalizer == "telescoped" and (problem.first or past is not None):
        arrived = arrived._replace(uncertainty=uncertainty)  # complete: it covers all windows since the original
    log_num = _plus(num.dot(fit.coef), problem.offset_num)
    log_den = _plus(den.dot(fit.coef), problem.offset_den)
    return Step(arrived._replace(evidence=evidence), fit.info, log_num, log_den, _informed(fit), note)


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
    unknown = past.covariance.new_zeros(now.shape[1], now.shape[1])
    return past._replace(origin=unknown, origin_spread=unknown), before


def _plus(values: Tensor, offset: Tensor | None) -> Tensor:
    return values if offset is None else values + offset


class _Problem(NamedTuple):
    """A log-linear step to be fitted: features, coefficients so far, both windows standardised, offsets on them.

    A psi of the same kind is continued by adding to its coefficients; of any other, only the output counts, as an
    offset.
    """

    features: Features
    coef: Tensor
    z_num: Tensor
    z_den: Tensor
    offset_num: Tensor | None
    offset_den: Tensor | None
    continues: bool
    first: bool


def _problem(anchor: Anchor, window: Tensor, settings: StepSettings) -> _Problem:
    psi, standardizer = anchor.psi, standardizer_of(anchor.psi)
    z_num, z_den = standardizer(anchor.window), standardizer(window)
    _check_extremes(z_den, window)
    first = not has_past(psi)
    if isinstance(psi, LogLinear) and _same_kind(psi.features, settings.model):
        return _Problem(psi.features, psi.coef, z_num, z_den, None, None, True, first)
    features = start_features(z_num, settings.model)
    coef = z_num.new_zeros(features.size)
    if first:
        return _Problem(features, coef, z_num, z_den, None, None, False, True)
    return _Problem(features, coef, z_num, z_den, -psi(anchor.window), -psi(window), False, False)


def _check_extremes(z: Tensor, window: Tensor) -> None:
    """Refuse values that single-precision Gram matrices cannot hold, naming column and row."""
    if float(z.abs().max()) > _EXTREME:
        j = int(z.abs().amax(0).argmax())
        i = int(z[:, j].abs().argmax())
        raise ValueError(
            f"window: column {j} holds {float(window[i, j]):.3g} in row {i}, {float(z[i, j].abs()):.1g} standard "
            "deviations away from the original: check its unit, or remove the outlier"
        )


def _same_kind(features: Features, model: str | ModuleFactory) -> bool:
    """Say whether the model continues these features, so that a step can add to their coefficients."""
    if model == "auto":
        return features.squares
    pairs, d = features.pairs.shape[0], features.columns
    wanted = d * (d - 1) // 2 if model == "quadratic-full" else 0
    return features.squares == (model != "linear") and pairs == wanted and features.bias.shape[0] == 0


def _informed(fit: ConvexFit) -> int:
    """Count the parameters that the rows inform; those of constant columns do not count."""
    return int((fit.hessian.diagonal() > 2.0 * fit.weight).sum())


class _Solved(NamedTuple):
    problem: _Problem
    design_num: Design
    design_den: Design
    fit: ConvexFit


def _newton(problem: _Problem, objective: Objective, settings: StepSettings) -> _Solved:
    design_num, design_den = (log_linear_design(problem.features, z) for z in (problem.z_num, problem.z_den))
    fit = fit_convex(
        design_num,
        design_den,
        objective,
        offset_num=problem.offset_num,
        offset_den=problem.offset_den,
        ridge=settings.ridge,
    )
    return _Solved(problem, design_num, design_den, fit)


def _adapt(
    solved: _Solved, anchor: Anchor, objective: Objective, settings: StepSettings, seed: int
) -> tuple[_Solved, Evidence, str]:
    """Add the features that the fit's scores call for and fit again, until they call for none."""
    evidence = anchor.evidence if anchor.evidence is not None else start_evidence(solved.problem.z_num)
    past = None if anchor.uncertainty is None else anchor.uncertainty.score
    notes: list[str] = []
    for attempt in range(_ROUNDS):
        proposal = _propose(solved, evidence, past, seed + attempt)
        if not proposal.reason:
            return solved, proposal.evidence, "; ".join(notes)
        if proposal.forget:
            evidence = proposal.evidence
        notes.append(f"added {proposal.reason}")
        problem = solved.problem
        wider = problem.features.extend(problem.z_num, proposal.pairs, proposal.weight, proposal.bias)
        solved = _newton(problem._replace(features=wider), objective, settings)
    return solved, _propose(solved, evidence, past, seed).evidence, "; ".join(notes)


def _propose(solved: _Solved, evidence: Evidence, past: Tensor | None, seed: int) -> Proposal:
    now, fit = solved.problem, solved.fit
    return propose(now.features, evidence, now.z_num, now.z_den, fit.score_num, fit.score_den, past, seed=seed)


def _lbfgs_step(
    anchor: Anchor, window: Tensor, problem: _Problem, objective: Objective, settings: StepSettings
) -> Step:
    """Fit many features, or a loss that couples the rows; the constant, which it may not determine, is solved alone."""
    features, z_num, z_den = problem.features, problem.z_num, problem.z_den
    fit = fit_features_lbfgs(
        features,
        z_num,
        z_den,
        objective,
        offset_num=problem.offset_num,
        offset_den=problem.offset_den,
        ridge=settings.ridge,
    )
    log_num = _plus(features.score(z_num, fit.coef[:-1]), problem.offset_num)
    log_den = _plus(features.score(z_den, fit.coef[:-1]), problem.offset_den)
    constant = bridge_constant(log_num, log_den, settings.objective)
    psi = LogLinear(standardizer_of(anchor.psi), features, problem.coef + fit.coef[:-1])
    arrived = arrive(anchor, window, psi, constant, settings)
    return Step(arrived, fit.info, log_num + constant, log_den + constant, features.size + 1)


def _with_penalty(psi: Psi, previous: Tensor, window: Tensor, settings: StepSettings) -> tuple[Objective, bool]:
    """Add the paper's constraint penalty where one is set and a step has been taken; say whether it was added."""
    penalty, base = penalty_for(settings, window.shape[0]), settings.objective
    if not penalty or not has_past(psi):
        return base, False
    prev_num, prev_den = psi(previous), psi(window)

    def penalised(log_num: Tensor, log_den: Tensor) -> Tensor:
        return base(log_num, log_den) + penalty * (constraint_residual(log_den, prev_num, prev_den) - 1.0) ** 2

    return penalised, True
