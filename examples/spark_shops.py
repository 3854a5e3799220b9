"""Watch a fleet on Spark: 200 shops, each a stream of its own, and one table of how all of them stand.

Orders are files in a folder, one for each week, and Spark watches every shop by itself. Most shops stay as they are; in
some, one column moves, at once or slowly; a few cannot be measured, or not well. The fleet is summed up in the end:
which shops alarm, which columns move across shops, and of which shops nothing is known. With ``--stream``, the files
are a stream: a week comes in each micro-batch, and the state of a shop waits in Spark's checkpoint for the next.

    python examples/spark_shops.py --shops 200

It needs PySpark (pip install 'driftline[spark]') and Java 17. Here Spark runs on two threads of this machine; on a
cluster, nothing but ``session`` would differ.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.status import Status
from rich.table import Table
from rich.text import Text

from driftline.inference import Estimate
from driftline.spark import Fleet, fleet, watch, write_once
from driftline.terminal import reading

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WEEKS, ORDERS, BREAK = 9, 300, 4  # the last week stays open
TOLERANCE = 0.1
COLUMNS = ["amount", "items", "payment", "device"]
MONDAY = np.datetime64("2025-01-06", "s")
MOVES = {"amount": 0.05, "device": 0.04, "payment": 0.03, "items": 0.02}  # share of the shops in which it moves
SIGNS = {"alarm": "bold red", "warning": "yellow", "unsure": "yellow", "blind": "yellow", "waiting": "yellow"}
WORDS = {
    "unsure": "in doubt",
    "blind": "undecided",
    "waiting": "not compared",
    "quiet": "gone quiet",
    "broken": "not measured",
}
TROUBLE = ("opened", "opened", "few", "closed", "copies")
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


@dataclass(frozen=True)
class Shop:
    """A shop: the column that moves in it, if one does, and what is wrong with its orders, if anything is."""

    name: str
    moves: str = ""
    trouble: str = ""


def shops(count: int) -> list[Shop]:
    """Return the shops: drifting ones are scattered among the others, the last ones are in trouble."""
    found = [Shop(f"shop-{number:03d}") for number in range(count)]
    place = 3
    for column, share in MOVES.items():
        for _ in range(max(1, round(share * count))):
            found[place % count] = Shop(found[place % count].name, moves=column)
            place += 7
    for place, trouble in zip(range(count - len(TROUBLE), count), TROUBLE, strict=True):
        found[place] = Shop(found[place].name, trouble=trouble)
    return found


def orders(shop: Shop, week: int, rng: np.random.Generator) -> dict[str, Any]:
    """Return the orders of a shop in a week, column by column."""
    n = 4 if shop.trouble == "few" else int(rng.poisson(ORDERS))
    if (shop.trouble == "opened" and week < WEEKS - 2) or (shop.trouble == "closed" and week > BREAK):
        n = 0
    sudden, slow = float(week >= BREAK), week / (WEEKS - 1)
    payment = np.array([0.62, 0.24, 0.14, 0.0]) * (1.0 - 0.2 * sudden * (shop.moves == "payment"))
    payment[3] = 1.0 - payment.sum()
    mobile = 0.5 + 0.37 * slow * (shop.moves == "device")
    drawn = {
        "amount": np.round(rng.gamma(2.0, 30.0 * (2.0 if sudden and shop.moves == "amount" else 1.0), n), 2),
        "items": 1 + rng.poisson(1.4 + 1.6 * slow * (shop.moves == "items"), n),
        "payment": rng.choice(["card", "invoice", "transfer", "wallet"], n, p=payment),
        "device": rng.choice(["mobile", "desktop", "tablet"], n, p=[mobile, 0.9 - mobile, 0.1]),
    }
    if shop.trouble == "copies":  # each order was written six times
        drawn = {name: np.repeat(values[: -(-n // 6)], 6)[:n] for name, values in drawn.items()}
    at = MONDAY + np.timedelta64(7 * week, "D") + np.sort(rng.integers(0, 7 * 86_400, n)).astype("timedelta64[s]")
    return {"shop": np.full(n, shop.name), "at": at, "number": np.arange(n), **drawn}


def write(folder: Path, found: Sequence[Shop], seed: int) -> int:
    """Write a Parquet file per week; return the number of orders."""
    rows = 0
    for week in range(WEEKS):
        rng = np.random.default_rng([seed, week])
        table = pa.concat_tables([pa.table(orders(shop, week, rng)) for shop in found])
        times = table["at"].cast(pa.timestamp("us", "UTC"))  # what Spark reads as a time
        pq.write_table(table.set_column(1, "at", times), folder / f"week-{week:02d}.parquet")
        rows += table.num_rows
    return rows


def session(folder: Path, cores: int) -> SparkSession:
    """Start Spark in this process, quietly; the remedy is said if that cannot be."""
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        raise SystemExit("Spark needs Java 17: apt install openjdk-17-jre-headless, or set JAVA_HOME")
    try:
        from pyspark.sql import SparkSession
    except ModuleNotFoundError:
        raise SystemExit("this example needs PySpark: pip install 'driftline[spark]'") from None
    warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")  # about versions of pandas
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers run in this environment
    builder = SparkSession.builder.master(f"local[{cores}]").appName("driftline: 200 shops")
    for name, value in {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(folder),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
        "spark.sql.shuffle.partitions": str(2 * cores),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }.items():
        builder = builder.config(name, value)
    screen = os.dup(2)
    with (folder / "spark.log").open("wb") as log:  # Spark's processes write to what is standard error when they start
        os.dup2(log.fileno(), 2)
        try:
            return builder.getOrCreate()
        finally:
            os.dup2(screen, 2)
            os.close(screen)


def moving(keys: Sequence[dict[str, Any]], width: int) -> Table:
    """Return the table of the shops in alarm and of those with a warning, the furthest first."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    heads = {"shop": "left", "signal": "left", "since window": "right", "drift, nats [interval]": "left"}
    for title, justify in heads.items():
        table.add_column(Text(title), justify=justify, no_wrap=True)  # type: ignore[arg-type]
    table.add_column("moved by itself", no_wrap=True, overflow="ellipsis", max_width=max(12, width - 60))
    loud = [line for line in keys if line["outcome"] in ("alarm", "warning")]
    for line in sorted(loud, key=lambda x: (x["outcome"], -x["drift"])):
        signal = {"alarm": "ALARM"}.get(line["outcome"], line["outcome"]) + ("" if line["trust"] == "good" else " ?")
        named = ", ".join([*line["columns"], *line["pairs"]]) or "no column alone"
        far = reading(Estimate(line["drift"], line["std_error"], line["low"], line["high"], 0.95))
        table.add_row(
            line["shop"], Text(signal, style=SIGNS[line["outcome"]]), str(line["since"]), Text(far), Text(named)
        )
    return table


