"""Numbers that overflow where two windows lie far apart: they show in the result, not as warnings of NumPy's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

__all__ = ["quiet_overflow"]


@contextmanager
def quiet_overflow() -> Iterator[None]:
    """Let numbers overflow without a warning inside a block, or inside a function that this decorates.

    A fit checks its result, and an estimate that is inf or nan says so itself. (``numpy.errstate`` as a decorator is
    not for threads before NumPy 2.)

    >>> @quiet_overflow()
    ... def ratio(log_r):
    ...     return np.exp(log_r)
    >>> float(ratio(np.array([1000.0]))[0])
    inf
    """
    with np.errstate(over="ignore", invalid="ignore"):
        yield
