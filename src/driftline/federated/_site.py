"""A site: rows that stay where they are, and the sums that leave."""

from __future__ import annotations

from typing import Any

from driftline._inputs import Floats, as_rows, column_names
from driftline._overflow import quiet_overflow
from driftline._threads import limited_threads
from driftline.federated._messages import MessageError, read_question, write_answer
from driftline.recursion import RowsWithheldError, answer

__all__ = ["RowsWithheldError", "Site"]

_ROUNDS = 200  # questions about the same rows, at most: sums at ever other coefficients would say ever more of them


class Site:
    """Rows of one window in one place.

    Only :meth:`answer` speaks of them, in sums. It refuses where these would reveal rows: fewer than ten for each
    parameter, fewer than twice as many numbers as the answer holds, or weights that rest on a few of them.

    Arguments:
        rows: rows (n, D) of a window, an array or a frame.
        name: name of the site.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> sites = [Site(rng.normal(size=(n, 2)), f"clinic {n}") for n in (900, 1500)]
    >>> sites[1].rows
    1500
    """

    def __init__(self, rows: Any, name: str) -> None:
        if not isinstance(name, str) or not name:
            raise ValueError(f"name={name!r} must be a non-empty string")
        self.name = name
        self._names = column_names(rows)
        self._rows: Floats = as_rows(rows, f"rows of site {name!r}")
        self._asked = 0

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self._rows)

    @limited_threads()
    @quiet_overflow()
    def answer(self, question: bytes) -> bytes:
        """Answer a coordinator's question, or raise an error that says why not."""
        asked = read_question(question)
        if asked.columns != self._rows.shape[1]:
            raise MessageError(f"the question is about {asked.columns} columns, the rows have {self._rows.shape[1]}")
        if asked.names is not None and self._names is not None and list(asked.names) != self._names:
            raise MessageError(f"the question is about columns {list(asked.names)}, the rows have {self._names}")
        self._asked += 1
        if self._asked > _ROUNDS:
            raise RowsWithheldError(f"it has answered {_ROUNDS} questions about these rows, and no more are allowed")
        return write_answer(answer(asked.question, self._rows), asked, self.name)
