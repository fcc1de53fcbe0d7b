"""Generates the folder of an archive or a cluster node of any size, from the format's description: for tests of cost.

Each segment has one term, with messages at its start and padding after them, which is a hole in the file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from everlog.aeron.archive.format.segments import segment_name
from everlog.aeron.cluster.format.recording_log import SNAPSHOT, TERM, encode_entry
from everlog.aeron.cluster.protocol.codec import encode
from everlog.aeron.cluster.protocol.log import NewLeadershipTermEvent
from everlog.aeron.cluster.protocol.snapshot import SnapshotMarker
from everlog.aeron.cluster.protocol.values import ClusterTimeUnit, SnapshotMark
from everlog.aeron.frames.constants import NULL_POSITION, TYPE_DATA, TYPE_PADDING, UNFRAGMENTED, align
from everlog.aeron.layouts import CatalogHeader, DataHeader, DescriptorHeader, RecordingDescriptor

TERM_LENGTH = 64 << 10
STREAM_ID = 10
SESSION_ID = 5
TIME_MS = 1_700_000_000_000
_ALIGNMENT = 64
_TERM_FRAME_BYTES = 96


def _one_message(segment: int) -> Sequence[bytes]:
    return [bytes(range(32))]


@dataclass(frozen=True, slots=True)
class MadeRecording:
    """A recording of ``segments`` segments, which ends after its last message. With ``is_active`` it has no stop
    position; with ``has_gaps`` every second file is missing. ``messages`` returns the messages of a segment, given its
    number. ``segment_length`` may be longer than a term if the recording has one segment."""

    recording_id: int
    segments: int = 1
    is_active: bool = False
    has_gaps: bool = False
    messages: Callable[[int], Sequence[bytes]] = _one_message
    segment_length: int = TERM_LENGTH

    @property
    def end(self) -> int:
        """The position after the last message."""
        last = self.segments - 1
        return last * TERM_LENGTH + sum(align(DataHeader.size + len(message)) for message in self.messages(last))


def write_archive(folder: Path, recordings: list[MadeRecording]) -> Path:
    """Write the folder of an archive that is not running: it has no mark file."""
    folder.mkdir(parents=True)
    catalog = CatalogHeader.pack(
        version=3 << 16 | 1 << 8, length=32, next_recording_id=len(recordings), alignment=_ALIGNMENT
    )
    for recording in recordings:
        catalog += catalog_entry(recording)
        for number in range(recording.segments):
            if not (recording.has_gaps and number % 2):
                _write_segment(folder, recording, number)
    (folder / "archive.catalog").write_bytes(catalog + bytes(4096))
    return folder


def catalog_entry(recording: MadeRecording) -> bytes:
    """Return a recording's catalog entry, padded."""
    body = RecordingDescriptor.pack(
        recording_id=recording.recording_id,
        start_timestamp=TIME_MS,
        stop_timestamp=-1 if recording.is_active else TIME_MS,
        stop_position=NULL_POSITION if recording.is_active else recording.end,
        segment_file_length=recording.segment_length,
        term_buffer_length=TERM_LENGTH,
        mtu_length=1408,
        session_id=SESSION_ID,
        stream_id=STREAM_ID,
    )
    body += bytes(12)  # three empty texts
    entry = DescriptorHeader.pack(length=len(body), state=1) + body
    return entry.ljust(align(len(entry), _ALIGNMENT), b"\0")


def _write_segment(folder: Path, recording: MadeRecording, number: int) -> None:
    base = number * TERM_LENGTH
    data = b""
    for message in recording.messages(number):
        data += frame(base + len(data), message)
    if number < recording.segments - 1:
        data += frame(base + len(data), b"", TERM_LENGTH - len(data))
    with open(folder / segment_name(recording.recording_id, base), "wb") as file:
        file.write(data)
        file.truncate(recording.segment_length)


def frame(position: int, payload: bytes, padding: int = 0) -> bytes:
    """Return a message's frame; with ``padding``, the header of a padding frame of that length."""
    header = DataHeader.pack(
        frame_length=padding or DataHeader.size + len(payload),
        flags=UNFRAGMENTED,
        type=TYPE_PADDING if padding else TYPE_DATA,
        term_offset=position % TERM_LENGTH,
        session_id=SESSION_ID,
        stream_id=STREAM_ID,
        term_id=position // TERM_LENGTH,
    )
    data = header + payload
    return data.ljust(align(len(data)), b"\0")


def write_cluster(folder: Path, *, terms: int, snapshots: int = 0) -> Path:
    """Write a node's folder and its archive's: ``terms`` leadership terms, one in each segment of the log, and
    ``snapshots`` snapshots of the consensus module and of one service, taken at the log's end. It has no mark file.
    Return the node's folder."""
    log = MadeRecording(0, terms, messages=lambda term: [_term_begun(term)])
    # A snapshot's type is 2 for a service, 1 for the consensus module, whose snapshot comes last.
    taken = [
        MadeRecording(1 + number, messages=lambda _, number=number: _markers(2 - number % 2, log.end, terms - 1))  # type: ignore[misc]
        for number in range(2 * snapshots)
    ]
    write_archive(folder / "archive", [log, *taken])
    entries = [_entry(0, term, -1 if term == terms - 1 else (term + 1) * TERM_LENGTH) for term in range(terms)]
    entries += [_entry(r.recording_id, terms - 1, log.end, -(1 - r.recording_id % 2)) for r in taken]
    cluster = folder / "cluster"
    cluster.mkdir()
    (cluster / "recording.log").write_bytes(b"".join(entries))
    return cluster


def _entry(recording_id: int, term: int, position: int, service_id: int | None = None) -> bytes:
    return encode_entry(
        recording_id=recording_id,
        leadership_term_id=term,
        term_base_log_position=term * TERM_LENGTH,
        log_position=position,
        timestamp=TIME_MS,
        service_id=-1 if service_id is None else service_id,
        type=TERM if service_id is None else SNAPSHOT,
    )


def _term_begun(term: int) -> bytes:
    """Return the first message of a term."""
    base = term * TERM_LENGTH
    end = base + _TERM_FRAME_BYTES
    return encode(NewLeadershipTermEvent(term, end, TIME_MS, base, 0, 0, ClusterTimeUnit.MILLIS))


def _markers(type_id: int, position: int, term: int) -> list[bytes]:
    """Return the messages of an empty snapshot: its begin and end marks."""
    return [
        encode(SnapshotMarker(type_id, position, term, 0, mark, ClusterTimeUnit.MILLIS))
        for mark in (SnapshotMark.BEGIN, SnapshotMark.END)
    ]
