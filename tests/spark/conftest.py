"""One Spark session for all tests: it takes longer to start than most of them."""

import os
import shutil
import sys

import pytest

OPTIONS = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "1g",
    # in a minute's run, compiling well and collecting in parallel cost more than they bring
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.python.daemon.module": "tests.spark.daemon",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.session.timeZone": "America/New_York",  # times are moments, wherever the session is
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
}


def started():
    """Return a session of two threads whose workers run in this environment."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName("driftline")
    for name, value in OPTIONS.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


@pytest.fixture(scope="session")
def has_spark():
    pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'driftline[spark]'")
    if shutil.which("java") is None:
        pytest.skip("Java is not installed: Spark needs Java 17")


@pytest.fixture(scope="session")
def spark(has_spark):
    session = started()
    yield session
    session.stop()
