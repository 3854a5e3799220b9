"""The paper's feature networks as plain modules: a variational autoencoder and a small convolutional classifier."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from math import log, pi
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

__all__ = ["VAE", "ConvNet", "Encoder", "filled", "gaussian_kl", "pulled_loss"]

_LOG_VARIANCE = (-15.0, 10.0)  # an almost certain encoder must not make the next one's KL term infinite

Gaussian = tuple[Tensor, Tensor]
"""Mean and log-variance, (n, D) each."""


def _dense(widths: Sequence[int]) -> nn.Sequential:
    return nn.Sequential(*(part for a, b in pairwise(widths) for part in (nn.Linear(a, b), nn.ReLU())))


class Encoder(nn.Module):
    """q(z|x): ReLU layers, then one linear layer each for mean and log-variance."""

    def __init__(self, n_inputs: int, hidden: Sequence[int], latent: int) -> None:
        super().__init__()
        self.body = _dense([n_inputs, *hidden])
        last = [n_inputs, *hidden][-1]
        self.mean, self.log_variance = nn.Linear(last, latent), nn.Linear(last, latent)

    def forward(self, x: Tensor) -> Gaussian:
        """Return the posterior of rows (n, D)."""
        h = self.body(x)
        return self.mean(h), self.log_variance(h).clamp(*_LOG_VARIANCE)


class VAE(nn.Module):
    """An encoder and a decoder, whose outputs are logits of values in [0, 1] or means of Gaussians.

    ``noise`` is the standard deviation of ``pixels``, Gaussians around values in [0, 1].
    """

    def __init__(
        self,
        n_inputs: int,
        encoder: Sequence[int],
        latent: int,
        decoder: Sequence[int],
        likelihood: str,
        noise: float = 0.1,
    ) -> None:
        super().__init__()
        self.sizes: dict[str, Any] = {"encoder": tuple(encoder), "decoder": tuple(decoder), "latent": latent}
        self.encoder = Encoder(n_inputs, encoder, latent)
        self.decoder = nn.Sequential(_dense([latent, *decoder]), nn.Linear([latent, *decoder][-1], n_inputs))
        self.likelihood, self.noise = likelihood, noise
        # one learned variance for all inputs: a fixed 1 on standardised inputs would treat all variation as noise
        self.log_noise = nn.Parameter(torch.zeros(())) if likelihood == "gaussian" else None

    def decode(self, z: Tensor) -> Tensor:
        """Return the mean of p(x|z), (n, D)."""
        out: Tensor = self.decoder(z)
        return out if self.likelihood == "gaussian" else out.sigmoid()

    def negative_log_likelihood(self, x: Tensor, z: Tensor) -> Tensor:
        """Return -log p(x|z) of each row in nats, (n,); for grey values between 0 and 1, the usual cross-entropy."""
        out = self.decoder(z)
        if self.likelihood == "bernoulli":
            losses: Tensor = binary_cross_entropy_with_logits(out, x, reduction="none")
            return losses.sum(1)
        if self.log_noise is None:
            squares: Tensor = (out.sigmoid() - x).square().sum(1) / self.noise**2
            return 0.5 * (squares + x.shape[1] * log(2.0 * pi * self.noise**2))
        squares = (out - x).square().sum(1) * (-self.log_noise).exp()
        return 0.5 * (squares + x.shape[1] * (self.log_noise + log(2.0 * pi)))


def gaussian_kl(one: Gaussian, other: Gaussian | None = None, *, prior: float = 1.0) -> Tensor:
    """Return KL(one‖other) of diagonal Gaussians, row by row, (n,); ``other`` defaults to N(0, prior² I).

    >>> one = torch.ones(1, 2), torch.zeros(1, 2)
    >>> gaussian_kl(one), gaussian_kl(one, one)
    (tensor([1.]), tensor([0.]))
    """
    mean, log_variance = one
    base, log_base = (torch.zeros_like(mean), torch.full_like(mean, 2.0 * log(prior))) if other is None else other
    terms = log_base - log_variance + (log_variance - log_base).exp() + (mean - base).square() * (-log_base).exp() - 1.0
    return 0.5 * terms.sum(1)


def pulled_loss(vae: VAE, before: Encoder | None, x: Tensor, noise: Tensor, pull: float, prior: float = 1.0) -> Tensor:
    """Return the paper's loss of a batch: -log p(x|z) + pull KL(q_t(z|x)‖q_{t-1}(z|x)); at first, KL to the prior."""
    posterior = mean, log_variance = vae.encoder(x)
    loss = vae.negative_log_likelihood(x, mean + noise * (0.5 * log_variance).exp())
    if before is None:
        return (loss + gaussian_kl(posterior, prior=prior)).mean()
    with torch.no_grad():
        previous = before(x)
    return (loss + pull * gaussian_kl(posterior, previous)).mean()


N = TypeVar("N", bound=nn.Module)


def filled(make: Callable[[], N], weights: Mapping[str, Tensor]) -> N:
    """Return a network with these weights; one of another size is refused before any memory is taken for it."""
    with torch.device("meta"):
        net = make()
    known = net.state_dict()
    for name, value in weights.items():
        if name in known and value.dtype != known[name].dtype:
            raise ValueError(f"{name} holds {value.dtype} instead of {known[name].dtype}")
    net.load_state_dict(weights, assign=True)
    return net


class ConvNet(nn.Module):
    """Two convolutions that halve the image, dense ReLU layers, a linear head.

    Batch normalisation is on the second convolution and the first dense layer.
    """

    def __init__(self, shape: Sequence[int], channels: Sequence[int], dense: Sequence[int], classes: int) -> None:
        super().__init__()
        first, second = channels
        depth, height, width = shape
        self.first = nn.Conv2d(depth, first, 4, stride=2, padding=1)
        self.second = nn.Conv2d(first, second, 4, stride=2, padding=1)
        self.second_norm = nn.BatchNorm2d(second)
        widths = [second * (height // 2 // 2) * (width // 2 // 2), *dense]
        self.dense = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))
        self.dense_norm = nn.BatchNorm1d(dense[0])
        self.head = nn.Linear(widths[-1], classes)

    def hidden(self, x: Tensor) -> Tensor:
        """Return the activations of the last hidden layer, (n, dense[-1]), of images (n, c, h, w)."""
        x = torch.relu(self.first(x))
        x = torch.relu(self.second_norm(self.second(x))).flatten(1)
        for i, layer in enumerate(self.dense):
            x = torch.relu(self.dense_norm(layer(x)) if i == 0 else layer(x))
        return x

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits, (n, classes)."""
        out: Tensor = self.head(self.hidden(x))
        return out
