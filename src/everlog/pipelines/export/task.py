"""A task of an export: reads splits, and writes each to files of its own in the staging folder."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from everlog.core.columns import ColumnData
from everlog.core.report import Fault, Severity
from everlog.core.splits import Split
from everlog.core.store import PAYLOAD, Store
from everlog.discovery import FoundStore
from everlog.errors import (
    CorruptData,
    EverlogError,
    FileChanged,
    UnsupportedVersion,
)
from everlog.pipelines.choices import ExportFormat
from everlog.pipelines.export.files import HourFiles, StagedFile, by_hour
from everlog.pipelines.export.manifest import StreamKey
from everlog.pipelines.scan.arrow_batches import ArrowBatches, in_time
from everlog.pipelines.scan.options import SKIP, ScanOptions
from everlog.pipelines.scan.store_errors import FILE_GONE, damage, is_gone, removed, warn_of_sealed
from everlog.stores import open_store

if TYPE_CHECKING:
    import pyarrow as pa

MAX_SAMPLES = 20
"""Faults of a split that are reported individually; further ones are only counted."""
IDENTITY = ("length", "timestamp_ns", "crc32")
"""Columns of a stream's last record that are kept to recognise it, as far as they are read anyway."""


@dataclass(frozen=True, slots=True)
class SplitToExport:
    """A split of a stream. ``until`` is the start of the plan's next split, ``None`` for the last one."""

    number: int
    key: StreamKey
    store: FoundStore
    split: Split
    start: int
    until: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What all tasks of a run need. ``columns`` are the files' columns, ``folder`` is the staging folder."""

    scan: ScanOptions
    options: Mapping[str, Mapping[str, Any]]
    schema: Any
    columns: tuple[str, ...]
    kind: ExportFormat
    folder: str


@dataclass(frozen=True, slots=True)
class SplitResult:
    """The result of a split. ``first`` and ``last`` are addresses of the records read, even those outside the time
    range; ``resume`` is the lowest possible address of the next one. ``error``: why it could not be read; then it has
    no files."""

    number: int
    key: StreamKey
    first: int | None = None
    last: int | None = None
    resume: int | None = None
    files: tuple[StagedFile, ...] = ()
    fault_count: int = 0
    faults: tuple[Fault, ...] = ()
    identity: Mapping[str, Any] | None = None
    lost: str | None = None
    error: EverlogError | None = None


def run_task(work: Work, splits: list[SplitToExport]) -> Iterator[SplitResult]:
    """Export splits one after another. Damage and vanished data are part of the result rather than raised: a retried
    task would find the same."""
    for split in splits:
        try:
            with open_store(split.store.path, family=split.store.family, **work.options[split.store.family]) as store:
                yield _SplitExport(work, split, store).run()
        except EverlogError as error:
            if (lost := _passed_over(work.scan, error)) is not None:
                yield SplitResult(split.number, split.key, lost=lost)
            else:
                failure = removed(split.store, error, "export") if is_gone(error) else error
                yield SplitResult(split.number, split.key, error=failure)


def _passed_over(scan: ScanOptions, error: EverlogError) -> str | None:
    """The text of an error that the options allow to skip, otherwise ``None``."""
    if is_gone(error):
        return None if scan.fail_on_data_loss else str(error)
    is_damage = isinstance(error, CorruptData | UnsupportedVersion)
    return str(error) if is_damage and scan.on_fault == SKIP else None


