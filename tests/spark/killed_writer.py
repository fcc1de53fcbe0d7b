"""A query that is killed by its test: lines of files into a journal and a recording, batch by batch, until all are
there. Usage: killed_writer.py FOLDER"""

from __future__ import annotations

import sys

from everlog.spark.session import local_session
from everlog.spark.source import EverlogDataSource

ARCHIVE = {"family": "aeron-archive", "create": "true", "termLength": "64k", "segmentLength": "128k"}
OPTIONS = {
    "journal": {"family": "jlog", "create": "true", "segmentLength": "64k"},
    "archive": ARCHIVE | {"livenessTimeout": "1"},
}


def main(folder: str) -> None:
    spark = local_session("killed", memory="512m")
    spark.dataSource.register(EverlogDataSource)
    lines = spark.readStream.option("maxFilesPerTrigger", 1).text(f"{folder}/in").selectExpr("value AS payload")
    lines = lines.repartition(2)  # so that nobody promises an order
    queries = []
    for name, options in OPTIONS.items():
        sink = lines.writeStream.format("everlog").options(**options, checkpointLocation=f"{folder}/checkpoint-{name}")
        queries.append(sink.trigger(availableNow=True).start(f"{folder}/{name}"))
    print("started", flush=True)
    for query in queries:
        query.awaitTermination()
    print("done", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
