"""ContinualDensityRatio: the recursion as a scikit-learn-style estimator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self, cast

import numpy as np
from sklearn.utils.validation import check_is_fitted

from driftline._inputs import Floats, as_rows, column_names, column_numbers
from driftline.estimators._base import RatioEstimator, at_least_zero
from driftline.fitting import ModuleFactory, Objective, Progress, Stacked, Training
from driftline.inference import Attribution, Estimate, Generator
from driftline.recursion import SUMMED, Info, Policy, State, StepSettings, add_original, has_past, restart, start, step

__all__ = ["ContinualDensityRatio"]


_VARIANTS: dict[str, dict[str, Any]] = {
    "printed": {},
    "code": {
        "weights": "last",
        "constraint": "inverse",
        "inputs": "raw",
        "clip": 60.0,
        "tau": "one-hot",
        "init": 0.02,
    },
}
"""Settings of training in which the paper and the authors' code differ; those of the paper are default."""


def _check_name(name: Any) -> None:
    if not isinstance(name, str) or not name:
        raise ValueError(f"name={name!r} must be a non-empty string")


class ContinualDensityRatio(RatioEstimator):
    """Estimator of log original/current on a stream, from the two latest windows only.

    ``fit`` starts tracing, ``partial_fit`` advances one window; after that, the original's samples are neither needed
    nor kept.

    Arguments:
        objective, model, hidden, ridge, lag, training, device, random_state, progress: see :class:`DensityRatio`.
        normalizer: "telescoped" adds up the step normalisers; "self" averages over the current window (the paper's).
        penalty: the paper's lambda_c on the step constraint; "paper" is 10 for one original and 100 k for k originals.
        penalty_rate: "constant", or "root-n": lambda_c = penalty / sqrt(rows), for which the paper's Theorem 1 holds.
        step: "every" steps from each window to the next; "adaptive" holds the anchor window until the step is
            informative. While it is held, its rows are kept; at first, these are the original's.
        enough, too_much: step divergence in nats at which an adaptive anchor moves, and beyond which it steps via the
            window in between.
        max_hold: number of windows after which an adaptive anchor moves in any case.
        warm_start: whether a network starts from the previous one.
        polish: whether a network's last layer is solved exactly after training; it is left as trained by a loss that
            is not convex in the log-ratio, such as "lsif".
        keep: "rows" keeps the rows of the last window until the next one; "sums" keeps none: after ``fit`` and
            ``partial_fit`` neither the estimator nor its file holds a row. It is for ``linear``, ``quadratic`` and
            ``quadratic-full``, with all other settings of a fit as they are by default.

    Attributes:
        info_: diagnostics of the last step, an :class:`~driftline.recursion.Info`.
        originals_: names of the originals traced.
        t_: number of steps taken.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> est = ContinualDensityRatio(random_state=0).fit(rng.normal(0, 1, (4000, 2)))
    >>> for t in range(1, 6):
    ...     est = est.partial_fit(rng.normal(0.1 * t, 1, (4000, 2)))
    >>> drift = est.divergence("reverse_kl")  # the truth is 0.25
    >>> est.t_, bool(abs(drift.value - 0.25) < 3 * drift.std_error)
    (5, True)
    """

    def __init__(
        self,
        objective: str | Objective = "logistic",
        model: str | ModuleFactory = "auto",
        *,
        normalizer: str = "telescoped",
        penalty: float | str = 0.0,
        penalty_rate: str = "constant",
        step: str = "every",
        enough: float = 0.3,
        too_much: float = 3.0,
        max_hold: int = 20,
        hidden: Sequence[int] = (256, 256),
        ridge: float = 1.0,
        lag: int | str = "auto",
        training: Training | None = None,
        warm_start: bool = True,
        polish: bool = True,
        keep: str = "rows",
        device: str = "auto",
        random_state: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.objective = objective
        self.model = model
        self.normalizer = normalizer
        self.penalty = penalty
        self.penalty_rate = penalty_rate
        self.step = step
        self.enough = enough
        self.too_much = too_much
        self.max_hold = max_hold
        self.hidden = hidden
        self.ridge = ridge
        self.lag = lag
        self.training = training
        self.warm_start = warm_start
        self.polish = polish
        self.keep = keep
        self.device = device
        self.random_state = random_state
        self.progress = progress

    @classmethod
    def paper(
        cls, *, variant: str = "printed", epochs: int = 500, random_state: int | None = None, **params: Any
    ) -> Self:
        """Make the paper's CKLIEP: KLIEP, penalty, self-normalised, 2x256 ReLU, Adam 1e-5, fresh weights each step.

        Training takes 100 epochs at least, and stops after two in a row without a new best on the held-out rows. This
        rule is not in the paper: it is that of the authors' code.

        Arguments:
            variant: "printed" is the method as the paper prints it, "code" as the authors' published code had it: the
                inverse ratio in the penalty, raw inputs, psi within ±60, weights drawn from N(0, 0.02²), tau one-hot
                and the weights of the last epoch. To set one of these alone, pass ``training`` with it.
            epochs: most epochs of a step.
            random_state: random seed.
            params: further parameters, instead of the paper's.

        >>> ContinualDensityRatio.paper(variant="code").training.constraint
        'inverse'
        """
        if variant not in _VARIANTS:
            raise ValueError(f"variant={variant!r} is unknown: choose {' or '.join(map(repr, _VARIANTS))}")
        training = Training(
            epochs=epochs,
            min_epochs=min(100, epochs),
            patience=2,
            batch=2000,
            lr=1e-5,
            schedule="constant",
            optimizer="adam",
            validation=1 / 6,
            **_VARIANTS[variant],
        )
        defaults: dict[str, Any] = {
            "objective": "kliep",
            "model": "mlp",
            "normalizer": "self",
            "penalty": "paper",
            "training": training,
            "warm_start": False,
            "polish": False,
            "random_state": random_state,
        }
        return cls(**{**defaults, **params})

    def _adopt(self, state: State, seed: int, names: list[str] | None) -> None:
        super()._adopt(state, seed, names)
        self.info_ = Info(state.t, {})  # no diagnostics until the next step

    def _check(self, originals: int) -> None:
        super()._check(originals)
        self._policy()

    def _policy(self) -> Policy:
        if self.step not in ("every", "adaptive"):
            raise ValueError(f"step={self.step!r} is unknown: choose 'every' or 'adaptive'")
        if not 0 < at_least_zero(self.enough, "enough") < at_least_zero(self.too_much, "too_much"):
            raise ValueError(f"enough={self.enough} and too_much={self.too_much}: need 0 < enough < too_much")
        if not self.max_hold >= 1:
            raise ValueError(f"max_hold={self.max_hold} must be at least 1")
        return Policy(self.step, self.enough, self.too_much, self.max_hold)

    def _settings(self, seed: int, originals: int = 1) -> StepSettings:
        if self.normalizer not in ("telescoped", "self"):
            raise ValueError(f"normalizer={self.normalizer!r} is unknown: choose 'telescoped' or 'self'")
        if self.penalty_rate not in ("constant", "root-n"):
            raise ValueError(f"penalty_rate={self.penalty_rate!r} is unknown: choose 'constant' or 'root-n'")
        self._check_keep()
        return replace(
            super()._settings(seed, originals),
            normalizer=self.normalizer,
            penalty=self._settings_penalty(originals),
            penalty_shrinks=self.penalty_rate == "root-n",
            warm_start=self.warm_start,
            polish=self.polish,
            keep=self.keep,
        )

    def _check_keep(self) -> None:
        """Raise an error unless all settings of a fit are those that can do with sums."""
        if self.keep not in ("rows", "sums"):
            raise ValueError(f"keep={self.keep!r} is unknown: choose 'rows' or 'sums'")
        if self.keep == "rows":
            return
        wanted: dict[str, tuple[Any, ...]] = {
            "model": SUMMED,
            "objective": ("logistic",),
            "normalizer": ("telescoped",),
            "penalty": (0,),
            "step": ("every",),
        }
        for name, choices in wanted.items():
            value = getattr(self, name)
            if not any(type(value) is not bool and value == choice for choice in choices):
                shown = " or ".join(f"{name}={choice!r}" for choice in choices)
                raise ValueError(
                    f"{name}={value!r} needs rows, and keep='sums' keeps none: set {shown}, or keep='rows'"
                )

    def _keeps_rows(self, what: str) -> None:
        """Raise an error that names the remedy if no rows are kept."""
        if self.keep != "rows":
            raise ValueError(f"{what} needs the rows of the last window, and keep='sums' keeps none: use keep='rows'")

    def _settings_penalty(self, originals: int) -> float:
        """Return lambda_c for this many originals."""
        if isinstance(self.penalty, str):
            if self.penalty != "paper":
                raise ValueError(f"penalty={self.penalty!r} is unknown: pass a number or 'paper'")
            return 10.0 if originals == 1 else 100.0 * originals
        return at_least_zero(self.penalty, "penalty")

    def fit(self, original: Any, y: object = None, *, name: str = "original") -> Self:
        """Start tracing from samples (n, D) of the original, forgetting anything learned before."""
        _check_name(name)
        seed = self._seed()
        settings, names = self._settings(seed), column_names(original)
        self._policy()
        state = start(as_rows(original, "original"), settings, name)
        self._adopt(state, seed, names)
        self._numbers = column_numbers(original)
        return self

    def partial_fit(self, window: Any, y: object = None, *, before: Any = None) -> Self:
        """Advance one step to a window (m, D), or to one window per original, ``{name: window}``.

        The first call on an unfitted estimator starts tracing. After an error the estimator is as it was before.
        After :meth:`change_features`, the first window may come with ``before``, the same rows in the previous
        features; networks, and ratios without error bars, need it.
        """
        if not hasattr(self, "_state"):
            if isinstance(window, Mapping):
                raise ValueError("call fit with the first original before windows by name")
            return self.fit(window)
        windows = self._stacked(self._windows(window), before)
        settings = self._settings(self.seed_, len(self._state.tracks))
        state, info = step(self._state, windows, settings, self._policy())
        self._warn(info, several=len(state.tracks) > 1)  # before the state changes: warnings may be raised as errors
        self._state, self.info_ = state, info
        return self

    def _windows(self, window: Any) -> dict[str, Floats]:
        tracks = self._state.tracks
        if not isinstance(window, Mapping):
            if len(tracks) > 1:
                raise ValueError(
                    f"several originals are traced, pass {{name: window}} with names from {sorted(tracks)}"
                )
            return {next(iter(tracks)): self._rows(window, "window")}
        unknown = [name for name in window if name not in tracks]
        if unknown:
            raise ValueError(f"window for unknown original(s) {unknown}: traced are {sorted(tracks)}")
        if not window:
            raise ValueError("no window given: pass at least one")
        return {name: self._rows(window[name], f"window of {name!r}") for name in tracks if name in window}

    def change_features(self, window: Any) -> Self:
        """Replace the features that the columns are, such as the output of an encoder that was trained further.

        The ratio learned so far is a function of the previous features. So the window it has reached is needed in the
        new ones: there, the ratio is expressed in these, with its errors. Drift that they do not show is not read any
        more, and the doubt ``drift_hidden`` says how much that is, if it stands out of the noise. The auditor begins
        anew; there is no floor of the whole divergence from then on. Networks, and ratios without error bars, need the
        next window in both features: see ``before`` of :meth:`partial_fit`. Originals may join in between, in the new
        features; divergences can be asked after the next window.

        Arguments:
            window: rows of the last window, in the same order, in the new features, (n, D'), or ``{name: rows}`` for
                several originals; for an original that has had no window yet, its own samples.

        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> x = [rng.normal(0.1 * t, 1, (5000, 2)) for t in range(4)]
        >>> turn = np.array([[1.0, 1.0], [-1.0, 1.0]])  # the new features are a linear map of the previous ones
        >>> est = ContinualDensityRatio(random_state=0).fit(x[0]).partial_fit(x[1])
        >>> est = est.change_features(x[1] @ turn).partial_fit(x[2] @ turn).partial_fit(x[3] @ turn)
        >>> bool(abs(est.divergence("reverse_kl").value - 0.09) < 0.03)
        True
        """
        check_is_fitted(self)
        self._keeps_rows("change_features")
        tracks = self._state.tracks
        given = window if isinstance(window, Mapping) else dict.fromkeys(tracks, window)
        if len(tracks) > 1 and not isinstance(window, Mapping):
            raise ValueError(f"several originals are traced, pass {{name: rows}} for all of {sorted(tracks)}")
        if set(given) != set(tracks):
            raise ValueError(f"rows are needed for all of {sorted(tracks)}, got {sorted(given)}")
        names, width, rows = column_names(next(iter(given.values()))), None, {}
        for name, track in tracks.items():
            if isinstance(track.current.psi, Stacked):
                raise ValueError(f"original {name!r} has had no window since features changed last: give it one first")
            rows[name] = as_rows(given[name], f"window of {name!r}", names=names, width=width)
            width = rows[name].shape[1]
            if len(rows[name]) != len(track.current.window):
                raise ValueError(
                    f"window of {name!r} has {len(rows[name])} rows, its last window {len(track.current.window)}: "
                    "pass the same rows in the new features"
                )
        state = restart(self._state, rows, self._settings(self.seed_, len(tracks)))
        self._adopt(state, self.seed_, names)
        self._numbers = column_numbers(next(iter(given.values())))
        self.n_features_in_ = cast(int, width)
        return self

    def _stacked(self, windows: dict[str, Floats], before: Any) -> dict[str, Floats]:
        """Stack the previous features beside the new ones in windows of originals whose features have changed."""
        tracks = self._state.tracks
        changed = [n for n in windows if isinstance(tracks[n].anchor.psi, Stacked)]
        given = before if isinstance(before, Mapping) else {} if before is None else dict.fromkeys(windows, before)
        missing = [n for n in changed if n not in given]
        # a ratio that has been expressed in the new features, or an original without one, needs no previous features:
        # they may be given and are unused
        unused = {n for n in windows if tracks[n].fresh or not has_past(tracks[n].anchor)}
        extra = [n for n in given if n not in changed and n not in unused]
        if missing:
            raise ValueError(f"before= must hold the windows of {missing} in the previous features, got {list(given)}")
        if extra:
            raise ValueError(f"before= is for the first window after change_features only, not for {extra}")
        for name in given:
            if name in unused and len(given[name]) != len(windows[name]):
                raise ValueError(f"before of {name!r} has {len(given[name])} rows, its window {len(windows[name])}")
        out = dict(windows)
        for name in changed:
            width = self._state.tracks[name].anchor.window.shape[1] - self.n_features_in_
            rows = as_rows(given[name], f"before of {name!r}", width=width)
            if len(rows) != len(windows[name]):
                raise ValueError(f"before of {name!r} has {len(rows)} rows, its window {len(windows[name])}")
            out[name] = np.concatenate([windows[name], rows], 1)
        return out

    def add_original(self, samples: Any, name: str) -> Self:
        """Add a further original, traced from the next window that ``partial_fit`` gets under its name."""
        check_is_fitted(self)
        _check_name(name)
        if name in self._state.tracks:
            raise ValueError(f"original {name!r} is traced already: choose another name")
        settings = self._settings(self.seed_, len(self._state.tracks) + 1)
        self._state = add_original(self._state, name, self._rows(samples, f"original {name!r}"), settings)
        return self

    def snapshot(self) -> Self:
        """Return an estimator at the same step; neither changes when the other goes on. No rows are copied."""
        check_is_fitted(self)
        names = list(self.feature_names_in_) if hasattr(self, "feature_names_in_") else None
        twin = type(self)(**self.get_params(deep=False))
        twin._adopt(self._state, self.seed_, names)
        twin.n_features_in_, twin.info_, twin._numbers = self.n_features_in_, self.info_, self._numbers
        return twin

    def widen(self, hidden: Sequence[int]) -> Self:
        """Give the network these hidden widths from the next step on, keeping what it has learned."""
        if self.model != "mlp":
            raise ValueError(f"model={self.model!r} has no hidden layers to widen: use set_params(model=...)")
        widths = tuple(int(w) for w in hidden)
        if len(widths) != len(tuple(self.hidden)) or any(a < b for a, b in zip(widths, self.hidden, strict=False)):
            raise ValueError(
                f"hidden={widths} does not widen {tuple(self.hidden)}; use set_params(model=...) to replace it"
            )
        return cast(Self, self.set_params(hidden=widths))

    def log_ratio(self, X: Any, original: str | None = None, *, return_std: bool = False) -> Any:
        """Return log original/current of rows (n, D) as an array (n,), with ``return_std`` also its standard errors."""
        return self._log_ratio(X, original, return_std)

    def weights(self, X: Any, original: str | None = None) -> Floats:
        """Return importance weights from the current window back to the original, with mean 1 on that window."""
        return self._weights(X, original)

    def divergence(
        self, kind: str | Generator = "reverse_kl", X: Any = None, original: str | None = None, *, level: float = 0.95
    ) -> Estimate:
        """Estimate an f-divergence of original and current over the last window, or further rows ``X`` of current."""
        return self._divergence(kind, X, original, level, of_step=False)

    def step_divergence(
        self, kind: str | Generator = "reverse_kl", original: str | None = None, *, level: float = 0.95
    ) -> Estimate:
        """Estimate an f-divergence between the anchor window of the last step and the current window."""
        return self._divergence(kind, None, original, level, of_step=True)

    def score(self, samples: Any, current: Any, original: str | None = None) -> float:
        """Return how well the ratio tells held-out rows apart, those of the original and those of the last window.

        Higher is better: see :meth:`DensityRatio.score`. Cross-validation cannot know a stream. To choose a model, keep
        aside some rows of the original and of each window, and compare the scores of estimators that have followed the
        same windows without them.

        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> est = ContinualDensityRatio(random_state=0).fit(rng.normal(0, 1, (1000, 2)))
        >>> est = est.partial_fit(rng.normal(1, 1, (1000, 2)))
        >>> round(est.score(rng.normal(0, 1, (500, 2)), rng.normal(1, 1, (500, 2))), 1)  # Jensen-Shannon: 0.20
        0.2
        """
        return self._score(samples, current, original)

    def attribution(
        self,
        original: str | None = None,
        *,
        level: float = 0.95,
        groups: Mapping[str, Sequence[str | int]] | None = None,
    ) -> list[Attribution]:
        """Attribute KL(original‖current) + KL(current‖original) to columns, the largest part first.

        This needs a log-linear model. A part is at most a few noise levels below 0; if its interval contains 0, there
        is no evidence that the column moved. ``groups`` names groups of columns, such as those of one category, which
        then have one part each.
        """
        return self._attribution(original, level, groups)

    def current_window(self, original: str | None = None) -> Floats:
        """Return the rows (n, D) of an original's current window, as they are kept for the next step."""
        self._keeps_rows("current_window")
        return self._track(original).current.window.copy()

    @property
    def originals_(self) -> list[str]:
        """Names of the originals traced."""
        check_is_fitted(self)
        return list(self._state.tracks)

    @property
    def t_(self) -> int:
        """Number of steps taken."""
        check_is_fitted(self)
        return self._state.t
