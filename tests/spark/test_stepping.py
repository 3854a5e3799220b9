"""Windows that are Spark tables: the step of all rows in one place, whatever the partitions."""

import warnings

import numpy as np
import pandas as pd
import pytest

from driftline import ContinualDensityRatio, UntrustedEstimateWarning
from driftline.federated import Coordinator, Site, SiteError
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
    (a, std_a), (b, std_b) = (est.log_ratio(rows, return_std=True) for est in (one, other))
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(std_a, std_b, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(one.weights(rows), other.weights(rows), rtol=tolerance)


def uneven(spark, rows, shares):
    """Return a table whose partitions have these numbers of rows, in this order."""
    from pyspark.sql.types import DoubleType, StructField, StructType

    parts = [part.tolist() for part in np.split(rows, np.cumsum(shares)[:-1])]
    rdd = spark.sparkContext.parallelize(parts, len(parts)).flatMap(lambda part: part)
    return spark.createDataFrame(rdd, StructType([StructField(name, DoubleType()) for name in NAMES]))


def test_a_step_is_that_of_all_rows_in_one_place(spark, monkeypatch):
    """Unequal partitions, an empty one and some with few rows, other ones in each window, joined in several stages."""
    stream, run = windows(count=2), Coordinator(NAMES)
    before = set(spark.sparkContext._jsc.getPersistentRDDs())  # of other tests
    step(uneven(spark, stream[0], [1500, 0, 30, 2400, 70]), run)
    monkeypatch.setattr("driftline.spark._stepping._FAN", 2)
    table = spark.createDataFrame(frame(stream[1])).repartition(5).selectExpr("b", "'x' AS further", "a")
    assert step(table, run) is run
    assert_same(run.estimator, at_once(stream).estimator, stream[-1])
    assert not any(doubt.code == "site_missing" for doubt in run.estimator.divergence().doubts)
    assert set(spark.sparkContext._jsc.getPersistentRDDs()) <= before  # nothing stays in the cache


def test_auto_goes_on_from_an_estimator(spark):
    stream = windows(count=2, rows=6000)
    est = ContinualDensityRatio(model="auto", keep="sums", random_state=0).fit(frame(stream[0]))
    found = step(spark.createDataFrame(frame(stream[1])).repartition(3), est)
    one = Coordinator.of(est).step([Site(frame(stream[1]), "all")])
    assert_same(found.estimator, one.estimator, stream[-1])


def test_numbers_of_any_type_are_numbers(spark):
    """Whole numbers, decimals and booleans are summed up as doubles are."""
    rng = np.random.default_rng(3)
    rows = np.stack([rng.integers(0, 9, 3000), rng.random(3000) < 0.4], 1).astype(np.float64)
    first, second = Coordinator(NAMES, "linear"), Coordinator(NAMES, "linear").begin([Site(frame(rows), "all")])
    table = spark.createDataFrame(frame(rows)).selectExpr("CAST(a AS DECIMAL(9, 2)) AS a", "b > 0.5 AS b")
    step(table.repartition(2), first)
    a, b = (run._state.tracks["original"].current.sums.moments for run in (first, second))
    np.testing.assert_allclose(a.gram, b.gram, atol=1e-12)


def test_a_partition_that_fails_is_named_and_the_state_stays(spark):
    stream = windows(count=2)
    run = at_once(stream[:1])
    before = run.estimator.to_bytes()
    broken = stream[1].copy()
    broken[3000, 1] = np.nan
    with pytest.raises(SiteError, match=r"'table'.*partition 00001: ValueError: .*partition 00001.*column 'b'|NaN"):
        step(uneven(spark, broken, [2000, 2000]), run)
    assert run.estimator.to_bytes() == before


def test_too_few_rows_for_any_partition_are_refused_with_the_remedy(spark):
    run = at_once(windows(count=1))
    with pytest.raises(SiteError, match=r"partition 00000: RowsWithheldError: it has 60 rows.*enlarge the windows"):
        step(uneven(spark, windows(rows=60)[1], [30, 30]), run)


@pytest.mark.parametrize("steps", [1, pytest.param(50, marks=pytest.mark.slow)])
def test_a_table_that_changes_between_rounds_is_noticed(spark, monkeypatch, steps):
    """Rows that are drawn anew whenever they are asked for, and no cache that would hold them.

    After a few Newton steps the fit looks 40 times for a smaller loss, in vain, and each time is a job: one is enough.
    """
    import pyarrow as pa
    from pyspark.sql.classic.dataframe import DataFrame

    def drawn(batches):
        for batch in batches:
            rows = np.random.default_rng().normal(0.2, 1.0, (2, batch.num_rows))
            yield pa.RecordBatch.from_arrays([pa.array(column) for column in rows], names=NAMES)

    run = at_once(windows(count=1))
    before = run.estimator.to_bytes()
    table = spark.range(3000).coalesce(2).mapInArrow(drawn, "a double, b double")
    monkeypatch.setattr("driftline.fitting._sums._STEPS", steps)
    monkeypatch.setattr(DataFrame, "persist", lambda self, *level: self)
    monkeypatch.setattr(DataFrame, "unpersist", lambda self, *level: self)
    with pytest.raises(SiteError, match="its gradients of two rounds contradict each other"):
        step(table, run)
    assert run.estimator.to_bytes() == before


def test_what_cannot_be_a_window_is_refused_at_once(spark):
    table, run = spark.createDataFrame(frame(windows(rows=20)[0])), Coordinator(NAMES)
    with pytest.raises(ValueError, match=r"lacks the column\(s\) \['b'\]"):
        step(table.select("a"), run)
    with pytest.raises(ValueError, match=r"\['b'\] hold \['string'\], not numbers"):
        step(table.selectExpr("a", "'x' AS b"), run)
    with pytest.raises(ValueError, match="columns= must name the 2 columns"):
        step(table, Coordinator(2))
    with pytest.raises(ValueError, match="are not those of the coordinator"):
        step(table, run, columns=["b", "a"])
    with pytest.raises(ValueError, match="foreachBatch"):
        step(spark.readStream.format("rate").load(), run)
    with pytest.raises(ValueError, match="keep='rows'"):
        step(table, ContinualDensityRatio(model="quadratic", random_state=0).fit(frame(windows()[0])))
    assert not run.begun


@pytest.mark.slow
@pytest.mark.parametrize("model", ["quadratic", "auto"])
def test_two_million_rows_are_a_step_in_one_place(spark, tmp_path, model):
    """Seed 11, five columns, for ``auto`` one of them skewed; compared with one site, and with the estimator.

    The estimator's errors rest on a draw of rows, by which ``auto`` draws log-ratios towards zero: these differ by
    about a hundredth of a standard error.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng, names, stream = np.random.default_rng(11), list("abcde"), []
    for t in range(2):
        rows = rng.normal(0.1 * t, 1.0 + 0.02 * t, (2_000_000, 5))
        rows[:, 4] = np.exp(rows[:, 4]) if model == "auto" else rows[:, 4]
        stream.append(rows)
        for i, part in enumerate(np.array_split(rows, 8)):
            (tmp_path / f"{t}").mkdir(exist_ok=True)
            pq.write_table(pa.table(dict(zip(names, part.T, strict=True))), tmp_path / f"{t}" / f"{i}.parquet")
    frames = [pd.DataFrame(rows, columns=names) for rows in stream]
    plain = ContinualDensityRatio(model=model, keep="sums", random_state=0).fit(frames[0])
    runs = [Coordinator.of(plain) if model == "auto" else Coordinator(names) for _ in range(2)]
    for t in range(model == "auto", 2):
        step(spark.read.parquet(str(tmp_path / f"{t}")), runs[0])
        one = [Site(frames[t], "all")]
        _ = runs[1].step(one) if runs[1].begun else runs[1].begin(one)
    ours, rows = runs[0].estimator, frames[1][::100]
    assert_same(ours, runs[1].estimator, rows, 1e-6)
    plain.partial_fit(frames[1])
    values, errors = plain.log_ratio(rows, return_std=True)
    off = np.abs(ours.log_ratio(rows) - values)
    assert off.max() < 1e-6 if model == "quadratic" else (off < 0.05 * errors).all()
    for kind in ("reverse_kl", "kl", "js", "hellinger"):
        assert ours.divergence(kind).value == pytest.approx(plain.divergence(kind).value, abs=1e-6), kind
