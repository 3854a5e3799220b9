"""Samples of a generative model, of any shape and kind, checked before anything is trained on them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from driftline._inputs import column_names, columns_differ

__all__ = ["Form", "check_samples", "encoded"]

Floats = npt.NDArray[np.float64]


class Form(NamedTuple):
    """Form of one sample, as far as it is known: the shape of arrays and tensors, the columns of frames."""

    shape: tuple[int, ...] | None = None
    columns: tuple[str, ...] | None = None


_UNKNOWN = Form()


def check_samples(
    samples: Any, what: str, *, least: int, form: Form = _UNKNOWN, as_array: bool = False
) -> tuple[Any, Form]:
    """Return samples and the form of one, or raise an error that names the samples and what is wrong.

    Arguments:
        samples: samples, one per row.
        what: name of the samples in errors.
        least: least number of samples.
        form: form that each sample must have; only arrays, tensors and frames are checked.
        as_array: whether to convert them to an array.

    >>> check_samples(np.array([[0.0, 1.0], [np.nan, 0.0]]), "images", least=2)
    Traceback (most recent call last):
    ...
    ValueError: images: 1 of 2 hold NaN or infinite values (first: row 1)
    """
    columns = column_names(samples)
    different = columns_differ(columns, form.columns)
    if different:
        raise ValueError(f"{what} do not have the columns of the first task: {different}")
    if columns is not None:
        form = form._replace(columns=tuple(columns))
    if hasattr(samples, "detach"):  # a tensor
        samples = samples.detach()
    if as_array and not isinstance(samples, np.ndarray):
        samples = samples.cpu().numpy() if hasattr(samples, "detach") else np.asarray(samples)
    try:
        count = len(samples)
    except TypeError as error:
        raise TypeError(f"{what}: pass an array, a tensor or a frame of samples (rows), not {samples!r:.60}") from error
    if count < least:
        raise ValueError(f"{what}: {count} are given, at least {least} are needed")
    if not isinstance(samples, np.ndarray) and not hasattr(samples, "detach"):
        return samples, form
    found = tuple(int(size) for size in samples.shape[1:])
    if form.shape not in (None, found):
        raise ValueError(f"{what} have the shape {found} each, those of the first task {form.shape}")
    bad = _not_finite(samples)
    if len(bad):
        raise ValueError(f"{what}: {len(bad)} of {count} hold NaN or infinite values (first: row {bad[0]})")
    return samples, form._replace(shape=found)


def _not_finite(samples: Any) -> npt.NDArray[np.int64]:
    """Return the indices of rows with NaN or infinite values; integers have none and are not checked."""
    if hasattr(samples, "detach") and samples.is_floating_point():
        fine: Any = samples.isfinite().reshape(len(samples), -1).all(1).cpu().numpy()
    elif isinstance(samples, np.ndarray) and samples.dtype.kind == "f":
        fine = np.isfinite(samples).reshape(len(samples), -1).all(1)
    else:
        return np.zeros(0, dtype=np.int64)
    return np.flatnonzero(~fine)


def encoded(encode: Callable[[Any], Floats], samples: Any, what: str) -> Floats:
    """Encode samples; an error names them."""
    try:
        return encode(samples)
    except ValueError as error:
        raise ValueError(f"{what}: {error}") from error
