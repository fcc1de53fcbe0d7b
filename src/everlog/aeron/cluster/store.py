"""A cluster node's folder as a store: its streams are the log and each snapshot, their records the cluster's messages,
their addresses positions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

from everlog.aeron.archive.folder.archive import CHECKSUMS
from everlog.aeron.archive.folder.recordings import Recording, invalid_note
from everlog.aeron.archive.store import ArchiveStore
from everlog.aeron.cluster.folder.archive import ArchiveFolder, find_archive
from everlog.aeron.cluster.folder.scanning import (
    COLUMNS,
    LOG,
    MessageContext,
    archive_faults,
    raw_messages,
    walk_messages,
)
from everlog.aeron.cluster.folder.snapshot import SnapshotContent, read_content, service_label, snapshot_entries
from everlog.aeron.cluster.format.mark_file import LINK_NAME, MARK_NAME, ClusterMark, load_mark, service_mark_names
from everlog.aeron.cluster.format.messages import UNIT_NS, decode_message
from everlog.aeron.cluster.format.node_state_file import NODE_STATE_NAME, NodeState, read_node_state
from everlog.aeron.cluster.format.recording_log import (
    RECORDING_LOG_NAME,
    SNAPSHOT,
    Entry,
    RecordingLog,
    read_recording_log,
)
from everlog.aeron.positional_store import PositionalStore
from everlog.core.batch import Batch
from everlog.core.columns import Column
from everlog.core.files.storage import Storage
from everlog.core.options import fill
from everlog.core.report import Fault, Progress, Report
from everlog.core.splits import Split
from everlog.core.store import DEFAULT_SPLIT_BYTES, Level, ScanRequest, StreamInfo
from everlog.errors import EverlogError, UnknownStream, UsageError

DEFAULT_UNIT_NS = UNIT_NS["MILLIS"]
MAX_PROBED = 1000
"""Recordings that are looked at where no recording.log says what they are."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """How to read a node's folder.

    ``archive_dir``: its archive's folder; else it is looked for beside the folder as ``../archive`` and inside it.
    ``checksum``: of the archive's frames, see :class:`everlog.aeron.archive.store.Options`. ``include_all``: list
    snapshots that are marked as invalid, too.
    """

    archive_dir: str | None = None
    checksum: str = "auto"
    include_all: bool = False

    def __post_init__(self) -> None:
        if self.checksum not in CHECKSUMS:
            raise UsageError("checksum", found=repr(self.checksum), expected=", ".join(CHECKSUMS))


class ClusterStore(PositionalStore):
    """A folder with ``recording.log``, ``node-state.dat`` and ``cluster-mark*.dat``, or what is left of them, and the
    archive beside it."""

    family = "aeron-cluster"
    options_class = Options

    def __init__(self, storage: Storage, options: Options) -> None:
        super().__init__(storage)
        self.options = options
        self._contents: dict[str, SnapshotContent] = {}
        self._snapshots: dict[bool, dict[str, Entry]] = {}
        self.archive_folder: ArchiveFolder | None = find_archive(storage, options.archive_dir)

    @classmethod
    def open(cls, storage: Storage, options: Mapping[str, Any]) -> Self:
        """Looks for the archive, and reads nothing yet."""
        return cls(storage, fill(Options, options))

    @classmethod
    def detect(cls, storage: Storage) -> bool:
        """Whether there is a recording log, a node state or a mark file of a cluster."""
        names = storage.names()
        return any(name in names for name in (RECORDING_LOG_NAME, NODE_STATE_NAME, MARK_NAME, LINK_NAME)) or bool(
            service_mark_names(names)
        )

    # Files of the folder. Each is read when it is first asked for.

    @cached_property
    def has_recording_log(self) -> bool:
        """Whether the file is there."""
        return self.storage.exists(RECORDING_LOG_NAME)

    @cached_property
    def recording_log(self) -> RecordingLog:
        """The entries; none where the file is missing."""
        if not self.has_recording_log:
            return RecordingLog()
        return read_recording_log(self.storage.read_all(RECORDING_LOG_NAME))

    def node_state(self) -> NodeState | None:
        """``None`` where the file is missing. Raises :class:`CorruptData` and :class:`UnsupportedVersion`."""
        if not self.storage.exists(NODE_STATE_NAME):
            return None
        return read_node_state(self.storage.read_all(NODE_STATE_NAME))

    def mark(self) -> ClusterMark | None:
        """The consensus module's mark file; ``None`` where it is missing. Raises :class:`CorruptData`."""
        return load_mark(self.storage, MARK_NAME)

    def service_mark_names(self) -> list[str]:
        """The services' mark files, by service."""
        return service_mark_names(self.storage.names())

    @cached_property
    def archive(self) -> ArchiveStore | None:
        """The node's archive; ``None`` where there is none. Raises :class:`UnsupportedVersion`."""
        if self.archive_folder is None:
            return None
        return ArchiveStore.open(self.archive_folder.storage, {"checksum": self.options.checksum})

    # Streams

    @cached_property
    def _is_guessed(self) -> bool:
        """Whether recordings must be looked at, because recording.log does not say what they are."""
        return not self.has_recording_log or (bool(self.recording_log.faults) and self.recording_log.last_term is None)

    @cached_property
    def _guessed(self) -> tuple[int | None, list[Entry]]:
        """The log's recording and the snapshots, by each recording's first message. Of several logs the latest: a node
        that was seeded from a snapshot has a new one."""
        log, snapshots = None, []
        archive = self.archive
        for recording in list(archive.folder.recordings().values())[:MAX_PROBED] if archive is not None else []:
            message = self._first_message(recording)
            if message is None:
                continue
            kind, fields = message
            if kind == "new-leadership-term":
                log = recording.recording_id
            elif kind == "snapshot-marker" and fields.get("mark") == "BEGIN":
                service_id = -1 if fields["type_id"] == 1 else 0
                position, term = fields["log_position"], fields["leadership_term_id"]
                snapshots.append(Entry(recording.recording_id, term, 0, position, 0, service_id, SNAPSHOT, True, 0, 0))
        return log, snapshots

    def _first_message(self, recording: Recording) -> tuple[str, dict[str, Any]] | None:
        archive = self.archive
        assert archive is not None
        if recording.is_deleted or archive.folder.is_purged(recording):
            return None
        try:
            context = archive.folder.scan_context(recording)
            raw = next(raw_messages(archive.storage, context, on_fault=_pass, max_rows=1), None)
            message = None if raw is None else decode_message(raw.data)
        except EverlogError:
            return None
        return None if message is None else (message.kind, message.fields)

    @cached_property
    def log_recording_id(self) -> int | None:
        """The recording of the log; ``None`` where there is no log yet."""
        return self._guessed[0] if self._is_guessed else self.recording_log.log_recording_id

    def snapshots(self, *, include_invalid: bool = False) -> dict[str, Entry]:
        """Stream name to entry, of the snapshots in the node's own archive."""
        if include_invalid not in self._snapshots:
            known = self._guessed[1] if self._is_guessed else self.recording_log.entries
            self._snapshots[include_invalid] = snapshot_entries(known, include_invalid=include_invalid)
        return self._snapshots[include_invalid]

    def recording_of(self, recording_id: int) -> Recording | None:
        """A recording of the archive, unless nothing is left of it."""
        archive = self.archive
        recording = None if archive is None else archive.folder.recordings().get(recording_id)
        if archive is None or recording is None or recording.is_deleted or archive.folder.is_purged(recording):
            return None
        return recording

    def streams(self, *, include_all: bool = False) -> list[StreamInfo]:
        """The log and the snapshots; those marked as invalid only with ``include_all``."""
        found = []
        log_id = self.log_recording_id
        if log_id is not None:
            found.append(self._stream(LOG, log_id, self._log_details()))
        every = include_all or self.options.include_all
        for name, entry in self.snapshots(include_invalid=every).items():
            details = {
                "service": service_label(entry.service_id),
                "log_position": entry.log_position,
                "leadership_term_id": entry.leadership_term_id,
                "timestamp": entry.timestamp,
                "is_valid": entry.is_valid,
            }
            found.append(self._stream(name, entry.recording_id, details))
        return found

    def _log_details(self) -> dict[str, Any]:
        terms = self.recording_log.terms
        last = terms[-1] if terms else None
        return {"terms": len(terms), "leadership_term_id": None if last is None else last.leadership_term_id}

    def _stream(self, name: str, recording_id: int, details: dict[str, Any]) -> StreamInfo:
        details = {"recording_id": recording_id, **details}
        recording = self.recording_of(recording_id)
        if recording is None or self.archive is None:
            return StreamInfo(name, self.family, None, None, None, None, 0, {**details, "is_missing": True})
        info = self.archive.stream_info(recording)
        return info._replace(name=name, family=self.family, details=details)

    def recording_id(self, stream: str) -> int:
        """A stream's recording. Raises :class:`UnknownStream`."""
        if stream == LOG and self.log_recording_id is not None:
            return self.log_recording_id
        entry = self.snapshots(include_invalid=True).get(stream)
        if entry is None:
            raise UnknownStream(self.path, found=f"no stream {stream!r}", expected="log, or a snapshot as ls lists it")
        return entry.recording_id

    # Scans

    def family_columns(self, level: Level = Level.RECORD) -> tuple[Column, ...]:
        """The same at both levels: a message of the cluster is one record."""
        return COLUMNS

    def context(self, stream: str) -> MessageContext | None:
        """What a scan needs to know; ``None`` where the recording is not there. Raises :class:`UnknownStream`."""
        recording = self.recording_of(self.recording_id(stream))
        if recording is None or self.archive is None or self.archive_folder is None:
            return None
        scan = self.archive.folder.scan_context(recording)
        prefix = self.archive_folder.prefix
        if stream == LOG:
            return MessageContext(stream, scan, self.unit_ns, prefix=prefix)
        content = self.snapshot_content(stream)
        unit_ns = content.unit_ns or self.unit_ns
        return MessageContext(stream, scan, unit_ns, content.state_position, prefix)

    def snapshot_content(self, stream: str) -> SnapshotContent:
        """The cluster's part of a snapshot, read once. Raises :class:`UnknownStream`."""
        if stream not in self._contents:
            recording = self.recording_of(self.recording_id(stream))
            if recording is None or self.archive is None:
                return SnapshotContent(problem="its recording is not in the archive")
            self._contents[stream] = read_content(self.archive.storage, self.archive.folder.scan_context(recording))
        return self._contents[stream]

    @cached_property
    def unit_ns(self) -> int:
        """Nanoseconds in the cluster's unit of time, as the log's terms say, else the snapshots; milliseconds where
        nothing says it."""
        archive = self.archive
        recording = None if self.log_recording_id is None else self.recording_of(self.log_recording_id)
        if recording is not None and archive is not None:
            starts = [entry.term_base_log_position for entry in self.recording_log.terms]
            for start in (*reversed(starts[-2:]), recording.start_position):
                unit = self._unit_at(archive, recording, start)
                if unit is not None:
                    return unit
        for stream in reversed(self.snapshots()):
            unit = self.snapshot_content(stream).unit_ns
            if unit is not None:
                return unit
        return DEFAULT_UNIT_NS

    @staticmethod
    def _unit_at(archive: ArchiveStore, recording: Recording, start: int) -> int | None:
        try:
            context = archive.folder.scan_context(recording)
            raw = next(raw_messages(archive.storage, context, start, on_fault=_pass, max_rows=1), None)
            message = None if raw is None else decode_message(raw.data)
        except EverlogError:
            return None
        if message is None or message.kind != "new-leadership-term":
            return None
        return UNIT_NS.get(message.fields["time_unit"] or "MILLIS")

    def walk(self, stream: str, request: ScanRequest) -> Iterator[Batch]:
        """Messages in position order. A recording that is not in the archive, or no archive, is a fault; one that is
        marked as INVALID there is a note."""
        context = request.split.context if request.split is not None else None
        if not isinstance(context, MessageContext):
            context = self.context(stream)
            recording = self.recording_of(self.recording_id(stream))
            if context is not None and recording is not None and recording.state == "INVALID":
                archive_faults(context, request.on_fault)(invalid_note(recording))
        if context is None or self.archive_folder is None:
            request.on_fault(self.missing(stream))
            return
        yield from walk_messages(self.archive_folder.storage, context, request)

    def missing(self, stream: str) -> Fault:
        """The fault that a stream's recording, or the whole archive, is not there."""
        repair = "say where it is (--archive-dir), or copy it from where the node runs"
        loses = "all messages of the stream"
        if self.archive_folder is None:
            expected = "the node's archive beside the folder"
            return Fault("archive-missing", "../archive", None, "no archive", expected, loses, repair, stream=stream)
        recording_id = self.recording_id(stream)
        code = "log-missing" if stream == LOG else "snapshot-missing"
        file, found = self.archive_folder.prefix + "archive.catalog", f"no recording {recording_id}"
        return Fault(code, file, None, found, "a recording with its files", loses, repair, stream=stream)

    def splits(
        self, stream: str, *, start: int | None = None, end: int | None = None, split_bytes: int = DEFAULT_SPLIT_BYTES
    ) -> list[Split]:
        """Some segments of the recording each. A message belongs to the split in which it begins."""
        context = self.context(stream)
        if context is None or self.archive is None:
            return [Split(stream, start, end, 0)]  # whoever scans it is told what is missing
        parts = self.archive.splits(context.archive.stream, start=start, end=end, split_bytes=split_bytes)
        return [Split(stream, part.start, part.end, part.byte_count, context) for part in parts]

    # State

    def info(self) -> dict[str, Any]:
        """What the node's files say, in words first: who it is, whether it runs, what it would do when it starts."""
        from everlog.aeron.cluster.folder.state import describe

        return describe(self)

    def verify(self, progress: Progress | None = None) -> Report:
        """Check the files of the folder against each other and against the archive, and every message of the log and of
        the snapshots."""
        from everlog.aeron.cluster.verify.node import verify

        return verify(self, progress)


def _pass(fault: Fault) -> None:
    """Damage is told of by the scan that meets it."""