def across(columns: Sequence[dict[str, Any]]) -> Table:
    """Return the table of columns: in how many shops each of them moves."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for title, justify in (("column", "left"), ("moves in", "right"), ("in alarm", "right"), ("", "left")):
        table.add_column(Text(title), justify=justify, no_wrap=True)  # type: ignore[arg-type]
    most = max((line["keys"] for line in columns), default=0)
    for line in columns:
        bar = "█" * round(24 * line["keys"] / most) if most else ""
        cells = line["column"], f"{line['keys']} of {line['of']} shops", str(line["alarms"])
        table.add_row(*cells, Text(bar, style="cyan"))
    return table


def unknown(keys: Sequence[dict[str, Any]], width: int) -> Table:
    """Return the table of shops of which nothing is known now, or only in doubt, and why; alike ones in one line."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("not known to be fine", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("why", max_width=max(20, width - 38))
    alike: dict[tuple[str, str], list[str]] = {}
    for line in sorted((x for x in keys if x["outcome"] in WORDS), key=lambda x: (x["outcome"], x["shop"])):
        alike.setdefault((line["outcome"], line["reason"]), []).append(line["shop"])
    for (outcome, reason), names in alike.items():
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        table.add_row(names[0] + more, Text(WORDS[outcome], style=SIGNS.get(outcome, "red")), Text(reason))
    return table


