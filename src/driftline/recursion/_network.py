"""A step of a network, shared by all originals that have a window: one fit of the averaged objective."""

from __future__ import annotations

import copy
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from driftline import inference
from driftline.fitting import (
    MLP,
    ConvexFit,
    Dense,
    Network,
    Pair,
    bridge_constant,
    design_of,
    fit_convex,
    fit_network,
    grow,
    is_separable,
    last_layer,
    mlp_factory,
    unnormalised,
)
from driftline.recursion._settings import StepSettings, penalty_for
from driftline.recursion._state import Anchor, Step, arrive, has_past, reach, standardizer_of

__all__ = ["network_step"]


def network_step(anchors: Mapping[str, Anchor], windows: Mapping[str, Tensor], taus: Mapping[str, int], heads: int,
                 settings: StepSettings, seed: int) -> dict[str, Step]:  # fmt: skip
    """Fit one network for all windows; ``taus`` number the originals, ``heads`` counts all that are traced."""
    columns = standardizer_of(next(iter(anchors.values())).psi).mean.shape[0]
    device = next(iter(windows.values())).device
    factory = settings.model if callable(settings.model) else mlp_factory(settings.hidden)
    module = factory(columns + (heads > 1), heads)
    if not isinstance(module, nn.Module):
        raise TypeError(f"the model factory returned {type(module).__name__}, expected a torch.nn.Module")
    # a copy, in case the factory hands out one module again and again: the previous psi must stay what it is
    module = copy.deepcopy(module).to(device=device, dtype=torch.float32)
    if settings.warm_start:
        known = [p.psi for p in anchors.values() if isinstance(p.psi, Network)]
        if known:
            grow(max(known, key=lambda psi: psi.heads).module, module)

    nets = {n: Network(standardizer_of(anchors[n].psi), module, taus[n], heads) for n in windows}
    previous = {n: (anchors[n].psi(anchors[n].window), anchors[n].psi(windows[n])) for n in windows}
    pairs = [
        Pair(nets[n].inputs(anchors[n].window), nets[n].inputs(windows[n]), previous[n][0].float(),
             previous[n][1].float(), nets[n].outputs)
        for n in windows
    ]  # fmt: skip
    past = any(has_past(anchors[n].psi) for n in windows)  # a first step has nothing to be consistent with
    penalty = penalty_for(settings, min(len(window) for window in windows.values())) if past else 0.0
    info = fit_network(
        module, pairs, settings.objective, settings.training, penalty=penalty, seed=seed, split_seed=settings.seed,
        progress=settings.progress,
    )  # fmt: skip
    steps = {}
    for name, pair in zip(windows, pairs, strict=True):
        fit = _polish(nets[name], pair, settings) if settings.polish else None
        prev_num, prev_den = previous[name]
        log_num = nets[name](anchors[name].window) - prev_num
        log_den = nets[name](windows[name]) - prev_den
        constant = bridge_constant(log_num, log_den, settings.objective)
        parameters = sum(p.numel() for p in module.parameters())
        lag = reach(nets[name].standardizer(windows[name]), settings)
        arrived = arrive(anchors[name], windows[name], nets[name], constant, settings, lag)
        if fit is not None and settings.normalizer == "telescoped":
            arrived = arrived._replace(uncertainty=_uncertainty(anchors[name], nets[name], pair, fit, lag))
        steps[name] = Step(arrived, info, log_num + constant, log_den + constant, parameters)
    return steps


def _polish(net: Network, pair: Pair, settings: StepSettings) -> ConvexFit | None:
    """Solve the last linear layer exactly on both whole windows, the hidden layers kept.

    Early stopping shrinks every increment a little, and over many steps the little adds up; this takes it back.
    """
    module, objective = net.module, unnormalised(settings.objective)
    if not isinstance(module, MLP):  # of other modules we do not know which layer is the last
        return None
    if not is_separable(objective):
        return None
    head = module.head
    with torch.no_grad():
        sides = []
        for inputs, before in ((pair.num, pair.prev_num), (pair.den, pair.prev_den)):
            design = last_layer(module, inputs)
            phi = design[:, :-1] @ head.weight[net.tau].double() + head.bias[net.tau].double() - before.double()
            sides.append((Dense(design), phi))
        shift = bridge_constant(sides[0][1], sides[1][1], settings.objective)
        fit = fit_convex(sides[0][0], sides[1][0], objective, offset_num=sides[0][1] + shift,
                         offset_den=sides[1][1] + shift, ridge=settings.ridge)  # fmt: skip
        head.weight[net.tau] += fit.coef[:-1].float()
        head.bias[net.tau] += (fit.coef[-1] + shift).float()
    return fit


def _uncertainty(anchor: Anchor, net: Network, pair: Pair, fit: ConvexFit, lag: int) -> inference.Uncertainty | None:
    """Errors of the last layer, its features taken as given; those of earlier steps carried over to its features."""
    assert isinstance(net.module, MLP)
    num, den = Dense(last_layer(net.module, pair.num)), Dense(last_layer(net.module, pair.den))
    if not has_past(anchor.psi):
        return inference.advance(None, num, num, den, fit, anchor.lag, lag)
    before = design_of(anchor.psi, anchor.window)
    if anchor.uncertainty is None or not isinstance(before, Dense):
        return None
    past = inference.transported(anchor.uncertainty, inference.projection(num.matrix, before.matrix))
    return inference.advance(past, before, num, den, fit, anchor.lag, lag)
