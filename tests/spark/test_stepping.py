"""Windows that are Spark tables: the step of all rows in one place, whatever the partitions."""

import warnings

import numpy as np
import pandas as pd
import pytest

from driftline import UntrustedEstimateWarning
from driftline.federated import Coordinator, Site
from driftline.inference import DIVERGENCES
from driftline.spark import step

NAMES = ["a", "b"]


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UntrustedEstimateWarning)
        yield


def windows(seed=0, count=3, rows=4000):
    rng = np.random.default_rng(seed)
    return [rng.normal(0.2 * t, 1.0, (rows, 2)) for t in range(count)]


def frame(rows):
    return pd.DataFrame(rows, columns=NAMES)


def at_once(stream):
    run = Coordinator(NAMES).begin([Site(frame(stream[0]), "all")])
    for window in stream[1:]:
        run.step([Site(frame(window), "all")])
    return run


def assert_same(one, other, rows, tolerance=1e-8):
    fields = "value", "std_error", "low", "high", "noise", "floor"
    for kind in DIVERGENCES:
        for of in ("divergence", "step_divergence"):
            a, b = getattr(one, of)(kind), getattr(other, of)(kind)
            for name in fields:
                wanted = pytest.approx(getattr(b, name), rel=tolerance, abs=tolerance, nan_ok=True)
                assert getattr(a, name) == wanted, (of, kind, name)
            assert [doubt.code for doubt in a.doubts] == [doubt.code for doubt in b.doubts]
    for a, b in zip(one.log_ratio(rows, return_std=True), other.log_ratio(rows, return_std=True), strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(one.weights(rows), other.weights(rows), rtol=tolerance)


def uneven(spark, rows, shares):
    """Return a table whose partitions have these numbers of rows, in this order."""
    from pyspark.sql.types import DoubleType, StructField, StructType

    parts = [part.tolist() for part in np.split(rows, np.cumsum(shares)[:-1])]
    rdd = spark.sparkContext.parallelize(parts, len(parts)).flatMap(lambda part: part)
    return spark.createDataFrame(rdd, StructType([StructField(name, DoubleType()) for name in NAMES]))


def test_a_step_is_that_of_all_rows_in_one_place(spark):
    """Unequal partitions, an empty one and some with few rows, other ones in each window, in other types."""
    stream, run = windows(), Coordinator(NAMES)
    step(uneven(spark, stream[0], [1500, 0, 30, 2400, 70]), run)
    step(spark.createDataFrame(frame(stream[1])).repartition(3).selectExpr("b", "1 AS further", "a"), run)
    assert step(uneven(spark, stream[2], [3999, 1]), run) is run
    assert_same(run.estimator, at_once(stream).estimator, stream[-1])
    assert not any(doubt.code == "site_missing" for doubt in run.estimator.divergence().doubts)
    assert not spark.sparkContext._jsc.getPersistentRDDs()  # nothing stays in the cache
