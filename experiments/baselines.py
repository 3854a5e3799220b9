"""Baselines that need samples which continual estimators do not keep: TRE with every window there was."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Self

import numpy as np
import torch
from torch import Tensor

from driftline import DensityRatio
from driftline.fitting import MLP, Pair, Training, fit_network, fit_standardizer, logistic
from experiments.experiment import Report
from experiments.methods import Floats, epochs_to

__all__ = ["ConvexTelescope", "NetworkTelescope"]


class NetworkTelescope:
    """TRE (Rhodes, Xu, Gutmann 2020): bridges between neighbouring windows, one trunk, one head a bridge, all at once.

    Each bridge is a logistic classifier of two neighbours; the log-ratio of first over k-th window is the sum of the
    first k heads. The losses are averaged, the trunk of 2x256 ReLU is shared, the loop is the one of driftline's own
    networks, with the best epoch on held-out rows kept.
    """

    def __init__(self, training: Training, seed: int, report: Report) -> None:
        self.training = training
        self.seed = seed
        self.report = report

    def fit(self, windows: Sequence[Floats]) -> Self:
        """Train on all windows, the original first; (n, D) each."""
        self._scale = fit_standardizer(windows[0])
        inputs = [self._inputs(w) for w in windows]
        torch.manual_seed(self.seed)
        self._module = MLP(inputs[0].shape[1], len(inputs) - 1)
        pairs = [self._bridge(k, num, den) for k, (num, den) in enumerate(pairwise(inputs))]
        fit_network(
            self._module,
            pairs,
            logistic,
            self.training,
            seed=self.seed,
            split_seed=self.seed,
            progress=epochs_to(self.report),
        )
        return self

    def _inputs(self, x: Floats) -> Tensor:
        return torch.from_numpy(self._scale(x)).float()

    def _bridge(self, k: int, num: Tensor, den: Tensor) -> Pair:
        return Pair(num, den, num.new_zeros(len(num)), den.new_zeros(len(den)), lambda z: self._module(z)[:, k])

    def log_ratio(self, x: Floats, k: int) -> Floats:
        """log original/(k-th window) of rows, (n,)."""
        with torch.no_grad():
            heads = self._module(self._inputs(x))
        return np.asarray(heads[:, :k].double().sum(1))


class ConvexTelescope:
    """TRE with log-linear bridges in (x, x²), as its authors use for Gaussians: the bridges then share nothing."""

    def fit(self, windows: Sequence[Floats]) -> Self:
        """Fit each bridge to its optimum."""
        self._bridges = [DensityRatio(model="quadratic").fit(num, den) for num, den in pairwise(windows)]
        return self

    def log_ratio(self, x: Floats, k: int) -> Floats:
        """log original/(k-th window) of rows, (n,)."""
        return np.asarray(sum(bridge.log_ratio(x) for bridge in self._bridges[:k]))
