"""One step of the recursion: fit the increment between a position's window and the next one, for each kind of model."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor, nn

from driftline import inference, screening
from driftline.designs import Dense, Design, log_linear_design
from driftline.fitting import ConvexFit, FitInfo, bridge_constant, fit_convex, fit_features_lbfgs, is_separable
from driftline.models import (
    MLP,
    Features,
    LogLinear,
    ModuleFactory,
    Network,
    Psi,
    Standardizer,
    fit_features,
    grow,
    mlp_factory,
)
from driftline.objectives import Objective, constraint_residual, log_mean_exp, logistic, unnormalised
from driftline.training import Pair, Progress, Training, fit_network

__all__ = ["MODELS", "Position", "Settings", "Step", "initial", "is_network", "take"]

MODELS = ("auto", "linear", "mlp", "quadratic", "quadratic-full")
_NEWTON_FEATURES = 1500  # beyond, a factorisation costs more than L-BFGS
_FULL_COLUMNS = 512
_ROUNDS = 4  # of adding features, in one step
_EXTREME = 1e8  # standard deviations whose fourth power still fits in single precision


@dataclass(frozen=True)
class Settings:
    """How steps are taken; the estimators' parameters, resolved."""

    objective: Objective = logistic
    model: str | ModuleFactory = "auto"
    hidden: tuple[int, ...] = (256, 256)
    normalizer: str = "telescoped"
    penalty: float = 0.0
    ridge: float = 1.0
    training: Training = field(default_factory=Training)
    warm_start: bool = True
    polish: bool = True
    seed: int = 0
    progress: Progress | None = None


class Position(NamedTuple):
    """Where an original has got to: psi, its normaliser c, the window it stands on. log r = psi - c."""

    psi: Psi
    log_normalizer: float
    window: Tensor
    uncertainty: inference.Uncertainty | None = None
    evidence: screening.Evidence | None = None

    def log_ratio(self, x: Tensor) -> Tensor:
        """log original/current of raw rows (n, D)."""
        return self.psi(x) - self.log_normalizer


class Step(NamedTuple):
    """A new position, how its fit went, and the normalised log step ratio on both windows."""

    position: Position
    fit: FitInfo
    log_num: Tensor
    log_den: Tensor
    parameters: int
    note: str = ""


def is_network(model: str | ModuleFactory) -> bool:
    """Whether the model is fitted by the mini-batch loop."""
    return callable(model) or model == "mlp"


def initial(window: Tensor, standardizer: Standardizer, settings: Settings) -> Position:
    """Where tracing begins: psi = 0 on the original's own samples."""
    z = standardizer(window)
    features = _start_features(z, settings.model)
    screened = settings.model == "auto" and features.size < _NEWTON_FEATURES
    evidence = screening.start(z) if screened else None
    return Position(LogLinear(standardizer, features, z.new_zeros(features.size)), 0.0, window, None, evidence)


def _start_features(z: Tensor, model: str | ModuleFactory) -> Features:
    if is_network(model) or model == "linear":
        return fit_features(z, squares=False)
    if model != "quadratic-full":
        return fit_features(z)
    if z.shape[1] > _FULL_COLUMNS:
        raise ValueError(
            f"model='quadratic-full' holds all products of columns, too many for {z.shape[1]} columns "
            f"(at most {_FULL_COLUMNS}): use 'auto', which picks the products that move"
        )
    return fit_features(z, pairs=torch.triu_indices(z.shape[1], z.shape[1], 1, device=z.device).T.contiguous())


def take(positions: Mapping[str, Position], windows: Mapping[str, Tensor], taus: Mapping[str, int], heads: int,
         settings: Settings, seed: int) -> dict[str, Step]:  # fmt: skip
    """One step for each named position, to its window. Networks are shared: one fit of the averaged objective.

    For log-linear models the average separates into one convex problem per original, solved one by one.
    """
    if is_network(settings.model):
        device = next(iter(windows.values())).device
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            torch.manual_seed(seed)  # first weights, and whatever a module draws while it trains
            return _network_step(positions, windows, taus, heads, settings, seed)
    return {name: _convex_step(positions[name], window, settings, seed) for name, window in windows.items()}


