"""Adapters: flatten rows of any shape, and turn anything that makes features into one function X -> Z."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from driftline._inputs import as_rows, column_names

__all__ = ["as_features", "flat_rows", "row_noise"]

Floats = npt.NDArray[np.float64]


def as_features(thing: Any = None) -> Callable[[Any], Floats]:
    """Return a function from rows (n, ...) to checked features (n, D) in double precision.

    The features must have two dimensions, one row for each input row, and neither NaN nor infinite values.

    Arguments:
        thing: a fitted transformer as in scikit-learn (anything with ``transform``), a function of the rows, or None,
            which flattens them.

    >>> images = np.arange(24.0).reshape(2, 3, 4)
    >>> as_features(None)(images).shape
    (2, 12)
    >>> as_features(lambda x: x.mean(axis=(1, 2), keepdims=False)[:, None])(images)
    array([[ 5.5],
           [17.5]])
    >>> as_features(lambda x: x.mean(axis=0))(images)
    Traceback (most recent call last):
    ...
    ValueError: features by <lambda> have 3 rows, X has 2
    """
    if thing is None:
        return lambda X: flat_rows(X)[0]
    if isinstance(thing, type):
        raise TypeError(f"{thing.__name__} is a class: pass a fitted instance of it")
    make = getattr(thing, "transform", thing)
    if not callable(make):
        raise TypeError(f"{thing!r} does not make features: pass a transformer, a function or None")
    name = getattr(thing, "__name__", type(thing).__name__)

    def features(X: Any) -> Floats:
        found = make(X)
        rows = as_rows(found, f"features by {name}", min_rows=0, copy=False)
        size = len(X) if not hasattr(X, "shape") else X.shape[0]
        if len(rows) != size:
            raise ValueError(f"features by {name} have {len(rows)} rows, X has {size}")
        return rows

    return features


def flat_rows(
    data: Any,
    what: str = "X",
    *,
    shape: Sequence[int] | None = None,
    names: Sequence[str] | None = None,
    min_rows: int = 0,
) -> tuple[Floats, tuple[int, ...]]:
    """Return rows (n, ...) as a float64 array (n, D), and the shape of one row.

    Arguments:
        data: array, tensor, frame or nested list.
        what: name of the data in errors.
        shape: required shape of one row.
        names: required column names of a frame.
        min_rows: required number of rows.

    >>> rows, shape = flat_rows(np.zeros((5, 8, 8)))
    >>> tuple(rows.shape), shape
    ((5, 64), (8, 8))
    """
    if not hasattr(data, "toarray") and column_names(data) is None and not hasattr(data, "detach"):
        data = data.to_numpy() if hasattr(data, "to_numpy") else np.asarray(data)
    found = tuple(int(size) for size in data.shape)
    if len(found) < 2:
        raise ValueError(f"{what} must have the shape (rows, ...), got {found}")
    if shape is not None and found[1:] != tuple(shape):
        raise ValueError(f"{what} has rows of shape {found[1:]}, this was fitted on rows of shape {tuple(shape)}")
    if len(found) > 2:
        data = data.reshape(found[0], prod(found[1:]))
    return as_rows(data, what, names=names, min_rows=min_rows, copy=False), found[1:]


def row_noise(rows: npt.NDArray[np.floating[Any]], width: int) -> npt.NDArray[np.float64]:
    """Return standard normal noise (n, width) that is a function of each row alone.

    >>> rows = np.arange(6.0).reshape(3, 2)
    >>> bool((row_noise(rows, 4)[1:2] == row_noise(rows[1:2], 4)).all())
    True
    """
    rows = np.ascontiguousarray(rows + 0.0)  # turns -0.0, which has other bytes, into 0.0
    noise = np.empty((len(rows), width))
    for row, out in zip(rows, noise, strict=True):
        key = int.from_bytes(hashlib.blake2b(row.tobytes(), digest_size=16).digest())
        np.random.Generator(np.random.Philox(key=key)).standard_normal(out=out)
    return noise
