"""DensityRatio: static estimation between two samples, as one step of the recursion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

from driftline._inputs import Floats, as_rows, check_numbers, column_names, column_numbers
from driftline.estimators._base import RatioEstimator
from driftline.fitting import ModuleFactory, Objective, Progress, Training
from driftline.inference import Attribution, Estimate, Generator
from driftline.recursion import OriginalInfo, Policy, start, step

__all__ = ["DensityRatio"]


class DensityRatio(RatioEstimator):
    """Estimator of log original/current between two samples.

    Arguments:
        objective: "logistic", "kliep", "lsif", "nwj", or your own (lower is better): a pair of NumPy functions
            ``(log_r_num, log_r_den) -> loss`` and ``-> (derivatives (n,), derivatives (m,))``, or a tensor function
            ``(log_r_num, log_r_den) -> scalar``.
        model: "auto" (log-linear in the columns, their squares and any further features the data call for),
            "linear", "quadratic", "quadratic-full" (all products), "mlp", or a factory
            ``(n_inputs, n_outputs) -> Module``.
        hidden: widths of the MLP's hidden layers.
        ridge: weight of the prior on coefficients, in observations.
        lag: number of rows over which neighbours in a window depend on each other, for error bars; "auto" estimates it.
        training: settings of the mini-batch loop for networks.
        device: device of networks, "cpu", "cuda" or "auto"; other models run on the CPU.
        random_state: random seed; None for a fresh one in each fit.
        progress: called as ``progress(epoch, epochs, loss, held_out)`` while a network trains.

    Attributes:
        info_: diagnostics of the fit, an :class:`~driftline.recursion.OriginalInfo`.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> original, current = rng.normal(0, 1, (4000, 2)), rng.normal(0.5, 1, (4000, 2))
    >>> ratio = DensityRatio(random_state=0).fit(original, current)
    >>> ratio.log_ratio([[0.25, 0.25]]).round(1) + 0.0  # equally likely under both
    array([0.])
    >>> bool(ratio.divergence("reverse_kl").low < 0.25 < ratio.divergence("reverse_kl").high)
    True
    """

    def __init__(
        self,
        objective: str | Objective = "logistic",
        model: str | ModuleFactory = "auto",
        *,
        hidden: Sequence[int] = (256, 256),
        ridge: float = 1.0,
        lag: int | str = "auto",
        training: Training | None = None,
        device: str = "auto",
        random_state: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.objective = objective
        self.model = model
        self.hidden = hidden
        self.ridge = ridge
        self.lag = lag
        self.training = training
        self.device = device
        self.random_state = random_state
        self.progress = progress

    def fit(self, original: Any, current: Any) -> Self:
        """Fit the ratio of the two samples, (n, D) and (m, D)."""
        seed = self._seed()
        names = column_names(original)
        settings = replace(self._settings(seed), names=None if names is None else tuple(names))
        numbers, rows = column_numbers(original), as_rows(original, "original")
        check_numbers(current, numbers, "current")
        window = as_rows(current, "current", names=names, width=rows.shape[1])
        state, info = step(start(rows, settings), {"original": window}, settings, Policy())
        self._warn(info, several=False)
        self._adopt(state, seed, names)
        self._numbers = numbers
        self.info_: OriginalInfo = info.originals["original"]
        return self

    def log_ratio(self, X: Any, *, return_std: bool = False) -> Any:
        """Return log original/current of rows (n, D) as an array (n,), with ``return_std`` also its standard errors."""
        return self._log_ratio(X, None, return_std)

    def weights(self, X: Any) -> Floats:
        """Return importance weights from current back to original, with mean 1 on the current sample."""
        return self._weights(X, None)

    def divergence(self, kind: str | Generator = "reverse_kl", X: Any = None, *, level: float = 0.95) -> Estimate:
        """Estimate an f-divergence over the current sample, or over further rows ``X`` of the current distribution."""
        return self._divergence(kind, X, None, level, of_step=False)

    def score(self, original: Any, current: Any) -> float:
        """Return how well the ratio tells held-out rows of the two samples apart, for model selection.

        Higher is better. It is the held-out objective of the logistic loss, in nats, whatever the estimator's own
        objective is: 0 for a ratio of 1, and at most the Jensen-Shannon divergence on average, which the true ratio
        reaches.

        scikit-learn's cross-validation takes the current sample for ``y``, and so needs samples of the same size:

        >>> import numpy as np
        >>> from sklearn.model_selection import GridSearchCV
        >>> rng = np.random.default_rng(0)
        >>> original, current = rng.normal(0, 1, (600, 2)), rng.normal(0, 2, (600, 2))
        >>> search = GridSearchCV(DensityRatio(random_state=0), {"model": ["linear", "quadratic"]}, cv=3)
        >>> search.fit(original, current).best_params_
        {'model': 'quadratic'}
        """
        return self._score(original, current, None)

    def attribution(
        self, *, level: float = 0.95, groups: Mapping[str, Sequence[str | int]] | None = None
    ) -> list[Attribution]:
        """Attribute KL(original‖current) + KL(current‖original) to columns, the largest part first.

        ``groups`` names groups of columns, which then have one part each.
        """
        return self._attribution(None, level, groups)
