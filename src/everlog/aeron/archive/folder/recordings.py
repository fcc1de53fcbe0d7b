"""Recordings, read from the catalog or, if it lacks them, from their segment files."""

from __future__ import annotations

import itertools
import re
from collections.abc import ItemsView, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from everlog.aeron.archive.format.catalog import CATALOG_NAME, CatalogEntry
from everlog.aeron.archive.format.segments import MAX_POSITION, SPARE_BYTES, Naming, SegmentMap, segment_name
from everlog.aeron.frames.constants import (
    FRAME_ALIGNMENT,
    HEADER_LENGTH,
    MAX_FRAME_LENGTH,
    MAX_SEGMENT_LENGTH,
    MIN_TERM_LENGTH,
    NULL_POSITION,
    NULL_TIMESTAMP,
    TYPE_DATA,
    is_power_of_two,
)
from everlog.aeron.frames.position import wrap_int32
from everlog.aeron.layouts import DataHeader
from everlog.core.files.storage import ReadableFile, Storage
from everlog.core.report import Fault, Severity

SEARCH_BYTES = 1 << 20
_NOT_ZERO = re.compile(rb"[^\0]")


@dataclass(slots=True)
class Recording:
    """A recording. ``stop_position`` is ``None`` while it is active; ``mtu_length`` is 0 if it is unknown (no
    catalog entry)."""

    recording_id: int
    state: str
    start_position: int
    stop_position: int | None
    initial_term_id: int
    segment_file_length: int
    term_buffer_length: int
    mtu_length: int
    session_id: int
    stream_id: int
    entry: CatalogEntry | None = None

    @property
    def is_deleted(self) -> bool:
        """Whether its files are gone for good."""
        return self.state == "DELETED"

    @property
    def is_active(self) -> bool:
        """Whether it has no stop position yet: it is being recorded, or its archive was killed."""
        return self.stop_position is None

    @property
    def start_timestamp(self) -> int | None:
        """When it was started, in milliseconds since 1970; ``None`` without a catalog entry."""
        return None if self.entry is None else int(self.entry.values[3])

    @property
    def stop_timestamp(self) -> int | None:
        """When it was stopped, in milliseconds since 1970; ``None`` if the catalog has no stop time."""
        timestamp = NULL_TIMESTAMP if self.entry is None else self.entry.values[4]
        return None if timestamp == NULL_TIMESTAMP else timestamp

    @property
    def truncation_pending(self) -> bool:
        """Whether a truncation by everlog was interrupted, so that everything after the stop position has to be
        deleted. It is recognised by a stop position without a stop time."""
        return self.stop_position is not None and self.entry is not None and self.stop_timestamp is None

    @property
    def details(self) -> dict[str, Any]:
        """The recording's properties as plain values: from the catalog, or from the files if it has no entry."""
        details: dict[str, Any] = {
            "state": self.state,
            "stream_id": self.stream_id,
            "session_id": self.session_id,
            "start_position": self.start_position,
            "stop_position": self.stop_position,
            "initial_term_id": self.initial_term_id,
            "segment_file_length": self.segment_file_length,
            "term_buffer_length": self.term_buffer_length,
            "active": self.stop_position is None and self.state != "DELETED",
            "in_catalog": self.entry is not None,
        }
        if self.entry is not None:
            values, texts = self.entry.values, self.entry.texts
            details["mtu_length"] = self.mtu_length
            details["channel"] = details["original_channel"] = texts["original_channel"]
            details["stripped_channel"] = texts["stripped_channel"]
            details["source"] = details["source_identity"] = texts["source_identity"]
            details["start_timestamp"] = self.start_timestamp
            details["stop_timestamp"] = self.stop_timestamp
            details["control_session_id"] = values[0]
            details["correlation_id"] = values[1]
        return details


class RecordingDetails(Mapping[str, Any]):
    """``Recording.details`` of a catalog entry, decoded on access: an archive may list very many."""

    __slots__ = ("_entry",)

    def __init__(self, entry: CatalogEntry) -> None:
        self._entry = entry

    def _made(self) -> dict[str, Any]:
        return recording_of(self._entry).details

    def __getitem__(self, name: str) -> Any:
        return self._made()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._made())

    def __len__(self) -> int:
        return len(self._made())

    def items(self) -> ItemsView[str, Any]:
        """Return names and values; decodes the entry once."""
        return self._made().items()

    def __repr__(self) -> str:
        return repr(self._made())


