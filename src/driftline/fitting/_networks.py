"""Networks as models of psi: modules, one head per original, and growth of one network out of another."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils import skip_init

from driftline._inputs import Floats
from driftline.fitting._chunks import chunks
from driftline.fitting._designs import Dense
from driftline.fitting._models import Standardizer
from driftline.fitting._settings import ModuleFactory, tau_inputs

__all__ = ["MLP", "Network", "grow", "last_layer", "mlp_factory", "resolve_device"]

_ROWS = 8192  # rows scored at a time
_CLIP = 1e4  # beyond this, a standardised input carries no more information for a float32 network


class MLP(nn.Module):
    """The paper's network: dense ReLU layers, by default two of 256, and one linear output per original.

    Initial weights are drawn from ``generator``, or from PyTorch's global one, which threads share: PyTorch's own, or
    normal ones of standard deviation ``init`` with biases of 0.
    """

    def __init__(
        self,
        n_inputs: int,
        n_outputs: int = 1,
        hidden: Sequence[int] = (256, 256),
        generator: torch.Generator | None = None,
        init: float = 0.0,
    ) -> None:
        super().__init__()
        widths = [n_inputs, *hidden]
        self.widths = tuple(hidden)
        self.layers = nn.ModuleList(_linear(a, b, generator, init) for a, b in pairwise(widths))
        self.head = _linear(widths[-1], n_outputs, generator, init)

    def hidden(self, x: Tensor) -> Tensor:
        """Return the activations of the last hidden layer, (n, width)."""
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs, (n, n_outputs)."""
        out: Tensor = self.head(self.hidden(x))
        return out


def _linear(n_inputs: int, n_outputs: int, generator: torch.Generator | None, init: float) -> nn.Linear:
    """Return a layer with normal initial weights or, for ``init`` 0, PyTorch's own: only the generator is chosen."""
    layer = skip_init(nn.Linear, n_inputs, n_outputs)
    assert isinstance(layer, nn.Linear)
    if init:
        nn.init.normal_(layer.weight, std=init, generator=generator)
        nn.init.zeros_(layer.bias)
        return layer
    nn.init.kaiming_uniform_(layer.weight, a=5.0**0.5, generator=generator)
    nn.init.uniform_(layer.bias, -(n_inputs**-0.5), n_inputs**-0.5, generator=generator)
    return layer


def mlp_factory(
    hidden: Sequence[int] = (256, 256), generator: torch.Generator | None = None, init: float = 0.0
) -> ModuleFactory:
    """Return a factory of :class:`MLP` with these hidden widths, and weights drawn from the generator."""
    return lambda n_inputs, n_outputs: MLP(n_inputs, n_outputs, hidden, generator, init)


class Network(NamedTuple):
    """Psi of one original in a possibly shared network: ``tau`` picks a head and, if there are several, is an input.

    ``raw``, ``clip`` and ``one_hot`` are ``inputs``, ``clip`` and ``tau`` of the :class:`Training` that made it.
    """

    standardizer: Standardizer
    module: nn.Module
    tau: int
    heads: int
    raw: bool = False
    clip: float = 0.0
    one_hot: bool = False

    def inputs(self, x: Floats) -> Tensor:
        """Return the network inputs of raw rows, on its device, (n, D + inputs for tau with several originals)."""
        rows = x[:, : len(self.standardizer.mean)] if self.raw else np.clip(self.standardizer(x), -_CLIP, _CLIP)
        z = torch.from_numpy(rows.astype(np.float32)).to(self.device)
        tau = z.new_zeros(len(z), tau_inputs(self.heads, self.one_hot))
        if self.one_hot:
            tau[:, self.tau : self.tau + 1] = 1.0  # empty for one original
        else:
            tau[:] = float(self.tau)
        return torch.cat([z, tau], 1)

    @property
    def device(self) -> torch.device:
        """Where its weights are."""
        found = next(self.module.parameters(), None)
        return torch.device("cpu") if found is None else found.device

    def __call__(self, x: Floats) -> Floats:
        """Return psi of raw rows, (n,)."""
        out = np.empty(len(x))
        with torch.no_grad():
            for at in chunks(len(x), _ROWS):
                out[at] = self.outputs(self.inputs(x[at])).double().cpu().numpy()
        return out

    def design(self, x: Floats) -> Dense | None:
        """Return the activations of an MLP's last hidden layer, or None where psi is not linear in these."""
        if not isinstance(self.module, MLP) or self.clip:
            return None
        return Dense(last_layer(self.module, self.inputs(x)))

    def outputs(self, inputs: Tensor) -> Tensor:
        """Return the outputs of this original's head, (n,)."""
        out: Tensor = self.module(inputs)
        if out.ndim == 1 and self.heads == 1:
            return self._clipped(out)
        if out.ndim != 2 or out.shape[1] != self.heads:
            raise ValueError(
                f"the module returned shape {tuple(out.shape)} for {inputs.shape[0]} rows: "
                f"expected ({inputs.shape[0]}, {self.heads})"
            )
        return self._clipped(out[:, self.tau])

    def _clipped(self, psi: Tensor) -> Tensor:
        return psi.clamp(-self.clip, self.clip) if self.clip else psi


def last_layer(module: MLP, inputs: Tensor) -> Floats:
    """Return activations of the last hidden layer and a column of ones, (n, width + 1), in double precision."""
    with torch.no_grad():
        activations = module.hidden(inputs).double().cpu().numpy()
    return np.concatenate([activations, np.ones((len(activations), 1))], 1)


def resolve_device(device: str) -> torch.device:
    """Return the named device; ``auto`` is cuda if there is one, cpu otherwise."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ValueError(f"device={device!r} is unknown: choose 'cpu', 'cuda' or 'auto'") from error
    if found.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device={device!r}: this PyTorch finds no CUDA device; choose 'cpu' or 'auto'")
    return found


def grow(old: nn.Module, new: nn.Module) -> bool:
    """Initialise ``new`` from ``old`` where their parameters overlap; return whether the structures allow it.

    Added inputs of a layer get weight zero, so a network that has only become wider still computes the same values.
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
