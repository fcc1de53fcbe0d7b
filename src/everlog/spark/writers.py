"""The data source's writers. Spark pickles a writer to the tasks, which ``write``; for a stream it makes a new one for
each commit."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from everlog.errors import UsageError
from everlog.pipelines.append.commits import Transaction
from everlog.pipelines.append.notes import batch_key
from everlog.pipelines.append.options import WriteOptions, parse_write_options
from everlog.pipelines.append.rows import RowLayout, to_staged
from everlog.pipelines.append.staging import Part, part_name, stage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

QUERY_PROPERTY, BATCH_PROPERTY = "sql.streaming.queryId", "streaming.sql.batchId"
"""Local properties of a stream's tasks. The query's id is kept in its checkpoint; a new checkpoint has another one."""
_log = logging.getLogger("everlog.spark")


@dataclass(frozen=True)
class StagedPart(WriterCommitMessage):  # type: ignore[misc]
    """A task's message to the commit; ``part`` is ``None`` if there were no rows."""

    query: str
    part: Part | None


class _Writing:
    """What both writers share."""

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        if overwrite:
            message = "modes overwrite and complete are not supported; use append"
            raise UsageError("mode", found="overwrite or complete", expected="append", message=message)
        self.options: WriteOptions = parse_write_options(options)
        fields = [(field.name, field.dataType.simpleString()) for field in schema.fields]
        self._layout = RowLayout.of(fields, self.options.family, self.options.order_by)

    def _stage(self, batches: Iterator[pa.RecordBatch], query: str, batch: int, partition: int) -> StagedPart:
        name = part_name(batch_key(query, batch), partition, uuid.uuid4().hex)
        part = stage(self.options.staging_storage(), name, partition, to_staged(batches, self._layout))
        return StagedPart(query, part)


def _parts(messages: Sequence[StagedPart | None]) -> list[Part]:
    return [message.part for message in messages if message is not None and message.part is not None]


class EverlogWriter(_Writing, DataSourceArrowWriter):  # type: ignore[misc]
    """``df.write``: at least once, since Spark provides nothing that identifies a repetition. Exactly once with the
    options ``txnAppId`` and ``txnVersion``."""

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        super().__init__(options, schema, overwrite)
        self._transaction = self.options.transaction
        self._key = self._transaction or Transaction(f"write-{uuid.uuid4().hex}", 0)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedPart:
        """In a task: stage its rows."""
        from pyspark import TaskContext

        return self._stage(iterator, self._key.query, self._key.batch, TaskContext.get().partitionId())

    def commit(self, messages: Sequence[StagedPart | None]) -> None:
        """On the driver: append what was staged."""
        committer = self.options.committer()
        committer.commit(_parts(messages), self._transaction)
        if self._transaction is None:
            committer.discard(self._key.query)  # a killed attempt has reported its part to no one

    def abort(self, messages: Sequence[StagedPart | None]) -> None:
        """On the driver, after a task or the commit failed: delete what was staged, also by tasks that still run."""
        if self._transaction is None:
            self.options.committer().discard(self._key.query)
        else:
            self.options.committer().abort(_parts(messages), self._transaction)


class EverlogStreamWriter(_Writing, DataSourceStreamArrowWriter):  # type: ignore[misc]
    """``df.writeStream``: each record exactly once."""

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        super().__init__(options, schema, overwrite)
        if self.options.transaction is not None:
            raise UsageError(
                "option txnAppId",
                found="writeStream",
                message="option txnAppId applies to df.write only: a stream counts its batches itself",
            )

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedPart:
        """In a task: stage its rows."""
        from pyspark import TaskContext

        task = TaskContext.get()
        query, batch = (task.getLocalProperty(name) for name in (QUERY_PROPERTY, BATCH_PROPERTY))
        if query is None or batch is None:
            found = f"a task without {QUERY_PROPERTY} and {BATCH_PROPERTY}"
            message = f"writeStream needs a micro-batch: the task has no {QUERY_PROPERTY} and {BATCH_PROPERTY}"
            raise UsageError("writeStream", found=found, expected="a micro-batch of a query", message=message)
        return self._stage(iterator, query, int(batch), task.partitionId())

    def commit(self, messages: Sequence[StagedPart | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """On the driver: append what was staged, unless the note says that this was done."""
        transaction = _transaction(messages, batchId)
        if transaction is not None:
            self.options.committer().commit(_parts(messages), transaction)

    def abort(self, messages: Sequence[StagedPart | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """On the driver, after a task or the commit failed: delete what was staged and not begun."""
        transaction = _transaction(messages, batchId)
        if transaction is not None:
            self.options.committer().abort(_parts(messages), transaction)


def _transaction(messages: Sequence[StagedPart | None], batch: int) -> Transaction | None:
    """``None`` if no task has sent a message."""
    queries = {message.query for message in messages if message is not None}
    if len(queries) > 1:
        raise UsageError(
            "writeStream",
            found=f"parts of {len(queries)} queries",
            message=f"a commit has parts of {len(queries)} queries",
        )
    return Transaction(queries.pop(), batch) if queries else None
