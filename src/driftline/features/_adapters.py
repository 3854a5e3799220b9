"""Anything that makes features as one function X -> Z."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from driftline._inputs import as_rows
from driftline.features._rows import flat_rows

__all__ = ["as_features"]

Floats = npt.NDArray[np.float64]


def as_features(thing: Any = None) -> Callable[[Any], Floats]:
    """A function from rows (n, ...) to checked features (n, D), of double precision.

    The features must have two dimensions, one row for each row that went in, and neither nan nor infinite values.

    Arguments:
        thing: a fitted transformer of scikit-learn's kind (anything with ``transform``), a function of the rows, or
            None, which flattens them.

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
        return lambda X: flat_rows(X)[0].cpu().numpy()
    if isinstance(thing, type):
        raise TypeError(f"{thing.__name__} is a class: pass a fitted instance of it")
    make = getattr(thing, "transform", thing)
    if not callable(make):
        raise TypeError(f"{thing!r} makes no features: pass a transformer, a function or None")
    name = getattr(thing, "__name__", type(thing).__name__)

    def features(X: Any) -> Floats:
        found = make(X)
        rows = as_rows(found, f"features by {name}", min_rows=0, copy=False).cpu().numpy()
        size = len(X) if not hasattr(X, "shape") else X.shape[0]
        if len(rows) != size:
            raise ValueError(f"features by {name} have {len(rows)} rows, X has {size}")
        return np.asarray(rows, dtype=np.float64)

    return features
