"""Follows a cluster node: its log and its snapshots are recordings of its archive."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from everlog.aeron.archive.folder.scan import ScanContext
from everlog.aeron.archive.following import ArchiveFollower
from everlog.aeron.cluster.folder.scanning import LOG
from everlog.aeron.cluster.format.recording_log import RECORDING_LOG_NAME
from everlog.aeron.cluster.store import ClusterStore
from everlog.aeron.positional_following import PositionalFollower
from everlog.core.files.storage import Storage
from everlog.core.following import Cut, CutLimit, StreamExtent
from everlog.core.splits import Split
from everlog.core.store import DEFAULT_SPLIT_BYTES
from everlog.errors import UnknownStream


class ClusterFollower(PositionalFollower):
    """A :class:`Follower` of a node's log and snapshots. Reads their recording IDs again whenever ``recording.log``
    changes."""

    def __init__(self, storage: Storage, options: Mapping[str, Any]) -> None:
        self._storage = storage
        self._options = options
        self._recording_log: bytes | None = None
        self._recordings: dict[str, str] = {}
        self._last_log: int | None = None
        self._was_recreated = False
        self._archive: ArchiveFollower | None = None
        self._store = ClusterStore.open(storage, options)

    @property
    def store(self) -> ClusterStore:
        """The node's folder as of the last change of its recording log."""
        return self._store

    def poll(self) -> dict[str, StreamExtent]:
        self._storage.forget()
        has_log = self._storage.exists(RECORDING_LOG_NAME)
        recording_log = self._storage.read_all(RECORDING_LOG_NAME) if has_log else None
        if recording_log is None or recording_log != self._recording_log or self._archive is None:
            self._open(recording_log)
        if self._archive is None:
            return {}
        extents = self._archive.poll()
        found = {name: extents[stream] for name, stream in self._recordings.items() if stream in extents}
        if self._was_recreated and LOG in found:
            found[LOG] = replace(found[LOG], was_recreated=True)
            self._was_recreated = False
        return found

    def _open(self, recording_log: bytes | None) -> None:
        store = self._store = ClusterStore.open(self._storage, self._options)
        self._recording_log = recording_log
        every = store.options.include_all
        snapshots = store.folder.snapshots(include_invalid=every)
        self._recordings = {name: str(entry.recording_id) for name, entry in snapshots.items()}
        if store.folder.log_recording_id is not None:
            self._recordings[LOG] = str(store.folder.log_recording_id)
            # A node seeded from a snapshot has no log until it starts; then it writes a new log from position 0.
            # Snapshots need no such check: their names contain the recording ID.
            self._was_recreated |= self._last_log not in (None, store.folder.log_recording_id)
            self._last_log = store.folder.log_recording_id
        if self._archive is None and store.folder.place is not None:
            self._archive = ArchiveFollower(store.folder.place.storage, {"checksum": store.options.checksum})

    @property
    def _followed(self) -> ArchiveFollower:
        assert self._archive is not None  # callers only pass streams that poll() returned
        return self._archive

    def cut(self, stream: str, start: int, end: int, limit: CutLimit) -> Cut:
        """Cut the stream's recording. See :meth:`Follower.cut`."""
        return self._followed.cut(self._recording(stream), start, end, limit)

    def splits(self, stream: str, start: int, end: int, *, split_bytes: int = DEFAULT_SPLIT_BYTES) -> list[Split]:
        """Split the stream's recording at segment boundaries."""
        parts = self._followed.splits(self._recording(stream), start, end, split_bytes=split_bytes)
        context = self._store.folder.context(stream)
        if context is None:
            return []
        found = []
        for part in parts:
            assert isinstance(part.context, ScanContext)
            found.append(Split(stream, part.start, part.end, part.byte_count, replace(context, archive=part.context)))
        return found

    def is_complete(self, stream: str, address: int) -> bool:
        """Whether the recording was read to its final end, as a snapshot is."""
        recording = self._recordings.get(stream)
        return recording is not None and self._followed.is_complete(recording, address)

    def align(self, stream: str, address: int, extent: StreamExtent) -> int:
        """Round an address to a message's boundary. See :meth:`Follower.align`."""
        return self._followed.align(self._recording(stream), address, extent)

    def _recording(self, stream: str) -> str:
        found = self._recordings.get(stream)
        if found is None:
            known = ", ".join(self._recordings) or "no streams"
            found_text, expected = f"no stream {stream!r}", f"one of {known}"
            raise UnknownStream(self._storage.root, found=found_text, expected=expected)
        return found

    def close(self) -> None:
        """Close the archive."""
        if self._archive is not None:
            self._archive.close()
        self._store.close()
