"""Threads of matrix products (BLAS): as many as the user allows, one unless the environment says otherwise.

Matrices of a step are small, and threads that share them wait for each other: on a machine whose cores are busy, a step
would take many times as long. Who wants more threads sets ``OMP_NUM_THREADS``, ``OPENBLAS_NUM_THREADS`` or
``MKL_NUM_THREADS`` before the start.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

__all__ = ["allowed_threads", "limited_threads"]

_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_CARRIERS = ("numpy", "scipy.linalg", "torch")  # packages that may bring a BLAS of their own
_found: dict[tuple[bool, ...], tuple[Any, ...]] = {}  # by which of these packages are loaded


def allowed_threads() -> int:
    """Return the number of threads that the environment allows: the first variable that is set counts, else 1."""
    for name in _VARIABLES:
        first = os.environ.get(name, "").split(",")[0].strip()  # OpenMP takes a list, one number for each level
        if first.isdecimal() and int(first) > 0:
            return int(first)
    return 1


def _libraries() -> tuple[Any, ...]:
    """Return the BLAS libraries of this process; looking for them takes as long as a small step, so once is enough."""
    loaded = tuple(name in sys.modules for name in _CARRIERS)
    if loaded not in _found:
        from threadpoolctl import ThreadpoolController

        _found[loaded] = tuple(ThreadpoolController().select(user_api="blas").lib_controllers)
    return _found[loaded]


def _lowered(library: Any, most: int) -> list[tuple[Any, int]]:
    """Lower the threads of a library to a limit; return it with the number before, or nothing if it stays as it is."""
    threads = library.get_num_threads()
    if threads is None or threads <= most:  # never more than the caller has set
        return []
    _set(library, most)
    # another thread of the user may be in charge of a limit of its own: that one counts
    return [(library, threads)] if library.get_num_threads() == most else []


def _set(library: Any, threads: int) -> None:
    library.set_num_threads(threads)
    # threadpoolctl gives the thread that has set a limit sole charge of it, but the last to leave may be another one
    release = getattr(library, "clear_controlling_thread", None)
    if release is not None:
        release()


def _is_own(library: Any) -> bool:
    """Say whether each Python thread has its own number of threads in this library."""
    return library.internal_api == "blis" or getattr(library, "threading_layer", "") == "openmp"


class _Limit:
    """The limit of this process: set by the first who asks, lifted by the last who leaves.

    The number of threads is global in most libraries. If each thread restored what it had found, one would lift the
    limit while another is at work, or restore the limit itself and leave it behind.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._inside = 0
        self._before: list[tuple[Any, int]] = []

    def enter(self) -> list[tuple[Any, int]]:
        """Limit this thread; return what it alone has to restore."""
        with self._lock:
            most, own = allowed_threads(), []
            for library in _libraries():
                if _is_own(library):
                    own += _lowered(library, most)
                elif self._inside == 0:
                    self._before += _lowered(library, most)
            self._inside += 1
            return own

    def leave(self, own: list[tuple[Any, int]]) -> None:
        """Restore what belongs to this thread and, if it is the last one, what belongs to all."""
        with self._lock:
            _restore(own)
            self._inside -= 1
            if self._inside == 0:
                self.lift()

    def lift(self) -> None:
        """Restore what belongs to all threads."""
        _restore(self._before)
        self._before = []


def _restore(before: list[tuple[Any, int]]) -> None:
    for library, threads in before:
        _set(library, threads)


_limit = _Limit()


@contextmanager
def limited_threads() -> Iterator[None]:
    """Limit the threads of matrix products inside a block, or inside a function that this decorates.

    Blocks may be nested, and may be in several Python threads at once: the last one to end restores what was before.

    >>> import numpy as np
    >>> @limited_threads()
    ... def gram(x):
    ...     return x.T @ x
    >>> gram(np.ones((3, 1))).tolist()
    [[3.0]]
    """
    limit = _limit
    own = limit.enter()
    try:
        yield
    finally:
        limit.leave(own)


def _begin_anew() -> None:
    """Lift the limit in a forked process: the threads that were inside exist in its parent only."""
    global _limit
    before, _limit = _limit, _Limit()
    before.lift()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)
