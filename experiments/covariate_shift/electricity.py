"""The electricity table: models of a late month, weighted back to a month half a year before.

The table is cut into windows of whole weeks. A split takes a run of them: the first is the original, the rest arrive
one at a time, models are trained on the last and tested on the first. Chosen before any error was seen:

- Covariates are the demand, the time of day as a point on a circle, and whether it is a weekend. The columns of
  Victoria (price, demand, transfer) are left out: they are constant for the first year, so that later rows have no
  support there and no weight can bring them back. The date has no common support by its nature.
- Whole weeks have the same hours and weekends, so what drifts is the demand at each hour, with the season. Half a year
  is where that is furthest.
- Two targets: the log price, whose level moves with the market, and the table's own class, price up or down against
  its last 24 hours, which is relative and should move less.

Controls: the same weights permuted, and models trained on the first window itself. Two more were added once weights
were seen not to help, to ask why; the setting was not changed. Weights from both windows at hand show what the
recursion costs. Boosting on both windows together, with and without a column that says which is which, shows whether
the target given the covariates has moved too, which no weight on the covariates can undo.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.svm import SVC, SVR
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from driftline import ContinualDensityRatio, DensityRatio
from experiments.experiment import Report, Row
from experiments.methods import Floats

__all__ = [
    "FIRST",
    "METHODS",
    "MODELS",
    "PERMUTED",
    "PLAIN",
    "POOLED",
    "PRICE",
    "ROWS",
    "STATIC",
    "STRIDE",
    "TARGETS",
    "TOLD",
    "UP",
    "WEEKS",
    "WEIGHTED",
    "errors",
    "gains",
    "most_splits",
    "windows",
]

TARGETS = PRICE, UP = "log price", "class"
MODELS = ("linear", "tree", "forest", "boosting", "SVM")
PLAIN, WEIGHTED, STATIC, PERMUTED, FIRST = "unweighted", "weighted", "static", "permuted", "first"
METHODS = (PLAIN, WEIGHTED, STATIC, PERMUTED, FIRST)
POOLED, TOLD = "pooled", "told apart"
ROWS = 2 * (len(MODELS) * len(METHODS) + 2)  # of one split
WEEKS = 134  # whole ones of the table
_WEEK = 7 * 48  # half-hours
STRIDE = 10  # weeks between the starts of two splits: their first windows, and their last, do not overlap
_STEPS_A_DAY = 48
_WEEKEND = (1, 7)  # the two days of low demand


@dataclass(frozen=True)
class Window:
    """Covariates and both targets of some weeks, in time order."""

    x: pd.DataFrame
    y: dict[str, Floats]


def most_splits(weeks: int, count: int, total: int = WEEKS) -> int:
    """Number of splits of ``count`` windows of ``weeks`` weeks that a table of ``total`` weeks holds."""
    return max(0, total - weeks * count + STRIDE) // STRIDE


def windows(table: pd.DataFrame, split: int, weeks: int, count: int) -> list[Window]:
    """The ``count`` windows of a split, each of ``weeks`` weeks; splits start ten weeks apart."""
    total = len(table) // _WEEK
    if split >= (most := most_splits(weeks, count, total)):
        raise ValueError(
            f"split {split + 1}: the table's {total} weeks hold {most} splits of {count} windows of {weeks} weeks"
        )
    begin, size = STRIDE * split * _WEEK, weeks * _WEEK
    return [_window(table.iloc[begin + k * size : begin + (k + 1) * size]) for k in range(count)]


def _window(part: pd.DataFrame) -> Window:
    # period runs from 0 to 1 with both ends in a day, so a step is 1/47 of it but 1/48 of the day
    angle = 2.0 * np.pi * part["period"] * (_STEPS_A_DAY - 1) / _STEPS_A_DAY
    x = pd.DataFrame(
        {
            "demand": part["nswdemand"],
            "cos": np.cos(angle),
            "sin": np.sin(angle),
            "weekend": part["day"].isin(_WEEKEND).astype(float),
        }
    )
    # a few prices are 0; 0.01 is a sixth of the mean price
    price = np.log(part["nswprice"].to_numpy(dtype=np.float64) + 0.01)
    return Window(x, {PRICE: price, UP: (part["class"] == "UP").to_numpy(dtype=np.float64)})


def _model(target: str, kind: str, seed: int) -> Any:
    """A model by kind, with scikit-learn's settings but for limits that keep it from learning single rows by heart."""
    price = target == PRICE
    if kind == "linear":
        return Ridge() if price else LogisticRegression()
    if kind == "tree":
        tree = DecisionTreeRegressor if price else DecisionTreeClassifier
        return tree(max_depth=5, random_state=seed)
    if kind == "forest":
        forest = RandomForestRegressor if price else RandomForestClassifier
        return forest(n_estimators=50, min_samples_leaf=5, random_state=seed)
    if kind == "boosting":
        boosting = HistGradientBoostingRegressor if price else HistGradientBoostingClassifier
        return boosting(max_iter=50, random_state=seed)
    return SVR() if price else SVC()


