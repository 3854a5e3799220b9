"""Rows of the experiment in many dimensions as values over draws."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pandas as pd

from experiments.high_dimensional.estimators import ESTIMATORS
from experiments.high_dimensional.samples import REAL

__all__ = ["Table", "cases_of", "deviation", "fid_of", "made_of", "names_of", "tabled", "truth_of"]

Table = Mapping[tuple[str, str, str, str], npt.NDArray[np.float64]]
"""Values over the draws by case, estimator, measure and way."""


def tabled(frame: pd.DataFrame) -> Table:
    """Values of all units by case, estimator, measure and way."""
    keys = ["case", "estimator", "measure", "way"]
    found: Table = dict(frame.groupby(keys)["value"].apply(lambda part: np.asarray(part, dtype=np.float64)))
    return found


def names_of(table: Table) -> list[str]:
    """Estimators in the table."""
    there = {estimator for _, estimator, _, _ in table}
    return [name for name in ESTIMATORS if name in there]


def truth_of(table: Table, case: str, measure: str) -> float:
    """The divergence of a pair for which it is known; nan for others."""
    if case == REAL:
        return 0.0
    return float(table[case, "truth", measure, "truth"][0]) if case == "gaussians" else float("nan")


def fid_of(table: Table, case: str) -> float:
    """Mean FID over the draws."""
    return float(table[case, "fid", "fid", "fit"].mean())


def made_of(table: Table) -> list[str]:
    """Samples that are generated or spoilt, from the best by FID to the worst."""
    there = {case for case, _, _, _ in table} - {REAL, "gaussians"}
    return sorted(there, key=lambda case: fid_of(table, case))


def cases_of(table: Table) -> list[str]:
    """Samples to judge, then pairs of known divergence."""
    there = {case for case, _, _, _ in table}
    return [*made_of(table), *(case for case in (REAL, "gaussians") if case in there)]


def deviation(values: npt.NDArray[np.float64]) -> float:
    """Standard deviation over draws; 0 for one draw."""
    return float(values.std(ddof=1)) if len(values) > 1 else 0.0
