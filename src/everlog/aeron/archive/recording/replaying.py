"""Replays of an open archive. Source: ArchiveConductor.startReplay."""

from __future__ import annotations

import contextlib

from everlog.aeron.archive.folder.boundaries import is_frame_boundary
from everlog.aeron.archive.folder.recordings import Recording, segment_map
from everlog.aeron.archive.folder.scan import ScanContext
from everlog.aeron.archive.format.checksums import detect_checksum
from everlog.aeron.archive.format.segments import SegmentReader
from everlog.aeron.archive.recording.listing import Listing
from everlog.aeron.archive.recording.options import ArchiveOptions
from everlog.aeron.archive.recording.replay import Replay, ReplaySource
from everlog.aeron.archive.store import ArchiveStore
from everlog.aeron.frames.constants import FRAME_ALIGNMENT
from everlog.aeron.frames.position import FOREVER
from everlog.aeron.frames.walk import Geometry
from everlog.core.files.writable import WritableStorage
from everlog.core.options import check_type
from everlog.errors import UsageError


class Replaying(Listing):
    """The part of :class:`~everlog.aeron.archive.archive.Archive` that reads recordings back."""

    options: ArchiveOptions
    _replays: set[Replay]
    _storage: WritableStorage
    _store: ArchiveStore

    def replay(
        self,
        recording_id: int,
        position: int | None = None,
        length: int | None = None,
        *,
        follow: bool = False,
        timeout_s: float | None = None,
    ) -> Replay:
        """Read a recording from ``position`` (a frame's start; its own start if ``None``) on, ``length`` bytes at most.

        Of an active one what is recorded by now is given; with ``follow`` what comes, too, until it stops, or nothing
        came for ``timeout_s``. Raises :class:`UnknownStream`, :class:`UsageError` for a position that is none in it.
        """
        for name, value in (("position", position), ("length", length)):
            check_type(name, value, int | None, "a whole number")
        with self._lock:
            self._check()
            recording = self._catalog.recording(recording_id)
            recorder = self._recorders.get(recording_id)
            context = self._context(recording)
            start = recording.start_position if position is None else position
            self._check_position(recording_id, context, start)
            if length is not None and length < 0:
                raise UsageError("length", found=str(length), expected="0 or more")
            end = FOREVER if length is None else start + length
            source = ReplaySource(self._store, context, recorder)
            replay = Replay(source, start, end, follow=follow, timeout_s=timeout_s, on_close=self._replays.discard)
            self._replays.add(replay)
            return replay

    def _context(self, recording: Recording) -> ScanContext:
        segments = segment_map(recording)
        limit = self.recorded_position(recording.recording_id)
        kind, plain = self.options.checksum, tuple[int, ...]()
        start, length = recording.start_position, recording.segment_file_length
        if limit > start:
            first, last = segments.base(start) + length, segments.base(limit - 1)
            middle = segments.base((start + limit) // 2)
            starts = {start, *(base for base in (first, middle, last) if start < base < limit)}
            reader = SegmentReader(self._storage, segments)
            with contextlib.closing(reader):
                kind, plain = detect_checksum(reader, sorted(starts))
        if kind != "none" and recording.session_id not in plain:
            plain = (*plain, recording.session_id)  # as ArchiveStore.geometry
        geometry = Geometry(
            recording.initial_term_id,
            recording.term_buffer_length,
            recording.stream_id,
            recording.mtu_length,
            limit,
            plain,
        )
        return ScanContext(segments, geometry, limit, None, kind, False)

    def _check_position(self, recording_id: int, context: ScanContext, position: int) -> None:
        start, limit = context.segments.start_position, context.limit
        if not start <= position <= limit or position % FRAME_ALIGNMENT:
            expected = f"a multiple of {FRAME_ALIGNMENT} from {start} to {limit}"
            raise UsageError(f"recording {recording_id}", found=f"position {position}", expected=expected)
        if not is_frame_boundary(self._storage, context, position):
            raise UsageError(f"recording {recording_id}", found=f"position {position}", expected="a frame's start")
