"""Maintenance that is only told: what would be done to an archive's folder, which is read and not changed."""

from __future__ import annotations

import threading

from everlog.aeron.archive.folder.archive import ArchiveFolder
from everlog.aeron.archive.folder.recordings import Recording
from everlog.aeron.archive.folder.scan import ScanContext
from everlog.aeron.archive.maintenance.changes import Change
from everlog.aeron.archive.maintenance.operations import Maintenance
from everlog.core.files.storage import Storage


class DryRun(Maintenance):
    """Refuses what an archive refuses, and counts what it would. ``lines`` tell the steps, one each.

    A recording whose archive was killed has no stop position before the archive is opened for writing: what needs one
    is refused.
    """

    def __init__(self, archive: ArchiveFolder) -> None:
        self.lines: list[str] = []
        self._archive = archive
        self._lock = threading.RLock()
        self._recorders = {}
        self._replays = set()

    @property
    def _files(self) -> Storage:
        return self._archive.storage

    def _recording(self, recording_id: int) -> Recording:
        return self._archive.recording(str(recording_id))

    def _check(self) -> None:
        pass

    def _context(self, recording: Recording) -> ScanContext:
        return self._archive.scan_context(recording)

    def _carry_out(self, change: Change) -> None:
        self.lines += change.lines

    def _tell(self, change: Change) -> None:
        pass
