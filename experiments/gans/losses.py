r"""Losses of critics and generators: WGAN, WGAN-GP, and f-GAN by reverse KL and Jensen-Shannon.

An f-GAN maximises the bound :math:`E_p[T] - E_q[f^*(T)]` with :math:`T = g(v)` of the critic's value v. With

- reverse KL: :math:`g = -e^{-v}`, :math:`f^*(g) = v - 1`; the bound is KL(q‖p),
- JS: :math:`g = \log 2 - \text{softplus}(-v)`, :math:`f^*(g) = \text{softplus}(v) - \log 2`; twice the JS divergence,

it is highest at :math:`v = \log p/q` in both cases.
"""

from __future__ import annotations

from collections.abc import Callable
from math import exp, log
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

__all__ = ["LOSSES", "Loss", "bound", "clip_weights", "gradient_penalty"]

Critic = Callable[[Tensor, Tensor], Tensor]
Generator = Callable[[Tensor], Tensor]

FLOOR = 5.0
"""Bound below which the exponential of reverse KL follows its tangent: for real images with v < -FLOOR."""


class Loss(NamedTuple):
    """Losses and constraints that a model is trained with.

    Attributes:
        label: how figures name it.
        critic: its loss from values of real and of generated images, lower is better.
        generator: its loss from values of generated images.
        clip: whether the critic's weights are clipped after each of its steps.
        penalty: whether the critic's loss has a gradient penalty.
        safe_critic, safe_generator: losses that neither overflow nor saturate, where the plain ones do.
    """

    label: str
    critic: Critic
    generator: Generator
    clip: bool = False
    penalty: bool = False
    safe_critic: Critic | None = None
    safe_generator: Generator | None = None

    def functions(self, *, safe: bool) -> tuple[Critic, Generator]:
        """Return the losses of critic and generator: the authors', or those that training can rely on."""
        if not safe:
            return self.critic, self.generator
        return self.safe_critic or self.critic, self.safe_generator or self.generator


def _wasserstein(real: Tensor, generated: Tensor) -> Tensor:
    return generated.mean() - real.mean()


def _raise(generated: Tensor) -> Tensor:
    return -generated.mean()


def _guarded_exp(v: Tensor) -> Tensor:
    """exp(-v), along its tangent below -FLOOR: no overflow, and unlike a plain clamp the gradient is not lost there."""
    inside = torch.exp(-v.clamp(min=-FLOOR))
    return inside + exp(FLOOR) * (-FLOOR - v).clamp(min=0.0)


def _reverse_kl(real: Tensor, generated: Tensor) -> Tensor:
    return torch.exp(-real).mean() + generated.mean() - 1.0


def _safe_reverse_kl(real: Tensor, generated: Tensor) -> Tensor:
    return _guarded_exp(real).mean() + generated.mean() - 1.0


def _js(real: Tensor, generated: Tensor) -> Tensor:
    return softplus(-real).mean() + softplus(generated).mean() - 2.0 * log(2.0)


def _js_minimax(generated: Tensor) -> Tensor:
    return -softplus(generated).mean()


def _js_rising(generated: Tensor) -> Tensor:
    # minimax saturates where the critic is sure; f-GAN (Sec. 3.2) too advises to raise T instead
    return softplus(-generated).mean()


LOSSES = {
    "wgan": Loss("WGAN", _wasserstein, _raise, clip=True),
    "wgan-gp": Loss("WGAN-GP", _wasserstein, _raise, penalty=True),
    # minimax for reverse KL: -E[v - 1] does not saturate, while raising T = -exp(-v) would overflow
    "fgan-rvkl": Loss("fGAN-rvKL", _reverse_kl, _raise, safe_critic=_safe_reverse_kl),
    "fgan-js": Loss("fGAN-JS", _js, _js_minimax, safe_generator=_js_rising),
}


def bound(name: str, real: Tensor, generated: Tensor) -> float:
    """Return the lower bound of the divergence that the critic's values give."""
    return -float(LOSSES[name].critic(real, generated).detach())


def gradient_penalty(critic: Callable[[Tensor], Tensor], real: Tensor, generated: Tensor, share: Tensor) -> Tensor:
    """Mean of (norm - 1)², the norm over all dimensions of each image's gradient, between real and generated ones.

    Arguments:
        share: of the real image in each point, (n,), uniform on [0, 1].
    """
    share = share.reshape(-1, *[1] * (real.ndim - 1))
    points = (share * real + (1.0 - share) * generated).detach().requires_grad_()
    # each value depends on its own image alone (no batch normalisation), so the sum's gradient is each value's own
    (gradient,) = torch.autograd.grad(critic(points).sum(), points, create_graph=True)
    norms: Tensor = gradient.flatten(1).norm(dim=1)
    return (norms - 1.0).square().mean()


@torch.no_grad()
def clip_weights(critic: nn.Module, limit: float) -> None:
    """Clip all weights to [-limit, limit], those of batch normalisation too."""
    for weight in critic.parameters():
        weight.clamp_(-limit, limit)
