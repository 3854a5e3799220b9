"""DensityRatio and ContinualDensityRatio: scikit-learn-style shells around the recursion."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self, cast

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from driftline import inference, storage
from driftline.continual import Info, OriginalInfo, Policy, State, Track, join, start, step
from driftline.designs import Design, log_linear_design
from driftline.divergences import Generator
from driftline.fitting import Progress, Training
from driftline.increments import MODELS, Settings
from driftline.inference import Estimate
from driftline.inputs import MIN_ROWS, as_rows, column_names, resolve_device
from driftline.models import LogLinear, ModuleFactory
from driftline.objectives import Objective, log_mean_exp, resolve

__all__ = ["ContinualDensityRatio", "DensityRatio", "UntrustedEstimateWarning"]

Floats = npt.NDArray[np.float64]

_HEAVY = ("kl", "pearson")  # divergences carried by the few rows with the largest ratios


def _few(log_r: Tensor) -> float:
    """An effective sample size below this is too small to average over."""
    return min(50.0, 0.1 * len(log_r))


class UntrustedEstimateWarning(UserWarning):
    """The estimate should not be relied on, for the reason given."""


def _at_least_zero(value: Any, name: str) -> float:
    if not isinstance(value, int | float | np.number) or not value >= 0:
        raise ValueError(f"{name}={value!r} must be a number of at least 0")
    return float(value)


class _RatioEstimator(BaseEstimator):  # type: ignore[misc]
    """What both estimators share: settings, questions about the ratio, files."""

    objective: str | Objective
    model: str | ModuleFactory
    hidden: Sequence[int]
    ridge: float
    training: Training | None
    device: str
    random_state: int | None
    progress: Progress | None
    _state: State

    def _settings(self, seed: int, originals: int = 1) -> Settings:
        """The parameters, checked and resolved."""
        if isinstance(self.model, nn.Module) or not (callable(self.model) or self.model in MODELS):
            raise ValueError(
                f"model={self.model!r} is unknown: choose one of {list(MODELS)} or pass a factory "
                "(n_inputs, n_outputs) -> torch.nn.Module"
            )
        hidden = tuple(self.hidden) if isinstance(self.hidden, Sequence) else None
        if not hidden or not all(isinstance(w, int | np.integer) and w > 0 for w in hidden):
            raise ValueError(f"hidden={self.hidden!r} must be widths of hidden layers, such as (256, 256)")
        training = Training() if self.training is None else self.training
        if not isinstance(training, Training):
            raise TypeError(f"training={training!r} must be a driftline.Training")
        if not 0.0 < training.validation < 1.0:
            raise ValueError(f"training.validation={training.validation} must lie between 0 and 1")
        for name in ("epochs", "batch", "lr"):
            if not getattr(training, name) > 0:
                raise ValueError(f"training.{name}={getattr(training, name)} must be positive")
        return Settings(
            objective=resolve(self.objective),
            model=self.model,
            hidden=hidden,
            ridge=_at_least_zero(self.ridge, "ridge"),
            training=training,
            seed=seed,
            progress=self.progress,
        )

    def _seed(self) -> int:
        if self.random_state is None:
            return int(np.random.default_rng().integers(2**31))
        if not isinstance(self.random_state, int | np.integer) or self.random_state < 0:
            raise ValueError(f"random_state={self.random_state!r} must be None or an integer of at least 0")
        return int(self.random_state)

    def _adopt(self, state: State, seed: int, device: torch.device, names: list[str] | None) -> None:
        """Replace everything learned, at once: nothing before this line has changed the estimator."""
        self._state, self.seed_, self._device = state, seed, device
        self.n_features_in_ = next(iter(state.tracks.values())).current.window.shape[1]
        if names is not None:
            self.feature_names_in_ = np.asarray(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _rows(self, data: Any, what: str, *, min_rows: int = MIN_ROWS, copy: bool = True) -> Tensor:
        names = list(self.feature_names_in_) if hasattr(self, "feature_names_in_") else None
        width = self.n_features_in_
        return as_rows(data, what, names=names, width=width, min_rows=min_rows, device=self._device, copy=copy)

    def _track(self, original: str | None) -> Track:
        check_is_fitted(self)
        tracks = self._state.tracks
        if original is None:
            if len(tracks) > 1:
                raise ValueError(f"several originals are traced, name one of them: original={sorted(tracks)}")
            return next(iter(tracks.values()))
        if original not in tracks:
            raise ValueError(f"original {original!r} is unknown: choose one of {sorted(tracks)}")
        return tracks[original]

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_state")

    def _log_ratio(self, X: Any, original: str | None, return_std: bool) -> Floats | tuple[Floats, Floats]:
        position = self._track(original).current
        rows = self._rows(X, "X", min_rows=0, copy=False)
        values = position.log_ratio(rows).cpu().numpy()
        if not return_std:
            return cast(Floats, values)
        if position.uncertainty is None:
            return values, np.full_like(values, np.nan)
        psi = position.psi
        assert isinstance(psi, LogLinear)
        deviations = [
            inference.log_ratio_std(position.uncertainty, psi.features.design(psi.standardizer(part)))
            for part in rows.split(16384)
        ]
        return values, torch.cat(deviations).cpu().numpy()

    def _weights(self, X: Any, original: str | None) -> Floats:
        position = self._track(original).current
        on_window = position.log_ratio(position.window)
        size = inference.effective_sample_size(on_window)
        if size < _few(on_window):
            warnings.warn(
                f"the weights on the last window are worth {size:.1f} of its {len(on_window)} rows: "
                "the original has moved too far away for reweighting",
                UntrustedEstimateWarning,
                stacklevel=3,
            )
        values = position.log_ratio(self._rows(X, "X", min_rows=0, copy=False)) - log_mean_exp(on_window)
        return cast(Floats, values.clamp(max=700.0).exp().cpu().numpy())

    def _divergence(
        self, kind: str | Generator, X: Any, original: str | None, level: float, *, of_step: bool
    ) -> Estimate:
        track = self._track(original)
        position = track.current
        rows = position.window if X is None else self._rows(X, "X", min_rows=2, copy=False)
        if of_step:
            if track.step_log_ratio.numel() == 0:
                raise ValueError("no step has been taken yet: call partial_fit with a window first")
            log_r = track.step_log_ratio
        else:
            log_r = position.log_ratio(rows)
        if callable(kind) or kind in _HEAVY:
            size = inference.effective_sample_size(log_r)
            if size < _few(log_r):
                warnings.warn(
                    f"this divergence rests on {size:.1f} of {len(log_r)} rows (effective sample size) and is "
                    "too small in all likelihood; reverse_kl, js and hellinger do not depend on the largest ratios",
                    UntrustedEstimateWarning,
                    stacklevel=3,
                )
        psi, uncertainty = position.psi, position.uncertainty
        if of_step and uncertainty is not None:
            uncertainty = inference.of_step(uncertainty)

        def design() -> Design:
            assert isinstance(psi, LogLinear)
            return log_linear_design(psi.features, psi.standardizer(rows))

        return inference.divergence_estimate(
            log_r.cpu().numpy(), kind, level, uncertainty, design, own_window=X is None
        )

    @staticmethod
    def _warn(info: Info, several: bool) -> None:
        for name, about in info.originals.items():
            for doubt in about.warnings:
                prefix = f"{name}: " if several else ""
                warnings.warn(f"{prefix}{doubt}", UntrustedEstimateWarning, stacklevel=3)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything the next step needs to one file, atomically (safetensors with a JSON header, no pickle)."""
        check_is_fitted(self)
        params = self.get_params(deep=False)
        custom = {name for name in ("objective", "model") if callable(params[name])}
        params.pop("progress")
        training = params.pop("training")
        header = {
            "estimator": type(self).__name__,
            "params": {k: None if k in custom else list(v) if isinstance(v, tuple) else v for k, v in params.items()},
            "custom": sorted(custom),
            "training": None if training is None else training._asdict(),
            "seed": self.seed_,
            "columns": list(self.feature_names_in_) if hasattr(self, "feature_names_in_") else None,
        }
        storage.write(path, self._state, header)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        model: ModuleFactory | None = None,
        objective: Objective | None = None,
        device: str | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """An estimator as it was saved; a damaged or foreign file raises :class:`~driftline.StateFileError`.

        Arguments:
            model, objective: the callables again, if the saved estimator had its own (they are not in the file).
            device: where to go on, if not on the device it was saved from.
        """

        state, meta = storage.read(path, model)
        if meta["estimator"] != cls.__name__:
            raise storage.StateFileError(f"{os.fspath(path)} holds a {meta['estimator']}, not a {cls.__name__}")
        params = dict(meta["params"])
        for name, given in (("model", model), ("objective", objective)):
            if name in meta["custom"]:
                if given is None:
                    raise ValueError(
                        f"{os.fspath(path)} was saved with a custom {name}: pass it, load(path, {name}=...)"
                    )
                params[name] = given
        if params.get("hidden") is not None:
            params["hidden"] = tuple(params["hidden"])
        training = None if meta["training"] is None else Training(**meta["training"])
        if device is not None:
            params["device"] = device
        estimator = cls(**params, training=training, progress=progress)
        place = resolve_device(estimator.device)
        estimator._adopt(_to(state, place), meta["seed"], place, meta["columns"])
        return estimator


