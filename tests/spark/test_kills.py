"""A query that is killed at random moments, 200 keys, a hot key: every window exactly once, with equal numbers."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from driftline import Monitor, Record
from driftline.spark import watch, write_once

ROOT = Path(__file__).parents[2]
NAMES = ["a", "b"]
KILLS = 10


def rows(shop, windows, seed=0):
    rng = np.random.default_rng([seed, *map(ord, shop)])
    many = 100 * windows
    moved = 0.05 * (np.arange(many) // 100)
    return pd.DataFrame(
        {"shop": shop, "a": rng.normal(size=many) + moved, "b": rng.choice(["x", "y"], many), "n": np.arange(many)}
    )


def check(found, tables):
    """Compare each key with a monitor of its own, and see that each window is there once."""
    assert not found.duplicated(["shop", "original", "window"]).any()
    for shop, table in tables.items():
        wanted = list(Monitor(window=100, columns=NAMES).watch(table[NAMES]))
        mine = found[found["shop"] == shop].sort_values("window")["record"].map(Record.from_json)
        assert [replace(r, seconds=0.0).to_json() for r in mine] == [replace(r, seconds=0.0).to_json() for r in wanted]


def started(folder):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    command = [sys.executable, str(Path(__file__).with_name("driver.py")), str(folder)]
    return subprocess.Popen(
        command, env=environment, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )


def killed(folder, draw):
    """Run the query, and kill it within one of the next micro-batches; return whether it was still at work."""
    begun, process = batches(folder), started(folder)
    wanted, patience = begun + draw.randint(1, 2), time.monotonic() + 300
    while batches(folder) < wanted and process.poll() is None and time.monotonic() < patience:
        time.sleep(0.02)
    time.sleep(draw.uniform(0, 1.5))
    alive = process.poll() is None
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    return alive


def batches(folder):
    """Count the micro-batches that were begun."""
    offsets = folder / "checkpoint" / "offsets"
    return len([path for path in offsets.iterdir() if path.name.isdecimal()]) if offsets.is_dir() else 0


@pytest.mark.slow
def test_a_query_that_is_killed_writes_every_window_exactly_once(has_spark, tmp_path):
    shops = ("p", "q", "r", "s")
    tables, draw = {shop: rows(shop, 18) for shop in shops}, random.Random(5)
    (tmp_path / "in").mkdir()
    for i in range(24):  # 75 rows of each key: windows end in the middle of files
        part = pd.concat([table.iloc[75 * i : 75 * (i + 1)] for table in tables.values()])
        lines = map(json.dumps, part.sample(frac=1.0, random_state=i).to_dict("records"))
        path = tmp_path / "in" / f"{i:03d}.json"
        path.write_text("\n".join(lines))
        os.utime(path, (i, i))  # Spark takes the oldest file first, and files of one millisecond in any order
    at_work = [killed(tmp_path, draw) for _ in range(KILLS)]
    assert sum(at_work) == KILLS
    process = started(tmp_path)
    _, said = process.communicate(timeout=1200)
    assert process.returncode == 0, said.decode()[-2000:]
    check(pd.read_parquet(tmp_path / "out"), tables)


@pytest.mark.slow
def test_200_keys_with_20_windows_are_those_of_monitors(spark, tmp_path):
    tables = {f"shop {i}": rows(f"shop {i}", 20) for i in range(200)}
    whole = pd.concat(tables.values())
    for i in range(4):
        part = whole[(whole["n"] >= 500 * i) & (whole["n"] < 500 * (i + 1))].sample(frac=1.0, random_state=i)
        (tmp_path / "in").mkdir(exist_ok=True)
        part.to_parquet(tmp_path / "in" / f"{i}.parquet", index=False)
    schema = "shop string, a double, b string, n bigint"
    stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
    query = watch(stream, "shop", order="n", columns=NAMES, window=100).writeStream
    query = query.foreachBatch(write_once(str(tmp_path / "out"))).option("checkpointLocation", str(tmp_path / "c"))
    query.trigger(availableNow=True).start().awaitTermination()
    check(pd.read_parquet(tmp_path / "out"), tables)


@pytest.mark.slow
def test_a_key_with_100_times_the_rows_does_not_stop_the_rest(spark, tmp_path):
    tables = {**{f"shop {i}": rows(f"shop {i}", 2) for i in range(10)}, "hot": rows("hot", 200)}
    (tmp_path / "in").mkdir()
    pd.concat(tables.values()).sample(frac=1.0, random_state=0).to_parquet(tmp_path / "in" / "0.parquet", index=False)
    stream = spark.readStream.schema("shop string, a double, b string, n bigint").parquet(str(tmp_path / "in"))
    query = watch(stream, "shop", order="n", columns=NAMES, window=100).writeStream
    query = query.foreachBatch(write_once(str(tmp_path / "out"))).option("checkpointLocation", str(tmp_path / "c"))
    query.trigger(availableNow=True).start().awaitTermination()
    check(pd.read_parquet(tmp_path / "out"), tables)
