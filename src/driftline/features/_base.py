"""Base of the feature networks: seeds, devices, batches, files."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from driftline._inputs import MIN_ROWS, Floats, column_names
from driftline.features._adapters import flat_rows
from driftline.files import StateFileError, pack, replacing, unpack
from driftline.fitting import (
    FitInfo,
    Progress,
    Training,
    check_device,
    check_training,
    resolve_device,
    row_batches,
    run_epochs,
    split_rows,
)

__all__ = ["FeatureNetwork", "apart", "check_widths"]

_FORMAT, _VERSION = "driftline-features", 2
_INPUTS = 64  # inputs for each weight of a network, at most: convolutions have many, and pooling halves them twice
_BATCH = 4096  # rows of one forward pass outside training: bounds the memory that convolutions take


def apart(seed: int, t: int) -> int:
    """Return a seed for the t-th training, unrelated to those of the others."""
    return int(np.random.SeedSequence((seed, t)).generate_state(1)[0])


def check_widths(value: Any, name: str) -> tuple[int, ...]:
    """Return the widths of layers as a tuple, or raise an error if one is not a positive integer."""
    widths = tuple(value) if isinstance(value, list | tuple) else ()
    if not widths or not all(isinstance(w, int | np.integer) and w > 0 for w in widths):
        raise ValueError(f"{name}={value!r} must be widths of layers, such as (256, 256)")
    return tuple(int(w) for w in widths)


class FeatureNetwork(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Base of the feature networks, which add training and what a file has to keep."""

    training: Training | None
    device: str
    random_state: int | None
    progress: Progress | None
    shape_in_: tuple[int, ...]
    _default_training = Training()
    _net: nn.Module

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_net")

    def _flat(self, X: Any, *, min_rows: int = 0) -> Tensor:
        """Return flat rows, after checking that they have the shape that was fitted."""
        check_is_fitted(self)
        return torch.from_numpy(flat_rows(X, shape=self.shape_in_, names=self._names(), min_rows=min_rows)[0])

    def _names(self) -> list[str] | None:
        return list(self.feature_names_in_) if hasattr(self, "feature_names_in_") else None

    @staticmethod
    def _first(X: Any) -> tuple[Tensor, tuple[int, ...], list[str] | None]:
        """Return the rows that determine the shape, that shape, and the names of their columns, if any."""
        rows, shape = flat_rows(X, min_rows=MIN_ROWS)
        return torch.from_numpy(rows), shape, column_names(X)

    def _remember(self, shape: tuple[int, ...], names: list[str] | None, seed: int) -> None:
        self.shape_in_, self.n_features_in_, self.seed_ = shape, int(np.prod(shape)), seed
        if names is not None:
            self.feature_names_in_ = np.asarray(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _train(self, net: nn.Module, rows: int, seed: int, loss: Callable[..., Tensor], advice: str) -> FitInfo:
        """Train in place on ``loss(row numbers, generator)``; ``generator`` draws the noise that the loss needs."""
        training = check_training(self._default_training if self.training is None else self.training)
        device = next(net.parameters()).device
        train, held = split_rows(rows, training.validation, seed)
        # at least two rows in a batch: batch normalisation of a single row gives 0
        batches = max(1, min(len(train) // 2, round(len(train) / training.batch)))
        order, noise = torch.Generator().manual_seed(seed), torch.Generator(device).manual_seed(seed)

        def epoch_losses() -> Iterator[Tensor]:
            for batch in row_batches(train, batches, order):
                yield loss(batch.to(device), noise)

        def held_out() -> Tensor:  # the same noise after each epoch, so that epochs can be compared
            parts = held.to(device).split(_BATCH)
            again = torch.Generator(device).manual_seed(seed)
            return torch.stack([loss(part, again) * (len(part) / len(held)) for part in parts]).sum()

        return run_epochs(net, epoch_losses, held_out, training, batches, advice=advice, progress=self.progress)

    @staticmethod
    def _in_batches(function: Callable[[Tensor], Tensor], rows: Tensor, device: torch.device) -> Floats:
        """Apply a function to rows batch by batch; return the results in double precision."""
        with torch.no_grad():
            parts = [function(part.to(device)).double().cpu() for part in rows.split(_BATCH)]
        found: Floats = torch.cat(parts).numpy()
        bad = ~np.isfinite(found).all(axis=tuple(range(1, found.ndim)))
        if bad.any():
            raise ValueError(
                f"{int(bad.sum())} of {len(found)} rows overflow single precision (first: row {int(bad.argmax())}): "
                "are they on the scale of the rows this was fitted on?"
            )
        return found

    def _state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        raise NotImplementedError

    def _restore(
        self, tensors: Mapping[str, Tensor], meta: Mapping[str, Any], shape: tuple[int, ...], device: torch.device
    ) -> None:
        raise NotImplementedError

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything learned to one file, atomically (safetensors with a JSON header, no pickle)."""
        data = self.to_bytes()
        with replacing(path) as file:
            file.write(data)

    def to_bytes(self) -> bytes:
        """Return the bytes that :meth:`save` writes."""
        check_is_fitted(self)
        params = self.get_params(deep=False)
        params.pop("progress")
        training = params.pop("training")
        tensors, learned = self._state()
        header = {
            "format": _FORMAT,
            "version": _VERSION,
            "estimator": type(self).__name__,
            "params": params,
            "training": None if training is None else training._asdict(),
            "shape": list(self.shape_in_),
            "columns": self._names(),
            "seed": self.seed_,
            "learned": learned,
        }
        return pack({key: value.detach().cpu().numpy() for key, value in tensors.items()}, header)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, device: str | None = None, progress: Progress | None = None) -> Self:
        """Load a saved network; a damaged or foreign file raises :class:`~driftline.files.StateFileError`.

        Arguments:
            path: path of the file.
            device: device to continue on, if not the one it was saved from.
            progress: called as ``progress(epoch, epochs, loss, held_out)`` in further training.
        """
        if not Path(path).is_file():
            raise FileNotFoundError(f"{os.fspath(path)}: no such file")
        return cls.from_bytes(Path(path).read_bytes(), what=os.fspath(path), device=device, progress=progress)

    @classmethod
    def from_bytes(
        cls, data: bytes, *, what: str = "the features", device: str | None = None, progress: Progress | None = None
    ) -> Self:
        """Load a network from :meth:`to_bytes`; arguments as in :meth:`load`, ``what`` names the bytes in errors."""
        arrays, meta = unpack(data, _FORMAT, _VERSION, what)
        tensors = {key: torch.from_numpy(value.copy()) for key, value in arrays.items()}
        if meta.get("estimator") != cls.__name__:
            raise StateFileError(f"{what} holds a {meta.get('estimator')}, not a {cls.__name__}")
        try:
            params = {k: tuple(v) if isinstance(v, list) else v for k, v in meta["params"].items()}
            if device is not None:
                params["device"] = device
            training = None if meta["training"] is None else Training(**meta["training"])
            made = cls(**params, training=training, progress=progress)
            check_device(made.device)
        except (LookupError, TypeError, AttributeError, ValueError) as error:
            raise StateFileError(f"{what}: damaged, its parameters do not fit ({error})") from error
        place = resolve_device(made.device)
        try:
            shape, columns = _checked(meta, sum(value.size for value in arrays.values()))
            made._restore(tensors, meta["learned"], shape, place)
            made._remember(shape, columns, meta["seed"])
        except (LookupError, RuntimeError, TypeError, AttributeError, ValueError, StopIteration) as error:
            raise StateFileError(f"{what}: damaged, its parts do not fit together ({error})") from error
        return made


def _checked(meta: Mapping[str, Any], size: int) -> tuple[tuple[int, ...], list[str] | None]:
    """Return shape and columns of a row in a header, if a file of this many numbers can be about such rows."""
    shape, columns, seed = meta["shape"], meta["columns"], meta["seed"]
    if not isinstance(shape, list) or not all(isinstance(part, int) and part > 0 for part in [seed + 1, *shape]):
        raise ValueError("its shape and its seed are not numbers")
    if math.prod(shape) > _INPUTS * size:
        raise ValueError(f"rows of {math.prod(shape)} numbers, in a file of {size}")
    if columns is not None and not (len(columns) == math.prod(shape) and all(isinstance(n, str) for n in columns)):
        raise ValueError(f"its columns are not {math.prod(shape)} names")
    return tuple(shape), columns
