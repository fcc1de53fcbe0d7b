"""Frees what is safely exported, in stores that everlog can write. A plan comes first and changes nothing; exported
files are read back before anything is freed. Each family decides what can be removed: see :mod:`everlog.jlog.purging`,
:mod:`everlog.aeron.archive.purging`.

With a Delta table, every exported file must be one of the table's current files: the version of its transaction only
shows that they were once.

A stream is freed only if everything from its first record on was exported, with payloads, without skipped damage, and
regardless of the records' times. A crash leaves a store as the family's own purge leaves it; a repeated run finishes
it.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from everlog.core.family.purging import Purging
from everlog.core.family.record import load
from everlog.discovery import FoundStore
from everlog.errors import EverlogError, UsageError
from everlog.pipelines.balance import TASKS_PER_CORE, balance
from everlog.pipelines.export.delta import DeltaLog
from everlog.pipelines.export.folder import ExportFolder
from everlog.pipelines.export.manifest import ExportedStream, Manifest, StreamKey
from everlog.pipelines.export.plan import check_same, named_as_before
from everlog.pipelines.export.reading import FileToRead, check_files, files_of
from everlog.pipelines.scan.options import ScanOptions
from everlog.stores import family_named, open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SUBSCRIBER = "everlog-export"
NEEDED = frozenset({"length", "payload", "crc32"})
"""Columns that an export must have to replace what would be freed."""


@dataclass(slots=True)
class StreamPurge:
    """What to free of a stream: ``files``, which end before the address ``until``; or ``refused``, why nothing is
    freed. ``damaged``: the reason is that the export lacks records. ``freed``: the number of removed files, ``None`` if
    the purge did not run."""

    store: str
    family: str
    stream: str
    until: str = ""
    files: tuple[str, ...] = ()
    byte_count: int = 0
    refused: str | None = None
    damaged: bool = False
    freed: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain values."""
        return asdict(self) | {"files": list(self.files)}


def check_choice(scan: ScanOptions) -> None:
    """Raise :class:`UsageError` for a range: what is freed is selected by stores and streams alone, and ignoring a
    range silently would free other records than asked for."""
    ranges = {"start": scan.start, "end": scan.end, "startTime": scan.start_ns, "endTime": scan.end_ns}
    if given := [name for name, value in ranges.items() if value is not None]:
        names = ", ".join(given)
        message = f"option {names} does not apply to a purge, which frees all that is exported of a stream"
        raise UsageError(f"option {names}", found="a purge", message=message)


def purge_exported(
    spark: SparkSession,
    folder: str,
    stores: Sequence[FoundStore],
    scan: ScanOptions,
    options: Mapping[str, Mapping[str, Any]],
    *,
    do_it: bool,
    subscriber: str = SUBSCRIBER,
) -> list[StreamPurge]:
    """Free what the export in ``folder`` has of the streams that ``scan`` names; without ``do_it`` only report what
    would be freed. The exported files of a stream are read back first; if one is not as it was written, the stream is
    kept."""
    check_choice(scan)
    with ExportFolder(folder) as held:
        manifest = held.load(None)
        if manifest is None:
            return []
        plans = plan_purge(manifest, stores, scan, options, subscriber)
        wanted = [StreamKey(plan.store, plan.stream) for plan in plans if plan.refused is None and plan.files]
        wrong = _wrong(spark, held.path, manifest, wanted)
        for plan in plans:
            problem = wrong.get(StreamKey(plan.store, plan.stream))
            if problem is not None:
                plan.refused, plan.damaged = problem, True
            if do_it and plan.refused is None and plan.files:
                try:
                    plan.freed = _purging(plan.family).free(plan.store, plan.stream, plan.until, subscriber)
                except EverlogError as error:
                    plan.refused = str(error)
    return plans


