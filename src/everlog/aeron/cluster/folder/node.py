"""Reads a cluster node's folder: recording.log, node-state.dat, mark files, and the log and snapshots in its
archive."""

from __future__ import annotations

from functools import cached_property

from everlog.aeron.archive.folder.archive import ArchiveFolder
from everlog.aeron.archive.folder.recordings import Recording
from everlog.aeron.cluster.folder.place import ArchivePlace, find_archive
from everlog.aeron.cluster.folder.scanning import (
    LOG,
    MessageContext,
    raw_messages,
)
from everlog.aeron.cluster.folder.snapshot import SnapshotContent, read_content, snapshot_entries
from everlog.aeron.cluster.format.mark_file import MARK_NAME, ClusterMark, load_mark, service_mark_names
from everlog.aeron.cluster.format.messages import CONSENSUS_MODULE, CONSENSUS_MODULE_TYPE, UNIT_NS
from everlog.aeron.cluster.format.node_state_file import NODE_STATE_NAME, NodeState, read_node_state
from everlog.aeron.cluster.format.recording_log import (
    RECORDING_LOG_NAME,
    SNAPSHOT,
    Entry,
    RecordingLog,
    read_recording_log,
)
from everlog.aeron.cluster.protocol.codec import decode_known
from everlog.aeron.cluster.protocol.log import NewLeadershipTermEvent
from everlog.aeron.cluster.protocol.snapshot import SnapshotMarker
from everlog.aeron.cluster.protocol.values import ClusterTimeUnit, SnapshotMark
from everlog.aeron.family_options import ReadChecksum
from everlog.aeron.messages import Message
from everlog.core.files.storage import Storage
from everlog.core.report import Fault
from everlog.errors import EverlogError, UnknownStream

FAMILY = "aeron-cluster"
DEFAULT_UNIT_NS = UNIT_NS["MILLIS"]
MAX_PROBED = 1000
"""Most recordings whose first message is read if recording.log is missing."""


