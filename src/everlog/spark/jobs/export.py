"""Exports records of many stores into Parquet, Arrow or JSON lines files, or a Delta table, by store, stream and hour.
Repeated exports into the same folder add what is new; each record is there once.

Tasks read splits and write staged files; the driver makes them part of the export, some splits at a time (see
:mod:`everlog.pipelines.export.folder`). A run that is killed at any moment leaves what its commits have; the next run
does the rest.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from everlog.core.columns import Column
from everlog.core.derived import ADDRESS, CRC32, STORE, STREAM
from everlog.core.options import check_choice
from everlog.core.report import Fault, Progress
from everlog.discovery import FoundStore, find_stores
from everlog.errors import UsageError
from everlog.pipelines.balance import balance
from everlog.pipelines.choices import EXPORT_FORMATS, ExportFormat
from everlog.pipelines.export.delta import DeltaLog
from everlog.pipelines.export.folder import ExportFolder
from everlog.pipelines.export.manifest import Manifest, Placing, StreamKey
from everlog.pipelines.export.plan import (
    Plan,
    check_query,
    columns_of_all,
    exported,
    named_as_before,
    plan_export,
    query_beside,
    waves,
)
from everlog.pipelines.export.task import SplitResult, SplitToExport, Work, run_task
from everlog.pipelines.scan.arrow_batches import columns_schema
from everlog.pipelines.scan.option_checks import check_records
from everlog.pipelines.scan.options import TIMESTAMP_FROM, ScanOptions, parse_options
from everlog.spark.jobs.progress import TaskProgress
from everlog.spark.jobs.purge import SUBSCRIBER, StreamPurge, purge_exported

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COMMIT_BYTES = 2 << 30
"""About how much is exported between two commits, and so the most that a killed run has to repeat."""
MAX_SAMPLES = 100
"""Most faults that a summary lists in full."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """What to export, and where to. ``options`` are the data source's, including paths (see
    :func:`everlog.pipelines.scan.options.parse_options`)."""

    options: Mapping[str, str]
    folder: str
    kind: ExportFormat = "parquet"
    commit_bytes: int = COMMIT_BYTES

    def __post_init__(self) -> None:
        check_choice("format", self.kind, EXPORT_FORMATS)
        if self.commit_bytes < 1:
            raise UsageError("commit_bytes", found=str(self.commit_bytes), expected="at least 1")


@dataclass(slots=True)
class StreamSummary:
    """What a run did for a stream; ``total_rows`` counts all runs."""

    family: str
    rows: int = 0
    byte_count: int = 0
    files: int = 0
    faults: int = 0
    total_rows: int = 0


@dataclass(slots=True)
class ExportSummary:
    """What a run did. ``faults``: the first faults that were skipped; ``losses``: records removed before they could be
    exported, and stores that could not be opened."""

    folder: str
    kind: ExportFormat
    generation: int = 0
    streams: dict[StreamKey, StreamSummary] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    losses: list[str] = field(default_factory=list)

    @property
    def rows(self) -> int:
        """The number of records that this run exported."""
        return sum(stream.rows for stream in self.streams.values())

    @property
    def fault_count(self) -> int:
        """The number of faults that were skipped."""
        return sum(stream.faults for stream in self.streams.values())

    @property
    def exit_code(self) -> int:
        """1 if something was skipped, otherwise 0."""
        return 1 if self.fault_count or self.losses else 0

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as ``--json`` prints them."""
        return {
            "folder": self.folder,
            "format": self.kind,
            "generation": self.generation,
            "records": self.rows,
            "streams": [
                {
                    "store": key.store,
                    "family": one.family,
                    "stream": key.stream,
                    "records": one.rows,
                    "bytes": one.byte_count,
                    "files": one.files,
                    "faults": one.faults,
                    "total_records": one.total_rows,
                }
                for key, one in self.streams.items()
            ],
            "faults": [fault.to_dict() for fault in self.faults],
            "losses": self.losses,
        }


