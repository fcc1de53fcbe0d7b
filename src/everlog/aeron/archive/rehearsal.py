"""Maintenance that is only told: what would be done to an archive's folder, which is read and not changed."""

from __future__ import annotations

import threading

from everlog.aeron.archive.changes import Change
from everlog.aeron.archive.recorder import Recorder
from everlog.aeron.archive.recording_state import RecordingState, SegmentContent
from everlog.aeron.archive.recordings import Recording
from everlog.aeron.archive.scan import ScanContext
from everlog.aeron.archive.segment_changes import inspect_segment
from everlog.aeron.archive.store import ArchiveStore
from everlog.aeron.archive.upkeep import Upkeep


class Rehearsal(Upkeep):
    """Refuses what an archive refuses, and counts what it would. ``lines`` tell the steps, one each.

    A recording whose archive was killed has no stop position before the archive is opened for writing: what needs one
    is refused.
    """

    def __init__(self, store: ArchiveStore) -> None:
        self.lines: list[str] = []
        self._store = store
        self._lock = threading.RLock()
        self._recorders = {}
        self._replays = set()

    def _check(self) -> None:
        pass

    def _context(self, recording: Recording, recorder: Recorder | None) -> ScanContext:
        return self._store.scan_context(recording)

    def _state(self, recording_id: int) -> RecordingState:
        return RecordingState.of(self._store.recording(str(recording_id)), self._store.storage.names())

    def _inspect(self, state: RecordingState, base: int) -> SegmentContent:
        return inspect_segment(self._store.storage, state, base)

    def _carry_out(self, change: Change) -> None:
        self.lines += change.lines
