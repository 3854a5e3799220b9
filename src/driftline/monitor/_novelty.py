r"""Novelty: values an original did not have at all, which are certain drift whatever the noise of the rest.

An encoded column that was constant over the n rows of an original (no missing value, no other category, one number
only) had other values with a probability of at most :math:`u`, where :math:`e^{-nu}` is as small as the alarm promises.
If a share s of the current rows has other values, no divergence can be less than that between the two probabilities s
and u: processing the rows, such as looking at one column, cannot increase it. The lower end of s counts, because s may
rest on few rows.

The order of rows does not matter: a block of new values at the end of a window is as new as the same rows shuffled, so
nothing is taken off for rows that depend on their neighbours. Only copies count for what they are worth.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from driftline.fitting import find_repeats
from driftline.inference import terms

__all__ = ["Novelty", "constants", "new_rows", "novelty"]

Floats = npt.NDArray[np.float64]


class Novelty(NamedTuple):
    """An encoded column with values the original did not have.

    Attributes:
        column: name of the encoded column.
        share: share of rows with such values.
        least: the least divergence that this takes.
        nats: the same of KL(current‖original).
    """

    column: str
    share: float
    least: float
    nats: float


def constants(names: Sequence[str], values: Floats) -> dict[str, float]:
    """Return the encoded columns with one value in all rows (n, D), and that value."""
    flat = (values == values[0]).all(0)
    return {name: float(values[0, j]) for j, name in enumerate(names) if flat[j]}


def new_rows(constant: Mapping[str, float], names: Sequence[str], values: Floats) -> npt.NDArray[np.bool_]:
    """Say of each row (m, D) whether some constant column of the original has another value there, (m,).

    >>> new_rows({"a": 0.0}, "ab", np.array([[0.0, 1.0], [2.0, 0.0], [0.0, 3.0]])).tolist()
    [False, True, False]
    """
    at = [j for j, name in enumerate(names) if name in constant]
    found: npt.NDArray[np.bool_] = (values[:, at] != [constant[names[j]] for j in at]).any(1)
    return found


def novelty(
    constant: Mapping[str, float],
    rows: int,
    names: Sequence[str],
    values: Floats,
    *,
    kind: str,
    run_length: float,
) -> Novelty | None:
    """Return the constant column with the most rows of other values; None if these are too few to be sure.

    Arguments:
        constant: constant encoded columns of the original, and their values.
        rows: number of rows of the original.
        names, values: encoded columns of the current window, (m, D).
        kind: divergence to bound.
        run_length: windows between false alarms.

    >>> then, now = np.zeros((500, 2)), np.random.default_rng(0).normal(size=(500, 2)) * [1, 0]
    >>> found = novelty(constants("ab", then), 500, "ab", now, kind="reverse_kl", run_length=1000)
    >>> found.column, found.share, round(found.least, 1)
    ('a', 1.0, 4.2)
    """
    at = [j for j, name in enumerate(names) if name in constant]
    if not at:
        return None
    shares = (values[:, at] != [constant[names[j]] for j in at]).mean(0)
    best = int(shares.argmax())
    share = float(shares[best])
    if share == 0.0:
        return None
    repeats = find_repeats(values)
    copies = 1.0 if repeats is None else repeats.worth  # the original's rows, which are gone, repeat as these do
    # upper end of the probability before, at the alarm's rate for all columns together; lower end of the one now
    before = min(math.log(run_length * len(at)) * copies / rows, 1.0)
    now = share - 3.0 * math.sqrt(share * (1.0 - share) * copies / len(values))
    if now <= before:
        return None
    now = min(now, 1.0 - 1e-12)
    chances = np.array([now, 1.0 - now])
    log_ratios = np.log([before, max(1.0 - before, 1e-300)]) - np.log(chances)
    least, nats = (float(chances @ terms(log_ratios, each)) for each in (kind, "reverse_kl"))
    return Novelty(names[at[best]], share, least, nats)
