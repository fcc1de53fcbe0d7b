"""Freeing what is safely exported, in stores that everlog writes. What is freed was read back before; a plan comes
first, which changes nothing.

* JLog: a subscriber of the export's own is moved to the last exported message; then segments go that no subscriber
  needs any more. Other subscribers keep what they have not read.
* Aeron archive: segments go that lie wholly before the end of what was exported; the last one of a recording stays. The
  archive must not run, for it owns the folder.

Of a Delta table, every exported file must be among those that the table is made of: its transaction's version says only
that they were once.

A stream is freed only where everything from its first record on was exported, with payloads, without damage passed
over, and whatever the records' times. A crash leaves a store as the same operations leave it when they are made by
group: see :mod:`everlog.jlog.subscribing.removal`, :mod:`everlog.aeron.archive.maintenance.maintenance`. The same again
finishes it."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from everlog.discovery import FoundStore
from everlog.errors import EverlogError, SubscriberExists, UsageError
from everlog.pipelines.balance import TASKS_PER_CORE, balance
from everlog.pipelines.export.delta import DeltaLog
from everlog.pipelines.export.folder import ExportFolder
from everlog.pipelines.export.manifest import ExportedStream, Manifest, StreamKey
from everlog.pipelines.export.plan import check_same, named_as_before
from everlog.pipelines.export.reading import FileToRead, check_files, files_of
from everlog.pipelines.scan.options import ScanOptions
from everlog.stores import open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SUBSCRIBER = "everlog-export"
OURS = ("aeron-archive", "jlog")
NEEDED = frozenset({"length", "payload", "crc32"})
"""Columns without which what was exported is not what would be freed."""


@dataclass(slots=True)
class StreamPurge:
    """What of a stream is to be freed: ``files`` before the address ``until``, or why nothing (``refused``).
    ``damaged``: that is because the export does not have what it should. ``freed``: how many files went, ``None`` where
    it was not done."""

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
        """Plain values."""
        return asdict(self) | {"files": list(self.files)}


def check_choice(scan: ScanOptions) -> None:
    """What is freed is chosen by stores and streams alone. Raises :class:`UsageError` for a range: left out in silence
    it would free other records than asked for."""
    ranges = {"start": scan.start, "end": scan.end, "startTime": scan.start_ns, "endTime": scan.end_ns}
    if given := [name for name, value in ranges.items() if value is not None]:
        expected = "stores and streams: of each what is exported is freed"
        raise UsageError(f"option {', '.join(given)}", found="a purge of what is exported", expected=expected)


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
    """Free what the export in ``folder`` has of the streams that ``scan`` names; without ``do_it`` only say what would
    be. The files of a stream that is to be freed are read back first: one that is not as it was written keeps the
    stream."""
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
                    plan.freed = _FREE[plan.family](plan, subscriber)
                except EverlogError as error:
                    plan.refused = str(error)
    return plans


def _wrong(spark: SparkSession, path: str, manifest: Manifest, keys: Sequence[StreamKey]) -> dict[StreamKey, str]:
    """Streams of which the export lacks something, and what. The table is asked last: reading files back takes long."""
    changed = changed_files(spark, files_of(path, manifest, keys))
    found = {key: f"an exported file is not as it was written: {problem}" for key, problem in changed.items()}
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
                    _look(plan, stream, options[found.family], subscriber)
                except EverlogError as error:
                    plan.refused = str(error)
    return plans


def _is_chosen(scan: ScanOptions, stream: str) -> bool:
    """Whether a stream is one of those that were asked for, by name or pattern."""
    patterns = scan.streams
    return not patterns or any(stream == pattern or fnmatch.fnmatchcase(stream, pattern) for pattern in patterns)


def _refusal(manifest: Manifest, stream: ExportedStream) -> str | None:
    """Why nothing of the stream is safe to free, as far as the manifest says."""
    if stream.family not in OURS:
        return f"everlog does not write stores of family {stream.family}"
    if manifest.query.get("startTime") is not None or manifest.query.get("endTime") is not None:
        return "records were chosen by their time"
    if manifest.query.get("sbeOnly"):
        return "records of other messages were left out"
    if manifest.query.get("level") != "record":
        return "frames were exported, not records"
    if lacking := NEEDED - {name for name, _ in manifest.columns}:
        return f"exported without {', '.join(sorted(lacking))}"
    if stream.fault_count:
        return "damage was passed over: repair may bring back what the export lacks"
    if not stream.ranges or stream.last is None:
        return "nothing is exported"
    return None


def _look(plan: StreamPurge, stream: ExportedStream, options: Mapping[str, Any], subscriber: str) -> None:
    """What lies wholly before the end of what was exported from the stream's first record on."""
    assert stream.last is not None
    with open_store(plan.store, family=plan.family, **options) as store:
        info = next((info for info in store.streams() if info.name == plan.stream), None)
        if info is None:
            plan.refused = "the store has no such stream any more"
            return
        if not check_same(store, StreamKey(plan.store, plan.stream), info, stream):
            plan.refused = "the last exported record is not there any more"
            return
        start, end = stream.ranges[0]
        if info.first is None or not start <= store.parse_address(info.first) < end:
            plan.refused = "the stream's first record is not exported"
            return
        last = int(stream.last["address"])
        if last >= end:
            plan.refused = "what is exported has gaps"  # then the last record is behind one of them
            return
        if plan.family == "jlog":
            plan.until = store.format_address(last)
            _look_at_journal(plan, last >> 32, store.storage, subscriber)
        else:
            plan.until = store.format_address(end)
            _look_at_recording(plan, end, store)