def _wrong(spark: SparkSession, path: str, manifest: Manifest, keys: Sequence[StreamKey]) -> dict[StreamKey, str]:
    """Streams whose export lacks something, with the reason. The table is read last, since reading files back takes
    long."""
    changed = changed_files(spark, files_of(path, manifest, keys))
    found = {key: f"an exported file was changed or damaged: {problem}" for key, problem in changed.items()}
    return found if manifest.kind != "delta" or not keys else found | DeltaLog(path).lacking(manifest, keys)


def plan_purge(
    manifest: Manifest,
    stores: Sequence[FoundStore],
    scan: ScanOptions,
    options: Mapping[str, Mapping[str, Any]],
    subscriber: str,
) -> list[StreamPurge]:
    """What could be freed of each stream; changes nothing."""
    plans = []
    for found in named_as_before(stores, manifest):
        for key, stream in manifest.streams.items():
            if key.store != found.path or not _is_chosen(scan, key.stream):
                continue
            plan = StreamPurge(key.store, stream.family, key.stream)
            plans.append(plan)
            plan.refused = _refusal(manifest, stream)
            if plan.refused is None:
                try:
                    _plan_stream(plan, stream, options[found.family], subscriber)
                except EverlogError as error:
                    plan.refused = str(error)
    return plans


def _is_chosen(scan: ScanOptions, stream: str) -> bool:
    """Whether a stream was asked for, by name or pattern."""
    patterns = scan.streams
    return not patterns or any(stream == pattern or fnmatch.fnmatchcase(stream, pattern) for pattern in patterns)


def _refusal(manifest: Manifest, stream: ExportedStream) -> str | None:
    """Why nothing of the stream is safe to free, according to the manifest."""
    if family_named(stream.family).purging is None:
        return f"everlog does not write stores of family {stream.family}"
    if manifest.query.get("startTime") is not None or manifest.query.get("endTime") is not None:
        return "only records in a time range were exported"
    if manifest.query.get("sbeOnly"):
        return "records of other messages were left out"
    if manifest.query.get("level") != "record":
        return "frames were exported, not records"
    if lacking := NEEDED - {name for name, _ in manifest.columns}:
        return f"exported without {', '.join(sorted(lacking))}"
    if stream.fault_count:
        return "damage was skipped: repair may recover records that the export lacks"
    if not stream.ranges or stream.last is None:
        return "nothing is exported"
    return None


def _plan_stream(plan: StreamPurge, stream: ExportedStream, options: Mapping[str, Any], subscriber: str) -> None:
    """Plan to free the files that end before the end of what was exported from the stream's first record on."""
    assert stream.last is not None
    with open_store(plan.store, family=plan.family, **options) as store:
        info = next((info for info in store.streams() if info.name == plan.stream), None)
        if info is None:
            plan.refused = "the store no longer has this stream"
            return
        if not check_same(store, StreamKey(plan.store, plan.stream), info, stream):
            plan.refused = "the store no longer has the last exported record"
            return
        start, end = stream.ranges[0]
        if info.first is None or not start <= store.parse_address(info.first) < end:
            plan.refused = "the stream's first record is not exported"
            return
        last = int(stream.last["address"])
        if last >= end:
            plan.refused = "what is exported has gaps"  # the last record is after one of them
            return
        found = _purging(plan.family).plan(store, plan.stream, last=last, end=end, subscriber=subscriber)
    plan.until, plan.files, plan.byte_count, plan.refused = found.until, found.files, found.byte_count, found.refused


def _purging(family: str) -> Purging:
    found: Purging = load(str(family_named(family).purging))()
    return found


def changed_files(spark: SparkSession, files: Sequence[FileToRead]) -> dict[StreamKey, str]:
    """Read files back in parallel and check their checksums, row counts, and each row's payload against the length and
    CRC-32 that it had in the store. Returns the first problem of each stream that has one."""
    context = spark.sparkContext
    count = context.defaultParallelism * TASKS_PER_CORE
    groups = balance(files, lambda file: file.file.byte_count, count)
    if not groups:
        return {}
    found = context.parallelize(groups, len(groups)).flatMap(check_files).collect()
    wrong: dict[StreamKey, str] = {}
    for key, problem in found:
        wrong.setdefault(key, problem)
    return wrong
