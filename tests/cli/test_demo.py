"""The demo: the orders hold the drift built into them, and the monitor finds it."""

import io
from dataclasses import replace

from rich.console import Console

from driftline import Signal
from driftline.cli._demo import built_in, run, said
from driftline.monitor import read_run
from driftline.synthetic import Shop


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
    assert "<html" in (tmp_path / "demo" / "report.html").read_text(encoding="utf-8")[:300]
    out = console.file.getvalue()
    assert built_in(shop) in out
    assert f"Report: {tmp_path / 'demo' / 'report.html'}" in out
    assert [line.split()[1] for line in out.splitlines()[-3:]] == ["inspect", "weights", "serve"]
    assert "Wednesday, 5 February 2025" in built_in(shop)
    assert said(shop, records).startswith("Said: alarm in the week from Monday, 3 February 2025; what moved: payment")


def test_sentences_do_not_flatter(tmp_path):
    quiet = Shop(orders=1000, weeks=3, seed=1001)
    records = run(tmp_path, quiet, Console(file=io.StringIO()))
    assert said(quiet, records).startswith("Said: no alarm.")
    assert built_in(quiet).startswith("Built in: seasons only")
    late = Shop(orders=1000, weeks=7, break_after=9, seed=1000)
    records = [replace(record, signal=Signal.ALARM) if record.window == 2 else record for record in records]
    assert "+1 weeks from the break" in said(late, records)