def export(spark: SparkSession, wish: Export, progress: Progress | None = None) -> ExportSummary:
    """Export what the folder does not have yet. ``progress`` is called with byte counts.

    Raises :class:`UsageError` for options that differ from earlier runs', :class:`CorruptData` for damage (unless the
    option ``onFault`` is ``skip``), for a stream that is not the one exported before, and for records removed before
    they were exported (unless ``failOnDataLoss`` is ``false``); :class:`WriteFailed`. What was committed until then
    stays, and the next run continues from there.
    """
    from everlog.pipelines.scan.columns import family_options

    scan = parse_options(wish.options)
    check_records(scan, "export")
    if scan.family_options.get("pre_commit"):
        raise UsageError(
            "option preCommit",
            found="true",
            message="option preCommit does not apply to an export: buffered messages have no address before the flush",
        )
    stores = _stores(scan)
    _check_place(wish.folder, stores)
    options = family_options(stores, scan)
    # Find mistakes in the request before the folder is created.
    columns = _columns(stores, scan, options)
    table = DeltaLog(os.path.abspath(wish.folder)) if wish.kind == "delta" else None
    with ExportFolder(wish.folder) as folder:
        return _Run(spark, wish, scan, stores, options, columns, table, folder, progress).run()


def purge(spark: SparkSession, wish: Export, *, do_it: bool = False, subscriber: str = SUBSCRIBER) -> list[StreamPurge]:
    """Free what is exported of the stores that ``wish`` names; without ``do_it`` only return what would be freed. See
    :mod:`everlog.spark.jobs.purge`."""
    from everlog.pipelines.scan.columns import family_options

    scan = parse_options(wish.options)
    stores = _stores(scan)
    known = family_options(stores, scan)
    return purge_exported(spark, wish.folder, stores, scan, known, do_it=do_it, subscriber=subscriber)


def _stores(scan: ScanOptions) -> list[FoundStore]:
    """The stores by absolute path, independent of the working folder."""
    return [replace(store, path=_absolute(store.path)) for store in find_stores(scan.paths, scan.family)]


def _absolute(path: str) -> str:
    return path if "://" in path else os.path.abspath(path)


def _columns(stores: list[FoundStore], scan: ScanOptions, options: Mapping[str, Mapping[str, Any]]) -> list[Column]:
    """A file's columns. Raises :class:`UsageError` for a column that no store has."""
    from everlog.pipelines.scan.columns import default_columns, table_columns

    table = table_columns(stores, scan, options)
    chosen = list(default_columns(table, scan))
    names = {column.name for column in chosen}
    if scan.columns is None and CRC32.name not in names:
        chosen += [column for column in table if column.name == CRC32.name]
    if ADDRESS.name not in names:
        chosen.insert(0, next(column for column in table if column.name == ADDRESS.name))
    # Store and stream are in the folders' names.
    return [replace(column, nullable=True) for column in chosen if column.name not in (STORE.name, STREAM.name)]


def _check_place(folder: str, stores: list[FoundStore]) -> None:
    place = os.path.realpath(folder)
    for store in stores:
        if "://" not in store.path and f"{place}/".startswith(f"{os.path.realpath(store.path)}/"):
            message = f"{folder} is inside the store {store.path}; export to a folder outside of it"
            raise UsageError(folder, found="a folder inside a store", expected="a folder outside", message=message)


