"""A step of a network, shared by all originals that have a window: one fit of the averaged objective."""

from __future__ import annotations

import copy
from collections.abc import Mapping

import torch
from torch import nn

from driftline import inference
from driftline._inputs import Floats
from driftline.fitting import (
    MLP,
    ConvexFit,
    Dense,
    Network,
    Pair,
    bridge_constant,
    design_of,
    find_repeats,
    fit_convex,
    fit_network,
    grow,
    last_layer,
    loss_of,
    mlp_factory,
    resolve_device,
    tau_inputs,
    unnormalised,
)
from driftline.recursion._rows import Curved, depends, own_rows, reach
from driftline.recursion._settings import StepSettings, penalty_for
from driftline.recursion._state import Anchor, Step, arrive, has_past
from driftline.recursion._wide import is_convex

__all__ = ["network_step"]


def network_step(
    anchors: Mapping[str, Anchor],
    windows: Mapping[str, Floats],
    taus: Mapping[str, int],
    heads: int,
    settings: StepSettings,
    seed: int,
) -> dict[str, Step]:
    """Fit one network for all windows; ``taus`` number the originals, ``heads`` counts all that are traced."""
    device = resolve_device(settings.device)
    module = _module(anchors, device, heads, settings, seed)
    training = settings.training
    form = training.inputs == "raw", training.clip, training.tau == "one-hot"
    nets = {n: Network(anchors[n].psi.standardizer, module, taus[n], heads, *form) for n in windows}
    previous = {n: (anchors[n].psi(anchors[n].window), anchors[n].psi(windows[n])) for n in windows}
    pairs = {
        n: Pair(
            num=nets[n].inputs(anchors[n].window),
            den=nets[n].inputs(windows[n]),
            prev_num=_single(previous[n][0], device),
            prev_den=_single(previous[n][1], device),
            outputs=nets[n].outputs,
        )
        for n in windows
    }
    past = any(has_past(anchors[n]) for n in windows)  # a first step has nothing to be consistent with
    penalty = penalty_for(settings, min(len(window) for window in windows.values())) if past else 0.0
    info = fit_network(
        module,
        list(pairs.values()),
        settings.objective,
        training,
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
        rows, repeats = Curved(nets[n].standardizer(windows[n])), find_repeats(windows[n])
        den = depends(rows, reach(rows, settings, repeats), repeats, settings)
        arrived = arrive(anchors[n], windows[n], nets[n], constant, settings, den)
        if fit is not None and settings.normalizer == "telescoped":
            arrived = arrived._replace(
                uncertainty=_uncertainty(anchors[n], nets[n], pairs[n], fit, own_rows(anchors[n], settings), den)
            )
        parameters = sum(p.numel() for p in module.parameters())
        steps[n] = Step(
            arrived, info, log_num + constant, log_den + constant, anchors[n].log_normalizer - constant, parameters
        )
    return steps


def _single(values: Floats, device: torch.device) -> torch.Tensor:
    return torch.from_numpy(values.astype("float32")).to(device)


def _module(
    anchors: Mapping[str, Anchor], device: torch.device, heads: int, settings: StepSettings, seed: int
) -> nn.Module:
    """Make the network to be trained, from the previous weights if there are any and ``warm_start`` is set."""
    columns = next(iter(anchors.values())).psi.standardizer.mean.shape[0]
    own = mlp_factory(settings.hidden, torch.Generator().manual_seed(seed), settings.training.init)
    factory = settings.model if callable(settings.model) else own
    module = factory(columns + tau_inputs(heads, settings.training.tau == "one-hot"), heads)
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
    module, loss = net.module, loss_of(unnormalised(settings.objective))
    if not isinstance(module, MLP) or net.clip:  # the last layer is unknown, or psi is not linear in it
        return None
    if not loss.separable or not is_convex(loss):  # a loss that is not convex has no minimum in so many features
        return None
    head = module.head
    weight, bias = (value.detach()[net.tau].double().cpu().numpy() for value in (head.weight, head.bias))
    sides = []
    for inputs, before in ((pair.num, pair.prev_num), (pair.den, pair.prev_den)):
        design = last_layer(module, inputs)
        sides.append((Dense(design), design[:, :-1] @ weight + bias - before.double().cpu().numpy()))
    (num, phi_num), (den, phi_den) = sides
    shift = bridge_constant(phi_num, phi_den, settings.objective)
    fit = fit_convex(num, den, loss, offset_num=phi_num + shift, offset_den=phi_den + shift, ridge=settings.ridge)
    with torch.no_grad():
        head.weight[net.tau] += torch.from_numpy(fit.coef[:-1]).to(head.weight)
        head.bias[net.tau] += float(fit.coef[-1] + shift)
    return fit


def _uncertainty(
    anchor: Anchor,
    net: Network,
    pair: Pair,
    fit: ConvexFit,
    rows_num: inference.Dependence,
    rows_den: inference.Dependence,
) -> inference.Uncertainty | None:
    """Errors of the last layer with its features taken as given; those of earlier steps are carried over to them."""
    assert isinstance(net.module, MLP)
    num, den = Dense(last_layer(net.module, pair.num)), Dense(last_layer(net.module, pair.den))
    if not has_past(anchor):
        return inference.advance(None, num, num, den, fit, rows_num, rows_den)
    before = design_of(anchor.psi, anchor.window)
    if anchor.uncertainty is None or not isinstance(before, Dense):
        return None
    past = inference.transported(anchor.uncertainty, inference.projection(num.matrix, before.matrix))
    return inference.advance(past, before, num, den, fit, rows_num, rows_den)
