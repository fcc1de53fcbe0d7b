"""A task of a query: opens the stores, scans the splits, and returns Arrow batches."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from everlog.core.batch import Batch
from everlog.core.report import Fault, Severity
from everlog.core.splits import Split
from everlog.core.store import PAYLOAD, FaultSink, Store
from everlog.errors import (
    CorruptData,
    DataLost,
    EverlogError,
    FileChanged,
    KeyRefused,
    StoreUnavailable,
    UnknownStream,
    UnsupportedVersion,
)
from everlog.pipelines.scan.arrow_batches import ArrowBatches, in_time
from everlog.pipelines.scan.columns import sbe_columns
from everlog.pipelines.scan.options import SKIP, ScanOptions
from everlog.pipelines.scan.planning import ScanTask, StoreSplits
from everlog.pipelines.scan.store_errors import FILE_GONE, at_store, damage, is_gone, out_of_reach, refused, removed
from everlog.sbe.columns import SbeColumns
from everlog.stores import open_store

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_ROWS = 16_384
BATCH_BYTES = 4 << 20
"""Spark does not split batches, and holds a whole one in memory on each side."""

MAX_WARNINGS = 20
"""Faults of a split that are logged individually; further ones are only counted."""

SEGMENT_MISSING = "segment-missing"
"""With :data:`FILE_GONE`: codes of faults that retention causes if it removes a file during the query, which is not
damage."""

CUT = frozenset({"unset-frame", "segment-short", SEGMENT_MISSING})
"""Codes of faults that a recording has if it was truncated during the query, which is not damage either."""

LOG = logging.getLogger("everlog.spark")


def read_task(task: ScanTask, schema: pa.Schema, scan: ScanOptions) -> Iterator[pa.RecordBatch]:
    """Record batches of ``schema``, in the order of the task's splits. Damage, and data that vanished since the query
    was planned, are errors or warnings, as ``onFault`` and ``failOnDataLoss`` say."""
    batches = ArrowBatches(schema)
    for _, _, batch in scan_task(task, batches.schema.names, scan):
        made = batches.convert(batch)
        if scan.has_time_range:
            made = in_time(made, batch.data["timestamp_ns"], batch.row_count, scan.start_ns, scan.end_ns)
        if made.num_rows:
            yield made


def scan_task(
    task: ScanTask, names: Iterable[str], scan: ScanOptions, *, max_rows: int = BATCH_ROWS
) -> Iterator[tuple[StoreSplits, Split, Batch]]:
    """Batches of the columns ``names``, as far as their stores have them, and ``timestamp_ns`` if there is a time
    range; rows are not filtered by it yet. Otherwise like :func:`read_task`."""
    names = list(names)
    sbe = sbe_columns(scan, LOG.warning)
    for part in task.parts:
        try:
            with open_store(part.store.path, family=part.store.family, **part.options) as store:
                for split in part.splits:
                    for batch in _scan_split(store, part, split, names, scan, sbe, max_rows):
                        yield part, split, batch
        except (StoreUnavailable, FileChanged, UnknownStream) as error:
            if not is_gone(error):
                raise out_of_reach(part.store, error) from error
            if scan.fail_on_data_loss:
                raise removed(part.store, error) from error
            LOG.warning("%s: removed after the query was planned: %s", part.store.path, error)
        except (CorruptData, UnsupportedVersion) as error:
            if scan.on_fault != SKIP:
                raise at_store(part.store, error) from error
            LOG.warning("%s: the rest is left out: %s", part.store.path, error)
        except KeyRefused as error:
            raise refused(part.store, error) from error


def _scan_split(
    store: Store,
    part: StoreSplits,
    split: Split,
    names: list[str],
    scan: ScanOptions,
    sbe: SbeColumns | None,
    max_rows: int,
) -> Iterator[Batch]:
    available = {column.name for column in store.schema(level=scan.level)}
    columns = [name for name in names if name in available]
    if scan.has_time_range and "timestamp_ns" not in columns:
        columns.append("timestamp_ns")
    decoded = {column.name for column in sbe.columns} & set(names) if sbe is not None else set()
    if (decoded or (sbe is not None and sbe.needs_payload)) and PAYLOAD.name not in columns:
        columns.append(PAYLOAD.name)
    if not columns:
        columns = ["length"]  # only columns of other families were asked for; the rows still count
    faults = _Faults(part, split, scan)
    timeless = False
    for batch in store.scan_split(
        split, columns=columns, level=scan.level, max_rows=max_rows, max_bytes=BATCH_BYTES, on_fault=faults.sink
    ):
        if not batch.row_count:
            continue
        timeless = timeless or (scan.has_time_range and _is_timeless(batch))
        made = batch if sbe is None else sbe.extend(batch, decoded)
        if made.row_count:
            yield made
    if timeless:
        LOG.warning(
            "%s: stream %s has no times of records: startTime and endTime selected it as a whole, by the times in its "
            "descriptor; use timestampFrom to say where a record's time is",
            part.store.path,
            split.stream,
        )
    faults.close()


def _is_timeless(batch: Batch) -> bool:
    return batch.data["timestamp_ns"].null_count == batch.row_count


class _Faults:
    """Handles the damage in one split: raises an error, or logs some warnings and a count."""

    def __init__(self, part: StoreSplits, split: Split, scan: ScanOptions) -> None:
        self._part = part
        self._split = split
        self._skip = scan.on_fault == SKIP
        self._fail_on_data_loss = scan.fail_on_data_loss
        self._count = 0

    @property
    def sink(self) -> FaultSink:
        return self._add

    def _add(self, fault: Fault) -> None:
        path = self._part.store.path
        if not self._fail_on_data_loss and self._is_gone(fault):
            LOG.warning("%s: stream %s: removed after the query was planned: %s", path, self._split.stream, fault)
            return
        if self._fail_on_data_loss and self._is_gone(fault):
            raise DataLost(
                f"{path}/{fault.file}",
                found=f"{fault.found}: purged, truncated or deleted since the query was planned",
                expected=f"stream {self._split.stream} from {fault.address or 'its start'} on",
                hint="failOnDataLoss=false continues without it",
            )
        if fault.severity is Severity.FAULT and not self._skip:
            raise damage(path, fault, "reads the rest")
        self._count += 1
        if self._count <= MAX_WARNINGS:
            LOG.warning("%s: stream %s: %s", path, self._split.stream, fault)

    def _is_gone(self, fault: Fault) -> bool:
        """Whether data is missing because the store has removed it by now."""
        if fault.code not in CUT or fault.address is None:
            return fault.code in FILE_GONE
        store = self._part.store
        try:
            with open_store(store.path, family=store.family, **self._part.options) as now:
                return now.is_gone(self._split.stream, now.parse_address(fault.address))
        except EverlogError:
            return False

    def close(self) -> None:
        if self._count > MAX_WARNINGS:
            more = self._count - MAX_WARNINGS
            LOG.warning("%s: stream %s: %d more faults", self._part.store.path, self._split.stream, more)