def _convex_step(position: Position, window: Tensor, settings: Settings, seed: int) -> Step:
    problem = _problem(position, window, settings)
    objective, penalised = _with_penalty(position.psi, position.window, window, settings)
    small = problem.features.size < _NEWTON_FEATURES
    if penalised or not small or not is_separable(unnormalised(objective)):
        return _lbfgs_step(position, window, problem, objective, settings)

    solved = _newton(problem, unnormalised(objective), settings)
    note, evidence = "", None
    if settings.model == "auto":
        solved, evidence, note = _adapt(solved, position, unnormalised(objective), settings, seed)
    features, fit = solved.problem.features, solved.fit
    at = problem.features.positions(features)
    past = position.uncertainty if problem.continues else None
    uncertainty = inference.advance(past, at, solved.design_num, solved.design_den, fit)
    fit = fit._replace(info=fit.info._replace(held_out=fit.info.loss + inference.optimism(uncertainty)))
    coef = fit.coef[:-1].clone()
    coef[at] += problem.coef
    psi = LogLinear(_standardizer(position.psi), features, coef)
    arrived = _arrive(position, window, psi, float(fit.coef[-1]), settings)
    if settings.normalizer == "telescoped" and (problem.first or past is not None):
        arrived = arrived._replace(uncertainty=uncertainty)  # complete: all windows since the original are in it
    log_num = _plus(solved.design_num.dot(fit.coef), problem.offset_num)
    log_den = _plus(solved.design_den.dot(fit.coef), problem.offset_den)
    return Step(arrived._replace(evidence=evidence), fit.info, log_num, log_den, features.size + 1, note)


def _plus(values: Tensor, offset: Tensor | None) -> Tensor:
    return values if offset is None else values + offset


class _Problem(NamedTuple):
    """A log-linear step: features, the coefficients so far, both windows standardised, what is fixed on them.

    A psi of the same kind is continued by adding to its coefficients; any other is an offset, only its output counts.
    """

    features: Features
    coef: Tensor
    z_num: Tensor
    z_den: Tensor
    offset_num: Tensor | None
    offset_den: Tensor | None
    continues: bool
    first: bool


def _problem(position: Position, window: Tensor, settings: Settings) -> _Problem:
    psi, standardizer = position.psi, _standardizer(position.psi)
    z_num, z_den = standardizer(position.window), standardizer(window)
    _check_extremes(z_den, window)
    first = not _has_past(psi)
    if isinstance(psi, LogLinear) and _same_kind(psi.features, settings.model):
        return _Problem(psi.features, psi.coef, z_num, z_den, None, None, True, first)
    features = _start_features(z_num, settings.model)
    coef = z_num.new_zeros(features.size)
    if first:
        return _Problem(features, coef, z_num, z_den, None, None, False, True)
    return _Problem(features, coef, z_num, z_den, -psi(position.window), -psi(window), False, False)


def _has_past(psi: Psi) -> bool:
    """Whether a step has been taken: psi is no longer the zero it started as."""
    return not isinstance(psi, LogLinear) or bool(psi.coef.any())


def _check_extremes(z: Tensor, window: Tensor) -> None:
    """Refuse what single-precision Gram matrices cannot hold, by name."""
    if float(z.abs().max()) > _EXTREME:
        j = int(z.abs().amax(0).argmax())
        i = int(z[:, j].abs().argmax())
        raise ValueError(
            f"window: column {j} holds {float(window[i, j]):.3g} in row {i}, {float(z[i, j].abs()):.1g} standard "
            "deviations away from the original: a wrong unit, or an outlier to be removed"
        )


def _same_kind(features: Features, model: str | ModuleFactory) -> bool:
    """Whether coefficients of these features can be added to by that model."""
    if model == "auto":
        return features.squares
    pairs, d = features.pairs.shape[0], features.columns
    wanted = d * (d - 1) // 2 if model == "quadratic-full" else 0
    return features.squares == (model != "linear") and pairs == wanted and features.bias.shape[0] == 0


class _Solved(NamedTuple):
    problem: _Problem
    design_num: Design
    design_den: Design
    fit: ConvexFit


def _newton(problem: _Problem, objective: Objective, settings: Settings) -> _Solved:
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
    solved: _Solved, position: Position, objective: Objective, settings: Settings, seed: int
) -> tuple[_Solved, screening.Evidence, str]:
    """Add the features that the fit's scores ask for and fit again, until they ask for none."""
    evidence = position.evidence if position.evidence is not None else screening.start(solved.problem.z_num)
    past = None if position.uncertainty is None else position.uncertainty.score
    notes: list[str] = []
    for attempt in range(_ROUNDS):
        problem, fit = solved.problem, solved.fit
        proposal = screening.propose(
            problem.features, evidence, problem.z_num, problem.z_den, fit.score_num, fit.score_den, past,
            seed=seed + attempt,
        )  # fmt: skip
        if not proposal.reason:
            return solved, proposal.evidence, "; ".join(notes)
        if proposal.forget:
            evidence = proposal.evidence
        notes.append(f"added {proposal.reason}")
        wider = problem.features.extend(problem.z_num, proposal.pairs, proposal.weight, proposal.bias)
        solved = _newton(problem._replace(features=wider), objective, settings)
    problem, fit = solved.problem, solved.fit
    last = screening.propose(
        problem.features, evidence, problem.z_num, problem.z_den, fit.score_num, fit.score_den, past, seed=seed
    )
    return solved, last.evidence, "; ".join(notes)


