"""Many streams on Spark: each key has the Records of a monitor of its own, in tables and in streams."""

import json
import os
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from driftline import Monitor, Record
from driftline.monitor import read_trace
from driftline.spark import read_states, states, watch

NAMES = ["a", "b"]
SIZE = 100


def rows(shop, windows=4, size=SIZE, seed=0, shift=0.0):
    """Return rows of one key: a number, a category, and the order."""
    rng = np.random.default_rng([seed, windows, *map(ord, str(shop))])
    many = windows * size
    moved = shift * (np.arange(many) // size)
    return pd.DataFrame(
        {
            "shop": shop,
            "a": rng.normal(size=many) + moved,
            "b": rng.choice(["x", "y", "z"], many),
            "n": np.arange(many),
        }
    )


def plain(records):
    return [replace(record, seconds=0.0).to_json() for record in records]


def read(found, **key):
    """Return the Records of a key, in the order of their windows."""
    for name, value in key.items():
        found = found[found[name].isna() if value is None else found[name] == value]
    return [Record.from_json(line) for line in found.sort_values("window", kind="stable")["record"]]


def local(table, **settings):
    return list(Monitor(**settings).watch(table))


def stream_of(spark, folder, parts, schema):
    """Return a stream whose micro-batches are these tables."""
    folder.mkdir()
    for i, part in enumerate(parts):
        lines = (json.dumps(row, default=str) for row in part.to_dict("records"))
        path = folder / f"{i:03d}.json"
        path.write_text("\n".join(lines), encoding="utf-8")
        os.utime(path, (i, i))  # Spark takes the oldest file first, and files of one millisecond in any order
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).json(str(folder))


def run(stream, checkpoint):
    """Run a query to the end of its files; return all rows, with the number of their micro-batch."""
    found = []

    def keep(batch, number):
        found.append(batch.toPandas().assign(batch=number))

    query = stream.writeStream.foreachBatch(keep).option("checkpointLocation", str(checkpoint))
    query.trigger(availableNow=True).start().awaitTermination()
    return pd.concat([part for part in found if len(part)], ignore_index=True)


def test_every_key_of_a_table_is_watched_as_by_a_monitor_of_its_own(spark):
    table = pd.concat([*(rows(shop, shift=0.5 * (shop == 3)) for shop in range(4)), rows(9, 1, 5)])
    df = spark.createDataFrame(table.sample(frac=1.0, random_state=0))
    found = watch(df, "shop", order="n", window=SIZE).toPandas()
    assert list(found.columns) == [
        *("shop", "original", "window", "status", "rows", "late", "signal", "drift", "low", "high", "record", "error")
    ]
    for shop in range(4):
        wanted = local(table[table["shop"] == shop][NAMES], window=SIZE, columns=NAMES)
        assert plain(read(found, shop=shop)) == plain(wanted)
    assert (found[found["shop"] == 3]["signal"] == "alarm").any()
    (bad,) = found[found["shop"] == 9].to_dict("records")
    assert (bad["status"], bad["rows"], bad["signal"]) == ("skipped", 5, "warning")
    assert "5 rows are too few for a first window of 100" in bad["error"]
    assert Record.from_json(bad["record"]).doubts[0].code == "not_measured"
    assert found[found["shop"] != 9]["error"].isna().all()


def test_settings_of_many_streams_are_checked_at_once(spark):
    table = spark.createDataFrame(rows(1))
    with pytest.raises(ValueError, match=r"lacks the column\(s\) \['when'\]"):
        watch(table, "shop", order="when", window=SIZE)
    with pytest.raises(ValueError, match="order="):
        watch(table, "shop", order=[], window=SIZE)
    with pytest.raises((ValueError, TypeError)):
        watch(table, "shop", order="n", window=-1)
    with pytest.raises(ValueError, match="cannot be watched"):
        watch(table, "shop", order="n", columns=["a", "shop"], window=SIZE)
    with pytest.raises(ValueError, match="rename it"):
        watch(table.withColumnRenamed("shop", "window"), "window", order="n", window=SIZE)
    with pytest.raises(ValueError, match="exclude each other"):
        watch(table, "shop", order="n", window=SIZE, initial=table, originals=table)
    with pytest.raises(ValueError, match=r"lacks the column\(s\) \['state'\]"):
        watch(table, "shop", order="n", window=SIZE, initial=table)
    stream = spark.readStream.format("rate").load().withColumnRenamed("value", "shop")
    with pytest.raises(ValueError, match="a stream has no end"):
        watch(stream, "shop", order="timestamp", columns=["timestamp"], window=SIZE, flush=True)
    with pytest.raises(ValueError, match="'shop' is date: cast it"):
        watch(stream.selectExpr("current_date() shop", "timestamp"), "shop", order="timestamp", window=SIZE)
    by_day = stream.selectExpr("shop", "timestamp", "cast(timestamp as date) day", "shop a")
    with pytest.raises(ValueError, match="must be timestamps, 'day' is date"):
        watch(by_day, "shop", order="timestamp", time_column="day", every="1d")
    with pytest.raises(ValueError, match="quiet='soon' is not a length of time"):
        watch(stream, "shop", order="timestamp", columns=["timestamp"], window=SIZE, quiet="soon")


