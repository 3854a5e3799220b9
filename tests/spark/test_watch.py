"""Many streams on Spark: each key has the Records of a monitor of its own, in tables and in streams."""

import json
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
    chosen = found[np.logical_and.reduce([found[name].isna() if v is None else found[name] == v for name, v in key.items()])]
    return [Record.from_json(line) for line in chosen.sort_values("window", kind="stable")["record"]]


def local(table, **settings):
    return list(Monitor(**settings).watch(table))


def stream_of(spark, folder, parts, schema):
    """Return a stream whose micro-batches are these tables."""
    folder.mkdir()
    for i, part in enumerate(parts):
        lines = (json.dumps(row, default=str) for row in part.to_dict("records"))
        (folder / f"{i:03d}.json").write_text("\n".join(lines), encoding="utf-8")
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
    with pytest.raises(ValueError, match="quiet='soon' is not a length of time"):
        watch(stream, "shop", order="timestamp", columns=["timestamp"], window=SIZE, quiet="soon")


def test_a_stream_has_the_records_of_its_table(spark, tmp_path):
    """Unicode, null and pairs of keys; a hot key; a bad one; late rows; a key with one row; an empty micro-batch."""
    shops = ["Köln", "東京", None, "c", "d", "hot"]
    tables = {shop: rows(shop, 30 if shop == "hot" else 4) for shop in shops}
    parts = [[] for _ in range(4)]
    for shop, table in tables.items():
        for i, piece in enumerate(np.array_split(np.arange(len(table)), [70 * len(table) // 400, 150 * len(table) // 400])):
            parts[i + (i == 2)].append(table.iloc[piece])  # the third micro-batch is of one row
    parts[2] = [rows("one", 1, 1)]
    parts[3].append(tables["d"].iloc[90:95])  # late: its window closed in the second micro-batch
    parts[3].append(tables["c"].assign(shop="bad", a=np.nan))
    batches = [pd.concat(part).sample(frac=1.0, random_state=1).assign(part=7) for part in parts]
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
    assert len(read(found, shop="hot")) == 30
    bad = found[found["shop"] == "bad"]
    assert bad["record"].map(lambda line: len(Record.from_json(line).notes) > 0).all()
    kept = read_states(spark, str(tmp_path / "checkpoint")).toPandas()
    waiting = {row["shop"]: read_trace(bytes(row["state"])).pending.waiting for _, row in kept.iterrows()}
    assert waiting["one"] == 1
    assert waiting["c"] == 0
    assert set(kept["part"]) == {7}
