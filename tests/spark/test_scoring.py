"""Scores of Spark tables: whatever their columns are, and from wherever the model comes."""

import numpy as np
import pandas as pd
import pytest

from driftline import ContinualDensityRatio, Monitor
from driftline.spark import score

NAMES = ["whole", "exact", "flag"]


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)

    def window(t):
        columns = rng.integers(0, 9 + t, 1000), np.round(rng.normal(t, 1, 1000), 2), rng.random(1000) < 0.4
        return pd.DataFrame(dict(zip(NAMES, (column.astype(float) for column in columns), strict=True)))

    return ContinualDensityRatio(model="quadratic", random_state=0).fit(window(0)).partial_fit(window(1))


def rows():
    """Rows as Python objects: whole numbers, exact ones, flags, a word; with nulls, and a number that is none."""
    from decimal import Decimal

    found = [(i % 9, Decimal(i % 300) / 100, i % 3 == 0, f"row {i}", float(i)) for i in range(200)]
    found[5] = (None, Decimal("0.5"), True, "no number", 5.0)
    found[6] = (3, None, True, "nothing exact", 6.0)
    found[7] = (3, Decimal("0.5"), None, "no flag", 7.0)
    return found


def test_numbers_of_any_type_are_scored_and_what_is_missing_is_null(spark, fitted, tmp_path):
    schema = "whole INT, exact DECIMAL(10, 2), flag BOOLEAN, word STRING, number DOUBLE"
    table = spark.createDataFrame(rows(), schema).repartition(3)
    table = table.union(table.where("number < 0"))  # with partitions that hold nothing
    fitted.save(tmp_path / "model")
    plain = pd.DataFrame([[float("nan") if v is None else float(v) for v in row[:3]] for row in rows()], columns=NAMES)
    whole = plain.notna().all(axis=1).to_numpy()
    for model in (fitted, fitted.to_bytes(), tmp_path / "model"):
        found = score(table, model).orderBy("number").collect()
        assert [row["word"] for row in found] == [row[3] for row in rows()]
        missing = [row["log_ratio"] is None and row["weight"] is None for row in found]
        np.testing.assert_array_equal(missing, ~whole)
        values = [row["log_ratio"] for row, there in zip(found, whole, strict=True) if there]
        np.testing.assert_allclose(values, fitted.log_ratio(plain[whole]), rtol=1e-12, atol=1e-12)
        weights = [row["weight"] for row, there in zip(found, whole, strict=True) if there]
        np.testing.assert_allclose(weights, fitted.weights(plain[whole]), rtol=1e-12)
    with pytest.raises(ValueError, match=r"\['flag'\] hold \['string'\], not numbers"):
        score(table.withColumn("flag", table["word"]), fitted)
    with pytest.raises(ValueError, match="the model"):
        score(table, b"nothing that driftline wrote")


def test_a_stream_is_scored_by_the_bytes_of_a_tracker(spark, tmp_path):
    rng = np.random.default_rng(1)

    def day(t):
        kinds = rng.choice(["x", "y", None], 1000, p=[0.5, 0.4, 0.1])
        return pd.DataFrame({"amount": rng.normal(0.2 * t, 1, 1000), "kind": kinds, "number": np.arange(1000)})

    with Monitor(tmp_path / "run.driftline", window=1000, columns=["amount", "kind"]) as monitor:
        list(monitor.watch(pd.concat([day(t) for t in range(3)])))
    table = day(0)
    table.to_parquet(tmp_path / "table.parquet")
    (tmp_path / "in").mkdir()
    (tmp_path / "table.parquet").rename(tmp_path / "in" / "table.parquet")
    schema = spark.read.parquet(str(tmp_path / "in")).schema
    stream = spark.readStream.schema(schema).parquet(str(tmp_path / "in"))
    scored = score(stream, (tmp_path / "run.driftline").read_bytes())
    query = scored.writeStream.format("memory").queryName("scored").trigger(availableNow=True).start()
    query.awaitTermination()
    found = spark.table("scored").toPandas().sort_values("number")
    with Monitor.open(tmp_path / "run.driftline", readonly=True) as monitor:
        wanted = monitor.score(table[["amount", "kind"]])
    assert len(found) == 1000
    np.testing.assert_allclose(found["log_ratio"], wanted.log_ratio, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found["weight"], wanted.weights, rtol=1e-12)
