"""Purging the oldest segments of a recording: how far, by time, and each segment handed over before it is freed."""

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
        """See :meth:`Maintenance.segments_before`."""

    def purge_segments(self, recording_id: int, new_start_position: int) -> int:
        """See :meth:`Maintenance.purge_segments`."""


@dataclass(frozen=True, slots=True)
class PurgedSegment:
    """A segment that was freed; ``taken_by`` says where it is now, ``None`` where nobody wanted it."""

    segment: Segment
    taken_by: str | None


def position_at_time(store: ArchiveStore, recording: Recording, end: int, time_ns: int) -> int:
    """The position before which all is older than ``time_ns``, in nanoseconds since 1970, looking no further than
    ``end``. A segment of which no message has a time (0 is none) is not taken for an old one: the position is at most
    its start. Messages belong to the segment in which they begin; the store's options say where their times are.
    Raises :class:`CorruptData` for damage before that."""
    segments, begin = store.folder.segment_map(recording), recording.start_position
    while begin < end:
        behind = min(segments.base(begin) + segments.segment_length, end)
        is_timed = False
        columns = ["position", "timestamp_ns"]
        for batch in store.scan(
            str(recording.recording_id), columns=columns, start=begin, end=behind, on_fault=_raise_damage
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
        begin = behind
    return end


def _raise_damage(fault: Fault) -> None:
    if fault.severity is Severity.FAULT:
        raise_fault(fault)


def purge(
    archive: SegmentPurger, storage: LocalStorage, recording_id: int, new_start: int, hand_over: SegmentSink | None
) -> Iterator[PurgedSegment]:
    """Let a recording start at ``new_start`` and delete the segments before, one after another, the oldest first; each
    is given when it is gone. With ``hand_over`` each is handed over first: where that fails, or the process is killed,
    this segment and those behind it are still the recording's. Raises as :meth:`Maintenance.purge_segments` and
    :meth:`SegmentSink.give` do."""
    for start, end, name in archive.segments_before(recording_id, new_start):
        segment = Segment(recording_id, name, start, end)
        taken_by = None if hand_over is None else hand_over.give(storage, segment)
        archive.purge_segments(recording_id, end)
        yield PurgedSegment(segment, taken_by)
