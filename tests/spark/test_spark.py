"""On Spark in local mode: the numbers of one process, whatever the partitions."""

import warnings

import numpy as np
import pandas as pd
import pytest

from driftline import ContinualDensityRatio, Monitor, UntrustedEstimateWarning
from driftline.federated import Coordinator, Site, SiteError
from driftline.spark import Sites, score

NAMES = ["a", "b"]


def windows(seed=0, count=3, rows=3000):
    rng = np.random.default_rng(seed)
    return [rng.normal(0.2 * t, 1.0, (rows, 2)) for t in range(count)]


def frame(rows):
    return pd.DataFrame(rows, columns=NAMES)


def test_rows_are_scored_as_in_one_process(spark):
    stream = windows()
    est = ContinualDensityRatio(model="quadratic", random_state=0).fit(frame(stream[0]))
    for window in stream[1:]:
        est.partial_fit(frame(window))
    table = frame(stream[0]).assign(number=np.arange(3000))
    found = score(spark.createDataFrame(table).repartition(3), est).toPandas().sort_values("number")
    assert list(found.columns) == [*NAMES, "number", "log_ratio", "weight"]
    np.testing.assert_allclose(found["log_ratio"], est.log_ratio(frame(stream[0])), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found["weight"], est.weights(frame(stream[0])), rtol=1e-12)
    with pytest.raises(ValueError, match=r"lacks the column\(s\) \['b'\]"):
        score(spark.createDataFrame(table[["a"]]), est)
    with pytest.raises(ValueError, match="has a column 'weight' already"):
        score(spark.createDataFrame(table.rename(columns={"number": "weight"})), est)
    bare = ContinualDensityRatio(model="quadratic", random_state=0).fit(stream[0])
    with pytest.raises(ValueError, match="must name the 2 columns"):
        score(spark.createDataFrame(table), bare)


def test_a_tracker_scores_mixed_columns_and_leaves_others_alone(spark, tmp_path):
    rng = np.random.default_rng(1)

    def day(t):
        return pd.DataFrame({"amount": rng.normal(0.2 * t, 1, 1000), "kind": rng.choice(["x", "y"], 1000)})

    with Monitor(tmp_path / "run.driftline", window=1000) as monitor:
        list(monitor.watch(pd.concat([day(t) for t in range(4)])))
    rows = day(0)
    table = rows.assign(number=np.arange(1000))
    found = score(spark.createDataFrame(table).repartition(3), tmp_path / "run.driftline").toPandas()
    found = found.sort_values("number")
    with Monitor.open(tmp_path / "run.driftline", readonly=True) as monitor:
        wanted = monitor.score(rows)
    np.testing.assert_allclose(found["log_ratio"], wanted.log_ratio, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found["weight"], wanted.weights, rtol=1e-12)
    with pytest.raises(ValueError, match="original 'other' is unknown"):
        score(spark.createDataFrame(table), tmp_path / "run.driftline", "other")


def test_partitions_are_sites(spark):
    """A step whose rows lie in partitions equals that of all rows at one site to 1e-8."""
    stream = windows(rows=4000)
    run, one = Coordinator(NAMES), Coordinator(NAMES)
    for t, window in enumerate(stream):
        sites = Sites(spark.createDataFrame(frame(window)).repartition(3), NAMES)
        for each, given in ((run, sites), (one, [Site(frame(window), "all")])):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UntrustedEstimateWarning)
                (each.step if t else each.begin)(given)
        sites.close()
    a, b = run.estimator.divergence(), one.estimator.divergence()
    for name in ("value", "std_error", "low", "high", "floor"):
        assert getattr(a, name) == pytest.approx(getattr(b, name), rel=1e-8, abs=1e-8)
    np.testing.assert_allclose(
        run.estimator.log_ratio(stream[-1]), one.estimator.log_ratio(stream[-1]), rtol=1e-8, atol=1e-8
    )
    with pytest.raises(ValueError, match=r"lacks the column\(s\) \['c'\]"):
        Sites(spark.createDataFrame(frame(stream[0])), ["a", "c"])


def test_partitions_with_few_rows_are_an_error_that_says_so(spark):
    sites = Sites(spark.createDataFrame(frame(windows(rows=60)[0])).repartition(3), NAMES)
    before = Coordinator(NAMES)
    with pytest.raises(SiteError, match=r"partition 0000.* sums of fewer rows would reveal them"):
        before.begin(sites)
    with pytest.raises(ValueError, match="call begin"):
        _ = before.estimator
