"""What both estimators share: parameters checked, questions about the ratio answered, files."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from driftline import inference
from driftline._inputs import MIN_ROWS, as_rows, resolve_device, resolve_seed
from driftline.files import StateFileError, replacing
from driftline.fitting import (
    MODELS,
    Design,
    LogLinear,
    ModuleFactory,
    Network,
    Objective,
    Progress,
    Stacked,
    Training,
    check_training,
    design_of,
    log_mean_exp,
    resolve_objective,
)
from driftline.inference import Attribution, Estimate, Generator, attribute, members
from driftline.recursion import Anchor, Info, State, StepSettings, Track, dump, has_past, parse, reach

__all__ = ["Floats", "RatioEstimator", "UntrustedEstimateWarning", "at_least_zero"]

Floats = npt.NDArray[np.float64]

_HEAVY = ("kl", "pearson")  # divergences carried by the few rows with the largest ratios


class UntrustedEstimateWarning(UserWarning):
    """The estimate should not be relied on, for the reason given."""


def _warn_of_few(log_r: Tensor, what: str, advice: str) -> None:
    """Warn where averages of ratios rest on a few rows; called by a method that a public one calls."""
    size = inference.effective_sample_size(log_r)
    if size < min(50.0, 0.1 * len(log_r)):
        rows = f"{size:.1f} of the {len(log_r)} rows (effective sample size)"
        warnings.warn(f"{what} {rows}: {advice}", UntrustedEstimateWarning, stacklevel=4)


def at_least_zero(value: Any, name: str) -> float:
    """A parameter that must be a number and not negative."""
    if not isinstance(value, int | float | np.number) or not value >= 0:
        raise ValueError(f"{name}={value!r} must be a number of at least 0")
    return float(value)


class RatioEstimator(BaseEstimator):  # type: ignore[misc]
    """Base of the estimators: a State, and what can be asked of it."""

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
        """The parameters, checked and resolved."""
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
        """Replace everything learned, at once: nothing before this line has changed the estimator."""
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
        """The track, unless it waits for a window in new features."""
        track = self._state.tracks[name]
        if isinstance(track.current.psi, Stacked):
            raise ValueError(f"features of original {name!r} have changed: call partial_fit with its next window first")
        return track

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_state")

    def _log_ratio(self, X: Any, original: str | None, return_std: bool) -> Floats | tuple[Floats, Floats]:
        current = self._track(original).current
        rows = self._rows(X, "X", min_rows=0, copy=False)
        values = current.log_ratio(rows).cpu().numpy()
        if not return_std:
            return cast(Floats, values)
        design = None if current.uncertainty is None else design_of(current.psi, rows)
        if current.uncertainty is None or design is None:
            return values, np.full_like(values, np.nan)
        return values, inference.log_ratio_std(current.uncertainty, design).cpu().numpy()

    def _weights(self, X: Any, original: str | None) -> Floats:
        current = self._track(original).current
        on_window = current.log_ratio(current.window)
        _warn_of_few(on_window, "the weights rest on", "the original has moved too far away for reweighting")
        values = current.log_ratio(self._rows(X, "X", min_rows=0, copy=False)) - log_mean_exp(on_window)
        return cast(Floats, values.clamp(max=700.0).exp().cpu().numpy())

    def _divergence(
        self, kind: str | Generator, X: Any, original: str | None, level: float, *, of_step: bool
    ) -> Estimate:
        track = self._track(original)
        current = track.current
        rows = current.window if X is None else self._rows(X, "X", min_rows=2, copy=False)
        if of_step:
            if track.step_log_ratio.numel() == 0:
                raise ValueError("no step has been taken yet: call partial_fit with a window first")
            log_r = track.step_log_ratio
        else:
            log_r = current.log_ratio(rows)
        psi, uncertainty = current.psi, current.uncertainty
        assert isinstance(psi, LogLinear | Network)
        design = None if uncertainty is None else design_of(psi, rows)
        if kind == "kl" and X is None and not of_step and isinstance(psi, LogLinear):
            return self._forward_kl(current, log_r, design, level)
        if callable(kind) or kind in _HEAVY:
            advice = "too small in all likelihood; reverse_kl, js and hellinger do not depend on the largest ratios"
            _warn_of_few(log_r, "this divergence rests on", advice)
        lag = current.lag if X is None else reach(psi.standardizer(rows), self._settings(self.seed_))
        if of_step and uncertainty is not None:
            uncertainty = inference.of_step(uncertainty)
        estimate = inference.divergence_estimate(
            log_r.cpu().numpy(), kind, level, uncertainty, design, own_window=X is None, lag=lag, shared=not of_step
        )
        if np.isfinite(estimate.std_error) and np.isnan(estimate.noise) and kind != "total_variation":
            warnings.warn(
                f"the noise of {kind!r} cannot be told, so it is not subtracted and the interval is a rough one: heavy "
                "tails, or too few rows",
                UntrustedEstimateWarning,
                stacklevel=3,
            )
        return estimate

    @staticmethod
    def _forward_kl(current: Anchor, log_r: Tensor, design: Design | None, level: float) -> Estimate:
        """Of a log-linear ratio: from its constant where that tells it, else as summed up along the way."""
        psi, uncertainty, forward, logs = current.psi, current.uncertainty, current.forward, log_r.cpu().numpy()
        assert isinstance(psi, LogLinear)
        if uncertainty is not None and design is not None:
            constant = -current.log_normalizer
            exact = inference.forward_kl(psi.coef, constant, logs, level, uncertainty, design, current.lag)
            if exact is not None:
                return exact
        rows = min(forward.rows, inference.effective_sample_size(log_r))
        if rows < min(50.0, 0.1 * len(log_r)):
            warnings.warn(
                f"'kl' rests on {rows:.1f} rows (effective sample size): the original is too far away; reverse_kl, js "
                "and hellinger do not depend on the largest ratios",
                UntrustedEstimateWarning,
                stacklevel=4,
            )
        return inference.forward_along(forward, logs, level, uncertainty, design)

    def _attribution(
        self, original: str | None, level: float, groups: Mapping[str, Sequence[str | int]] | None = None
    ) -> list[Attribution]:
        current = self._track(original).current
        if not isinstance(current.psi, LogLinear) or current.uncertainty is None:
            why = "no step has been taken yet" if not has_past(current.psi) else "this model has no such parts"
            raise ValueError(
                f"the divergence cannot be attributed to columns: {why} (it needs a log-linear model, 'auto', "
                "'quadratic' or 'linear', with the telescoped normaliser, throughout)"
            )
        psi, design = current.psi, design_of(current.psi, current.window)
        assert design is not None
        log_r = current.log_ratio(current.window)
        if bool(inference.joined_later(psi.coef, current.uncertainty).any()):
            _warn_of_few(log_r, "features that joined later rest on", "their parts cannot be trusted")
        columns = list(getattr(self, "feature_names_in_", range(self.n_features_in_)))
        names = columns if groups is None else list(groups)
        belong = None if groups is None else members(groups, columns).to(log_r)
        found = attribute(psi.features, psi.coef, current.uncertainty, design, log_r, current.lag, level, belong)
        total = sum(max(e.value, 0.0) for e in found)
        parts = [
            Attribution(name, max(e.value, 0.0) / total if total > 0.0 else 0.0, e)
            for name, e in zip(names, found, strict=True)
        ]
        return sorted(parts, key=lambda part: -part.contribution.value)

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
        """What :meth:`save` writes, for storing elsewhere; not ``padded``, it is less, and more as features join."""
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
        """An estimator as it was saved; a damaged or foreign file raises :class:`~driftline.files.StateFileError`.

        Arguments:
            model, objective: the callables again, if the saved estimator had its own (they are not in the file).
            device: where to go on, if not on the device it was saved from.
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
        """An estimator from :meth:`to_bytes`; the arguments are those of :meth:`load`, ``what`` names it in errors."""
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
