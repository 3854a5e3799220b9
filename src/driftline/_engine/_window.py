"""Windows as the engine asks them: sums over rows, by groups of rows that count together.

All that a step needs of the window before are sums. :class:`Window` makes them of rows at hand, :class:`Kept` holds
those of a window whose rows are gone.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Annotated, NamedTuple

import numpy as np
import numpy.typing as npt

from driftline._engine._basis import Basis
from driftline._engine._groups import Groups, group_rows
from driftline._inputs import Floats

__all__ = ["Kept", "Window", "kept"]

_HELD = 60_000_000  # numbers in single precision that are held instead of made again
_AT_ONCE = 2_000_000
_ROUNDED = 1e-12  # variance of what is constant but for rounding, in units of the squared mean
_SAMPLE = 2_000  # rows that suffice to regress one function on others, or five for each of these


class Window:
    """Rows of a window (n, D), and what is made of them once for both of its roles.

    Attributes:
        rows: raw rows.
        z: the same in the coordinates of the original.
        groups: which rows count together.
    """

    def __init__(self, basis: Basis, rows: Floats, seed: int, t: int) -> None:
        self.basis, self.rows, self.z = basis, rows, basis.standardizer(rows)
        # groups depend on the window's place in the stream alone: they are the same in both of its roles
        self.groups: Groups = group_rows(rows, self.z, np.random.default_rng((seed, 2, t)))

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def effective(self) -> float:
        """Number of independent rows that say as much."""
        return len(self.rows) / self.groups.worth

    @cached_property
    def events(self) -> Floats:
        """Share of rows off the most common value of each column, (D,)."""
        return self.basis.events(self.z)

    @property
    def distinct(self) -> Floats:
        """Rows in the coordinates of the original, each copy once, (m, D)."""
        first = self.groups.distinct
        return self.z if first is None else self.z[first]

    def functions(self, which: npt.NDArray[np.bool_]) -> Floats:
        """Return some of the functions of all rows in double precision, (n, k)."""
        return self.basis.some(self.z, which)

    def moments(self, which: npt.NDArray[np.bool_]) -> tuple[Floats, Floats, Floats]:
        """Return means, variances and fourth moments of some functions, (k,) each."""
        values = self.functions(which)
        mean = values.mean(0)
        values -= mean
        square = np.square(values)
        return mean, square.mean(0), np.square(square).mean(0)

    def tally(self, scores: Floats) -> Floats:
        """Return the sums of ``scores`` (n,) times each function over each group, (groups, P)."""
        groups, basis = self.groups, self.basis
        ordered = scores if groups.order is None else scores[groups.order]
        out, ends = np.empty((groups.number, basis.size)), np.append(groups.starts[1:], len(self))
        weights = ordered.astype(np.float32)
        for first, values in self._chunks():
            last = first + values.shape[1]
            for g in range(*np.searchsorted(groups.starts, [first, last])):
                at = slice(groups.starts[g], ends[g])
                out[g] = values[:, at.start - first : at.stop - first] @ weights[at]
        out -= np.add.reduceat(ordered, groups.starts)[:, None] * basis.mean
        out /= basis.scale
        return out

    def regression(self, model: Floats, weights: Floats, every: int = 0) -> tuple[Floats, Floats]:
        """Return weighted products of the model's functions (n, p) with each other, (p, p), and with all, (p, P).

        The last of the model's functions is 1. Products are taken from one row of ``every``; 0 for as many as suffice.
        """
        every, basis = every or max(1, len(self) // max(_SAMPLE, 5 * model.shape[1])), self.basis
        order = np.arange(len(self)) if self.groups.order is None else self.groups.order
        gram, cross = np.zeros((model.shape[1], model.shape[1])), np.zeros((model.shape[1], basis.size))
        for first, values in self._chunks():
            some = order[first : first + values.shape[1]][::every]
            rows = model[some]
            weighted = rows * (every * weights[some, None])
            gram += rows.T @ weighted
            cross += (values[:, ::every] @ weighted.astype(np.float32)).T
        cross -= gram[:, -1:] * basis.mean
        cross /= basis.scale
        return gram, cross

    @cached_property
    def _values(self) -> npt.NDArray[np.float32] | None:
        """All functions of all rows in the order of their groups, (P, n), if they are not too many."""
        if len(self) * self.basis.size > _HELD:
            return None
        return np.concatenate([part for _, part in self._made()], axis=1)

    def _chunks(self) -> Iterator[tuple[int, npt.NDArray[np.float32]]]:
        """Return stretches of whole groups of rows, with all their functions as the blocks have them."""
        if self._values is not None:
            yield 0, self._values
        else:
            yield from self._made()

    def _made(self) -> Iterator[tuple[int, npt.NDArray[np.float32]]]:
        z = self.z if self.groups.order is None else self.z[self.groups.order]
        size, ends = max(1, _AT_ONCE // self.basis.size), np.append(self.groups.starts[1:], len(z))
        first = 0
        while first < len(z):
            within = ends[(ends > first) & (ends <= first + size)]
            last = int(within[-1]) if len(within) else int(ends[ends > first][0])
            yield first, np.concatenate([block(z[first:last]).T.astype(np.float32) for block in self.basis.blocks])
            first = last


class Kept(NamedTuple):
    """Sums of a window whose rows are gone: all that the next step asks of its numerator.

    Attributes:
        rows: number of rows.
        effective: number of independent rows that say as much.
        groups: how groups of rows are placed among the factors.
        sums: sums of all functions over each group, per row of the window, (groups, P).
        active: which functions are in the model, (P,).
        fourth: fourth moments of the model's functions, (p,).
        events: share of rows off the most common value of each column, (D,).
        gram: means of products of the model's functions, (p, p).
        cross: means of their products with all functions, (p, P).
    """

    rows: int
    effective: float
    groups: Groups
    sums: Annotated[Floats, "k P single"]
    active: npt.NDArray[np.bool_]
    fourth: Annotated[Floats, "p"]
    events: Annotated[Floats, "D"]
    gram: Annotated[Floats, "p p half"]
    cross: Annotated[Floats, "p P single"]

    def moments(self, which: npt.NDArray[np.bool_]) -> tuple[Floats, Floats, Floats]:
        """Return means, variances and fourth moments of the model's functions, (p,) each."""
        mean = self.sums.sum(0)[which]
        variance = self.gram.diagonal() - np.square(mean)
        return mean, np.where(variance > _ROUNDED * np.square(mean), variance, 0.0), self.fourth


def kept(window: Window, active: npt.NDArray[np.bool_]) -> Kept:
    """Return the sums of a window, given the functions that are in the model."""
    n, model = len(window), window.functions(active)
    sums = window.tally(np.full(n, 1.0 / n))
    one = np.concatenate([model, np.ones((n, 1))], 1)
    cross = window.regression(one, np.full(n, 1.0 / n), every=1)[1][:-1]
    groups = window.groups._replace(order=None, starts=np.zeros(window.groups.number, dtype=np.int64), distinct=None)
    fourth = window.moments(active)[2]
    return Kept(n, window.effective, groups, sums, active, fourth, window.events, model.T @ model / n, cross)
