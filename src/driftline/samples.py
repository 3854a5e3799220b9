"""Samples of a generative model, of any shape and kind, checked before anything is trained on them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

__all__ = ["check_samples", "encoded"]

Floats = npt.NDArray[np.float64]
Shape = tuple[int, ...] | None


def check_samples(
    samples: Any, what: str, *, least: int, shape: Shape = None, as_array: bool = False
) -> tuple[Any, Shape]:
    """Samples and the shape of one, or an error that says what is wrong with which.

    Arguments:
        what: how an error names them.
        least: how many there must be.
        shape: that one of them must have, if they are an array or a tensor; anything else is left to the features.
        as_array: make an array of them.

    >>> check_samples(np.array([[0.0, 1.0], [np.nan, 0.0]]), "images", least=2)
    Traceback (most recent call last):
    ...
    ValueError: images: 1 of 2 hold NaN or infinite values (first: row 1)
    """
    if isinstance(samples, torch.Tensor):
        samples = samples.detach()
    if as_array and not isinstance(samples, np.ndarray):
        samples = samples.cpu().numpy() if isinstance(samples, torch.Tensor) else np.asarray(samples)
    count = len(samples)
    if count < least:
        raise ValueError(f"{what}: {count} are given, at least {least} are needed")
    if not isinstance(samples, np.ndarray | torch.Tensor):
        return samples, shape
    found = tuple(int(size) for size in samples.shape[1:])
    if shape not in (None, found):
        raise ValueError(f"{what} have the shape {found} each, those of the first task {shape}")
    bad = _not_finite(samples)
    if len(bad):
        raise ValueError(f"{what}: {len(bad)} of {count} hold NaN or infinite values (first: row {bad[0]})")
    return samples, found


def _not_finite(samples: Any) -> npt.NDArray[np.int64]:
    """Numbers of rows with NaN or infinite values; whole numbers have none, so they are not looked at."""
    if isinstance(samples, torch.Tensor) and samples.is_floating_point():
        fine: Any = samples.isfinite().reshape(len(samples), -1).all(1).cpu().numpy()
    elif isinstance(samples, np.ndarray) and samples.dtype.kind == "f":
        fine = np.isfinite(samples).reshape(len(samples), -1).all(1)
    else:
        return np.zeros(0, dtype=np.int64)
    return np.flatnonzero(~fine)


def encoded(encode: Callable[[Any], Floats], samples: Any, what: str) -> Floats:
    """Features of samples; an error says of which."""
    try:
        return encode(samples)
    except ValueError as error:
        raise ValueError(f"{what}: {error}") from error
