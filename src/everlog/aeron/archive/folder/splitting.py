"""Cuts a recording into splits: at segments, and inside large segments at terms.

Neither a frame nor a message crosses the end of its term, so that each term begins with a new message. (Aeron's
TermAppender and ExclusiveTermAppender put a message that does not fit into the next term.)
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from everlog.aeron.archive.folder.archive import ArchiveFolder
from everlog.aeron.archive.folder.recordings import Recording
from everlog.aeron.archive.format.segments import SegmentMap, SegmentReader
from everlog.aeron.frames.constants import FLAG_BEGIN, HEADER_LENGTH, TYPE_DATA
from everlog.aeron.frames.position import term_start
from everlog.aeron.layouts import DataHeader
from everlog.core.files.storage import Storage
from everlog.core.splits import Split
from everlog.errors import StoreUnavailable

MAX_SPLITS = 65_536
"""The most splits of a recording, so that a damaged stop position does not fill the memory."""
FEW_SPLITS = 1024
"""If a recording would have more splits, its files are listed, and nothing is cut after the last file."""


@dataclass(frozen=True, slots=True)
class SegmentFiles:
    """The files of a recording. ``list_numbers`` returns the numbers in their names; it lists the whole archive, while
    ``is_whole`` checks one file without a listing."""

    storage: Storage
    segments: SegmentMap
    list_numbers: Callable[[], list[int]]

    def is_whole(self, base: int) -> bool:
        """Whether the file that begins at position ``base`` exists in its full length."""
        try:
            return self.storage.size(self.segments.name(base)) >= self.segments.segment_length
        except StoreUnavailable:
            return False

    def end(self) -> int:
        """Return the position after the last file."""
        bases = self.segments.bases(self.list_numbers())
        return max(bases) + self.segments.segment_length if bases else self.segments.start_position


def cut(files: SegmentFiles, first: int, stop: int, split_bytes: int) -> Iterator[int]:
    """Yield the positions, strictly between ``first`` and ``stop``, that cut a recording into splits of about
    ``split_bytes``: beginnings of segments and, if a segment is longer than that, of terms inside it. A segment whose
    file is missing or short is not cut inside, so that its missing bytes are reported as one fault."""
    segments = files.segments
    length = segments.segment_length
    if stop - first > FEW_SPLITS * max(split_bytes, segments.term_length):
        stop = min(stop, files.end())
    least = (stop - first) // MAX_SPLITS
    step = max(split_bytes // length, 1, least // length) * length
    inside = max(split_bytes // segments.term_length, 1, -(-least // segments.term_length)) * segments.term_length
    position = first
    while position < stop:
        base = segments.base(position)
        following = min(base + step, stop)
        if step == length and inside < length and files.is_whole(base):
            # As many pieces as needed, of equal size.
            terms = length // segments.term_length
            pieces = -(-length // inside)
            marks = (base + terms * k // pieces * segments.term_length for k in range(1, pieces))
            yield from (mark for mark in marks if position < mark < following)
        position = following
        if position < stop:
            yield position


def time_of_first(reader: SegmentReader, position: int, factor: int) -> int | None:
    """Return the time of the message that begins at ``position``: the frame's reserved value times ``factor``, in
    nanoseconds. ``None`` if no term or no message begins there, or if the value is 0."""
    segments = reader.segments
    if position != segments.start_position and position != term_start(position, segments.term_length):
        return None
    header = reader.read(position, HEADER_LENGTH)
    if len(header) < HEADER_LENGTH:
        return None
    frame = DataHeader.unpack_from(header)
    if frame.frame_length <= HEADER_LENGTH or frame.type != TYPE_DATA or not frame.flags & FLAG_BEGIN:
        return None
    return int(frame.reserved_value) * factor or None  # 0 if the publisher sets no value


def split_recording(
    archive: ArchiveFolder, recording: Recording, start: int | None, end: int | None, split_bytes: int
) -> list[Split]:
    """Split a recording at segments, or at terms inside large segments. A message belongs to the split in which it
    begins. A recording without any files has no splits."""
    if archive.is_purged(recording):
        return []
    context = archive.scan_context(recording)
    first = recording.start_position if start is None else max(start, recording.start_position)
    stop = context.limit if end is None else min(end, context.limit)
    files = SegmentFiles(
        archive.storage, context.segments, lambda: archive.segment_index().get(recording.recording_id, [])
    )
    marks = cut(files, first, stop, split_bytes)
    edges = [first, *marks, stop] if first < stop else []
    found = [Split(str(recording.recording_id), a, b, b - a, context) for a, b in itertools.pairwise(edges)]
    if found:
        found[-1] = replace(found[-1], end=end)
    return found
