"""Generators and critics that are given the task: convolutional ones of the paper's sizes, quick dense ones."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

__all__ = ["ARCHITECTURES", "Critic", "Generator"]

ARCHITECTURES = ("paper", "quick")

_SLOPE = 0.2  # of the leaky ReLU; the authors' code, the paper does not say
_SPREAD = 0.02  # standard deviation of the first weights of "paper", from the authors' code
_CHANNELS = (64, 128)
_DENSE = 1024
_QUICK_GENERATOR, _QUICK_CRITIC = (512, 512), (512, 256)


def _check(architecture: str, shape: Sequence[int]) -> tuple[int, int]:
    if architecture not in ARCHITECTURES:
        raise ValueError(f"architecture={architecture!r} is unknown: choose one of {list(ARCHITECTURES)}")
    if len(shape) != 2:
        raise ValueError(f"images of shape {tuple(shape)}: (height, width) is needed")
    if architecture == "paper" and (shape[0] % 4 or shape[1] % 4):
        raise ValueError(f"images of shape {tuple(shape)}: two strides of 2 need sides that 4 divides")
    return int(shape[0]), int(shape[1])


class Generator(nn.Module):
    """Images in [0, 1] from noise and a task.

    ``paper``: dense 1024, dense 7 x 7 x 128 (for 28 x 28 pixels), transposed convolutions 4 x 4 of stride 2 to 64
    channels and to one. ``quick``: two dense layers of 512. Batch normalisation is on the two dense layers, so that
    the label is a constant shift in a batch of one class and normalised away: sample such batches in ``eval()``.
    """

    def __init__(self, architecture: str, shape: Sequence[int], tasks: int, noise: int) -> None:
        super().__init__()
        height, width = self.shape = _check(architecture, shape)
        self.tasks, self.noise = tasks, noise
        base = (_CHANNELS[1], height // 4, width // 4)
        first, second = (_DENSE, prod(base)) if architecture == "paper" else _QUICK_GENERATOR
        self.dense = nn.Sequential(
            nn.Linear(noise + tasks, first),
            nn.BatchNorm1d(first),
            nn.LeakyReLU(_SLOPE),
            nn.Linear(first, second),
            nn.BatchNorm1d(second),
            nn.LeakyReLU(_SLOPE),
        )
        self.out = (
            nn.Linear(second, height * width)
            if architecture == "quick"
            else nn.Sequential(
                nn.Unflatten(1, base),
                nn.ConvTranspose2d(base[0], _CHANNELS[0], 4, stride=2, padding=1),
                nn.LeakyReLU(_SLOPE),
                nn.ConvTranspose2d(_CHANNELS[0], 1, 4, stride=2, padding=1),
            )
        )
        if architecture == "paper":
            self.apply(_small)

    def forward(self, z: Tensor, labels: Tensor) -> Tensor:
        """Images (n, height, width) of noise (n, noise) and task numbers (n,)."""
        hidden = self.dense(torch.cat([z, one_hot(labels, self.tasks).to(z.dtype)], 1))
        images: Tensor = torch.sigmoid(self.out(hidden)).reshape(-1, *self.shape)
        return images


class Critic(nn.Module):
    """A number for each image and task, without a sigmoid.

    ``paper``: convolutions 4 x 4 of stride 2 with 64 and 128 channels, then dense 1024. The task is a one-hot stack of
    constant maps beside the image, as in the authors' code. ``quick``: dense 512 and 256 on pixels and task, and one
    output per task: beside 784 pixels the label is faint, the more so with clipped weights, and classes got mixed up.

    Arguments:
        batch_norm: whether the second convolution and the dense layer of ``paper`` are normalised. Not for WGAN-GP: its
            penalty is on each image's own gradient, which batch normalisation makes depend on the whole batch.
            ``quick`` has none in any case: in a dense critic it separated real from generated batches so well that
            f-GANs learned nothing but noise.
    """

    def __init__(self, architecture: str, shape: Sequence[int], tasks: int, *, batch_norm: bool) -> None:
        super().__init__()
        height, width = _check(architecture, shape)
        self.tasks, self.maps = tasks, architecture == "paper"
        if self.maps:
            one, two = _CHANNELS
            self.net = nn.Sequential(
                nn.Conv2d(1 + tasks, one, 4, stride=2, padding=1),
                nn.LeakyReLU(_SLOPE),
                nn.Conv2d(one, two, 4, stride=2, padding=1),
                nn.BatchNorm2d(two) if batch_norm else nn.Identity(),
                nn.LeakyReLU(_SLOPE),
                nn.Flatten(),
                nn.Linear(two * (height // 4) * (width // 4), _DENSE),
                nn.BatchNorm1d(_DENSE) if batch_norm else nn.Identity(),
                nn.LeakyReLU(_SLOPE),
                nn.Linear(_DENSE, 1),
            )
            self.apply(_small)
            return
        first, second = _QUICK_CRITIC
        self.net = nn.Sequential(
            nn.Linear(height * width + tasks, first),
            nn.LeakyReLU(_SLOPE),
            nn.Linear(first, second),
            nn.LeakyReLU(_SLOPE),
            nn.Linear(second, tasks),
        )

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        """Values (n,) of images (n, height, width) and task numbers (n,)."""
        marks = one_hot(labels, self.tasks).to(images.dtype)
        if self.maps:
            maps = marks[:, :, None, None].expand(-1, -1, *images.shape[1:])
            single: Tensor = self.net(torch.cat([images[:, None], maps], 1)).squeeze(1)
            return single
        values: Tensor = self.net(torch.cat([images.flatten(1), marks], 1))
        return values.gather(1, labels[:, None]).squeeze(1)


def _small(layer: nn.Module) -> None:
    """Draw a layer's first weights as the authors do."""
    if isinstance(layer, nn.Linear | nn.Conv2d | nn.ConvTranspose2d):
        nn.init.normal_(layer.weight, std=_SPREAD)
        assert layer.bias is not None
        nn.init.zeros_(layer.bias)
