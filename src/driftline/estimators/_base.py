"""Base of both estimators: checked parameters, rows as tensors, access to the state, saving and loading."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from driftline._inputs import MIN_ROWS, as_rows, resolve_device, resolve_seed
from driftline.estimators import _quantities as quantities
from driftline.estimators._quantities import Floats, UntrustedEstimateWarning
from driftline.files import StateFileError, replacing
from driftline.fitting import (
    MODELS,
    ModuleFactory,
    Objective,
    Progress,
    Stacked,
    Training,
    check_training,
    resolve_objective,
)
from driftline.inference import Attribution, Estimate, Generator
from driftline.recursion import Info, State, StepSettings, Track, dump, parse

__all__ = ["RatioEstimator", "at_least_zero"]


def at_least_zero(value: Any, name: str) -> float:
    """Return a parameter as a float, or raise an error if it is not a number of at least 0."""
    if not isinstance(value, int | float | np.number) or not value >= 0:
        raise ValueError(f"{name}={value!r} must be a number of at least 0")
    return float(value)


class RatioEstimator(BaseEstimator):  # type: ignore[misc]
    """Base of the estimators: a State, and the questions that can be asked about it."""

    objective: str | Objective
    model: str | ModuleFactory
    hidden: Sequence[int]
    ridge: float
    lag: int | str
    training: Training | None
    device: str
    random_state: int | None
    progress: Progress | None
    _state: State

    def _settings(self, seed: int, originals: int = 1) -> StepSettings:
        """Return the parameters, checked and resolved."""
        if isinstance(self.model, nn.Module) or not (callable(self.model) or self.model in MODELS):
            raise ValueError(
                f"model={self.model!r} is unknown: choose one of {list(MODELS)} or pass a factory "
                "(n_inputs, n_outputs) -> torch.nn.Module"
            )
        hidden = tuple(self.hidden) if isinstance(self.hidden, Sequence) else None
        if not hidden or not all(isinstance(w, int | np.integer) and w > 0 for w in hidden):
            raise ValueError(f"hidden={self.hidden!r} must be widths of hidden layers, such as (256, 256)")
        training = check_training(Training() if self.training is None else self.training)
        return StepSettings(
            objective=resolve_objective(self.objective),
            model=self.model,
            hidden=hidden,
            ridge=at_least_zero(self.ridge, "ridge"),
            lag=self._lag(),
            training=training,
            seed=seed,
            progress=self.progress,
            names=tuple(self.feature_names_in_) if hasattr(self, "feature_names_in_") else None,
        )

    def _lag(self) -> int | None:
        if self.lag == "auto":
            return None
        if not isinstance(self.lag, int | np.integer) or isinstance(self.lag, bool) or self.lag < 0:
            raise ValueError(f"lag={self.lag!r} must be 'auto' or a number of rows of at least 0")
        return int(self.lag)

    def _seed(self) -> int:
        return resolve_seed(self.random_state)

    def _adopt(self, state: State, seed: int, device: torch.device, names: list[str] | None) -> None:
        """Replace everything learned at once: an error before this call leaves the estimator unchanged."""
        self._state, self.seed_, self._device = state, seed, device
        self.n_features_in_ = next(iter(state.tracks.values())).current.window.shape[1]
        if names is not None:
            self.feature_names_in_ = np.asarray(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _rows(self, data: Any, what: str, *, min_rows: int = MIN_ROWS, copy: bool = True) -> Tensor:
        names = list(self.feature_names_in_) if hasattr(self, "feature_names_in_") else None
        return as_rows(
            data,
            what,
            names=names,
            width=self.n_features_in_,
            reader=type(self).__name__,
            min_rows=min_rows,
            device=self._device,
            copy=copy,
        )

    def _track(self, original: str | None) -> Track:
        check_is_fitted(self)
        tracks = self._state.tracks
        if original is None:
            if len(tracks) > 1:
                raise ValueError(f"several originals are traced, name one of them: original={sorted(tracks)}")
            return self._settled(next(iter(tracks)))
        if original not in tracks:
            raise ValueError(f"original {original!r} is unknown: choose one of {sorted(tracks)}")
        return self._settled(original)

    def _settled(self, name: str) -> Track:
        """Return the track, or raise an error if it waits for a window in new features."""
        track = self._state.tracks[name]
        if isinstance(track.current.psi, Stacked):
            raise ValueError(f"features of original {name!r} have changed: call partial_fit with its next window first")
        return track

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_state")

    def _log_ratio(self, X: Any, original: str | None, return_std: bool) -> Floats | tuple[Floats, Floats]:
        current = self._track(original).current
        return quantities.log_ratio(current, self._rows(X, "X", min_rows=0, copy=False), return_std)

    def _weights(self, X: Any, original: str | None) -> Floats:
        current = self._track(original).current
        return quantities.weights(current, self._rows(X, "X", min_rows=0, copy=False))

    def _divergence(
        self, kind: str | Generator, X: Any, original: str | None, level: float, *, of_step: bool
    ) -> Estimate:
        track = self._track(original)
        rows = None if X is None else self._rows(X, "X", min_rows=2, copy=False)
        settings = None if X is None else self._settings(self.seed_)
        return quantities.divergence(track, kind, level, of_step=of_step, rows=rows, settings=settings)

    def _attribution(
        self, original: str | None, level: float, groups: Mapping[str, Sequence[str | int]] | None
    ) -> list[Attribution]:
        current = self._track(original).current
        columns = list(getattr(self, "feature_names_in_", range(self.n_features_in_)))
        return quantities.attribution(current, columns, level, groups)

    @staticmethod
    def _warn(info: Info, several: bool) -> None:
        for name, about in info.originals.items():
            for doubt in about.warnings:
                prefix = f"{name}: " if several else ""
                warnings.warn(f"{prefix}{doubt}", UntrustedEstimateWarning, stacklevel=3)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything the next step needs to one file, atomically (safetensors with a JSON header, no pickle)."""
        data = self.to_bytes()
        with replacing(path) as file:
            file.write(data)

    def to_bytes(self, *, padded: bool = True) -> bytes:
        """Return the bytes that :meth:`save` writes; without ``padded`` they are fewer, and grow as features join."""
        check_is_fitted(self)
        for name in self._state.tracks:
            self._settled(name)
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
        return dump(self._state, header, padded=padded)

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
        """Load a saved estimator; a damaged or foreign file raises :class:`~driftline.files.StateFileError`.

        Arguments:
            path: path of the file.
            model, objective: the custom callables of the saved estimator, if any (they are not in the file).
            device: device to continue on, if not the one it was saved from.
            progress: called as ``progress(epoch, epochs, loss, held_out)`` while a network trains.
        """
        if not Path(path).is_file():
            raise FileNotFoundError(f"{os.fspath(path)}: no such file")
        data, what = Path(path).read_bytes(), os.fspath(path)
        return cls.from_bytes(data, what=what, model=model, objective=objective, device=device, progress=progress)

    @classmethod
    def from_bytes(
        cls,
        data: bytes,
        *,
        what: str = "the state",
        model: ModuleFactory | None = None,
        objective: Objective | None = None,
        device: str | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Load an estimator from :meth:`to_bytes`; arguments as in :meth:`load`, ``what`` names the bytes in errors."""
        state, meta = parse(data, what, model)
        if meta["estimator"] != cls.__name__:
            raise StateFileError(f"{what} holds a {meta['estimator']}, not a {cls.__name__}")
        params = dict(meta["params"])
        for name, given in (("model", model), ("objective", objective)):
            if name in meta["custom"]:
                if given is None:
                    raise ValueError(f"{what} was saved with a custom {name}: pass it, load(path, {name}=...)")
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
    """Move all tensors and networks of a state to a device; parts that are shared stay shared."""
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
