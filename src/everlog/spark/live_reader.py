"""The reader of a live query, as Spark's driver calls it. One process plans all batches of a query; ``read`` runs in
others, on a copy.

A small batch is read here, where it is planned, and handed to the JVM at once: starting a Python task costs more than
reading a megabyte. Spark only supports this for :class:`SimpleDataSourceStreamReader`, through an internal wrapper
class; the reader assumes that class for the moment in which Spark asks for a batch's partitions. If a version of Spark
has no such class, or the rows were not handed over, tasks read the same partition.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from everlog.core.following import CutLimit
from everlog.errors import EverlogError, MissingDependency, UsageError
from everlog.pipelines.follow.offsets import from_json, to_json
from everlog.pipelines.follow.positions import Positions
from everlog.pipelines.follow.tracking import Tracker
from everlog.pipelines.scan.columns import FamilyOptions
from everlog.pipelines.scan.live_options import LiveOptions
from everlog.pipelines.scan.options import ScanOptions
from everlog.pipelines.scan.planning import ScanTask, balanced_tasks
from everlog.pipelines.scan.reading import read_task
from everlog.spark.partitions import StorePartition, to_partitions
from everlog.spark.struct_types import arrow_schema
from everlog.spark.workers import freeze_gc
from everlog.stores import FAMILIES

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
except ImportError as _error:  # Spark 4.1
    raise MissingDependency(
        "readStream",
        found="an older Spark",
        expected="4.2 or later",
        message="readStream needs Spark 4.2 or later",
        hint="pip install -U pyspark",
    ) from _error

try:
    from pyspark.sql.datasource_internal import _SimpleStreamReaderWrapper as _Prefetching
except ImportError:  # not part of Spark's public interface
    _Prefetching = None

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

MAX_PREFETCHED_SPLITS = 64
"""With more splits than this, tasks open the files."""

LOG = logging.getLogger("everlog.spark")


def make_reader(schema: StructType, scan: ScanOptions, options: FamilyOptions) -> LiveReader:
    """Make a reader. Raises :class:`UsageError` for options that only apply to batch queries."""
    if scan.faults or scan.aggregation is not None:
        found = "option faults" if scan.faults else "an aggregation"
        raise UsageError(
            "readStream", found=found, message=f"readStream does not take {found}", hint="use read instead"
        )
    reasons = [FAMILIES[family].not_followed for family in options]
    if all(reasons):
        found = f"stores of {', '.join(options)}"
        why = "; ".join(filter(None, reasons))
        raise UsageError("readStream", found=found, message=f"readStream can't follow {found}: {why}")
    return LiveReader(schema, scan, LiveOptions(**scan.live_options), options)


class LiveReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """A live query's reader. Its offsets are those of :mod:`everlog.pipelines.follow.offsets`."""

    def __init__(self, schema: StructType, scan: ScanOptions, live: LiveOptions, options: FamilyOptions) -> None:
        self.schema = schema
        self.scan = scan
        self.live = live
        self._options = options
        self._made: Positions | None = None
        self._prefetched: list[pa.RecordBatch] = []

    @property
    def _positions(self) -> Positions:
        if self._made is None:
            tracker = Tracker(self.scan, self._options, self.live.discovery_s)
            self._made = Positions(tracker, self.scan, self.live)
        return self._made

    # What Spark's driver asks for

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name, like those below
        """Where a query without a checkpoint begins."""
        return to_json(self._positions.initial())

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """The configured limit. Spark supports one at a time; if both are given, ``latestOffset`` adds the other."""
        if self.live.max_records is not None:
            return ReadMaxRows(self.live.max_records)
        return ReadAllAvailable() if self.live.max_bytes is None else ReadMaxBytes(self.live.max_bytes)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """The end of the next batch; ``start`` if there is nothing new. Raises :class:`DataLost`."""
        return to_json(self._positions.next(from_json(start), self._cut_limit(limit)))

    def _cut_limit(self, limit: ReadLimit) -> CutLimit:
        if isinstance(limit, ReadMaxRows):
            return CutLimit(records=limit.max_rows, byte_count=self.live.max_bytes)
        if isinstance(limit, ReadMaxBytes):
            return CutLimit(records=self.live.max_records, byte_count=limit.max_bytes)
        return CutLimit()

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        """The ends of all streams at the last poll, for query progress."""
        return to_json(self._positions.ends())

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Let the query end at the current ends."""
        self._positions.freeze()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Few large partitions, near the number of cores; a single one with its rows if there is little to read. After
        a restart this may be the first call. Raises :class:`DataLost`."""
        found = list(self._positions.splits(from_json(start), from_json(end)))
        tasks = balanced_tasks(found, self.scan, self._options)
        if _Prefetching is not None and self.live.prefetch_bytes and len(tasks) == 1:
            batches = self._read_small(tasks[0])
            if batches is not None:
                self._prefetched = batches
                self.__class__ = _prefetching_class()
        return to_partitions(tasks)

    def _read_small(self, task: ScanTask) -> list[pa.RecordBatch] | None:
        """The task's rows, unless they are too many. Errors are ignored here, since a task will meet and report
        them."""
        size, batches = 0, []
        if sum(len(part.splits) for part in task.parts) > MAX_PREFETCHED_SPLITS:
            return None
        try:
            for batch in read_task(task, arrow_schema(self.schema), self.scan):
                size += batch.nbytes
                if size > self.live.prefetch_bytes:
                    return None
                batches.append(batch)
        except EverlogError:
            return None
        return batches

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: no state is kept beyond Spark's."""

    def stop(self) -> None:
        """Close all files."""
        if self._made is not None:
            self._made.tracker.close()
        self._made = None

    # What a task does

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Record batches with exactly the schema that Spark asked for."""
        if not isinstance(partition, StorePartition):
            return iter(())
        freeze_gc()
        return read_task(partition.task, arrow_schema(self.schema), self.scan)

    def __getstate__(self) -> dict[str, Any]:
        # A task's partition contains all that it needs.
        return self.__dict__ | {"_made": None, "_prefetched": [], "_options": {}}


def _prefetching_class() -> type[LiveReader]:
    global _made_class
    if _made_class is None:

        class Prefetched(LiveReader, _Prefetching):  # type: ignore[misc]
            """A :class:`LiveReader` for the moment in which Spark asks for the rows of the batch that it planned."""

            def getCache(self, start: dict[str, Any], end: dict[str, Any]) -> Iterator[pa.RecordBatch]:  # noqa: N802
                batches, self._prefetched = self._prefetched, []
                self.__class__ = LiveReader
                return iter(batches)

        _made_class = Prefetched
    return _made_class


_made_class: type[LiveReader] | None = None
