"""Remembers the last bytes of stopped recordings. With them, followers detect that a recording was truncated and
extended past its old end, which its catalog entry may not show."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from everlog.aeron.archive.folder.archive import ArchiveFolder
from everlog.aeron.archive.folder.recordings import Recording
from everlog.aeron.archive.format.segments import SegmentMap, SegmentReader
from everlog.core.files.storage import LocalStorage, Storage

MARK_BYTES = 256


@dataclass(frozen=True, slots=True)
class _EndMark:
    """``entry``: the catalog entry's values when the mark was made. ``end``: the recording's end; ``data``: the last
    bytes before it."""

    entry: tuple[Any, ...]
    segments: SegmentMap
    end: int
    data: bytes


class EndMarks:
    """Marks of all stopped recordings, at the cost of one small read whenever a recording's catalog entry changes.
    Remote storages, where each read would be a request, get no marks."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._marks: dict[int, _EndMark] = {}

    def poll(self, archive: ArchiveFolder, recordings: Iterable[Recording]) -> set[int]:
        """Return the ids of recordings that were truncated before the end that they had at the previous poll."""
        if not isinstance(self._storage, LocalStorage):
            return set()
        marks: dict[int, _EndMark] = {}
        cut = set()
        for recording in recordings:
            if recording.entry is None:
                continue
            number, entry = recording.recording_id, tuple(recording.entry.values)
            mark = self._marks.get(number)
            if mark is not None and mark.entry == entry:
                marks[number] = mark
                continue
            if mark is not None and self._is_cut(mark, recording):
                cut.add(number)
            if recording.stop_position is not None:
                segments = archive.segment_map(recording)
                data = self._read(segments, recording.stop_position)
                marks[number] = _EndMark(entry, segments, recording.stop_position, data)
        self._marks = marks
        return cut

    def _is_cut(self, mark: _EndMark, recording: Recording) -> bool:
        """Whether the bytes before the mark's end have changed; purged bytes are not compared."""
        return recording.start_position < mark.end and self._read(mark.segments, mark.end) != mark.data

    def _read(self, segments: SegmentMap, end: int) -> bytes:
        if end <= segments.start_position:
            return b""
        begin = max(end - MARK_BYTES, segments.base(end - 1))
        reader = SegmentReader(self._storage, segments)
        try:
            return reader.read(begin, end - begin)
        finally:
            reader.close()