def _lbfgs_step(
    position: Position, window: Tensor, problem: _Problem, objective: Objective, settings: Settings
) -> Step:
    """Many features, or a loss that couples the rows; it need not determine the constant, which is solved for alone."""
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
    psi = LogLinear(_standardizer(position.psi), features, problem.coef + fit.coef[:-1])
    arrived = _arrive(position, window, psi, constant, settings)
    return Step(arrived, fit.info, log_num + constant, log_den + constant, features.size + 1)


def _arrive(position: Position, window: Tensor, psi: Psi, constant: float, settings: Settings) -> Position:
    """The new position, its normaliser telescoped (c_t = c_{t-1} - constant) or averaged over the window itself."""
    if settings.normalizer == "self":
        return Position(psi, float(log_mean_exp(psi(window))), window)
    return Position(psi, position.log_normalizer - constant, window)


def _with_penalty(psi: Psi, previous: Tensor, window: Tensor, settings: Settings) -> tuple[Objective, bool]:
    """The objective, with the paper's constraint penalty where one is set and there is a past; whether it has one."""
    penalty, base = settings.penalty, settings.objective
    if not penalty or not _has_past(psi):
        return base, False
    prev_num, prev_den = psi(previous), psi(window)

    def penalised(log_num: Tensor, log_den: Tensor) -> Tensor:
        return base(log_num, log_den) + penalty * (constraint_residual(log_den, prev_num, prev_den) - 1.0) ** 2

    return penalised, True


def _standardizer(psi: Psi) -> Standardizer:
    assert isinstance(psi, LogLinear | Network)
    return psi.standardizer


def _network_step(positions: Mapping[str, Position], windows: Mapping[str, Tensor], taus: Mapping[str, int], heads: int,
                  settings: Settings, seed: int) -> dict[str, Step]:  # fmt: skip
    columns = next(iter(windows.values())).shape[1]
    device = next(iter(windows.values())).device
    factory = settings.model if callable(settings.model) else mlp_factory(settings.hidden)
    module = factory(columns + (heads > 1), heads)
    if not isinstance(module, nn.Module):
        raise TypeError(f"the model factory returned {type(module).__name__}, expected a torch.nn.Module")
    # a copy, in case the factory hands out one module again and again: the previous psi must stay what it is
    module = copy.deepcopy(module).to(device=device, dtype=torch.float32)
    if settings.warm_start:
        known = [p.psi for p in positions.values() if isinstance(p.psi, Network)]
        if known:
            grow(max(known, key=lambda psi: psi.heads).module, module)

    nets = {n: Network(_standardizer(positions[n].psi), module, taus[n], heads) for n in windows}
    previous = {n: (positions[n].psi(positions[n].window), positions[n].psi(windows[n])) for n in windows}
    pairs = [
        Pair(nets[n].inputs(positions[n].window), nets[n].inputs(windows[n]), previous[n][0].float(),
             previous[n][1].float(), nets[n].outputs)
        for n in windows
    ]  # fmt: skip
    past = any(_has_past(positions[n].psi) for n in windows)  # a first step has nothing to be consistent with
    info = fit_network(
        module, pairs, settings.objective, settings.training, penalty=settings.penalty if past else 0.0, seed=seed,
        split_seed=settings.seed, progress=settings.progress,
    )  # fmt: skip
    steps = {}
    for name, pair in zip(windows, pairs, strict=True):
        if settings.polish:
            _polish(nets[name], pair, settings)
        prev_num, prev_den = previous[name]
        log_num = nets[name](positions[name].window) - prev_num
        log_den = nets[name](windows[name]) - prev_den
        constant = bridge_constant(log_num, log_den, settings.objective)
        parameters = sum(p.numel() for p in module.parameters())
        arrived = _arrive(positions[name], windows[name], nets[name], constant, settings)
        steps[name] = Step(arrived, info, log_num + constant, log_den + constant, parameters)
    return steps


def _polish(net: Network, pair: Pair, settings: Settings) -> None:
    """Solve the last linear layer exactly on both whole windows, the hidden layers kept.

    Early stopping shrinks every increment a little, and over many steps the little adds up; this takes it back.
    """
    module, objective = net.module, unnormalised(settings.objective)
    if not isinstance(module, MLP):  # of other modules we do not know which layer is the last
        return
    head, hidden = module.head, module.hidden
    if not is_separable(objective):
        return
    with torch.no_grad():
        sides = []
        for inputs, previous in ((pair.num, pair.prev_num), (pair.den, pair.prev_den)):
            activations = hidden(inputs)
            phi = (head(activations)[:, net.tau] - previous).double()
            one = activations.new_ones(len(activations), 1)
            sides.append((Dense(torch.cat([activations, one], 1).double()), phi))
        shift = bridge_constant(sides[0][1], sides[1][1], settings.objective)
        fit = fit_convex(sides[0][0], sides[1][0], objective, offset_num=sides[0][1] + shift,
                         offset_den=sides[1][1] + shift, ridge=settings.ridge)  # fmt: skip
        head.weight[net.tau] += fit.coef[:-1].float()
        head.bias[net.tau] += (fit.coef[-1] + shift).float()
