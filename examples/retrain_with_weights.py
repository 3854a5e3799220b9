"""Train for a population whose rows are gone: scikit-learn, with the monitor's weights as ``sample_weight``.

Customers drift, week by week: they get older, incomes rise, one region grows. The model in production has to stay good
for the customers of the first week (a contract, a regulator or a fair comparison demands it), but their rows had to
be deleted. Labels exist for the last week only. The monitor has seen every week once and kept one; its weights,
original/current, make the last week stand for the first:

    model.fit(recent, labels, sample_weight=monitor.weights(recent))

They also judge: the weighted error on held-out recent rows estimates the error on the first week's customers.

    python examples/retrain_with_weights.py --seeds 10

Weights help where the model cannot fit everywhere at once (here a straight line for a curve), so that the fit
depends on where the rows lie. A model that fits everywhere gains nothing and pays with variance: fewer rows count, as
the effective sample size says. Weights correct for drift in the columns that were watched; they do not help
where the label now depends on these columns in another way.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from driftline import Monitor

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Result:
    """Mean squared errors of one seed, on first-week customers unless stated otherwise."""

    unweighted: float
    weighted: float
    on_first_week: float  # trained on rows of the first week, which are gone in practice
    judged: float  # the weighted model's error, estimated by weights on held-out recent rows
    effective: float  # effective sample size of the weights, as a share of the rows


def customers(week: float, rows: int, rng: np.random.Generator) -> pd.DataFrame:
    """Draw customers of a week; 0 is the first."""
    south = 0.25 + 0.04 * week
    return pd.DataFrame(
        {
            "age": rng.normal(38.0 + 1.5 * week, 10.0, rows),
            "income": np.exp(rng.normal(3.4 + 0.03 * week, 0.4, rows)),
            "region": rng.choice(["north", "west", "south"], rows, p=[0.6 * (1 - south), 0.4 * (1 - south), south]),
        }
    )


def spending(frame: pd.DataFrame, rng: np.random.Generator) -> Floats:
    """Draw the label: a curve in age, the same in every week."""
    age = (frame["age"].to_numpy() - 40.0) / 10.0
    region = frame["region"].map({"north": 0.0, "west": 0.5, "south": -0.5}).to_numpy()
    out: Floats = 2.0 - age**2 + 0.02 * frame["income"].to_numpy() + region + rng.normal(0.0, 1.0, len(frame))
    return out


def linear_model() -> Pipeline:
    """Return a model that is linear, whatever the truth."""
    columns = make_column_transformer((StandardScaler(), ["age", "income"]), (OneHotEncoder(), ["region"]))
    return make_pipeline(columns, LinearRegression())


def mean_squared(model: Pipeline, frame: pd.DataFrame, labels: Floats, weights: Floats | None = None) -> float:
    """Return the mean squared error, weighted or not."""
    return float(np.average((model.predict(frame) - labels) ** 2, weights=weights))


def one_run(weeks: int, rows: int, seed: int) -> Result:
    """Watch the weeks, train on the last one in three ways, test on customers of the first."""
    rng = np.random.default_rng(seed)
    with Monitor(window=rows) as monitor:
        for record in monitor.watch(customers(week, rows, rng) for week in range(weeks)):
            last = record  # only the last one is used; a service would look at its signal
        recent, held_out = customers(weeks - 1, rows, rng), customers(weeks - 1, rows, rng)
        labels, held_out_labels = spending(recent, rng), spending(held_out, rng)
        weights, judging = monitor.weights(recent), monitor.weights(held_out)
    unweighted = linear_model().fit(recent, labels)
    weighted = linear_model().fit(recent, labels, linearregression__sample_weight=weights)
    first = customers(0, rows, rng)  # the simulation has more of them; the monitor does not
    wished = linear_model().fit(first, spending(first, rng))
    test = customers(0, 20_000, rng)
    truth = spending(test, rng)
    return Result(
        mean_squared(unweighted, test, truth),
        mean_squared(weighted, test, truth),
        mean_squared(wished, test, truth),
        mean_squared(weighted, held_out, held_out_labels, judging),
        last.effective_sample_size / last.rows,
    )


def main(arguments: Sequence[str] | None = None) -> list[Result]:
    """Run, print and return the results."""
    parser = argparse.ArgumentParser(description="Train for the first week's customers on rows of the last.")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--weeks", type=int, default=8)
    parser.add_argument("--rows", type=int, default=3000, help="customers per week")
    args = parser.parse_args(arguments)
    print("mean squared error on customers of the first week, trained on the last week's rows")
    print("seed  unweighted  weighted  (as judged by weights)  on first-week rows  effective rows")
    results = []
    for seed in range(1000, 1000 + args.seeds):
        r = one_run(args.weeks, args.rows, seed)
        results.append(r)
        print(
            f"{seed:4d}  {r.unweighted:10.3f}  {r.weighted:8.3f}  {r.judged:22.3f}  {r.on_first_week:18.3f}  "
            f"{r.effective:14.0%}"
        )
    before, after, wished = (
        np.array([getattr(r, n) for r in results]) for n in ("unweighted", "weighted", "on_first_week")
    )
    off = np.array([r.judged / r.weighted - 1.0 for r in results])
    print(
        f"\nWeights made the error smaller in {int((after < before).sum())} of {len(results)} runs: "
        f"{before.mean():.2f} to {after.mean():.2f} on average, where rows of the first week themselves would give "
        f"{wished.mean():.2f}. Judged by weights, the error is off by {off.mean():+.0%} on average, "
        f"{np.abs(off).max():.0%} at worst."
    )
    return results


if __name__ == "__main__":
    main()
