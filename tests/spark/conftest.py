"""A Spark session in local mode, one for all tests."""

import os
import shutil
import sys

import pytest


@pytest.fixture(scope="session")
def spark():
    pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'driftline[spark]'")
    if shutil.which("java") is None:
        pytest.skip("Java is not installed: Spark needs Java 17")
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable  # workers run in this environment
    builder = SparkSession.builder.master("local[2]").appName("driftline").config("spark.ui.enabled", "false")
    for name, value in {
        "spark.sql.shuffle.partitions": "4",
        "spark.driver.memory": "1g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
    }.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
