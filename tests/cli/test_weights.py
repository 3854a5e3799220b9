"""``driftline weights``: rows of any format, weighted as the monitor would, in any format."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from driftline import Monitor
from driftline.cli import run


@pytest.mark.parametrize("out", ["w.csv", "w.parquet", "w.arrow", "w.jsonl"])
@pytest.mark.parametrize("kind", ["csv", "parquet", "jsonl"])
def test_weights_from_any_format_to_any(copy, said, kind, out, people):
    rows = people(1005, moved=0.5)
    write = {
        "csv": lambda path: rows.to_csv(path, index=False),
        "parquet": rows.to_parquet,
        "jsonl": lambda path: rows.to_json(path, orient="records", lines=True),
    }
    write[kind](f"rows.{kind}")
    assert run(["weights", "run.driftline", f"rows.{kind}", "--out", out]) == 0
    assert said()[0] == f"300 rows in {out}\n"
    read = {".csv": pl.read_csv, ".parquet": pl.read_parquet, ".arrow": pl.read_ipc, ".jsonl": pl.read_ndjson}
    found = read[Path(out).suffix](out)
    with Monitor.open("run.driftline", readonly=True) as monitor:
        expected = monitor.log_ratio(rows)
        weights = monitor.weights(rows)
    np.testing.assert_allclose(found["log_ratio"].to_numpy(), expected, rtol=1e-12)
    np.testing.assert_allclose(found["weight"].to_numpy(), weights, rtol=1e-12)
    assert found.columns == ["age", "city", "vip", "log_ratio", "weight"]


def test_weights_do_not_hide_a_column(copy, said, people):
    people(1006).assign(weight=1.0).to_csv("rows.csv", index=False)
    assert run(["weights", "run.driftline", "rows.csv", "--out", "w.csv"]) == 2
    assert "'weight'" in said()[1]
    assert not Path("w.csv").exists()
