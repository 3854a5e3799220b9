r"""Values an original did not have at all: drift that is certain, whatever the noise of the rest.

An encoded column that was constant over the n rows of an original (no missing value, no other category, one number
only) had other values with a chance of at most :math:`u`, :math:`e^{-nu}` being as small as the alarm promises. If a
share s of the current rows has them, no divergence can be less than that between the two chances s and u: whatever is
done to the rows, such as looking at one column, cannot make it larger. Where s rests on few rows, its lower end counts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from driftline.inference import terms

__all__ = ["Novelty", "constants", "novelty"]

Floats = npt.NDArray[np.float64]


class Novelty(NamedTuple):
    """A column with values that were not there, the share of rows that have them, and the divergence at least."""

    column: str
    share: float
    least: float

    def __str__(self) -> str:
        return (
            f"{self.column}: {self.share:.0%} of the rows are what no row was at first, at least {self.least:.3g} nats"
        )


def constants(names: Sequence[str], values: Floats) -> dict[str, float]:
    """Encoded columns with one value in all rows (n, D), and that value."""
    flat = (values == values[0]).all(0)
    return {name: float(values[0, j]) for j, name in enumerate(names) if flat[j]}


def novelty(
    constant: Mapping[str, float],
    rows: int,
    names: Sequence[str],
    values: Floats,
    *,
    kind: str,
    run_length: float,
    lag: int = 0,
) -> Novelty | None:
    """The column that says most, or None if no constant column has other values.

    Arguments:
        constant: of the original, and its ``rows``.
        names, values: of the current window's encoded columns, (m, D).
        kind: of divergence.
        run_length: windows between false alarms.
        lag: over how many rows neighbours depend on each other: so many count as one.

    >>> then, now = np.zeros((500, 2)), np.eye(2)[np.zeros(500, int)]
    >>> found = novelty(constants("ab", then), 500, "ab", now, kind="reverse_kl", run_length=1000)
    >>> found.column, found.share, round(found.least, 1)
    ('a', 1.0, 4.2)
    """
    at = [j for j, name in enumerate(names) if name in constant]
    if not at:
        return None
    shares = (values[:, at] != [constant[names[j]] for j in at]).mean(0)
    best = int(shares.argmax())
    share, worth = float(shares[best]), len(values) / (1.0 + lag)
    # of the chance before, the upper end at the alarm's chance for any of the columns; of the one now, the lower end
    before = min(math.log(run_length * len(at)) * (1.0 + lag) / rows, 1.0)
    now = share - 3.0 * math.sqrt(share * (1.0 - share) / worth)
    if now <= before:
        return None
    now = min(now, 1.0 - 1e-12)
    chances = np.array([now, 1.0 - now])
    log_ratios = np.log([before, max(1.0 - before, 1e-300)]) - np.log(chances)
    return Novelty(names[at[best]], share, float(chances @ terms(log_ratios, kind)))