def _to(value: Any, device: torch.device) -> Any:
    """A state with all its tensors and networks on a device; sharing between its parts is kept."""
    seen: dict[int, Any] = {}

    def move(item: Any) -> Any:
        if device.type == "cpu":
            return item
        if id(item) in seen:
            return seen[id(item)]
        if isinstance(item, Tensor | nn.Module):
            moved: Any = item.to(device)
        elif isinstance(item, tuple) and hasattr(item, "_fields"):
            moved = type(item)(*(move(part) for part in item))
        elif isinstance(item, dict):
            moved = {key: move(part) for key, part in item.items()}
        else:
            moved = item
        seen[id(item)] = moved
        return moved

    return move(value)


class DensityRatio(_RatioEstimator):
    """log original/current between two samples.

    Arguments:
        objective: "logistic", "kliep", "lsif", "nwj", or a loss ``(log_r_num, log_r_den) -> scalar`` (lower is better).
        model: "auto" (log-linear in the columns, their squares and whatever further features the data call for),
            "linear", "quadratic", "quadratic-full" (all products), "mlp", or a factory
            ``(n_inputs, n_outputs) -> Module``.
        hidden: widths of the MLP's hidden layers.
        ridge: weight of the prior on coefficients, in observations.
        training: settings of the mini-batch loop for networks.
        device: "cpu", "cuda" or "auto".
        random_state: seed; None for a fresh one each fit.
        progress: called as ``progress(epoch, epochs, loss, held_out)`` while a network trains.

    Attributes:
        info_: diagnostics of the fit, an :class:`~driftline.continual.OriginalInfo`.

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
        training: Training | None = None,
        device: str = "auto",
        random_state: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.objective = objective
        self.model = model
        self.hidden = hidden
        self.ridge = ridge
        self.training = training
        self.device = device
        self.random_state = random_state
        self.progress = progress

    def fit(self, original: Any, current: Any) -> Self:
        """Fit the ratio of the two samples, (n, D) and (m, D)."""
        seed, device = self._seed(), resolve_device(self.device)
        settings, names = self._settings(seed), column_names(original)
        rows = as_rows(original, "original", device=device)
        window = as_rows(current, "current", names=names, width=rows.shape[1], device=device)
        state, info = step(start(rows, settings), {"original": window}, settings, Policy())
        self._warn(info, several=False)
        self._adopt(state, seed, device, names)
        self.info_: OriginalInfo = info.originals["original"]
        return self

    def log_ratio(self, X: Any, *, return_std: bool = False) -> Any:
        """log original/current of rows (n, D): an array (n,), with ``return_std`` also its standard errors."""
        return self._log_ratio(X, None, return_std)

    def weights(self, X: Any) -> Floats:
        """Importance weights from current back to original, with mean 1 on the current sample."""
        return self._weights(X, None)

    def divergence(self, kind: str | Generator = "reverse_kl", X: Any = None, *, level: float = 0.95) -> Estimate:
        """An f-divergence over the current sample, or over further rows ``X`` of the current distribution."""
        return self._divergence(kind, X, None, level, of_step=False)


def _check_name(name: Any) -> None:
    if not isinstance(name, str) or not name:
        raise ValueError(f"name={name!r} must be a non-empty string")


class ContinualDensityRatio(_RatioEstimator):
    """log original/current on a stream, from the two latest windows only.

    ``fit`` starts tracing, ``partial_fit`` advances one window; the original's samples are then not needed nor kept.

    Arguments:
        objective, model, hidden, ridge, training, device, random_state, progress: as in :class:`DensityRatio`.
        normalizer: "telescoped" adds up the step normalisers; "self" averages over the current window (the paper's).
        penalty: the paper's lambda_c on the step constraint; "paper" is 10 for one original and 100 k for k of them.
        step: "every" steps from each window to the next; "adaptive" holds the reference window until the step is
            informative. While it is held, its rows are kept: at first these are the original's.
        enough, too_much: nats of step divergence at which an adaptive reference moves, and beyond which it goes by the
            window in between.
        max_hold: an adaptive reference moves after this many windows in any case.
        warm_start: whether a network starts from the previous one.
        polish: whether a network's last layer is solved exactly after training.

    Attributes:
        info_: diagnostics of the last step, an :class:`~driftline.continual.Info`.
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
        step: str = "every",
        enough: float = 0.3,
        too_much: float = 3.0,
        max_hold: int = 20,
        hidden: Sequence[int] = (256, 256),
        ridge: float = 1.0,
        training: Training | None = None,
        warm_start: bool = True,
        polish: bool = True,
        device: str = "auto",
        random_state: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.objective = objective
        self.model = model
        self.normalizer = normalizer
        self.penalty = penalty
        self.step = step
        self.enough = enough
        self.too_much = too_much
        self.max_hold = max_hold
        self.hidden = hidden
        self.ridge = ridge
        self.training = training
        self.warm_start = warm_start
        self.polish = polish
        self.device = device
        self.random_state = random_state
        self.progress = progress

    @classmethod
    def paper(cls, *, epochs: int = 500, random_state: int | None = None, **params: Any) -> Self:
        """CKLIEP as in the paper: KLIEP, penalty, self-normalised, 2x256 ReLU, Adam 1e-5, fresh weights each step."""
        training = Training(
            epochs=epochs, min_epochs=min(100, epochs), patience=2, batch=2000, lr=1e-5, schedule="constant",
            optimizer="adam", validation=1 / 6,
        )  # fmt: skip
        defaults: dict[str, Any] = {
            "objective": "kliep", "model": "mlp", "normalizer": "self", "penalty": "paper", "training": training,
            "warm_start": False, "polish": False, "random_state": random_state,
        }  # fmt: skip
        return cls(**{**defaults, **params})

    def _adopt(self, state: State, seed: int, device: torch.device, names: list[str] | None) -> None:
        super()._adopt(state, seed, device, names)
        self.info_ = Info(state.t, {})  # until the next step has something to tell

    def _policy(self) -> Policy:
        if self.step not in ("every", "adaptive"):
            raise ValueError(f"step={self.step!r} is unknown: choose 'every' or 'adaptive'")
        if not 0 < _at_least_zero(self.enough, "enough") < _at_least_zero(self.too_much, "too_much"):
            raise ValueError(f"enough={self.enough} and too_much={self.too_much}: need 0 < enough < too_much")
        if not self.max_hold >= 1:
            raise ValueError(f"max_hold={self.max_hold} must be at least 1")
        return Policy(self.step, self.enough, self.too_much, self.max_hold)

    def _settings(self, seed: int, originals: int = 1) -> Settings:
        if self.normalizer not in ("telescoped", "self"):
            raise ValueError(f"normalizer={self.normalizer!r} is unknown: choose 'telescoped' or 'self'")
        return replace(
            super()._settings(seed, originals),
            normalizer=self.normalizer,
            penalty=self._settings_penalty(originals),
            warm_start=self.warm_start,
            polish=self.polish,
        )

    def _settings_penalty(self, originals: int) -> float:
        """lambda_c for that many originals."""
        if isinstance(self.penalty, str):
            if self.penalty != "paper":
                raise ValueError(f"penalty={self.penalty!r} is unknown: pass a number or 'paper'")
            return 10.0 if originals == 1 else 100.0 * originals
        return _at_least_zero(self.penalty, "penalty")

    def fit(self, original: Any, y: object = None, *, name: str = "original") -> Self:
        """Start tracing from samples (n, D) of the original, forgetting anything learned before."""
        _check_name(name)
        seed, device = self._seed(), resolve_device(self.device)
        settings, names = self._settings(seed), column_names(original)
        self._policy()
        state = start(as_rows(original, "original", device=device), settings, name)
        self._adopt(state, seed, device, names)
        return self

    def partial_fit(self, window: Any, y: object = None) -> Self:
        """Advance one step to a window (m, D), or to one window per original, ``{name: window}``.

        The first call on an unfitted estimator starts tracing. After an error the estimator is as it was before.
        """
        if not hasattr(self, "_state"):
            if isinstance(window, Mapping):
                raise ValueError("call fit with the first original before windows by name")
            return self.fit(window)
        windows = self._windows(window)
        settings = self._settings(self.seed_, len(self._state.tracks))
        state, info = step(self._state, windows, settings, self._policy())
        self._warn(info, several=len(state.tracks) > 1)  # before the state moves on: a warning may be made an error
        self._state, self.info_ = state, info
        return self

    def _windows(self, window: Any) -> dict[str, Tensor]:
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

    def add_original(self, samples: Any, name: str) -> Self:
        """A further original joins now, traced from the next window that ``partial_fit`` gets under its name."""
        check_is_fitted(self)
        _check_name(name)
        if name in self._state.tracks:
            raise ValueError(f"original {name!r} is traced already: choose another name")
        settings = self._settings(self.seed_, len(self._state.tracks) + 1)
        self._state = join(self._state, name, self._rows(samples, f"original {name!r}"), settings)
        return self

    def widen(self, hidden: Sequence[int]) -> Self:
        """Give the network these hidden widths from the next step on; what it has learned so far is kept."""
        if self.model != "mlp":
            raise ValueError(f"model={self.model!r} has no hidden layers to widen: use set_params(model=...)")
        widths = tuple(int(w) for w in hidden)
        if len(widths) != len(tuple(self.hidden)) or any(a < b for a, b in zip(widths, self.hidden, strict=False)):
            raise ValueError(
                f"hidden={widths} does not widen {tuple(self.hidden)}; use set_params(model=...) to replace it"
            )
        return cast(Self, self.set_params(hidden=widths))

    def log_ratio(self, X: Any, original: str | None = None, *, return_std: bool = False) -> Any:
        """log original/current of rows (n, D): an array (n,), with ``return_std`` also its standard errors."""
        return self._log_ratio(X, original, return_std)

    def weights(self, X: Any, original: str | None = None) -> Floats:
        """Importance weights from the current window back to the original, with mean 1 on that window."""
        return self._weights(X, original)

    def divergence(
        self, kind: str | Generator = "reverse_kl", X: Any = None, original: str | None = None, *, level: float = 0.95
    ) -> Estimate:
        """An f-divergence between original and current, over the last window or further rows ``X`` of current."""
        return self._divergence(kind, X, original, level, of_step=False)

    def step_divergence(
        self, kind: str | Generator = "reverse_kl", original: str | None = None, *, level: float = 0.95
    ) -> Estimate:
        """The same between the reference window of the last step and the current window."""
        return self._divergence(kind, None, original, level, of_step=True)

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
