"""Run by test_spark_cluster.py in a process of its own: a session on a cluster of two executors of one core each, whose
Python has no everlog but the one that is sent to them."""

from __future__ import annotations

import json
import sys

from everlog.spark import aggregate, scan
from everlog.spark.session import session_on


def where(batches):
    """Of which files a worker's everlog is, and whether it is the compiled one."""
    import everlog
    from everlog.kernel import crc32

    for _ in batches:
        yield _row([everlog.__file__, str(crc32.Crc32.__module__)])


def _row(values):
    import pyarrow as pa

    return pa.RecordBatch.from_pylist([{"file": values[0], "module": values[1]}])


def main() -> None:
    """Arguments: archive of the package, Python of the workers, PYTHONPATH of the workers, folder for the event log,
    key file, stores."""
    package, python, path, events, key, channels, *stores = sys.argv[1:]
    settings = {
        "spark.driver.memory": "1g",
        "spark.executor.memory": "512m",
        "spark.archives": f"{package}#everlog_package",
        "spark.executorEnv.PYTHONPATH": f"./everlog_package:{path}",
        "spark.executorEnv.EVERLOG_TEST_KEY": key,
        "spark.pyspark.python": python,
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file://{events}",
        "spark.eventLog.compress": "false",
        "spark.redaction.regex": "(?i)secret|password|token|key",
    }
    spark = session_on("local-cluster[2,1,1024]", "everlog cluster test", settings=settings)
    found = {}
    found["where"] = [
        list(row) for row in spark.range(2, numPartitions=2).mapInArrow(where, "file string, module string").collect()
    ]
    frame = spark.read.format("everlog").option("partitions", "4").load(stores)
    found["rows"] = frame.count()
    found["bytes"] = frame.agg({"length": "sum"}).first()[0]
    found["scanned"] = scan(spark, *stores, partitions="4").count()
    found["folded"] = [list(row) for row in aggregate(spark, *stores, by=["family"]).orderBy("family").collect()]
    sealed = spark.read.format("everlog").option("encryptionKeyEnv", "EVERLOG_TEST_KEY").load(channels)
    sealed.explain("extended")
    found["sealed"] = sealed.count()
    spark.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
