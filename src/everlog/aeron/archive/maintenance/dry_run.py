"""Maintenance that only reports what it would do: it reads the folder and changes nothing."""

from __future__ import annotations

import contextlib

from everlog.aeron.archive.folder.archive import ArchiveFolder
from everlog.aeron.archive.maintenance.changes import Change
from everlog.aeron.archive.maintenance.operations import MaintainedFolder, Maintenance
from everlog.aeron.archive.maintenance.recording_state import RecordingState


class DryRun(Maintenance):
    """Refuses what an archive refuses, and counts what it would change. ``lines`` has one line per step.

    A recording whose archive was killed has no stop position until the archive is opened for writing; until then,
    operations that need one are refused.
    """

    def __init__(self, archive: ArchiveFolder) -> None:
        self.lines: list[str] = []

        def state_of(recording_id: int) -> RecordingState:
            recording = archive.recording(str(recording_id))
            return RecordingState.of(recording, archive.storage.names(), None, [])

        folder = MaintainedFolder(
            files=archive.storage,
            state_of=state_of,
            context_of=archive.scan_context,
            check=lambda: None,
            lock=contextlib.nullcontext(),
        )
        super().__init__(folder, self._list)

    def _list(self, change: Change) -> None:
        self.lines += change.lines
