"""The tasks of ``stats``: scan splits without payloads and fold them where they are read, so that Spark does not handle
a row for each record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from everlog.core.counting import counted
from everlog.core.report import Fault
from everlog.core.splits import Split
from everlog.core.store import Level, Store
from everlog.errors import (
    CorruptData,
    EverlogError,
    FileChanged,
    KeyRefused,
    StoreUnavailable,
    UnknownStream,
    UnsupportedVersion,
)
from everlog.pipelines.scan.planning import ScanTask
from everlog.pipelines.scan.store_errors import is_gone, out_of_reach
from everlog.pipelines.stats.fold import (
    Bools,
    Buckets,
    Int64s,
    Record,
    Records,
    StreamFold,
)
from everlog.pipelines.stats.rows import EDGE, FAULT, GAP, LOST, StreamName, detail_rows, fold_rows
from everlog.stores import family_named, open_store

if TYPE_CHECKING:
    import pyarrow as pa

    from everlog.discovery import FoundStore

MAX_FAULTS = 1000
"""Most faults reported for one split."""
POSITION_BUCKETS = 128
MIN_POSITION_WIDTH = 4096
"""A stream without times is divided into about this many position buckets, none narrower than this."""
CLIENT, KIND, CLIENT_KIND = "cluster_session_id", "kind", "session-message"
"""Columns of Aeron Cluster that identify a message's sender."""


@dataclass(frozen=True, slots=True)
class FoldTask:
    """What a task scans: splits of one store, and the bucket width for each split's stream."""

    store: FoundStore
    options: dict[str, Any]
    splits: tuple[Split, ...]
    widths: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Folding:
    """How to fold; the same for all tasks."""

    bucket_ns: int
    level: Level
    start_ns: int | None
    end_ns: int | None
    fail_on_data_loss: bool


def run_fold_tasks(how: Folding, tasks: Sequence[FoldTask]) -> Iterator[pa.RecordBatch]:
    """Run a task; yields rows of :data:`everlog.pipelines.stats.rows.SCHEMA`."""
    for task in tasks:
        yield from run_fold_task(task, how)


def fold_tasks(tasks: Sequence[ScanTask]) -> list[list[FoldTask]]:
    """What each task scans, with the bucket widths, which depend on the size of the whole stream."""
    sizes: dict[tuple[str, str], int] = {}
    for task in tasks:
        for part in task.parts:
            for split in part.splits:
                key = part.store.path, split.stream
                sizes[key] = sizes.get(key, 0) + split.byte_count
    return [
        [
            FoldTask(
                part.store,
                dict(part.options),
                part.splits,
                tuple(position_width(sizes[part.store.path, split.stream]) for split in part.splits),
            )
            for part in task.parts
        ]
        for task in tasks
    ]


def position_width(byte_count: int) -> int:
    """The width of position buckets, a power of two."""
    return max(MIN_POSITION_WIDTH, 1 << max(byte_count // POSITION_BUCKETS, 1).bit_length())


def run_fold_task(task: FoldTask, how: Folding) -> Iterator[pa.RecordBatch]:
    """Rows of the splits. What can no longer be read becomes a row ``lost``, or an error if data loss is one."""
    try:
        with open_store(task.store.path, family=task.store.family, **task.options) as store:
            for split, width in zip(task.splits, task.widths, strict=True):
                yield from _scan_split(store, split, width, how)
    except (StoreUnavailable, FileChanged, UnknownStream) as error:
        if not is_gone(error):
            raise out_of_reach(task.store, error) from error
        if how.fail_on_data_loss:
            raise
        yield _lost(task, error)
    except (CorruptData, UnsupportedVersion, KeyRefused) as error:
        yield _lost(task, error)


def _lost(task: FoldTask, error: EverlogError) -> pa.RecordBatch:
    name = StreamName(task.store.path, task.store.family, "")
    return next(detail_rows(name, LOST, [{"error": str(error)}]))


def _scan_split(store: Store, split: Split, width: int, how: Folding) -> Iterator[pa.RecordBatch]:
    name = StreamName(store.path, store.family, split.stream)
    fold = new_fold(store.family, how, width)
    faults: list[Fault] = []
    count = 0

    def on_fault(fault: Fault) -> None:
        nonlocal count
        count += 1
        if count <= MAX_FAULTS:
            faults.append(fault)

    available = {column.name for column in store.schema(level=how.level)}
    columns = ["timestamp_ns", "length", *store.address_columns, *({CLIENT, KIND} if CLIENT in available else ())]
    for batch in store.scan_split(split, columns=columns, level=how.level, on_fault=on_fault):
        if batch.row_count:
            fold.add(to_records(batch, store.address_columns))
    yield from fold_rows(name, fold)
    yield from detail_rows(name, GAP, (gap_detail(store, gap) for gap in fold.gaps))
    yield from detail_rows(name, FAULT, (fault.to_dict() for fault in faults))
    if count > MAX_FAULTS:
        yield from detail_rows(
            name, LOST, [{"error": f"{counted(count - MAX_FAULTS, 'more fault')} in stream {split.stream}"}]
        )
    yield from detail_rows(name, EDGE, [_edge(store, split, fold)])


def new_fold(family: str, how: Folding, width: int) -> StreamFold:
    """A fold for one stream of a family."""
    return StreamFold(
        by_time=Buckets(how.bucket_ns),
        by_position=Buckets(width),
        missing=family_named(family).missing_between if how.level is Level.RECORD else None,
        start_ns=how.start_ns,
        end_ns=how.end_ns,
    )


def gap_detail(store: Store, gap: Any) -> dict[str, Any]:
    """A gap with its addresses as text."""
    after, before = store.format_address(gap.after), store.format_address(gap.before)
    times = {"after_ns": gap.after_ns, "before_ns": gap.before_ns}
    return {"after": after, "before": before, "missing": gap.missing, **times}


def _edge(store: Store, split: Split, fold: StreamFold) -> dict[str, Any]:
    def end(record: Record | None) -> list[Any] | None:
        return None if record is None else [record.address, record.time_ns, store.format_address(record.address)]

    ends = {"first": end(fold.first), "last": end(fold.last), "ends_ns": fold.ends_ns}
    return {"start": split.start, "end": split.end, **ends}


def to_records(batch: Any, address_columns: tuple[str, ...]) -> Records:
    """A batch of a scan, or of Spark, as arrays."""
    import pyarrow as pa
    import pyarrow.compute as pc

    held: pa.RecordBatch = batch if isinstance(batch, pa.RecordBatch) else pa.record_batch(batch)
    parts = [_numbers(held.column(name)) for name in address_columns]
    addresses = parts[0] if len(parts) == 1 else (parts[0] << 32) | parts[1]
    times = held.column("timestamp_ns")
    timed: Bools = np.asarray(times.is_valid())
    clients = None
    if CLIENT in held.schema.names:
        sent = pc.equal(held.column(KIND), CLIENT_KIND) if KIND in held.schema.names else held.column(CLIENT).is_valid()
        clients = _numbers(pc.if_else(sent, held.column(CLIENT), 0))
    return Records(
        addresses=addresses,
        lengths=_numbers(held.column("length")),
        times=_numbers(times),
        timed=timed,
        clients=clients,
    )


def _numbers(column: Any) -> Int64s:
    filled = column.fill_null(0) if column.null_count else column
    found: Int64s = np.asarray(filled.to_numpy(zero_copy_only=False)).astype(np.int64, copy=False)
    return found
