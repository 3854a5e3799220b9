"""One step of the recursion, for each kind of model: positions and windows give the next positions."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from driftline.fitting import LogLinear, Standardizer
from driftline.recursion import _screening as screening
from driftline.recursion._log_linear import NEWTON_FEATURES, convex_step, start_features
from driftline.recursion._network import network_step
from driftline.recursion._state import Position, Settings, Step, is_network, reach

__all__ = ["initial", "take"]


def initial(window: Tensor, standardizer: Standardizer, settings: Settings) -> Position:
    """Where tracing begins: psi = 0 on the original's own samples."""
    z = standardizer(window)
    features = start_features(z, settings.model)
    screened = settings.model == "auto" and features.size < NEWTON_FEATURES
    evidence = screening.start(z) if screened else None
    lag = reach(z, settings)
    return Position(LogLinear(standardizer, features, z.new_zeros(features.size)), 0.0, window, None, evidence, lag)


def take(positions: Mapping[str, Position], windows: Mapping[str, Tensor], taus: Mapping[str, int], heads: int,
         settings: Settings, seed: int) -> dict[str, Step]:  # fmt: skip
    """One step for each named position, to its window. Networks are shared: one fit of the averaged objective.

    For log-linear models the average separates into one convex problem per original, solved one by one.
    """
    if is_network(settings.model):
        device = next(iter(windows.values())).device
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            torch.manual_seed(seed)  # first weights, and whatever a module draws while it trains
            return network_step(positions, windows, taus, heads, settings, seed)
    return {name: convex_step(positions[name], window, settings, seed) for name, window in windows.items()}
