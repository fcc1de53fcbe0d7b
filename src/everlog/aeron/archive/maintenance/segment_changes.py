"""Applies the changes that :mod:`everlog.aeron.archive.maintenance.maintenance` decides on, and inspects segment files
for it.

That module says what a crash leaves after each step. At every sync level the catalog is on disk before a file that it
listed goes or moves, and files are gone from the disk before the catalog changes again; otherwise a power cut could
restore one without the other. So each operation waits for the disk a few times, even at level 0.
"""

from __future__ import annotations

import contextlib
from collections import deque

from everlog.aeron.archive.folder.scan import Scan, ScanContext
from everlog.aeron.archive.format.segments import SegmentMap, SegmentReader
from everlog.aeron.archive.maintenance.changes import (
    CatalogStep,
    Change,
    CutTo,
    Erase,
    FileStep,
    LeaveOpen,
    Remove,
    Rename,
    SetStart,
    SetState,
    SetStop,
    Settle,
    Step,
)
from everlog.aeron.archive.maintenance.maintenance import truncate
from everlog.aeron.archive.maintenance.recording_state import RecordingState, SegmentContent
from everlog.aeron.archive.writing.catalog_writer import CatalogWriter
from everlog.aeron.frames.constants import FRAME_ALIGNMENT, HEADER_LENGTH, NULL_POSITION, NULL_TIMESTAMP
from everlog.aeron.frames.position import FOREVER
from everlog.aeron.frames.walk import Geometry
from everlog.aeron.layouts import DataHeader
from everlog.aeron.mark_file import now_ms
from everlog.core.files.storage import ReadableFile, Storage
from everlog.core.files.writable import WritableStorage
from everlog.core.files.zeros import first_nonzero
from everlog.core.report import Fault, Severity
from everlog.errors import EverlogError
from everlog.kernel.columns import RowSink

_UNBOUNDED = 1 << 62


def apply(change: Change, catalog: CatalogWriter, storage: WritableStorage, sync_level: int) -> None:
    """Apply all steps. With a ``sync_level`` over 0 the change is on disk on return.

    Raises :class:`WriteFailed`; the steps before the failed one stand. Open ends are then written to the catalog if
    possible; otherwise opening the archive finds them.
    """
    run = Application(change, catalog, storage, sync_level)
    while not run.is_done:
        run.apply_next()


class Application:
    """Applies a change step by step, for a caller that does other things in between. Errors as :func:`apply`."""

    def __init__(self, change: Change, catalog: CatalogWriter, storage: WritableStorage, sync_level: int) -> None:
        self._left = deque(change.steps)
        self._in_order = change.in_order
        self._sync_level = sync_level
        self._catalog = catalog
        self._storage = storage
        # A process that was killed in this operation may have left both unsynced.
        self._catalog_waits = True
        self._names_wait = True
        self._ends: dict[int, int | None] = {}
        self._cut: Erase | None = None

    @property
    def is_done(self) -> bool:
        """Whether all steps are applied."""
        return not self._left

    @property
    def next_step(self) -> Step | None:
        """The step that is applied next."""
        return self._left[0] if self._left else None

    def apply_next(self) -> None:
        """Apply one step; with the last one, the change is on disk if the sync level asks for it."""
        step = self._left[0]
        try:
            if isinstance(step, CatalogStep):
                self._change_catalog(step)
            else:
                self._change_file(step, in_order=self._in_order)
            self._left.popleft()
            if self._sync_level and not self._left:
                self._sync_names()
        except BaseException:
            self._left.clear()
            self._close_ends()
            raise

    def _change_catalog(self, step: CatalogStep) -> None:
        self._sync_names()
        self._catalog_waits = True
        match step:
            case CutTo(recording_id, position):
                self._catalog.set_stop(recording_id, position, NULL_TIMESTAMP)
            case Settle(recording_id, position, stop_timestamp):
                self._catalog.set_stop(recording_id, position, now_ms() if stop_timestamp is None else stop_timestamp)
            case LeaveOpen(recording_id, stop_position):
                self._ends[recording_id] = stop_position
                self._catalog.set_stop(recording_id, NULL_POSITION)
            case SetStop(recording_id, position):
                self._catalog.set_stop(recording_id, position)
                self._ends.pop(recording_id, None)
            case SetStart(recording_id, position):
                self._catalog.set_start(recording_id, position)
            case SetState(recording_id, state):
                self._catalog.set_state(recording_id, state)

    def _change_file(self, step: FileStep, *, in_order: bool) -> None:
        if self._catalog_waits:
            self._catalog.sync()
            self._catalog_waits = False
        match step:
            case Remove(file):
                self._names_wait |= self._storage.remove(file)
            case Rename(source, target, ends):
                self._storage.rename(source, target)
                self._ends.update(ends)
                self._names_wait = True
            case Erase():
                self._erase(step)
        if in_order:
            self._sync_names()

    def _erase(self, step: Erase) -> None:
        """Zero a file's end by cutting and lengthening the file, which needs no disk space. A crash in between leaves a
        short file, which finishing the truncation lengthens."""
        with self._storage.open_writable(step.file) as file:
            if file.size() != step.segment_length or not _is_blank(file, step.offset):
                self._cut = step
                file.truncate(step.offset)
                file.truncate(step.segment_length)
                self._cut = None
            file.sync()

    def _sync_names(self) -> None:
        """Return when changed names are on disk."""
        if self._names_wait:
            self._storage.sync_folder()
            self._names_wait = False

    def _close_ends(self) -> None:
        """After an error: write the recordings' present ends to the catalog and lengthen a file that was cut, if
        possible."""
        with contextlib.suppress(EverlogError):
            self._sync_names()
            if self._cut is not None:
                with self._storage.open_writable(self._cut.file) as file:
                    file.truncate(self._cut.segment_length)
            for recording_id, end in self._ends.items():
                start = self._catalog.recording(recording_id).start_position
                self._catalog.set_stop(recording_id, start if end is None else end)


