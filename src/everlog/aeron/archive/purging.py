"""Frees exported frames of a recording: deletes the segments that lie wholly before the end of the export, but never
the recording's last one. The archive must not run, because it owns the folder."""

from __future__ import annotations

from everlog.aeron.archive.maintenance.maintenance import purge_position
from everlog.aeron.archive.maintenance.recording_state import RecordingState
from everlog.aeron.archive.opening import open_archive
from everlog.aeron.archive.store import ArchiveStore
from everlog.core.family.purging import PurgePlan, Purging
from everlog.core.store import Store


class RecordingPurging(Purging):
    """``until`` is the position after the last exported record."""

    def plan(self, store: Store, stream: str, *, last: int, end: int, subscriber: str) -> PurgePlan:
        assert isinstance(store, ArchiveStore)
        state = RecordingState.of(store.folder.recording(stream), store.storage.names())
        position = purge_position(state, before_position=end)
        going = [base for base in state.bases if state.first_base <= base < position]
        files = tuple(map(state.name, going)) if position > state.start else ()
        return PurgePlan(
            until=store.format_address(end), files=files, byte_count=sum(store.storage.size(name) for name in files)
        )

    def free(self, path: str, stream: str, until: str, subscriber: str) -> int:
        with open_archive(path) as archive:
            recording_id = int(stream)
            position = archive.purge_position(recording_id, before_position=int(until))
            if position <= archive.start_position(recording_id):
                return 0
            return archive.purge_segments(recording_id, position)
