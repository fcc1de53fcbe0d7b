"""Purging the oldest segments of a recording: up to a time, and handing each segment over before it is freed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from everlog.aeron.archive.folder.recordings import Recording
from everlog.aeron.archive.maintenance.segment_sink import Segment, SegmentSink
from everlog.aeron.archive.store import ArchiveStore
from everlog.core.files.storage import LocalStorage
from everlog.core.report import Fault, Severity
from everlog.core.store import raise_fault


class SegmentPurger(Protocol):
    """An open archive, or its :class:`~everlog.aeron.archive.maintenance.operations.Maintenance`."""

    def segments_before(self, recording_id: int, position: int) -> list[tuple[int, int, str]]:
        """List the segments before a position, each with its start, its end and its file name."""

    def purge_segments(self, recording_id: int, new_start_position: int) -> int:
        """Move the start of a recording forward, and delete the segments before it. Returns the number deleted."""


@dataclass(frozen=True, slots=True)
class PurgedSegment:
    """A freed segment. ``taken_by`` says where its copy is; ``None`` if it was not handed over."""

    segment: Segment
    taken_by: str | None


def position_at_time(store: ArchiveStore, recording: Recording, end: int, time_ns: int) -> int:
    """Return the position before which all messages are older than ``time_ns`` (nanoseconds since 1970), at most
    ``end``. A segment without any message time (0 means none) never counts as old: the position is at most its start.
    Messages belong to the segment in which they begin; the store's options say where their times are. Raises
    :class:`CorruptData` for damage before that position."""
    segments, begin = store.folder.segment_map(recording), recording.start_position
    while begin < end:
        following = min(segments.base(begin) + segments.segment_length, end)
        is_timed = False
        columns = ["position", "timestamp_ns"]
        for batch in store.scan(
            str(recording.recording_id), columns=columns, start=begin, end=following, on_fault=_raise_damage
        ):
            positions, times = (batch.data[name].to_list(batch.row_count) for name in columns)
            for position, time in zip(positions, times, strict=True):
                if time is None or time <= 0:
                    continue
                is_timed = True
                if time >= time_ns:
                    return int(position)
        if not is_timed:
            return begin
        begin = following
    return end


def _raise_damage(fault: Fault) -> None:
    if fault.severity is Severity.FAULT:
        raise_fault(fault)


def purge(
    archive: SegmentPurger, storage: LocalStorage, recording_id: int, new_start: int, hand_over: SegmentSink | None
) -> Iterator[PurgedSegment]:
    """Move a recording's start to ``new_start``: delete the segments before it one by one, the oldest first, and yield
    each after its deletion. With ``hand_over``, each is handed over first: if that fails or the process is killed, this
    segment and the later ones still belong to the recording. Raises as :meth:`Maintenance.purge_segments` and
    :meth:`SegmentSink.give` do."""
    for start, end, name in archive.segments_before(recording_id, new_start):
        segment = Segment(recording_id, name, start, end)
        taken_by = None if hand_over is None else hand_over.give(storage, segment)
        archive.purge_segments(recording_id, end)
        yield PurgedSegment(segment, taken_by)
