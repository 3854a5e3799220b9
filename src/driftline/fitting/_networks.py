"""Networks as models of psi: modules, one head per original, and how one network grows out of another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn

from driftline.fitting._models import CHUNK, Standardizer

__all__ = ["MLP", "ModuleFactory", "Network", "grow", "mlp_factory"]

ModuleFactory = Callable[[int, int], nn.Module]
"""``factory(n_inputs, n_outputs)``; with several originals, tau is the last input and each has its own output."""

_CLIP = 1e4  # a standardised input beyond this says nothing more to a float32 network


class MLP(nn.Module):
    """The paper's network: dense ReLU layers, by default two of 256, and one linear output per original."""

    def __init__(self, n_inputs: int, n_outputs: int = 1, hidden: Sequence[int] = (256, 256)) -> None:
        super().__init__()
        widths = [n_inputs, *hidden]
        self.widths = tuple(hidden)
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))
        self.head = nn.Linear(widths[-1], n_outputs)

    def hidden(self, x: Tensor) -> Tensor:
        """Activations of the last hidden layer, (n, width)."""
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x

    def forward(self, x: Tensor) -> Tensor:
        """Outputs, (n, n_outputs)."""
        out: Tensor = self.head(self.hidden(x))
        return out


def mlp_factory(hidden: Sequence[int] = (256, 256)) -> ModuleFactory:
    """A factory of :class:`MLP` with these hidden widths."""
    return lambda n_inputs, n_outputs: MLP(n_inputs, n_outputs, hidden)


class Network(NamedTuple):
    """psi of one original in a (possibly shared) network: ``tau`` picks a head and, among several, is an input."""

    standardizer: Standardizer
    module: nn.Module
    tau: int
    heads: int

    def inputs(self, x: Tensor) -> Tensor:
        """Network inputs (n, D) or, with several originals, (n, D + 1)."""
        z = self.standardizer(x).clamp(-_CLIP, _CLIP).float()
        if self.heads == 1:
            return z
        return torch.cat([z, torch.full_like(z[:, :1], float(self.tau))], 1)

    def __call__(self, x: Tensor) -> Tensor:
        """Psi of raw rows, (n,)."""
        with torch.no_grad():
            return torch.cat([self.outputs(self.inputs(rows)) for rows in x.split(CHUNK)]).double()

    def outputs(self, inputs: Tensor) -> Tensor:
        """This original's head, (n,)."""
        out: Tensor = self.module(inputs)
        if out.ndim == 1 and self.heads == 1:
            return out
        if out.ndim != 2 or out.shape[1] != self.heads:
            raise ValueError(
                f"the module returned shape {tuple(out.shape)} for {inputs.shape[0]} rows: "
                f"expected ({inputs.shape[0]}, {self.heads})"
            )
        return out[:, self.tau]


def grow(old: nn.Module, new: nn.Module) -> bool:
    """Start ``new`` from ``old`` where their parameters overlap; true if the structures allowed it.

    Added inputs of a layer get weight zero, so a network that only became wider computes what it did before.
    """
    before, after = dict(old.named_parameters()), dict(new.named_parameters())
    if before.keys() != after.keys() or any(before[k].ndim != after[k].ndim for k in after):
        return False
    if any(a > b for k in after for a, b in zip(before[k].shape, after[k].shape, strict=True)):
        return False
    with torch.no_grad():
        for name, value in after.items():
            source = before[name]
            if value.ndim >= 2:
                value[: source.shape[0], source.shape[1] :] = 0.0
            value[tuple(slice(0, n) for n in source.shape)] = source
        known = dict(old.named_buffers())
        for name, buffer in new.named_buffers():
            if name in known and known[name].shape == buffer.shape:
                buffer.copy_(known[name])
    return True
