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


class Groups(NamedTuple):
    """Groups of the rows of a window.

    Attributes:
        order: rows in the order of their groups; None if they are in it already.
        starts: first of the ordered rows of each group, (k,).
        places: factor of each group, (k,).
        signs: sign of each group, (k,).
        worth: number of rows that are worth one independent row.
        distinct: the first row of all copies; None if no row has a copy.
    """

    order: Integers | None
    starts: Integers
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
        """Return sums over groups (k, p) as factors (p, GROUPS): less their mean, with signs."""
        k = self.number
        out = np.zeros((GROUPS, sums.shape[1]))
        out[self.places] = (sums - sums.mean(0)) * (self.signs * math.sqrt(k / max(k - 1, 1)))[:, None]
        return out.T


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
    return Groups(order, starts, places, signs, _worth(z, order, starts), None if repeats is None else first)


def _independent(z: Floats, count: int) -> int:
    """Return the number of groups of neighbours, at most ``count``, that do not depend on each other."""
    while count > FEWEST:
        sums = np.add.reduceat(np.concatenate([z, np.square(z)], 1), np.arange(count) * len(z) // count, axis=0)
        sums = sums - sums.mean(0)
        spread = np.square(sums).sum(0)
        live = spread > 0.0
        along = (sums[1:] * sums[:-1]).sum(0)[live] / spread[live]
        # of many columns the largest correlation exceeds its noise by chance; their mean, and the largest, do not
        high = math.sqrt(2.0 * math.log(max(2, len(along))))
        if not len(along) or float(along.max()) * math.sqrt(count) < _DEPENDS + high - 1.0:
            break
        count //= 2
    return max(count, 1)


def _worth(z: Floats, order: Integers | None, starts: Integers) -> float:
    """Return by how much sums over groups scatter more than those of independent rows: the largest over columns."""
    n, k = len(z), len(starts)
    if k < 2:
        return float(n)
    values = z if order is None else z[order]
    values = values - values.mean(0)
    sums = np.add.reduceat(values, starts, axis=0)
    alone = np.square(values).sum(0)
    live = alone > 0.0
    ratio = np.square(sums).sum(0)[live] / alone[live]
    noise = 1.0 + 3.0 * math.sqrt(2.0 / k)
    most = float(ratio.max()) if len(ratio) else 1.0
    return most if most > noise else 1.0