def show(found: Fleet, console: Console) -> list[dict[str, Any]]:
    """Print how the fleet stands; return the rows of its keys."""
    keys = [row.asDict() for row in found.keys.collect()]
    totals = {row["outcome"]: row["keys"] for row in found.totals.collect()}
    console.print(moving(keys, console.width))
    if any(line["outcome"] in ("alarm", "warning") and line["trust"] != "good" for line in keys):
        console.print("? the size of this drift is in doubt, or a lower bound", style="dim")
    console.print("", across([row.asDict() for row in found.columns.collect()]), "")
    if any(outcome in WORDS for outcome in totals):
        console.print(unknown(keys, console.width), "")
    said = [(totals.get("alarm", 0), "in alarm"), (totals.get("warning", 0), "with a warning")]
    said += [(totals[outcome], word) for outcome, word in WORDS.items() if outcome in totals]
    rest = totals.get("normal", 0)
    parts = [f"{count} {word}" for count, word in said] + [f"{rest} measured, without alarm and without doubt"]
    console.print(Text(f"{sum(totals.values())} shops: {', '.join(parts)}.", style="bold"))
    return keys


def compared(found: Sequence[Shop], keys: Sequence[dict[str, Any]]) -> str:
    """Say what was built in beside what was found."""
    truth = {shop.name: shop.moves for shop in found if shop.moves}
    raised = {line["shop"]: line for line in keys if line["outcome"] == "alarm"}
    right = [name for name in truth if name in raised]
    named = sum(truth[name] in raised[name]["columns"] for name in right)
    return (
        f"Built in: {len(truth)} shops in which one column moves. Found: {len(right)} of them in alarm, in {named} of "
        f"these that column is named; {len(raised) - len(right)} other shops in alarm."
    )


def follow(spark: SparkSession, folder: Path, status: Status, stream: bool) -> None:
    """Watch the orders, as a table or as a stream, a week in each micro-batch, and write all Records."""
    place, table = str(folder / "orders"), spark.read.parquet(str(folder / "orders"))
    orders = spark.readStream.schema(table.schema).option("maxFilesPerTrigger", 1).parquet(place) if stream else table
    records = watch(
        orders, "shop", order=["at", "number"], columns=COLUMNS, time_column="at", every="1w", tolerance=TOLERANCE
    )
    if not stream:
        records.write.parquet(str(folder / "records"))
        return
    writer = records.writeStream.foreachBatch(write_once(str(folder / "records")))
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
    while not query.awaitTermination(1):
        done = sum(1 for each in query.recentProgress if each["numInputRows"])
        status.update(f"each shop is watched by itself: week {min(done + 1, WEEKS)} of {WEEKS}")


def main(arguments: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Write the orders, watch all shops, and print how they stand; return a row for each shop."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shops", type=int, default=200, help="at least 30")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--stream", action="store_true", help="as a stream, not as a table; takes longer")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args(arguments)
    if chosen.shops < 30:
        parser.error("fewer than 30 shops are no fleet")
    console, began, built = Console(highlight=False), time.monotonic(), shops(chosen.shops)
    with tempfile.TemporaryDirectory(prefix="driftline-shops-") as name:
        folder = Path(name)
        (folder / "orders").mkdir()
        with console.status("starting Spark"):
            spark = session(folder, chosen.cores)
        rows = write(folder / "orders", built, chosen.seed)
        console.print(f"{rows:,} orders of {chosen.shops} shops in {WEEKS} weeks; {', '.join(COLUMNS)} are watched.\n")
        with console.status("each shop is watched by itself") as status:
            follow(spark, folder, status, chosen.stream)
        expected = MONDAY + np.timedelta64(7 * (WEEKS - 1), "D")  # the last week is still open
        with console.status("summing up the fleet"):
            found = fleet(spark.read.parquet(str(folder / "records")), tolerance=TOLERANCE, expected=str(expected))
            found.keys.persist().count()  # once for all three tables
        keys = show(found, console)
        spark.stop()
    console.print(f"\n{compared(built, keys)}\n{time.monotonic() - began:.0f} seconds, on {chosen.cores} cores.")
    return keys


if __name__ == "__main__":
    main()
