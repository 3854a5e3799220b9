r"""Groups of rows that count together, and sums over them: all errors of the engine come from these.

A statistic of a window is a sum over its rows. Neighbouring rows form at most :data:`GROUPS` groups, copies of a row
are in one group, and groups get longer until neighbours among them no longer depend on each other. The sums over
groups, each with a random sign, are factors L of the statistic's covariance, :math:`LL^\top`. A window's groups keep
their signs in both of its roles, as denominator and then as numerator, so that what cancels there cancels in the
factors. Factors of several windows add up: the signs make their products vanish on average.

The covariance has the relative error of one with as many degrees of freedom as there are groups.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from driftline._inputs import Floats
from driftline.fitting import Integers, find_repeats

__all__ = ["FEWEST", "GROUPS", "Groups", "group_rows"]

GROUPS = 100
FEWEST = 20
"""Groups; with fewer, errors cannot be known."""
_DEPENDS = 3.0  # standard errors of a correlation of neighbouring groups
_ENDED = 0.25  # mean correlation of neighbouring groups below which dependence has ended


class Groups(NamedTuple):
    """Groups of the rows of a window.

    Attributes:
        order: rows in the order of their groups; None if they are in it already.
        starts: first of the ordered rows of each group, (k,).
        sizes: number of rows of each group, (k,).
        places: factor of each group, (k,).
        signs: sign of each group, (k,).
        worth: number of rows that are worth one independent row.
        distinct: the first row of all copies; None if no row has a copy.
    """

    order: Integers | None
    starts: Integers
    sizes: Integers
    places: Integers
    signs: Floats
    worth: float
    distinct: Integers | None = None

    @property
    def number(self) -> int:
        """Number of groups."""
        return len(self.starts)

    def sums(self, values: Floats) -> Floats:
        """Return sums over groups of values (n,) or (n, p); (k,) or (k, p)."""
        ordered = values if self.order is None else values[self.order]
        return np.asarray(np.add.reduceat(ordered, self.starts, axis=0))

    def placed(self, sums: Floats) -> Floats:
        """Return sums over groups (k, p) as factors (p, GROUPS): less what their rows have on average, with signs."""
        k, share = self.number, self.sizes[:, None] / self.sizes.sum()
        out = np.zeros((GROUPS, sums.shape[1]))
        out[self.places] = (sums - share * sums.sum(0)) * (self.signs * math.sqrt(k / max(k - 1, 1)))[:, None]
        return out.T

    def own(self, rows: Floats, factors: Floats) -> Floats:
        """Return rows (n, p) times the error that their group adds, by the window's factors (p, GROUPS); (n,)."""
        number = np.empty(len(rows), dtype=np.int64)
        order = np.arange(len(rows)) if self.order is None else self.order
        number[order] = np.searchsorted(self.starts, np.arange(len(rows)), side="right") - 1
        return np.asarray(np.einsum("ij,ij->i", rows, (factors[:, self.places] * self.signs).T[number]))


def group_rows(window: Floats, z: Floats, rng: np.random.Generator) -> Groups:
    """Group the rows of a window.

    Arguments:
        window: raw rows (n, D), which show copies.
        z: the same in the coordinates of the model, whose columns and squares show dependence.
        rng: random numbers of this window, the same in both of its roles.
    """
    n, repeats = len(z), find_repeats(window)
    first = np.arange(n) if repeats is None else repeats.first
    distinct = len(first)
    count = _independent(z[first], min(GROUPS, distinct))
    of = np.arange(distinct) * count // distinct
    order = None
    if repeats is not None:
        own = of[repeats.place]
        order = np.argsort(own, kind="stable")
        of = own[order]
    starts = np.flatnonzero(np.diff(of, prepend=-1))
    places = rng.permutation(GROUPS)[: len(starts)]
    signs = rng.choice([-1.0, 1.0], len(starts))
    sizes = np.diff(starts, append=n)
    return Groups(order, starts, sizes, places, signs, _worth(z, order, starts), None if repeats is None else first)


def _independent(z: Floats, count: int) -> int:
    """Return the number of groups of neighbours, at most ``count``, that do not depend on each other.

    Whether there is dependence is a test of all columns and squares; where it ends is judged by those that show it.
    """
    values = np.concatenate([z, np.square(z)], 1)
    values = values[:, np.ptp(values, axis=0) > 0.0]
    along = _alike(values, count) if count > FEWEST and values.shape[1] else np.zeros(0)
    # the largest of many correlations exceeds the noise of one
    most = _DEPENDS + math.sqrt(2.0 * math.log(max(2, len(along)))) - 1.0
    depends = along * math.sqrt(count) > most
    while depends.any() and count > FEWEST and along[depends].mean() > _ENDED:
        count //= 2
        along = _alike(values, count)
    return max(count, 1)


def _alike(values: Floats, count: int) -> Floats:
    """Return the correlation of neighbouring groups in each column of values (n, k), (k,)."""
    sums = np.add.reduceat(values, np.arange(count) * len(values) // count, axis=0)
    sums = sums - sums.mean(0)
    return np.asarray((sums[1:] * sums[:-1]).sum(0) / np.maximum(np.square(sums).sum(0), 1e-300))


def _worth(z: Floats, order: Integers | None, starts: Integers) -> float:
    """Return by how much sums over groups scatter more than those of independent rows: the largest over columns."""
    n, k = len(z), len(starts)
    if k < 2:
        return float(n)
    values = z if order is None else z[order]
    values = values[:, np.ptp(values, axis=0) > 0.0]
    values = values - values.mean(0)
    sums = np.add.reduceat(values, starts, axis=0)
    alone = np.square(values).sum(0)
    ratio = np.square(sums).sum(0) / alone
    noise = 1.0 + 3.0 * math.sqrt(2.0 / k)
    most = float(ratio.max()) if len(ratio) else 1.0
    return most if most > noise else 1.0
