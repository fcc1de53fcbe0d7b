"""The open replays of an archive. Source: ArchiveConductor.startReplay."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from everlog.aeron.archive.folder.boundaries import is_frame_boundary
from everlog.aeron.archive.folder.recordings import Recording, segment_map
from everlog.aeron.archive.folder.scan import ScanContext
from everlog.aeron.archive.format.checksums import detect_checksum
from everlog.aeron.archive.format.segments import SegmentReader
from everlog.aeron.archive.recording.replay import Replay, ReplaySource
from everlog.aeron.archive.store import ArchiveStore
from everlog.aeron.archive.writing.recorder import Recorder
from everlog.aeron.family_options import Checksum
from everlog.aeron.frames.constants import FRAME_ALIGNMENT
from everlog.aeron.frames.position import FOREVER
from everlog.aeron.frames.walk import Geometry
from everlog.core.files.storage import Storage
from everlog.core.options import check_type
from everlog.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class ReplayFolder:
    """What replays read: the folder, its current recordings, and the recorders of active ones. ``checksum`` is the kind
    for recordings that have no frames yet; ``recorded_position`` returns the position after a recording's last
    acknowledged message."""

    storage: Storage
    store: ArchiveStore
    checksum: Checksum
    recording: Callable[[int], Recording]
    recorders: Mapping[int, Recorder]
    recorded_position: Callable[[int], int]


class OpenReplay(Protocol):
    """A replay under way, of this process or to a client of the archive's service."""

    recording_id: int
    position: int

    @property
    def segment_base(self) -> int:
        """The position at which the segment that is read next begins."""

    def close(self) -> None:
        """End it, now or soon. Any thread may call it."""


class Replays:
    """Opens replays and keeps the set of open ones. The caller holds the archive's lock."""

    def __init__(self, folder: ReplayFolder) -> None:
        self._folder = folder
        self._open: set[OpenReplay] = set()

    def open_replays(self) -> set[OpenReplay]:
        """Copy the set of open replays in one step: replays close in threads that don't hold the lock."""
        return self._open.copy()

    def add(self, replay: OpenReplay) -> None:
        """Keep track of a replay: the segments that it needs are not purged."""
        self._open.add(replay)

    def discard(self, replay: OpenReplay) -> None:
        """Forget a replay that has ended."""
        self._open.discard(replay)

    def end(self, recording_ids: Collection[int]) -> None:
        """Close the replays of the given recordings."""
        for replay in self.open_replays():
            if replay.recording_id in recording_ids:
                replay.close()

    def positions_of(self, recording_id: int) -> list[tuple[int, int]]:
        """Return, for each open replay of a recording, its position and the base of the segment that it reads next."""
        return [(r.position, r.segment_base) for r in self.open_replays() if r.recording_id == recording_id]

    def replay(
        self,
        recording_id: int,
        position: int | None = None,
        length: int | None = None,
        *,
        follow: bool = False,
        timeout_s: float | None = None,
    ) -> Replay:
        """Open a replay and keep track of it until it is closed, as :meth:`Archive.replay` describes."""
        for name, value in (("position", position), ("length", length)):
            check_type(name, value, int | None, "a whole number")
        recording = self._folder.recording(recording_id)
        recorder = self._folder.recorders.get(recording_id)
        context = self.context(recording)
        start = recording.start_position if position is None else position
        self._check_position(recording_id, context, start)
        if length is not None and length < 0:
            raise UsageError("length", found=str(length), expected="0 or more")
        end = FOREVER if length is None else start + length
        source = ReplaySource(self._folder.store, context, recorder)
        replay = Replay(source, start, end, follow=follow, timeout_s=timeout_s, on_close=self._open.discard)
        self._open.add(replay)
        return replay

    def context(self, recording: Recording) -> ScanContext:
        """Return the scan context for a recording's current state."""
        segments = segment_map(recording)
        limit = self._folder.recorded_position(recording.recording_id)
        kind, plain = self._folder.checksum, tuple[int, ...]()
        start, length = recording.start_position, recording.segment_file_length
        if limit > start:
            first, last = segments.base(start) + length, segments.base(limit - 1)
            middle = segments.base((start + limit) // 2)
            starts = {start, *(base for base in (first, middle, last) if start < base < limit)}
            reader = SegmentReader(self._folder.storage, segments)
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
            raise UsageError("position", found=f"{position}, in recording {recording_id}", expected=expected)
        if not is_frame_boundary(self._folder.storage, context, position):
            message = f"recording {recording_id} has no frame that starts at position {position}"
            raise UsageError("position", found=str(position), expected="a frame's start", message=message)
