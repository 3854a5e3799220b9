"""Settings of networks and of the loop that trains them; no PyTorch is needed to name them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["MODELS", "ModuleFactory", "Progress", "Training", "check_device", "check_training"]

MODELS = ("auto", "linear", "quadratic", "quadratic-full", "mlp")

ModuleFactory = Callable[[int, int], Any]
"""Factory ``(n_inputs, n_outputs) -> torch.nn.Module``; several originals have tau as last input, one output each."""

Progress = Callable[[int, int, float, float], None]
"""Callback ``progress(epoch, epochs, loss, held_out)``, called after each epoch of a network fit."""


class Training(NamedTuple):
    """Settings of the mini-batch loop. ``batch`` is the number of rows from each window."""

    epochs: int = 20
    min_epochs: int = 3
    patience: int = 3
    batch: int = 1000
    lr: float = 1e-3
    weight_decay: float = 1e-2
    schedule: str = "one-cycle"
    optimizer: str = "adamw"
    validation: float = 0.1


def check_device(device: Any) -> None:
    """Raise an error for a word that is not the name of a device; whether there is one, PyTorch knows."""
    if not isinstance(device, str) or not re.fullmatch(r"auto|(cpu|cuda|mps)(:\d+)?", device):
        raise ValueError(f"device={device!r} is unknown: choose 'cpu', 'cuda' or 'auto'")


def check_training(training: Any) -> Training:
    """Return the settings, or raise an error that names the wrong one."""
    if not isinstance(training, Training):
        raise TypeError(f"training={training!r} must be a driftline.Training")
    if not 0.0 < training.validation < 1.0:
        raise ValueError(f"training.validation={training.validation} must lie between 0 and 1")
    for name in ("epochs", "batch", "lr"):
        if not getattr(training, name) > 0:
            raise ValueError(f"training.{name}={getattr(training, name)} must be positive")
    return training