def errors(table: pd.DataFrame, split: int, weeks: int, count: int, report: Report) -> Iterator[Row]:
    """Test errors on the first window of a split, by target, model and how the model was trained."""
    first, *later = windows(table, split, weeks, count)
    last = later[-1]
    report("weights")
    weights, diagnostics = _weights(first, later, split)
    trainings = {PLAIN: None, **weights, PERMUTED: np.random.default_rng(split).permutation(weights[WEIGHTED])}
    mean, scale = last.x.mean(), last.x.std()
    train, test = (((window.x - mean) / scale).to_numpy() for window in (last, first))
    for target in TARGETS:
        for kind in MODELS:
            report(f"{target}, {kind}")
            residuals = {
                method: first.y[target]
                - _model(target, kind, split).fit(train, last.y[target], sample_weight=weight).predict(test)
                for method, weight in trainings.items()
            }
            residuals[FIRST] = _left_out(test, first.y[target], target, kind, split)
            yield from _rows(target, kind, residuals, diagnostics)
        both = _together(train, test, last.y[target], first.y[target], target, split)
        yield from _rows(target, "boosting", both, diagnostics)


def _rows(target: str, kind: str, residuals: dict[str, Floats], diagnostics: dict[str, float]) -> Iterator[Row]:
    for method, residual in residuals.items():
        error = _error(residual, target)
        yield {"target": target, "model": kind, "method": method, "error": error, **diagnostics}


def _weights(first: Window, later: list[Window], seed: int) -> tuple[dict[str, Floats], dict[str, float]]:
    """Weights of the last window's rows back to the first, seen once or kept, and how far the two are apart."""
    last = later[-1].x
    estimator = ContinualDensityRatio(random_state=seed).fit(first.x)
    for window in later:
        estimator.partial_fit(window.x)
    drift = estimator.divergence("reverse_kl").value
    weights = {
        WEIGHTED: estimator.weights(last),
        STATIC: DensityRatio(random_state=seed).fit(first.x, last).weights(last),
    }
    ess = float(weights[WEIGHTED].sum() ** 2 / (weights[WEIGHTED] ** 2).sum() / len(last))
    return weights, {"ess": ess, "drift": drift}


def _left_out(x: Floats, y: Floats, target: str, kind: str, seed: int) -> Floats:
    """Residuals on each week of the rows, of a model trained on the other weeks."""
    week = np.arange(len(x)) // _WEEK
    residual = np.empty(len(x))
    for out in np.unique(week):
        model = _model(target, kind, seed).fit(x[week != out], y[week != out])
        residual[week == out] = y[week == out] - model.predict(x[week == out])
    return residual


def _together(
    last: Floats, first: Floats, y_last: Floats, y_first: Floats, target: str, seed: int
) -> dict[str, Floats]:
    """Residuals on left-out weeks of both windows, of boosting with and without a column that says which is which.

    Knowing the window helps only if the target given the covariates differs between them.
    """
    x, y = np.concatenate([last, first]), np.concatenate([y_last, y_first])
    which = np.repeat([0.0, 1.0], [len(last), len(first)])
    marked = np.column_stack([x, which])
    return {
        POOLED: _left_out(x, y, target, "boosting", seed),
        TOLD: _left_out(marked, y, target, "boosting", seed),
    }


def _error(residual: npt.NDArray[np.float64], target: str) -> float:
    """Root mean square for the price, share of wrong labels for the class."""
    return float(np.sqrt((residual**2).mean())) if target == PRICE else float((residual != 0).mean())


def gains(frame: pd.DataFrame, target: str, method: str = WEIGHTED, against: str = PLAIN) -> pd.DataFrame:
    """Mean over splits of one method's error less another's, and its standard error, by model."""
    wide = frame[frame.target == target].pivot_table(index=["model", "seed"], columns="method", values="error")
    grouped = (wide[method] - wide[against]).dropna().groupby("model")
    return pd.DataFrame({"mean": grouped.mean(), "se": grouped.sem().fillna(np.inf)})
