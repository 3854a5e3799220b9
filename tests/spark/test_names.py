"""Names that Spark reads in its own way, and keys that never send a row."""

import time

import pandas as pd
import pytest

from driftline.monitor import read_trace
from driftline.spark import fleet, read_states, states, watch, write_once
from tests.spark.test_watch import NAMES, SIZE, local, plain, read, rows, run, stream_of, timed

ODD = {"shop": "shop.id", "part": "the pärt", "n": "n`th.one", "a": "a b.c", "b": "b`", "at": "at.time"}


def test_any_name_of_a_column_will_do(spark, tmp_path):
    table = timed(rows("x", 4), 24).assign(part=1)
    odd = table.rename(columns=ODD)
    keys, order, columns = [ODD["shop"], ODD["part"]], ODD["n"], [ODD["a"], ODD["b"]]
    wanted = local(odd[columns], window=SIZE, columns=columns)
    df = spark.createDataFrame(odd)
    found = watch(df, keys, order=order, columns=columns, window=SIZE)
    assert list(found.columns[:3]) == [*keys, "original"]
    assert plain(read(found.toPandas(), **{ODD["shop"]: "x"})) == plain(wanted)
    first = spark.createDataFrame(odd.iloc[:SIZE])
    begun = watch(df, keys, order=order, columns=columns, window=SIZE, originals=first).toPandas()
    assert begun["status"].tolist() == ["original", *["measured"] * 4]
    schema = ", ".join(
        f"`{ODD[name].replace('`', '``')}` {kind}"
        for name, kind in {"shop": "string", "a": "double", "b": "string", "n": "bigint", "at": "timestamp"}.items()
    )
    stream = stream_of(spark, tmp_path / "in", [odd.iloc[:150], odd.iloc[150:]], f"{schema}, `the pärt` int")
    settings = {"order": [ODD["at"], order], "columns": columns, "time_column": ODD["at"], "every": "6h"}
    records = watch(stream, keys, initial=states(df.limit(0), keys, **settings), quiet="9d", **settings)
    query = records.writeStream.foreachBatch(write_once(str(tmp_path / "out")))
    query = query.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()
    written = spark.read.parquet(str(tmp_path / "out")).drop("batch").cache()
    assert written.count() == 3
    (stands,) = fleet(written).keys.collect()
    assert (stands[ODD["shop"]], stands["measured"]) == ("x", 2)
    (kept,) = read_states(spark, str(tmp_path / "checkpoint")).collect()
    assert (kept[ODD["shop"]], kept[ODD["part"]]) == ("x", 1)
    assert read_trace(bytes(kept["state"])).pending.waiting == SIZE
    with pytest.raises(ValueError, match="'Window' has the name of a column of the result"):
        watch(df.withColumnRenamed("the pärt", "Window"), "Window", order=order, columns=columns, window=SIZE)
    with pytest.raises(ValueError, match=r"cannot be ordered by 'm', which holds array<int>"):
        watch(df.selectExpr("*", "array(1) m"), keys, order="m", columns=columns, window=SIZE)
    with pytest.raises(ValueError, match="'Trust' has the name of a column of the result"):
        fleet(written.withColumnRenamed("the pärt", "Trust"))


def test_a_key_that_never_sends_a_row_is_not_lost(spark):
    table = rows("s")
    df, settings = spark.createDataFrame(table), {"order": "n", "columns": NAMES, "window": SIZE}
    others = [rows(shop, 1, 300, seed=5) for shop in ("s", "dead")]
    originals = spark.createDataFrame(pd.concat([*others, rows("few", 1, 3)]))
    records = watch(df, "shop", originals=originals, **settings).cache()
    found = records.toPandas().set_index("shop")
    dead = found.loc["dead"]
    assert dead["status"].tolist() == ["original", "quiet"]
    assert dead["error"].tolist()[1] == "no rows of this key came"
    assert found.loc["few"]["status"] == "quiet"
    assert "no rows of this key came; the original cannot be used: " in found.loc["few"]["error"]
    stands = fleet(records).keys.toPandas().set_index("shop")
    assert dict(stands["outcome"]) == {"s": stands["outcome"]["s"], "dead": "quiet", "few": "quiet"}
    assert stands["outcome"]["s"] in ("normal", "unsure")
    assert (stands["trust"][["dead", "few"]] == "poor").all()
    before = states(df.unionByName(spark.createDataFrame(rows("gone"))), "shop", **settings)
    later = spark.createDataFrame(table.assign(n=table["n"] + len(table)))
    after = watch(later, "shop", initial=before, **settings).toPandas().set_index("shop")
    assert after.loc["gone"][["status", "window", "signal"]].tolist() == ["quiet", 3, "normal"]
    assert after.loc["s"]["window"].tolist() == [4, 5, 6, 7]


def test_a_fleet_names_known_keys_without_a_record(spark):
    records = watch(spark.createDataFrame(rows("s")), "shop", order="n", window=SIZE)
    known = spark.createDataFrame([("s",), ("t",), ("t",), (None,)], "shop string")
    found = fleet(records, known=known)
    stands = {row["shop"]: (row["outcome"], row["trust"], row["reason"]) for row in found.keys.collect()}
    assert set(stands) == {"s", "t", None}
    assert stands["s"][0] in ("normal", "unsure")
    assert stands["t"] == stands[None] == ("quiet", "poor", "no rows of this key came")
    assert {row["outcome"]: row["keys"] for row in found.totals.collect()}["quiet"] == 2
    with pytest.raises(ValueError, match=r"known keys lacks the column\(s\) \['shop'\]"):
        fleet(records, known=known.withColumnRenamed("shop", "store"))


def test_a_restart_with_another_order_stops_with_a_word(spark, tmp_path):
    """One of another kind; another column is as in tests/monitor/test_restarts.py."""
    table, schema = rows("s"), "shop string, a double, b string, n bigint"
    settings = {"order": "n", "columns": NAMES, "window": SIZE}
    stream = stream_of(spark, tmp_path / "in", [table.iloc[:150]], schema)
    run(watch(stream, "shop", **settings), tmp_path / "checkpoint")
    stream_of(spark, tmp_path / "more", [table.iloc[150:]], schema)
    (tmp_path / "more" / "000.json").rename(tmp_path / "in" / "001.json")
    text = spark.readStream.schema(schema).json(str(tmp_path / "in")).selectExpr("shop", "a", "b", "string(n) n")
    with pytest.raises(Exception, match=r"the rows so far were ordered by 'n' \(numbers\), not by 'n' \(text\)"):
        run(watch(text, "shop", **settings), tmp_path / "checkpoint")


@pytest.mark.slow
def test_a_fleet_that_stops_altogether_is_reported_by_the_clock(spark, tmp_path):
    stream = stream_of(spark, tmp_path / "in", [rows("s", 1, 50)], "shop string, a double, b string, n bigint")
    records = watch(stream, "shop", order="n", columns=NAMES, window=SIZE, quiet="5s")
    found, begun = [], time.monotonic()
    query = records.writeStream.foreachBatch(lambda batch, number: found.extend(batch.collect()))
    query = query.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(processingTime="1 second").start()
    while not found and query.exception() is None and time.monotonic() - begun < 300:
        time.sleep(0.5)
    query.stop()
    assert [(row["shop"], row["status"], row["rows"]) for row in found] == [("s", "quiet", 50)]