@dataclass(slots=True)
class _SplitExport:
    """One split on its way into files."""

    work: Work
    todo: SplitToExport
    store: Store
    result: SplitResult = field(init=False)
    _files: HourFiles = field(init=False)
    _faults: list[Fault] = field(default_factory=list)
    _fault_count: int = 0

    def run(self) -> SplitResult:
        """Read the split and write its files; no file is left if that fails."""
        work, todo = self.work, self.todo
        self.result = SplitResult(todo.number, todo.key)
        # Unique: the first attempt of a retried task may still be running.
        prefix = f"part-{todo.number:06d}-{os.urandom(8).hex()}"
        self._files = HourFiles(work.folder, prefix, work.kind, work.schema)
        try:
            try:
                self._copy()
            except EverlogError as error:
                if (lost := _passed_over(work.scan, error)) is None:
                    raise
                self.result = replace(self.result, lost=lost)  # keep what was read before
            files = tuple(self._files.close())
        except BaseException:
            self._files.abandon()
            raise
        return replace(self.result, files=files, fault_count=self._fault_count, faults=tuple(self._faults))

    def _copy(self) -> None:
        import pyarrow as pa

        from everlog.pipelines.scan.columns import sbe_columns

        work, store = self.work, self.store
        sbe = sbe_columns(work.scan)
        available = [column.name for column in store.schema(level=work.scan.level)]
        extra = ["address", "timestamp_ns", "end_position", *store.address_columns]
        wanted = set(work.columns) | set(extra)
        decoded = {column.name for column in sbe.columns} & set(work.columns) if sbe is not None else set()
        if decoded or (sbe is not None and sbe.needs_payload):
            wanted.add(PAYLOAD.name)
        # Time and address are needed for each row, even if the files do not have these columns.
        needed = [pa.field("timestamp_ns", pa.int64()), pa.field("address", pa.string())]
        lacking = [field for field in needed if field.name not in work.schema.names]
        batches = ArrowBatches(pa.schema([*work.schema, *lacking]))
        columns = [name for name in available if name in wanted]
        for batch in store.scan_split(self.todo.split, columns=columns, level=work.scan.level, on_fault=self._on_fault):
            if not batch.row_count:
                continue
            self._take_place(batch)
            if sbe is not None:
                batch = sbe.extend(batch, decoded)
            made = batches.convert(batch)
            if work.scan.has_time_range:
                times = batch.data["timestamp_ns"]
                made = in_time(made, times, batch.row_count, work.scan.start_ns, work.scan.end_ns)
            if made.num_rows:
                self._write(made)

    def _write(self, rows: pa.RecordBatch) -> None:
        for hour, part in by_hour(rows, rows.column("timestamp_ns")):
            addresses = part.column("address")
            ends = addresses[0].as_py(), addresses[part.num_rows - 1].as_py()
            self._files.write(hour, part.select(self.work.schema.names), ends)

    def _take_place(self, batch: Any) -> None:
        """Record the batch's first and last address and the identity of its last record."""
        end = batch.row_count - 1
        addresses = batch.data["address"]
        first, last = (self.store.parse_address(value_at(addresses, row)) for row in (0, end))
        resume = last + 1
        if "end_position" in batch.data:
            resume = max(resume, int(batch.data["end_position"].values[end]))
        identity = {name: value_at(batch.data[name], end) for name in IDENTITY if name in batch.data}
        self.result = replace(
            self.result,
            first=first if self.result.first is None else self.result.first,
            last=last,
            resume=resume,
            identity={"address": last, **identity},
        )

    def _on_fault(self, fault: Fault) -> None:
        path = self.todo.store.path
        if fault.code in FILE_GONE:  # deleted by retention while being read, which is not damage
            lost = FileChanged(f"{path}/{fault.file}", offset=fault.offset, found=fault.found, expected=fault.expected)
            if self.work.scan.fail_on_data_loss:
                raise lost
            self.result = replace(self.result, lost=str(lost))
            return
        if fault.severity is Severity.NOTE:
            warn_of_sealed(path, fault)
            return
        if self.work.scan.on_fault != SKIP:
            raise damage(path, fault, "exports the rest")
        self._fault_count += 1
        if len(self._faults) < MAX_SAMPLES:
            self._faults.append(replace(fault, file=f"{path}/{fault.file}"))


def value_at(data: ColumnData, row: int) -> Any:
    """One value of a column of numbers or texts."""
    if data.validity is not None and not data.validity[row >> 3] >> (row & 7) & 1:
        return None
    if data.null_count and data.validity is None:
        return None
    if data.offsets is None:
        return data.values[row]
    return bytes(data.values[data.offsets[row] : data.offsets[row + 1]]).decode("utf-8", "replace")
