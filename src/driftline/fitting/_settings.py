"""Settings of networks and of the loop that trains them; no PyTorch is needed to name them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["MODELS", "ModuleFactory", "Progress", "Training", "check_device", "check_training", "tau_inputs"]

MODELS = ("auto", "linear", "quadratic", "quadratic-full", "mlp")

ModuleFactory = Callable[[int, int], Any]
"""Factory ``(n_inputs, n_outputs) -> torch.nn.Module``; several originals have tau as last inputs, one output each."""

Progress = Callable[[int, int, float, float], None]
"""Callback ``progress(epoch, epochs, loss, held_out)``, called after each epoch of a network fit."""


class Training(NamedTuple):
    """Settings of networks and of the mini-batch loop that trains them.

    Those from ``weights`` on tell the paper from the authors' code: the defaults are the paper's.

    Arguments:
        epochs, min_epochs: most and fewest passes over the rows.
        patience: number of consecutive epochs without a new best held-out loss after which training stops.
        batch: number of rows from each window in a batch.
        lr, weight_decay, schedule, optimizer: "one-cycle" or "constant" rate; "adamw" or "adam", which has no decay.
        validation: fraction of rows held out.
        weights: "best" keeps the weights of the best epoch on the held-out rows, "last" those of the last epoch.
        constraint: ratio that lambda_c pulls towards 1: "printed", as in the paper's Eq. 10, or its "inverse".
        inputs: "standardised" by the original, or "raw".
        clip: largest absolute value of psi; 0 for no bound. With a bound there are no error bars.
        tau: with several originals, the original's number as one input ("number"), or one input each ("one-hot").
        init: standard deviation of an MLP's normal initial weights, with biases of 0; 0 for PyTorch's own.
    """

    epochs: int = 20
    min_epochs: int = 3
    patience: int = 3
    batch: int = 1000
    lr: float = 1e-3
    weight_decay: float = 1e-2
    schedule: str = "one-cycle"
    optimizer: str = "adamw"
    validation: float = 0.1
    weights: str = "best"
    constraint: str = "printed"
    inputs: str = "standardised"
    clip: float = 0.0
    tau: str = "number"
    init: float = 0.0


_WORDS = {
    "weights": ("best", "last"),
    "constraint": ("printed", "inverse"),
    "inputs": ("standardised", "raw"),
    "tau": ("number", "one-hot"),
}


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
    for name in ("clip", "init"):
        value = getattr(training, name)
        if not isinstance(value, int | float) or not 0.0 <= value < math.inf:
            raise ValueError(f"training.{name}={value!r} must be a finite number of at least 0; 0 turns it off")
    for name, words in _WORDS.items():
        if getattr(training, name) not in words:
            raise ValueError(
                f"training.{name}={getattr(training, name)!r} is unknown: choose {' or '.join(map(repr, words))}"
            )
    return training


def tau_inputs(heads: int, one_hot: bool) -> int:
    """Return the number of a network's inputs that name the original: none for one original."""
    return 0 if heads == 1 else heads if one_hot else 1
