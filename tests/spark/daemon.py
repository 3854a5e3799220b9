"""Spark's daemon, with the packages loaded that every worker needs: a worker is a copy of it, and need not load them.

Nothing of driftline is among them: which of its modules workers load is tested.
"""

import pandas  # noqa: F401
import pyarrow.parquet  # noqa: F401
import scipy.stats  # noqa: F401
import sklearn.base  # noqa: F401

if __name__ == "__main__":
    from pyspark.daemon import manager  # not at the top: where PySpark is missing, tests still look into this file

    manager()
