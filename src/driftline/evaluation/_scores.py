"""Readings of generative models in a table, and scores computed from it: matrices, means over tasks, forgetting."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from driftline.inference import DIVERGENCES

__all__ = [
    "KEEPING",
    "MEASURES",
    "Reading",
    "averages",
    "forgetting",
    "higher_is_better",
    "learned",
    "matrix",
    "of_measure",
]

KEEPING = ("fid", "kid", "prd_f8", "prd_f1_8", "precision", "recall", "density", "coverage")
"""Measures that need the real samples of earlier tasks to be kept."""

MEASURES = (*DIVERGENCES, *KEEPING)


class Reading(NamedTuple):
    """One measure of one task's samples after a task was learned.

    Attributes:
        after: task learned last.
        task: task whose generated samples are measured against its real ones.
        measure: name of the measure.
        value, std_error, low, high: estimate with its error and interval; nan for measures without errors.
        floor: value of the measure between two halves of the real samples.
    """

    after: str
    task: str
    measure: str
    value: float
    std_error: float
    low: float
    high: float
    floor: float


def higher_is_better(measure: str) -> bool:
    """Return True for PRD, precision, recall, density and coverage; of divergences and distances, lower is better."""
    return measure in KEEPING[2:]


def learned(table: pd.DataFrame) -> list[str]:
    """Return tasks in the order in which they were learned."""
    return list(dict.fromkeys(table["after"]))


def of_measure(table: pd.DataFrame, measure: str) -> pd.DataFrame:
    """Return the rows of one measure; an unknown one is an error unless the table is empty."""
    have = list(dict.fromkeys(table["measure"]))
    if len(table) and measure not in have:
        raise ValueError(f"measure={measure!r} has not been read: choose from {have}")
    return table[table["measure"] == measure]


def matrix(table: pd.DataFrame, measure: str, column: str = "value") -> pd.DataFrame:
    """Return values by task learned (rows) and task measured (columns); nan for tasks that had not begun.

    Arguments:
        table: readings, one row each, with the columns of :class:`Reading`.
        measure: name of the measure.
        column: "value", or another numeric column.

    >>> rows = [("a", "a", "js", 0.1), ("b", "a", "js", 0.3), ("b", "b", "js", 0.2)]
    >>> matrix(pd.DataFrame(rows, columns=["after", "task", "measure", "value"]), "js").to_numpy()
    array([[0.1, nan],
           [0.3, 0.2]])
    """
    tasks = learned(table)
    return of_measure(table, measure).pivot(index="after", columns="task", values=column).reindex(tasks)[tasks]


def averages(table: pd.DataFrame) -> pd.DataFrame:
    r"""Return means over the tasks so far: a row for each task learned and measure, in the order of the table.

    The standard error is :math:`\sqrt{\sum_k s_k^2} / K`: tasks have rows of their own, real and generated, so the
    errors of log-linear ratios are independent of each other. It says how far other samples of the same models would
    move the mean, not what another training would give. It is nan if one of the errors is.

    >>> rows = [("b", "a", "js", 0.3, 0.03, 0.01), ("b", "b", "js", 0.2, 0.04, 0.03)]
    >>> averages(pd.DataFrame(rows, columns=["after", "task", "measure", "value", "std_error", "floor"]))
      after measure  value  std_error  floor
    0     b      js   0.25      0.025   0.02
    """
    grouped = table.groupby(["after", "measure"], sort=False)
    found = grouped[["value", "floor"]].mean()
    found.insert(1, "std_error", grouped["std_error"].agg(_error_of_mean))
    return found.reset_index()


def _error_of_mean(errors: pd.Series) -> float:
    return float(np.sqrt(np.square(errors.to_numpy()).sum()) / len(errors))


def forgetting(table: pd.DataFrame, measure: str) -> pd.Series:
    """Return how much worse each task's samples have become since it was learned; a loss is always positive."""
    found = matrix(table, measure)
    sign = -1.0 if higher_is_better(measure) else 1.0
    lost = {name: sign * float(found[name].iloc[-1] - found.at[name, name]) for name in found.columns}
    return pd.Series(lost, name=measure, dtype=float)
