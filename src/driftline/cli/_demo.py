"""The demo: half a year of a web shop's orders, watched weekly, a report, and the findings beside the truth."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import time
from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
from rich.console import Console

from driftline.alarms import Signal
from driftline.monitor import Monitor, Record, Status
from driftline.report import write_report
from driftline.synthetic import Shop
from driftline.terminal import Command, Lines, Screen, heading, reading, say, show

__all__ = ["built_in", "run", "said", "tracker_of", "write_orders"]


def tracker_of(folder: str | Path) -> Path:
    """Return the path of the demo's tracker file."""
    return Path(folder) / "run.driftline"


def run(folder: str | Path, shop: Shop, console: Console) -> list[Record]:
    """Write the orders, watch them, write the report, compare it with the truth; return the Records."""
    began, place = time.monotonic(), Path(folder)
    orders = place / "orders"
    rows = write_orders(shop, orders)
    say(console, f"{rows:,} orders of a web shop that does not exist, {shop.weeks} weeks, are in {orders}.", "")
    tracker = tracker_of(folder)
    for old in (tracker, *(Path(f"{tracker}{end}") for end in ("-wal", "-shm", ".lock"))):
        old.unlink(missing_ok=True)  # from an earlier demo
    with Monitor(tracker, time_column="ordered_at", every="1w", tolerance=0.1) as monitor:
        kind = Screen if console.is_terminal else Lines
        with kind(heading(monitor.settings, str(orders), str(tracker), rows), console) as view:
            records = show(monitor, view, monitor.watch(orders, flush=True))
        page = place / "report.html"
        write_report(page, monitor.run)
    say(console, "", built_in(shop), said(shop, records), "")
    tries = (
        ["inspect", tracker, "--against", orders / _name(0)],
        ["weights", tracker, orders / _name(shop.weeks - 1), "--out", place / "weighted.parquet"],
        ["serve", tracker, "--open"],
    )
    say(
        console,
        f"Report: {page} (took {time.monotonic() - began:.0f} s). Open it in a browser, then try:",
        *(Command("  " + shlex.join([_program(), *map(str, words)])) for words in tries),
    )
    return records


def _program() -> str:
    """Return what to type for ``driftline`` here: after ``make demo`` it is not on the path."""
    called = Path(sys.argv[0])
    return os.path.relpath(called) if called.name == "driftline" and not shutil.which("driftline") else "driftline"


def _name(week: int) -> str:
    return f"week-{week:02d}.parquet"


def write_orders(shop: Shop, folder: Path) -> int:
    """Write a Parquet file per week; return the number of orders."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("week-*.parquet"):  # from an earlier demo
        old.unlink()
    rows = 0
    for week in range(shop.weeks):
        table: pa.Table = shop.week(week)
        pa.parquet.write_table(table, folder / _name(week))
        rows += table.num_rows
    return rows


def built_in(shop: Shop) -> str:
    """Say which drift the orders hold, by construction."""
    last = shop.weeks - 1
    if shop.break_week > last:
        return f"Built in: seasons only, {shop.drift(last):.2f} nats of drift in the last week."
    before = f"{shop.drift(shop.break_week - 1):.3f} nats the week before" if shop.break_week else "nothing before"
    return (
        f"Built in: seasons ({before}), and on {_day(shop.break_day)} a new way to pay, wallet, and amounts 35 % "
        f"higher. Drift in the last week: {shop.drift(last):.2f} nats."
    )


def said(shop: Shop, records: Sequence[Record]) -> str:
    """Say what the monitor found in them."""
    measured = [r for r in records if r.status == Status.MEASURED]
    alarms = [r for r in measured if r.signal == Signal.ALARM]
    last = measured[-1]
    end = f"Drift in the last week: {reading(last.drift)} nats."
    if not alarms:
        return f"Said: no alarm. {end}"
    first = alarms[0]
    names = " and ".join(f"{m.column} ({m.cause})" for m in first.columns[:2])
    since = date.fromisoformat(first.start[:10]) if first.start else shop.first + timedelta(weeks=first.window)
    right = "" if first.window == shop.break_week else f", {first.window - shop.break_week:+d} weeks from the break"
    return f"Said: alarm in the week from {_day(since)}{right}; what moved: {names}. {end}"


def _day(day: date) -> str:
    return f"{day:%A}, {day.day} {day:%B %Y}"
