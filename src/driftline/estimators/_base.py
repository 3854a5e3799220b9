"""Base of both estimators: checked parameters, rows as arrays, access to the state, saving and loading."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from driftline import recursion
from driftline._inputs import MIN_ROWS, Floats, as_rows, check_numbers, resolve_seed
from driftline.estimators._files import dump_estimator, parse_estimator
from driftline.estimators._warnings import warn_of
from driftline.files import StateFileError, replacing
from driftline.fitting import (
    MODELS,
    ModuleFactory,
    Objective,
    Progress,
    Training,
    check_device,
    check_training,
    resolve_objective,
)
from driftline.inference import Attribution, Estimate, Generator
from driftline.recursion import Info, State, StepSettings, Track, track_of

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
    _numbers: list[int] | None = None  # labels of the original's columns, if they are integers; not in a saved file

    def _settings(self, seed: int, originals: int = 1) -> StepSettings:
        """Return the parameters, checked and resolved."""
        instance = hasattr(self.model, "state_dict") and not isinstance(self.model, type)
        if instance or not (callable(self.model) or self.model in MODELS):
            raise ValueError(
                f"model={self.model!r} is unknown: choose one of {list(MODELS)} or pass a factory "
                "(n_inputs, n_outputs) -> torch.nn.Module"
            )
        hidden = tuple(self.hidden) if isinstance(self.hidden, Sequence) else None
        if not hidden or not all(isinstance(w, int | np.integer) and w > 0 for w in hidden):
            raise ValueError(f"hidden={self.hidden!r} must be widths of hidden layers, such as (256, 256)")
        check_device(self.device)
        training = check_training(Training() if self.training is None else self.training)
        settings = StepSettings(
            objective=resolve_objective(self.objective),
            model=self.model,
            hidden=hidden,
            ridge=at_least_zero(self.ridge, "ridge"),
            lag=self._lag(),
            training=training,
            device=self.device,
            seed=seed,
            progress=self.progress,
            names=tuple(self.feature_names_in_) if hasattr(self, "feature_names_in_") else None,
        )
        if callable(self.model) or self.model == "mlp":
            from driftline.fitting import resolve_device  # not at the top: it needs PyTorch

            resolve_device(self.device)
        return settings

    def _check(self, originals: int) -> None:
        """Raise an error if a parameter is not valid, for this many originals."""
        self._settings(self.seed_, originals)

    def _lag(self) -> int | None:
        if self.lag == "auto":
            return None
        if not isinstance(self.lag, int | np.integer) or isinstance(self.lag, bool) or self.lag < 0:
            raise ValueError(f"lag={self.lag!r} must be 'auto' or a number of rows of at least 0")
        return int(self.lag)

    def _seed(self) -> int:
        return resolve_seed(self.random_state)

    def _adopt(self, state: State, seed: int, names: list[str] | None) -> None:
        """Replace everything learned at once: an error before this call leaves the estimator unchanged."""
        self._state, self.seed_ = state, seed
        self.n_features_in_ = next(iter(state.tracks.values())).current.window.shape[1]
        if names is not None:
            self.feature_names_in_ = np.asarray(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _rows(self, data: Any, what: str, *, min_rows: int = MIN_ROWS, copy: bool = True) -> Floats:
        check_numbers(data, self._numbers, what)
        names = list(self.feature_names_in_) if hasattr(self, "feature_names_in_") else None
        return as_rows(
            data,
            what,
            names=names,
            width=self.n_features_in_,
            reader=type(self).__name__,
            min_rows=min_rows,
            copy=copy,
        )

    def _track(self, original: str | None) -> Track:
        check_is_fitted(self)
        return track_of(self._state, original)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_state")

    def _read(self, original: str | None) -> Track:
        """Return the track that log-ratios are read from; its psi is made once for a window, and holds no row."""
        track = self._track(original)
        if self.model != "auto" or track.current.sums is not None:
            return recursion.as_read(track)
        current, made = track.current, self.__dict__.setdefault("_readings", {})
        if original not in made or made[original][0] is not current.psi:
            read = recursion.moderated(current)
            made[original] = current.psi, read.psi, read.log_normalizer
        _, psi, log_normalizer = made[original]
        return track._replace(current=current._replace(psi=psi, log_normalizer=log_normalizer, known=None))

    def _log_ratio(self, X: Any, original: str | None, return_std: bool) -> Floats | tuple[Floats, Floats]:
        track = self._read(original)
        found = recursion.log_ratio(track, self._rows(X, "X", min_rows=0, copy=False), errors=return_std)
        warn_of(found.doubts)
        return (found.values, found.errors) if return_std else found.values

    def _weights(self, X: Any, original: str | None) -> Floats:
        track = self._read(original)
        found = recursion.weights(track, self._rows(X, "X", min_rows=0, copy=False))
        warn_of(found.doubts)
        return found.values

    def _divergence(
        self, kind: str | Generator, X: Any, original: str | None, level: float, *, of_step: bool
    ) -> Estimate:
        track = self._track(original)
        if track.step_log_ratio.size == 0 and not recursion.has_past(track.current):
            raise ValueError("no step has been taken yet, so nothing is known: call partial_fit with a window first")
        rows = None if X is None else self._rows(X, "X", min_rows=2, copy=False)
        settings = None if X is None else self._settings(self.seed_)
        estimate = recursion.divergence(track, kind, level, of_step=of_step, rows=rows, settings=settings)
        warn_of(estimate.doubts)
        return estimate

    def _score(self, samples: Any, current: Any, original: str | None) -> float:
        track = self._read(original)
        then = recursion.log_ratio(track, self._rows(samples, "original", min_rows=1, copy=False)).values
        now = recursion.log_ratio(track, self._rows(current, "current", min_rows=1, copy=False)).values
        return float(np.log(2.0) - 0.5 * (np.logaddexp(0.0, -then).mean() + np.logaddexp(0.0, now).mean()))

    def _attribution(
        self, original: str | None, level: float, groups: Mapping[str, Sequence[str | int]] | None
    ) -> list[Attribution]:
        track = self._track(original)
        columns = list(getattr(self, "feature_names_in_", range(self.n_features_in_)))
        found = recursion.attribution(track, columns, level, groups)
        warn_of(found.doubts)
        return found.parts

    @staticmethod
    def _warn(info: Info, several: bool) -> None:
        for name, about in info.originals.items():
            warn_of(about.doubts, f"{name}: " if several else "")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything the next step needs to one file, atomically (safetensors with a JSON header, no pickle)."""
        data = self.to_bytes()
        with replacing(path) as file:
            file.write(data)

    def to_bytes(self) -> bytes:
        """Return the bytes that :meth:`save` writes: their number depends on columns and features, not on t."""
        check_is_fitted(self)
        columns = list(self.feature_names_in_) if hasattr(self, "feature_names_in_") else None
        params = self.get_params(deep=False)
        return dump_estimator(self._state, type(self).__name__, params, self.seed_, columns)

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
            device: device that networks continue on, if not the one they were saved from.
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
        stored = parse_estimator(data, cls.__name__, what, model=model, objective=objective, device=device)
        try:
            estimator = cls(**stored.params, progress=progress)
            estimator._adopt(stored.state, stored.seed, stored.columns)
            estimator._check(len(stored.state.tracks))
        except (TypeError, ValueError) as error:
            raise StateFileError(f"{what}: damaged, its parameters do not fit ({error})") from error
        return estimator