@dataclass(slots=True)
class _Run:
    """One run."""

    spark: SparkSession
    wish: Export
    scan: ScanOptions
    stores: list[FoundStore]
    options: Mapping[str, Mapping[str, Any]]
    columns: list[Column]
    table: DeltaLog | None
    folder: ExportFolder
    progress: Progress | None
    _results: list[SplitResult] = field(default_factory=list)

    def run(self) -> ExportSummary:
        """Export wave by wave."""

        table, columns = self.table, self.columns
        manifest = self.folder.load(None if table is None else table.generation)
        if table is not None:
            table.check(manifest)
        if manifest is not None and self.scan.columns is None:
            columns = columns_of_all(manifest, columns, self.options)
        if manifest is not None:
            self.stores = named_as_before(self.stores, manifest)
        schema = columns_schema(columns)
        types = tuple((field.name, str(field.type)) for field in schema)
        query = self._query() if manifest is None else query_beside(manifest, self._query(), self.options)
        manifest = manifest or Manifest(kind=self.wish.kind, query=query, columns=types)
        check_query(manifest, query, self.wish.kind, types)
        summary = ExportSummary(self.folder.path, self.wish.kind, manifest.generation)
        plan = plan_export(self.stores, self.scan, self.options, manifest)
        summary.losses += plan.left_out + plan.losses
        for key, family in plan.families.items():
            before = manifest.streams.get(key)
            summary.streams[key] = StreamSummary(family, total_rows=0 if before is None else before.row_count)
        staging = self.folder.stage(uuid.uuid4().hex)
        work = Work(
            scan=self.scan,
            options=self.options,
            schema=schema,
            columns=tuple(schema.names),
            kind=self.wish.kind,
            folder=os.path.join(self.folder.path, staging),
        )
        add_to_table = None if table is None else partial(table.commit, schema)
        for new in self._waves(plan, work):
            manifest = self._commit(manifest, plan, new, staging, add_to_table)
            self._sum_up(summary, manifest, new)
            self._raise_first(new)
        self.folder.unstage(staging)
        return summary

    def _query(self) -> dict[str, Any]:
        """What determines the records and their content."""
        scan = self.scan
        return {
            "level": scan.level.value,
            "startTime": scan.start_ns,
            "endTime": scan.end_ns,
            "timestampFrom": scan.family_options.get(TIMESTAMP_FROM),
            "sbeMessage": scan.sbe_message,
            **({"sbeOnly": True} if scan.sbe_only else {}),
        }

    def _waves(self, plan: Plan, work: Work) -> Iterator[list[SplitResult]]:
        context = self.spark.sparkContext
        total = sum(split.split.byte_count for split in plan.splits)
        done = 0
        for wave in waves(plan.splits, self.wish.commit_bytes):
            size = sum(split.split.byte_count for split in wave)
            groups = balance(wave, lambda split: split.split.byte_count, context.defaultParallelism * 2)
            with TaskProgress(self.spark, "export", self._share(done, size, total)):
                found = self._collect(context, work, groups)
            yield found
            done += size

    def _collect(self, context: Any, work: Work, groups: list[list[SplitToExport]]) -> list[SplitResult]:
        tasks = context.parallelize(groups, len(groups)).flatMap(lambda group: run_task(work, group))
        found: list[SplitResult] = tasks.collect()
        return found

    def _share(self, done: int, size: int, total: int) -> Progress | None:
        progress = self.progress
        if progress is None:
            return None
        return lambda what, tasks, of: progress(what, done + size * tasks // max(of, 1), total)

    def _commit(
        self,
        manifest: Manifest,
        plan: Plan,
        new: list[SplitResult],
        staging: str,
        add_to_table: Callable[[Manifest], None] | None,
    ) -> Manifest:
        """Make what is done part of the export; ``add_to_table`` commits it to a Delta table."""
        good = [result for result in new if result.error is None]
        self._results += good
        streams = exported(manifest.streams, plan, self._results, good)
        if streams == manifest.streams:
            return manifest
        had = {file.path for stream in manifest.streams.values() for file in stream.files}
        paths = [file.path for stream in streams.values() for file in stream.files if file.path not in had]
        placing = Placing(staging, tuple((os.path.basename(path), path) for path in paths))
        manifest = replace(manifest, generation=manifest.generation + 1, streams=streams, placing=placing)
        self.folder.commit(manifest, add_to_table)
        return manifest

    def _sum_up(self, summary: ExportSummary, manifest: Manifest, new: list[SplitResult]) -> None:
        summary.generation = manifest.generation
        for result in new:
            stream = summary.streams[result.key]
            stream.rows += sum(file.rows for file in result.files)
            stream.byte_count += sum(file.byte_count for file in result.files)
            stream.files += len(result.files)
            stream.faults += result.fault_count
            summary.faults += result.faults[: max(MAX_SAMPLES - len(summary.faults), 0)]
            if result.lost is not None:
                summary.losses.append(f"{result.key.store}: stream {result.key.stream}: {result.lost}")
        for key, stream in summary.streams.items():
            if key in manifest.streams:
                stream.total_rows = manifest.streams[key].row_count

    def _raise_first(self, new: list[SplitResult]) -> None:
        """Raise the error of the first split that could not be read; the others are committed."""
        failed = [result for result in sorted(new, key=lambda result: result.number) if result.error is not None]
        if failed and failed[0].error is not None:
            raise failed[0].error


__all__ = ["COMMIT_BYTES", "Export", "ExportSummary", "StreamSummary", "export"]
