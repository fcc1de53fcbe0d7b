"""A cluster node's folder as a store. The streams are the log and each snapshot, the records are the cluster's
messages, the addresses are log positions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

from everlog.aeron.archive.folder.recordings import invalid_note
from everlog.aeron.archive.folder.splitting import split_recording
from everlog.aeron.cluster.folder.node import FAMILY, NodeFolder
from everlog.aeron.cluster.folder.scanning import (
    COLUMNS,
    LOG,
    MessageContext,
    archive_faults,
    walk_messages,
)
from everlog.aeron.cluster.folder.snapshot import service_label
from everlog.aeron.cluster.format.mark_file import LINK_NAME, MARK_NAME, service_mark_names
from everlog.aeron.cluster.format.node_state_file import NODE_STATE_NAME
from everlog.aeron.cluster.format.recording_log import (
    RECORDING_LOG_NAME,
)
from everlog.aeron.family_options import READ_CHECKSUMS, ReadChecksum
from everlog.aeron.positional_store import PositionalStore
from everlog.core.batch import Batch
from everlog.core.columns import Column
from everlog.core.files.storage import Storage
from everlog.core.options import check_choice, fill
from everlog.core.report import Progress, Report
from everlog.core.splits import Split
from everlog.core.store import DEFAULT_SPLIT_BYTES, Level, ScanRequest, StreamInfo


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options for reading a node's folder.

    ``archive_dir`` is the folder of the node's archive; by default the first of these that is an archive:
    ``archive`` inside the node's folder, ``../archive``, the node's folder itself. ``checksum`` is that of the
    archive's frames, see :class:`everlog.aeron.archive.store.Options`. ``include_all`` also lists snapshots that are
    marked as invalid."""

    archive_dir: str | None = None
    checksum: ReadChecksum = "auto"
    include_all: bool = False

    def __post_init__(self) -> None:
        check_choice("checksum", self.checksum, READ_CHECKSUMS)


class ClusterStore(PositionalStore):
    """A node's folder, with any of ``recording.log``, ``node-state.dat`` and ``cluster-mark*.dat``, and its archive."""

    family = FAMILY
    options_class = Options

    def __init__(self, storage: Storage, options: Options) -> None:
        super().__init__(storage)
        self.options = options
        self.folder = NodeFolder(storage, options.archive_dir, options.checksum)

    @classmethod
    def open(cls, storage: Storage, options: Mapping[str, Any]) -> Self:
        """Open the folder and find its archive. Reads no other file yet."""
        return cls(storage, fill(Options, options))

    @classmethod
    def detect(cls, storage: Storage) -> bool:
        """Whether the folder has a recording log, a node state or a mark file of a cluster."""
        names = storage.names()
        return any(name in names for name in (RECORDING_LOG_NAME, NODE_STATE_NAME, MARK_NAME, LINK_NAME)) or bool(
            service_mark_names(names)
        )

    def streams(self, *, include_all: bool = False) -> list[StreamInfo]:
        """Describe the log and the snapshots. Snapshots marked as invalid are included only with ``include_all``."""
        found = []
        log_id = self.folder.log_recording_id
        if log_id is not None:
            found.append(self._stream(LOG, log_id, self._log_details()))
        every = include_all or self.options.include_all
        for name, entry in self.folder.snapshots(include_invalid=every).items():
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
        terms = self.folder.recording_log.terms
        last = terms[-1] if terms else None
        return {"terms": len(terms), "leadership_term_id": None if last is None else last.leadership_term_id}

    def _stream(self, name: str, recording_id: int, details: dict[str, Any]) -> StreamInfo:
        details = {"recording_id": recording_id, **details}
        recording = self.folder.recording_of(recording_id)
        if recording is None or self.folder.archive is None:
            return StreamInfo(name, self.family, None, None, None, None, 0, {**details, "is_missing": True})
        info = self.folder.archive.stream_info(recording)
        return info._replace(name=name, family=self.family, details=details)

    # Scans

    def family_columns(self, level: Level = Level.RECORD) -> tuple[Column, ...]:
        """Return the same columns for both levels: each cluster message is one record."""
        return COLUMNS

    def walk(self, stream: str, request: ScanRequest) -> Iterator[Batch]:
        """Yield a stream's messages in position order.

        A missing recording or archive is reported as a fault, a recording marked as INVALID as a note.
        """
        context = request.split.context if request.split is not None else None
        if not isinstance(context, MessageContext):
            context = self.folder.context(stream)
            recording = self.folder.recording_of(self.folder.recording_id(stream))
            if context is not None and recording is not None and recording.state == "INVALID":
                archive_faults(context, request.on_fault)(invalid_note(recording))
        if context is None or self.folder.place is None:
            request.on_fault(self.folder.missing(stream))
            return
        yield from walk_messages(self.folder.place.storage, context, request)

    def splits(
        self, stream: str, *, start: int | None = None, end: int | None = None, split_bytes: int = DEFAULT_SPLIT_BYTES
    ) -> list[Split]:
        """Cut the stream's recording at segment boundaries. A message belongs to the split in which it begins."""
        context = self.folder.context(stream)
        if context is None or self.folder.archive is None:
            return [Split(stream, start, end, 0)]  # scanning it reports what is missing
        recording = self.folder.archive.recording(context.archive.stream)
        parts = split_recording(self.folder.archive, recording, start, end, split_bytes)
        return [Split(stream, part.start, part.end, part.byte_count, context) for part in parts]

    # State

    def info(self) -> dict[str, Any]:
        """Describe the node: a summary in sentences, then its files' contents and its recovery plan."""
        from everlog.aeron.cluster.folder.state import describe

        return describe(self.folder)

    def verify(self, progress: Progress | None = None) -> Report:
        """Check the folder's files against each other and the archive, and every message of the log and snapshots."""
        from everlog.aeron.cluster.verify.node import verify

        return verify(self.folder, self.scan, progress)
