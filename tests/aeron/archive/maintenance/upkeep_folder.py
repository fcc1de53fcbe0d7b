"""An archive's folder in memory on which maintenance is tried: no mark file is held, no thread runs.

Recordings of one stream, each message in a frame of 1024 bytes, 64 of them in a segment of 64 KiB:

* 0: messages 0 to 191, three full segments, and a file of zeros behind them;
* 1: goes on where 0 stops, messages 192 to 351, two segments and a half;
* 2: another stream, messages 0 to 223, three segments and a half.
"""

from __future__ import annotations

import functools
import threading

from everlog.aeron.archive.archive import Archive
from everlog.aeron.archive.maintenance.changes import Change
from everlog.aeron.archive.maintenance.operations import MaintainedFolder, Maintenance
from everlog.aeron.archive.maintenance.recording_state import RecordingState
from everlog.aeron.archive.maintenance.segment_changes import apply, finish_truncations
from everlog.aeron.archive.recording.events import RecordingSignal
from everlog.aeron.archive.recording.options import ArchiveOptions
from everlog.aeron.archive.repair.recovery import recover
from everlog.aeron.archive.store import ArchiveStore
from everlog.aeron.archive.writing.catalog_writer import CatalogOptions, CatalogWriter
from everlog.core.files.storage import Storage
from everlog.core.files.writable import WritableStorage
from everlog.testing.storage.crashing import CrashingStorage

SEGMENT = 64 << 10
FRAME = 1024
PER_SEGMENT = SEGMENT // FRAME


def payload(number: int) -> bytes:
    """Of message ``number`` of a stream; never zeros."""
    return (b"%06d." % number * 142)[: FRAME - 32]


@functools.cache
def files() -> dict[str, bytes]:
    """The folder as an archive leaves it that is closed."""
    storage = CrashingStorage()
    with Archive.create(storage, ArchiveOptions(segment_length=SEGMENT, catalog_capacity=4096)) as archive:
        same = {"session_id": 42, "initial_term_id": -1}
        channel = "aeron:ipc?term-length=64k"
        for stream_id, first, last in ((10, 0, 192), (10, 192, 352), (11, 0, 224)):
            with archive.start_recording(channel, stream_id, position=first * FRAME, **same) as recorder:
                recorder.append_many([payload(n) for n in range(first, last)])
    return {name: storage.read_all(name) for name in storage.names()}


class Folder(Maintenance):
    """The folder, opened as an archive opens it. ``signals`` are those that were sent."""

    def __init__(self, storage: WritableStorage, sync_level: int = 0) -> None:
        recover(storage)
        self._storage = storage
        self._sync_level = sync_level
        self._catalog = CatalogWriter.open(storage, CatalogOptions(capacity=4096, sync_level=sync_level))
        finish_truncations(self._catalog, storage)
        self.signals: list[tuple[int, RecordingSignal]] = []
        folder = MaintainedFolder(
            files=storage,
            state_of=self._state_of,
            context_of=lambda recording: ArchiveStore.open(storage, {}).folder.scan_context(recording),
            check=lambda: None,
            lock=threading.RLock(),
        )
        super().__init__(folder, self._apply_change, self._signal)

    def _state_of(self, recording_id: int) -> RecordingState:
        return RecordingState.of(self._catalog.recording(recording_id), self._storage.names(), None, [])

    def _apply_change(self, change: Change) -> None:
        apply(change, self._catalog, self._storage, self._sync_level)

    def _signal(self, change: Change) -> None:
        self.signals += [(signal.recording_id, signal.signal) for signal in change.signals]


def positions(storage: Storage) -> dict[int, tuple[int, int | None] | str]:
    """By recording: start and stop in messages, or its state where that is not ``VALID``."""
    found: dict[int, tuple[int, int | None] | str] = {}
    for r in ArchiveStore.open(storage, {}).folder.recordings().values():
        stop = None if r.stop_position is None else r.stop_position // FRAME
        found[r.recording_id] = (r.start_position // FRAME, stop) if r.state == "VALID" else r.state
    return found


def segment_files(storage: Storage) -> list[str]:
    """Names, the segments' numbers instead of their positions."""
    parts = [name.removesuffix(".rec").split("-") for name in storage.names() if name.endswith(".rec")]
    return sorted(f"{recording}-{int(base) // SEGMENT}" for recording, base in parts)


def messages(storage: Storage, recording_id: int) -> list[int]:
    """The numbers of the messages that are read, each of them held against its payload."""
    found = []
    for record in ArchiveStore.open(storage, {}).read(str(recording_id)):
        number = int(bytes(record.payload)[:6])
        assert bytes(record.payload) == payload(number)
        found.append(number)
    return found