class NodeFolder:
    """A node's folder, with any of ``recording.log``, ``node-state.dat`` and ``cluster-mark*.dat``, and its archive.

    Raises what :func:`everlog.aeron.cluster.folder.place.find_archive` raises."""

    family = FAMILY

    def __init__(self, storage: Storage, archive_dir: str | None = None, checksum: ReadChecksum = "auto") -> None:
        self.storage = storage
        self.place: ArchivePlace | None = find_archive(storage, archive_dir)
        self._checksum = checksum
        self._contents: dict[str, SnapshotContent] = {}
        self._snapshots: dict[bool, dict[str, Entry]] = {}

    @property
    def path(self) -> str:
        """The folder's path."""
        return self.storage.root

    def stream_names(self, *, include_invalid: bool = False) -> list[str]:
        """Return the names of the log, if it exists, and of the snapshots."""
        log = [] if self.log_recording_id is None else [LOG]
        return [*log, *self.snapshots(include_invalid=include_invalid)]

    # Files of the folder. Each is read on first use.

    @cached_property
    def has_recording_log(self) -> bool:
        """Whether ``recording.log`` exists."""
        return self.storage.exists(RECORDING_LOG_NAME)

    @cached_property
    def recording_log(self) -> RecordingLog:
        """The decoded ``recording.log``; empty if the file is missing."""
        if not self.has_recording_log:
            return RecordingLog()
        return read_recording_log(self.storage.read_all(RECORDING_LOG_NAME))

    def node_state(self) -> NodeState | None:
        """Read ``node-state.dat``; ``None`` if it is missing. Raises :class:`CorruptData` and
        :class:`UnsupportedVersion`."""
        if not self.storage.exists(NODE_STATE_NAME):
            return None
        return read_node_state(self.storage.read_all(NODE_STATE_NAME))

    def mark(self) -> ClusterMark | None:
        """Read the consensus module's mark file; ``None`` if it is missing. Raises :class:`CorruptData`."""
        return load_mark(self.storage, MARK_NAME)

    def service_mark_names(self) -> list[str]:
        """Return the names of the services' mark files, in order of services."""
        return service_mark_names(self.storage.names())

    @cached_property
    def archive(self) -> ArchiveFolder | None:
        """The node's archive; ``None`` if none was found. Raises :class:`UnsupportedVersion`."""
        if self.place is None:
            return None
        return ArchiveFolder(self.place.storage, self._checksum)

    # Streams

    @cached_property
    def _is_guessed(self) -> bool:
        """Whether recordings must be identified by their first message, because recording.log can't."""
        return not self.has_recording_log or (bool(self.recording_log.faults) and self.recording_log.last_term is None)

    @cached_property
    def _guessed(self) -> tuple[int | None, list[Entry]]:
        """The log's recording and the snapshots, identified by each recording's first message. The last log counts: a
        node that was seeded from a snapshot wrote a new one."""
        log, snapshots = None, []
        archive = self.archive
        for recording in list(archive.recordings().values())[:MAX_PROBED] if archive is not None else []:
            message = self._first_message(recording)
            if isinstance(message, NewLeadershipTermEvent):
                log = recording.recording_id
            elif isinstance(message, SnapshotMarker) and message.mark is SnapshotMark.BEGIN:
                service_id = CONSENSUS_MODULE if message.type_id == CONSENSUS_MODULE_TYPE else 0
                position, term = message.log_position, message.leadership_term_id
                snapshots.append(Entry(recording.recording_id, term, 0, position, 0, service_id, SNAPSHOT, True, 0, 0))
        return log, snapshots

    def _first_message(self, recording: Recording) -> Message | None:
        archive = self.archive
        assert archive is not None
        if recording.is_deleted or archive.is_purged(recording):
            return None
        try:
            context = archive.scan_context(recording)
            raw = next(raw_messages(archive.storage, context, on_fault=_pass, max_rows=1), None)
            return None if raw is None else decode_known(raw.data)
        except EverlogError:
            return None

    @cached_property
    def log_recording_id(self) -> int | None:
        """The log's recording ID; ``None`` if the node has no log yet."""
        return self._guessed[0] if self._is_guessed else self.recording_log.log_recording_id

    def snapshots(self, *, include_invalid: bool = False) -> dict[str, Entry]:
        """Return the entries of the snapshots in the node's own archive, by stream name."""
        if include_invalid not in self._snapshots:
            known = self._guessed[1] if self._is_guessed else self.recording_log.entries
            self._snapshots[include_invalid] = snapshot_entries(known, include_invalid=include_invalid)
        return self._snapshots[include_invalid]

    def recording_of(self, recording_id: int) -> Recording | None:
        """Return a recording of the archive; ``None`` if it is missing, deleted or purged."""
        archive = self.archive
        recording = None if archive is None else archive.recordings().get(recording_id)
        if archive is None or recording is None or recording.is_deleted or archive.is_purged(recording):
            return None
        return recording

    def recording_id(self, stream: str) -> int:
        """Return a stream's recording ID. Raises :class:`UnknownStream` if the node has no such stream."""
        if stream == LOG and self.log_recording_id is not None:
            return self.log_recording_id
        entry = self.snapshots(include_invalid=True).get(stream)
        if entry is None:
            found, expected = f"no stream {stream!r}", "log, or a snapshot that ls lists"
            raise UnknownStream(self.path, found=found, expected=expected)
        return entry.recording_id

    def context(self, stream: str) -> MessageContext | None:
        """Return what a scan of a stream needs; ``None`` if its recording is missing. Raises :class:`UnknownStream`."""
        recording = self.recording_of(self.recording_id(stream))
        if recording is None or self.archive is None or self.place is None:
            return None
        scan = self.archive.scan_context(recording)
        prefix = self.place.prefix
        if stream == LOG:
            return MessageContext(stream, scan, self.unit_ns, prefix=prefix)
        content = self.snapshot_content(stream)
        unit_ns = content.unit_ns or self.unit_ns
        return MessageContext(stream, scan, unit_ns, content.state_position, prefix)

    def snapshot_content(self, stream: str) -> SnapshotContent:
        """Read the cluster's part of a snapshot, and cache it. Raises :class:`UnknownStream`."""
        if stream not in self._contents:
            recording = self.recording_of(self.recording_id(stream))
            if recording is None or self.archive is None:
                return SnapshotContent(problem="its recording is not in the archive")
            self._contents[stream] = read_content(self.archive.storage, self.archive.scan_context(recording))
        return self._contents[stream]

    @cached_property
    def unit_ns(self) -> int:
        """The cluster's time unit in nanoseconds, from the log's terms, else the snapshots, else milliseconds."""
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
    def _unit_at(archive: ArchiveFolder, recording: Recording, start: int) -> int | None:
        try:
            context = archive.scan_context(recording)
            raw = next(raw_messages(archive.storage, context, start, on_fault=_pass, max_rows=1), None)
            message = None if raw is None else decode_known(raw.data)
        except EverlogError:
            return None
        if not isinstance(message, NewLeadershipTermEvent):
            return None
        return UNIT_NS[(message.time_unit or ClusterTimeUnit.MILLIS).name]

    def missing(self, stream: str) -> Fault:
        """Make the fault for a missing recording of a stream, or a missing archive."""
        repair = "give its folder (--archive-dir), or copy it from the node's machine"
        loses = "all messages of the stream"
        if self.place is None:
            expected = "the node's archive next to the folder"
            return Fault("archive-missing", "../archive", None, "no archive", expected, loses, repair, stream=stream)
        recording_id = self.recording_id(stream)
        code = "log-missing" if stream == LOG else "snapshot-missing"
        file, found = self.place.prefix + "archive.catalog", f"no recording {recording_id}"
        return Fault(code, file, None, found, "a recording with its files", loses, repair, stream=stream)


def _pass(fault: Fault) -> None:
    """Drop a fault: a scan of the stream reports it."""
