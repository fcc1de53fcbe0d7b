"""The faults of many stores as a table, a row for each fault that a query over them would find."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from everlog.core.columns import Column, ColumnType
from everlog.core.report import Fault
from everlog.core.store import PAYLOAD
from everlog.discovery import FoundStore
from everlog.errors import (
    CorruptData,
    EverlogError,
    FileChanged,
    KeyRefused,
    StoreUnavailable,
    UnknownStream,
    UnsupportedVersion,
)
from everlog.pipelines.scan.options import ScanOptions
from everlog.pipelines.scan.planning import ScanTask, plan
from everlog.pipelines.scan.store_errors import is_gone, out_of_reach
from everlog.stores import open_store

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS = tuple(
    Column(name, ColumnType.INT64 if name == "offset" else ColumnType.UTF8, text)
    for name, text in {
        "store": "the folder",
        "family": "its family",
        "stream": "null for a fault of the whole store",
        "address": "of the first affected record, if there is one",
        "code": "see docs/verify.md",
        "severity": "fault or note",
        "file": "in the store",
        "offset": "in the file; null for a fault of the whole file",
        "found": "what is there",
        "expected": "what should be",
        "loses": "what a reader loses",
        "repair": "what can be done",
    }.items()
)

UNREADABLE = "store-unreadable"
STORE_GONE = "store-gone"
"""Codes of rows that no family's reader reports: a store that can't be opened, and one that vanished."""

_VERIFY = "everlog repair shows what can be repaired; otherwise restore the file from a copy"
_BRING_BACK = "restore the store, or leave it out of the query"

MAX_FAULTS = 100_000
"""Most faults of one split; a last row gives the number of further ones."""
TOO_MANY = "more-faults"
BATCH_ROWS = 1024


@dataclass
class _Collector:
    """Faults of one split."""

    store: FoundStore
    stream: str
    rows: list[dict[str, Any]] = field(default_factory=list)
    count: int = 0

    def add(self, fault: Fault) -> None:
        self.count += 1
        if self.count <= MAX_FAULTS:
            self.rows.append(_row(self.store, fault, self.stream))

    def take(self) -> list[dict[str, Any]]:
        rows, self.rows = self.rows, []
        return rows

    def rest(self) -> list[dict[str, Any]]:
        if self.count > MAX_FAULTS:
            more = Fault(TOO_MANY, "", None, f"{self.count - MAX_FAULTS} more", f"at most {MAX_FAULTS}", "see them all")
            self.rows.append(_row(self.store, more, self.stream))
        return self.take()


def plan_faults(
    stores: list[FoundStore], scan: ScanOptions, options: Mapping[str, Mapping[str, Any]]
) -> list[ScanTask]:
    """Tasks that report each fault that a query would find."""
    known: list[dict[str, Any]] = []
    tasks = plan(stores, scan, options, on_error=lambda store, error: known.append(_of_error(store, error)))
    return [*tasks, ScanTask((), tuple(known))] if known else tasks


def read_faults(task: ScanTask, schema: pa.Schema, scan: ScanOptions) -> Iterator[pa.RecordBatch]:
    """Batches of the faults' rows, with the columns of ``schema``."""
    import pyarrow as pa

    rows: list[dict[str, Any]] = []
    for found in _rows(task, scan):
        rows += found
        if len(rows) >= BATCH_ROWS:
            yield pa.RecordBatch.from_pylist(rows, schema=schema)
            rows = []
    if rows:
        yield pa.RecordBatch.from_pylist(rows, schema=schema)


def _rows(task: ScanTask, scan: ScanOptions) -> Iterator[list[dict[str, Any]]]:
    yield list(task.faults)
    for part in task.parts:
        collector = _Collector(part.store, "")
        try:
            with open_store(part.store.path, family=part.store.family, **part.options) as store:
                columns = [c.name for c in store.schema(level=scan.level) if c.name == PAYLOAD.name]
                for split in part.splits:
                    collector = _Collector(part.store, split.stream)
                    # Read payloads, too: decoding compressed and encrypted ones finds their damage.
                    for _ in store.scan_split(split, columns=columns, level=scan.level, on_fault=collector.add):
                        yield collector.take()
                    yield collector.rest()
        except (StoreUnavailable, FileChanged, UnknownStream) as error:
            if not is_gone(error):
                raise out_of_reach(part.store, error) from error
            if scan.fail_on_data_loss:
                raise
            yield [*collector.rest(), _of_error(part.store, error)]
        except (CorruptData, UnsupportedVersion, KeyRefused) as error:
            yield [*collector.rest(), _of_error(part.store, error)]


def _row(store: FoundStore, fault: Fault, stream: str | None) -> dict[str, Any]:
    row = fault.to_dict() | {"store": store.path, "family": store.family}
    return row | {"stream": fault.stream or stream or None}


def _of_error(store: FoundStore, error: EverlogError) -> dict[str, Any]:
    """A row for a store of which no more can be read."""
    is_damage = isinstance(error, CorruptData | UnsupportedVersion | KeyRefused)
    code = UNREADABLE if is_damage else STORE_GONE
    fault = Fault(
        code,
        error.where.removeprefix(store.path).lstrip("/"),
        error.offset,
        error.found or str(error),
        error.expected or "a store",
        loses="the store's records",
        repair=error.hint or (_VERIFY if is_damage else _BRING_BACK),
    )
    return _row(store, fault, None)
