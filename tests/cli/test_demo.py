"""The demo: the orders hold the drift built into them, and the monitor finds it."""

import io
from dataclasses import replace
from datetime import date

import numpy as np
import pytest
from rich.console import Console

from driftline import DensityRatio, Signal
from driftline.cli._demo import built_in, run, said
from driftline.monitor import read_run
from driftline.synthetic import Shop
from driftline.tables import TableEncoder


def test_demo_tells_its_story(tmp_path):
    shop = Shop(orders=1500, weeks=7, break_after=30, seed=1000)  # the break is on the Wednesday of week 4
    for _ in range(2):  # the second time over an earlier demo
        console = Console(file=io.StringIO(), width=100)
        records = run(tmp_path / "demo", shop, console)
    assert [r.window for r in records] == list(range(7))
    assert [str(r.signal) for r in records] == ["normal"] * 4 + ["alarm"] * 3
    assert {m.column for m in records[-1].columns[:2]} == {"payment", "amount"}
    assert any("wallet" in note for note in records[4].notes)
    assert read_run(tmp_path / "demo" / "run.driftline").records == tuple(records)
    assert (tmp_path / "demo" / "report.png").read_bytes().startswith(b"\x89PNG")
    assert "<html" in (tmp_path / "demo" / "report.html").read_text(encoding="utf-8")[:300]
    out = console.file.getvalue()
    assert built_in(shop) in out
    assert "Wednesday, 5 February 2025" in built_in(shop)
    assert said(shop, records).startswith(
        "Said: alarm in the week from Monday, 3 February 2025; what moved most: payment"
    )


def test_sentences_do_not_flatter(tmp_path):
    quiet = Shop(orders=1000, weeks=3, seed=1001)
    records = run(tmp_path, quiet, Console(file=io.StringIO()))
    assert said(quiet, records).startswith("Said: no alarm.")
    assert built_in(quiet).startswith("Built in: seasons only")
    late = Shop(orders=1000, weeks=7, break_after=9, seed=1000)
    records = [replace(record, signal=Signal.ALARM) if record.window == 2 else record for record in records]
    assert "+1 weeks from the break" in said(late, records)


def test_weeks_are_the_same_each_time_and_calendar_weeks():
    shop = Shop(orders=700, seed=1000)
    week = shop.week(2)
    assert week.equals(shop.week(2))
    assert not week.equals(Shop(orders=700, seed=1001).week(2))
    days = np.unique(week["ordered_at"].to_numpy().astype("datetime64[D]"))
    assert days[0] == np.datetime64("2025-01-20")
    assert len(days) == 7
    assert date(2025, 4, 30) == Shop().break_day
    assert week["age"].null_count > 0
    assert "wallet" not in week["payment"].to_pylist()
    assert "wallet" in shop.week(20)["payment"].to_pylist()


@pytest.mark.parametrize("seed", [1000, 1001, 1002])
def test_the_drift_that_is_built_in_is_there(seed):
    """Compare the closed form with a static estimate that sees both weeks; the model can express this ratio."""
    shop = Shop(orders=8000, seed=seed)
    first, last = shop.week(0), shop.week(25)
    encoder = TableEncoder.fit(first, time_column="ordered_at")
    found = DensityRatio(random_state=0).fit(encoder.transform(first).values, encoder.transform(last).values)
    estimate = found.divergence("reverse_kl")
    assert abs(estimate.value - shop.drift(25)) < 4.0 * estimate.std_error, (estimate, shop.drift(25))