def _look_at_journal(plan: StreamPurge, log: int, storage: Any, subscriber: str) -> None:
    from everlog.jlog.format.checkpoints import read_checkpoints
    from everlog.jlog.format.names import segment_name
    from everlog.jlog.reading.journal import Journal

    journal = Journal.read(storage)
    others = [cp for cp in read_checkpoints(storage, storage.names()) if cp.subscriber != subscriber]
    if any(checkpoint.log is None for checkpoint in others):
        plan.refused = "a subscriber's checkpoint can't be read: nobody knows what it needs"
        return
    limit = min([log, journal.metastore.storage_log or 0, *(cp.log for cp in others if cp.log is not None)])
    going = [segment for segment in journal.segments if segment.log < limit]
    plan.files = tuple(segment_name(segment.log) for segment in going)
    plan.byte_count = sum(segment.byte_count for segment in going)


def _look_at_recording(plan: StreamPurge, end: int, store: Any) -> None:
    from everlog.aeron.archive.maintenance.maintenance import purge_position
    from everlog.aeron.archive.maintenance.recording_state import RecordingState

    state = RecordingState.of(store.folder.recording(plan.stream), store.storage.names())
    position = purge_position(state, before_position=end)
    going = [base for base in state.bases if state.first_base <= base < position]
    plan.files = tuple(map(state.name, going)) if position > state.start else ()
    plan.byte_count = sum(store.storage.size(name) for name in plan.files)


def _free_journal(plan: StreamPurge, subscriber: str) -> int:
    """The subscriber's checkpoint moves first, and on the disk; then segments go."""
    from everlog.jlog import add_subscriber
    from everlog.jlog.format.addresses import Address
    from everlog.jlog.subscribing.removal import remove_consumed
    from everlog.jlog.subscribing.subscriptions import read_checkpoint, write_checkpoint

    with suppress(SubscriberExists):
        add_subscriber(plan.store, subscriber)
    last = Address.parse(plan.until)
    if read_checkpoint(plan.store, subscriber) < last:
        write_checkpoint(plan.store, subscriber, last, sync=True)
    return len(remove_consumed(plan.store, below=last.log))


def _free_recording(plan: StreamPurge, subscriber: str) -> int:
    from everlog.aeron.archive import open_archive

    with open_archive(plan.store) as archive:
        recording_id = int(plan.stream)
        position = archive.purge_position(recording_id, before_position=int(plan.until))
        if position <= archive.start_position(recording_id):
            return 0
        return archive.purge_segments(recording_id, position)


_FREE = {"jlog": _free_journal, "aeron-archive": _free_recording}


def changed_files(spark: SparkSession, files: Sequence[FileToRead]) -> dict[StreamKey, str]:
    """Read files back, in parallel: sum of the bytes, count of the rows, and of each row whether its payload has the
    length and the CRC-32 that it had in the store. What is wrong first with each stream; a stream without fault is not
    in it."""
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