def _is_blank(file: ReadableFile, offset: int) -> bool:
    """Whether the file has only zeros from an offset on."""
    size = file.size()
    return first_nonzero(file, offset, size) >= size


def finish_truncations(catalog: CatalogWriter, storage: WritableStorage) -> list[str]:
    """Finish interrupted truncations: remove everything after those recordings' stop positions. Return one line per
    recording. Raises :class:`WriteFailed`; repeating the call continues."""
    done = []
    for recording_id in catalog.recording_ids():
        recording = catalog.recording(recording_id)
        if recording.truncation_pending and recording.state == "VALID":
            stop = recording.stop_position
            assert stop is not None
            state = RecordingState.of(recording, storage.names())
            apply(truncate(state, stop, lambda _: True), catalog, storage, 0)
            done.append(f"recording {recording_id}: finished its truncation to {stop}")
    return done


# Inspecting files


def inspect_segment(storage: Storage, state: RecordingState, base: int) -> SegmentContent:
    """Return the content of the recording's segment file that begins at ``base``, with all frames checked against their
    positions; any session id is accepted. Raises :class:`StoreUnavailable`."""
    name = state.name(base)
    with storage.open(name) as file:
        size = file.size()
        first = _first_frame(file, min(size, state.recording.term_buffer_length))
        if first is None:
            return SegmentContent(size)
        header = DataHeader.unpack_from(file.read_at(first, HEADER_LENGTH).ljust(HEADER_LENGTH, b"\0"))
    fault = None if size < state.recording.segment_file_length else _first_fault(storage, state, base, first)
    return SegmentContent(size, first, header, fault)


def _first_frame(file: ReadableFile, end: int) -> int | None:
    """Return the offset of the first aligned bytes that are not zeros, or ``None``."""
    at = first_nonzero(file, 0, end)
    return at // FRAME_ALIGNMENT * FRAME_ALIGNMENT if at < end else None


def _first_fault(storage: Storage, state: RecordingState, base: int, first: int) -> Fault | None:
    recording, end = state.recording, base + state.recording.segment_file_length
    term_length, mtu_length = recording.term_buffer_length, recording.mtu_length
    segments = SegmentMap(recording.recording_id, base + first, term_length, recording.segment_file_length)
    geometry = Geometry(recording.initial_term_id, term_length, recording.stream_id, mtu_length, end)
    faults: list[Fault] = []
    sink = RowSink([], _UNBOUNDED, _UNBOUNDED)
    reader = SegmentReader(storage, segments)
    scan = Scan(ScanContext(segments, geometry, end, None), reader, sink, faults.append, False, 0, FOREVER)
    try:
        for _ in scan.run():
            sink.reset()
    finally:
        reader.close()
    return next((fault for fault in faults if fault.severity is Severity.FAULT), None)
