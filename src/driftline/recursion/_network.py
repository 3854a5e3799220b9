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


def network_step(
    anchors: Mapping[str, Anchor],
    windows: Mapping[str, Tensor],
    taus: Mapping[str, int],
    heads: int,
    settings: StepSettings,
    seed: int,
) -> dict[str, Step]:
    """Fit one network for all windows; ``taus`` number the originals, ``heads`` counts all that are traced."""
    module = _module(anchors, next(iter(windows.values())).device, heads, settings, seed)
    nets = {n: Network(standardizer_of(anchors[n].psi), module, taus[n], heads) for n in windows}
    previous = {n: (anchors[n].psi(anchors[n].window), anchors[n].psi(windows[n])) for n in windows}
    pairs = {
        n: Pair(
            num=nets[n].inputs(anchors[n].window),
            den=nets[n].inputs(windows[n]),
            prev_num=previous[n][0].float(),
            prev_den=previous[n][1].float(),
            outputs=nets[n].outputs,
        )
        for n in windows
    }
    past = any(has_past(anchors[n].psi) for n in windows)  # a first step has nothing to be consistent with
    penalty = penalty_for(settings, min(len(window) for window in windows.values())) if past else 0.0
    info = fit_network(
        module,
        list(pairs.values()),
        settings.objective,
        settings.training,
        penalty=penalty,
        seed=seed,
        split_seed=settings.seed,
        progress=settings.progress,
    )
    steps = {}
    for n, (prev_num, prev_den) in previous.items():
        fit = _polish(nets[n], pairs[n], settings) if settings.polish else None
        log_num, log_den = nets[n](anchors[n].window) - prev_num, nets[n](windows[n]) - prev_den
        constant = bridge_constant(log_num, log_den, settings.objective)
        lag = reach(nets[n].standardizer(windows[n]), settings)
        arrived = arrive(anchors[n], windows[n], nets[n], constant, settings, lag)
        if fit is not None and settings.normalizer == "telescoped":
            arrived = arrived._replace(uncertainty=_uncertainty(anchors[n], nets[n], pairs[n], fit, lag))
        parameters = sum(p.numel() for p in module.parameters())
        steps[n] = Step(arrived, info, log_num + constant, log_den + constant, parameters)
    return steps


def _module(
    anchors: Mapping[str, Anchor], device: torch.device, heads: int, settings: StepSettings, seed: int
) -> nn.Module:
    """Make the network to be trained, from the previous weights if there are any and ``warm_start`` is set."""
    columns = standardizer_of(next(iter(anchors.values())).psi).mean.shape[0]
    own = mlp_factory(settings.hidden, torch.Generator().manual_seed(seed))
    factory = settings.model if callable(settings.model) else own
    module = factory(columns + (heads > 1), heads)
    if not isinstance(module, nn.Module):
        raise TypeError(f"the model factory returned {type(module).__name__}, expected a torch.nn.Module")
    # a copy, in case the factory returns the same module every time: the previous psi must not change
    module = copy.deepcopy(module).to(device=device, dtype=torch.float32)
    if settings.warm_start:
        known = [anchor.psi for anchor in anchors.values() if isinstance(anchor.psi, Network)]
        if known:
            grow(max(known, key=lambda psi: psi.heads).module, module)
    return module


def _polish(net: Network, pair: Pair, settings: StepSettings) -> ConvexFit | None:
    """Solve the last linear layer exactly on both whole windows, keeping the hidden layers.

    Early stopping shrinks every increment a little, which adds up over many steps; this undoes it.
    """
    module, objective = net.module, unnormalised(settings.objective)
    if not isinstance(module, MLP):  # the last layer of other modules is unknown
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
        (num, phi_num), (den, phi_den) = sides
        shift = bridge_constant(phi_num, phi_den, settings.objective)
        fit = fit_convex(
            num, den, objective, offset_num=phi_num + shift, offset_den=phi_den + shift, ridge=settings.ridge
        )
        head.weight[net.tau] += fit.coef[:-1].float()
        head.bias[net.tau] += (fit.coef[-1] + shift).float()
    return fit


def _uncertainty(anchor: Anchor, net: Network, pair: Pair, fit: ConvexFit, lag: int) -> inference.Uncertainty | None:
    """Errors of the last layer with its features taken as given; those of earlier steps are carried over to them."""
    assert isinstance(net.module, MLP)
    num, den = Dense(last_layer(net.module, pair.num)), Dense(last_layer(net.module, pair.den))
    if not has_past(anchor.psi):
        return inference.advance(None, num, num, den, fit, anchor.lag, lag)
    before = design_of(anchor.psi, anchor.window)
    if anchor.uncertainty is None or not isinstance(before, Dense):
        return None
    past = inference.transported(anchor.uncertainty, inference.projection(num.matrix, before.matrix))
    return inference.advance(past, before, num, den, fit, anchor.lag, lag)
