"""What Spark sends to the tasks of a query."""

from __future__ import annotations

from pyspark.sql.datasource import InputPartition

from everlog.pipelines.scan.planning import ScanTask


class StorePartition(InputPartition):  # type: ignore[misc]
    """What a task reads; Spark pickles it and sends it to the worker."""

    def __init__(self, index: int, task: ScanTask) -> None:
        super().__init__(index)
        self.task = task


def to_partitions(tasks: list[ScanTask]) -> list[InputPartition]:
    """A partition for each task."""
    return [StorePartition(index, task) for index, task in enumerate(tasks)]
