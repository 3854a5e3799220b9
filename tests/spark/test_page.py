"""The page on Spark, and the example: code runs as typed, and a machine without Java is told so."""

import ast
import builtins
import os
import re
import runpy
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

ROOT = Path(__file__).parents[2]


def _blocks(page):
    return re.findall(r"(?s)```python\n(.*?)```\n", (ROOT / page).read_text(encoding="utf-8"))


BLOCKS = _blocks("docs/spark.md")


def test_code_of_the_page_brings_its_imports():
    """A name that a block uses comes from its own imports, from itself, or is ``spark``, of the first block."""
    assert len(BLOCKS) == 8
    for block in BLOCKS:
        nodes = list(ast.walk(ast.parse(block)))
        names = [node for node in nodes if isinstance(node, ast.Name)]
        own = {name.id for name in names if isinstance(name.ctx, ast.Store)} | {"spark", *dir(builtins)}
        own |= {alias.asname or alias.name for node in nodes for alias in getattr(node, "names", [])}
        assert {name.id for name in names} <= own


def test_code_of_the_readme_runs_as_typed(spark, tmp_path, monkeypatch, capsys):
    [code] = [block for block in _blocks("README.md") if "spark" in block]
    rng, n = np.random.default_rng(0), 2000
    orders = pd.DataFrame({"shop": rng.choice(["north", "south"], n), "time": np.arange(n)})
    orders["amount"] = rng.gamma(2.0, 30.0, n) * np.where((orders["shop"] == "south") & (orders["time"] > n / 2), 3, 1)
    spark.createDataFrame(orders).write.parquet(str(tmp_path / "orders"))
    exec(
        compile(code.replace('"orders"', f'"{tmp_path}/orders"').replace("500", "200"), "README.md", "exec"),
        {"spark": spark},
    )
    assert re.search(r"\|\s*south\|\s*\d+\|\d\.\d+", capsys.readouterr().out)


@pytest.mark.slow
def test_code_of_the_page_runs_as_typed(spark, tmp_path, capsys):
    """But for the folders, which are put elsewhere: Spark, which has been started before, is in a folder of its own."""
    for i, block in enumerate(BLOCKS):
        block = re.sub(r'"(?=(orders|records|checkpoint|weighted)["./])', f'"{tmp_path}/', block)
        # each block is pasted into a session of its own, in which only Spark is
        exec(compile(block, f"docs/spark.md, block {i}", "exec"), {"spark": spark})
    said = capsys.readouterr().out
    assert re.search(r"\|\s*south\|\s*\d+\|0\.\d+", said)  # in alarm
    written = spark.read.parquet(str(tmp_path / "records"))
    assert {row["shop"] for row in written.where("signal = 'alarm'").select("shop").distinct().collect()} == {"south"}


def test_the_example_says_what_is_missing(tmp_path, monkeypatch):
    session = runpy.run_path(str(ROOT / "examples" / "spark_shops.py"))["session"]
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(SystemExit, match="Spark needs Java 17: apt install openjdk-17-jre-headless, or set JAVA_HOME"):
        session(tmp_path, 1)
    monkeypatch.setenv("JAVA_HOME", os.sep)
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(SystemExit, match=r"this example needs PySpark: pip install 'driftline\[spark\]'"):
        session(tmp_path, 1)