def recording_of(entry: CatalogEntry) -> Recording:
    """Return the recording of a catalog entry."""
    _, _, recording_id, _, _, start, stop, initial, segment, term, mtu, session_id, stream_id = entry.values
    stop_position = None if stop == NULL_POSITION else stop
    return Recording(
        recording_id, entry.state, start, stop_position, initial, segment, term, mtu, session_id, stream_id, entry
    )


def invalid_note(recording: Recording) -> Fault:
    """Return the warning for a recording that was marked as invalid; it is read all the same."""
    entry = recording.entry
    return Fault(
        "recording-invalid",
        CATALOG_NAME,
        None if entry is None else entry.offset,
        "state INVALID",
        "VALID",
        "nothing by itself: its frames are read",
        f"everlog archive DIR mark-valid {recording.recording_id}, once its frames are verified",
        Severity.NOTE,
        str(recording.recording_id),
    )


def segment_map(recording: Recording) -> SegmentMap:
    """Return the map from a recording's positions to segment files, as current archives name them."""
    return SegmentMap(
        recording.recording_id,
        recording.start_position,
        recording.term_buffer_length,
        recording.segment_file_length,
    )


def recording_from_files(
    storage: Storage, recording_id: int, numbers: list[int], naming: Naming = Naming.POSITION
) -> Recording | None:
    """Return a recording without a catalog entry, from the frame headers in its files; ``None`` if they hold no frame.
    Its end is unknown. If the file names count segments, its start is unknown, too: positions then count from the
    beginning of the term in which it started."""
    for number in numbers:
        with storage.open(segment_name(recording_id, number)) as file:
            size = file.size()
            segment_length = _segment_length(size)
            for at, header in _first_frames(file, size):
                term_length = _term_length(file, at, header, segment_length or MAX_SEGMENT_LENGTH)
                if segment_length == 0:
                    steps = [b - a for a, b in itertools.pairwise(numbers) if is_power_of_two(b - a)]
                    segment_length = max(min(steps, default=term_length), term_length)
                base = number * segment_length if naming is Naming.INDEX else number
                if base + at > MAX_POSITION:
                    return None
                position = base + at
                initial = wrap_int32(header.term_id - position // term_length)
                ids = header.session_id, header.stream_id
                if naming is Naming.INDEX and number:
                    position = 0
                elif at >= term_length:
                    position = base
                return Recording(recording_id, "UNKNOWN", position, None, initial, segment_length, term_length, 0, *ids)
    return None


def _segment_length(size: int) -> int:
    """Return the segment length for a file of that size; 0 if the file was cut."""
    lengths = (size, size - SPARE_BYTES)
    return next((n for n in lengths if is_power_of_two(n) and MIN_TERM_LENGTH <= n <= MAX_SEGMENT_LENGTH), 0)


def _first_frames(file: ReadableFile, size: int) -> Iterator[tuple[int, DataHeader]]:
    """Yield the first place in a segment file that can be a frame, if any. Zeros come before it if the recording starts
    in the middle of a term."""
    offset = 0
    while offset < size:
        data = file.read_at(offset, SEARCH_BYTES)
        if not data:
            return
        found = _NOT_ZERO.search(data)
        if found is None:
            offset += len(data)
            continue
        at = offset + found.start() // FRAME_ALIGNMENT * FRAME_ALIGNMENT
        data = file.read_at(at, SEARCH_BYTES)
        for shift in range(0, len(data) - HEADER_LENGTH + 1, FRAME_ALIGNMENT):
            header = DataHeader.unpack_from(data, shift)
            if _may_be_frame(header, at + shift):
                yield at + shift, header
                return
        offset = at + len(data)


def _may_be_frame(header: DataHeader, offset: int) -> bool:
    # Terms are at least 64 KiB long and segments begin with a term, so term offset and file offset have the same low
    # bits.
    low = MIN_TERM_LENGTH - 1
    fits = header.term_offset & low == offset & low and 0 <= header.term_offset <= offset
    return header.type == TYPE_DATA and HEADER_LENGTH <= header.frame_length <= MAX_FRAME_LENGTH and fits


def _term_length(file: ReadableFile, at: int, first: DataHeader, segment_length: int) -> int:
    """Return the distance to the start of the next term; the segment's length if no other term is found."""
    start = at - first.term_offset
    length = MIN_TERM_LENGTH
    while length < segment_length:
        data = file.read_at(start + length, HEADER_LENGTH)
        if len(data) == HEADER_LENGTH:
            header = DataHeader.unpack_from(data)
            follows = header.term_id == wrap_int32(first.term_id + 1) and header.term_offset == 0
            if follows and header.stream_id == first.stream_id and header.frame_length >= HEADER_LENGTH:
                return length
        length *= 2
    return segment_length
