"""A query to be killed: ``python driver.py FOLDER`` watches ``in`` and writes ``out``, from its checkpoint on."""

import sys

from driftline.spark import watch, write_once
from tests.spark.conftest import started


def main(folder):
    spark = started()
    stream = spark.readStream.schema("shop string, a double, b string, n bigint").option("maxFilesPerTrigger", 1)
    records = watch(stream.json(f"{folder}/in"), "shop", order="n", columns=["a", "b"], window=100)
    query = records.writeStream.foreachBatch(write_once(f"{folder}/out"))
    query.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    main(sys.argv[1])