def test_a_stream_has_the_records_of_its_table(spark, tmp_path):
    """Unicode, null and pairs of keys; a hot key; a bad one; late rows; a key with one row; an empty micro-batch."""
    shops = ["Köln", "東京", None, "c", "d", "hot"]
    tables = {shop: rows(shop, 12 if shop == "hot" else 4) for shop in shops}
    parts = [[] for _ in range(4)]
    for table in tables.values():
        cuts = [70 * len(table) // 400, 150 * len(table) // 400]
        for i, piece in enumerate(np.array_split(np.arange(len(table)), cuts)):
            parts[i + (i == 2)].append(table.iloc[piece])  # the third micro-batch is of one row
    parts[2] = [rows("one", 1, 1)]
    parts[3].append(tables["d"].iloc[90:95])  # late: its window closed in the second micro-batch
    parts[3].append(tables["c"].assign(shop="bad", a=np.nan))
    batches = [pd.concat(part).sample(frac=1.0, random_state=1).assign(part=7) for part in parts]
    batches.insert(1, batches[0].iloc[:0])
    schema = "shop string, part int, a double, b string, n bigint"
    stream = stream_of(spark, tmp_path / "in", batches, schema)
    df = watch(stream, ["shop", "part"], order="n", columns=NAMES, window=SIZE)
    found = run(df, tmp_path / "checkpoint")
    assert not found.duplicated(["shop", "part", "original", "window"]).any()
    for shop, table in tables.items():
        wanted = local(table[NAMES], window=SIZE, columns=NAMES)
        mine = read(found, shop=shop, part=7)
        if shop == "d":
            assert [record.late_rows for record in mine] == [0, 5, 0, 0]
            assert [r.divergences for r in mine] == [r.divergences for r in wanted]
        else:
            assert plain(mine) == plain(wanted)
    assert len(read(found, shop="hot")) == 12
    bad = found[found["shop"] == "bad"].sort_values("window")
    assert bad[["window", "status", "signal"]].values.tolist() == [[t, "skipped", "warning"] for t in range(4)]
    assert bad["error"].str.contains("column 'a' is named, but").all()
    kept = read_states(spark, str(tmp_path / "checkpoint")).toPandas()
    waiting = {row["shop"]: read_trace(bytes(row["state"])).pending.waiting for _, row in kept.iterrows()}
    assert waiting["one"] == 1
    assert waiting["c"] == 0
    assert set(kept["part"]) == {7}


def timed(table, hours, start=0):
    """Spread rows evenly over hours."""
    begin = pd.Timestamp("2024-03-30", tz="UTC") + pd.Timedelta(hours=start)  # a night in which clocks are changed
    at = pd.DatetimeIndex([begin + i * pd.Timedelta(hours=hours) / len(table) for i in range(len(table))])
    return table.assign(at=at.strftime("%Y-%m-%dT%H:%M:%S.%fZ"))


def test_windows_by_time_close_without_rows_and_quiet_keys_are_reported(spark, tmp_path):
    x, y = timed(rows("x", 16), 96), timed(rows("y", 1), 6)
    late, back = y.iloc[10:13], timed(rows("y", 2, seed=1), 12, start=60)
    parts = [x[x["n"] // SIZE == t] for t in range(16)]
    parts[0], parts[3], parts[11] = pd.concat([parts[0], y]), pd.concat([parts[3], late]), pd.concat([parts[11], back])
    stream = stream_of(spark, tmp_path / "in", parts, "shop string, a double, b string, n bigint, at timestamp")
    settings = {"columns": NAMES, "time_column": "at", "every": "6h"}
    found = run(watch(stream, "shop", order=["at", "n"], quiet="1d", **settings), tmp_path / "checkpoint")
    silences = found[found["status"] == "quiet"].sort_values("batch")
    assert silences[["shop", "window", "late"]].values.tolist() == [["y", 0, 3], ["y", 3, 0]]
    assert silences["error"].tolist() == ["no rows since 2024-03-30T05:56:24Z", "no rows since 2024-04-01T23:56:24Z"]
    found = found[found["status"] != "quiet"]
    given = {"time_column": "at", "every": "6h", "columns": [*NAMES, "at"]}
    wanted = local(x[[*NAMES, "at"]].assign(at=pd.to_datetime(x["at"])), **given)
    assert plain(read(found, shop="x"))[:15] == plain(wanted)[:15]
    mine = read(found, shop="y")
    assert [(r.window, r.rows, r.late_rows) for r in mine] == [(0, 100, 0), (1, 0, 3), (2, 100, 0), (3, 100, 0)]
    alone = pd.concat([y, back])
    wanted = list(Monitor(**given).watch(alone[[*NAMES, "at"]].assign(at=pd.to_datetime(alone["at"])), flush=True))
    assert [r.divergences for r in mine] == [r.divergences for r in wanted]


def test_a_stream_goes_on_from_states_and_keeps_no_rows(spark, tmp_path):
    tables = [rows(shop, 4, 300) for shop in ("p", "q")]
    settings = {"columns": NAMES, "window": 300, "keep": "sums", "model": "quadratic"}
    table = pd.concat(tables)
    before = states(spark.createDataFrame(table[table["n"] < 650]), "shop", order="n", **settings)
    after = [table[(table["n"] >= 650) & (table["n"] < 800)], table[table["n"] >= 800], rows("new", 1, 30)]
    stream = stream_of(spark, tmp_path / "in", after, "shop string, a double, b string, n bigint")
    found = run(watch(stream, "shop", order="n", initial=before, **settings), tmp_path / "checkpoint")
    for each in tables:
        wanted = local(each[NAMES], **settings)
        assert plain(read(found, shop=each["shop"].iloc[0])) == plain(wanted[2:])
    kept = read_states(spark, str(tmp_path / "checkpoint")).toPandas().set_index("shop")["state"].map(bytes)
    assert sorted(kept.index) == ["new", "p", "q"]
    values = [np.float64(value).tobytes() for value in table["a"]]
    assert not any(value in kept["p"] or value in kept["q"] for value in values)
    open_rows = [np.float64(value).tobytes() for value in rows("new", 1, 30)["a"]]
    assert all(value in kept["new"] for value in open_rows)


def test_keys_of_a_table_go_on_from_states_and_begin_from_originals(spark):
    table, first = rows("s"), rows("s", 1, 300, seed=5)
    df = spark.createDataFrame(table)
    settings = {"columns": NAMES, "window": SIZE}
    begun = watch(df, "shop", order="n", originals=spark.createDataFrame(first), **settings).toPandas()
    wanted = list(Monitor(original=first[NAMES], **settings).watch(table[NAMES]))
    assert plain(read(begun, shop="s")) == plain(wanted)
    other = df.unionByName(spark.createDataFrame(table.assign(shop="s ")))
    both = watch(other, "shop", order="n", originals=spark.createDataFrame(first), **settings).toPandas()
    assert plain(read(both, shop="s")) == plain(wanted)
    lacking = read(both, shop="s ")
    assert {record.status for record in lacking} == {"skipped"}
    assert all("has no rows of this key" in str(record.doubts[0]) for record in lacking)
    before = states(df.where("n < 250"), "shop", order="n", **settings)
    further = watch(df.where("n >= 250"), "shop", order="n", initial=before, flush=True, **settings).toPandas()
    assert plain(read(further, shop="s")) == plain(local(table[NAMES], **settings)[2:])


def test_columns_of_any_type_are_those_of_a_local_table(spark):
    table = rows(1.5, 3).assign(at=pd.Timestamp("2024-03-31", tz="UTC") + pd.to_timedelta(np.arange(300), "min"))
    df = spark.createDataFrame(table).selectExpr(
        *("shop", "n", "at", "b", "cast(a as decimal(12, 4)) price", "a > 0 yes", "cast(null as double) nothing"),
        *("if(n % 7 = 0, null, a) gaps", "cast(at as timestamp_ntz) plain"),
    )
    settings = {"datetime": ["hour"], "window": SIZE}
    found = watch(df, "shop", order="n", **settings).toPandas()
    wanted = list(Monitor(**settings).watch(df.orderBy("n").drop("shop", "n").toArrow()))
    assert any("'nothing'" in note for note in wanted[0].notes)
    assert plain(read(found, shop=1.5)) == plain(wanted)
    by_time = {"columns": ["price"], "time_column": "at", "every": "1h", "lateness": "30min"}
    found = watch(df, "shop", order=["at", "n"], **by_time).toPandas()
    wanted = list(
        Monitor(**{**by_time, "columns": ["price", "at"]}).watch(df.orderBy("n").select("price", "at").toArrow())
    )
    assert plain(read(found, shop=1.5)) == plain(wanted)
    assert len(wanted) == 4


def test_workers_have_no_pytorch(spark):
    watch(spark.createDataFrame(rows("w")), "shop", order="n", window=SIZE).collect()

    def loaded(batches):
        import sys

        import pyarrow as pa

        for _ in batches:
            names = [name for name in ("torch", "driftline.monitor._tracing") if name in sys.modules]
            yield pa.RecordBatch.from_arrays([pa.array([",".join(names)])], names=["names"])

    found = {row["names"] for row in spark.range(4).repartition(2).mapInArrow(loaded, "names string").collect()}
    assert "driftline.monitor._tracing" in found  # the worker that has watched
    assert not any("torch" in names for names in found)
